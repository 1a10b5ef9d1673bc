"""Being asked to stop, and dying with the parent. Imports no torch."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType

_PR_SET_PDEATHSIG = 1


@dataclass(kw_only=True, slots=True)
class StopFlag:
    """Whether somebody asked the run to stop.

    Attributes:
        requested: True once SIGTERM or SIGINT came.
    """

    requested: bool = False


@contextlib.contextmanager
def stop_on_signals() -> Iterator[StopFlag]:
    """Turn the first SIGTERM or SIGINT into a flag; a second one acts as usual."""
    flag = StopFlag()
    previous = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def restore() -> None:
        for number, handler in previous.items():
            signal.signal(number, handler)

    def on_signal(number: int, frame: FrameType | None) -> None:
        del number, frame
        flag.requested = True
        restore()

    for number in previous:
        signal.signal(number, on_signal)
    try:
        yield flag
    finally:
        restore()


def die_with_parent() -> None:
    """Ask Linux to kill this process when its parent dies, so that no orphan keeps a GPU; elsewhere do nothing."""
    parent = os.getppid()
    try:
        prctl = ctypes.CDLL(None).prctl
    except (OSError, AttributeError):
        return
    prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:  # the parent died before the request was in place
        os.kill(os.getpid(), signal.SIGKILL)
