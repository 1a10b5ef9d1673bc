"""What ``up`` refuses before it starts anything; the real start is under tests/e2e."""

import json
import signal
import socket
import subprocess
import sys
import urllib.request

import pytest

from autotune.cli.mlflow_server import MlflowServer
from autotune.errors import UnreachableError
from autotune.settings import Settings
from tests.cli.shapes import PROMISED, shape
from tests.cli.test_process import command, environment, run


@pytest.fixture
def taken():
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        yield holder.getsockname()[1]


def test_up_on_a_taken_port_names_it_and_the_next_one(tmp_path, taken):
    done = run(tmp_path, "up", "--port", str(taken), "--mlflow-port", "0")
    assert (done.returncode, done.stdout) == (5, "")
    assert f"cannot listen on 127.0.0.1:{taken}" in done.stderr
    assert f"autotune up --port {taken + 1}" in done.stderr


def test_up_says_that_it_is_mlflows_port_that_is_taken(tmp_path, taken):
    done = run(tmp_path, "up", "--port", "0", "--mlflow-port", str(taken))
    assert (done.returncode, done.stdout) == (5, "")
    assert f"MLflow cannot listen on 127.0.0.1:{taken}" in done.stderr
    assert f"autotune up --mlflow-port {taken + 1}" in done.stderr


def test_up_without_mlflow_says_what_to_install_and_what_works_all_the_same(tmp_path):
    code = (
        "import importlib.util as u; real = u.find_spec; u.find_spec = lambda n: None if n == 'mlflow' else real(n)\n"
    )
    words = command(tmp_path, "up", "--port", "0", "--mlflow-port", "0")
    words[2] = code + words[2]
    done = subprocess.run(words, capture_output=True, text=True, env=environment(tmp_path), check=False)
    assert (done.returncode, done.stdout) == (4, "")
    assert "MLflow is not installed" in done.stderr
    assert "pip install mlflow" in done.stderr
    assert "autotune serve" in done.stderr


def test_up_names_the_mlflow_server_of_the_settings_and_starts_none(tmp_path):
    env = environment(tmp_path, AUTOTUNE_MLFLOW_URI="http://mlflow.example.org")
    words = command(tmp_path, "up", "--port", "0", "--json")
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env) as process:
        try:
            document = ""
            while not document.endswith("}\n"):
                document += process.stdout.readline()
            found = json.loads(document)
            with urllib.request.urlopen(f"{found['url']}/v1/jobs", timeout=30) as answer:
                assert answer.status == 200
            process.send_signal(signal.SIGTERM)
            _, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert shape(found) == PROMISED["up"]
    assert found["mlflow"] == "http://mlflow.example.org"
    assert process.returncode == 130
    assert "supervisor stopped" in err
    assert not (tmp_path / "home" / "mlflow.log").exists()


def test_a_server_that_ends_at_once_is_explained_with_its_last_line(tmp_path, monkeypatch):
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho 'the database is of another version'\nexit 3\n")
    broken.chmod(0o755)
    server = MlflowServer(Settings(home=tmp_path), 0)
    monkeypatch.setattr(sys, "executable", str(broken))
    with server, pytest.raises(UnreachableError, match="ended at once: the database is of another version") as caught:
        server.wait_until_ready()
    assert str(server.log) in caught.value.hint
