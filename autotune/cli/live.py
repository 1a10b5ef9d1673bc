"""The table that moves: every trial with its value, its KL against the limit, its speed and the shape of its curve."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from autotune.cli.output import clean, duration, number
from autotune.cli.watch import params_of, progress_line, why_of
from autotune.reports.facts import KL, kl_limits
from autotune.states import JOB_ENDS, TRIAL_ENDS, TrialState
from autotune.views import JobView, TrialView

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

STYLES = {
    "running": "cyan",
    "completed": "green",
    "pruned": "yellow",
    "infeasible": "magenta",
    "failed": "red",
    "cancelled": "dim",
}
SPEED = "perf/tokens_per_s"
_SHAPES = "\u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588"
_FULL, _EMPTY = "\u2588", "\u2591"
_BAR, _LINE = 6, 10
_WIDE, _WIDER = 110, 130
"""Columns of a terminal that also has room for the bar and the speed, and for the curves."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """What one look has found.

    Attributes:
        document: The space of the job as plain JSON.
        curves: Trial -> values of its objective, step by step.
        now: Seconds since the epoch.
    """

    job: JobView
    trials: Sequence[TrialView]
    document: Mapping[str, Any]
    curves: Mapping[int, Sequence[float | None]]
    now: float

    @property
    def limit(self) -> float | None:
        """The lowest bound on the KL that the space names."""
        stages = self.document.get("stages") or ()
        own = next((one for one in stages if isinstance(one, Mapping) and one.get("name") == self.job.stage), {})
        return min((bound for bound in kl_limits({**self.document, **own}).values() if bound > 0), default=None)


def render(seen: Seen, *, rows: int, width: int) -> RenderableType:
    """The newest trials that fit, running ones first to stay, below what the job is, has spent and still needs."""
    from rich.console import Group
    from rich.text import Text

    job = seen.job
    head = Text.assemble((clean(job.id), "bold"), " ", (job.state, STYLES.get(job.state, "")))
    head.append("  " + clean(progress_line(job)))
    drawn = _columns(job, width)
    for trial in fitting(seen.trials, rows):
        drawn.add_row(*_cells(seen, trial, width))
    return Group(head, Text(budget_line(seen), style="dim"), drawn)


def _columns(job: JobView, width: int) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    drawn = Table(box=SIMPLE_HEAD, pad_edge=False, expand=True)
    # Without a smallest width the long last column would squeeze the others to nothing.
    drawn.add_column("trial", justify="right", no_wrap=True, min_width=5)
    drawn.add_column("state", no_wrap=True, min_width=10)
    drawn.add_column("step", justify="right", no_wrap=True, min_width=7)
    drawn.add_column(job.objective.metric, justify="right", no_wrap=True, min_width=min(16, len(job.objective.metric)))
    if width >= _WIDER:
        drawn.add_column("curve", no_wrap=True, min_width=_LINE)
    drawn.add_column(KL, justify="right", no_wrap=True, min_width=len(KL))
    if width >= _WIDE:
        drawn.add_column("of limit", no_wrap=True, min_width=_BAR + 2)
        drawn.add_column("tokens/s", justify="right", no_wrap=True, min_width=8)
    drawn.add_column("parameters, or why it ended", overflow="ellipsis", no_wrap=True, ratio=1)
    return drawn


def _cells(seen: Seen, trial: TrialView, width: int) -> list[Text | str]:
    from rich.text import Text

    job, kl = seen.job, trial.metrics.get(KL)
    value = trial.value if trial.value is not None else trial.metrics.get(job.objective.metric)
    best = trial.number == job.best_trial
    cells: list[Text | str] = [
        f"{trial.number}{'*' if best else ''}",
        Text(trial.state, style=STYLES.get(trial.state, "")),
        f"{trial.last_step}/{job.steps}",
        Text(number(value), style="bold green" if best else ""),
    ]
    if width >= _WIDER:
        cells.append(sparkline(seen.curves.get(trial.number, ())))
    cells.append(number(kl))
    if width >= _WIDE:
        bar, style = limit_bar(kl, seen.limit)
        speed = trial.metrics.get(SPEED) if trial.state == TrialState.RUNNING else None
        cells += [Text(bar, style=style), "-" if speed is None else f"{speed:,.0f}"]
    cells.append(Text(clean(why_of(trial) or params_of(trial))))
    return cells


def sparkline(values: Sequence[float | None], width: int = _LINE) -> str:
    """The shape of a curve in as many signs, from its lowest to its highest value; empty without values."""
    known = [value for value in values if value is not None and math.isfinite(value)]
    if not known:
        return ""
    parts = min(width, len(known))
    bounds = [round(place * len(known) / parts) for place in range(parts + 1)]
    means = [sum(known[a:b]) / (b - a) for a, b in pairwise(bounds)]
    low, high = min(means), max(means)
    if not math.isfinite(high - low) or high == low:
        return _SHAPES[3] * parts
    return "".join(_SHAPES[round((mean - low) / (high - low) * (len(_SHAPES) - 1))] for mean in means)


def limit_bar(kl: float | None, limit: float | None) -> tuple[str, str]:
    """How much of the allowed KL is used, as a bar, and the bar's colour; ``!`` says that it is more than all."""
    if kl is None or limit is None or not math.isfinite(kl):
        return "-", ""
    share = max(0.0, kl / limit)
    filled = min(_BAR, round(share * _BAR))
    style = "bold red" if share > 1 else "yellow" if share > 0.8 else "green"
    return _FULL * filled + _EMPTY * (_BAR - filled) + ("!" if share > 1 else ""), style


def budget_line(seen: Seen) -> str:
    """What of each budget is used, and about how long it still takes."""
    job, budget = seen.job, seen.document.get("budget")
    limits = budget if isinstance(budget, Mapping) else {}
    done = sum(count for state, count in job.trials.items() if state in TRIAL_ENDS)
    parts = [f"trials {done}/{job.budget_trials}"]
    hours = limits.get("gpu_hours")
    if job.cost_gpu_hours or hours:
        parts.append(f"GPU-hours {job.cost_gpu_hours:.2f}" + (f"/{hours:g}" if isinstance(hours, (int, float)) else ""))
    if job.started_at is not None:
        wall = limits.get("wall_clock")
        spent = (job.ended_at or seen.now) - job.started_at
        parts.append(f"time {duration(max(0.0, spent))}" + (f"/{wall}" if wall else ""))
    left = time_left(job, seen.trials)
    if left is not None:
        parts.append(f"about {duration(left)} left")
    return "used: " + ", ".join(parts)


def time_left(job: JobView, trials: Sequence[TrialView]) -> float | None:
    """Seconds until the budget of trials is used up, by what the trials so far took; ``None`` when nobody can say."""
    ended = [trial.cost_s for trial in trials if trial.state in TRIAL_ENDS and trial.cost_s > 0]
    if job.state in JOB_ENDS or not ended or job.stages:
        return None
    mean = sum(ended) / len(ended)
    running = [trial for trial in trials if trial.state == TrialState.RUNNING]
    begun = sum(max(0.0, mean - trial.cost_s) for trial in running)
    return (max(0, job.budget_trials - len(trials)) * mean + begun) / max(1, job.parallel)


def fitting(trials: Sequence[TrialView], rows: int) -> list[TrialView]:
    """The trials that a table of so many rows shows."""
    shown = [trial for trial in trials if trial.state not in TRIAL_ENDS][-rows:]
    room = rows - len(shown)
    ended = [trial for trial in trials if trial.state in TRIAL_ENDS]
    return sorted(shown + (ended[-room:] if room else []), key=lambda trial: trial.number)
