import pytest

from autotune.errors import ConflictError
from autotune.service.single import hold_alone
from autotune.settings import Settings


def test_a_second_service_on_an_sqlite_database_is_refused_until_the_first_has_gone(tmp_path):
    settings = Settings(home=tmp_path)
    first = hold_alone(settings)
    with pytest.raises(ConflictError, match="another service runs on the SQLite database") as refused:
        hold_alone(settings)
    assert "AUTOTUNE_DATABASE_URL" in refused.value.hint
    first.close()
    hold_alone(settings).close()


def test_any_number_of_services_share_a_postgresql_database(tmp_path):
    settings = Settings(home=tmp_path, database_url="postgresql://somebody@nowhere/autotune")
    assert [hold_alone(settings) for _ in range(3)] == [None] * 3


def test_services_on_different_databases_do_not_meet(tmp_path):
    held = [hold_alone(Settings(home=tmp_path, database_url=f"sqlite:///{tmp_path / name}.db")) for name in "ab"]
    assert all(held)
