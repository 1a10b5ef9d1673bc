"""Places attempts on Ray: Ray Tune runs the loop and the slots, the coordinator decides everything.

Each attempt is one trial of Tune's. Its actor (one per slot, used again and again) owns the attempt's process. A slot
becomes free only after the process group in it is gone: a verdict to stop is passed to the actor as a message, and
Tune hears of the end when the actor reports the outcome.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import shutil
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import ray
from ray import tune
from ray._private import ray_constants
from ray.exceptions import RayTaskError
from ray.job_config import JobConfig
from ray.tune.experiment import Trial as RayTrial
from ray.tune.progress_reporter import TrialProgressCallback
from ray.tune.schedulers import TrialScheduler
from ray.tune.search import Searcher

from autotune.clock import Clock
from autotune.errors import UnreachableError, UsageError
from autotune.execution.backend_path import load_backend
from autotune.execution.dispatch import Dispatcher, Order
from autotune.execution.fork_servers import WarmPlace, warm_place
from autotune.execution.ports import Coordinator
from autotune.execution.ray_home import ray_home
from autotune.execution.trial_lock import is_locked
from autotune.execution.worker import Job, Report, Worker
from autotune.search.types import EndKind, Launch, Wait
from autotune.spec.types import Resources

if TYPE_CHECKING:
    from ray.tune.execution.tune_controller import TuneController

logger = logging.getLogger(__name__)

_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AIR_NEW_OUTPUT": "0",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_enable_metrics_collection": "0",
    # The trial's memory is the trial's affair: a worker killed for it would look like a lost machine.
    "RAY_memory_monitor_refresh_ms": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",
    "TUNE_GLOBAL_CHECKPOINT_S": "1000000000",
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",
    "TUNE_WARN_THRESHOLD_S": "5",
    "TUNE_WARN_INSUFFICENT_RESOURCE_THRESHOLD_S": "600",
}
_OBJECT_STORE = 80 << 20
_KNOCK_S = 10.0


def run_on_ray(  # noqa: PLR0913 - each is one independent fact of the run
    coordinator: Coordinator,
    *,
    backend: str,
    job_dir: Path,
    resources: Resources,
    parallel: int,
    steps: int,
    grace_s: float,
    address: str | None,
    clock: Clock,
    on_idle: Callable[[], None],
    home: Path | None = None,
    warm_s: float = 0.0,
    on_cluster: Callable[[Mapping[str, float]], None] = lambda _: None,
) -> None:
    """Runs a coordinator's trials as processes until it is done and every process has ended.

    Without an address a Ray of its own is started on this machine and ended again; it dies with this process. A Ray
    that this process is already connected to is used as it is.

    Args:
        coordinator: Called from this thread only.
        backend: Name in the registry of backends, or ``module:attribute``.
        job_dir: The job's directory; every machine of a cluster must see it under the same path.
        resources: What one trial occupies.
        parallel: Trials at a time.
        steps: Training steps of a full trial.
        grace_s: Seconds between SIGTERM and SIGKILL for a trial.
        address: A running Ray cluster.
        clock: The time that the coordinator sees.
        on_idle: Called about every second from this thread; an exception in it ends the run.
        home: A directory for a Ray of its own (see ``ray_home``); without it one is made.
        warm_s: Seconds that a machine's fork server outlives its last trial; 0 = each starts in a fresh interpreter.
        on_cluster: Told once what all machines of the cluster have, by Ray's names (``GPU``).

    Raises:
        UsageError: If this machine can never give one trial its resources.
        UnreachableError: If Ray does not start or answer.
        Exception: Whatever the coordinator or ``on_idle`` raised, after all processes have ended.
    """
    job_dir = job_dir.absolute()
    ranks = max(1, int(resources.gpus))
    job = Job(backend=backend, trials_dir=job_dir / "trials", steps=steps, grace_s=grace_s, ranks=ranks, warm_s=warm_s)
    job.trials_dir.mkdir(parents=True, exist_ok=True)
    dispatcher = Dispatcher(coordinator, clock, on_idle)
    dispatcher.idle()  # starting Ray takes seconds, in which nobody calls it
    try:
        with _environment(_QUIET), _connection(address, resources, parallel, home) as slots:
            on_cluster(ray.cluster_resources())
            _tune(dispatcher, job, job_dir / "ray", resources, min(parallel, slots))
    except Exception as error:
        if dispatcher.error is None:
            raise
        raise dispatcher.error from error
    finally:
        _wait_for_ends(job, dispatcher.directories())
    if dispatcher.error is not None:
        raise dispatcher.error


@contextlib.contextmanager
def ray_kept(address: str | None, places: Sequence[tuple[Resources, int]], home: Path | None = None) -> Iterator[None]:
    """Keeps one Ray for several runs one after the other, since starting it takes seconds.

    Args:
        address: A running Ray cluster; without one a Ray of its own is started on this machine.
        places: What a trial of each run occupies, and how many run at a time.
        home: A directory for a Ray of its own (see ``ray_home``); without it one is made.

    Raises:
        UsageError: If this machine can never give a trial of one of the runs its resources.
        UnreachableError: If Ray does not start or answer.
    """
    cpus = max(resources.cpus * parallel for resources, parallel in places)
    with _environment(_QUIET), _connection(address, Resources(cpus=cpus), 1, home):
        for resources, parallel in () if address else places:
            _slots(resources, parallel)
        yield


def _tune(dispatcher: Dispatcher, job: Job, storage: Path, resources: Resources, parallel: int) -> None:
    bundle = {"CPU": resources.cpus, "GPU": resources.gpus, "memory": resources.memory or 0}
    needs = tune.PlacementGroupFactory([{name: amount for name, amount in bundle.items() if amount} or {"CPU": 0.001}])
    scheduler = _Verdicts(dispatcher)
    logging.getLogger("ray.tune").setLevel(logging.CRITICAL)  # failures are ours to tell
    try:
        tune.run(
            _Slot,
            name="tune",
            num_samples=-1,
            search_alg=_Proposals(dispatcher, job),
            scheduler=scheduler,
            max_concurrent_trials=parallel,
            resources_per_trial=needs,
            reuse_actors=True,
            storage_path=str(storage),
            trial_dirname_creator=lambda trial: trial.trial_id,
            callbacks=[_Starts(dispatcher)],
            max_failures=0,
            raise_on_failed_trial=False,
            verbose=0,
        )
    except BaseException:
        scheduler.end_everything()
        raise
    finally:
        shutil.rmtree(storage, ignore_errors=True)


class _Slot(tune.Trainable):  # type: ignore[misc]
    """The actor of one slot."""

    _worker: Worker | None = None

    def setup(self, config: dict[str, object]) -> None:
        self.reset_config(config)

    def reset_config(self, new_config: dict[str, object]) -> bool:
        job, launch = new_config["job"], new_config["launch"]
        assert isinstance(job, Job)
        assert isinstance(launch, Launch)
        if self._worker is None:
            self._worker = Worker(job, load_backend, _warm_place(job.warm_s))
        self._worker.begin(launch)
        return True

    def step(self) -> dict[str, object]:
        assert self._worker is not None
        return {"report": self._worker.step()}

    def request_stop(self) -> None:
        if self._worker is not None:
            self._worker.request_stop()

    def cleanup(self) -> None:
        if self._worker is not None:
            self._worker.close()


def _warm_place(warm_s: float) -> WarmPlace | None:
    """Where the fork servers of the machine are that this actor runs on; they end with its raylet."""
    node, raylet = ray._private.worker._global_node, os.environ.get("RAY_RAYLET_PID", "")
    if not warm_s or node is None or not raylet.isdigit():
        return None
    return warm_place(Path(node.get_temp_dir_path()), watched=int(raylet), idle_s=warm_s)


class _Proposals(Searcher):  # type: ignore[misc]
    """Tune's searcher: hands out the coordinator's launches."""

    def __init__(self, dispatcher: Dispatcher, job: Job) -> None:
        super().__init__()
        self._dispatcher = dispatcher
        self._job = job

    def suggest(self, trial_id: str) -> dict[str, object] | str | None:
        answer = self._dispatcher.next_trial(trial_id)
        if isinstance(answer, Launch):
            return {"job": self._job, "launch": answer}
        return None if isinstance(answer, Wait) else str(Searcher.FINISHED)

    def on_trial_complete(self, trial_id: str, result: Mapping[str, object] | None = None, error: bool = False) -> None:
        """Nothing to do: the scheduler has seen the end already."""

    def save(self, checkpoint_path: str) -> None:
        """Nothing to keep: the truth is in the study database."""


class _Verdicts(TrialScheduler):  # type: ignore[misc]
    """Tune's scheduler: hands reports to the coordinator and its verdicts to the actors."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        super().__init__()
        self._dispatcher = dispatcher
        self._controller: TuneController | None = None

    def end_everything(self) -> None:
        """Ends the actors after an interrupt, which Tune itself leaves to the end of the process."""
        if self._controller is not None:
            self._controller.cleanup()

    def choose_trial_to_run(self, tune_controller: TuneController) -> RayTrial | None:
        self._controller = tune_controller
        self._dispatcher.idle()
        unplaced = self._dispatcher.unplaced()
        for trial in tune_controller.get_trials() if unplaced else ():
            if trial.trial_id in unplaced and trial.status == RayTrial.PENDING:
                tune_controller.stop_trial(trial)
        return None

    def on_trial_result(self, _: TuneController, trial: RayTrial, result: Mapping[str, object]) -> str:
        report = result["report"]
        assert isinstance(report, Report)
        order = self._dispatcher.report(trial.trial_id, report)
        if order is Order.END_PROCESS:
            trial.temporary_state.ray_actor.request_stop.remote()
        return str(TrialScheduler.STOP if order is Order.FREE else TrialScheduler.CONTINUE)

    def on_trial_error(self, _: TuneController, trial: RayTrial) -> None:
        kind, message, hint = _why_lost(trial)
        self._dispatcher.lost(trial.trial_id, kind, message, hint)

    def on_trial_remove(self, _: TuneController, trial: RayTrial) -> None:
        self._dispatcher.lost(trial.trial_id, EndKind.STOPPED, "stopped while it waited for resources")

    def on_trial_add(self, _: TuneController, trial: RayTrial) -> None:
        """Nothing to do: the dispatcher knows the attempt."""

    def on_trial_complete(self, _: TuneController, trial: RayTrial, result: Mapping[str, object]) -> None:
        """Nothing to do: the outcome came with the last report."""

    def debug_string(self) -> str:
        return "autotune"


