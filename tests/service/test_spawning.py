"""A driver that was started ahead takes the job that comes, as one that is started for it would."""

import json
import os
import signal
import sys
import time

import pytest

from autotune.service import spawning
from autotune.service.spawning import Drivers
from autotune.store.values import Lease

DRIVER = """
import json, sys
print("ready" if "--ready" in sys.argv else "fresh", flush=True)
told = json.loads(sys.stdin.readline() or "null") if "--ready" in sys.argv else sys.argv[1:]
if told is not None:
    with open(told["log"] if isinstance(told, dict) else "/dev/stdout", "a") as log:
        log.write(json.dumps(told) + "\\n")
"""
LEASE = Lease(job="demo-1", owner="here/1/x", token=7, expires=0.0)


@pytest.fixture
def starts(tmp_path):
    script = tmp_path / "driver.py"
    script.write_text(DRIVER)
    made = Drivers((sys.executable, "-S", str(script)))
    yield made
    made.end()


def said(log):
    return [line for line in log.read_text().splitlines() if line not in ("ready", "fresh")]


def test_one_that_waits_is_told_its_job(starts, tmp_path):
    starts.get_ready()
    waiting = starts._ready
    starts.get_ready()
    assert starts._ready is waiting
    process = starts.start(LEASE, 2, tmp_path / "driver.log")
    assert process is waiting
    assert process.wait(20) == 0
    (line,) = said(tmp_path / "driver.log")
    expected = {"job": "demo-1", "owner": "here/1/x", "token": 7, "tries": 2, "log": str(tmp_path / "driver.log")}
    assert json.loads(line) == expected


def test_without_one_or_after_its_death_a_fresh_one_is_started(starts, tmp_path):
    for _ in range(2):
        process = starts.start(LEASE, 0, tmp_path / "driver.log")
        assert process.wait(20) == 0
        starts._begun_at = float("-inf")
        starts.get_ready()
        os.kill(starts._ready.pid, signal.SIGKILL)
        os.waitid(os.P_PID, starts._ready.pid, os.WEXITED | os.WNOWAIT)
    lines = [json.loads(line) for line in said(tmp_path / "driver.log")]
    assert [line[:5] for line in lines] == [["demo-1", "--owner", "here/1/x", "--token", "7"]] * 2


def test_nobody_is_started_ahead_while_a_job_begins_or_where_nothing_is_kept_ready(starts, tmp_path, monkeypatch):
    starts.start(LEASE, 0, tmp_path / "driver.log").wait(20)
    starts.get_ready()
    assert starts._ready is None
    monkeypatch.setattr(spawning, "QUIET_S", 0.0)
    assert time.monotonic() >= starts._begun_at
    starts.get_ready()
    assert starts._ready is not None
    never = Drivers(starts._command, ahead=False)
    never.get_ready()
    assert never._ready is None


def test_one_that_waits_for_nothing_ends(starts):
    starts.get_ready()
    process = starts._ready
    process.stdin.close()
    assert process.wait(20) == 0
    starts.get_ready()
    assert starts._ready is None, "one that dies is not started again and again"
    starts._begun_at = float("-inf")
    starts.get_ready()
    last = starts._ready
    starts.end()
    assert last.returncode == -signal.SIGKILL
