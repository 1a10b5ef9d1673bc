"""The ranks of a run: how they find each other and what they exchange."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from trainer.config import ConfigError, ConfigProblem, SystemConfig


@dataclass(frozen=True, kw_only=True, slots=True)
class World:
    """This rank's place.

    Attributes:
        rank: 0 to `size` - 1; rank 0 alone writes files.
        size: Number of ranks.
        device: Where this rank's tensors live.
        mesh: The ranks in one dimension.
    """

    rank: int
    size: int
    device: torch.device
    mesh: DeviceMesh

    @property
    def is_main(self) -> bool:
        """Whether this rank writes the files."""
        return self.rank == 0

    def sum(self, values: Tensor) -> Tensor:
        """The element-wise sum over all ranks."""
        if self.size > 1:
            values = values.clone()
            dist.all_reduce(values)
        return values

    def any(self, flag: bool) -> bool:
        """Whether the flag is true on at least one rank; all ranks get the same answer."""
        return bool(self.sum(torch.tensor([float(flag)], device=self.device)).item())

    def gather(self, values: Tensor) -> Tensor:
        """The rows of all ranks in rank order; every rank must bring the same shape."""
        if self.size == 1:
            return values
        parts = [torch.empty_like(values) for _ in range(self.size)]
        dist.all_gather(parts, values.contiguous())
        return torch.cat(parts)

    def barrier(self) -> None:
        """Wait for all ranks."""
        if self.size > 1:
            dist.barrier()


def ranks_per_machine() -> int:
    """How many ranks torchrun started on this machine; 1 without it."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


def rank_and_size() -> tuple[int, int]:
    """This process's rank and the number of ranks as torchrun announces them; (0, 1) without it."""
    return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


@contextlib.contextmanager
def open_world(config: SystemConfig) -> Iterator[World]:
    """Join the process group for the time of a run.

    A single process keeps its store in memory and needs no port of its own, so that trials on one machine cannot
    collide, unless `system.distributed.master_port` asks for one.

    Raises:
        ConfigError: `system.device` is not there.
    """
    device = _device(config.device)
    rank, size = rank_and_size()
    port = config.distributed.master_port
    timeout = timedelta(seconds=config.distributed.timeout_s)
    store: dist.Store | None = None
    if port is not None:
        host = os.environ.get("MASTER_ADDR", "127.0.0.1")
        store = dist.TCPStore(host, port, size, is_master=rank == 0, timeout=timeout)
    elif size == 1:
        store = dist.HashStore()
        # Gloo binds a port of the kernel's choice even when alone; keep it off the network.
        os.environ.setdefault("GLOO_SOCKET_IFNAME", _loopback())
    # With cpu_offload gradients and their norms are exchanged from main memory, which NCCL cannot.
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    place = {} if store is None else {"store": store, "rank": rank, "world_size": size}
    dist.init_process_group(backend, timeout=timeout, **place)
    try:
        yield World(rank=rank, size=size, device=device, mesh=init_device_mesh(device.type, (size,)))
    finally:
        dist.destroy_process_group()


def _loopback() -> str:
    names = [name for _, name in socket.if_nameindex()]
    return next((name for name in names if name.startswith("lo")), names[0])


def _device(name: str) -> torch.device:
    available = torch.cuda.is_available()
    if name == "cuda" and not available:
        problem = ConfigProblem(
            path="system.device", message="got 'cuda', but torch finds no GPU", hint="use auto or cpu"
        )
        raise ConfigError([problem])
    if name == "cpu" or not available:
        return torch.device("cpu")
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    torch.cuda.set_device(device)
    return device
