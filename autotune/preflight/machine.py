"""CPUs, memory, shared memory, disk and GPUs of this machine, as far as this process may use them."""

from __future__ import annotations

import importlib
import importlib.util
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from autotune.preflight.check import Check, Context, Status

GIB = 1024**3
_CGROUP = Path("/sys/fs/cgroup")
_SHM = Path("/dev/shm")
_MEMORY_WANTED = 4 * GIB
_DISK_WANTED, _DISK_NEEDED = 5 * GIB, GIB // 2
_SHM_WANTED = GIB // 2


def cpus(_: Context) -> Iterator[Check]:
    """CPUs that this process may use, control groups included."""
    found = usable_cpus()
    if found < 2:
        yield Check(
            name="cpus",
            status=Status.WARN,
            text=f"{found:g} usable; one trial at a time is all that makes sense",
            fix="Set budget.parallel: 1 in the space file.",
        )
    else:
        yield Check(name="cpus", status=Status.OK, text=f"{found:g} usable of {os.cpu_count()}")


def memory(_: Context) -> Iterator[Check]:
    """Memory that is free right now, control groups included; and the shared memory that Ray puts objects into."""
    free = usable_memory()
    if free is None:
        yield Check(name="memory", status=Status.OK, text="the system does not say how much is free")
    elif free < _MEMORY_WANTED:
        yield Check(
            name="memory",
            status=Status.WARN,
            text=f"{free / GIB:.1f} GiB free, wanted are {_MEMORY_WANTED // GIB} GiB for Ray and two small trials",
            fix="Close other programs, or set budget.parallel: 1 in the space file.",
        )
    else:
        yield Check(name="memory", status=Status.OK, text=f"{free / GIB:.1f} GiB free")
    if _SHM.is_dir() and shutil.disk_usage(_SHM).total < _SHM_WANTED:
        yield Check(
            name="shared memory",
            status=Status.WARN,
            text=f"/dev/shm holds {shutil.disk_usage(_SHM).total / GIB:.2f} GiB; Ray falls back to slow disk files",
            fix="In a container: docker run --shm-size=2g",
        )


def disk(context: Context) -> Iterator[Check]:
    """Free space where the home directory is or will be."""
    place = context.settings.root
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    text = f"{free / GIB:.1f} GiB free at {place}"
    fix = "Free some space, or point AUTOTUNE_HOME to a larger disk."
    if free < _DISK_NEEDED:
        yield Check(name="disk", status=Status.FAIL, text=text, fix=fix, exit_code=6)
    elif free < _DISK_WANTED:
        yield Check(name="disk", status=Status.WARN, text=f"{text}; checkpoints need more", fix=fix)
    else:
        yield Check(name="disk", status=Status.OK, text=text)


def gpus(_: Context) -> Iterator[Check]:
    """GPUs, asked through NVIDIA's management library when it is there."""
    if importlib.util.find_spec("pynvml") is None:
        found = sorted(Path("/proc/driver/nvidia/gpus").glob("*")) if Path("/proc/driver/nvidia/gpus").exists() else []
        if found:
            yield Check(
                name="gpus",
                status=Status.WARN,
                text=f"{len(found)} GPUs, but nothing to ask them with",
                fix="pip install nvidia-ml-py",
            )
        else:
            yield Check(name="gpus", status=Status.OK, text="none; trials run on the CPU")
        return
    nvml = importlib.import_module("pynvml")
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        yield Check(name="gpus", status=Status.OK, text="none; trials run on the CPU")
        return
    try:
        driver = nvml.nvmlSystemGetDriverVersion()
        text = f"NVIDIA {driver.decode() if isinstance(driver, bytes) else driver}"
        yield Check(name="driver", status=Status.OK, text=text)
        for index in range(nvml.nvmlDeviceGetCount()):
            yield _gpu(nvml, index)
    finally:
        nvml.nvmlShutdown()


def _gpu(nvml: object, index: int) -> Check:
    ask = vars(nvml)
    handle = ask["nvmlDeviceGetHandleByIndex"](index)
    name = ask["nvmlDeviceGetName"](handle)
    usage = ask["nvmlDeviceGetMemoryInfo"](handle)
    name = name.decode() if isinstance(name, bytes) else name
    text = f"{name}, {usage.free / GIB:.0f} of {usage.total / GIB:.0f} GiB free"
    if usage.used > usage.total / 10:
        return Check(
            name=f"gpu {index}",
            status=Status.WARN,
            text=f"{text}; somebody uses it",
            fix="See who with nvidia-smi; leave it out with CUDA_VISIBLE_DEVICES.",
        )
    return Check(name=f"gpu {index}", status=Status.OK, text=text)


def gpu_count() -> int:
    """GPUs that NVIDIA's management library sees; 0 without it."""
    if importlib.util.find_spec("pynvml") is None:
        return 0
    nvml = importlib.import_module("pynvml")
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return 0
    try:
        return int(nvml.nvmlDeviceGetCount())
    finally:
        nvml.nvmlShutdown()


def usable_cpus() -> float:
    """CPUs that this process may use: its affinity, and the quota of its control group."""
    count = float(len(os.sched_getaffinity(0))) if hasattr(os, "sched_getaffinity") else float(os.cpu_count() or 1)
    quota = _words(_CGROUP / "cpu.max")
    if len(quota) == 2 and quota[0] != "max":
        count = min(count, int(quota[0]) / int(quota[1]))
    return count


def usable_memory() -> int | None:
    """Bytes that are free: the machine's, and what the control group leaves; ``None`` when the system does not say."""
    free: int | None = None
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                free = int(line.split()[1]) * 1024
    except OSError:
        return None
    limit, used = _words(_CGROUP / "memory.max"), _words(_CGROUP / "memory.current")
    if free is not None and limit and used and limit[0] != "max":
        free = min(free, max(0, int(limit[0]) - int(used[0])))
    return free


def total_memory() -> int | None:
    """Bytes of the machine's memory, or the limit of the control group; ``None`` when the system does not say."""
    try:
        text = Path("/proc/meminfo").read_text()
    except OSError:
        return None
    total = next((int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("MemTotal:")), None)
    limit = _words(_CGROUP / "memory.max")
    if total is not None and limit and limit[0] != "max":
        total = min(total, int(limit[0]))
    return total


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []
