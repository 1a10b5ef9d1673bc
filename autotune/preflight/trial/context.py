"""What the checks of one trial look at."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from autotune.errors import Problem
from autotune.preflight.memory import Capacity
from autotune.spec.values import FlatConfig


@dataclass(frozen=True, kw_only=True, slots=True)
class TrialContext:
    """One trial before its launch.

    Attributes:
        backend: Name of the backend; ``native`` or ``verl``.
        config: The complete configuration in the backend's own names.
        gpus: GPUs of the trial.
        here: Trials run on this machine, so that its files and ports are theirs.
        room: Memory of the device that one rank gets.
        python: The interpreter that trains, where it is not this one.
        workdir: Where a program of somebody else's starts; empty = in the trial's own directory.
    """

    backend: str
    config: FlatConfig
    gpus: float
    here: bool
    room: Capacity
    python: str = ""
    workdir: str = ""

    @property
    def ranks(self) -> int:
        """Processes that train together."""
        return max(1, int(self.gpus))

    @property
    def model_key(self) -> str:
        """The configuration's own path for the model."""
        return "model.path" if self.backend == "native" else "actor_rollout_ref.model.path"


TrialRule: TypeAlias = Callable[[TrialContext], Iterable[Problem]]
