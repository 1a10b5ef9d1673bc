"""The update of the actor on given answers."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

from torch import Tensor

from trainer.loop.micro_batches import MicroBatch
from trainer.loop.preference_batch import PreferenceBatch, example_micro_batches
from trainer.loop.preference_losses import dpo_sums, kto_sums, means_of, measured_baseline
from trainer.loop.run import Run
from trainer.loop.update import UpdateStats, apply_update, backward, mini_batches


def update_on_preferences(run: Run, batch: PreferenceBatch, step: int) -> UpdateStats:
    """Update the actor on the global batch; every rank takes its share of each mini-batch.

    An update whose loss or gradient is not finite is left out and counted.
    """
    stats = UpdateStats()
    for rows in mini_batches(run, len(batch), step):
        totals, more = _LOSSES[run.config.algorithm.name](run, batch, rows)
        stats.skipped += not apply_update(run, "actor", {**means_of(totals, len(rows)), **more}, stats)
    return stats


def accumulate_pairs(run: Run, batch: PreferenceBatch, rows: Tensor) -> tuple[dict[str, Tensor], dict[str, float]]:
    """Forward and backward over this rank's pairs of a mini-batch.

    Args:
        run: The run.
        batch: The global batch.
        rows: Its examples that make the mini-batch.

    Returns:
        Sums over the mini-batch of all ranks, and what else is worth knowing about it.
    """
    micros = example_micro_batches(run, rows.chunk(run.world.size), batch, (0, 1))
    return backward(run, functools.partial(dpo_sums, run, batch), micros, len(rows)), {}


def accumulate_labels(run: Run, batch: PreferenceBatch, rows: Tensor) -> tuple[dict[str, Tensor], dict[str, float]]:
    """The baseline of a mini-batch, then forward and backward; arguments and result as in `accumulate_pairs`."""
    shares = rows.chunk(run.world.size)
    baseline = measured_baseline(run, batch, example_micro_batches(run, shares, batch, (1,)), len(rows))

    def loss_of(micro: MicroBatch) -> Mapping[str, Tensor]:
        return kto_sums(run, batch, micro, baseline)

    totals = backward(run, loss_of, example_micro_batches(run, shares, batch, (0,)), len(rows))
    return totals, {"kl/baseline": float(baseline)}


_LOSSES: Mapping[str, Callable[[Run, PreferenceBatch, Tensor], tuple[dict[str, Tensor], dict[str, float]]]] = {
    "dpo": accumulate_pairs,
    "kto": accumulate_labels,
}
