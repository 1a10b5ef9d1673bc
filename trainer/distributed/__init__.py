"""Ranks, sharding and checkpoints."""

from __future__ import annotations

from trainer.distributed.checkpoint import (
    Pair,
    complete_checkpoints,
    load_checkpoint,
    load_weights,
    read_progress,
    save_checkpoint,
)
from trainer.distributed.fsdp import shard, whole, whole_weights
from trainer.distributed.world import World, open_world, rank_and_size

__all__ = [
    "Pair",
    "World",
    "complete_checkpoints",
    "load_checkpoint",
    "load_weights",
    "open_world",
    "rank_and_size",
    "read_progress",
    "save_checkpoint",
    "shard",
    "whole",
    "whole_weights",
]
