"""The command line as its own process: what it imports, how fast it answers, what lands on which stream."""

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.cli.shapes import PROMISED, shape

HEAVY = ("torch", "ray", "mlflow", "transformers", "vllm", "sqlalchemy", "fastapi", "optuna", "pydantic", "httpx2")
FAKE = """
import sys, types
import autotune
from pathlib import Path
from tests.fakes import FakeService, finished_job, finished_trials
service = FakeService(Path(sys.argv.pop(1)))
service.add(finished_job(), finished_trials())
class Supervisor:
    def __init__(self, service, settings): pass
    def start(self): print("supervisor started", file=sys.stderr, flush=True)
    def stop(self): print("supervisor stopped", file=sys.stderr, flush=True)
class Drivers:
    def __init__(self, ahead): pass
    def get_ready(self): pass
    def end(self): pass
module = types.ModuleType("autotune.service")
module.__path__ = [str(Path(autotune.__file__).parent / "service")]  # its modules stay what they are
module.open_service = lambda settings: service
module.run_embedded = lambda a, b, job, on_tick, starts: service.add(finished_job(job_id=job), finished_trials())
module.Drivers = Drivers
module.Supervisor = Supervisor
sys.modules["autotune.service"] = module
from autotune.cli.main import main
main()
"""


def command(tmp_path: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-c", FAKE, str(tmp_path), *arguments]


def environment(tmp_path: Path, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AUTOTUNE_")}
    return {**kept, "AUTOTUNE_HOME": str(tmp_path / "home"), **more}


def run(tmp_path: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(tmp_path, *arguments), capture_output=True, text=True, env=environment(tmp_path, **more), check=False
    )


def test_help_imports_nothing_heavy():
    code = (
        "import sys\nsys.argv = ['autotune', '--help']\nfrom autotune.cli.main import main\n"
        f"try:\n    main()\nfinally:\n    print([n for n in {HEAVY!r} if n in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
    assert "launch" in done.stdout


def test_help_answers_in_less_than_half_a_second():
    # Processor time of the process, best of three: a busy machine must not decide.
    spent = []
    for _ in range(3):
        before = os.times()
        subprocess.run([sys.executable, "-m", "autotune.cli.main", "--help"], capture_output=True, check=True)
        after = os.times()
        spent.append(after.children_user + after.children_system - before.children_user - before.children_system)
    assert min(spent) < 0.5


def test_importing_the_api_brings_no_training_stack():
    code = (
        "import sys, autotune.api, autotune.cli.main\n"
        "bad = [n for n in ('torch', 'ray', 'mlflow', 'transformers', 'vllm') if n in sys.modules]\n"
        "sys.exit(str(bad) if bad else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_launch_with_json_prints_one_document_on_stdout(tmp_path):
    space = tmp_path / "space.yaml"
    space.write_text("name: demo\nsearch: {a: {int: [1, 2]}}\n")
    done = run(tmp_path, "launch", str(space), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["job"]["id"] == "demo-2"
    assert "job demo-2 submitted" in done.stderr


def test_no_color_and_a_pipe_leave_no_escape_sequences(tmp_path):
    done = run(tmp_path, "show", "demo-1", NO_COLOR="1")
    assert "\x1b" not in done.stdout + done.stderr


def test_an_error_leaves_stdout_empty(tmp_path):
    done = run(tmp_path, "show", "nope", "--json")
    assert done.returncode == 4
    assert done.stdout == ""
    assert done.stderr.startswith("error: there is no job 'nope'")


def test_a_reader_that_goes_away_is_no_error(tmp_path):
    with subprocess.Popen(
        command(tmp_path, "show", "demo-1"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(tmp_path),
    ) as process:
        process.stdout.close()
        assert process.wait(timeout=60) == 0
        assert b"Traceback" not in process.stderr.read()


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.1", "example.org"])
def test_serve_refuses_every_other_host_with_the_reason(tmp_path, host):
    done = run(tmp_path, "serve", "--host", host)
    assert done.returncode == 6
    assert "nobody needs a token yet" in done.stderr
    assert "ssh -L" in done.stderr


def test_serve_on_a_taken_port_exits_with_5_and_another_port(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = run(tmp_path, "serve", "--port", str(port))
    assert done.returncode == 5
    assert f"127.0.0.1:{port}" in done.stderr
    assert f"--port {port + 1}" in done.stderr
    assert "supervisor" not in done.stderr


def test_serve_answers_until_it_is_interrupted_and_stops_the_supervisor(tmp_path):
    with subprocess.Popen(
        command(tmp_path, "serve", "--port", "0", "--json"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(tmp_path),
    ) as process:
        try:
            document = ""
            while not document.endswith("}\n"):
                line = process.stdout.readline()
                assert line, process.stderr.read()
                document += line
            found = json.loads(document)
            with urllib.request.urlopen(f"{found['url']}/v1/jobs", timeout=30) as answer:
                assert [job["id"] for job in json.load(answer)["items"]] == ["demo-1"]
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert shape(found) == PROMISED["serve"]
    assert process.returncode == 130
    assert out == ""
    assert err.index("supervisor started") < err.index("supervisor stopped")
    assert "Traceback" not in err
