import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from fake_coordinator import FakeCoordinator
from live_processes import processes, wait_until
from ray.exceptions import AuthenticationError

from autotune.clock import SystemClock
from autotune.errors import LeaseLostError, UnreachableError, UsageError
from autotune.execution import ray_connection, ray_home, ray_tune
from autotune.execution.ray_connection import ray_connected, slots
from autotune.search.types import EndKind
from autotune.spec.types import Resources

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
SUPPORT = Path(__file__).with_name("support")


@pytest.fixture(scope="module")
def one_ray():
    with ray_connected(None, [(Resources(cpus=1), 2)]):
        yield


def run(coordinator, job_dir, on_idle=lambda: None, steps=4, grace_s=2.0):
    ray_tune.run_on_ray(
        coordinator,
        backend="process_backend:BACKEND",
        job_dir=job_dir,
        resources=Resources(cpus=1),
        parallel=2,
        steps=steps,
        grace_s=grace_s,
        address=None,
        clock=SystemClock(),
        on_idle=on_idle,
    )


def kinds(coordinator, number):
    return [outcome.kind for outcome in coordinator.end_of(number)]


def test_trials_are_stopped_retried_and_classified_two_at_a_time(one_ray, no_strays):
    coordinator = FakeCoordinator(
        [
            {"steps": 4, "step_s": 0.3},
            {"steps": 4, "how": "crash_once", "at": 3, "save_freq": 2},
            {"how": "oom", "at": 2},
            {"steps": 4},
        ],
        stop_at={0: 2},
    )
    run(coordinator, no_strays)
    assert kinds(coordinator, 0) == [EndKind.STOPPED]
    assert kinds(coordinator, 1) == [EndKind.CRASH, EndKind.FINISHED]
    assert kinds(coordinator, 2) == [EndKind.OUT_OF_MEMORY]
    assert kinds(coordinator, 3) == [EndKind.FINISHED]
    assert coordinator.most == 2
    assert coordinator.steps[1] == [1, 2, 3, 3, 4]
    assert (1, 2, "checkpoints/step_2") in coordinator.checkpoints
    # On a busy machine the order to stop may come a step later.
    assert any(trial == 0 and step in (2, 3) for trial, step, _ in coordinator.checkpoints)
    assert all(0 < outcome.cost_s < 60 for _, _, outcome in coordinator.ends)
    assert sorted(path.name for path in (no_strays / "trials" / "0001").glob("*.log")) == [
        "attempt_1.log",
        "attempt_2.log",
    ]
    assert not (no_strays / "ray").exists()


def test_a_killed_worker_is_a_lost_node_and_its_trial_is_tried_again(one_ray, no_strays):
    coordinator = FakeCoordinator([{"steps": 4, "how": "kill_worker", "at": 2, "save_freq": 1}, {"steps": 4}])
    run(coordinator, no_strays, grace_s=0.5)
    assert kinds(coordinator, 0) == [EndKind.NODE, EndKind.FINISHED]
    assert coordinator.end_of(0)[0].message
    assert kinds(coordinator, 1) == [EndKind.FINISHED]
    assert coordinator.steps[0][-2:] == [3, 4]


def test_a_cancel_reaches_a_silent_trial_through_its_heartbeat(one_ray, no_strays):
    coordinator = FakeCoordinator([{"how": "hang", "at": 1}, {"how": "deaf", "at": 1}, {}])

    def cancel_once_silent():
        coordinator.cancelled = min(coordinator.silent_heartbeats[0], coordinator.silent_heartbeats[1]) >= 1

    run(coordinator, no_strays, cancel_once_silent, steps=9, grace_s=1.0)
    assert kinds(coordinator, 0) == kinds(coordinator, 1) == [EndKind.STOPPED]
    assert (0, 1, "checkpoints/step_1") in coordinator.checkpoints
    assert kinds(coordinator, 2) == []


def test_an_error_of_the_coordinator_ends_the_processes_and_then_the_run(one_ray, no_strays):
    coordinator = FakeCoordinator([{"how": "hang", "at": 3, "save_freq": 10}] * 2, error_at=("metrics", 2))
    with pytest.raises(ZeroDivisionError, match="the database is gone"):
        run(coordinator, no_strays, steps=9)
    assert processes(str(no_strays)) == []
    assert (no_strays / "trials" / "0000" / "checkpoints" / "step_3").exists()


def test_an_error_in_on_idle_ends_the_run(one_ray, no_strays):
    def lose():
        if coordinator.steps[0]:
            raise LeaseLostError("another driver holds the job")

    coordinator = FakeCoordinator([{"how": "hang", "at": 3}])
    with pytest.raises(LeaseLostError):
        run(coordinator, no_strays, lose, steps=9)
    assert processes(str(no_strays)) == []


