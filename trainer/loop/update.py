"""The second half of a step: PPO epochs over mini-batches, for actor and critic."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.profiler import record_function

from trainer.algorithms import DENOMINATORS, num_tokens
from trainer.distributed import whole
from trainer.loop.debug import gradient_norms
from trainer.loop.experience import Experience, Targets
from trainer.loop.losses import actor_loss, critic_loss
from trainer.loop.micro_batches import MicroBatch, micro_batches
from trainer.loop.run import Run
from trainer.seeds import derived_seed

Sums = Mapping[str, Tensor]
"""Sums over the tokens of a micro-batch by metric. The first is the loss, and carries the gradient."""


@dataclass(kw_only=True, slots=True)
class UpdateStats:
    """What the updates of one step measured.

    Attributes:
        values: One entry per update, by the name of the metric.
        components: With `debug`, the gradient norms of each network's components, one entry per update.
        skipped: Updates left out because loss or gradient was not finite.
    """

    values: dict[str, list[float]] = field(default_factory=dict)
    components: dict[str, list[dict[str, float]]] = field(default_factory=dict)
    skipped: int = 0

    def add(self, values: Mapping[str, float]) -> None:
        """Keep what one update of one network measured."""
        for name, value in values.items():
            self.values.setdefault(name, []).append(value)

    def means(self) -> dict[str, float]:
        """The mean of each metric over the updates."""
        return {name: sum(values) / len(values) for name, values in self.values.items()}


@record_function("update")
def update(run: Run, experience: Experience, targets: Targets, step: int) -> UpdateStats:
    """Update actor and critic on the global batch; every rank takes its share of each mini-batch.

    An update whose loss or gradient is not finite is left out, for the network concerned, and counted. In the first
    `trainer.critic_warmup` steps the actor is left alone.
    """
    stats = UpdateStats()
    train_actor = step > run.config.trainer.critic_warmup
    length = experience.response_mask.shape[1]
    for rows in mini_batches(run, len(experience.tokens), step):
        shares = rows.chunk(run.world.size)
        micros = micro_batches(shares, experience.attention_mask, length, run.config.trainer, run.world)
        finite = True
        if train_actor:
            sums = accumulate(run, actor_loss, experience, targets, micros, targets.mask[rows])
            finite &= apply_update(run, "actor", sums, stats)
        if run.critic is not None:
            sums = accumulate(run, critic_loss, experience, targets, micros, targets.mask[rows])
            finite &= apply_update(run, "critic", sums, stats)
        stats.skipped += not finite
    return stats


def mini_batches(run: Run, num_responses: int, step: int) -> Iterator[Tensor]:
    """The rows of each mini-batch: a fresh permutation per PPO epoch, the same on every rank."""
    size = run.config.trainer.mini_batch_size * run.config.rollout.n
    for epoch in range(run.config.trainer.ppo_epochs):
        generator = torch.Generator().manual_seed(derived_seed("mini-batches", run.config.trainer.seed, step, epoch))
        yield from torch.randperm(num_responses, generator=generator).to(run.world.device).split(size)


def accumulate(
    run: Run,
    loss_of: Callable[[Run, Experience, Targets, MicroBatch], Sums],
    experience: Experience,
    targets: Targets,
    micros: Sequence[MicroBatch],
    mask: Tensor,
) -> dict[str, float]:
    """Forward and backward over this rank's micro-batches of a mini-batch, for one network.

    Args:
        run: The run.
        loss_of: The sums of a micro-batch, loss first.
        experience: The global batch.
        targets: Its advantages and returns.
        micros: This rank's micro-batches.
        mask: `[rows, T]`, the tokens that count of the mini-batch over all ranks.

    Returns:
        The means over the mini-batch of all ranks by metric: losses by `loss_agg_mode`, all else over tokens.
    """
    denominator, tokens = DENOMINATORS[run.config.algorithm.loss_agg_mode](mask), num_tokens(mask)
    totals = backward(run, functools.partial(loss_of, run, experience, targets), micros, denominator)
    divisors = torch.stack([denominator if name.endswith("loss") else tokens for name in totals])
    return dict(zip(totals, (torch.stack(list(totals.values())) / divisors).tolist(), strict=True))


def backward(
    run: Run, loss_of: Callable[[MicroBatch], Sums], micros: Sequence[MicroBatch], denominator: Tensor | int
) -> dict[str, Tensor]:
    """Forward and backward over this rank's micro-batches of a mini-batch.

    Sums are divided by the denominator of the whole mini-batch, and multiplied by the number of ranks because FSDP
    averages over them: the gradient does not depend on the split into micro-batches or ranks.

    Args:
        run: The run.
        loss_of: The sums of a micro-batch, loss first; their names are the same for all.
        micros: This rank's micro-batches.
        denominator: What the loss is divided by, of the mini-batch over all ranks.

    Returns:
        The sums over the mini-batch of all ranks by metric, not divided.
    """
    scale = run.world.size / denominator
    names: list[str] = []
    parts: list[Tensor] = []
    for micro in micros:
        sums = loss_of(micro)
        names = list(sums)
        (sums[names[0]] * scale).backward()
        parts.append(torch.stack([value.detach().float() for value in sums.values()]))
    return dict(zip(names, run.world.sum(functools.reduce(torch.add, parts)), strict=True))


def apply_update(run: Run, network: str, means: Mapping[str, float], stats: UpdateStats) -> bool:
    """Clip, step and clear; without the step when loss or gradient is not finite. Returns whether it stepped."""
    model, optimizer = run.trained[network]
    if run.config.debug:
        stats.components.setdefault(network, []).append(gradient_norms(model))
    norm = float(whole(torch.nn.utils.clip_grad_norm_(model.parameters(), run.config.trainer.grad_clip)))
    finite = math.isfinite(norm) and math.isfinite(means[f"{network}/loss"])
    if finite:
        optimizer.step()
    optimizer.zero_grad()
    stats.add({**means, f"{network}/grad_norm": norm})
    return finite
