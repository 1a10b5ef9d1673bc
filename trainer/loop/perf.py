"""Speed and memory."""

from __future__ import annotations

import resource
import time
from functools import cache

import torch


def peak_memory_gb(device: torch.device) -> float:
    """Largest memory so far (GiB): allocated on a GPU, resident of the process on a CPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**30
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


@cache
def peak_flops(device: torch.device, dtype: torch.dtype) -> float:
    """What a matrix product reaches on this device (FLOPs per second); measured once, in a few milliseconds."""
    size = 8192 if device.type == "cuda" else 512
    left = torch.ones(size, size, device=device, dtype=dtype)
    times = []
    for _ in range(4):
        start = time.perf_counter()
        product = left @ left
        float(product[0, 0])  # waits for the device
        times.append(time.perf_counter() - start)
    return 2.0 * size**3 / min(times)


def num_parameters(model: torch.nn.Module) -> int:
    """Parameters of the whole network, over all ranks."""
    return sum(parameter.numel() for parameter in model.parameters())
