"""Stages: what each study is called, when it ran and what it reached; and which stage an event is about."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Columns are added and dropped in place: a batch would rebuild the table on SQLite, and dropping the old one would
    # take along everything that hangs on it.
    op.add_column("autotune_studies", sa.Column("title", sa.String(length=63), nullable=False, server_default=""))
    op.add_column("autotune_studies", sa.Column("started_at", sa.Float(), nullable=True))
    op.add_column("autotune_studies", sa.Column("ended_at", sa.Float(), nullable=True))
    op.add_column("autotune_studies", sa.Column("verdict", sa.JSON(), nullable=True))
    op.add_column("autotune_events", sa.Column("stage", sa.Integer(), nullable=False, server_default="0"))
    # A study of before ran as long as its job did.
    op.execute(
        "UPDATE autotune_studies SET "
        "started_at = (SELECT j.started_at FROM autotune_jobs j WHERE j.id = autotune_studies.job), "
        "ended_at = (SELECT j.ended_at FROM autotune_jobs j WHERE j.id = autotune_studies.job)"
    )


def downgrade() -> None:
    # What belongs to later stages has no place in a schema that knows one.
    op.execute("DELETE FROM autotune_events WHERE stage > 0")
    op.execute("DELETE FROM autotune_studies WHERE stage > 0")
    op.execute("ALTER TABLE autotune_events DROP COLUMN stage")
    for column in ("verdict", "ended_at", "started_at", "title"):
        op.execute(f"ALTER TABLE autotune_studies DROP COLUMN {column}")
