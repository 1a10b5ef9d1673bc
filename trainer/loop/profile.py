"""Record chosen steps with torch.profiler: a trace for a browser, and a short table for people."""

from __future__ import annotations

from pathlib import Path

import torch
from torch.profiler import ProfilerActivity

from trainer.console import say
from trainer.loop.run import Run

PROFILES = "profile"


class StepProfiler:
    """Records the steps that `system.profile` chooses; does nothing when it chooses none.

    Args:
        run: The run.
        directory: Its directory; traces go to `profile/`.
    """

    def __init__(self, run: Run, directory: Path) -> None:
        self._settings = run.config.system.profile
        self._world = run.world
        self._directory = directory / PROFILES
        self._profile: torch.profiler.profile | None = None
        self._steps: list[int] = []

    def before(self, step: int) -> None:
        """Begin to record when this step is the first chosen one."""
        first, count = self._settings.first_step, self._settings.steps
        if self._profile is None and first <= step < first + count:
            activities = [ProfilerActivity.CPU]
            if self._world.device.type == "cuda":
                activities.append(ProfilerActivity.CUDA)
            self._profile = torch.profiler.profile(activities=activities)
            self._profile.start()
            self._steps = []

    def after(self, step: int) -> None:
        """Write what was recorded when this step is the last chosen one."""
        if self._profile is not None:
            self._steps.append(step)
            if step + 1 >= self._settings.first_step + self._settings.steps:
                self.close()

    def close(self) -> None:
        """Write what was recorded so far, if something was."""
        if self._profile is None:
            return
        self._profile.stop()
        profile, self._profile = self._profile, None
        if not self._steps:
            return  # the step was abandoned
        self._directory.mkdir(exist_ok=True)
        name = f"steps_{self._steps[0]}_to_{self._steps[-1]}_rank_{self._world.rank}.json"
        profile.export_chrome_trace(str(self._directory / name))
        if not self._world.is_main:
            return
        on_gpu = self._world.device.type == "cuda"
        order = "self_device_time_total" if on_gpu else "self_cpu_time_total"
        table = profile.key_averages().table(sort_by=order, row_limit=self._settings.rows, max_name_column_width=40)
        steps = f"steps {self._steps[0]} to {self._steps[-1]}"
        say(f"profile of {steps}: {self._directory / name} (open in ui.perfetto.dev)")
        say(table.rstrip())
