"""One slot's worker: starts the attempts it is given and says, a batch at a time, what they do."""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from autotune.backends.base import Backend, Changeable, Command, Distributed
from autotune.errors import AutotuneError, InvalidConfigError
from autotune.execution.checkpoints import adopt, take_over
from autotune.execution.fork_servers import ForkServers, WarmPlace, can_fork
from autotune.execution.forked_guard import NotWarmError, ReadyServer
from autotune.execution.metrics_tail import Line, StepLine
from autotune.execution.trial_lock import try_lock
from autotune.execution.trial_process import TrialProcess
from autotune.execution.unheard import Unheard
from autotune.execution.usage import EVERY_S, Usage
from autotune.search.types import EndKind, Launch, Outcome

HEARTBEAT_S = 2.0
_LOCK_PATIENCE_S = 30.0
_POLL_S = (0.01, 0.1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """What happened since the last report; without lines and outcome it is a sign of life.

    Attributes:
        lines: New lines of the metrics file, in order.
        outcome: How the attempt ended, once no process of it is left; its cost is not known here.
    """

    lines: tuple[Line, ...] = ()
    outcome: Outcome | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """What all attempts of a job share.

    Attributes:
        trials_dir: Where the trial directories lie.
        steps: Training steps of a full trial.
        grace_s: Seconds between SIGTERM and SIGKILL.
        ranks: Processes of a trial whose backend runs one for each GPU.
        measure_s: Seconds between two looks at what a trial takes of its machine.
        warm_s: Seconds that a fork server outlives its last trial; 0 = every trial starts in a fresh interpreter.
    """

    backend: str
    trials_dir: Path
    steps: int
    grace_s: float
    ranks: int = 1
    warm_s: float = 0.0
    measure_s: float = EVERY_S


@dataclass(frozen=True, kw_only=True, slots=True)
class _Prepared:
    """An attempt that can be started: its command, and the lock of its directory."""

    command: Command
    lock: int


class Worker:
    """Owns at most one attempt at a time.

    Args:
        job: What all attempts share.
        load_backend: Finds the backend by its name.
        place: Where the fork servers of this machine are; without it every trial starts in a fresh interpreter.
    """

    def __init__(self, job: Job, load_backend: Callable[[str], Backend], place: WarmPlace | None = None) -> None:
        self._job = job
        self._load_backend = load_backend
        self._servers = ForkServers(place) if place is not None else None
        self._launch: Launch | None = None
        self._prepared: _Prepared | None = None
        self._unheard: Unheard | None = None
        self._process: TrialProcess | None = None
        self._usage: Usage | None = None
        self._lock_until = 0.0
        self._last_step = 0
        self._stop_requested = False

    def begin(self, launch: Launch) -> None:
        """Takes on an attempt; ends whatever is left of an earlier one first. It starts with the next ``step``."""
        self.close()
        self._launch = launch
        self._last_step = 0
        self._stop_requested = False
        self._lock_until = time.monotonic() + self._job.grace_s + _LOCK_PATIENCE_S

    def request_stop(self) -> None:
        """Ends the attempt in its own time: ``step`` goes on reporting until the outcome is there."""
        self._stop_requested = True
        if self._process is not None:
            self._process.request_stop(self._job.grace_s)

    def step(self) -> Report:
        """Waits for news, about two seconds at most, and reports them.

        The report with an outcome is an attempt's last one.
        """
        until = time.monotonic() + HEARTBEAT_S
        if self._process is None:
            ended = self._start(until)
            if self._process is None:
                return Report(outcome=ended)
        return self._news(self._process, until)

    def close(self) -> None:
        """Ends the attempt now, if there is one, and returns once its process group is empty."""
        process, self._process, self._launch = self._process, None, None
        self._give_up()
        if process is not None:
            process.terminate(self._job.grace_s)

    def end_servers(self) -> None:
        """Ends the fork servers that this worker has started."""
        if self._servers is not None:
            self._servers.end()

    def _news(self, process: TrialProcess, until: float) -> Report:
        pause, longest = _POLL_S
        if self._usage is not None:
            self._usage.look()
        while True:
            ended = process.poll() is not None
            lines = self._measured(process.read())
            if self._unheard is not None:
                lines = self._unheard.before(lines, ended=ended)
            self._last_step = max([self._last_step, *(line.step for line in lines if isinstance(line, StepLine))])
            if ended:
                outcome = process.outcome(last_step=self._last_step, expected_steps=self._expected())
                self._process = self._launch = None
                return Report(lines=lines, outcome=outcome)
            left = until - time.monotonic()
            if lines or left <= 0:
                return Report(lines=lines)
            process.wait(min(pause, left))
            pause = min(2 * pause, longest)

    def _measured(self, lines: tuple[Line, ...]) -> tuple[Line, ...]:
        """The lines, the last step of them with what the attempt takes of the machine, when it is time for it."""
        place = next((place for place in reversed(range(len(lines))) if isinstance(lines[place], StepLine)), None)
        if self._usage is None or place is None:
            return lines
        found, step = self._usage.due(), lines[place]
        if found is None or not isinstance(step, StepLine):
            return lines
        return (*lines[:place], replace(step, metrics={**found, **step.metrics}), *lines[place + 1 :])

    def _expected(self) -> int:
        """The step at which the attempt is to end."""
        until = self._launch.until_step if self._launch else None
        return self._job.steps if until is None else until

    def _start(self, until: float) -> Outcome | None:
        """Starts the attempt's process, unless an earlier attempt's still hold the directory.

        Returns:
            The outcome if the attempt cannot be started.
        """
        if self._launch is None:
            return Outcome(kind=EndKind.UNKNOWN, message="the worker was asked to step without an attempt")
        if self._stop_requested:
            self._give_up()
            return Outcome(kind=EndKind.STOPPED)
        directory = self._job.trials_dir / self._launch.directory
        try:
            if self._prepared is None:
                lock = try_lock(directory)
                while lock is None and time.monotonic() < until:
                    time.sleep(_POLL_S[1])
                    lock = try_lock(directory)
                if lock is None:
                    return self._held(directory)
                self._prepared = self._prepare(self._launch, directory, lock)
            self._process = self._begin_process(self._launch, directory, self._prepared, until)
        except InvalidConfigError as error:
            return Outcome(kind=EndKind.CONFIG, message=error.message, hint=error.hint)
        except OSError as error:
            hint = "Look at the disk and the permissions of the machine that runs the trials."
            return Outcome(kind=EndKind.NODE, message=f"cannot start the trial: {error}", hint=hint)
        except AutotuneError as error:
            return Outcome(kind=EndKind.UNKNOWN, message=error.message, hint=error.hint)
        except Exception as error:  # noqa: BLE001 - a backend's bug ends its trial, not the worker
            line = traceback.format_exception_only(error)[-1].strip()
            where = traceback.extract_tb(error.__traceback__)[-1]
            return Outcome(
                kind=EndKind.UNKNOWN, message=f"the backend {self._job.backend!r} failed to prepare: {line} ({where})"
            )
        return None

    def _prepare(self, launch: Launch, directory: Path, lock: int) -> _Prepared:
        try:
            if launch.origin is not None:
                begin = take_over if launch.origin.replaces else adopt
                begin(self._job.trials_dir / launch.origin.directory, directory, launch.origin.step)
            backend, config = self._load_backend(self._job.backend), launch.config
            if launch.until_step is not None and isinstance(backend, Changeable):
                config = backend.until(config, launch.until_step)
            command = backend.prepare(config, directory)
            if self._job.ranks > 1 and isinstance(backend, Distributed):
                command = backend.on_ranks(command, self._job.ranks)
        except BaseException:
            os.close(lock)
            raise
        return _Prepared(command=command, lock=lock)

    def _begin_process(self, launch: Launch, directory: Path, prepared: _Prepared, until: float) -> TrialProcess | None:
        """Starts the process; ``None`` while a fork server is still importing, so that the worker can report."""
        command = prepared.command
        server: ReadyServer | NotWarmError | None = None
        if self._servers is not None and can_fork(command):
            try:
                server = self._servers.ready(command, {**os.environ, **command.env}, until)
            except NotWarmError as error:
                server = error
            if server is None:
                return None
        self._prepared = None
        again = launch.attempt.number > 1 and launch.origin is None
        self._unheard = Unheard(directory, launch.heard) if again else None
        process = TrialProcess(
            command,
            directory,
            attempt=launch.attempt.number,
            grace_s=self._job.grace_s,
            lock=prepared.lock,
            server=server,
        )
        visible = {**os.environ, **command.env}.get("CUDA_VISIBLE_DEVICES", "")
        self._usage = Usage(process.pgid, process.mark, gpus=visible, every_s=self._job.measure_s)
        return process

    def _give_up(self) -> None:
        """Lets go of a trial that is prepared and has not started."""
        prepared, self._prepared = self._prepared, None
        if prepared is not None:
            os.close(prepared.lock)
        if self._servers is not None:
            self._servers.close()

    def _held(self, directory: Path) -> Outcome | None:
        if time.monotonic() < self._lock_until:
            return None
        return Outcome(
            kind=EndKind.NODE,
            message=f"processes of an earlier attempt still live in {directory}",
            hint=f"Find them with: fuser -v {directory}/.lock",
        )
