"""Try the first row and the reward of a configuration, and say what came of it: `python -m trainer.probe`.

Reads `config.yaml` in the working directory, where a trial would start. Loads no network and no tokenizer, so it takes
seconds; prints one JSON object on stdout.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import cast

from trainer.config import Config, ConfigError, build
from trainer.config.rules import FILE_FORMATS
from trainer.configfile import read_config
from trainer.failures import TrainerError

Finding = dict[str, str]


def main() -> int:
    """Prints the findings; returns 0, also when something is wrong with what was tried."""
    config = build(read_config(Path("config.yaml")))
    findings: list[Finding] = []
    row = _tried(findings, "data", "data.train_file", lambda: _first_row(config))
    if config.data.eval_file is not None:
        _tried(findings, "data", "data.eval_file", lambda: _rows(config, "data.eval_file", config.data.eval_file))
    _tried(findings, "reward", "reward.function", lambda: _reward(config, row))
    print(json.dumps({"findings": findings}))  # noqa: T201 - this is what it is for
    return 0


def _tried(findings: list[Finding], what: str, path: str, attempt: Callable[[], tuple[str, object]]) -> object:
    try:
        text, value = attempt()
    except ConfigError as error:
        problem = error.problems[0]
        findings.append(_finding(what, problem.path or path, problem.message, problem.hint))
        return None
    except TrainerError as error:
        findings.append(_finding(what, path, str(error), error.hint))
        return None
    if text:
        findings.append({"what": what, "path": path, "text": text})
    return value


def _finding(what: str, path: str, wrong: str, fix: str) -> Finding:
    return {"what": what, "path": path, "wrong": wrong, "fix": fix}


def _first_row(config: Config) -> tuple[str, object]:
    if config.data.name not in FILE_FORMATS:
        return "", None
    return _rows(config, "data.train_file", config.data.train_file)


def _rows(config: Config, key: str, file: str | None) -> tuple[str, object]:
    from trainer.data.preference_rows import read_labels, read_pairs
    from trainer.data.rows import read_rows

    path = Path(cast(str, file))
    if config.data.kind == "prompts":
        rows = read_rows(path, config.data.name, key)
        return f"{len(rows)} rows in {path}; the first asks {str(rows[0].prompt)[:60]!r}", rows[0]
    others = (read_pairs if config.data.kind == "pairs" else read_labels)(path, config.data.name, key)
    return f"{len(others)} rows in {path}", others[0].row


def _reward(config: Config, row: object) -> tuple[str, object]:
    """Calls a person's own functions on the first row, its answer as the response."""
    from trainer.data.task import Example
    from trainer.rewards import REWARDS, Reward, load_reward

    names = [config.reward.function, *(part.function for part in config.reward.components.values())]
    if not any(names) or config.reward.model.path or any(part.model for part in config.reward.components.values()):
        return "", None
    reward = load_reward(config.reward, REWARDS)
    example = Example(
        index=0,
        prompt=str(getattr(row, "prompt", "1234:")),
        ground_truth=getattr(row, "ground_truth", None) or "",
        data_source=getattr(row, "data_source", ""),
        extra_info=getattr(row, "extra_info", {}),
    )
    if isinstance(reward, Reward):
        worth = [reward.of(example, response) for response in (example.ground_truth, "")]
    else:
        worth = reward.all([example, example], [example.ground_truth, ""])
    return f"{', '.join(filter(None, names))} gives {worth[0]:g} for the answer and {worth[1]:g} for nothing", None


if __name__ == "__main__":
    sys.exit(main())
