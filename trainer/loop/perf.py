"""Speed and memory."""

from __future__ import annotations

import resource
import time
from functools import cache

import torch

DATA_SHEET_BF16: tuple[tuple[str, float], ...] = (
    ("B200", 2250e12),
    ("GH200", 989e12),
    ("H200", 989e12),
    ("H100 PCIe", 756e12),
    ("H100 NVL", 835e12),
    ("H100", 989e12),
    ("H800", 989e12),
    ("H20", 148e12),
    ("A100", 312e12),
    ("A800", 312e12),
    ("L40S", 362e12),
    ("L40", 181e12),
    ("L4", 121e12),
    ("A10G", 70e12),
    ("A10", 125e12),
    ("RTX 6000 Ada", 364e12),
    ("RTX A6000", 155e12),
    ("RTX 4090", 165e12),
    ("RTX 3090", 71e12),
)
"""Part of a GPU's name -> its dense bfloat16 FLOPs per second after the data sheet; the first that fits counts."""


def peak_memory_gb(device: torch.device) -> float:
    """Largest memory so far (GiB): allocated on a GPU, resident of the process on a CPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**30
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


@cache
def peak_flops(device: torch.device, dtype: torch.dtype) -> float:
    """The most that this device computes (FLOPs per second).

    The data sheet's figure for bfloat16 on a GPU that is known, so that utilisations can be compared with others'; else
    what a matrix product reaches here, measured once in a few milliseconds.
    """
    if device.type == "cuda" and dtype == torch.bfloat16:
        known = data_sheet_flops(torch.cuda.get_device_name(device))
        if known is not None:
            return known
    size = 8192 if device.type == "cuda" else 512
    left = torch.ones(size, size, device=device, dtype=dtype)
    times = []
    for _ in range(4):
        start = time.perf_counter()
        product = left @ left
        float(product[0, 0])  # waits for the device
        times.append(time.perf_counter() - start)
    return 2.0 * size**3 / min(times)


def data_sheet_flops(name: str) -> float | None:
    """Dense bfloat16 FLOPs per second of a GPU by its name; None for one that is not listed."""
    return next((flops for part, flops in DATA_SHEET_BF16 if part in name), None)


def num_parameters(model: torch.nn.Module) -> int:
    """Parameters of the whole network, over all ranks."""
    return sum(parameter.numel() for parameter in model.parameters())
