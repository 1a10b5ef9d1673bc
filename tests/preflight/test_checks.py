import os
import socket
import tomllib
from pathlib import Path

import pytest

from autotune.preflight import CHECKS, Context, Status, packages, places, run_checks
from autotune.preflight.machine import usable_cpus, usable_memory
from autotune.settings import Settings


def context(home: Path, port: int = 0, **settings) -> Context:
    return Context(settings=Settings(home=home, **settings), port=port)


def one(checks):
    (check,) = list(checks)
    return check


def test_a_healthy_machine_fails_nothing(tmp_path):
    checks = run_checks(context(tmp_path))
    assert [check for check in checks if check.status == Status.FAIL] == []
    assert {"python", "packages", "cpus", "home", "database", "mlflow", "ray", "port"} <= {c.name for c in checks}


def test_checking_creates_no_database(tmp_path):
    run_checks(context(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_the_table_of_packages_is_the_one_of_pyproject():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    wanted = {}
    for line in [*project["dependencies"], *project["optional-dependencies"]["train"]]:
        name, _, rest = line.partition(">=")
        wanted[name.partition("[")[0]] = rest.partition(",")[0]
    known = {**packages.REQUIRED, **packages.TRAINING}
    assert {name: wanted.get(name) for name in known} == known
    assert set(packages.REQUIRED) == {line.partition(">=")[0].partition("[")[0] for line in project["dependencies"]}


@pytest.mark.parametrize(
    ("text", "numbers"), [("2.13.0+cpu", (2, 13, 0)), ("0.163.2", (0, 163, 2)), ("5.0rc1", (5, 0)), ("dev", ())]
)
def test_versions_are_compared_by_their_numbers(text, numbers):
    assert packages.release(text) == numbers


def test_an_old_or_missing_package_fails_with_the_way_to_get_it(tmp_path, monkeypatch):
    found = {"optuna": "4.9.1", "ray": None}
    real = packages._version
    monkeypatch.setattr(packages, "_version", lambda name: found.get(name, real(name)))
    checks = {check.name: check for check in packages.packages(context(tmp_path))}
    assert checks["optuna"].text == "4.9.1 is too old, needed is 5.0 or newer"
    assert checks["ray"].text == "is not installed, needed is 2.60 or newer"
    assert all(check.status == Status.FAIL and "pip install" in check.fix for check in checks.values())
    assert set(checks) == {"optuna", "ray"}


def test_a_home_below_a_file_fails_with_exit_code_6(tmp_path):
    (tmp_path / "file").write_text("")
    check = one(places.home(context(tmp_path / "file" / "home")))
    assert (check.status, check.exit_code) == (Status.FAIL, 6)
    assert "AUTOTUNE_HOME" in check.fix


def test_a_file_that_is_no_database_fails(tmp_path):
    (tmp_path / "autotune.db").write_text("this is a text file, and a longer one than the header of a database is" * 9)
    check = one(places.database(context(tmp_path)))
    assert (check.status, check.exit_code) == (Status.FAIL, 7)
    assert "not a database" in check.text


def test_a_database_that_does_not_answer_hides_its_password(tmp_path):
    url = "postgresql+psycopg://me:secret@127.0.0.1:9/study"
    check = one(places.database(context(tmp_path, database_url=url)))
    assert check.status == Status.FAIL
    assert "secret" not in check.text + check.fix


def test_an_address_that_is_none_is_a_usage_error(tmp_path):
    check = one(places.database(context(tmp_path, database_url="my database")))
    assert (check.status, check.exit_code) == (Status.FAIL, 2)


@pytest.mark.parametrize(
    ("check", "settings"),
    [
        (places.mlflow, {"mlflow_uri": "http://127.0.0.1:9"}),
        (places.ray, {"ray_address": "127.0.0.1:9"}),
        (places.ray, {"ray_address": "ray://127.0.0.1:9"}),
    ],
)
def test_a_server_that_does_not_answer_fails_with_the_way_to_start_it(tmp_path, check, settings):
    found = one(check(context(tmp_path, **settings)))
    assert (found.status, found.exit_code) == (Status.FAIL, 7)
    assert "Start it with" in found.fix


def test_a_taken_port_is_a_warning_because_it_may_be_us(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        check = one(places.port(context(tmp_path, port=taken.getsockname()[1])))
    assert check.status == Status.WARN
    assert "AUTOTUNE_URL" in check.fix


def test_a_check_that_breaks_hides_none_of_the_others(tmp_path, monkeypatch):
    def broken(_):
        raise RuntimeError("boom")

    monkeypatch.setattr("autotune.preflight.CHECKS", {"first": broken, "python": packages.python})
    checks = run_checks(context(tmp_path), ["first", "python"])
    assert [(check.name, str(check.status)) for check in checks] == [("first", "fail"), ("python", "ok")]
    assert "RuntimeError: boom" in checks[0].text


def test_every_finding_that_is_not_fine_has_a_fix(tmp_path):
    for name in CHECKS:
        for check in run_checks(context(tmp_path), [name]):
            assert check.status == Status.OK or check.fix, check


def test_cpus_and_memory_are_what_this_process_may_use():
    assert 0 < usable_cpus() <= (os.cpu_count() or 1)
    memory = usable_memory()
    assert memory is None or memory > 0
