"""Access: tokens, teams with their quotas, and whose a job is."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("autotune_jobs", sa.Column("owner", sa.String(length=63), nullable=False, server_default=""))
    op.add_column("autotune_jobs", sa.Column("team", sa.String(length=63), nullable=False, server_default=""))
    op.create_table(
        "autotune_tokens",
        sa.Column("id", sa.String(length=16), nullable=False),
        sa.Column("name", sa.String(length=63), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("team", sa.String(length=63), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("expires_at", sa.Float(), nullable=True),
        sa.Column("revoked_at", sa.Float(), nullable=True),
        sa.Column("used_at", sa.Float(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_autotune_tokens")),
    )
    op.create_table(
        "autotune_teams",
        sa.Column("name", sa.String(length=63), nullable=False),
        sa.Column("parallel_gpus", sa.Float(), nullable=True),
        sa.Column("gpu_hours_a_month", sa.Float(), nullable=True),
        sa.Column("share", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_autotune_teams")),
    )


def downgrade() -> None:
    op.drop_table("autotune_teams")
    op.drop_table("autotune_tokens")
    for column in ("team", "owner"):
        op.execute(f"ALTER TABLE autotune_jobs DROP COLUMN {column}")
