"""The chances of `extrapolate` on real curves of the trainer: those of the bank of recorded runs."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from autotune.search.extrapolation import Reports, believe, fit
from autotune.search.extrapolation.learned import lesson
from autotune.search.extrapolation.target import outlook
from autotune.spec.types import Objective

BANK = Path(__file__).parents[2] / "benchmarks" / "curve_bank" / "data" / "curves.parquet"
OBJECTIVE = Objective(metric="eval/reward", smooth=5)
LESSONS, TESTED, CUTS = 12, 48, (0.2, 0.4, 0.6)


@pytest.fixture(scope="module")
def tasks():
    """Task -> the evaluation curves of its runs of full length, as reports with their final objective."""
    parquet = pytest.importorskip("pyarrow.parquet")
    if not BANK.exists():
        pytest.skip("the bank of recorded curves is not here")
    table = parquet.read_table(BANK, columns=["run", "step", "eval/reward"]).to_pydict()
    runs = defaultdict(list)
    for run, step, value in zip(table["run"], table["step"], table["eval/reward"], strict=True):
        if value is not None and np.isfinite(value):
            runs[run].append((step, value))
    total = max(steps[-1][0] for steps in runs.values())
    found = defaultdict(list)
    for run, steps in sorted(runs.items()):
        if steps[-1][0] == total:
            u, y = np.array(steps, dtype=float).T
            found[str(run).split("/")[0].split("-")[0]].append((u / total, y, float(np.mean(y[-5:]))))
    return {task: curves for task, curves in found.items() if len(curves) > LESSONS + 3}


@pytest.fixture(scope="module")
def judged(tasks):
    """Chances to beat the 4th best of a dozen finished runs, what came to pass, and where the final lay."""
    assert tasks, "the bank has no task with enough whole runs"
    chances, outcomes, places = [], [], []
    draw = np.random.default_rng(0)
    for curves in tasks.values():
        lessons = [lesson(Reports(u=u, y=y)) for u, y, _ in curves]
        for index in draw.permutation(len(curves))[:TESTED]:
            u, y, final = curves[index]
            others = [other for other in draw.permutation(len(curves)) if other != index][:LESSONS]
            bar = sorted((curves[other][2] for other in others), reverse=True)[3]
            for cut in CUTS:
                seen = int(np.searchsorted(u, cut, side="right"))
                reports = Reports(u=u[:seen], y=y[:seen])
                view = outlook(
                    OBJECTIVE, reports, fit(reports, believe(reports, [lessons[o] for o in others])), u[seen:]
                )
                chances.append(view.above(bar))
                outcomes.append(final > bar)
                places.append(1.0 - view.central.above(final))
    return np.array(chances), np.array(outcomes), np.array(places)


def test_what_has_little_chance_does_not_come_to_pass(judged):
    chances, outcomes, _ = judged
    low = chances < 0.05
    assert low.sum() >= 20
    assert outcomes[low].mean() <= 0.05


def test_the_chances_are_about_as_large_as_what_happens(judged):
    chances, outcomes, _ = judged
    for lower, upper in ((0.05, 0.35), (0.35, 0.65), (0.65, 1.01)):
        part = (chances >= lower) & (chances < upper)
        assert part.sum() >= 8
        assert abs(outcomes[part].mean() - chances[part].mean()) < 0.25


def test_the_chances_say_more_than_the_base_rate(judged):
    chances, outcomes, _ = judged
    assert np.mean((chances - outcomes) ** 2) < 0.8 * np.mean((outcomes.mean() - outcomes) ** 2)


def test_intervals_hold_about_what_they_say(judged):
    _, _, places = judged
    assert 0.75 < np.mean(np.abs(places - 0.5) < 0.45) <= 1.0
    assert 0.4 < np.mean(np.abs(places - 0.5) < 0.25) < 0.8
