"""Records the bank: every planned run in this process, one after the other; what is there already is passed over.

Several such processes share the work:

    OMP_NUM_THREADS=1 nice -n 10 python benchmarks/curve_bank/record.py --raw /tmp/bank

Each run is what `python -m trainer` does with the same overrides, on one thread, without checkpoints on the way. Its
directory keeps `metrics.jsonl`, `result.json` and `cost.json`; `pack.py` makes the bank's tables out of them.
"""

from __future__ import annotations

import argparse
import fcntl
import gc
import itertools
import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import TextIO, cast

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent.parent), str(HERE.parent)]

from curve_bank.design import Planned, plan  # noqa: E402
from trainer.config import build, compose  # noqa: E402
from trainer.failures import classify  # noqa: E402
from trainer.record import RESULT_FILE, Result, last_step, write_atomically, write_result  # noqa: E402
from trainer.signals import StopFlag  # noqa: E402

COST_FILE = "cost.json"
CLAIMS: list[TextIO] = []
"""Lock files of the runs that this process has claimed, open until it ends."""
QUIET = {"trainer.save_freq": 0, "system.num_threads": 1, "system.logging.progress_freq": 0}


class Meter:
    """A stop flag that never asks to stop, and notes the processor time when it is looked at: twice in each step."""

    def __init__(self) -> None:
        self.looks: list[float] = []

    @property
    def requested(self) -> bool:
        """Always false."""
        self.looks.append(time.process_time())
        return False

    def step_seconds(self) -> list[float]:
        """Processor seconds of each step but the last, its evaluation included."""
        starts = self.looks[1::2]  # the first look is before the networks are built
        return [after - before for before, after in itertools.pairwise(starts)]


def record(planned: Planned, directory: Path) -> Result:
    """Run one configuration into its directory."""
    from trainer.loop import run_session

    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    meter = Meter()
    try:
        config = build(compose(overrides={**QUIET, **planned.overrides()}))
        result = run_session(config, directory, cast(StopFlag, meter))
    except Exception as error:  # noqa: BLE001 - how a run fails belongs to the bank
        reached = last_step(directory)
        result = Result(status="failed", last_step=reached, peak_memory_gb=0.0, error=classify(error))
    shutil.rmtree(directory / "checkpoints", ignore_errors=True)
    write_atomically(directory / COST_FILE, json.dumps({"step_cpu_s": meter.step_seconds()}) + "\n")
    write_result(directory, result)
    return result


def mine(directory: Path) -> bool:
    """Claim a run for this process; false when another one that records into the same place has it."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    handle = directory.with_suffix(".lock").open("w")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        handle.close()
        return False
    CLAIMS.append(handle)
    return True


def main() -> None:
    """Record what is missing."""
    parser = argparse.ArgumentParser(description="Record the curve bank's runs.")
    parser.add_argument("--raw", type=Path, required=True, help="where the runs' directories go")
    parser.add_argument("--only", default="", help="names of runs that begin so")
    parser.add_argument("--processes", type=int, default=1, help="how many record side by side")
    chosen = parser.parse_args()
    import trainer.loop  # noqa: F401 - once, before the processes part

    for _ in range(chosen.processes - 1):
        if os.fork() == 0:
            break
    for planned in plan():
        directory = chosen.raw / planned.name
        if not planned.name.startswith(chosen.only) or not mine(directory) or (directory / RESULT_FILE).is_file():
            continue
        started, spent = time.monotonic(), time.process_time()
        result = record(planned, directory)
        gc.collect()
        kind = "" if result.error is None else f" ({result.error.kind})"
        wall, cpu = time.monotonic() - started, time.process_time() - spent
        print(
            f"{planned.name}: {result.status}{kind} after step {result.last_step}, "
            f"{wall:.1f} s, {cpu:.1f} s of processor",
            file=sys.stderr,
            flush=True,
        )


if __name__ == "__main__":
    main()
