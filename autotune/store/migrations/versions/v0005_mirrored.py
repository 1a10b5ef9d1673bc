"""When Optuna's study and MLflow last had all of an ended job; jobs of before are taken to be there."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("autotune_jobs", sa.Column("mirrored_at", sa.Float(), nullable=True))
    op.execute("UPDATE autotune_jobs SET mirrored_at = ended_at")


def downgrade() -> None:
    op.execute("ALTER TABLE autotune_jobs DROP COLUMN mirrored_at")
