"""The first tables: jobs, studies, trials, attempts, points, events."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "autotune_jobs",
        sa.Column("id", sa.String(length=255), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("sequence", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("requested", sa.String(length=16), nullable=True),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("document", sa.JSON(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("file", sa.Text(), nullable=False),
        sa.Column("space_hash", sa.String(length=64), nullable=False),
        sa.Column("idempotency_key", sa.String(length=255), nullable=True),
        sa.Column("body_hash", sa.String(length=64), nullable=True),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("started_at", sa.Float(), nullable=True),
        sa.Column("ended_at", sa.Float(), nullable=True),
        sa.Column("error_kind", sa.String(length=64), nullable=True),
        sa.Column("error_message", sa.Text(), nullable=False),
        sa.Column("error_hint", sa.Text(), nullable=False),
        sa.Column("directory", sa.Text(), nullable=False),
        sa.Column("mlflow_run", sa.String(length=64), nullable=True),
        sa.Column("lease_owner", sa.String(length=255), nullable=True),
        sa.Column("lease_token", sa.Integer(), nullable=False),
        sa.Column("lease_expires", sa.Float(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_autotune_jobs"),
        sa.UniqueConstraint("idempotency_key", name="uq_autotune_jobs_idempotency_key"),
        sa.UniqueConstraint("name", "sequence", name="uq_autotune_jobs_name_sequence"),
    )
    op.create_index("ix_autotune_jobs_created_at_id", "autotune_jobs", ["created_at", "id"])
    op.create_index("ix_autotune_jobs_state_priority_created_at", "autotune_jobs", ["state", "priority", "created_at"])

    op.create_table(
        "autotune_events",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("job", sa.String(length=255), nullable=False),
        sa.Column("trial", sa.Integer(), nullable=True),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("kind", sa.String(length=64), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["job"], ["autotune_jobs.id"], name="fk_autotune_events_job", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_autotune_events"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_autotune_events_job_id", "autotune_events", ["job", "id"])

    op.create_table(
        "autotune_studies",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("job", sa.String(length=255), nullable=False),
        sa.Column("stage", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=300), nullable=False),
        sa.ForeignKeyConstraint(["job"], ["autotune_jobs.id"], name="fk_autotune_studies_job", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_autotune_studies"),
        sa.UniqueConstraint("job", "stage", name="uq_autotune_studies_job_stage"),
        sa.UniqueConstraint("name", name="uq_autotune_studies_name"),
    )
    op.create_table(
        "autotune_trials",
        sa.Column("id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("study", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("source", sa.String(length=64), nullable=False),
        sa.Column("params", sa.JSON(), nullable=False),
        sa.Column("config", sa.JSON(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=True),
        sa.Column("attempt_token", sa.String(length=64), nullable=True),
        sa.Column("last_step", sa.Integer(), nullable=False),
        sa.Column("metrics", sa.JSON(), nullable=False),
        sa.Column("value", sa.Float(), nullable=True),
        sa.Column("violations", sa.JSON(), nullable=False),
        sa.Column("reason", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("error_kind", sa.String(length=32), nullable=True),
        sa.Column("error_message", sa.Text(), nullable=False),
        sa.Column("error_hint", sa.Text(), nullable=False),
        sa.Column("cost_s", sa.Float(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("started_at", sa.Float(), nullable=True),
        sa.Column("ended_at", sa.Float(), nullable=True),
        sa.ForeignKeyConstraint(
            ["study"], ["autotune_studies.id"], name="fk_autotune_trials_study", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_autotune_trials"),
        sa.UniqueConstraint("study", "number", name="uq_autotune_trials_study_number"),
    )
    op.create_table(
        "autotune_attempts",
        sa.Column("trial", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("token", sa.String(length=64), nullable=False),
        sa.Column("started_at", sa.Float(), nullable=True),
        sa.Column("ended_at", sa.Float(), nullable=True),
        sa.Column("outcome", sa.String(length=32), nullable=True),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("hint", sa.Text(), nullable=False),
        sa.Column("last_step", sa.Integer(), nullable=False),
        sa.Column("cost_s", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(
            ["trial"], ["autotune_trials.id"], name="fk_autotune_attempts_trial", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("trial", "number", name="pk_autotune_attempts"),
    )
    op.create_table(
        "autotune_points",
        sa.Column("trial", sa.Integer(), nullable=False),
        sa.Column("step", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("time", sa.Float(), nullable=False),
        sa.Column("metrics", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["trial"], ["autotune_trials.id"], name="fk_autotune_points_trial", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("trial", "step", name="pk_autotune_points"),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    op.drop_table("autotune_points")
    op.drop_table("autotune_attempts")
    op.drop_table("autotune_trials")
    op.drop_table("autotune_studies")
    op.drop_index("ix_autotune_events_job_id", "autotune_events")

    op.drop_table("autotune_events")
    op.drop_index("ix_autotune_jobs_state_priority_created_at", "autotune_jobs")
    op.drop_index("ix_autotune_jobs_created_at_id", "autotune_jobs")

    op.drop_table("autotune_jobs")
