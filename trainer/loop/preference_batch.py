"""Prompts with given answers as tensors, and the log-probabilities of whole answers."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from trainer.algorithms import sequence_logprobs
from trainer.data import Example, LabelExample, answer_tokens, answers_of
from trainer.distributed import World
from trainer.loop.forward import response_logprobs
from trainer.loop.micro_batches import MicroBatch, micro_batches, restored
from trainer.loop.run import Run


@dataclass(frozen=True, kw_only=True, slots=True)
class PreferenceBatch:
    """N examples of all ranks with K answers each, P prompt and T answer places.

    A pair has two answers, the chosen and the rejected one. An example with a label has its own answer and, second, one
    that was given to another prompt: what KTO measures its baseline with.

    Attributes:
        tokens: `[K, N, P + T]`, prompts padded on the left, answers on the right.
        attention_mask: `[K, N, P + T]`, 1 on prompt and answer.
        answer_mask: `[K, N, T]`, true up to and including the end token.
        desirable: `[N]`, true where the first answer is a good one; always true for pairs.
        ref_logprobs: `[K, N]`, of whole answers by the reference (nats, or nats per token); None before it is asked.
    """

    tokens: Tensor
    attention_mask: Tensor
    answer_mask: Tensor
    desirable: Tensor
    ref_logprobs: Tensor | None = None

    def __len__(self) -> int:
        """N."""
        return self.tokens.shape[1]

    @property
    def length(self) -> int:
        """T."""
        return self.answer_mask.shape[2]


def preference_batch(run: Run, examples: Sequence[Example]) -> PreferenceBatch:
    """The examples as tensors, no wider than their longest prompt and answer; the same on every rank.

    Args:
        run: Reads tokenizer, device and the longest answer allowed.
        examples: Pairs, or examples with labels.
    """
    tokenizer, longest = run.tokenizer, run.config.data.max_response_length
    prompts = [tokenizer.encode(example.prompt) for example in examples]
    columns = [
        [answer_tokens(tokenizer, answer, longest) for answer in column]
        for column in zip(*(answers_of(example) for example in examples), strict=True)
    ]
    if len(columns) == 1:
        columns.append([columns[0][place] for place in other_answers([example.prompt for example in examples])])
    left = max(len(prompt) for prompt in prompts)
    right = max(len(answer) for column in columns for answer in column)
    pad, device = tokenizer.pad_id, run.world.device
    rows = [
        [[pad] * (left - len(prompt)) + prompt + answer + [pad] * (right - len(answer)) for prompt, answer in pairs]
        for pairs in (zip(prompts, column, strict=True) for column in columns)
    ]
    places = torch.arange(left + right, device=device)
    starts = torch.tensor([left - len(prompt) for prompt in prompts], device=device)
    ends = torch.tensor([[left + len(answer) for answer in column] for column in columns], device=device)
    mask = (places >= starts[:, None]) & (places < ends[:, :, None])
    good = [not isinstance(example, LabelExample) or example.label for example in examples]
    return PreferenceBatch(
        tokens=torch.tensor(rows, device=device),
        attention_mask=mask.long(),
        answer_mask=mask[:, :, left:],
        desirable=torch.tensor(good, device=device),
    )


def other_answers(prompts: Sequence[str]) -> list[int]:
    """For each example the next one, in a circle, that has another prompt; the next at all where there is none."""
    count = len(prompts)
    found = []
    for place, prompt in enumerate(prompts):
        others = ((place + step) % count for step in range(1, count))
        found.append(next((other for other in others if prompts[other] != prompt), (place + 1) % count))
    return found


def with_reference(run: Run, batch: PreferenceBatch) -> PreferenceBatch:
    """The batch with the reference's log-probabilities; all ranks take part."""
    return dataclasses.replace(batch, ref_logprobs=answer_logprobs(run, run.reference, batch))


@torch.no_grad()
def answer_logprobs(run: Run, model: torch.nn.Module, batch: PreferenceBatch) -> Tensor:
    """Log-probabilities of all answers, `[K, N]`; each rank computes its share of the examples.

    Args:
        run: The run.
        model: The actor or the reference.
        batch: Its examples must split evenly over the ranks.
    """
    mine = torch.arange(len(batch), device=run.world.device).chunk(run.world.size)[run.world.rank]
    part = dataclasses.replace(
        batch,
        tokens=batch.tokens[:, mine].flatten(0, 1).unsqueeze(0),
        attention_mask=batch.attention_mask[:, mine].flatten(0, 1).unsqueeze(0),
        answer_mask=batch.answer_mask[:, mine].flatten(0, 1).unsqueeze(0),
    )
    # Without a gradient the answers of an example need not stay together: every one is a row.
    rows = torch.arange(len(part), device=run.world.device)
    micros = micro_batches([rows], part.attention_mask[0], part.length, run.config.trainer, run.world)
    parts = [logprobs_of(run, model, part, micro, (0,)).T for micro in micros]
    own = restored(parts, micros, 1).view(len(batch.tokens), len(mine))
    return run.world.gather(own.T).T


def logprobs_of(
    run: Run, model: torch.nn.Module, batch: PreferenceBatch, micro: MicroBatch, columns: Sequence[int]
) -> Tensor:
    """Log-probabilities of some answers to the examples of a micro-batch, in one forward pass.

    Args:
        run: Reads the configuration.
        model: The actor or the reference.
        batch: The batch.
        micro: Its examples.
        columns: Which of the K answers.

    Returns:
        `[columns, rows]`, nats, or with `length_normalization` nats per token.
    """
    tokens = torch.cat([micro.sequences(batch.tokens[column], batch.length) for column in columns])
    attention = torch.cat([micro.sequences(batch.attention_mask[column], batch.length) for column in columns])
    mask = torch.cat([micro.responses(batch.answer_mask[column]) for column in columns])
    logprobs, _ = response_logprobs(
        model,
        tokens,
        attention,
        micro.response,
        1.0,
        entropy=False,
        remove_padding=run.config.trainer.use_remove_padding,
    )
    per_token = bool(run.config.algorithm.preference.length_normalization)
    return sequence_logprobs(logprobs, mask, per_token=per_token).view(len(columns), -1)


def example_micro_batches(
    run: Run, shares: Sequence[Tensor], batch: PreferenceBatch, columns: Sequence[int]
) -> list[MicroBatch]:
    """This rank's micro-batches of examples whose answers go through the network together.

    Args:
        run: Reads the sizes, which count sequences and tokens.
        shares: The examples of each rank.
        batch: The batch.
        columns: Which of the K answers.
    """
    settings, count = run.config.trainer, len(columns)
    settings = dataclasses.replace(
        settings,
        ppo_micro_batch_size_per_gpu=max(1, settings.ppo_micro_batch_size_per_gpu // count),
        ppo_max_token_len_per_gpu=settings.ppo_max_token_len_per_gpu // count,
    )
    longest = batch.attention_mask[list(columns)].amax(dim=0)
    return micro_batches(shares, longest, batch.length, settings, run.world)


def even_share(count: int, world: World) -> list[int]:
    """This rank's share of some examples, as many as every other rank's: the first ones fill up what is missing."""
    each = -(-count // world.size)
    return [place % count for place in range(world.rank * each, (world.rank + 1) * each)]
