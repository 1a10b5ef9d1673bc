"""Makes the bank's two tables out of what was recorded.

    python benchmarks/curve_bank/pack.py --raw /tmp/bank

`runs.parquet` has a row per run, `curves.parquet` one per run and step with every metric that the trainer reported, as
float32 (NaN = not finite, null = not reported) beside the processor seconds of the step.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import pyarrow
import pyarrow.parquet

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent.parent), str(HERE.parent)]

from curve_bank.bank import CURVES_FILE, DATA, RUNS_FILE  # noqa: E402
from curve_bank.design import SPACE, plan  # noqa: E402


def pack(raw: Path, out: Path) -> int:
    """Write the tables of all runs that have ended; returns how many."""
    runs: list[dict[str, object]] = []
    curves: list[dict[str, object]] = []
    for planned in plan():
        directory = raw / planned.name
        if not (directory / "result.json").is_file():
            continue
        result = json.loads((directory / "result.json").read_text())
        error = result["error"] or {"kind": "", "message": ""}
        runs.append(
            {
                "name": planned.name,
                "task": planned.task,
                "number": planned.number,
                "seed": planned.seed,
                **planned.params,
                "status": result["status"],
                "error_kind": error["kind"],
                "error_message": error["message"],
                "last_step": result["last_step"],
            }
        )
        spent = json.loads((directory / "cost.json").read_text())["step_cpu_s"]
        curves += [{"run": planned.name, **row} for row in _points(directory / "metrics.jsonl", spent)]
    metrics = sorted({name for row in curves for name in row} - {"run", "step", "cpu_s"})
    fields = [("run", pyarrow.dictionary(pyarrow.int16(), pyarrow.string())), ("step", pyarrow.int16())]
    fields += [(name, pyarrow.float32()) for name in ("cpu_s", *metrics)]
    out.mkdir(parents=True, exist_ok=True)
    options = {"compression": "zstd", "compression_level": 19}
    pyarrow.parquet.write_table(_table(curves, pyarrow.schema(fields)), out / CURVES_FILE, **options)
    pyarrow.parquet.write_table(_table(runs, _run_schema()), out / RUNS_FILE, **options)
    return len(runs)


def _points(path: Path, spent: list[float]) -> list[dict[str, object]]:
    """The steps of `metrics.jsonl`; a value that was not finite is NaN."""
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []
    found: list[dict[str, object]] = []
    for line in lines:
        if "metrics" in line:
            step = line["step"]
            metrics = {name: float("nan") if value is None else value for name, value in line["metrics"].items()}
            # Nobody looks at the clock after the last step: the one before it stands for it.
            seconds = spent[min(step, len(spent)) - 1] if step and spent else 0.0
            found.append({"step": step, "cpu_s": seconds, **metrics})
    return found


def _run_schema() -> pyarrow.Schema:
    fields = [("name", pyarrow.string()), ("task", pyarrow.string())]
    fields += [("number", pyarrow.int16()), ("seed", pyarrow.int16())]
    for path, axis in SPACE.items():
        whole = axis.whole or any(isinstance(value, int) for value in axis.choices)
        words = any(isinstance(value, str) for value in axis.choices)
        fields.append((path, pyarrow.string() if words else pyarrow.int32() if whole else pyarrow.float64()))
    fields += [(name, pyarrow.string()) for name in ("status", "error_kind", "error_message")]
    return pyarrow.schema([*fields, ("last_step", pyarrow.int16())])


def _table(rows: list[dict[str, object]], schema: pyarrow.Schema) -> pyarrow.Table:
    columns = {name: [row.get(name) for row in rows] for name in schema.names}
    # Without `from_pandas`, NaN stays NaN and None becomes null.
    arrays = [pyarrow.array(columns[name], schema.field(name).type, from_pandas=False) for name in schema.names]
    return pyarrow.Table.from_arrays(arrays, schema=schema)


def main() -> None:
    """Pack what is there."""
    parser = argparse.ArgumentParser(description="Pack recorded runs into the bank's tables.")
    parser.add_argument("--raw", type=Path, required=True, help="where record.py put its runs")
    parser.add_argument("--out", type=Path, default=DATA, help="where the tables go")
    chosen = parser.parse_args()
    print(f"{pack(chosen.raw, chosen.out)} runs in {chosen.out}", file=sys.stderr)


if __name__ == "__main__":
    main()
