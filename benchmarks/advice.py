"""Does following advice help: what the rules would change in mediocre trials, against random changes of the same ones.

    python benchmarks/advice.py [--quick] [--json] [--check] [--half held-out|tuning]

A mediocre trial is a recorded run of the curve bank that ended neither in the best nor in the worst quarter. Its most
urgent advice becomes a configuration within the bank's space, as `advisor: enqueue` makes it; chance changes as many
parameters of the same trial to random values. Both were trained with the trial's own seed (`advising/record.py`); a
change has improved the trial when its final held-out objective is more than ``MARGIN`` higher. Beside it stands the
same comparison for all mediocre trials through the nearest recorded run, which blurs small steps. Rules were chosen on
the other half of the bank.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]

from advising.cases import HALVES, advised, changes, drawn, mediocre  # noqa: E402
from advising.outcomes import FILE, Outcome, nearest, trained  # noqa: E402
from contest.measures import bootstrap, mean_interval  # noqa: E402
from curve_bank.design import TASKS  # noqa: E402
from harness import Target, finish, parser, progress  # noqa: E402

MARGIN = 0.01
FEWEST = 5
"""With fewer trials nothing is said of a single rule."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """One mediocre trial: how far each change moved its final objective.

    Attributes:
        rule: Whose advice it was.
        advice: What following it gained.
        chance: What each random change gained.
    """

    task: str
    rule: str
    advice: float
    chance: Sequence[float]


def compared(half: str, outcome: Outcome) -> list[Trial]:
    """The trials whose advised configuration has an outcome, and at least one random change of them too."""
    found: list[Trial] = []
    for task in TASKS:
        for run in mediocre(half, task):
            first = next(advised(run), None)
            if first is None:
                continue
            value = outcome(first)
            others = [outcome(proposal) for proposal in drawn(run, changes(first))]
            known = [one - run.final for one in others if one is not None]
            if value is not None and known:
                found.append(Trial(task=task, rule=first.by, advice=value - run.final, chance=known))
    return found


def by_rule(half: str, outcome: Outcome) -> dict[str, dict[str, object]]:
    """For each rule on its own, wherever it found something: how often its change made a trial better or worse."""
    gains: dict[str, list[float]] = {}
    for task in TASKS:
        for run in mediocre(half, task):
            for proposal in advised(run, anywhere=True):
                value = outcome(proposal)
                if value is not None:
                    gains.setdefault(proposal.by, []).append(value - run.final)
    return {
        rule: {
            "trials": len(values),
            "better": sum(value > MARGIN for value in values),
            "worse": sum(value < -MARGIN for value in values),
            "mean_change": round(fmean(values), 4),
        }
        for rule, values in gains.items()
    }


def summary(trials: Sequence[Trial]) -> dict[str, object]:
    """Rates with 95 % bootstrap intervals over the trials; the difference is paired within each trial."""

    def rate(of: Callable[[Trial], float]) -> tuple[float, list[float]]:
        mean, interval = mean_interval([of(trial) for trial in trials])
        return round(mean, 3), [round(value, 3) for value in interval]

    advice, advice_95 = rate(lambda trial: float(trial.advice > MARGIN))
    chance, chance_95 = rate(lambda trial: fmean(value > MARGIN for value in trial.chance))
    gap, gap_95 = rate(lambda trial: (trial.advice > MARGIN) - fmean(value > MARGIN for value in trial.chance))
    moved = bootstrap(lambda rows: fmean(trials[row].advice for row in rows), len(trials), seed=0)
    return {
        "trials": len(trials),
        "improved_by_advice": advice,
        "improved_by_advice_95": advice_95,
        "improved_by_chance": chance,
        "improved_by_chance_95": chance_95,
        "difference": gap,
        "difference_95": gap_95,
        "unmoved_by_advice": round(fmean(trial.advice == 0 for trial in trials), 3),
        "unmoved_by_chance": round(fmean(fmean(value == 0 for value in trial.chance) for trial in trials), 3),
        "worse_by_advice": round(fmean(trial.advice < -MARGIN for trial in trials), 3),
        "worse_by_chance": round(fmean(fmean(value < -MARGIN for value in trial.chance) for trial in trials), 3),
        "mean_change_by_advice": round(fmean(trial.advice for trial in trials), 4),
        "mean_change_by_advice_95": [round(value, 4) for value in moved],
        "mean_change_by_chance": round(fmean(fmean(trial.chance) for trial in trials), 4),
    }


def targets_of(whole: dict[str, object], rules: dict[str, dict[str, object]]) -> list[Target]:
    """Advice improves more trials than chance, beyond doubt; no rule that was tried often does more harm than good."""
    targets = []
    if whole:
        low, high = whole["difference_95"]
        name = f"trials improved by advice beyond those by chance, lower end of 95 % ({low} to {high})"
        targets.append(Target(name=name, value=low, target=0.0))
    for rule, row in rules.items():
        if row["trials"] >= FEWEST:
            name = f"{rule}: trials made better less those made worse, of {row['trials']}"
            targets.append(Target(name=name, value=row["better"] - row["worse"], target=0))
    return targets


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    options = parser(__doc__.split("\n")[0])
    options.add_argument("--half", choices=list(HALVES), default="held-out", help="which half of the bank")
    options.add_argument("--changes", type=Path, default=FILE, help="what was trained")
    chosen = options.parse_args(arguments)
    outcome = trained(chosen.changes)
    runs = compared(chosen.half, outcome)
    rules = by_rule(chosen.half, outcome)
    whole = summary(runs) if runs else {}
    results: dict[str, object] = {"half": chosen.half, "margin": MARGIN, "trained": whole, "rules": rules}
    results["tasks"] = {
        task: summary(mine) for task in TASKS if (mine := [trial for trial in runs if trial.task == task])
    }
    if runs and not chosen.quick:
        progress("the same through the nearest recorded run")
        results["nearest_recorded_run"] = summary(compared(chosen.half, nearest))
    return finish("advice", chosen, results, targets_of(whole, rules), ["numpy"])


if __name__ == "__main__":
    raise SystemExit(main())
