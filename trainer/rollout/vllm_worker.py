"""vLLM's worker for a CPU, when several of them hold one engine together."""

from __future__ import annotations

import os

from vllm.v1.worker.cpu_worker import CPUWorker

NAME_VARIABLE = "VLLM_DIST_IDENT"


class NamedCPUWorker(CPUWorker):
    """Keeps the name that its team agreed on.

    The ranks meet in shared memory under a name that vLLM takes from how they were launched: for all trials of a
    machine that are launched like ours it would be the same, and two that start together would meet each other.
    """

    def init_device(self) -> None:
        """Join the other ranks under the name in the environment."""
        # No file is made: the process group is there already, and vLLM reads the name alone.
        self.distributed_init_method = f"file:///{os.environ[NAME_VARIABLE]}"
        super().init_device()
