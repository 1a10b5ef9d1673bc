import multiprocessing
import os
import sqlite3
from pathlib import Path

import pytest
from alembic import command
from alembic.script import ScriptDirectory
from sqlalchemy import inspect, text

from autotune.errors import AutotuneError, ConflictError, NotAllowedError, UnreachableError, UsageError
from autotune.store import NewJob, Store, schema
from autotune.store.models import PREFIX, VERSION_TABLE, metadata


def tables(store: Store) -> set[str]:
    with store.engine.connect() as connection:
        return set(inspect(connection).get_table_names())


def test_the_migrations_and_the_tables_say_the_same(any_store: Store) -> None:
    with any_store.engine.connect().execution_options(write=True) as connection, connection.begin():
        command.check(schema.alembic_config(connection))  # raises when a migration is missing


def test_the_check_notices_a_missing_column(store: Store) -> None:
    with store.engine.connect().execution_options(write=True) as connection, connection.begin():
        connection.execute(text("ALTER TABLE autotune_jobs DROP COLUMN mlflow_run"))
        with pytest.raises(command.util.exc.CommandError):
            command.check(schema.alembic_config(connection))


def test_downgrading_to_the_base_leaves_nothing_behind(any_store: Store) -> None:
    with any_store.engine.connect().execution_options(write=True) as connection, connection.begin():
        command.downgrade(schema.alembic_config(connection), "base")
    assert {name for name in tables(any_store) if name.startswith(PREFIX)} == {VERSION_TABLE}
    any_store.migrate()
    assert set(metadata.tables) <= tables(any_store)


def test_jobs_that_ended_before_their_mirrors_were_noted_are_taken_to_be_there(any_store: Store) -> None:
    with any_store.begin() as work:
        for name in ("old", "open"):
            work.jobs.add(NewJob(name=name, document={}), 1.0)
        work.connection.execute(text("UPDATE autotune_jobs SET state = 'completed', started_at = 2, ended_at = 3"))
        work.connection.execute(text("UPDATE autotune_jobs SET state = 'queued', ended_at = NULL WHERE name = 'open'"))
    with any_store.engine.connect().execution_options(write=True) as connection, connection.begin():
        command.downgrade(schema.alembic_config(connection), "0004")
    any_store.migrate()
    with any_store.read() as work:
        found = work.connection.execute(text("SELECT name, mirrored_at FROM autotune_jobs ORDER BY name")).all()
    assert [tuple(row) for row in found] == [("old", 3.0), ("open", None)]


@pytest.mark.parametrize("revision", ["0001", "0002", "0003", "0004"])
def test_a_database_of_every_earlier_version_is_brought_up_to_date_with_its_jobs(any_store: Store, revision) -> None:
    with any_store.begin() as work:
        work.jobs.add(NewJob(name="kept", document={"name": "kept"}), 1.0)
    with any_store.engine.connect().execution_options(write=True) as connection, connection.begin():
        command.downgrade(schema.alembic_config(connection), revision)
    any_store.migrate()
    any_store.ping()
    with any_store.read() as work:
        assert work.jobs.get("kept-1").document == {"name": "kept"}
        assert work.jobs.studies("kept-1")[0].stage == 0
    with any_store.engine.connect() as connection:
        command.check(schema.alembic_config(connection))


def test_the_known_head_is_the_newest_migration(store: Store) -> None:
    with store.engine.connect() as connection:
        assert ScriptDirectory.from_config(schema.alembic_config(connection)).get_heads() == [schema.HEAD]


def test_every_table_carries_our_prefix_and_every_constraint_a_name() -> None:
    for table in metadata.tables.values():
        assert table.name.startswith(PREFIX)
        assert all(constraint.name for constraint in table.constraints)
        assert all(index.name for index in table.indexes)


def test_migrating_twice_is_the_same_as_once(any_store: Store) -> None:
    with any_store.begin() as work:
        work.jobs.add(NewJob(name="kept", document={}), 1.0)
    any_store.migrate()
    any_store.ping()
    with any_store.read() as work:
        assert work.jobs.get("kept-1").name == "kept"


def _start(url: str, barrier, answers) -> None:
    store = Store(url)
    barrier.wait(60)
    try:
        store.migrate()
        with store.begin() as work:
            answers.put(work.jobs.add(NewJob(name="same", document={}), 1.0).id)
    except Exception as error:  # noqa: BLE001 - whatever it is, the test shall see it
        answers.put(repr(error))


def test_two_processes_that_start_at_once_both_find_a_migrated_database(empty_url: str) -> None:
    context = multiprocessing.get_context("fork")
    barrier, answers = context.Barrier(2), context.Queue()
    starters = [context.Process(target=_start, args=(empty_url, barrier, answers)) for _ in range(2)]
    for process in starters:
        process.start()
    said = {answers.get(timeout=90) for _ in starters}
    for process in starters:
        process.join(30)
    assert said == {"same-1", "same-2"}


