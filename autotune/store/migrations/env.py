"""Alembic's entry: migrates over the connection it is handed, our tables only."""

from __future__ import annotations

from alembic import context

from autotune.store.models import PREFIX, VERSION_TABLE, metadata


def _ours(name: str | None, kind: str, _parents: object) -> bool:
    # Optuna's tables live in the same database and are none of our business.
    return kind != "table" or (name or "").startswith(PREFIX)


context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    include_name=_ours,
    render_as_batch=True,
    compare_type=True,
)
context.run_migrations()
