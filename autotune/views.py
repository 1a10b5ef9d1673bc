"""What the service shows: the shapes that the API, the SDK, the command line and the report share.

Plain frozen values without behaviour. Times are seconds since the Unix epoch, durations are seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

JsonObject = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class ReasonView:
    """Why a trial was stopped: who decided, one sentence, and the numbers in it."""

    pruner: str
    text: str
    numbers: Mapping[str, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class ErrorView:
    """What went wrong and what to do about it."""

    kind: str
    message: str
    hint: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ObjectiveView:
    """What the job optimises."""

    metric: str
    direction: str


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckView:
    """One criterion of a stage and what it came to: name in the criterion -> number, ``None`` = never measured."""

    text: str
    holds: bool
    numbers: Mapping[str, float | None]


@dataclass(frozen=True, kw_only=True, slots=True)
class StageView:
    """One stage of a job.

    Attributes:
        state: ``queued``, ``running``, ``passed``, ``failed``, or what became of the job in it.
        trials: Trial state -> number of the stage's trials in it.
        steps: Training steps of a full trial.
        criteria: What its winner must reach.
        checks: The same with the winner's numbers, once the stage has ended.
        best_trial: Number of the winner, within the stage; before the end the best so far.
    """

    name: str
    state: str
    objective: ObjectiveView
    trials: Mapping[str, int]
    budget_trials: int
    steps: int
    criteria: list[str]
    checks: list[CheckView]
    best_trial: int | None
    best_value: float | None
    cost_s: float
    started_at: float | None
    ended_at: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class AdvisedView:
    """What became of the trials that came from one rule's advice.

    Attributes:
        rule: The rule's name.
        trials: Their numbers.
        better: How many did better than the trial that the advice was for.
        open: How many have not ended.
    """

    rule: str
    trials: list[int]
    better: int
    open: int


@dataclass(frozen=True, kw_only=True, slots=True)
class JobView:
    """One job.

    With stages, the objective, the steps, the default and the best trial are those of the stage that the job is at;
    trials, budget and cost are those of all of them.

    Attributes:
        trials: Trial state -> number of trials in it.
        budget_trials: Number of trials the job may run.
        steps: Training steps of a full trial.
        best_trial: Number of the best feasible completed trial.
        default_value: Objective of the default configuration's trial, once it completed.
        cost_s: Seconds of all attempts; ``cost_gpu_hours`` the same in GPU-hours.
        directory: Where the job's files are on the machine that runs it.
        stage: Name of the stage that the job is at, or was at last; empty without stages.
        stages: The stages in order; empty for a job with one search.
        objectives: All objectives where there are several; ``objective`` is the first of them.
        waits: What a queued job waits for, where that is more than its turn: a quota, a database or a Ray that is away.
        front: Then the trials that nobody beats in everything, so far; the best is their compromise.
        advised: What became of the trials that came from advice, by rule; empty where the space enqueues none.
    """

    id: str
    name: str
    description: str
    owner: str
    team: str
    priority: int
    state: str
    created_at: float
    started_at: float | None
    ended_at: float | None
    objective: ObjectiveView
    trials: Mapping[str, int]
    budget_trials: int
    parallel: int
    steps: int
    best_trial: int | None
    best_value: float | None
    default_value: float | None
    cost_s: float
    cost_gpu_hours: float
    error: ErrorView | None
    directory: str
    mlflow_run: str | None
    stage: str = ""
    stages: list[StageView] = field(default_factory=list)
    objectives: list[ObjectiveView] = field(default_factory=list)
    front: list[int] = field(default_factory=list)
    advised: list[AdvisedView] = field(default_factory=list)
    waits: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class TrialView:
    """One trial.

    Attributes:
        params: Searched parameters by full path.
        metrics: The last reported value of each metric.
        attempts: Number of launches so far.
        stage: Name of the stage that it belongs to; empty without stages.
        values: With several objectives, what each came to by its metric; ``value`` is the first of them.
    """

    number: int
    state: str
    source: str
    params: JsonObject
    value: float | None
    feasible: bool
    violations: Mapping[str, float]
    reason: ReasonView | None
    error: ErrorView | None
    attempts: int
    last_step: int
    metrics: Mapping[str, float | None]
    cost_s: float
    created_at: float
    started_at: float | None
    ended_at: float | None
    directory: str
    stage: str = ""
    values: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class CurveView:
    """Curves of one trial, column by column: ``metrics[name][i]`` is the value at ``steps[i]``."""

    trial: int
    steps: list[int]
    metrics: dict[str, list[float | None]]


@dataclass(frozen=True, kw_only=True, slots=True)
class FinalistView:
    """One of the best configurations after its runs with fresh seeds.

    Attributes:
        trial: Number of the trial that made it a finalist; that run itself does not count.
        values: Objectives of the fresh runs that completed within the constraints.
        lost: Fresh runs that ended otherwise.
        mean: Mean of the values.
        half: Half of the mean's 95 % confidence interval, for two values or more.
        means: With several objectives, each one's mean and half by its metric.
    """

    trial: int
    values: list[float]
    lost: int
    mean: float | None
    half: float | None
    means: Mapping[str, list[float | None]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class BestView:
    """The answer of a job: the best configuration with its evidence.

    Attributes:
        overrides: The whole difference to the Hydra configuration as ``key=value`` strings, ready to paste.
        command: The command that trains this configuration again.
        checkpoint: Directory of the trial's last checkpoint, when it exists.
        default: The trial of the default configuration, for comparison.
        improvement: Best minus default objective in the good direction; ``None`` without a completed default.
        finalists: The best configurations after their runs with fresh seeds, the winner first.
        finding: What these runs say about the winner's lead, in words; empty without finalists.
        objectives: All objectives where there are several; ``trial`` is then the compromise on the front.
        front: Then the trials that nobody beats in everything.
    """

    job: str
    objective: ObjectiveView
    trial: TrialView
    overrides: list[str]
    command: str
    checkpoint: str | None
    default: TrialView | None
    improvement: float | None
    finalists: list[FinalistView] = field(default_factory=list)
    finding: str = ""
    objectives: list[ObjectiveView] = field(default_factory=list)
    front: list[TrialView] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True, slots=True)
class ExportView:
    """A trial's configuration as something to run or to keep.

    Attributes:
        to: ``native``, ``verl``, ``command`` or ``yaml``.
        text: A command for a shell, or YAML; where it comes from stands above it in comments.
        notes: What could not be taken over, one sentence each.
    """

    job: str
    trial: int
    to: str
    text: str
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelVersionView:
    """A checkpoint as a version of a registered model in MLflow.

    Attributes:
        step: The training step of the checkpoint.
        run: The trial's run in MLflow.
        source: Where MLflow keeps the files.
        created: Whether this call made it; the same checkpoint is registered once.
    """

    job: str
    trial: int
    step: int
    name: str
    version: str
    run: str
    source: str
    created: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangeView:
    """A parameter that should be tried at another value."""

    path: str
    before: Any
    after: Any


@dataclass(frozen=True, kw_only=True, slots=True)
class AdviceView:
    """What a rule has found in a trial's curves.

    Attributes:
        trial: The trial's number.
        rule: The rule's name.
        finding: One sentence with the numbers of this trial.
        numbers: The same numbers by name.
        changes: What to try, together.
        source: Where the rule comes from.
    """

    trial: int
    rule: str
    finding: str
    numbers: Mapping[str, float]
    changes: list[ChangeView]
    source: str


@dataclass(frozen=True, kw_only=True, slots=True)
class EventView:
    """One entry of a job's record; ``id`` grows without ever repeating, ``stage`` is the stage's name."""

    id: int
    at: float
    kind: str
    text: str
    trial: int | None
    data: JsonObject
    stage: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ParameterView:
    """One row of a plan: a searched parameter, its values in words, and its default."""

    path: str
    domain: str
    default: Any
    when: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryView:
    """What a trial needs on one device, by estimate.

    Attributes:
        phase: The phase of a step that needs most.
        parts: What it consists of in that phase (GiB), the largest first.
        room_gib: What the device has; ``None`` when nobody here knows.
        room: Where that figure comes from.
        device: ``gpu`` or ``cpu``.
    """

    peak_gib: float
    phase: str
    parts: Mapping[str, float]
    room_gib: float | None
    room: str
    device: str


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanView:
    """What a space file would do, before it costs anything.

    With stages, all but they, the name, the description and the sums describe the last one.

    Attributes:
        trials: Number of trials, over all stages.
        max_steps: Training steps if no trial were pruned, over all stages.
        proposals: The first configurations that would be tried, searched parameters only.
        warnings: What is allowed but probably not wanted.
        memory: What the default configuration needs on one device; ``None`` when its model's sizes are unknown.
        advisor_share: Part of the trials that may come from advice on others; 0 where the space enqueues none.
    """

    name: str
    description: str
    backend: str
    config: str
    objective: ObjectiveView
    constraints: list[str]
    sampler: str
    seed: int
    pruners: list[str]
    parameters: list[ParameterView]
    require: list[str]
    trials: int
    parallel: int
    steps: int
    max_steps: int
    wall_clock_s: float | None
    cpus_per_trial: float
    gpus_per_trial: float
    proposals: list[dict[str, Any]]
    warnings: list[str]
    stages: list[StagePlanView] = field(default_factory=list)
    memory: MemoryView | None = None
    objectives: list[ObjectiveView] = field(default_factory=list)
    advisor_share: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class StagePlanView:
    """What one stage would do.

    Attributes:
        criteria: What its winner must reach.
        carry: What the next stage gets, in words; empty for the last one.
        on_fail: What happens when it is missed: ``fail`` or ``continue``.
        plan: The stage's search.
    """

    name: str
    criteria: list[str]
    carry: str
    on_fail: str
    plan: PlanView


@dataclass(frozen=True, kw_only=True, slots=True)
class SpaceView:
    """A space file that ships with the project."""

    name: str
    description: str
    path: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    """Part of a list; ``next`` is the cursor of the following part."""

    items: list[Any] = field(default_factory=list)
    next: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class CallerView:
    """Who the service takes a request to be from.

    Attributes:
        name: Empty for whoever owns the machine.
        role: ``viewer``, ``operator`` or ``admin``.
        team: Empty without one.
    """

    name: str
    role: str
    team: str


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenView:
    """An access token, without its secret.

    Attributes:
        id: The part of the token that may be shown.
        lives: Whether it still opens the door.
    """

    id: str
    name: str
    role: str
    team: str
    lives: bool
    created_at: float
    expires_at: float | None
    revoked_at: float | None
    used_at: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class IssuedTokenView:
    """A new token; ``token`` is its text, told this once."""

    token: str
    about: TokenView


@dataclass(frozen=True, kw_only=True, slots=True)
class TeamView:
    """What a team may use.

    Attributes:
        parallel_gpus: GPUs at a time; ``None`` = no limit.
        gpu_hours_a_month: GPU-hours in a calendar month (UTC); ``None`` = no limit.
        share: Its weight where several teams wait for the same GPUs.
    """

    name: str
    parallel_gpus: float | None = None
    gpu_hours_a_month: float | None = None
    share: float = 1.0
