"""Try the data and the reward of a trial in a process of its own, once, before anything is spent on them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autotune.backends import NativeBackend
from autotune.errors import Problem
from autotune.preflight.trial.context import TrialContext
from autotune.preflight.trial.files import data_files

TIMEOUT_S = 600.0
"""Long, since a crowded machine may need minutes to import torch: `reward.timeout_s` limits the reward itself."""
_FILES = ("jsonl", "parquet")
_VERL = Path(__file__).with_name("verl_probe.py")


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
    if not trial.here:
        return ""
    if trial.backend == "verl":
        asked = _verl_request(trial)
        return json.dumps(asked, sort_keys=True) if asked["files"] else ""
    functions = [value for key, value in config.items() if key.startswith("reward.") and key.endswith("function")]
    if config.get("data.name") not in _FILES and not any(functions):
        return ""
    parts = {key: value for key, value in config.items() if key.startswith(("data.", "reward."))}
    return json.dumps(parts, sort_keys=True)


def probe(trial: TrialContext, timeout_s: float = TIMEOUT_S) -> Probed:
    """Reads the data's rows and calls the reward on the first, where a trial would.

    Args:
        trial: The trial.
        timeout_s: Longest wait (seconds).
    """
    if trial.backend == "verl":
        argv = [trial.python, str(_VERL)]
        return _tried(argv, trial.workdir or None, dict(os.environ), timeout_s, json.dumps(_verl_request(trial)))
    with tempfile.TemporaryDirectory(prefix="autotune-probe-") as directory:
        command = NativeBackend().prepare(trial.config, Path(directory))
        argv = [sys.executable, "-m", "trainer.probe"]
        return _tried(argv, directory, {**os.environ, **command.env}, timeout_s)


def _verl_request(trial: TrialContext) -> dict[str, Any]:
    """What verl's probe is asked: the files whose path means the same there, and the reward if there is one."""
    config = trial.config
    files = [path for path in data_files(trial) if Path(path).expanduser().is_absolute() and "://" not in path]
    reward = config.get("reward.custom_reward_function.path")
    known = isinstance(reward, str) and (Path(reward).expanduser().is_absolute() or bool(trial.workdir))
    kwargs = config.get("reward.custom_reward_function.reward_kwargs")
    prefix = "reward.custom_reward_function.reward_kwargs."
    return {
        "files": [path for path in files if Path(path).expanduser().is_file()],
        "prompt_key": config.get("data.prompt_key") or "prompt",
        "source_key": config.get("data.reward_fn_key") or "data_source",
        "reward_path": reward if known else "",
        "reward_name": config.get("reward.custom_reward_function.name") or "compute_score",
        "reward_kwargs": {
            **(kwargs if isinstance(kwargs, dict) else {}),
            **{key.removeprefix(prefix): value for key, value in config.items() if key.startswith(prefix)},
        },
    }


def _tried(
    argv: Sequence[str], directory: str | None, env: Mapping[str, str], timeout_s: float, asked: str = ""
) -> Probed:
    """Runs a probe and takes its findings."""
    try:
        done = subprocess.run(
            argv,
            cwd=directory,
            env=env,
            input=asked,
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
