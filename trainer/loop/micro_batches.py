"""How the rows of a batch are split into the parts that one forward and backward takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from trainer.config import TrainerConfig
from trainer.distributed import World


@dataclass(frozen=True, kw_only=True, slots=True)
class MicroBatch:
    """Some rows and how much of their padding is kept.

    Attributes:
        rows: `[rows]`, indices into the batch.
        prompt: Prompt places kept, counted from the response leftwards.
        response: Response places kept, counted from the first.
    """

    rows: Tensor
    prompt: int
    response: int

    def sequences(self, values: Tensor, length: int) -> Tensor:
        """Its part of a `[batch, prompt + response]` tensor whose response has `length` places."""
        start = values.shape[1] - length
        return values[self.rows][:, start - self.prompt : start + self.response]

    def responses(self, values: Tensor) -> Tensor:
        """Its part of a `[batch, response, ...]` tensor."""
        return values[self.rows][:, : self.response]


def micro_batches(
    shares: Sequence[Tensor], attention_mask: Tensor, length: int, settings: TrainerConfig, world: World
) -> list[MicroBatch]:
    """This rank's micro-batches; every rank gets the same number of them, because each is a collective operation.

    Rows of like length go together and are cut to their longest prompt and response, so that little padding is left;
    the order of a batch means nothing to its gradient. With `use_dynamic_bsz` the fullest micro-batch is as small as
    their number allows.

    Args:
        shares: The rows of each rank, equally many; or this rank's alone, then the ranks agree on the number.
        attention_mask: `[batch, prompt + length]`, of the whole batch.
        length: Places of the response.
        settings: Sizes.
        world: The ranks.
    """
    mine = shares[world.rank] if len(shares) > 1 else shares[0]
    prompt = attention_mask.shape[1] - length
    prompts = attention_mask[:, :prompt].sum(dim=1).tolist()
    responses = attention_mask[:, prompt:].sum(dim=1).clamp(min=1).tolist()  # an empty one still takes a place
    sizes = [[(prompts[row], responses[row]) for row in share.tolist()] for share in shares]
    own = sizes[world.rank] if len(shares) > 1 else sizes[0]
    if not settings.use_dynamic_bsz:
        order, rows = _longest_first(own), settings.ppo_micro_batch_size_per_gpu
        return [_micro_batch(mine, own, order[start : start + rows]) for start in range(0, len(order), rows)]
    budget, padded = settings.ppo_max_token_len_per_gpu, not settings.use_remove_padding
    count = max(len(_filled(share, budget, padded=padded)) for share in sizes)
    if len(shares) < world.size:
        count = int(world.gather(torch.tensor([count], device=world.device)).max())
    return [_micro_batch(mine, own, part) for part in balanced(own, count, budget, padded=padded)]


def balanced(sizes: Sequence[tuple[int, int]], count: int, budget: int, *, padded: bool = True) -> list[list[int]]:
    """Split sequences into exactly `count` parts, the most expensive of which is as cheap as possible.

    A part costs what is computed: its number of rows times its longest prompt and longest response together, or without
    padding the tokens alone. Among the splits of the sequences sorted by length the best is found by bisection over its
    cost.

    Args:
        sizes: Length of prompt and response of each sequence (tokens).
        count: Parts wanted; at least as many as the budget needs, at most one per sequence.
        budget: Most that a part may cost (tokens).
        padded: Whether padding is computed too.

    Returns:
        Places in `sizes`, each exactly once.
    """
    low, high = max(sum(size) for size in sizes), budget
    while low < high:
        middle = (low + high) // 2
        if len(_filled(sizes, middle, padded=padded)) <= count:
            high = middle
        else:
            low = middle + 1
    parts = _filled(sizes, low, padded=padded)
    while len(parts) < count:  # other ranks need more: halve the part with most rows
        largest = max(range(len(parts)), key=lambda place: len(parts[place]))
        half = len(parts[largest]) // 2
        parts[largest : largest + 1] = [parts[largest][:half], parts[largest][half:]]
    return parts


def restored(parts: Sequence[Tensor], micros: Sequence[MicroBatch], width: int) -> Tensor:
    """Put the results of micro-batches, `[rows, kept places]` each, back in the order of the batch.

    Args:
        parts: One result per micro-batch.
        micros: The micro-batches; together they hold each row once.
        width: Places of the result; cut places are 0.
    """
    whole = [torch.nn.functional.pad(part, (0, width - part.shape[1])) for part in parts]
    rows = torch.cat([micro.rows for micro in micros])
    return torch.cat(whole)[rows.argsort()]


def _longest_first(sizes: Sequence[tuple[int, int]]) -> list[int]:
    return sorted(range(len(sizes)), key=lambda place: (-sum(sizes[place]), place))


def _filled(sizes: Sequence[tuple[int, int]], limit: int, *, padded: bool) -> list[list[int]]:
    """Fill parts up to a cost, longest sequences first."""
    parts: list[list[int]] = []
    prompt = response = tokens = 0
    for place in _longest_first(sizes):
        wider = max(prompt, sizes[place][0]), max(response, sizes[place][1])
        more = tokens + sum(sizes[place])
        if parts and ((len(parts[-1]) + 1) * sum(wider) if padded else more) <= limit:
            parts[-1].append(place)
            prompt, response = wider
            tokens = more
        else:
            parts.append([place])
            prompt, response = sizes[place]
            tokens = sum(sizes[place])
    return parts


def _micro_batch(rows: Tensor, sizes: Sequence[tuple[int, int]], part: list[int]) -> MicroBatch:
    return MicroBatch(
        rows=rows[torch.tensor(part, device=rows.device)],
        prompt=max(sizes[place][0] for place in part),
        response=max(sizes[place][1] for place in part),
    )
