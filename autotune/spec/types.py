"""The values of a space file: what is left when YAML, aliases and ``extends`` are resolved.

Everything here is a frozen value. The loader builds them, the search reads them, nobody changes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TypeAlias

from autotune.spec.criteria import Criterion
from autotune.spec.expressions import Expression
from autotune.spec.values import FlatConfig, JsonValue


class Direction(StrEnum):
    """Which end of the objective is good."""

    MAXIMIZE = "maximize"
    MINIMIZE = "minimize"


class Reduce(StrEnum):
    """How a curve becomes one number."""

    LAST = "last"
    MAX = "max"
    MIN = "min"
    MEAN = "mean"
    AREA = "area"
    """The mean over the steps: the area under the curve by trapezoids, divided by the steps it spans."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FloatRange:
    """Real numbers in ``[low, high]``; ``log`` searches their logarithm, ``step`` makes a grid of them."""

    low: float
    high: float
    log: bool = False
    step: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class IntRange:
    """Whole numbers in ``[low, high]``, both ends included."""

    low: int
    high: int
    log: bool = False
    step: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """One of the listed JSON values."""

    options: tuple[JsonValue, ...]


Domain: TypeAlias = FloatRange | IntRange | Choice


@dataclass(frozen=True, kw_only=True, slots=True)
class Parameter:
    """One searched parameter.

    Attributes:
        path: Full dotted path in the configuration tree; the parameter's name everywhere.
        domain: The values it may take.
        when: The parameter exists only where this holds; ``None`` = always.
        prior: The value people would start from; the first trial takes it where the configuration's own default
            does not lie in the domain.
    """

    path: str
    domain: Domain
    when: Expression | None = None
    prior: JsonValue = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Objective:
    """What is good: one metric's curve, reduced to one number.

    Attributes:
        smooth: The reduction looks at the mean of this many consecutive reported values (1 = the values themselves).
        also: Further objectives of the same rank; with any, the answer is a front and not one winner.
    """

    metric: str
    direction: Direction = Direction.MAXIMIZE
    reduce: Reduce = Reduce.LAST
    smooth: int = 1
    also: tuple[Objective, ...] = ()

    @property
    def sign(self) -> int:
        """1 where more is better, -1 where less is."""
        return 1 if self.direction is Direction.MAXIMIZE else -1

    @property
    def each(self) -> tuple[Objective, ...]:
        """All objectives one by one, this one first."""
        return (replace(self, also=()), *self.also) if self.also else (self,)


@dataclass(frozen=True, kw_only=True, slots=True)
class Constraint:
    """What must hold at the end of a trial: ``metric <= bound`` or ``metric >= bound``.

    Attributes:
        text: The constraint as it was written.
    """

    metric: str
    upper: bool
    bound: float
    text: str

    def violation(self, value: float) -> float:
        """How far ``value`` is on the wrong side; <= 0 means that the constraint holds."""
        return value - self.bound if self.upper else self.bound - value


@dataclass(frozen=True, kw_only=True, slots=True)
class SamplerSpec:
    """Which sampler proposes, and from which seed."""

    name: str = "tpe"
    seed: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class PrunerSpec:
    """One pruner and its options, by the pruner's own names."""

    name: str
    options: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Budget:
    """What may be spent.

    Attributes:
        trials: Number of trials, those of ``start_from`` included.
        parallel: Trials at a time.
        steps: Training steps of a full trial; ``None`` = what the configuration says.
        wall_clock_s: After this many seconds no new trial starts and running ones are cancelled; ``None`` = no limit.
        gpu_hours: GPUs of a trial times the hours it holds them, over all trials; ``None`` = no limit.
    """

    trials: int
    parallel: int = 1
    steps: int | None = None
    wall_clock_s: float | None = None
    gpu_hours: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Finalists:
    """The best configurations are run again before a winner is named.

    Attributes:
        top: How many configurations.
        seeds: Fresh runs of each, every one with a seed of its own.
    """

    top: int = 3
    seeds: int = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class AdvisorSpec:
    """Advice on finished trials becomes the next trials.

    Attributes:
        share: Part of a study's trials that may come from advice.
    """

    share: float = 0.25


@dataclass(frozen=True, kw_only=True, slots=True)
class Population:
    """Population based training: all trials of the budget are one population.

    Attributes:
        interval: Steps from one generation to the next.
        quantile: Part of the population that goes on from as large a part of the best ones.
        resample_probability: How often a value is drawn anew instead of perturbed.
        perturbation: A number is multiplied by this or by its inverse.
    """

    interval: int
    quantile: float = 0.25
    resample_probability: float = 0.25
    perturbation: float = 1.2


@dataclass(frozen=True, kw_only=True, slots=True)
class Retry:
    """How often an attempt is repeated that the infrastructure broke, and for which kinds of failure."""

    attempts: int = 2
    on: tuple[str, ...] = ("node", "port_in_use", "crash")


