"""Automated hyperparameter search for the RL post-training of language models."""

__version__ = "0.1.0"
