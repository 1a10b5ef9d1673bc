"""Ranks that hold one engine together: they bring their requests to it, and each takes its own responses home."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch.distributed as dist

from trainer.distributed import World
from trainer.rollout.engine import Request, Response


@dataclass(frozen=True, kw_only=True, slots=True)
class Team:
    """This rank's place among the ranks of its engine.

    Attributes:
        rank: 0 to `size` - 1.
        size: Number of ranks; 1 needs no group.
        group: Carries Python objects between them.
    """

    rank: int = 0
    size: int = 1
    group: dist.ProcessGroup | None = None

    @property
    def is_leader(self) -> bool:
        """Whether this rank speaks for the team where one must."""
        return self.rank == 0

    def gathered(self, requests: Sequence[Request]) -> tuple[list[Request], slice]:
        """The requests of all ranks in rank order, and where this rank's are among them; a collective."""
        parts = self.all(list(requests))
        start = sum(len(part) for part in parts[: self.rank])
        return [request for part in parts for request in part], slice(start, start + len(requests))

    def all(self, item: object) -> list:
        """What each rank brings, in rank order; a collective."""
        if self.size == 1:
            return [item]
        parts: list = [None] * self.size
        dist.all_gather_object(parts, item, group=self.group)
        return parts


def team_of(world: World, size: int) -> Team:
    """The team of this rank when each `size` neighbours form one; all ranks of the world must call it together."""
    if size == 1:
        return Team()
    group = None
    for first in range(0, world.size, size):
        ranks = list(range(first, first + size))
        # Objects travel over gloo even where tensors travel over NCCL: no GPU memory, no copies.
        made = dist.new_group(ranks, backend="gloo")
        if world.rank in ranks:
            group = made
    return Team(rank=world.rank % size, size=size, group=group)


def rows(response: Response, wanted: slice) -> Response:
    """Some rows of a response."""
    return Response(
        tokens=response.tokens[wanted],
        mask=response.mask[wanted],
        logprobs=response.logprobs[wanted],
        truncated=response.truncated[wanted],
        policy_version=response.policy_version,
    )
