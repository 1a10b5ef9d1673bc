"""Brings a database to the present schema and recognises one that is not ours to touch."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, Engine, inspect, text

from autotune.errors import ConflictError
from autotune.store.failures import describe
from autotune.store.locks import schema_lock
from autotune.store.models import PREFIX, VERSION_TABLE

if TYPE_CHECKING:
    from alembic.config import Config

HEAD = "0005"
"""The newest revision; known without importing Alembic, which a database at the present schema does not need."""


def migrate(engine: Engine) -> None:
    """Brings the schema to ``HEAD``; safe when several processes do it at once.

    Raises:
        ConflictError: If a newer release wrote the schema, or somebody else's tables are in the way.
    """
    with engine.connect() as connection:
        if current(connection) == HEAD:
            return
    with schema_lock(engine):
        if engine.dialect.name == "sqlite":
            _switch_to_wal(engine)
        with engine.connect().execution_options(write=True) as connection, connection.begin():
            found = current(connection)
            if found == HEAD:
                return
            _check_ours(connection, found, engine)
            _upgrade(connection)


def current(connection: Connection) -> str | None:
    """The revision a database is at; ``None`` where our tables were never created."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    found = connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()
    return None if found is None else str(found)


def alembic_config(connection: Connection) -> Config:
    """Alembic's configuration for our migrations, working on an open connection."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def _upgrade(connection: Connection) -> None:
    from alembic import command

    logging.getLogger("alembic").setLevel(logging.WARNING)
    command.upgrade(alembic_config(connection), "head")


def _check_ours(connection: Connection, found: str | None, engine: Engine) -> None:
    where = describe(engine.url)
    if found is None:
        strangers = [name for name in inspect(connection).get_table_names() if name.startswith(PREFIX)]
        strangers = [name for name in strangers if name != VERSION_TABLE]
        if strangers:
            raise ConflictError(
                f"{where} holds tables named like ours without a version: {', '.join(sorted(strangers))}.",
                hint="Use another database with AUTOTUNE_DATABASE_URL, or remove these tables.",
            )
        return
    from alembic.script import ScriptDirectory

    known = {script.revision for script in ScriptDirectory.from_config(alembic_config(connection)).walk_revisions()}
    if found not in known:
        raise ConflictError(
            f"{where} is at schema {found}, this release knows {', '.join(sorted(known))}.",
            hint="A newer autotune wrote it: upgrade autotune, or use another database with AUTOTUNE_DATABASE_URL.",
        )


def _switch_to_wal(engine: Engine) -> None:
    # Not possible inside a transaction, hence below SQLAlchemy's own.
    raw = engine.raw_connection()
    try:
        cursor = raw.cursor()
        cursor.execute("PRAGMA journal_mode=WAL")
        cursor.fetchall()
        cursor.close()
    finally:
        raw.close()
