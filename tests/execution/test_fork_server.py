"""Trials forked from a process that has imported torch: the same trials, and nothing left of any of them."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from live_processes import processes, wait_until

from autotune.backends import get_backend
from autotune.backends.base import Command
from autotune.execution.backend_path import load_backend
from autotune.execution.fork_servers import ForkServers, WarmPlace, can_fork
from autotune.execution.forked_guard import NotWarmError
from autotune.execution.metrics_tail import StepLine
from autotune.execution.trial_lock import is_locked, try_lock
from autotune.execution.trial_process import TrialProcess
from autotune.execution.worker import Job, Worker
from autotune.search.types import Attempt, EndKind, Launch
from autotune.spec.types import TrainerSpec

SUPPORT = Path(__file__).parent / "support"
LONG = 100_000
OVERRIDES = {"data": "digits", "model": "tiny", "trainer.total_steps": 3, "trainer.test_freq": 3}


def place(directory, idle_s=60.0):
    return WarmPlace(directory=directory / "warm", watched=os.getpid(), idle_s=idle_s)


def environment(command):
    return {**os.environ, "PYTHONPATH": str(SUPPORT), **command.env}


def tiny(how="steps", **env):
    """A command whose module takes no time to import."""
    return Command(argv=(sys.executable, "-m", "forked_trial", how), env=env, preload="forked_imports")


def ready(servers, command):
    server = servers.ready(command, environment(command), time.monotonic() + 60)
    assert server is not None
    return server


def start(servers, command, directory, monkeypatch, grace_s=5.0):
    monkeypatch.setenv("PYTHONPATH", str(SUPPORT))
    lock = try_lock(directory)
    server = ready(servers, command)
    return TrialProcess(command, directory, attempt=1, grace_s=grace_s, lock=lock, server=server)


@pytest.fixture
def short(tmp_path_factory, no_strays):
    """A directory with a short name: a socket's path has 107 bytes."""
    directory = Path(os.path.realpath(tmp_path_factory.mktemp("w")))
    yield directory
    wait_until(lambda: not processes(str(directory / "warm")), 10, "the end of the fork servers")


@pytest.fixture
def servers(short):
    servers = ForkServers(place(short))
    yield servers
    servers.end()


def pid_of(directory, name="pid"):
    path = directory / name
    wait_until(lambda: path.exists() and path.read_text().strip(), 20, f"{name} of the trial")
    return int(path.read_text())


