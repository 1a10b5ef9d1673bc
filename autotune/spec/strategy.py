"""Reads ``strategy``: whether trials run each for itself or as a population."""

from __future__ import annotations

from autotune.spec import known
from autotune.spec.bounds import COUNT, Bounds
from autotune.spec.reader import Section
from autotune.spec.types import Budget, Finalists, Objective, Population, PrunerSpec

QUANTILE = Bounds(above=0, high=0.5)
PROBABILITY = Bounds(low=0, high=1)
PERTURBATION = Bounds(above=1, high=10)
COMPARING = frozenset({"asha", "hyperband", "median", "percentile", "extrapolate", "eval_decline"})
"""The pruners that judge a whole curve as that of one configuration, or pause trials themselves."""
_EXAMPLE = "strategy: {pbt: {interval: 10}}"


def read_strategy(
    top: Section, budget: Budget, objective: Objective, prune: tuple[PrunerSpec, ...], finalists: Finalists | None
) -> Population | None:
    """The population, if the file wants one; complains about what does not go with it."""
    section = top.section("strategy", known.STRATEGIES)
    if section is None:
        return None
    inner = section.section("pbt", known.PBT)
    if inner is None:
        if section.entry("pbt") is None:
            section.missing("pbt", f"Write for example {_EXAMPLE}")
        return None
    if inner.entry("interval") is None:
        inner.missing("interval", f"Write for example {_EXAMPLE}, the steps from one generation to the next.")
    default = Population(interval=1)
    population = Population(
        interval=inner.whole("interval", default.interval, COUNT),
        quantile=float(inner.number("quantile", default.quantile, QUANTILE)),
        resample_probability=float(inner.number("resample_probability", default.resample_probability, PROBABILITY)),
        perturbation=float(inner.number("perturbation", default.perturbation, PERTURBATION)),
    )
    for message, hint in _against(budget, objective, prune, finalists):
        top.complain("strategy", message, hint)
    return population


def refuse_beside_stages(top: Section) -> None:
    """Complains about a strategy in a file with stages."""
    if top.entry("strategy") is not None:
        message = (
            "a population and `stages` do not go together: its answer is a schedule of values, which no stage fixes."
        )
        top.complain("strategy", message, "Remove `strategy`, or submit the population as a job of its own.")


def _against(
    budget: Budget, objective: Objective, prune: tuple[PrunerSpec, ...], finalists: Finalists | None
) -> list[tuple[str, str]]:
    """What does not go with a population, each with its fix."""
    found: list[tuple[str, str]] = []
    if budget.trials < 2:
        message = f"a population of {budget.trials} has nobody to learn from; budget.trials is its size."
        found.append((message, "Write for example budget: {trials: 8}"))
    if objective.also:
        found.append(("a population is compared by one objective.", "Turn the others into constraints."))
    if finalists is not None:
        message = "finalists would run the last values from the first step, which is not what the winner did."
        found.append((message, "Remove `finalists`."))
    wrong = [spec.name for spec in prune if spec.name in COMPARING]
    if wrong:
        message = f"{', '.join(wrong)} takes a curve for that of one configuration; here its values change."
        hint = "Keep the pruners that look at what a trial does now, for example kl_ceiling and not_finite."
        found.append((message, hint))
    return found
