"""The end of a process that trained. Imports no torch."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
from typing import NoReturn


def leave(code: int) -> NoReturn:
    """End this process as the interpreter would, but without taking itself apart.

    Threads of the process group that outlive it let go of Python objects; one that does so while the interpreter is
    taken apart is ended inside C++, which aborts the process ("terminate called without an active exception"), after a
    run that had gone well. On a busy machine one run in eight of two ranks ended so.

    Args:
        code: The exit code.
    """
    with contextlib.suppress(BaseException):
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)
