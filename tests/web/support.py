"""A service whose jobs look real on the page: a space with limits and rungs, curves of every kind, a record."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from autotune.store.curves import thin
from autotune.views import CurveView, EventView, JobView, Page, ReasonView, TrialView
from tests.fakes import FakeService, make_failed, make_job, make_trial

DOCUMENT: dict[str, object] = {
    "name": "demo",
    "search": {
        "algorithm.clip_ratio": {"float": [0.05, 0.4]},
        "algorithm.kl_ctrl.type": {"choice": ["fixed", "adaptive"]},
        "algorithm.kl_ctrl.target_kl": {"float": [0.02, 0.2], "when": "algorithm.kl_ctrl.type == 'adaptive'"},
        "lr": {"float": [1e-5, 1e-2], "log": True},
        "trainer.mini_batch_size": {"choice": [16, 32, 64]},
    },
    "objective": {"metric": "eval/reward", "direction": "maximize"},
    "constraints": ["kl/actor_ref <= 0.3"],
    "prune": [{"asha": {"min_steps": 8, "reduction_factor": 2}}, {"kl_ceiling": {"above": 0.4}}, "not_finite"],
    "budget": {"trials": 12, "parallel": 2, "steps": 40, "wall_clock": "2h", "gpu_hours": 4},
}


class WebService(FakeService):
    """The fake with what the live page asks for besides: spaces of jobs, and curves thinned as the store does it."""

    stages_of: Mapping[str, Sequence[TrialView]] = {}
    """Stage -> its trials, for a job with stages."""

    def trials(self, job_id: str, state: str | None, limit: int, cursor: str | None, stage: str | None = None) -> Page:
        name = stage or self.job(job_id).stage
        if name not in self.stages_of:
            return super().trials(job_id, state, limit, cursor, stage)
        found = [trial for trial in self.stages_of[name] if state in (None, trial.state)]
        return Page(items=found, next=None)

    def document(self, job_id: str) -> Mapping[str, object]:
        self.job(job_id)
        return DOCUMENT

    def curves(
        self,
        job_id: str,
        metrics: Sequence[str],
        trials: Sequence[int] | None,
        max_points: int,
        stage: str | None = None,
    ) -> list[CurveView]:
        self.calls.append(("curves", tuple(trials or ()), max_points))
        whole = super().curves(job_id, metrics, trials, 10**9, stage)
        return [_thinned(curve, max_points) for curve in whole]

    def put(self, job: JobView, trials: Sequence[TrialView], curves: Sequence[CurveView]) -> JobView:
        job = self.add(job, trials)
        self.curves_of[job.id] = list(curves)
        return job

    def record(self, job_id: str, kind: str, text: str, trial: int | None = None, **data: Any) -> None:
        events = self.events_of[job_id]
        at = 1_700_000_020.0 + len(events) / 2
        events.append(EventView(id=len(events) + 1, at=at, kind=kind, text=text, trial=trial, data=data))

    def put_trial(self, job_id: str, trial: TrialView, curve: CurveView | None = None) -> None:
        """Adds a trial or replaces it, with its curve."""
        self.trials_of[job_id] = _placed(self.trials_of[job_id], trial, lambda each: each.number)
        if curve is not None:
            self.curves_of[job_id] = _placed(self.curves_of[job_id], curve, lambda each: each.trial)
        counts: dict[str, int] = {}
        for each in self.trials_of[job_id]:
            counts[each.state] = counts.get(each.state, 0) + 1
        self.change(job_id, trials=counts)


def _placed(items: Sequence[Any], item: Any, key: Any) -> list[Any]:
    return sorted([each for each in items if key(each) != key(item)] + [item], key=key)


def _thinned(curve: CurveView, keep: int) -> CurveView:
    present = [[i for i, value in enumerate(v) if value is not None] for v in curve.metrics.values()]
    chosen = thin(present, keep)
    return replace(
        curve,
        steps=[curve.steps[place] for place in chosen],
        metrics={name: [values[place] for place in chosen] for name, values in curve.metrics.items()},
    )


def make_curve(number: int, steps: int, seed: int, *, level: float = 0.8, drift: float = 0.1) -> CurveView:
    """A reward that rises to a level, and a KL that drifts away from the reference."""
    dice = random.Random(seed)
    reward = [level * (1 - math.exp(-4 * step / steps)) + dice.gauss(0, 0.02) for step in range(1, steps + 1)]
    kl = [drift * step / steps + abs(dice.gauss(0, drift / 12)) for step in range(1, steps + 1)]
    evals = [value + 0.02 if step % 4 == 0 else None for step, value in enumerate(reward, 1)]
    metrics = {"reward/mean": reward, "kl/actor_ref": kl, "eval/reward": evals, "actor/entropy": kl}
    return CurveView(trial=number, steps=list(range(1, steps + 1)), metrics=metrics)


def trial_from(number: int, dice: random.Random, curve: CurveView, state: str, **changes: Any) -> TrialView:
    """A trial that fits its curve."""
    last = {name: next((v for v in reversed(values) if v is not None), None) for name, values in curve.metrics.items()}
    params: dict[str, Any] = {
        "algorithm.clip_ratio": dice.uniform(0.05, 0.4),
        "algorithm.kl_ctrl.type": dice.choice(["fixed", "adaptive"]),
        "trainer.optim.lr": 10 ** dice.uniform(-5, -2),
        "trainer.mini_batch_size": dice.choice([16, 32, 64]),
    }
    if params["algorithm.kl_ctrl.type"] == "adaptive":
        params["algorithm.kl_ctrl.target_kl"] = dice.uniform(0.02, 0.2)
    values: dict[str, Any] = {
        "state": state,
        "params": params,
        "metrics": last,
        "last_step": curve.steps[-1],
        "value": last["eval/reward"] if state == "completed" else None,
        "ended_at": None if state == "running" else 1_700_000_020.0 + number,
        "cost_s": 0.5 * curve.steps[-1],
    }
    return make_trial(number, **{**values, **changes})


def fill_job(service: WebService, job_id: str, *, trials: int, steps: int, state: str = "completed") -> JobView:
    """A job of completed, pruned (by KL and at rungs) and infeasible trials; the last two run when the job does."""
    views, curves = [], []
    dice = random.Random(7)
    for number in range(trials):
        level, drift = dice.uniform(0.3, 1.0), dice.uniform(0.05, 0.5)
        runs = state == "running" and number >= trials - 2
        kind = dice.random()
        if runs:
            curve, how, more = make_curve(number, steps // 2, number, level=level, drift=drift), "running", {}
        elif number and drift > 0.4:
            curve, how = make_curve(number, steps // 3, number, level=level, drift=0.45), "pruned"
            more = {"reason": reason("kl_ceiling", "kl/actor_ref was 0.45, above 0.4, for 3 steps", above=0.4)}
        elif number and kind < 0.5:
            rung = dice.choice([8, 16, 32])
            curve, how = make_curve(number, min(rung, steps), number, level=level * 0.6, drift=drift), "pruned"
            text = f"eval/reward {level:.3f} at step {rung} is rank 9 of 12 at rung {rung}; the best 6 go on"
            more = {"reason": reason("asha", text, rung=rung, threshold=0.31)}
        elif number % 17 == 16:
            curve, how = make_curve(number, 2, number, level=level, drift=drift), "infeasible"
            more = {"error": make_failed().error, "value": None}
        else:
            curve, how, more = make_curve(number, steps, number, level=level, drift=drift), "completed", {}
        curves.append(curve)
        views.append(trial_from(number, dice, curve, how, **more))
    job = _job_of(job_id, views, steps, state)
    service.put(job, views, curves)
    for view in views:
        service.record(job_id, "trial.attempt", f"trial {view.number} starts", view.number)
        if view.state != "running":
            service.record(job_id, "trial.state", f"trial {view.number} is {view.state}", view.number, state=view.state)
    if state != "running":
        service.record(job_id, "job.state", f"running -> {state}", to=state)
    return job


def reason(pruner: str, text: str, **numbers: float) -> ReasonView:
    return ReasonView(pruner=pruner, text=text, numbers=numbers)


def _job_of(job_id: str, views: Sequence[TrialView], steps: int, state: str) -> JobView:
    counts: dict[str, int] = {}
    for view in views:
        counts[view.state] = counts.get(view.state, 0) + 1
    best = max((view for view in views if view.value is not None), key=lambda view: view.value, default=None)
    return make_job(
        job_id,
        state=state,
        trials=counts,
        budget_trials=len(views) + (4 if state == "running" else 0),
        steps=steps,
        started_at=1_700_000_001.0,
        ended_at=None if state == "running" else 1_700_000_600.0,
        best_trial=best.number if best else None,
        best_value=best.value if best else None,
        default_value=views[0].value,
        cost_s=sum(view.cost_s for view in views),
        cost_gpu_hours=1.25,
    )
