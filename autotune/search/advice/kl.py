"""Rules on the distance to the reference."""

from __future__ import annotations

from autotune.search.advice.base import FEW, GUIDE, RANGES, Advice, Case, Change, rounded, tail

HIGH, LOW = 0.15, 0.01
_LONG = 0.6


def too_far(case: Case) -> Advice | None:
    """The KL was above 0.15 for most of the second half."""
    kl, coef = case.values("kl/actor_ref"), case.number("algorithm.kl_ctrl.kl_coef")
    if len(kl) < FEW:
        return None
    late = tail(kl)
    share = sum(value > HIGH for value in late) / len(late)
    if share < _LONG:
        return None
    changes: list[Change] = []
    lr = case.number("trainer.optim.lr")
    if lr is not None:
        changes.append(Change(path="trainer.optim.lr", before=lr, after=rounded(lr / 3)))
    if case.config.get("algorithm.kl_ctrl.type") == "fixed" and coef:
        changes.append(Change(path="algorithm.kl_ctrl.type", before="fixed", after="adaptive"))
        if case.config.get("algorithm.kl_ctrl.target_kl") is None:
            changes.append(Change(path="algorithm.kl_ctrl.target_kl", before=None, after=0.1))
    return Advice(
        rule="kl_too_high",
        finding=f"the KL to the reference was above {HIGH} in {share:.0%} of the second half, at last {late[-1]:.3g}",
        numbers={"share": share, "last": late[-1], "limit": HIGH},
        changes=tuple(changes),
        source=f"{GUIDE}; {RANGES}",
    )


def too_close(case: Case) -> Advice | None:
    """The KL stayed below 0.01: the penalty holds the policy where it is."""
    kl, coef = case.values("kl/actor_ref"), case.number("algorithm.kl_ctrl.kl_coef")
    if len(kl) < 2 * FEW or not coef:
        return None
    late = tail(kl)
    share = sum(value < LOW for value in late) / len(late)
    if share < 0.9:
        return None
    return Advice(
        rule="kl_too_low",
        finding=f"the KL to the reference was below {LOW} in {share:.0%} of the second half, {late[-1]:.3g} at the end",
        numbers={"share": share, "last": late[-1], "limit": LOW},
        changes=(Change(path="algorithm.kl_ctrl.kl_coef", before=coef, after=rounded(coef / 3)),),
        source=RANGES,
    )
