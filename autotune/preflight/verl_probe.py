"""Reads the first row of verl's data and calls a person's reward on it; run by verl's interpreter as a file.

Takes one JSON object on stdin (``files``, ``prompt_key``, ``source_key``, ``reward_path``, ``reward_name``,
``reward_kwargs``) and prints one, ``{"findings": [...]}``, as the last line. Of other packages it uses pyarrow alone,
which verl has; it imports nothing of this project, and not verl, which takes long.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import inspect
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Finding = dict[str, str]
FILES = "data.train_files"
REWARD = "reward.custom_reward_function.path"


def first_row(path: Path) -> Mapping[str, Any]:
    """The first row of a parquet file, or of JSON lines.

    Raises:
        ValueError: If there is none.
        OSError: If the file cannot be read.
        ImportError: If pyarrow is needed and not there.
    """
    if path.suffix in (".json", ".jsonl"):
        with path.open(encoding="utf-8") as file:
            row = json.loads(file.readline() or "null")
    else:
        parquet = importlib.import_module("pyarrow.parquet")
        batches = parquet.ParquetFile(path).iter_batches(batch_size=1)
        row = next((rows[0] for rows in (batch.to_pylist() for batch in batches) if rows), None)
    if not isinstance(row, dict):
        raise ValueError("it holds no row")
    return row


def look_at_row(request: Mapping[str, Any], file: str) -> tuple[Mapping[str, Any], Finding]:
    """A file's first row, and what is to be said of it."""
    try:
        row = first_row(Path(file).expanduser())
    except ImportError:
        return {}, {"path": FILES, "text": f"{file} was not read: verl's interpreter has no pyarrow"}
    except Exception as error:  # noqa: BLE001 - pyarrow has its own ways to say that a file is none
        wrong = f"'{file}' cannot be read: {error}"
        return {}, {"path": FILES, "wrong": wrong, "fix": "Give a parquet file with verl's columns"}
    lacks = [key for key in (request["prompt_key"], request["source_key"]) if key not in row]
    if lacks:
        wrong = f"'{file}' has no column {lacks[0]!r}; it has {', '.join(row)}"
        return {}, {
            "path": FILES,
            "wrong": wrong,
            "fix": "Set data.prompt_key or data.reward_fn_key, or add the column",
        }
    prompt = row[request["prompt_key"]]
    asked = prompt[-1].get("content", "") if isinstance(prompt, list) and prompt else prompt
    return row, {"path": FILES, "text": f"the first row of {file} asks {str(asked)[:60]!r}"}


def call_reward(request: Mapping[str, Any], row: Mapping[str, Any]) -> Finding:
    """What a person's reward gives for the row's own answer."""
    path, name = Path(request["reward_path"]).expanduser(), request["reward_name"]
    try:
        spec = importlib.util.spec_from_file_location("reward_of_mine", path)
        if spec is None or spec.loader is None:
            raise ImportError("it is no Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        function = getattr(module, name)
        truth = (row.get("reward_model") or {}).get("ground_truth", "")
        sample = {"solution_str": str(truth), "ground_truth": truth, "extra_info": row.get("extra_info") or {}}
        score = function(data_source=row.get(request["source_key"]), **sample, **request["reward_kwargs"])
        if inspect.isawaitable(score):
            score = asyncio.run(_awaited(score))
        number = score["score"] if isinstance(score, dict) else score
        return {"path": REWARD, "text": f"{name} gives {float(number):g} for the first row's own answer"}
    except Exception as error:  # noqa: BLE001 - whatever a person's code does is the finding
        fix = "Call it by hand as compute_score(data_source, solution_str, ground_truth, extra_info)"
        return {"path": REWARD, "wrong": f"{name} of '{path}' fails: {type(error).__name__}: {error}", "fix": fix}


async def _awaited(score: Any) -> Any:  # noqa: ANN401 - a person's own
    return await score


def main() -> None:
    """Prints the findings."""
    sys.path[0] = str(Path.cwd())  # a person's module must not find the ones beside this file
    request = json.load(sys.stdin)
    row: Mapping[str, Any] = {}
    findings: list[Finding] = []
    for place, file in enumerate(request["files"]):
        found, finding = look_at_row(request, file)
        findings.append(finding)
        row = row if place else found
    if request["reward_path"] and row:
        findings.append(call_reward(request, row))
    print(json.dumps({"findings": findings}))  # noqa: T201 - this is what it is for


if __name__ == "__main__":
    main()
