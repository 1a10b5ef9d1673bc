"""Places attempts on Ray: Ray Tune runs the loop and the slots, the coordinator decides everything.

Each attempt is one trial of Tune's. Its actor (one per slot, used again and again) owns the attempt's process. A slot
becomes free only after the process group in it is gone: a verdict to stop is passed to the actor as a message, and
Tune hears of the end when the actor reports the outcome.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import ray
from ray import tune
from ray.air._internal import usage as air_usage
from ray.exceptions import RayError, RayTaskError
from ray.tune.experiment import Trial as RayTrial
from ray.tune.progress_reporter import TrialProgressCallback
from ray.tune.schedulers import TrialScheduler
from ray.tune.search import Searcher

from autotune.clock import Clock
from autotune.errors import UnreachableError
from autotune.execution.backend_path import load_backend
from autotune.execution.dispatch import Dispatcher, Order
from autotune.execution.fork_servers import WarmPlace, warm_place
from autotune.execution.ports import Coordinator
from autotune.execution.ray_connection import ray_connected, slots
from autotune.execution.trial_lock import is_locked
from autotune.execution.worker import Job, Report, Worker
from autotune.search.types import EndKind, Launch, Wait
from autotune.spec.types import Resources

if TYPE_CHECKING:
    from ray.tune.execution.tune_controller import TuneController

logger = logging.getLogger(__name__)


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
        with ray_connected(address, [(resources, parallel)], home):
            on_cluster(ray.cluster_resources())
            at_once = parallel if address else slots(resources, parallel)
            _tune(dispatcher, job, job_dir / "ray", resources, at_once)
    except Exception as error:
        if dispatcher.error is not None:
            raise dispatcher.error from error
        if isinstance(error, RayError) and not isinstance(error, RayTaskError):
            hint = "Its trials go on from their checkpoints once it is there again."
            raise UnreachableError(f"Ray went away while trials ran: {error}", hint=hint) from error
        raise
    finally:
        _wait_for_ends(job, dispatcher.directories())
    if dispatcher.error is not None:
        raise dispatcher.error


def _tune(dispatcher: Dispatcher, job: Job, storage: Path, resources: Resources, parallel: int) -> None:
    bundle = {"CPU": resources.cpus, "GPU": resources.gpus, "memory": resources.memory or 0}
    needs = tune.PlacementGroupFactory([{name: amount for name, amount in bundle.items() if amount} or {"CPU": 0.001}])
    scheduler = _Verdicts(dispatcher)
    logging.getLogger("ray.tune").setLevel(logging.CRITICAL)  # failures are ours to tell
    try:
        with _callbacks_uncounted():
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


@contextlib.contextmanager
def _callbacks_uncounted() -> Iterator[None]:
    """Keeps Ray from counting the kinds of callbacks, for which it imports MLflow on this thread.

    An observer imports MLflow on a thread of its own at the same time, and MLflow's imports are circular: two threads
    in them can end both with a deadlock that Python detects.
    """
    before = air_usage.tag_callbacks
    air_usage.tag_callbacks = lambda _: False
    try:
        yield
    finally:
        air_usage.tag_callbacks = before


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
            # Where Ray itself is gone, this breaks too, and would hide what came first.
            with contextlib.suppress(Exception):
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


def _wait_for_ends(job: Job, directories: tuple[str, ...]) -> None:
    """After an interrupted run: the guards are ending the processes; returns once they have."""
    until = time.monotonic() + job.grace_s + 5.0
    waiting = [job.trials_dir / name for name in directories]
    while waiting and time.monotonic() < until:
        waiting = [directory for directory in waiting if is_locked(directory)]
        time.sleep(0.05 if waiting else 0.0)
    for directory in waiting:
        logger.error("processes of a trial are still alive in %s", directory)
