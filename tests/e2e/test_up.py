from __future__ import annotations

import json
import os
import signal

import httpx2
import pytest

from tests.e2e.support import Home, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def start(home: Home):
    """``autotune up`` on free ports, and the addresses that it prints once everything answers."""
    process = home.start("up", "--port", "0", "--mlflow-port", "0", "--json")
    document = ""
    while not document.endswith("}\n"):
        line = process.stdout.readline()
        assert line, process.communicate()
        document += line
    return process, json.loads(document)


def test_one_command_shows_the_live_page_the_dashboard_and_mlflow_and_ends_them_all(home):
    process, found = start(home)
    assert "autotune" in httpx2.get(found["url"], timeout=60).text
    assert httpx2.get(found["dashboard"], follow_redirects=True, timeout=120).status_code == 200
    assert "MLflow" in httpx2.get(found["mlflow"], timeout=60).text
    experiments = httpx2.post(
        f"{found['mlflow']}/api/2.0/mlflow/experiments/search", json={"max_results": 5}, timeout=60
    )
    assert [one["name"] for one in experiments.json()["experiments"]] == ["Default"]
    assert len(home.processes()) > 2

    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=90)
    assert process.returncode == 130
    assert "Traceback" not in err
    wait_until(lambda: not home.processes(), 30, f"nothing is left: {home.processes()}")
    assert sorted(path.name for path in home.path.parent.iterdir()) == ["home"]


def test_mlflow_goes_when_the_command_is_killed(home):
    process, found = start(home)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    wait_until(lambda: not home.processes(), 60, f"nothing is left: {home.processes()}")
    with pytest.raises(httpx2.TransportError):
        httpx2.get(found["mlflow"], timeout=5)
