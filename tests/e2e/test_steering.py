"""A person steers a search that runs in another terminal: pause, enqueue, edit, resume, stop."""

from __future__ import annotations

import json
import textwrap

import pytest

from tests.e2e.support import Home, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SPACE = textwrap.dedent("""
    name: steered
    description: A program that takes its time
    trainer:
      backend: command
      command:
        - python3
        - -c
        - |
          import json, sys, threading
          for step in range(1, 9):
              threading.Event().wait(0.25)
              print(json.dumps({"step": step, "loss": abs(float(sys.argv[1]) - 0.3) / step}), flush=True)
        - "{x}"
      parameters: {x: 0.9}
      metrics: {read: jsonl, names: [loss]}
      steps: 8
    resources: {cpus: 1, gpus: 0}
    search:
      x: {float: [0.0, 1.0]}
    objective: {metric: loss, direction: minimize}
    sampler: {name: random, seed: 0}
    budget: {trials: 30, parallel: 1}
    start_from: [default]
""")


def test_a_search_is_paused_changed_resumed_and_stopped_from_another_terminal(home: Home) -> None:
    home.path.mkdir(parents=True)
    space = home.path.parent / "space.yaml"
    space.write_text(SPACE)

    def counts() -> dict[str, int]:
        answer = home.run("show", "steered-1", "--json")
        return json.loads(answer.stdout)["job"]["trials"] if answer.returncode == 0 else {}

    with home.start("launch", str(space)) as launch:
        wait_until(lambda: counts().get("completed", 0) >= 1, 120, "a trial has completed")
        assert home.run("pause", "steered-1").stdout == "job steered-1 is paused\n"
        _, said = launch.communicate(timeout=90)
    assert launch.returncode == 0, said
    assert "Go on: autotune launch --resume steered-1" in said
    paused = counts()
    assert (paused["running"], paused["queued"], paused["pruned"]) == (0, 0, 0)
    assert 1 <= paused["completed"] < 30

    assert "x = 0.3" in home.run("enqueue", "steered-1", "x=0.3").stdout
    assert home.run("enqueue", "steered-1", "x=2").returncode == 3
    refused = home.run("edit", "steered-1", "--trials", "0")
    assert refused.returncode == 3, refused.stderr
    assert home.run("edit", "steered-1", "--trials", "12").returncode == 0

    with home.start("launch", "--resume", "steered-1") as launch:
        wait_until(lambda: counts().get("completed", 0) > paused["completed"], 120, "another trial has completed")
        assert home.run("stop", "steered-1").stdout == "job steered-1 is stopping\n"
        _, said = launch.communicate(timeout=90)
    assert launch.returncode == 0, said
    document = json.loads(home.run("show", "steered-1", "--json").stdout)
    assert document["job"]["state"] == "completed"
    assert document["job"]["budget_trials"] == 12
    assert {trial["state"] for trial in document["trials"]} == {"completed"}
    assert paused["completed"] < len(document["trials"]) < 12
    best = json.loads(home.run("best", "steered-1", "--json").stdout)
    assert best["trial"]["source"].startswith("enqueued:")
    assert best["trial"]["params"] == {"x": 0.3}
