"""What the bank holds: the tasks, the space that their configurations are drawn from, and the order of the runs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

REPEATED = 10
"""Configurations per task that are run with every seed of ``SEEDS``; the others with the first alone."""
SEEDS = (0, 1, 2)

Value = float | int | str


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """What is trained.

    Attributes:
        overrides: Of the shipped configuration.
        steps: Training steps of a full run.
        configurations: How many are run.
    """

    overrides: Mapping[str, Value]
    steps: int = 40
    configurations: int = 102


TASKS: Mapping[str, Task] = {
    "digits": Task(overrides={"data": "digits"}),
    "arithmetic": Task(overrides={"data": "arithmetic"}),
    # Paid by one reward, evaluated by another.
    "exploitable": Task(overrides={"data": "digits", "reward": "partial_to_nines"}),
    # The model can add, mostly, and is paid for exact answers alone: few configurations make much of it, many ruin it.
    "sums": Task(
        overrides={"data": "arithmetic", "reward": "exact_match", "model.warm_start.steps": 2000},
        steps=60,
        configurations=400,
    ),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Axis:
    """One hyperparameter: a range on a scale, or a list of values.

    Attributes:
        low: Smallest value; ignored with ``choices``.
        high: Largest value; ignored with ``choices``.
        log: Whether the scale is logarithmic.
        whole: Whether values are integers.
        choices: The values of a list.
    """

    low: float = 0.0
    high: float = 1.0
    log: bool = False
    whole: bool = False
    choices: tuple[Value, ...] = ()

    def at(self, place: float) -> Value:
        """The value at a place from 0 to 1."""
        if self.choices:
            return self.choices[min(len(self.choices) - 1, int(place * len(self.choices)))]
        if self.whole:
            return int(min(self.high, math.floor(self.low + place * (self.high - self.low + 1))))
        if self.log:
            return float(f"{self.low * (self.high / self.low) ** place:.6g}")
        return float(f"{self.low + place * (self.high - self.low):.6g}")


SPACE: Mapping[str, Axis] = {
    "trainer.optim.lr": Axis(low=1e-5, high=3e-2, log=True),
    "algorithm.kl_ctrl.kl_coef": Axis(low=3e-4, high=1.0, log=True),
    "algorithm.kl_ctrl.type": Axis(choices=("fixed", "adaptive")),
    "algorithm.clip_ratio": Axis(low=0.02, high=0.5, log=True),
    "algorithm.entropy_coeff": Axis(low=1e-5, high=0.1, log=True),
    "algorithm.adv_estimator": Axis(choices=("gae", "reinforce_pp")),
    "trainer.ppo_epochs": Axis(low=1, high=2, whole=True),
    "trainer.mini_batch_size": Axis(choices=(32, 64)),
    "rollout.temperature": Axis(low=0.6, high=1.4),
}
"""Wide on purpose: runs that learn nothing, leave the reference, collapse or stop being finite belong to the bank."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Planned:
    """One run of the plan.

    Attributes:
        task: One of ``TASKS``.
        number: The configuration's number within its task.
        seed: ``trainer.seed``.
        params: The searched values.
    """

    task: str
    number: int
    seed: int
    params: Mapping[str, Value]

    @property
    def name(self) -> str:
        """Names the run in the bank."""
        return f"{self.task}-{self.number:03d}-{self.seed}"

    def overrides(self) -> dict[str, Value]:
        """All overrides of the shipped configuration."""
        task = TASKS[self.task]
        return {**task.overrides, **self.params, "trainer.seed": self.seed, "trainer.total_steps": task.steps}


def plan() -> Iterator[Planned]:
    """All runs, the tasks in turn, so that a bank that was stopped half-way is balanced."""
    from scipy.stats import qmc

    draws = {
        name: qmc.Sobol(len(SPACE), scramble=True, rng=place).random(2 ** math.ceil(math.log2(task.configurations)))
        for place, (name, task) in enumerate(TASKS.items())
    }
    for seed in SEEDS:
        for number in range(max(task.configurations for task in TASKS.values()) if seed == SEEDS[0] else REPEATED):
            for name, task in TASKS.items():
                if number < task.configurations:
                    at = zip(SPACE.items(), draws[name][number], strict=True)
                    params = {path: axis.at(float(place)) for (path, axis), place in at}
                    yield Planned(task=name, number=number, seed=seed, params=params)
