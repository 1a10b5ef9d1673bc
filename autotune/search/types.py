"""The values the search core speaks in: trials, attempts, what it answers, and how an attempt ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from autotune.spec.values import FlatConfig, JsonValue
from autotune.states import TrialState

Metrics: TypeAlias = Mapping[str, float | None]
"""Metric name -> value of one step; ``None`` stands for a value that was not finite."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """One launch of a trial.

    Attributes:
        trial: The trial's number within its study.
        number: 1 for the first launch of the trial.
        token: Fencing token; a report with another token is refused.
    """

    trial: int
    number: int
    token: str


class EndKind(StrEnum):
    """How an attempt ended, as the worker classified it."""

    FINISHED = "finished"
    """Reached its last step."""
    STOPPED = "stopped"
    """Ended because it was told to, with a checkpoint."""
    OUT_OF_MEMORY = "out_of_memory"
    NON_FINITE = "non_finite"
    CONFIG = "config"
    DATA = "data"
    PORT_IN_USE = "port_in_use"
    WEIGHT_SYNC = "weight_sync"
    NODE = "node"
    """The machine, the Ray worker or the network went away."""
    CRASH = "crash"
    """The process ended without a result and nothing in its log says why."""
    UNKNOWN = "unknown"


INFEASIBLE_KINDS: frozenset[EndKind] = frozenset({EndKind.OUT_OF_MEMORY, EndKind.NON_FINITE, EndKind.CONFIG})
"""The configuration's own fault: repeating it unchanged cannot help, and the sampler must learn from it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """The end of an attempt.

    Attributes:
        last_step: The last training step that was reported.
        cost_s: Seconds the attempt occupied its resources.
        message: What went wrong, for people; empty for a good end.
        hint: What to do about it.
    """

    kind: EndKind
    last_step: int = 0
    cost_s: float = 0.0
    message: str = ""
    hint: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reason:
    """Why a trial was stopped, with the numbers that decided.

    Attributes:
        pruner: The pruner's name, or ``job`` when the job itself ended the trial.
        text: One sentence for people, with its numbers.
        numbers: The same numbers for machines.
    """

    pruner: str
    text: str
    numbers: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Continue:
    """Go on."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Stop:
    """End this trial now, for this reason."""

    reason: Reason


@dataclass(frozen=True, kw_only=True, slots=True)
class Pause:
    """End this trial's process with a checkpoint and free its slot; a later attempt may go on from there."""

    reason: Reason


Verdict: TypeAlias = Continue | Pause | Stop


@dataclass(frozen=True, kw_only=True, slots=True)
class Origin:
    """Where a trial begins that an earlier one has already trained.

    Attributes:
        directory: The earlier trial's directory, absolute or a name beside the trial's own.
        step: The step of its checkpoint.
        name: Which trial it is, for people.
        points: The earlier trial's curve up to that step.
        replaces: The trial gives up checkpoints of its own for it.
    """

    directory: str
    step: int
    name: str
    points: Sequence[Point] = ()
    replaces: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Launch:
    """Start this attempt.

    Attributes:
        config: The complete configuration of the trial, flat.
        directory: Name of the trial's directory inside the job's; attempts of one trial share it, so that a later
            attempt goes on from the checkpoint of an earlier one.
        origin: What the trial goes on from as long as it has no checkpoint of its own.
        until_step: The attempt ends after this step, with a checkpoint; ``None`` = the trial's last step.
        heard: The last step that earlier attempts have reported, -1 for none.
    """

    attempt: Attempt
    config: FlatConfig
    directory: str
    origin: Origin | None = None
    until_step: int | None = None
    heard: int = -1


@dataclass(frozen=True, kw_only=True, slots=True)
class Wait:
    """Nothing to start right now; running trials must report or end first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Done:
    """Nothing will ever be started again."""


NextTrial: TypeAlias = Launch | Wait | Done


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """One configuration and all that is known about it.

    Attributes:
        number: Within its study, from 0, without gaps.
        source: Who proposed it: ``sampler``, ``default``, ``start-1``…
        params: Searched parameters only, by full path.
        config: The complete configuration.
        attempt: The current or last attempt; ``None`` before the first.
        value: The objective, once there is one; of several the first.
        values: With several objectives, each one's value by its metric; empty with one.
        violations: Constraint text -> violation (<= 0 holds), once there is a verdict.
        cost_s: Seconds of all attempts.
    """

    number: int
    state: TrialState
    source: str
    params: FlatConfig
    config: FlatConfig
    attempt: Attempt | None = None
    last_step: int = 0
    value: float | None = None
    values: Mapping[str, float] = field(default_factory=dict)
    violations: Mapping[str, float] = field(default_factory=dict)
    reason: Reason | None = None
    error_kind: EndKind | None = None
    error_message: str = ""
    error_hint: str = ""
    cost_s: float = 0.0
    created_at: float = 0.0
    started_at: float | None = None
    ended_at: float | None = None

    @property
    def feasible(self) -> bool:
        """Whether every constraint that was measured holds."""
        return all(violation <= 0 for violation in self.violations.values())


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """One step of a trial's curves."""

    step: int
    time: float
    metrics: Metrics


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """Something that happened to a trial or to its job, for the record.

    Attributes:
        kind: ``trial.state``, ``trial.attempt``, ``trial.pruned``, ``job.state``…
        trial: The trial's number; ``None`` when the event is about the job.
    """

    at: float
    kind: str
    text: str
    trial: int | None = None
    data: Mapping[str, JsonValue] = field(default_factory=dict)