def test_sqlite_runs_in_wal_mode_with_foreign_keys(store: Store) -> None:
    with store.read() as work:
        pragmas = {
            name: work.connection.execute(text(f"PRAGMA {name}")).scalar()
            for name in ("journal_mode", "foreign_keys", "busy_timeout", "synchronous")
        }
    assert pragmas == {"journal_mode": "wal", "foreign_keys": 1, "busy_timeout": 30000, "synchronous": 1}


def test_a_reader_sees_one_picture_while_a_writer_goes_on(store: Store) -> None:
    with store.read() as reader:
        assert reader.jobs.list().items == []
        with store.begin() as writer:
            writer.jobs.add(NewJob(name="new", document={}), 1.0)
        assert reader.jobs.list().items == []
    with store.read() as reader:
        assert [job.id for job in reader.jobs.list().items] == ["new-1"]


def test_an_exception_rolls_everything_back(any_store: Store) -> None:
    def fail_in_the_middle() -> None:
        with any_store.begin() as work:
            work.jobs.add(NewJob(name="gone", document={}), 1.0)
            raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError):
        fail_in_the_middle()
    with any_store.read() as work:
        assert work.jobs.list().items == []


def test_a_newer_schema_is_refused_with_the_way_out(empty_url: str) -> None:
    store = Store(empty_url)
    store.migrate()
    with store.engine.connect().execution_options(write=True) as connection, connection.begin():
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '9999'"))
    with pytest.raises(ConflictError, match="9999") as caught:
        store.migrate()
    assert "upgrade autotune" in caught.value.hint
    with pytest.raises(ConflictError, match="9999"):
        store.ping()
    store.close()


def test_foreign_tables_of_our_names_are_left_alone(empty_url: str) -> None:
    store = Store(empty_url)
    with store.engine.connect().execution_options(write=True) as connection, connection.begin():
        connection.execute(text("CREATE TABLE autotune_jobs (theirs INTEGER)"))
    with pytest.raises(ConflictError, match="autotune_jobs"):
        store.migrate()
    assert tables(store) == {"autotune_jobs"}
    store.close()


def test_a_file_that_is_no_database_is_refused_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("these are my notes, not a database\n" * 100)
    before = path.read_bytes()
    with pytest.raises(ConflictError, match="not an SQLite database"):
        Store(f"sqlite:///{path}").migrate()
    assert path.read_bytes() == before


def test_an_unmigrated_database_does_not_answer_a_ping_with_success(tmp_path: Path) -> None:
    sqlite3.connect(tmp_path / "bare.db").close()
    with pytest.raises(ConflictError, match="schema none"):
        Store(f"sqlite:///{tmp_path / 'bare.db'}").ping()


def test_a_missing_directory_is_named_with_its_fix(tmp_path: Path) -> None:
    with pytest.raises(NotAllowedError, match="cannot be opened") as caught:
        Store(f"sqlite:///{tmp_path / 'nowhere' / 'x.db'}").migrate()
    assert "AUTOTUNE_HOME" in caught.value.hint


def test_a_read_only_database_is_not_allowed_rather_than_a_traceback(url: str) -> None:
    store = Store(url.replace("sqlite:///", "sqlite:///file:") + "?mode=ro&uri=true")
    store.migrate()  # nothing to do, so nothing to refuse
    with pytest.raises(NotAllowedError, match="cannot be written"), store.begin() as work:
        work.jobs.add(NewJob(name="no", document={}), 1.0)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_directory_is_not_allowed(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(NotAllowedError):
            Store(f"sqlite:///{tmp_path / 'x.db'}").migrate()
    finally:
        tmp_path.chmod(0o700)


def test_a_server_that_is_not_there_is_unreachable_and_its_password_stays_secret() -> None:
    pytest.importorskip("psycopg")
    store = Store("postgresql://ada:s3cret@127.0.0.1:9/db")
    for call in (store.migrate, store.ping):
        with pytest.raises(UnreachableError, match="does not answer") as caught:
            call()
        assert "s3cret" not in str(caught.value)
        assert caught.value.exit_code == 7


@pytest.mark.parametrize("url", ["nonsense", "mysql://a@b/c", "sqlite://", "sqlite:///:memory:"])
def test_a_url_that_cannot_be_used_says_what_can(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        Store(url)
    assert "AUTOTUNE_DATABASE_URL" in caught.value.hint


def test_a_writer_that_waits_too_long_gets_told_so(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autotune.store.engine.BUSY_TIMEOUT_S", 0.05)
    other = Store(store.url.render_as_string())
    with store.begin() as work:
        work.jobs.add(NewJob(name="first", document={}), 1.0)
        with pytest.raises(UnreachableError, match="locked"), other.begin():
            pass
    other.close()


def test_errors_of_our_own_pass_unchanged(store: Store) -> None:
    with pytest.raises(AutotuneError, match="mine"), store.begin():
        raise AutotuneError("mine")
