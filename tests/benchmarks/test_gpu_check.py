"""The check for machines with a GPU takes its whole way on the CPU, with torch and transformers alone."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCKED = ("hydra", "omegaconf", "pydantic_settings", "sqlalchemy", "alembic", "plotly", "pynvml")
WITHOUT = f"""
import runpy, sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {BLOCKED!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
sys.argv = ["gpu_check.py", *sys.argv[1:]]
runpy.run_path("benchmarks/gpu_check.py", run_name="__main__")
"""


def run(*arguments, code=None):
    program = ["-c", WITHOUT] if code is None else code
    return subprocess.run(
        [sys.executable, *program, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
        check=False,
    )


@pytest.mark.slow
def test_the_whole_way_runs_on_the_cpu_without_what_a_gpu_machine_lacks(tmp_path):
    done = run("--device", "cpu", "--quick", "--check", "--json", "--out", str(tmp_path / "figures.json"))
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert all(target["holds"] for target in document["targets"])
    results = json.loads((tmp_path / "figures.json").read_text())["results"]
    assert results == document["results"]
    assert results["ran"] is True
    assert results["steps"] == 4
    assert results["tokens_per_s"] > 0
    assert 0 < results["mfu"] < 1
    assert 0.3 < results["estimate_gib"] / results["peak_memory_gib"] < 3
    # On one device every algorithm agrees with itself to the last bit.
    assert set(results["largest_relative_difference"].values()) == {0.0}


def test_without_a_gpu_it_says_so_and_keeps_an_earlier_record(tmp_path):
    script = [str(ROOT / "benchmarks" / "gpu_check.py")]
    out = tmp_path / "figures.json"
    done = run("--out", str(out), code=script)
    assert done.returncode == 0
    assert "finds no NVIDIA GPU" in done.stderr
    assert json.loads(out.read_text())["results"]["ran"] is False
    out.write_text(json.dumps({"results": {"ran": True, "mfu": 0.4}}))
    run("--out", str(out), code=script)
    assert json.loads(out.read_text())["results"]["mfu"] == 0.4
