"""A program that knows nothing of autotune: trains for some steps and writes its metrics in one of three ways.

Usage: program.py HOW STEPS FILE [MISHAP AT]
"""

import csv
import json
import os
import signal
import sys
import threading
from pathlib import Path


def write(how, file, step, loss):
    if how == "print":
        print(f"epoch {step:3d} | loss: {loss!r}")
        print(f"  validation accuracy = np.float64({1 - loss})")
    elif how == "json":
        print(json.dumps({"step": step, "loss": loss, "note": "text", "accuracy": 1 - loss if step % 2 else None}))
    elif how == "jsonl":
        with Path(file).open("a") as lines:
            lines.write(json.dumps({"step": step, "loss": loss}) + "\n")
    else:
        new = not Path(file).exists()
        with Path(file).open("a", newline="") as table:
            rows = csv.writer(table)
            if new:
                rows.writerow(["time", "step", "train loss"])
            rows.writerow([0.1, step, loss])


def mishap(what):
    if what == "exit":
        sys.exit(7)
    if what == "oom":
        raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")
    if what == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "wait":
        stopped = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: stopped.set())
        Path("waiting").touch()
        stopped.wait(60)
        Path("saved").touch()
        sys.exit(0)
    if what == "nan":
        write(sys.argv[1], sys.argv[3], int(sys.argv[5]), float("nan"))


def main():
    how, steps, file = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    what, at = (sys.argv[4], int(sys.argv[5])) if len(sys.argv) > 5 else ("", -1)
    print("warming up")
    for step in range(1, steps + 1):
        if step == at:
            mishap(what)
        if not (step == at and what == "nan"):
            write(how, file, step, 1 / (step + 1))


main()
