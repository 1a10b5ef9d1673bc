"""Optuna's own tables in our database: opened so that they live well beside ours.

Optuna keeps its version in ``alembic_version``, we keep ours in ``autotune_version``; the table names do not meet.
"""

from __future__ import annotations

from datetime import UTC, datetime

import optuna
from optuna.storages import RDBStorage
from optuna.storages._rdb import models
from optuna.trial import TrialState
from sqlalchemy import event
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import ConnectionPoolEntry

from autotune.errors import ConflictError
from autotune.store.engine import BUSY_TIMEOUT_S, make_engine, parse_url
from autotune.store.failures import describe, translate
from autotune.store.locks import schema_lock


def open_storage(url: str) -> RDBStorage:
    """Optuna's storage on the study database; also what Optuna Dashboard is given.

    Creates Optuna's tables where they are missing, one process at a time.

    Raises:
        ConflictError: If another version of Optuna wrote its tables.
        NotAllowedError, UnreachableError: As ``Store`` raises them.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)  # it reports every new study
    parsed = parse_url(url)
    sqlite = parsed.get_backend_name() == "sqlite"
    engine_kwargs = {"connect_args": {"timeout": BUSY_TIMEOUT_S}} if sqlite else {"pool_pre_ping": True}
    ours = make_engine(parsed)
    try:
        with schema_lock(ours):
            # Optuna formats the URL as a template, hence the doubled braces.
            text = parsed.render_as_string(hide_password=False).replace("{", "{{").replace("}", "}}")
            storage = RDBStorage(text, engine_kwargs=engine_kwargs)
    except DBAPIError as error:
        raise translate(error, parsed) or error from error
    except RuntimeError as error:
        raise ConflictError(
            f"{describe(parsed)} holds a study that this Optuna ({optuna.__version__}) cannot read: {error}",
            hint="Install the Optuna that wrote it, or run: optuna storage upgrade --storage URL",
        ) from error
    finally:
        ours.dispose()
    if sqlite:
        storage.engine.dispose()
        event.listen(storage.engine, "connect", _set_pragmas)
    return storage


def amend(
    storage: RDBStorage, trial_id: int, *, started: float | None, ended: float | None, reopen: TrialState | None = None
) -> None:
    """Writes what Optuna's interface cannot: true times, and a trial that goes on after it had ended.

    Args:
        storage: Optuna's storage.
        trial_id: Optuna's key of the trial.
        started: Epoch seconds.
        ended: Epoch seconds; ``None`` leaves the time that Optuna took, unless the trial is reopened.
        reopen: The state a finished trial goes back to; its values are dropped. ``None`` leaves the state alone.
    """
    session = storage.scoped_session()
    try:
        row = session.get(models.TrialModel, trial_id)
        if row is not None:
            row.datetime_start = moment(started)
            if ended is not None or reopen is not None:
                row.datetime_complete = moment(ended)
            if reopen is not None:
                row.state = reopen
                session.query(models.TrialValueModel).filter(models.TrialValueModel.trial_id == trial_id).delete()
        session.commit()
    except BaseException:
        session.rollback()
        raise
    finally:
        session.close()


def moment(epoch: float | None) -> datetime | None:
    """Epoch seconds as Optuna's naive local time."""
    return None if epoch is None else datetime.fromtimestamp(epoch, UTC).astimezone().replace(tzinfo=None)


def _set_pragmas(connection: DBAPIConnection, _entry: ConnectionPoolEntry) -> None:
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout={int(BUSY_TIMEOUT_S * 1000)}")
    cursor.execute("PRAGMA synchronous=NORMAL")
    cursor.close()
