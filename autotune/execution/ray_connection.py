"""The connection to Ray: to a running cluster, or to a Ray of its own on this machine.

Tune, whose import takes seconds, is imported elsewhere.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import ray
from ray._private import ray_constants
from ray.job_config import JobConfig

from autotune.errors import UnreachableError, UsageError
from autotune.execution.ray_home import ray_home
from autotune.spec.types import Resources

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


@contextlib.contextmanager
def ray_connected(
    address: str | None, places: Sequence[tuple[Resources, int]], home: Path | None = None
) -> Iterator[None]:
    """Connects to Ray for one run or for several, one after the other; one that is there already is used as it is.

    Args:
        address: A running Ray cluster; without one a Ray of its own is started on this machine and ended again; it dies
            with this process.
        places: What a trial of each run occupies, and how many run at a time.
        home: A directory for a Ray of its own (see ``ray_home``); without it one is made.

    Raises:
        UsageError: If this machine can never give a trial of one of the runs its resources.
        UnreachableError: If Ray does not start or answer.
    """
    if ray.is_initialized():
        yield
        return
    with contextlib.ExitStack() as stack:
        stack.enter_context(_environment(_QUIET))
        temporary = home if address or home else stack.enter_context(ray_home())
        stack.callback(ray.shutdown)
        handler = signal.getsignal(signal.SIGTERM)
        cpus = max(1, math.ceil(max(resources.cpus * parallel for resources, parallel in places)))
        try:
            _connect(address, cpus, temporary)
        except Exception as error:  # Ray raises plain ones, for example when an overloaded machine takes too long
            where = f"at {address!r} does not answer" if address else "does not start on this machine"
            raise UnreachableError(
                f"Ray {where}: {error}", hint="Check AUTOTUNE_RAY_ADDRESS, load, free memory and /dev/shm."
            ) from error
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)  # ray.init takes SIGTERM for itself
        for resources, parallel in () if address else places:
            slots(resources, parallel)
        yield


def _connect(address: str | None, cpus: int, temporary: Path | None) -> None:
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
            num_cpus=cpus,
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


def slots(resources: Resources, parallel: int) -> int:
    """How many trials, of at most so many, run at a time on the machines that are there.

    Args:
        resources: What one trial occupies.
        parallel: How many are wanted.

    Raises:
        UsageError: If there is not room for a single one.
    """
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
