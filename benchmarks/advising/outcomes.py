"""What became of a configuration: of one that was trained, and of any by the recorded run that lies nearest."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from statistics import fmean

from curve_bank.bank import domains
from curve_bank.bank import load as load_bank
from curve_bank.design import Value
from curve_bank.fidelity import fidelity

from advising.cases import HALVES, Proposal
from autotune.execution.replay import Replay

FILE = Path(__file__).resolve().parent / "changes.jsonl"
BROKEN = 0.0
"""The final objective of a run that did not end."""

Outcome = Callable[[Proposal], float | None]


def key(overrides: Mapping[str, Value]) -> str:
    """Names a configuration."""
    return json.dumps(overrides, sort_keys=True)


def load(path: Path = FILE) -> dict[str, float | None]:
    """Configuration -> final objective; ``None`` for a run that did not end."""
    if not path.is_file():
        return {}
    rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return {key(row["overrides"]): row["final"] for row in rows}


def trained(path: Path = FILE) -> Outcome:
    """The final objective of a configuration that was trained; ``None`` for one that was not."""
    known = load(path)

    def of(proposal: Proposal) -> float | None:
        name = key(proposal.overrides)
        if name not in known:
            return None
        value = known[name]
        return BROKEN if value is None else value

    return of


def nearest(proposal: Proposal) -> float:
    """The final objective of the bank's configuration that lies nearest, with the trial's own seed where it has it."""
    replay, finals = _bank(proposal.run.task)
    runs = replay.nearest(proposal.overrides)
    own = [run for run in runs if run.name.endswith(f"-{proposal.run.seed}")]
    return fmean(finals[run.name] for run in own or runs)


@cache
def _bank(task: str) -> tuple[Replay, Mapping[str, float]]:
    """The task's runs; how much each parameter counts is found on the tuning half alone."""
    runs = load_bank(task)
    tuning = [run for run in runs if run.number % 2 == HALVES["tuning"]]
    replay = Replay([run.recorded() for run in runs], domains(), fidelity(tuning).weights)
    return replay, {run.name: BROKEN if run.final is None else run.final for run in runs}