def stat_fields(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def test_a_forked_trial_has_what_one_from_a_fresh_interpreter_has(servers, no_strays, monkeypatch):
    command = tiny("report", INNER="7", CUDA_VISIBLE_DEVICES="3")
    forked = start(servers, command, no_strays, monkeypatch)
    assert forked.wait(20) == 0, (no_strays / "attempt_1.log").read_text()
    warm = json.loads((no_strays / "report.json").read_text())
    fresh = TrialProcess(command, no_strays, attempt=2, grace_s=5, lock=try_lock(no_strays))
    assert fresh.wait(20) == 0, (no_strays / "attempt_2.log").read_text()
    cold = json.loads((no_strays / "report.json").read_text())
    assert warm.pop("imported") is True
    assert cold.pop("imported") is False
    assert warm["env"].pop("AUTOTUNE_ATTEMPT") == f"{no_strays}#1"
    assert cold["env"].pop("AUTOTUNE_ATTEMPT") == f"{no_strays}#2"
    assert warm == cold
    assert cold["env"]["CUDA_VISIBLE_DEVICES"] == "3"
    assert (cold["cwd"], cold["in_group_of_parent"], cold["own_session"]) == (str(no_strays.resolve()), True, True)


@pytest.mark.parametrize(
    ("how", "code"),
    [("exit 10", 10), ("exit 0", 0), ("raise", 1), ("kill 9", -9), ("kill 11", -11), ("abort", -6), ("text", 1)],
)
def test_it_ends_as_it_would_from_a_fresh_interpreter(servers, no_strays, monkeypatch, how, code):
    forked = start(servers, tiny(how), no_strays, monkeypatch)
    assert forked.wait(20) == code
    fresh = TrialProcess(tiny(how), no_strays, attempt=2, grace_s=5, lock=try_lock(no_strays))
    assert fresh.wait(20) == code
    last = [(no_strays / f"attempt_{n}.log").read_text().splitlines()[-1:] for n in (1, 2)]
    assert last[0] == last[1]


def test_what_runs_at_exit_runs_and_what_was_printed_is_there(servers, no_strays, monkeypatch):
    forked = start(servers, tiny("atexit"), no_strays, monkeypatch)
    assert forked.wait(20) == 0
    assert (no_strays / "attempt_1.log").read_text().split() == ["printed", "left"]


def test_sigterm_lets_it_end_in_its_own_way(servers, no_strays, monkeypatch):
    forked = start(servers, tiny("polite"), no_strays, monkeypatch)
    pid_of(no_strays)
    assert forked.terminate(10) == 10
    assert (no_strays / "checkpoint").exists()
    assert not is_locked(no_strays)


def test_one_that_ignores_sigterm_is_killed_with_all_below_it(servers, no_strays, monkeypatch):
    forked = start(servers, tiny("deaf"), no_strays, monkeypatch)
    grandchild = pid_of(no_strays, "grandchild")
    assert forked.terminate(0.3) == -signal.SIGKILL
    assert not Path(f"/proc/{grandchild}").exists() or stat_fields(grandchild)[0] == "Z"
    assert not is_locked(no_strays)


@pytest.mark.parametrize("victim", ["trial", "guard"])
def test_nothing_is_left_of_a_trial_whose_process_or_guard_is_killed(servers, no_strays, monkeypatch, victim):
    forked = start(servers, tiny("deaf"), no_strays, monkeypatch, grace_s=0.3)
    pid_of(no_strays, "grandchild")
    os.kill(pid_of(no_strays) if victim == "trial" else forked.pgid, signal.SIGKILL)
    assert forked.wait(20) == -signal.SIGKILL
    assert processes(str(no_strays)) == []
    assert not is_locked(no_strays)


def test_a_trial_outlives_its_fork_server_and_the_next_one_gets_another(servers, no_strays, monkeypatch):
    (no_strays / "a").mkdir()
    (no_strays / "b").mkdir()
    first = start(servers, tiny("polite"), no_strays / "a", monkeypatch)
    pid_of(no_strays / "a")
    server = int(stat_fields(first.pgid)[1])
    os.kill(server, signal.SIGKILL)
    second = start(servers, tiny("exit 0"), no_strays / "b", monkeypatch)
    assert second.wait(20) == 0
    assert first.poll() is None
    assert first.terminate(10) == 10
    assert (no_strays / "a" / "checkpoint").exists()


def test_a_trial_ends_when_its_worker_does(short, no_strays):
    driver = SUPPORT / "fork_and_hang.py"
    worker = os.spawnve(
        os.P_NOWAIT,
        sys.executable,
        [sys.executable, str(driver), str(short / "warm"), str(no_strays)],
        {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), str(SUPPORT)])},
    )
    pid_of(no_strays)
    os.kill(worker, signal.SIGKILL)
    os.waitpid(worker, 0)
    wait_until(lambda: not is_locked(no_strays), 20, "the end of the trial")
    assert (no_strays / "checkpoint").exists()


def test_one_server_serves_many_trials_of_several_workers(short, no_strays, monkeypatch):
    workers = [ForkServers(place(short)) for _ in range(3)]
    running = []
    for number in range(24):
        directory = no_strays / str(number)
        directory.mkdir()
        running.append(start(workers[number % 3], tiny("exit 10"), directory, monkeypatch))
    assert [one.wait(20) for one in running] == [10] * 24
    assert len(list((short / "warm").glob("*.lock"))) == 1
    for worker in workers:
        worker.end()


def test_it_ends_when_nobody_asks(short, no_strays, monkeypatch):
    servers = ForkServers(place(short, idle_s=0.3))
    assert start(servers, tiny("exit 0"), no_strays, monkeypatch).wait(20) == 0
    wait_until(lambda: not processes(str(short / "warm")), 10)
    assert start(servers, tiny("exit 10"), no_strays, monkeypatch).wait(20) == 10


def test_it_is_nobodys_child_so_that_it_outlives_the_worker_that_started_it(servers, no_strays, monkeypatch):
    start(servers, tiny("exit 0"), no_strays, monkeypatch).wait(20)
    (server,) = processes(str(servers._place.directory))
    assert int(stat_fields(server)[1]) != os.getpid()
    assert os.getsid(server) != os.getsid(0)


def test_it_ends_with_the_process_that_it_watches(short, no_strays, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(SUPPORT))
    watched = subprocess.Popen(["/bin/sleep", "60"])
    servers = ForkServers(WarmPlace(directory=short / "warm", watched=watched.pid, idle_s=60.0))
    ready(servers, tiny()).close()
    slow = Command(argv=tiny().argv, preload="forked_slow")
    servers.start(slow, environment(slow))
    assert len(processes(str(short / "warm"))) == 2
    watched.kill()
    watched.wait()
    wait_until(lambda: not processes(str(short / "warm")), 10)
    servers.close()


def test_another_environment_is_another_server_and_another_gpu_is_not(short, no_strays, monkeypatch):
    servers = ForkServers(place(short))
    late = {"CUDA_VISIBLE_DEVICES": "1", "AUTOTUNE_HOME": "/x", "MLFLOW_HTTP_REQUEST_TIMEOUT": "20", "RAY_JOB_ID": "1"}
    for env in ({}, late, {"OMP_NUM_THREADS": "2"}):
        assert start(servers, tiny("exit 0", **env), no_strays, monkeypatch).wait(20) == 0
    assert len(list((short / "warm").glob("*.lock"))) == 2
    servers.end()


