"""The tables of the study database.

All names start with ``autotune_`` because Optuna keeps tables called ``studies`` and ``trials`` in the same database.
Times are seconds since the Unix epoch, durations are seconds.
"""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

PREFIX = "autotune_"
VERSION_TABLE = "autotune_version"

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

jobs = Table(
    "autotune_jobs",
    metadata,
    Column("id", String(255), primary_key=True),
    Column("name", String(200), nullable=False),
    Column("sequence", Integer, nullable=False),
    Column("state", String(16), nullable=False),
    Column("requested", String(16)),
    Column("priority", Integer, nullable=False),
    Column("owner", String(63), nullable=False, server_default=""),
    Column("team", String(63), nullable=False, server_default=""),
    Column("document", JSON, nullable=False),
    Column("source", Text, nullable=False),
    Column("file", Text, nullable=False),
    Column("space_hash", String(64), nullable=False),
    Column("idempotency_key", String(255), unique=True),
    Column("body_hash", String(64)),
    Column("created_at", Float, nullable=False),
    Column("started_at", Float),
    Column("ended_at", Float),
    Column("error_kind", String(64)),
    Column("error_message", Text, nullable=False),
    Column("error_hint", Text, nullable=False),
    Column("directory", Text, nullable=False),
    Column("mlflow_run", String(64)),
    Column("lease_owner", String(255)),
    Column("lease_token", Integer, nullable=False),
    Column("lease_expires", Float),
    Column("mirrored_at", Float),
    UniqueConstraint("name", "sequence"),
    Index(None, "created_at", "id"),
    Index(None, "state", "priority", "created_at"),
)

studies = Table(
    "autotune_studies",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("job", ForeignKey("autotune_jobs.id", ondelete="CASCADE"), nullable=False),
    Column("stage", Integer, nullable=False),
    Column("name", String(300), nullable=False, unique=True),
    Column("title", String(63), nullable=False, server_default=""),
    Column("started_at", Float),
    Column("ended_at", Float),
    Column("verdict", JSON(none_as_null=True)),
    UniqueConstraint("job", "stage"),
)

trials = Table(
    "autotune_trials",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("study", ForeignKey("autotune_studies.id", ondelete="CASCADE"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("state", String(16), nullable=False),
    Column("source", String(64), nullable=False),
    Column("params", JSON, nullable=False),
    Column("config", JSON, nullable=False),
    Column("attempt", Integer),
    Column("attempt_token", String(64)),
    Column("last_step", Integer, nullable=False),
    Column("metrics", JSON, nullable=False),
    Column("value", Float),
    Column("objectives", JSON(none_as_null=True)),
    Column("violations", JSON, nullable=False),
    Column("reason", JSON(none_as_null=True)),
    Column("error_kind", String(32)),
    Column("error_message", Text, nullable=False),
    Column("error_hint", Text, nullable=False),
    Column("cost_s", Float, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("started_at", Float),
    Column("ended_at", Float),
    UniqueConstraint("study", "number"),
)

attempts = Table(
    "autotune_attempts",
    metadata,
    Column("trial", ForeignKey("autotune_trials.id", ondelete="CASCADE"), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("token", String(64), nullable=False),
    Column("started_at", Float),
    Column("ended_at", Float),
    Column("outcome", String(32)),
    Column("message", Text, nullable=False),
    Column("hint", Text, nullable=False),
    Column("last_step", Integer, nullable=False),
    Column("cost_s", Float, nullable=False),
)

points = Table(
    "autotune_points",
    metadata,
    Column("trial", ForeignKey("autotune_trials.id", ondelete="CASCADE"), primary_key=True),
    Column("step", Integer, primary_key=True, autoincrement=False),
    Column("time", Float, nullable=False),
    Column("metrics", JSON, nullable=False),
    sqlite_with_rowid=False,
)

events = Table(
    "autotune_events",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("job", ForeignKey("autotune_jobs.id", ondelete="CASCADE"), nullable=False),
    Column("stage", Integer, nullable=False, server_default="0"),
    Column("trial", Integer),
    Column("at", Float, nullable=False),
    Column("kind", String(64), nullable=False),
    Column("text", Text, nullable=False),
    Column("data", JSON, nullable=False),
    Index(None, "job", "id"),
    sqlite_autoincrement=True,
)

tokens = Table(
    "autotune_tokens",
    metadata,
    Column("id", String(16), primary_key=True),
    Column("name", String(63), nullable=False),
    Column("role", String(16), nullable=False),
    Column("team", String(63), nullable=False),
    Column("digest", String(64), nullable=False),
    Column("created_at", Float, nullable=False),
    Column("expires_at", Float),
    Column("revoked_at", Float),
    Column("used_at", Float),
)

teams = Table(
    "autotune_teams",
    metadata,
    Column("name", String(63), primary_key=True),
    Column("parallel_gpus", Float),
    Column("gpu_hours_a_month", Float),
    Column("share", Float, nullable=False),
)