def test_an_interrupt_leaves_no_process_behind(one_ray, no_strays):
    def interrupt():
        if coordinator.steps[0]:
            raise KeyboardInterrupt

    coordinator = FakeCoordinator([{"how": "hang", "at": 3}] * 2)
    with pytest.raises(KeyboardInterrupt):
        run(coordinator, no_strays, interrupt, steps=9, grace_s=1.0)
    assert processes(str(no_strays)) == []


def test_starting_a_trial_costs_no_actor_start(one_ray, no_strays):
    coordinator = FakeCoordinator([{"steps": 1}] * 20)
    ended, on_end = [], coordinator.on_end

    def note(attempt, outcome, now):
        ended.append(now)
        on_end(attempt, outcome, now)

    coordinator.on_end = note
    run(coordinator, no_strays, steps=1)
    rate = (len(ended) - 1) / (ended[-1] - ended[0])
    print(f"{rate:.1f} trials/s")
    assert {outcome.kind for _, _, outcome in coordinator.ends} == {EndKind.FINISHED}
    assert rate > 2.0


def driver(directory, configs):
    (temporary := directory / "t").mkdir()
    env = {**os.environ, "PYTHONPATH": f"{ROOT}:{SUPPORT}", "TMPDIR": str(temporary)}
    return subprocess.Popen(
        [sys.executable, str(SUPPORT / "run_driver.py"), str(directory), json.dumps(configs)],
        cwd=directory,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def descendants(pid):
    """Process id -> start time of everything below a process."""
    parents, starts = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            parents[int(entry.name)], starts[int(entry.name)] = int(fields[1]), fields[19]
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return {child: starts[child] for child in found if child in starts}


def alive(known):
    left = []
    for pid, start in known.items():
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if fields[19] == start and fields[0] != "Z":
            left.append(pid)
    return left


def test_nothing_survives_a_driver_that_is_killed(no_strays):
    process = driver(no_strays, [{"how": "hang", "at": 1}, {"how": "deaf", "at": 1, "steps": 9}])
    trials = [no_strays / "trials" / name / "metrics.jsonl" for name in ("0000", "0001")]
    wait_until(lambda: all(path.exists() for path in trials) or process.poll() is not None, 90)
    known = descendants(process.pid)
    assert len(known) > 6
    process.kill()
    process.communicate()
    wait_until(lambda: not alive(known), 10, "the end of all processes")


def test_a_ray_of_its_own_is_silent_private_and_cleaned_up(no_strays):
    process = driver(no_strays, [{"steps": 4}, {"steps": 4}])
    stdout, stderr = process.communicate(timeout=120)
    assert (process.returncode, stdout) == (0, b""), stderr.decode()
    done = json.loads((no_strays / "ends.json").read_text())
    assert done.pop("ends") == {"0": "finished", "1": "finished"}
    # MLflow is an observer's to import, on its own thread; two threads in its circular imports can end both.
    assert done == {"sigterm_was_taken": False, "left": [], "listening": [], "imported": []}
    assert sorted(path.name for path in no_strays.iterdir()) == ["ends.json", "t", "trials"]


def test_the_slots_are_what_the_machine_can_hold(one_ray, monkeypatch):
    monkeypatch.setattr(ray_connection.ray, "cluster_resources", lambda: {"CPU": 4.0, "GPU": 1.0, "memory": 8e9})
    assert slots(Resources(cpus=1), 3) == 3
    assert slots(Resources(cpus=1, gpus=0.5), 4) == 2
    with pytest.raises(UsageError, match="needs 2 GPU, this machine has 1"):
        slots(Resources(gpus=2), 1)


def test_a_cluster_that_does_not_answer_is_named_within_seconds(no_strays, monkeypatch):
    monkeypatch.setattr(ray_connection.ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray_connection.ray, "shutdown", lambda: None)
    asked = []
    monkeypatch.setattr(ray_connection.ray, "init", lambda **_: asked.append("Ray, which takes minutes"))
    where = r"127\.0\.0\.1:1.*does not answer.*refused"
    with pytest.raises(UnreachableError, match=where), ray_connected("127.0.0.1:1", [(Resources(), 1)]):
        raise AssertionError("unreachable")
    assert asked == []


def test_a_ray_that_goes_away_is_an_outage_whatever_breaks_behind_it(one_ray, no_strays, monkeypatch):
    class Controller:
        def cleanup(self):
            raise KeyError("a placement group")

    def lost(*_, scheduler, **__):
        scheduler._controller = Controller()
        raise AuthenticationError("WrongClusterID: the GCS has restarted")

    monkeypatch.setattr(ray_tune.tune, "run", lost)
    with pytest.raises(UnreachableError, match=r"Ray went away while trials ran: .*WrongClusterID"):
        run(FakeCoordinator([]), no_strays)


def test_a_deep_temporary_directory_gives_way_to_a_short_one(monkeypatch):
    monkeypatch.setattr(ray_home.tempfile, "gettempdir", lambda: "/tmp/" + "x" * 60)
    with ray_home.ray_home() as directory:
        assert directory.is_dir()
        assert len(str(directory)) <= ray_home._SOCKET_ROOM
    assert not directory.exists()
