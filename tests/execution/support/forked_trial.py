"""A trial for tests, run as ``python -m forked_trial HOW``."""

import atexit
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

DEAF = """
import os, signal, time
signal.signal(15, signal.SIG_IGN)
open('grandchild', 'w').write(str(os.getpid()))
time.sleep(60)
"""


def report():
    session, group = os.getsid(0), os.getpgid(0)
    signals = {number.name: str(signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    return {
        "imported": "forked_imports" in sys.modules,
        "cwd": str(Path.cwd()),
        "env": dict(os.environ),
        "argv": sys.argv,
        "path": sys.path,
        "main": sys.modules["__main__"].__spec__.name,
        "in_group_of_parent": group == os.getppid(),
        "own_session": session == os.getppid(),
        "signals": signals,
        "children": signal.getsignal(signal.SIGCHLD) is signal.SIG_DFL,
        "fds": sorted(int(fd.name) for fd in Path("/proc/self/fd").iterdir() if fd.exists()),
        "stdin": str(Path("/proc/self/fd/0").readlink()),
        "cmdline": Path("/proc/self/cmdline").read_bytes().decode().rstrip("\0").split("\0"),
    }


def polite():
    def leave(*_):
        Path("checkpoint").write_text("saved")
        sys.exit(10)

    signal.signal(signal.SIGTERM, leave)
    Path("pid").write_text(str(os.getpid()))
    time.sleep(60)


def deaf():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    Path("pid").write_text(str(os.getpid()))
    subprocess.Popen([sys.executable, "-I", "-S", "-c", DEAF], start_new_session=True)
    time.sleep(60)


def main(how):
    word, _, number = how.partition(" ")
    if word == "report":
        Path("report.json").write_text(json.dumps(report()))
    elif word == "exit":
        sys.exit(int(number))
    elif word == "text":
        sys.exit("it cannot go on")
    elif word == "raise":
        raise RuntimeError("no")
    elif word == "kill":
        os.kill(os.getpid(), int(number))
    elif word == "abort":
        os.abort()
    elif word == "atexit":
        atexit.register(print, "left")
        print("printed")
    elif word == "polite":
        polite()
    elif word == "deaf":
        deaf()


if __name__ == "__main__":
    main(sys.argv[1])
