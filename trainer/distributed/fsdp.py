"""Shard networks with FSDP2 and read whole tensors back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor

from trainer.config import Config

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def shard(
    model: torch.nn.Module, blocks: Iterable[torch.nn.Module], mesh: DeviceMesh, config: Config
) -> torch.nn.Module:
    """Shard a network in place: each transformer block, then the root.

    Parameters stay float32 in the optimizer and are cast to `model.dtype` for forward and backward; gradients are
    reduced in float32.

    Args:
        model: The root.
        blocks: Its transformer blocks.
        mesh: The ranks.
        config: Reads `model.dtype` and `trainer.fsdp_config.sharding_strategy`.
    """
    policy = MixedPrecisionPolicy(param_dtype=_DTYPES[config.model.dtype], reduce_dtype=torch.float32)
    reshard = config.trainer.fsdp_config.sharding_strategy == "FULL_SHARD"
    for block in blocks:
        fully_shard(block, mesh=mesh, mp_policy=policy, reshard_after_forward=reshard)
    return fully_shard(model, mesh=mesh, mp_policy=policy, reshard_after_forward=reshard)


def whole_weights(model: torch.nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Name and whole tensor of each parameter; a collective, so all ranks must exhaust it together."""
    for name, parameter in model.named_parameters():
        tensor = parameter.detach()
        yield name, tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def whole(tensor: Tensor) -> Tensor:
    """A possibly sharded tensor as a whole one."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