@pytest.mark.parametrize(
    ("module", "why"),
    [("forked_threads", "started 1 threads"), ("forked_broken", "ImportError: this cannot be imported")],
)
def test_what_cannot_be_forked_starts_in_a_fresh_interpreter_and_the_log_says_so(
    servers, no_strays, monkeypatch, module, why
):
    monkeypatch.setenv("PYTHONPATH", str(SUPPORT))
    command = Command(argv=(sys.executable, "-m", "forked_trial", "exit 10"), preload=module)
    for _ in range(2):  # the second time it is known
        with pytest.raises(NotWarmError, match=why) as raised:
            ready(servers, command)
    process = TrialProcess(command, no_strays, attempt=1, grace_s=5, lock=try_lock(no_strays), server=raised.value)
    assert process.wait(20) == 10
    log = (no_strays / "attempt_1.log").read_text()
    assert "fresh interpreter, which takes some seconds: the fork server ended" in log
    assert why in log


def test_a_directory_that_others_can_reach_is_refused(short):
    (short / "warm").mkdir(mode=0o755)
    with pytest.raises(NotWarmError, match="not a directory of this user alone"):
        ready(ForkServers(place(short)), tiny())


def test_a_server_that_dies_with_a_request_in_its_hands_starts_nothing(servers, no_strays, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(SUPPORT))
    command = tiny("exit 10")
    start(servers, command, no_strays, monkeypatch).wait(20)
    server = ready(servers, command)
    (pid,) = processes(str(servers._place.directory))
    os.kill(pid, signal.SIGKILL)
    process = TrialProcess(command, no_strays, attempt=2, grace_s=5, lock=try_lock(no_strays), server=server)
    assert process.wait(20) == 10
    assert "note: this attempt starts in a fresh interpreter" in (no_strays / "attempt_2.log").read_text()


def test_only_the_trainer_alone_is_forked(tmp_path):
    native = get_backend("native")
    config = native.describe(TrainerSpec(overrides=OVERRIDES)).config
    command = native.prepare(config, tmp_path)
    assert can_fork(command)
    assert not can_fork(native.on_ranks(command, 2))
    assert not can_fork(Command(argv=("/usr/bin/python3", "-m", "trainer", "--trial"), preload=command.preload))
    assert native.command({**config, "model.path": "/models/x"}).preload == "trainer.preload.pretrained"


def run(worker, launch):
    worker.begin(launch)
    lines = []
    while True:
        report = worker.step()
        lines += [line for line in report.lines if isinstance(line, StepLine)]
        if report.outcome is not None:
            return lines, report.outcome


def learnt(lines):
    """The metrics of each step but for those that measure time and memory."""
    return [
        (line.step, {name: value for name, value in line.metrics.items() if not name.startswith(("perf/", "system/"))})
        for line in lines
    ]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_run_is_the_same_bit_for_bit_whether_it_was_forked_or_not(short, no_strays):
    config = dict(get_backend("native").describe(TrainerSpec(overrides=OVERRIDES)).config)
    job = Job(backend="native", trials_dir=no_strays, steps=3, grace_s=60.0)
    cold, warm = Worker(job, load_backend), Worker(job, load_backend, place(short))
    curves = []
    for number, worker in enumerate([cold, warm, warm]):
        attempt = Attempt(trial=number, number=1, token="t")
        lines, outcome = run(worker, Launch(attempt=attempt, config=config, directory=f"{number:04d}"))
        assert (outcome.kind, outcome.last_step) == (EndKind.FINISHED, 3), outcome.message
        assert "fresh interpreter" not in (no_strays / f"{number:04d}" / "attempt_1.log").read_text()
        curves.append(learnt(lines))
    assert curves[0] == curves[1] == curves[2]
    try:
        stop_a_long_one(Worker(dataclasses.replace(job, steps=LONG), load_backend, place(short)), config, no_strays)
    finally:
        warm.end_servers()


def stop_a_long_one(worker, config, trials):
    """A forked run that is told to stop writes its checkpoint, as any other does."""
    long = {**config, "trainer.total_steps": LONG}
    worker.begin(Launch(attempt=Attempt(trial=9, number=1, token="t"), config=long, directory="0009"))
    outcome, steps = None, 0
    while outcome is None:
        report = worker.step()
        steps += sum(isinstance(line, StepLine) for line in report.lines)
        if steps > 2:
            worker.request_stop()
        outcome = report.outcome
    assert outcome.kind is EndKind.STOPPED, outcome.message
    assert list((trials / "0009" / "checkpoints").glob("step_*"))
    assert not is_locked(trials / "0009")
