"""Rollout engines behind one small interface."""

from __future__ import annotations

from collections.abc import Callable

from trainer.rollout.engine import (
    Request,
    Response,
    RolloutEngine,
    Sampling,
    check_version,
    sample_seed,
)
from trainer.rollout.hf import HfEngine

ENGINES: dict[str, Callable[..., RolloutEngine]] = {"hf": HfEngine}

__all__ = [
    "ENGINES",
    "HfEngine",
    "Request",
    "Response",
    "RolloutEngine",
    "Sampling",
    "check_version",
    "sample_seed",
]
