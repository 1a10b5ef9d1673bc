"""The path of somebody who has just got it: a fresh environment, and every command that is printed as the next one."""

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ROOT = Path(__file__).resolve().parents[2]


class Newcomer:
    """A home and an environment of their own, made by the project's own installer from the lock files.

    Attributes:
        ran: The commands that were run, so that none is run twice.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.venv = folder / "venv"
        self.ran: dict[tuple[str, ...], subprocess.CompletedProcess[str]] = {}

    def _env(self, **more: str) -> dict[str, str]:
        dropped = ("AUTOTUNE_", "PYTHON", "VIRTUAL_ENV")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
        path = f"{self.venv / 'bin'}:{os.environ['PATH']}"
        # Packages come from the installer's cache where it has them; the person's own home stays untouched.
        return {**kept, "AUTOTUNE_HOME": str(self.folder / "home"), "PATH": path, "NO_COLOR": "1", **more}

    def install(self) -> None:
        env = self._env(PYTHON=sys.executable, VENV=str(self.venv))
        done = subprocess.run(
            ["sh", "requirements/install"], cwd=ROOT, env=env, capture_output=True, text=True, timeout=600, check=False
        )
        assert done.returncode == 0, done.stderr

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Runs a command line as it was printed; it must work."""
        if words not in self.ran:
            place = self.folder / "work"
            place.mkdir(exist_ok=True)
            done = subprocess.run(
                words, cwd=place, env=self._env(), capture_output=True, text=True, timeout=400, check=False
            )
            assert done.returncode == 0, (words, done.stdout[-2000:], done.stderr[-2000:])
            self.ran[words] = done
        return self.ran[words]

    def start(self, *words: str) -> subprocess.Popen[str]:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen(words, cwd=self.folder / "work", env=self._env(), **pipes)


@pytest.fixture(scope="module")
def newcomer(tmp_path_factory: pytest.TempPathFactory) -> Newcomer:
    newcomer = Newcomer(tmp_path_factory.mktemp("newcomer"))
    newcomer.install()
    return newcomer


def next_commands(done: subprocess.CompletedProcess[str]) -> list[tuple[str, ...]]:
    """Every command that was printed as one to run next: on a line of its own, after `next:`, or before a place."""
    text = done.stdout + done.stderr
    lines = re.findall(r"^(?:next: |[A-Z][\w ]+: )? *(autotune [a-z].+?)(?:, then .*)?$", text, re.MULTILINE)
    told = re.findall(r"(?:with|change|carefully|see): (autotune [a-z][^;,\n]+)", text)
    return [tuple(shlex.split(found)) for found in dict.fromkeys(lines + told)]


def test_nothing_of_the_checkouts_environment_is_used(newcomer):
    code = "import sys, torch, mlflow, ray; print(sys.prefix); print(torch.__file__); print(mlflow.__file__)"
    places = newcomer.run("python", "-c", code).stdout.split()
    assert all(place.startswith(str(newcomer.venv)) for place in places)


def test_from_nothing_to_a_command_that_trains_the_winner(newcomer):
    made = newcomer.run("autotune", "init", "--yes", "--gpus", "0", "--trials", "2", "--steps", "3")
    waiting = next_commands(made)
    assert [command[1] for command in waiting] == ["plan", "launch"]
    served = []
    while waiting:
        command = waiting.pop(0)
        if command[1] in ("up", "serve"):
            served.append(command)  # these stay until they are told to end
        elif command not in newcomer.ran and not {"JOB", "TRIAL", "FILE"} & set(command):
            waiting += next_commands(newcomer.run(*command))
    ran = {command[1] for command in newcomer.ran if command[0] == "autotune"}
    assert {"init", "plan", "launch", "best", "export", "show", "report"} <= ran, ran
    assert {command[1] for command in served} == {"up"}

    report = newcomer.run("autotune", "report", "my-search-1").stdout.strip()
    assert "my-search-1" in Path(report).read_text()
    exported = newcomer.run("autotune", "export", "my-search-1")
    best = newcomer.run("autotune", "best", "my-search-1", "--overrides").stdout.split()
    words = shlex.split(exported.stdout.replace("\\\n", " "), comments=True)
    assert words[:3] == ["python", "-m", "trainer"]
    searched = [one for one in best if one.startswith("trainer.optim.lr=")]
    assert searched
    assert searched[0] in words
    tree = yaml.safe_load(newcomer.run("autotune", "export", "my-search-1", "--to", "yaml").stdout)
    assert tree["trainer"]["optim"]["lr"] == float(searched[0].partition("=")[2])


def test_the_exported_command_trains_the_winner_again(newcomer):
    exported = newcomer.run("autotune", "export", "my-search-1").stdout
    words = shlex.split(exported.replace("\\\n", " "), comments=True)
    newcomer.run(*words, "trainer.total_steps=1", "trainer.optim.warmup_steps=0")


def test_the_printed_addresses_answer(newcomer):
    with socket.socket() as one, socket.socket() as two:
        for probe in (one, two):
            probe.bind(("127.0.0.1", 0))
        ports = [str(probe.getsockname()[1]) for probe in (one, two)]
    process = newcomer.start("autotune", "up", "--port", ports[0], "--mlflow-port", ports[1])
    try:
        addresses = [process.stdout.readline().split()[-1] for _ in range(3)]
        for address in addresses:
            code = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=60).status)"
            assert newcomer.run("python", "-c", code, address).stdout.strip() == "200"
        jobs = newcomer.run(
            "python", "-c", code.replace(".status", ".read().decode()"), f"{addresses[0]}/v1/jobs"
        ).stdout
        assert [job["id"] for job in json.loads(jobs)["items"]] == ["my-search-1"]
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=90)
    assert process.returncode == 130
