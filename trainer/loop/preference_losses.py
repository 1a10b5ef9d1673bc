"""The losses on given answers of one micro-batch, summed over its examples, with what is worth knowing beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from trainer.algorithms import kl_baseline, num_ranked_right
from trainer.loop.micro_batches import MicroBatch
from trainer.loop.preference_batch import PreferenceBatch, logprobs_of
from trainer.loop.run import Run

GOOD, BAD = "good", "bad"
"""Names of the counts of good and bad answers, which the sums with these names are divided by."""
DIVISORS: Mapping[str, str] = {
    "reward/chosen_mean": GOOD,
    "reward/rejected_mean": BAD,
    "actor/chosen_logprobs": GOOD,
    "actor/rejected_logprobs": BAD,
}


def dpo_sums(run: Run, batch: PreferenceBatch, micro: MicroBatch) -> dict[str, Tensor]:
    """Loss and rewards of the pairs of a micro-batch.

    Returns:
        Sums by metric; the loss comes first and carries the gradient.
    """
    logprobs = logprobs_of(run, run.actor, batch, micro, (0, 1))
    return pair_sums(run, logprobs, _reference(batch)[:, micro.rows])


def pair_sums(run: Run, logprobs: Tensor, ref_logprobs: Tensor) -> dict[str, Tensor]:
    """Loss and rewards of pairs from the log-probabilities of their answers, `[2, pairs]` each."""
    settings = run.config.algorithm.preference
    beta, chosen, rejected = _number(settings.beta), *(logprobs - ref_logprobs)
    losses = run.mathematics.pair_losses[str(settings.loss_type)]
    loss = losses(chosen, rejected, beta=beta, label_smoothing=_number(settings.label_smoothing))
    rewards, likely = beta * (logprobs - ref_logprobs).detach(), logprobs.detach()
    pairs = torch.full_like(loss.detach(), len(chosen))
    return {
        "actor/loss": loss,
        "reward/accuracy": num_ranked_right(rewards[0], rewards[1]),
        "reward/chosen_mean": rewards[0].sum(),
        "reward/rejected_mean": rewards[1].sum(),
        "actor/chosen_logprobs": likely[0].sum(),
        "actor/rejected_logprobs": likely[1].sum(),
        GOOD: pairs,
        BAD: pairs,
    }


def kto_sums(run: Run, batch: PreferenceBatch, micro: MicroBatch, baseline: Tensor) -> dict[str, Tensor]:
    """Loss and rewards of the labelled answers of a micro-batch; as `dpo_sums`, with the baseline of its mini-batch."""
    logprobs = logprobs_of(run, run.actor, batch, micro, (0,))[0]
    return label_sums(run, logprobs, _reference(batch)[0, micro.rows], batch.desirable[micro.rows], baseline)


def label_sums(
    run: Run, logprobs: Tensor, ref_logprobs: Tensor, desirable: Tensor, baseline: Tensor
) -> dict[str, Tensor]:
    """Loss and rewards of labelled answers from their log-probabilities, `[answers]` each."""
    settings = run.config.algorithm.preference
    beta = _number(settings.beta)
    loss = run.mathematics.kto_loss(
        logprobs - ref_logprobs,
        desirable,
        baseline,
        beta=beta,
        desirable_weight=_number(settings.desirable_weight),
        undesirable_weight=_number(settings.undesirable_weight),
    )
    rewards, likely = beta * (logprobs - ref_logprobs).detach(), logprobs.detach()
    line = beta * baseline
    right = num_ranked_right(rewards[desirable], line) + num_ranked_right(line, rewards[~desirable])
    return {
        "actor/loss": loss,
        "reward/accuracy": right,
        "reward/chosen_mean": rewards[desirable].sum(),
        "reward/rejected_mean": rewards[~desirable].sum(),
        "actor/chosen_logprobs": likely[desirable].sum(),
        "actor/rejected_logprobs": likely[~desirable].sum(),
        GOOD: desirable.sum(),
        BAD: (~desirable).sum(),
    }


@torch.no_grad()
def measured_baseline(run: Run, batch: PreferenceBatch, micros: Sequence[MicroBatch], count: int) -> Tensor:
    """KTO's baseline by the actor as it is now, over the mini-batch of all ranks; all take part.

    Args:
        run: The run.
        batch: The global batch.
        micros: This rank's part of the mini-batch.
        count: Examples of the mini-batch over all ranks.
    """
    gains = [
        (logprobs_of(run, run.actor, batch, micro, (1,))[0] - _reference(batch)[1, micro.rows]).sum()
        for micro in micros
    ]
    return kl_baseline(run.world.sum(torch.stack(gains).sum()), count)


def means_of(totals: Mapping[str, Tensor], count: int) -> dict[str, float]:
    """What sums over `count` examples mean; a mean over good (or bad) answers is left out when there were none."""
    values = dict(zip(totals, torch.stack([total.float() for total in totals.values()]).tolist(), strict=True))
    means: dict[str, float] = {}
    for name, value in values.items():
        divisor = values[DIVISORS[name]] if name in DIVISORS else count
        if name not in (GOOD, BAD) and divisor:
            means[name] = value / divisor
    if "reward/chosen_mean" in means and "reward/rejected_mean" in means:
        means["reward/margin"] = means["reward/chosen_mean"] - means["reward/rejected_mean"]
    return means


def _reference(batch: PreferenceBatch) -> Tensor:
    assert batch.ref_logprobs is not None
    return batch.ref_logprobs


def _number(value: float | None) -> float:
    assert value is not None, "build() refuses a configuration without it"
    return value