class _Starts(TrialProgressCallback):  # type: ignore[misc]
    """Tells the dispatcher when an attempt gets its slot; in place of Tune's own, which prints to stdout."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        super().__init__()
        self._dispatcher = dispatcher

    def on_trial_start(self, *, trial: RayTrial, **_: object) -> None:
        self._dispatcher.started(trial.trial_id)

    def on_trial_result(self, **_: object) -> None:
        """Prints nothing."""

    def on_trial_error(self, **_: object) -> None:
        """Prints nothing."""

    def on_trial_complete(self, **_: object) -> None:
        """Prints nothing."""


def _why_lost(trial: RayTrial) -> tuple[EndKind, str, str]:
    path, error = trial.pickled_error_file, None
    if path is not None:
        with contextlib.suppress(Exception):
            error = ray.cloudpickle.loads(Path(path).read_bytes())
    text = " ".join(str(error or "no reason given").split())[:500]
    if isinstance(error, RayTaskError):
        return EndKind.UNKNOWN, f"the worker failed: {text}", "This is a defect of autotune; please report it."
    return EndKind.NODE, f"the Ray worker or its machine went away: {text}", ""


@contextlib.contextmanager
def _connection(address: str | None, resources: Resources, parallel: int, home: Path | None = None) -> Iterator[int]:
    """A connection to Ray; yields how many trials can run at a time."""
    if ray.is_initialized():
        yield parallel
        return
    with contextlib.ExitStack() as stack:
        temporary = home if address or home else stack.enter_context(ray_home())
        stack.callback(ray.shutdown)
        handler = signal.getsignal(signal.SIGTERM)
        try:
            _connect(address, resources, parallel, temporary)
        except Exception as error:  # Ray raises plain ones, for example when an overloaded machine takes too long
            where = f"at {address!r} does not answer" if address else "does not start on this machine"
            raise UnreachableError(
                f"Ray {where}: {error}", hint="Check AUTOTUNE_RAY_ADDRESS, load, free memory and /dev/shm."
            ) from error
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)  # ray.init takes SIGTERM for itself
        yield parallel if address else _slots(resources, parallel)


def _connect(address: str | None, resources: Resources, parallel: int, temporary: Path | None) -> None:
    # Ray hands on only the script's own and the current directory; backends may be importable from elsewhere.
    paths = JobConfig(_py_driver_sys_path=[path for path in sys.path if path])
    if address:
        _knock(address)
        ray.init(address=address, job_config=paths, log_to_driver=False, logging_level=logging.ERROR)
        return
    with _loopback_only():
        ray.init(
            address="local",
            job_config=paths,
            num_cpus=max(1, math.ceil(parallel * resources.cpus)),
            object_store_memory=_OBJECT_STORE,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
            _node_ip_address="127.0.0.1",
            _temp_dir=str(temporary),
        )


def _knock(address: str) -> None:
    """Finds out in seconds that nobody is there, for which Ray itself takes minutes.

    Raises:
        OSError: If nothing listens at a host and a port.
    """
    host, _, port = address.rpartition(":")
    if host and port.isdigit() and "/" not in host:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_KNOCK_S).close()


@contextlib.contextmanager
def _loopback_only() -> Iterator[None]:
    """Keeps 127.0.0.1, which Ray would replace by the machine's public address and then listen everywhere."""
    before = ray_constants.ENABLE_RAY_CLUSTER
    ray_constants.ENABLE_RAY_CLUSTER = False  # what RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER=0 sets before the import
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before


