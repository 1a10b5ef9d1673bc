"""Shared pieces for the tests of the search core: a small space, and a driver that plays the workers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from autotune.search.book import MemoryBook
from autotune.search.coordinator import Coordinator
from autotune.search.types import EndKind, Launch, Metrics, Outcome, Pause, Stop
from autotune.spec.types import (
    Budget,
    Choice,
    FloatRange,
    IntRange,
    Objective,
    Parameter,
    Resources,
    Retry,
    SamplerSpec,
    Space,
    Start,
    TrainerSpec,
)

BASE = {"lr": 1e-3, "clip": 0.2, "epochs": 1, "kl.type": "fixed", "kl.target": 0.1, "batch": 64}


def parameters(**domains: object) -> dict[str, Parameter]:
    return {
        path.replace("__", "."): Parameter(path=path.replace("__", "."), domain=domain)
        for path, domain in domains.items()
    }


@pytest.fixture(scope="session")
def make_space() -> Callable[..., Space]:
    def make(**changes: object) -> Space:
        defaults: dict[str, object] = {
            "name": "small",
            "trainer": TrainerSpec(),
            "resources": Resources(),
            "search": parameters(
                lr=FloatRange(low=1e-4, high=1e-2, log=True),
                epochs=IntRange(low=1, high=4),
                kl__type=Choice(options=("fixed", "adaptive")),
            ),
            "objective": Objective(metric="eval/reward"),
            "sampler": SamplerSpec(seed=7),
            "budget": Budget(trials=6, parallel=2),
            "retry": Retry(),
            "start_from": (Start(label="default"),),
        }
        return Space(**{**defaults, **changes})

    return make


Curve = Callable[[dict, int], Metrics]


@dataclass
class Players:
    """Plays all workers in turn, one step of each running trial at a time; a later attempt goes on where one paused."""

    coordinator: Coordinator
    curve: Curve
    steps: int = 10
    now: float = 0.0
    running: list[tuple[Launch, int]] = field(default_factory=list)
    reached: dict[int, int] = field(default_factory=dict)

    def play(self, rounds: int = 10_000) -> None:
        for _ in range(rounds):
            self.now += 1.0
            while isinstance(launch := self.coordinator.next_trial(self.now), Launch):
                self.running.append((launch, self.reached.get(launch.attempt.trial, 0)))
            if not self.running:
                return
            self.running = [item for launch, step in self.running if (item := self._step(launch, step + 1)) is not None]

    def _step(self, launch: Launch, step: int) -> tuple[Launch, int] | None:
        metrics = self.curve(dict(launch.config), step)
        verdict = self.coordinator.on_metrics(launch.attempt, step, metrics, float(step), self.now)
        if isinstance(verdict, Pause):
            self.reached[launch.attempt.trial] = step
        if isinstance(verdict, Pause | Stop) or step == self.steps:
            kind = EndKind.STOPPED if isinstance(verdict, Pause | Stop) else EndKind.FINISHED
            self.coordinator.on_end(launch.attempt, Outcome(kind=kind, last_step=step, cost_s=float(step)), self.now)
            return None
        return launch, step


@pytest.fixture
def make_coordinator(make_space: Callable[..., Space]) -> Callable[..., Coordinator]:
    def make(
        book: MemoryBook | None = None, *, fence: str = "t", total_steps: int = 10, **changes: object
    ) -> Coordinator:
        options = {
            key: changes.pop(key) for key in ("deadline", "check", "seed_path", "descent", "explorer") if key in changes
        }
        return Coordinator(
            make_space(**changes), BASE, book or MemoryBook(), fence=fence, total_steps=total_steps, **options
        )

    return make


@pytest.fixture
def play() -> type[Players]:
    return Players
