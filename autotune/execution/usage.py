"""What a trial's processes take of their machine, measured beside them: processors, memory, and its GPUs.

The names are those of MLflow's system metrics; a trial's own values, not its machine's, are under them. They come with
the trial's steps like any other metric, so a trial that does not report is not measured.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from autotune.execution.strays import processes_of

EVERY_S = 10.0
"""Seconds between two measurements, as in MLflow."""
SYSTEM_METRICS: Mapping[str, str] = MappingProxyType(
    {
        "system/cpu_utilization_percentage": "time on all processors of the machine since the last value (0 to 100)",
        "system/system_memory_usage_megabytes": "resident memory of the trial's processes (MB)",
        "system/system_memory_usage_percentage": "that memory, of the machine's (0 to 100)",
        "system/gpu_N_utilization_percentage": "mean time at work of the trial's GPU N since the last value (0 to 100)",
        "system/gpu_N_memory_usage_megabytes": "memory in use on that GPU (MB)",
        "system/gpu_N_memory_usage_percentage": "that memory, of the GPU's (0 to 100)",
        "system/gpu_N_power_usage_watts": "power that the GPU draws (W)",
    }
)
_MEGABYTE = 1e6
_USER_TIME, _RESIDENT = 11, 21
"""Places in ``/proc/PID/stat`` after the program's name: four times from the first on, and pages in memory."""


class Usage:
    """Measures one attempt's processes.

    Args:
        pgid: Their process group.
        mark: The mark of those that have left it (see ``strays``).
        gpus: The attempt's GPUs as in ``CUDA_VISIBLE_DEVICES``; GPUs that are not named are not looked at.
        now: Seconds from any origin on.
        every_s: Seconds between two measurements.
    """

    def __init__(
        self,
        pgid: int,
        mark: str,
        *,
        gpus: str = "",
        now: Callable[[], float] = time.monotonic,
        every_s: float = EVERY_S,
    ) -> None:
        self._pgid, self._mark = pgid, mark
        self._now, self._every_s = now, every_s
        self._taken_at, self._busy_s = now(), 0.0
        self._gpus = Gpus(gpus)

    def due(self) -> Mapping[str, float] | None:
        """What was measured, if the last time is long enough ago."""
        passed = self._now() - self._taken_at
        if passed < self._every_s:
            return None
        busy_s, resident = self._processes()
        self._taken_at += passed
        before, self._busy_s = self._busy_s, busy_s
        if not resident:  # no /proc, or nothing is left
            return None
        machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        return {
            "system/cpu_utilization_percentage": 100 * max(0.0, busy_s - before) / passed / (os.cpu_count() or 1),
            "system/system_memory_usage_megabytes": resident / _MEGABYTE,
            "system/system_memory_usage_percentage": 100 * resident / machine,
            **self._gpus.read(),
        }

    def look(self) -> None:
        """Takes a look at what only says how it is at the moment; call it every other second."""
        self._gpus.look()

    def _processes(self) -> tuple[float, int]:
        """Seconds on processors, those of ended children included, and bytes in memory."""
        ticks = pages = 0
        for pid in processes_of(self._pgid, self._mark):
            try:
                fields = (Path("/proc") / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
            except OSError:  # it has ended
                continue
            ticks += sum(map(int, fields[_USER_TIME : _USER_TIME + 4]))
            pages += int(fields[_RESIDENT])
        return ticks / os.sysconf("SC_CLK_TCK"), pages * os.sysconf("SC_PAGE_SIZE")


class Gpus:
    """NVIDIA's GPUs of an attempt, counted from 0 as the attempt counts them.

    Args:
        visible: Their numbers or ids, separated by commas.
        library: NVIDIA's management library; ``None`` = the installed one, if there is one.
    """

    def __init__(self, visible: str, library: object | None = None) -> None:
        names = [name.strip() for name in visible.split(",") if name.strip()]
        if names and library is None and importlib.util.find_spec("pynvml") is not None:
            library = importlib.import_module("pynvml")
        self._nvml = {} if library is None else vars(library)
        self._handles: list[object] = []
        if self._nvml and names:
            self._open(names)
        self._seen: list[list[float]] = [[] for _ in self._handles]

    def look(self) -> None:
        """Notes how busy each GPU has been just now."""
        for handle, seen in zip(self._handles, self._seen, strict=True):
            busy = self._ask("nvmlDeviceGetUtilizationRates", handle, "gpu")
            seen += [] if busy is None else [busy]

    def read(self) -> dict[str, float]:
        """The metrics; what a GPU does not tell, as a part of one may not, is left out."""
        found: dict[str, float] = {}
        for number, (handle, seen) in enumerate(zip(self._handles, self._seen, strict=True)):
            name = f"system/gpu_{number}"
            if seen:
                found[f"{name}_utilization_percentage"] = sum(seen) / len(seen)
            seen.clear()
            used = self._ask("nvmlDeviceGetMemoryInfo", handle, "used")
            total = self._ask("nvmlDeviceGetMemoryInfo", handle, "total")
            if used is not None and total:
                found[f"{name}_memory_usage_megabytes"] = used / _MEGABYTE
                found[f"{name}_memory_usage_percentage"] = 100 * used / total
            if (milliwatts := self._ask("nvmlDeviceGetPowerUsage", handle)) is not None:
                found[f"{name}_power_usage_watts"] = milliwatts / 1000
        return found

    def _open(self, names: Sequence[str]) -> None:
        by_number, by_id = self._nvml["nvmlDeviceGetHandleByIndex"], self._nvml["nvmlDeviceGetHandleByUUID"]
        try:
            self._nvml["nvmlInit"]()
            self._handles = [by_number(int(name)) if name.isdecimal() else by_id(name) for name in names]
        except self._nvml["NVMLError"]:
            self._handles = []  # no driver, or a number that it does not have

    def _ask(self, question: str, handle: object, part: str = "") -> float | None:
        try:
            answer = self._nvml[question](handle)
        except self._nvml["NVMLError"]:
            return None
        return float(getattr(answer, part) if part else answer)
