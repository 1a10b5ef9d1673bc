"""The brain: proposes configurations, judges curves, gives trials their verdicts. No process, no clock of its own."""
