"""Recorded training runs of the built-in model, for measuring searches and detectors; see README.md."""
