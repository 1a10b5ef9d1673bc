"""Experiment tracking in MLflow; importing this package does not import mlflow."""

from autotune.tracking.mlflow_tracker import MlflowTracker

__all__ = ["MlflowTracker"]
