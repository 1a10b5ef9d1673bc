"""The study database: jobs, trials, curves and events in SQL, and Optuna's study as a mirror beside them."""

from autotune.store.book import SqlBook
from autotune.store.database import Store, UnitOfWork
from autotune.store.values import (
    AttemptRecord,
    Curve,
    EventRecord,
    Job,
    JobError,
    JobPage,
    Lease,
    NewJob,
    Study,
    Totals,
    TrialRecord,
)

__all__ = [
    "AttemptRecord",
    "Curve",
    "EventRecord",
    "Job",
    "JobError",
    "JobPage",
    "Lease",
    "NewJob",
    "SqlBook",
    "Store",
    "Study",
    "Totals",
    "TrialRecord",
    "UnitOfWork",
]
