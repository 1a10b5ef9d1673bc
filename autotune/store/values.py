"""What the store hands out: frozen values, never rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from autotune.access import Role
from autotune.search.types import EndKind, Event, Trial
from autotune.spec.values import JsonValue
from autotune.states import JobState


@dataclass(frozen=True, kw_only=True, slots=True)
class NewJob:
    """A job to be added.

    Attributes:
        document: The space as plain JSON after ``extends``.
        source: The file as the person wrote it; ``file`` its name.
        space_hash: Digest of the resolved space.
        stages: Names of the stages in order; empty = one search without stages.
        owner: Who submitted it, and ``team`` whose it is; empty = whoever owns the machine.
        idempotency_key: Submitting again with this key and the same ``body_hash`` finds the same job.
    """

    name: str
    document: Mapping[str, JsonValue]
    source: str = ""
    file: str = ""
    space_hash: str = ""
    stages: Sequence[str] = ()
    priority: int = 0
    owner: str = ""
    team: str = ""
    idempotency_key: str | None = None
    body_hash: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class JobError:
    """Why a job failed, and what to do about it."""

    kind: str
    message: str
    hint: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """A job as it is stored.

    Attributes:
        id: ``{name}-{sequence}``.
        requested: What a person wants of it: ``cancel``, ``pause``, ``stop``, or ``None`` for going on.
        lease_owner: Who drives it; the lease may have expired (``lease_expires``, epoch seconds).
        lease_token: Grows by one with every lease.
    """

    id: str
    name: str
    sequence: int
    state: JobState
    requested: str | None
    priority: int
    owner: str
    team: str
    document: Mapping[str, JsonValue]
    source: str
    file: str
    space_hash: str
    created_at: float
    started_at: float | None
    ended_at: float | None
    error: JobError | None
    directory: str
    mlflow_run: str | None
    lease_owner: str | None
    lease_token: int
    lease_expires: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Lease:
    """The right to drive a job until ``expires`` (epoch seconds); ``token`` fences out earlier holders."""

    job: str
    owner: str
    token: int
    expires: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Study:
    """One stage of a job.

    Attributes:
        stage: The stage's place, from 0.
        name: Name of its Optuna study; each version of the space has one of its own.
        title: The stage's name; empty for the only search of a job without stages.
        verdict: What the stage has reached, as plain JSON; ``None`` until it has ended.
    """

    id: int
    job: str
    stage: int
    name: str
    title: str = ""
    started_at: float | None = None
    ended_at: float | None = None
    verdict: Mapping[str, JsonValue] | None = None

    @property
    def base_name(self) -> str:
        """The name without the version of the space: what stays the same however often the space is changed."""
        return self.name.partition("@")[0]

    @property
    def version(self) -> int:
        """The version of the space, from 1; from 2 on it is part of the name."""
        return int(self.name.partition("@")[2] or 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class TrialRecord:
    """A trial with the last reported value of each metric."""

    trial: Trial
    metrics: Mapping[str, float | None]


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptRecord:
    """One launch of a trial as it is stored; ``outcome`` is ``None`` while it runs. Costs are seconds."""

    trial: int
    number: int
    token: str
    started_at: float | None
    ended_at: float | None
    outcome: EndKind | None
    message: str
    hint: str
    last_step: int
    cost_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class EventRecord:
    """An event with its place in the record; ``id`` grows and is never used twice, ``stage`` is the stage's place."""

    id: int
    job: str
    event: Event
    stage: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Totals:
    """Sums over a job's trials: how many are in each state, and the seconds of all attempts."""

    states: Mapping[str, int] = field(default_factory=dict)
    cost_s: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Curve:
    """Curves of one trial, column by column: ``metrics[name][i]`` is the value at ``steps[i]``, ``None`` = absent."""

    trial: int
    steps: Sequence[int]
    metrics: Mapping[str, Sequence[float | None]]


@dataclass(frozen=True, kw_only=True, slots=True)
class JobPage:
    """Part of a list of jobs; ``next`` is the cursor of the following part, ``None`` at the end."""

    items: Sequence[Job]
    next: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Token:
    """An access token, without its secret: only the digest of that is kept.

    Attributes:
        id: The part of the token that may be shown.
        name: Whose it is.
        expires_at: Epoch seconds; ``None`` = never. ``revoked_at`` and ``used_at`` alike.
    """

    id: str
    name: str
    role: Role
    team: str
    digest: str
    created_at: float
    expires_at: float | None = None
    revoked_at: float | None = None
    used_at: float | None = None

    def lives(self, now: float) -> bool:
        """Whether it still opens the door."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


@dataclass(frozen=True, kw_only=True, slots=True)
class Team:
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
