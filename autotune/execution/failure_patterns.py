"""What the end of a log says about a process that died without a result: one table, first match wins."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from autotune.search.types import EndKind


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """What a pattern recognised.

    Attributes:
        line: The log's own line, without surrounding space.
        hint: What to do, where the pattern knows better than the kind.
    """

    kind: EndKind
    line: str
    hint: str = ""


_HOST_MEMORY = "Give the trial more host memory, or run fewer trials at a time."
_SHARED_MEMORY = "Make /dev/shm larger (docker: --shm-size), or use fewer data-loader workers."
_INSTALL = "Install what is missing into the environment that runs the trials."

_GPU_OOM = r"CUDA out of memory|OutOfMemoryError|CUDA error: out of memory|CUBLAS_STATUS_ALLOC_FAILED"
_KV_OOM = r"No available memory for the cache blocks|larger than the available KV cache memory"
_HOST_OOM = r"can't allocate memory|\bMemoryError\b|[Cc]annot allocate memory|^.*\bKilled\s*$|exitcode\s*:\s*-9\b"
_DISK = r"No space left on device|Disk quota exceeded"
_FILES = r"Input/output error|Stale file handle|Read-only file system|Transport endpoint is not connected"
_NCCL = r"NCCL error|NCCLError|ncclSystemError|ncclRemoteError|Watchdog caught collective operation timeout"
_GPU_LOST = r"uncorrectable ECC|NVRM: Xid|GPU is lost|CUDA error: (?:no CUDA-capable|all CUDA-capable|unknown error)"
_NETWORK = r"Connection reset by peer|No route to host|Connection timed out"
_KERNEL = r"CUDA error: (?:an illegal|device-side assert|unspecified launch)"
_MISSING = r"ModuleNotFoundError|^ImportError|No module named|^cannot start '"
_CONFIG = r"ConfigAttributeError|ConfigKeyError|MissingMandatoryValue|ConfigCompositionException|InvalidConfigError"
_NON_FINITE = (
    r"(?i:\b(?:loss|gradients?|grad_norm|logits)\b.{0,20}\b(?:is|are|became|contains?)"
    r"\s+(?:nan|inf|not finite|non-finite))"
    r"|probability tensor contains either"
)

PATTERNS: Sequence[tuple[str, EndKind, str]] = (
    (_GPU_OOM, EndKind.OUT_OF_MEMORY, ""),
    (_KV_OOM, EndKind.OUT_OF_MEMORY, "Raise rollout.gpu_memory_utilization, or lower the rollout's context length."),
    (r"insufficient shared memory|Bus error", EndKind.OUT_OF_MEMORY, _SHARED_MEMORY),
    (_HOST_OOM, EndKind.OUT_OF_MEMORY, _HOST_MEMORY),
    (r"[Aa]ddress already in use|EADDRINUSE", EndKind.PORT_IN_USE, ""),
    (_DISK, EndKind.NODE, "Free disk space where the trials are written."),
    (_FILES, EndKind.NODE, ""),
    (_NCCL, EndKind.NODE, ""),
    (_GPU_LOST, EndKind.NODE, ""),
    (_NETWORK, EndKind.NODE, ""),
    (_KERNEL, EndKind.CRASH, "Run the attempt alone with CUDA_LAUNCH_BLOCKING=1."),
    (_MISSING, EndKind.UNKNOWN, _INSTALL),
    (_CONFIG, EndKind.CONFIG, ""),
    (_NON_FINITE, EndKind.NON_FINITE, ""),
)
"""(pattern, kind, hint): kinds of failure whose cause stands in the log."""

_COMPILED = tuple((re.compile(pattern, re.MULTILINE), kind, hint) for pattern, kind, hint in PATTERNS)
_ERROR_LINE = re.compile(r"^(?:\w+\.)*\w*(?:Error|Exception|Interrupt|Exit|Warning|Timeout)\b.*")


def recognise(log_tail: str) -> Found | None:
    """The first pattern of the table that occurs in a log; ``None`` if none does."""
    for pattern, kind, hint in _COMPILED:
        match = pattern.search(log_tail)
        if match is not None:
            start = log_tail.rfind("\n", 0, match.start()) + 1
            end = log_tail.find("\n", match.end())
            line = log_tail[start : end if end >= 0 else len(log_tail)].strip()
            return Found(kind=kind, line=line[:500], hint=hint)
    return None


def last_error(log_tail: str) -> str:
    """The line of the last traceback that names the exception; empty without one."""
    error, inside = "", False
    for line in log_tail.splitlines():
        if line.startswith("Traceback (most recent call last)"):
            inside = True
        elif inside and line and not line[0].isspace() and _looks_like_error(line):
            error, inside = line.strip()[:500], False
    return error


def _looks_like_error(line: str) -> bool:
    return _ERROR_LINE.match(line) is not None or re.match(r"^[\w.]+: ", line) is not None
