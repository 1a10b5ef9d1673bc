import os
import signal
import sys
import time

import pytest
from live_processes import processes, wait_until
from process_backend import BACKEND

from autotune.backends.base import Command
from autotune.execution.metrics_tail import CheckpointLine, StepLine
from autotune.execution.trial_lock import is_locked, try_lock
from autotune.execution.trial_process import TrialProcess
from autotune.search.types import EndKind


def start(directory, attempt=1, grace_s=5.0, **config):
    lock = try_lock(directory)
    assert lock is not None
    return TrialProcess(BACKEND.prepare(config, directory), directory, attempt=attempt, grace_s=grace_s, lock=lock)


def steps(lines):
    return [line.step for line in lines if isinstance(line, StepLine)]


def test_a_process_runs_in_the_trial_directory_and_its_steps_are_read(no_strays):
    process = start(no_strays, steps=3, save_freq=2)
    assert process.wait(10) == 0
    lines = process.read()
    assert steps(lines) == [1, 2, 3]
    assert CheckpointLine(step=2, path="checkpoints/step_2") in lines
    assert "starts after step 0" in (no_strays / "attempt_1.log").read_text()
    assert process.outcome(last_step=3, expected_steps=3).kind is EndKind.FINISHED


def test_a_later_attempt_reports_only_its_own_steps_and_its_own_result(no_strays):
    start(no_strays, steps=2, save_freq=1).wait(10)
    assert (no_strays / "result.json").exists()
    process = start(no_strays, attempt=2, steps=4, how="hang", at=4)
    assert not (no_strays / "result.json").exists()
    seen = []
    wait_until(lambda: seen.extend(steps(process.read())) or seen == [3, 4])
    assert process.terminate(5) == 10


def test_terminate_lets_the_process_write_its_checkpoint(no_strays):
    process = start(no_strays, how="hang", at=2)
    lines = []
    wait_until(lambda: lines.extend(process.read()) or len(lines) == 2)
    assert process.terminate(5) == 10
    assert process.read() == (CheckpointLine(step=2, path="checkpoints/step_2"),)
    assert process.outcome(last_step=2, expected_steps=9).kind is EndKind.STOPPED


def test_a_process_that_ignores_sigterm_is_killed_after_the_grace(no_strays):
    process = start(no_strays, grace_s=60, how="deaf", at=1)
    wait_until(lambda: steps(process.read()) == [1])
    began = time.monotonic()
    assert process.terminate(0.3) == -signal.SIGKILL
    assert 0.3 <= time.monotonic() - began < 5
    assert process.outcome(last_step=1, expected_steps=9).kind is EndKind.STOPPED


def test_grandchildren_are_gone_when_terminate_returns(no_strays):
    process = start(no_strays, steps=100, step_s=1.0, how="family")
    wait_until(lambda: (no_strays / "grandchild").exists())
    process.terminate(1)
    assert processes(str(no_strays)) == []
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pgid, 0)


def test_nothing_is_left_when_the_guard_itself_is_killed(no_strays):
    process = start(no_strays, steps=100, step_s=1.0)
    wait_until(lambda: len(processes(str(no_strays))) == 2)
    os.kill(process.pgid, signal.SIGKILL)
    assert process.wait(5) == -signal.SIGKILL
    wait_until(lambda: processes(str(no_strays)) == [])


def test_what_left_the_group_is_gone_as_well_when_the_guard_itself_is_killed(no_strays):
    process = start(no_strays, steps=100, step_s=1.0, how="family")
    wait_until(lambda: (no_strays / "grandchild").exists())
    os.kill(process.pgid, signal.SIGKILL)
    assert process.wait(5) == -signal.SIGKILL
    assert processes(str(no_strays)) == []


def test_a_directory_is_locked_for_exactly_as_long_as_its_processes_live(no_strays):
    assert not is_locked(no_strays)
    process = start(no_strays, how="hang", at=1)
    assert is_locked(no_strays)
    assert try_lock(no_strays) is None
    process.terminate(5)
    assert not is_locked(no_strays)


def test_a_command_that_does_not_exist_is_an_outcome_and_no_exception(no_strays):
    lock = try_lock(no_strays)
    process = TrialProcess(Command(argv=["/no/such/program"]), no_strays, attempt=1, grace_s=1, lock=lock)
    assert process.wait(10) == 127
    outcome = process.outcome(last_step=0, expected_steps=9)
    assert outcome.kind is EndKind.UNKNOWN
    assert "/no/such/program" in outcome.message


def test_an_outcome_is_not_to_be_had_before_the_end(no_strays):
    process = start(no_strays, how="hang", at=1)
    with pytest.raises(RuntimeError, match="has not ended"):
        process.outcome(last_step=0, expected_steps=1)
    process.terminate(5)


def test_the_environment_of_the_command_is_added_to_the_workers_own(no_strays, monkeypatch):
    monkeypatch.setenv("OUTER", "1")
    code = "import os; print(os.environ['OUTER'], os.environ['INNER'], os.getcwd())"
    command = Command(argv=[sys.executable, "-I", "-S", "-c", code], env={"INNER": "2"})
    process = TrialProcess(command, no_strays, attempt=7, grace_s=1, lock=try_lock(no_strays))
    assert process.wait(10) == 0
    assert (no_strays / "attempt_7.log").read_text().split() == ["1", "2", str(no_strays.resolve())]
