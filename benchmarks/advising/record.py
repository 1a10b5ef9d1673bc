"""Trains what the rules advise for mediocre trials of the bank, and random changes of the same trials.

    OMP_NUM_THREADS=1 nice -n 10 python benchmarks/advising/record.py --half held-out [--shard 0/2]

`changes.jsonl` gets a line per configuration with its final objective; what is in it already is passed over, so a
changed rule costs only what it advises anew.
"""

from __future__ import annotations

import argparse
import fcntl
import gc
import hashlib
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent.parent), str(HERE.parent)]

from curve_bank.bank import OBJECTIVE, SMOOTH  # noqa: E402
from curve_bank.design import TASKS  # noqa: E402
from curve_bank.record import QUIET, Meter  # noqa: E402

from advising.cases import HALVES, Proposal, advised, changes, drawn, mediocre  # noqa: E402
from advising.outcomes import FILE, key, load  # noqa: E402
from trainer.config import build, compose  # noqa: E402


def wanted(half: str) -> Iterator[Proposal]:
    """What must be trained: on the tuning half what each rule says, on the other what would be tried, and chance.

    The trials come in an order that has nothing to do with them, so that a recording that is cut short is a sample.
    """
    trials = [run for task in TASKS for run in mediocre(half, task)]
    for run in sorted(trials, key=lambda run: hashlib.sha256(run.name.encode()).hexdigest()):
        if half == "tuning":
            yield from advised(run, anywhere=True)
            continue
        first = next(advised(run), None)
        if first is not None:
            yield first
            yield from drawn(run, changes(first))


def final(proposal: Proposal) -> float | None:
    """The final objective of a run; ``None`` when it did not end."""
    from trainer.loop import run_session

    with tempfile.TemporaryDirectory(prefix="advising-") as directory:
        try:
            run_session(build(compose(overrides={**QUIET, **proposal.overrides})), Path(directory), Meter())  # type: ignore[arg-type]
        except Exception as error:  # noqa: BLE001 - a run that breaks is an outcome
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
            return None
        lines = [json.loads(line) for line in Path(directory, "metrics.jsonl").read_text().splitlines()]
    evaluations = [line["metrics"].get(OBJECTIVE) for line in lines if "metrics" in line][-SMOOTH:]
    return None if None in evaluations else round(fmean(evaluations), 6)


def main() -> None:
    """Record what is missing."""
    parser = argparse.ArgumentParser(description="Train what is advised, and what chance would try.")
    parser.add_argument("--half", choices=list(HALVES), required=True)
    parser.add_argument("--shard", default="0/1", help="which part of the work, of how many")
    parser.add_argument("--out", type=Path, default=FILE, help="the file to append to")
    chosen = parser.parse_args()
    mine, of = map(int, chosen.shard.split("/"))
    todo = {key(proposal.overrides): proposal for proposal in wanted(chosen.half)}
    print(f"{len(todo)} configurations", file=sys.stderr, flush=True)
    for number, (name, proposal) in enumerate(todo.items()):
        if number % of != mine or name in load(chosen.out):
            continue
        value = final(proposal)
        gc.collect()
        row = {"overrides": dict(sorted(proposal.overrides.items())), "final": value}
        with chosen.out.open("a", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.write(json.dumps(row) + "\n")
        before = proposal.run.final
        print(f"{proposal.run.name} {proposal.by}: {before:.3f} -> {value}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
