from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess

import pytest

from tests.e2e.support import SPACE, Home, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

JOB = "tiny-search-1"


def trials(home: Home) -> dict[int, dict]:
    """The trials as the database has them at this moment."""
    with sqlite3.connect(home.path / "autotune.db", timeout=30) as database:
        database.row_factory = sqlite3.Row
        rows = database.execute("select number, state, attempt, last_step, value, ended_at from autotune_trials")
        return {row["number"]: dict(row) for row in rows}


def reported_steps(home: Home, number: int) -> list[int]:
    path = home.path / "jobs" / JOB / "trials" / f"{number:04d}" / "metrics.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [line["step"] for line in lines if "metrics" in line]


@pytest.fixture(scope="module")
def killed(home: Home) -> dict[int, dict]:
    """Kills `launch` when one trial has completed and another is under way; returns the trials at that moment."""
    home.path.mkdir(parents=True)
    space = home.path.parent / "space.yaml"
    space.write_text(SPACE.replace("trials: 4, parallel: 2, steps: 6", "trials: 3, parallel: 1, steps: 40"))
    process = home.start("launch", str(space), stdin=subprocess.DEVNULL)

    def under_way() -> bool:
        assert process.poll() is None, process.communicate()
        if not (home.path / "jobs" / JOB / "trials" / "0001" / "checkpoints" / "step_4").exists():
            return False
        return trials(home)[0]["state"] == "completed"

    wait_until(under_way, 300, "one trial has completed and another has written a checkpoint")
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    return trials(home)


def test_no_process_survives_the_kill(home, killed):
    assert killed[1]["state"] == "running"
    wait_until(lambda: not home.processes(), 45, "every process has ended")


def test_a_resumed_job_keeps_what_finished_and_continues_the_rest(home, killed):
    wait_until(lambda: not home.processes(), 45, "every process has ended")
    done_before = len(reported_steps(home, 1))
    answer = home.run("launch", "--resume", JOB, "--json", timeout=600)
    assert answer.returncode == 0, answer.stderr
    after = trials(home)
    assert after[0] == killed[0]
    assert [trial["state"] for trial in after.values()] == ["completed"] * 3
    assert [trial["attempt"] for trial in after.values()] == [1, 2, 1]
    steps = reported_steps(home, 1)
    assert steps[done_before] >= 4, "the second attempt began at a checkpoint"
    assert sorted(set(steps)) == list(range(41))


def test_a_second_launch_of_the_same_space_is_a_conflict(home, killed):
    space = home.path.parent / "space.yaml"
    space.write_text(SPACE.replace("name: tiny-search", "name: twice").replace("steps: 6", "steps: 60"))
    first = home.start("launch", str(space), stdin=subprocess.DEVNULL)
    wait_until(lambda: home.run("show", "twice-1").returncode == 0, 150, "the first job is there")
    second = home.run("launch", str(space))
    assert second.returncode == 5
    assert "twice-1" in second.stderr
    assert "hint:" in second.stderr
    first.send_signal(signal.SIGINT)
    first.communicate(timeout=300)
    assert first.returncode == 130
    shown = json.loads(home.run("show", "twice-1", "--json").stdout)
    assert shown["job"]["state"] == "queued"
