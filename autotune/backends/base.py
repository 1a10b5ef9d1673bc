"""What every backend offers: a description of its configuration, a check before launch, and a command to run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from autotune.errors import Problem
from autotune.spec.types import TrainerSpec
from autotune.spec.values import FlatConfig


@dataclass(frozen=True, kw_only=True, slots=True)
class Description:
    """What a backend knows about a trainer before anything runs.

    Attributes:
        config: The complete configuration with the space's fixed overrides applied, flat.
        metrics: Metric name -> one-line description with its unit.
        steps: Training steps of a full trial.
        steps_path: The configuration's own path for ``steps``.
        seed_path: The configuration's own path for the seed.
        unread: Path of each key that changes nothing in this configuration -> the path whose value decides that.
    """

    config: FlatConfig
    metrics: Mapping[str, str]
    steps: int
    steps_path: str
    seed_path: str
    unread: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Command:
    """A process to start in the trial directory.

    Attributes:
        argv: The program and its arguments.
        env: What is added to the environment.
        preload: A module whose import does most of the start and nothing else: no thread, no CUDA. With it ``argv`` is
            ``(sys.executable, "-m", …)``, and the process may be forked from one that has imported the module.
    """

    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    preload: str = ""


class Backend(Protocol):
    """Runs one kind of trainer as a process that keeps the trial process contract.

    The contract: the process starts in the trial directory, reads ``config.yaml`` there, appends one JSON object per
    step to ``metrics.jsonl``, writes checkpoints to ``checkpoints/step_N`` and announces them, ends on SIGTERM with a
    checkpoint, and writes ``result.json``. Started again in the same directory it goes on from its newest checkpoint.
    """

    name: str

    def describe(self, trainer: TrainerSpec) -> Description:
        """Composes the configuration with the fixed overrides.

        Raises:
            InvalidConfigError: With every problem of the configuration name and the overrides; each ``Problem.path``
                starts with ``trainer.``, as in the space file.
        """
        ...

    def check(self, config: FlatConfig) -> tuple[Problem, ...]:
        """Everything that is wrong with one complete configuration, without starting anything."""
        ...

    def prepare(self, config: FlatConfig, directory: Path) -> Command:
        """Writes what the process reads (``config.yaml``) into the trial directory and says how to start it."""
        ...

    def continues(self, shorter: FlatConfig, longer: FlatConfig) -> bool:
        """Whether a run of ``longer`` begins exactly like one of ``shorter`` and can go on from its checkpoint.

        That is so where only the number of steps differs, and nothing in the run depends on it.
        """
        ...

    def command_line(self, trainer: TrainerSpec, config: FlatConfig) -> Sequence[str]:
        """What a person types to run one complete configuration without this project, from the working directory.

        Raises:
            InvalidConfigError: If the trainer section cannot be used.
        """
        ...


@runtime_checkable
class Changeable(Protocol):
    """A backend whose runs can go on from a checkpoint with other values, as population based training needs it."""

    def fixed(self, config: FlatConfig, paths: Iterable[str]) -> Mapping[str, str]:
        """Of these paths those that a run cannot change when it goes on, each with the reason.

        Args:
            config: The complete configuration before the searched parameters.
            paths: Dotted paths.
        """
        ...

    def until(self, config: FlatConfig, step: int) -> FlatConfig:
        """The configuration of the same run that ends after a step, with a checkpoint."""
        ...


@runtime_checkable
class Preloading(Protocol):
    """A backend whose processes may be forked from one that has imported what they import."""

    def command(self, config: FlatConfig) -> Command:
        """What ``prepare`` answers, without writing anything."""
        ...


@runtime_checkable
class Distributed(Protocol):
    """A backend whose trial is one process for each of its GPUs."""

    def on_ranks(self, command: Command, ranks: int) -> Command:
        """The command that starts the trial on several ranks of this machine.

        Args:
            command: As ``prepare`` says it, for one rank.
            ranks: At least 2.
        """
        ...
