"""Rules on the value network."""

from __future__ import annotations

from autotune.search.advice.base import FEW, LITERATURE, Advice, Case, Change, rounded, tail

_NOTHING = 0.05


def not_learning(case: Case) -> Advice | None:
    """The critic explains nothing of the returns, so the advantages are mostly noise."""
    explained, lr = case.values("critic/explained_variance"), case.number("trainer.optim.critic_lr")
    if len(explained) < 2 * FEW or lr is None:
        return None
    spread = case.values("reward/std")
    if spread and max(tail(spread)) < _NOTHING:
        return None  # there is nothing left to explain
    late = tail(explained)
    level = sum(late) / len(late)
    if level > _NOTHING:
        return None
    losses = case.values("critic/loss")
    grows = len(losses) >= FEW and losses[-1] > 2 * losses[0]
    factor, what = (
        (0.3, "and its loss grows: it oversteps") if grows else (3.0, "and its loss does not grow: it is slow")
    )
    return Advice(
        rule="critic_not_learning",
        finding=f"the critic explains {level:.2g} of the returns' variance in the second half, {what}",
        numbers={"explained_variance": level},
        changes=(Change(path="trainer.optim.critic_lr", before=lr, after=rounded(factor * lr)),),
        source=LITERATURE,
    )
