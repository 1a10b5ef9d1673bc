"""Who holds a lease: a name that tells, on the same machine, whether its process still lives."""

from __future__ import annotations

import ctypes
import os
import secrets
import signal
import socket
import sys

_PR_SET_PDEATHSIG = 1
TRY_AGAIN = 75
"""Exit code of a driver that met an outage (of Ray, of the database) and gave its job back; ``EX_TEMPFAIL``."""


def new_owner() -> str:
    """A name for this process that no other process has or will have."""
    return f"{socket.gethostname()}/{os.getpid()}/{secrets.token_hex(4)}"


def is_dead(owner: str) -> bool:
    """Whether the process behind a name is known to be gone; ``False`` when it cannot be known from here."""
    host, _, rest = owner.partition("/")
    pid, _, _ = rest.partition("/")
    if host != socket.gethostname() or not pid.isdigit():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


def die_with(parent: int) -> None:
    """Lets this process end together with its parent; what it ran is ended by the trials' own guards."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit("error: the process that started this one is gone already")
