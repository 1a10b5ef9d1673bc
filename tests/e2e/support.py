"""The real commands as a person would run them: own home directory, own processes, real Ray and real training."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

SPACE = textwrap.dedent("""
    name: tiny-search
    description: Four short trainings of a tiny model
    trainer: {overrides: {data: digits, model: tiny, trainer.save_freq: 2}}
    search:
      lr: {float: [3e-5, 1e-3], log: true}
      kl_coef: {float: [1e-3, 1e-1], log: true}
      ppo_epochs: {choice: [1, 2]}
    objective: {metric: eval/reward, smooth: 2}
    constraints: ["kl/actor_ref <= 5"]
    prune:
      - kl_ceiling: {above: 20, patience: 2}
      - not_finite
    budget: {trials: 4, parallel: 2, steps: 6}
    start_from: [default]
""")


def wait_until(condition: Callable[[], bool], timeout_s: float, what: str) -> None:
    """Looks again and again, five times a second, until the condition holds."""
    pause = threading.Event()
    for _ in range(int(timeout_s * 5)):
        if condition():
            return
        pause.wait(0.2)
    raise AssertionError(f"not within {timeout_s:.0f} s: {what}")


@dataclass(frozen=True, kw_only=True)
class Home:
    """An AUTOTUNE_HOME of its own, and the commands run in it."""

    path: Path

    @property
    def env(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("AUTOTUNE_")}
        return {**kept, "AUTOTUNE_HOME": str(self.path), "NO_COLOR": "1", "COLUMNS": "120"}

    def start(self, *arguments: str, url: str = "", **options: object) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "autotune.cli.main", *arguments]
        env = {**self.env, "AUTOTUNE_URL": url} if url else self.env
        return subprocess.Popen(
            command,
            env=env,
            cwd=self.path.parent,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            **options,
        )

    def run(self, *arguments: str, url: str = "", timeout: float = 240.0) -> subprocess.CompletedProcess[str]:
        with self.start(*arguments, url=url) as process:
            out, err = process.communicate(timeout=timeout)
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)

    def processes(self) -> list[str]:
        """Command lines of the living processes that were started for this home."""
        found = []
        marker = f"AUTOTUNE_HOME={self.path}".encode()
        for directory in Path("/proc").glob("[0-9]*"):
            try:
                if marker in (directory / "environ").read_bytes().split(b"\0"):
                    found.append((directory / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip())
            except OSError:
                continue
        return [line for line in found if line]
