"""The load benchmark runs at its small size and says what it is asked for."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.api_load import targets_of

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "api_load.py"


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_quick_run_prints_one_document():
    command = [sys.executable, str(SCRIPT), "--quick", "--json", "--database", "sqlite"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=380)
    assert done.returncode == 0, done.stderr[-2000:]
    document = json.loads(done.stdout)
    found = document["results"]["sqlite"]
    assert found["stored"] == {**found["stored"], "jobs": 4, "trials": 200, "points": 10000}
    kinds = {"list jobs", "list trials", "show job", "show trial", "curves of one trial", "events"}
    assert set(found["one_client_ms"]) == kinds
    assert all(spread["p50"] <= spread["p99"] for spread in found["one_client_ms"].values())
    assert found["points_per_s_meanwhile"] > 0
    assert found["dashboard_study_s"] > 0
    assert len(document["targets"]) >= 3


def test_the_targets_are_those_that_were_promised():
    spread = {"p50": 1.0, "p99": 60.0, "requests": 9}
    kinds = ("list jobs", "list trials", "show job", "show trial", "curves of one trial", "events")
    found = {
        "20_clients_ms": dict.fromkeys(kinds, spread),
        "points_per_s_meanwhile": 1500.0,
        "dashboard_study_s": 1.0,
    }
    holds = {target.name: target.holds for target in targets_of("sqlite", found)}
    assert holds == {
        "sqlite: p99 of list jobs with 20 clients (ms)": True,
        "sqlite: p99 of list trials with 20 clients (ms)": True,
        "sqlite: p99 of show job with 20 clients (ms)": True,
        "sqlite: p99 of show trial with 20 clients (ms)": True,
        "sqlite: p99 of curves of one trial with 20 clients (ms)": False,
        "sqlite: points/s while 20 clients read": True,
        "sqlite: dashboard's study page (s)": True,
    }