def _slots(resources: Resources, parallel: int) -> int:
    have = ray.cluster_resources()
    needs = {"CPU": resources.cpus, "GPU": resources.gpus, "memory": float(resources.memory or 0)}
    for name, need in needs.items():
        if need > have.get(name, 0.0):
            raise UsageError(
                f"one trial needs {need:g} {name}, this machine has {have.get(name, 0.0):g}.",
                hint="Lower `resources` in the space file, or attach to a larger cluster with AUTOTUNE_RAY_ADDRESS.",
            )
    return min([parallel, *(int(have[name] / need + 1e-9) for name, need in needs.items() if need > 0)])


@contextlib.contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update({name: value for name, value in values.items() if before[name] is None})
    try:
        yield
    finally:
        for name in [name for name, value in before.items() if value is None]:
            os.environ.pop(name, None)


def _wait_for_ends(job: Job, directories: tuple[str, ...]) -> None:
    """After an interrupted run: the guards are ending the processes; returns once they have."""
    until = time.monotonic() + job.grace_s + 5.0
    waiting = [job.trials_dir / name for name in directories]
    while waiting and time.monotonic() < until:
        waiting = [directory for directory in waiting if is_locked(directory)]
        time.sleep(0.05 if waiting else 0.0)
    for directory in waiting:
        logger.error("processes of a trial are still alive in %s", directory)
