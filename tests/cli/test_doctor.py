import json

import pytest

from autotune.cli.connect import connect


def test_a_healthy_machine_is_ready(cli):
    done = cli("doctor")
    assert done.exit_code == 0, done.stdout + done.stderr
    assert "embedded: database ok, mlflow ok" in done.stdout
    assert done.stderr == "ready\n"


def test_a_component_that_is_not_ready_fails_with_its_name(cli):
    cli.service.components = {"database": "needs a migration", "mlflow": "ok"}
    done = cli("doctor", "--json")
    assert done.exit_code == 7
    document = json.loads(done.stdout)
    assert document["ok"] is False
    assert [check["text"] for check in document["checks"] if check["status"] == "fail"] == ["needs a migration"]


def test_a_home_that_cannot_be_written_is_found_and_nothing_is_opened(cli, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("AUTOTUNE_HOME", str(tmp_path / "file" / "home"))
    done = cli("doctor")
    assert done.exit_code == 6
    assert "cannot create the home directory" in done.stdout
    assert "embedded" not in done.stdout


def test_a_service_elsewhere_is_asked_instead_of_this_machine(remote):
    done = remote("doctor", "--json")
    assert done.exit_code == 0
    names = [check["name"] for check in json.loads(done.stdout)["checks"]]
    assert names == ["python", "packages", "service"]


def test_a_service_elsewhere_that_is_down_exits_with_7(cli, monkeypatch):
    monkeypatch.setenv("AUTOTUNE_URL", "http://127.0.0.1:9")
    done = cli("doctor")
    assert done.exit_code == 7
    assert "autotune serve" in done.stdout


def test_the_embedded_way_answers_without_any_port(cli, socket_disabled):
    with connect() as connection:
        assert connection.client.ready() == {"database": "ok", "mlflow": "ok"}
        with pytest.raises(Exception, match="none"):
            connection.client.job("none")


def test_a_space_is_looked_at_too(cli, space):
    done = cli("doctor", "space.yaml", "--json")
    assert done.exit_code == 3, done.stderr
    document = json.loads(done.stdout)
    found = [check for check in document["checks"] if check["name"] == "model"]
    assert found == [
        {"name": "model", "status": "fail", "text": "there is no model", "fix": "Name one.", "exit_code": 3}
    ]


def test_a_space_with_a_mistake_is_a_failed_check_with_its_place(cli, tmp_path):
    done = cli("doctor", "nowhere.yaml")
    assert done.exit_code == 4
    assert "nowhere.yaml" in done.stdout


def test_of_a_space_for_a_service_elsewhere_its_plan_is_shown(remote, space):
    done = remote("doctor", "space.yaml")
    assert done.exit_code == 0, done.stdout
    assert "files and GPUs are the service's to look at" in done.stdout
