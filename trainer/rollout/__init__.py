"""Rollout engines behind one small interface."""

from __future__ import annotations

from trainer.rollout.build import ENGINES, build_engine, needs_sampler
from trainer.rollout.engine import (
    Request,
    Response,
    RolloutEngine,
    Sampling,
    check_version,
    sample_seed,
)
from trainer.rollout.hf import HfEngine

__all__ = [
    "ENGINES",
    "HfEngine",
    "Request",
    "Response",
    "RolloutEngine",
    "Sampling",
    "build_engine",
    "check_version",
    "needs_sampler",
    "sample_seed",
]
