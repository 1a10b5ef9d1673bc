"""Shard networks with FSDP2 and read whole tensors back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy, fully_shard
from torch.distributed.tensor import DTensor

from trainer.config import Config, ConfigError, ConfigProblem, FsdpConfig
from trainer.distributed.world import World, ranks_per_machine

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
_FREED_AFTER_FORWARD = ("FULL_SHARD", "HYBRID_SHARD")


def sharding_mesh(world: World, config: FsdpConfig) -> DeviceMesh:
    """The ranks as a sharding strategy sees them; a collective the first time.

    `FULL_SHARD` and `SHARD_GRAD_OP` shard over all ranks. The other two have a second dimension over which parameters
    are repeated: `HYBRID_SHARD` shards over `shard_group_size` ranks, `NO_SHARD` over one.

    Raises:
        ConfigError: The ranks do not split into groups of that size, or there is nothing to offload from.
    """
    if config.cpu_offload and world.device.type == "cpu":
        message = "got true, but this run is on a CPU, where parameters and optimizer are in main memory already"
        problem = ConfigProblem(path="trainer.fsdp_config.cpu_offload", message=message, hint="set it to false")
        raise ConfigError([problem])
    if config.sharding_strategy not in ("HYBRID_SHARD", "NO_SHARD"):
        return world.mesh
    group = 1
    if config.sharding_strategy == "HYBRID_SHARD":
        group = config.shard_group_size or ranks_per_machine()
        if world.size % group:
            message = f"{world.size} ranks cannot be split into groups of {group}"
            fitting = [size for size in range(1, world.size + 1) if world.size % size == 0]
            hint = f"with so many ranks it may be {', '.join(map(str, fitting))}"
            raise ConfigError([ConfigProblem(path="trainer.fsdp_config.shard_group_size", message=message, hint=hint)])
    shape = (world.size // group, group)
    return init_device_mesh(world.device.type, shape, mesh_dim_names=("replicate", "shard"))


def shard(
    model: torch.nn.Module, blocks: Iterable[torch.nn.Module], mesh: DeviceMesh, config: Config
) -> torch.nn.Module:
    """Shard a network in place: each transformer block, then the root.

    Parameters stay float32 in the optimizer and are cast to `model.dtype` for forward and backward; gradients are
    reduced, and added up over micro-batches, in float32.

    Args:
        model: The root.
        blocks: Its transformer blocks.
        mesh: The ranks (see `sharding_mesh`).
        config: Reads `model.dtype` and `trainer.fsdp_config`.
    """
    settings = config.trainer.fsdp_config
    alone = mesh.size() == 1 and settings.sharding_strategy == "NO_SHARD" and not settings.cpu_offload
    if alone and config.model.dtype == "float32":
        return model  # nothing to shard, cast or reduce: FSDP would only copy every parameter
    policy = MixedPrecisionPolicy(param_dtype=_DTYPES[config.model.dtype], reduce_dtype=torch.float32)
    reshard = settings.sharding_strategy in _FREED_AFTER_FORWARD
    offload = CPUOffloadPolicy() if settings.cpu_offload else OffloadPolicy()
    for block in blocks:
        fully_shard(block, mesh=mesh, mp_policy=policy, reshard_after_forward=reshard, offload_policy=offload)
    return fully_shard(model, mesh=mesh, mp_policy=policy, reshard_after_forward=reshard, offload_policy=offload)


def whole_weights(model: torch.nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Name and whole tensor of each parameter; a collective, so all ranks must exhaust it together."""
    for name, parameter in model.named_parameters():
        tensor = parameter.detach()
        yield name, tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def whole(tensor: Tensor) -> Tensor:
    """A possibly sharded tensor as a whole one."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
