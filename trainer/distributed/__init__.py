"""Ranks, sharding and checkpoints."""

from __future__ import annotations

from trainer.distributed.checkpoint import (
    CHECKPOINTS,
    Pair,
    complete_checkpoints,
    load_checkpoint,
    load_weights,
    prune_checkpoints,
    read_progress,
    save_checkpoint,
)
from trainer.distributed.fsdp import shard, sharding_mesh, whole, whole_weights
from trainer.distributed.world import World, open_world, rank_and_size

__all__ = [
    "CHECKPOINTS",
    "Pair",
    "World",
    "complete_checkpoints",
    "load_checkpoint",
    "load_weights",
    "open_world",
    "prune_checkpoints",
    "rank_and_size",
    "read_progress",
    "save_checkpoint",
    "shard",
    "sharding_mesh",
    "whole",
    "whole_weights",
]
