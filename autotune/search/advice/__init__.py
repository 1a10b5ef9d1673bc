"""Advice after a trial: rules over its curves, each with the numbers of this run and a change to try."""

from __future__ import annotations

from collections.abc import Mapping

from autotune.search.advice import arithmetic, critic, kl, policy, reward, throughput
from autotune.search.advice.applying import changed
from autotune.search.advice.base import Advice, AdviceRule, Case, Change

__all__ = ["RULES", "Advice", "AdviceRule", "Case", "Change", "advise", "changed"]

RULES: Mapping[str, AdviceRule] = {
    "peak_then_fall": reward.peak_then_fall,
    "kl_too_high": kl.too_far,
    "entropy_collapse": policy.entropy_collapse,
    "longer_not_better": reward.longer_not_better,
    "gradient_spikes": policy.gradient_spikes,
    "clip_busy": policy.clip_busy,
    "many_epochs": arithmetic.many_epochs,
    "short_warmup": arithmetic.short_warmup,
    "slow_steady": reward.slow_steady,
    "kl_too_low": kl.too_close,
    "clip_idle": policy.clip_idle,
    "critic_not_learning": critic.not_learning,
    "plateau_oscillation": reward.plateau_oscillation,
    "small_batches": arithmetic.small_batches,
    "padding_waste": throughput.padding_waste,
    "cache_pressure": throughput.cache_pressure,
}
"""Name -> rule: what destroys a run first, then what holds it back, then what only costs time.

The critic stands behind the policy: following its rule helped as often as it harmed, when that was measured.
"""


def advise(case: Case) -> tuple[Advice, ...]:
    """Everything that the rules find, the most urgent first; of two that change one parameter the first counts."""
    found: list[Advice] = []
    taken: set[str] = set()
    for rule in RULES.values():
        advice = rule(case)
        if advice is None or any(change.path in taken for change in advice.changes):
            continue
        taken.update(change.path for change in advice.changes)
        found.append(advice)
    return tuple(found)
