"""How much memory there is for one trial on one device."""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass
from functools import cache

from autotune.preflight.machine import total_memory


@dataclass(frozen=True, kw_only=True, slots=True)
class Capacity:
    """The device that a rank of a trial has.

    Attributes:
        bytes: Its memory; None when nobody here knows.
        host: It is the CPU, and the memory is the machine's.
        source: Where the figure comes from, for messages.
    """

    bytes: int | None
    host: bool
    source: str


def capacity(gpus: float, gpu_memory_gib: float | None) -> Capacity:
    """The memory of the device that one rank of a trial gets.

    Args:
        gpus: GPUs of one trial, as the space file asks for them; a fraction shares one.
        gpu_memory_gib: What a person says of the GPUs where trials run; None asks this machine's driver.
    """
    if gpus <= 0:
        return Capacity(bytes=total_memory(), host=True, source="memory of this machine")
    share = min(1.0, gpus)
    if gpu_memory_gib is not None:
        return Capacity(bytes=int(gpu_memory_gib * share * 2**30), host=False, source="AUTOTUNE_GPU_MEMORY_GIB")
    sizes = gpu_sizes()
    if not sizes:
        return Capacity(bytes=None, host=False, source="no GPU on this machine says how much it has")
    return Capacity(bytes=int(min(sizes) * share), host=False, source="smallest GPU of this machine")


@cache
def gpu_sizes() -> tuple[int, ...]:
    """Bytes of each GPU of this machine, as NVIDIA's management library says; empty without one."""
    if importlib.util.find_spec("pynvml") is None:
        return ()
    nvml = importlib.import_module("pynvml")
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return ()
    try:
        handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
        return tuple(int(nvml.nvmlDeviceGetMemoryInfo(handle).total) for handle in handles)
    finally:
        nvml.nvmlShutdown()
