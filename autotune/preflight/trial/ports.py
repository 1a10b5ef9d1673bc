"""A rendezvous port that somebody else holds, or that two trials would share."""

from __future__ import annotations

import socket
from collections.abc import Iterator

from autotune.errors import Problem
from autotune.preflight.trial.context import TrialContext

KEY = "system.distributed.master_port"


def ports(trial: TrialContext) -> Iterator[Problem]:
    """Whether the fixed rendezvous port, if there is one, can be bound right now."""
    port = trial.config.get(KEY)
    if not trial.here or not isinstance(port, int) or port_is_free(port):
        return
    yield Problem(
        message=f"port {port} is in use by another process (Address already in use).",
        hint=f"Set {KEY} to null: then a free port is chosen for each trial. {free_port()} would be free now.",
        path=KEY,
    )


def port_is_free(port: int) -> bool:
    """Whether this machine lets somebody listen on the port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True


def free_port() -> int:
    """A port that nobody listens on at this moment, as the kernel chooses it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
