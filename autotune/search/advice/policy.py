"""Rules on the policy's own measures: entropy, clipping, gradients."""

from __future__ import annotations

from statistics import median

from autotune.search.advice.base import FEW, LITERATURE, RANGES, Advice, Case, Change, rounded, tail, thirds

_IDLE, _BUSY = 0.001, 0.3
_FAR = 0.05


def entropy_collapse(case: Case) -> Advice | None:
    """The policy has become certain early, and explores no more."""
    entropy, coef = case.values("actor/entropy"), case.number("algorithm.entropy_coeff")
    if len(entropy) < 2 * FEW or coef is None:
        return None
    start, last = thirds(entropy)[0], entropy[-1]
    if entropy[0] <= 0 or last > 0.1 * entropy[0]:
        return None
    lost = next(place for place, value in enumerate(entropy, 1) if value <= 0.1 * entropy[0])
    return Advice(
        rule="entropy_collapse",
        finding=f"the entropy fell from {entropy[0]:.3g} to {last:.3g} nats per token, below a tenth at point {lost}",
        numbers={"start": entropy[0], "first_third": start, "last": last, "at": float(lost)},
        changes=(Change(path="algorithm.entropy_coeff", before=coef, after=rounded(max(2 * coef, 0.005))),),
        source=RANGES,
    )


def clip_idle(case: Case) -> Advice | None:
    """Hardly a token is ever clipped: the policy takes steps that are smaller than it is allowed."""
    clipped, lr = case.values("actor/clip_fraction"), case.number("trainer.optim.lr")
    if len(clipped) < FEW or lr is None:
        return None
    level = median(tail(clipped))
    epochs, mini = case.number("trainer.ppo_epochs"), case.number("trainer.mini_batch_size")
    if level > _IDLE or (epochs == 1 and mini == case.number("trainer.train_batch_size")):
        return None  # in a single update per step the ratio is 1 by construction
    kl = case.values("kl/actor_ref")
    if not kl or kl[-1] > _FAR:
        return None  # a policy that has run away or become certain is not clipped either
    return Advice(
        rule="clip_idle",
        finding=f"half of the later updates clip {level:.2%} of the tokens or less: the steps are small",
        numbers={"clip_fraction": level},
        changes=(Change(path="trainer.optim.lr", before=lr, after=rounded(2 * lr)),),
        source=LITERATURE,
    )


def clip_busy(case: Case) -> Advice | None:
    """A large share of the tokens is clipped: the updates go beyond what their data supports."""
    clipped, lr = case.values("actor/clip_fraction"), case.number("trainer.optim.lr")
    if len(clipped) < FEW or lr is None:
        return None
    level = median(tail(clipped))
    if level < _BUSY:
        return None
    epochs = case.number("trainer.ppo_epochs")
    change = Change(path="trainer.optim.lr", before=lr, after=rounded(lr / 2))
    if epochs is not None and epochs > 1:
        change = Change(path="trainer.ppo_epochs", before=int(epochs), after=int(epochs) - 1)
    return Advice(
        rule="clip_busy",
        finding=f"half of the later updates clip {level:.0%} of the tokens or more",
        numbers={"clip_fraction": level},
        changes=(change,),
        source=LITERATURE,
    )


def gradient_spikes(case: Case) -> Advice | None:
    """Single gradients are many times the usual one, and the clipping norm lets much of them through."""
    norms, clip = case.values("actor/grad_norm"), case.number("trainer.grad_clip")
    if len(norms) < 2 * FEW or clip is None:
        return None
    usual, largest = median(norms), max(norms)
    spikes = sum(norm > 5 * usual for norm in norms)
    if usual <= 0.01 * largest or spikes < 2 or clip <= 1.5 * usual:
        return None
    return Advice(
        rule="gradient_spikes",
        finding=f"{spikes} gradients are more than five times the usual norm {usual:.3g}, the largest {largest:.3g}",
        numbers={"usual": usual, "largest": largest, "spikes": float(spikes)},
        changes=(Change(path="trainer.grad_clip", before=clip, after=rounded(usual)),),
        source=LITERATURE,
    )
