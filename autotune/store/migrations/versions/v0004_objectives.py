"""Several objectives: what each came to, beside the first one's value."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("autotune_trials", sa.Column("objectives", sa.JSON(), nullable=True))


def downgrade() -> None:
    op.execute("ALTER TABLE autotune_trials DROP COLUMN objectives")
