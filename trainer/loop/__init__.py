"""The training loop and what it consists of."""

from __future__ import annotations

from trainer.loop.mathematics import Mathematics, ppo_mathematics
from trainer.loop.session import run_session

__all__ = ["Mathematics", "ppo_mathematics", "run_session"]
