"""Try the data and the reward of a trial in a process of its own, once, before anything is spent on them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from autotune.backends import NativeBackend
from autotune.errors import Problem
from autotune.preflight.trial.context import TrialContext

TIMEOUT_S = 600.0
"""Long, since a crowded machine may need minutes to import torch: `reward.timeout_s` limits the reward itself."""
_FILES = ("jsonl", "parquet")


@dataclass(frozen=True, kw_only=True, slots=True)
class Probed:
    """What came of it.

    Attributes:
        problems: What keeps a trial from working.
        facts: What was found to work, one sentence each.
    """

    problems: tuple[Problem, ...] = ()
    facts: tuple[str, ...] = ()


def probe_key(trial: TrialContext) -> str:
    """What the outcome depends on: trials with the same key need one probe; empty when there is nothing to try."""
    config = trial.config
    if trial.backend != "native" or not trial.here:
        return ""
    functions = [value for key, value in config.items() if key.startswith("reward.") and key.endswith("function")]
    if config.get("data.name") not in _FILES and not any(functions):
        return ""
    parts = {key: value for key, value in config.items() if key.startswith(("data.", "reward."))}
    return json.dumps(parts, sort_keys=True)


def probe(trial: TrialContext, timeout_s: float = TIMEOUT_S) -> Probed:
    """Reads the data's rows and calls the reward on the first, where a trial would.

    Args:
        trial: A trial of the native trainer.
        timeout_s: Longest wait (seconds).
    """
    with tempfile.TemporaryDirectory(prefix="autotune-probe-") as directory:
        command = NativeBackend().prepare(trial.config, Path(directory))
        argv = [sys.executable, "-m", "trainer.probe"]
        try:
            done = subprocess.run(
                argv,
                cwd=directory,
                env={**os.environ, **command.env},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            message = f"reading a row and calling the reward on it took longer than {timeout_s:g} s."
            hint = "Look for a wait or a download in the reward's module, or for a very large file."
            return Probed(problems=(Problem(message=message, hint=hint, path="reward.function"),))
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it printed nothing"])[-1]
        message = f"the process that tried the data and the reward ended with {done.returncode}: {last}"
        hint = "Import the reward's module by hand, in the interpreter that trains."
        return Probed(problems=(Problem(message=message, hint=hint, path="reward.function"),))
    # A person's function may print too: the findings are the last line.
    findings = json.loads(done.stdout.strip().splitlines()[-1])["findings"]
    return Probed(
        problems=tuple(
            Problem(message=f"{item['wrong']}.", hint=f"{item['fix']}." if item["fix"] else "", path=item["path"])
            for item in findings
            if "wrong" in item
        ),
        facts=tuple(item["text"] for item in findings if "text" in item),
    )
