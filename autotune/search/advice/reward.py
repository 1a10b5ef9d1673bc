"""Rules on the shape of the reward."""

from __future__ import annotations

from autotune.search.advice.base import FEW, GUIDE, Advice, Case, Change, noise, rounded, smooth, tail, thirds

_FALL = 0.2
_FLAT = 0.05
_NEAR = 0.05


def slow_steady(case: Case) -> Advice | None:
    """The reward still rises at the end, about as fast as at the start, close to the reference: it is held back."""
    rewards, lr = case.rewards(), case.number("trainer.optim.lr")
    if len(rewards) < 2 * FEW or lr is None:
        return None
    first, middle, last = thirds(rewards)
    early, late = middle - first, last - middle
    kl, coef = case.values("kl/actor_ref"), case.number("algorithm.kl_ctrl.kl_coef")
    drift = thirds(kl)[2] if kl else 0.0
    if early <= noise(rewards) / 2 or late <= 0.6 * early or drift > _NEAR:
        return None
    # Not a larger coefficient, as the guide has it: see the decision on which way the coefficient moves.
    held = Change(path="algorithm.kl_ctrl.kl_coef", before=coef, after=rounded(coef / 3)) if coef else None
    change = held or Change(path="trainer.optim.lr", before=lr, after=rounded(2 * lr))
    finding = (
        f"the reward rises slowly and steadily, {first:.3g} -> {middle:.3g} -> {last:.3g} over the thirds of the run, "
        f"and the KL is only {drift:.3g} at the end: it could move faster"
    )
    numbers = {"first": first, "middle": middle, "last": last, "kl": drift}
    source = f"{GUIDE}, its direction turned round by measurement"
    return Advice(rule="slow_steady", finding=finding, numbers=numbers, changes=(change,), source=source)


def peak_then_fall(case: Case) -> Advice | None:
    """The reward was clearly higher before: single updates went too far."""
    rewards, clip = case.rewards(), case.number("algorithm.clip_ratio")
    if len(rewards) < 2 * FEW or clip is None:
        return None
    level = smooth(rewards)
    peak, last, start = max(level), level[-1], level[0]
    where = level.index(peak) + 1
    risen = peak - min(level[:where])
    if risen <= 0 or peak - last < max(_FALL * risen, 3 * noise(rewards)) or where > 0.85 * len(level):
        return None
    changes = [Change(path="algorithm.clip_ratio", before=clip, after=rounded(max(0.05, clip / 2)))]
    lr = case.number("trainer.optim.lr")
    if lr is not None and clip <= 0.1:
        changes = [Change(path="trainer.optim.lr", before=lr, after=rounded(lr / 2))]
    return Advice(
        rule="peak_then_fall",
        finding=f"the reward rose from {start:.3g} to {peak:.3g} at point {where} and fell to {last:.3g}",
        numbers={"start": start, "peak": peak, "at": float(where), "last": last},
        changes=tuple(changes),
        source=GUIDE,
    )


def plateau_oscillation(case: Case) -> Advice | None:
    """High, no longer rising, and swinging: a little exploration may find the way out."""
    rewards, entropy = case.rewards(), case.number("algorithm.entropy_coeff")
    if len(rewards) < 2 * FEW or entropy is None or entropy > 0:
        return None
    late = tail(rewards)
    first, middle, last = thirds(rewards)
    swing = noise(late)
    if abs(last - middle) > swing or middle - first < 2 * swing or swing < _FLAT * max(abs(last), 1e-9):
        return None
    return Advice(
        rule="plateau_oscillation",
        finding=f"the reward stays near {last:.3g} and swings by {swing:.3g} around it without rising",
        numbers={"level": last, "swing": swing},
        changes=(Change(path="algorithm.entropy_coeff", before=entropy, after=0.005),),
        source=GUIDE,
    )


def longer_not_better(case: Case) -> Advice | None:
    """Responses grow and the reward does not: length is being rewarded, or nothing ends a response."""
    lengths, rewards = case.values("response/length_mean"), case.rewards()
    penalty = case.number("algorithm.truncation_penalty")
    if min(len(lengths), len(rewards)) < 2 * FEW:
        return None
    before, _, after = thirds(lengths)
    first, _, last = thirds(rewards)
    if after < 1.3 * before or last - first > noise(rewards):
        return None
    kl = case.number("algorithm.kl_ctrl.kl_coef")
    changes = []
    if penalty == 0:
        changes.append(Change(path="algorithm.truncation_penalty", before=penalty, after=0.5))
    elif kl is not None:
        changes.append(Change(path="algorithm.kl_ctrl.kl_coef", before=kl, after=rounded(max(2 * kl, 1e-3))))
    finding = (
        f"responses grew from {before:.3g} to {after:.3g} tokens while the reward went from {first:.3g} to {last:.3g}"
    )
    numbers = {"length_first": before, "length_last": after, "reward_first": first, "reward_last": last}
    source = "verl's overlong penalty (DAPO, arXiv:2503.14476)"
    return Advice(rule="longer_not_better", finding=finding, numbers=numbers, changes=tuple(changes), source=source)