@dataclass(frozen=True, kw_only=True, slots=True)
class Resources:
    """What one trial occupies; ``memory`` in bytes, ``None`` = not reserved."""

    cpus: float = 1.0
    gpus: float = 0.0
    memory: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class MetricsSpec:
    """How the metrics of a program are read.

    Attributes:
        read: ``jsonl``, ``regex`` or ``csv``.
        file: File within the trial's output directory; empty = what the program prints.
        step: The field, group or column that holds the step.
        patterns: Regular expressions with named groups, for ``regex``.
        names: Metric -> the field, group or column that holds it.
    """

    read: str = "jsonl"
    file: str = ""
    step: str = "step"
    patterns: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainerSpec:
    """What a trial runs.

    Attributes:
        backend: Name in the registry of backends.
        config: Name of the Hydra configuration.
        overrides: Dotted path or configuration group -> value, applied before the searched parameters.
        python: Interpreter of the environment that the trainer is installed in; empty = this one.
        command: A program and its arguments, with placeholders for the parameters.
        parameters: The parameters of the command with their defaults.
        metrics: How the command's metrics are read.
        env: Environment variables of the process, with placeholders for the parameters.
        workdir: Where the process starts, absolute; empty = in the trial directory.
        steps: Training steps of the command; ``None`` = the configuration says it.
        stall_s: A process that shows nothing for so long has hung; ``None`` = the backend's own patience.
        searched: The parameters that the search sets, so that a backend can make sure that they take effect.
    """

    backend: str = "native"
    config: str = "config"
    overrides: FlatConfig = field(default_factory=dict)
    python: str = ""
    command: tuple[str, ...] = ()
    parameters: FlatConfig = field(default_factory=dict)
    metrics: MetricsSpec = field(default_factory=MetricsSpec)
    env: Mapping[str, str] = field(default_factory=dict)
    workdir: str = ""
    steps: int | None = None
    stall_s: float | None = None
    searched: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Start:
    """A configuration that is tried before the sampler proposes.

    Attributes:
        label: ``default`` for the configuration as it is, ``start-1``… for given ones.
        values: Dotted path -> value for the searched parameters that are given; the others take their default.
        tried: It keeps its place, but was tried before the space was changed and need not lie in it any more.
    """

    label: str
    values: FlatConfig = field(default_factory=dict)
    tried: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class WarmStart:
    """The best configurations of an earlier search, to be tried before the sampler proposes.

    Attributes:
        place: Its place in ``start_from``.
        job: Id of an earlier job; empty for a study of Optuna's.
        optuna: Address of the database that holds a study of Optuna's.
        study: The study's name; empty = the only one there is.
        top: How many, best first.
    """

    place: int
    job: str = ""
    optuna: str = ""
    study: str = ""
    top: int = 1


class Carry(StrEnum):
    """What a stage hands on to the next one."""

    FIX = "fix"
    """The winner's values hold from now on; where the next stage searches the same parameter it starts from them."""
    START = "start"
    """The best configurations are the first that the next stage tries."""


class OnFail(StrEnum):
    """What happens when a stage does not reach what it must."""

    FAIL = "fail"
    CONTINUE = "continue"


@dataclass(frozen=True, kw_only=True, slots=True)
class CarrySpec:
    """What a stage hands on.

    Attributes:
        top: How many configurations, best first; 1 for ``fix``.
        scale: Searched parameter -> factor by which its value is multiplied on the way.
        drop: Searched parameters whose values stay behind: the next stage starts from its own default, or searches.
    """

    how: Carry = Carry.FIX
    top: int = 1
    scale: Mapping[str, float] = field(default_factory=dict)
    drop: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Stage:
    """One stage of a job.

    Attributes:
        space: What this stage searches, judges and spends; a space of its own, without stages.
        fixed: The parameters that the stage fixes itself, whatever the stages before hand over.
        criteria: What its winner must reach.
    """

    name: str
    space: Space
    fixed: tuple[str, ...] = ()
    criteria: tuple[Criterion, ...] = ()
    carry: CarrySpec = field(default_factory=CarrySpec)
    on_fail: OnFail = OnFail.FAIL


@dataclass(frozen=True, kw_only=True, slots=True)
class Space:
    """A whole space file. With stages, all but they belong to the last one, which gives the job's answer.

    Attributes:
        search: The searched parameters, in the order of the file, by full path.
        require: Conditions over the whole configuration that every proposal meets.
        population: How the trials learn from each other while they run; ``None`` = each runs with its own values.
        advisor: How advice on finished trials is followed; ``None`` = it is only shown.
        warm_starts: What of ``start_from`` is still to be looked up; nothing is, once a job was submitted.
        document: The file as plain JSON after ``extends``: what was submitted, kept for the record.
        marks: Dotted path inside the document -> (file, line, column), for messages about it. A path is where the key
            stands, the path with a colon behind it where its value stands; the empty path is the document itself.
    """

    name: str
    description: str = ""
    trainer: TrainerSpec
    resources: Resources
    search: Mapping[str, Parameter]
    require: tuple[Expression, ...] = ()
    objective: Objective
    constraints: tuple[Constraint, ...] = ()
    sampler: SamplerSpec
    prune: tuple[PrunerSpec, ...] = ()
    budget: Budget
    retry: Retry
    start_from: tuple[Start, ...] = ()
    warm_starts: tuple[WarmStart, ...] = ()
    finalists: Finalists | None = None
    population: Population | None = None
    advisor: AdvisorSpec | None = None
    stages: tuple[Stage, ...] = ()
    document: Mapping[str, JsonValue] = field(default_factory=dict)
    marks: Mapping[str, tuple[str, int, int]] = field(default_factory=dict)
