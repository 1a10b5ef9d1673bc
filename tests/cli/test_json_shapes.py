"""The shapes of ``--json`` are a promise: what is written in json_shapes.json changes only with the changelog."""

import json
from pathlib import Path

import pytest

from tests.fakes import finished_job, finished_trials, make_job

SNAPSHOT = Path(__file__).with_name("json_shapes.json")
COMMANDS = {
    "jobs": ["jobs"],
    "show": ["show", "demo-1"],
    "best": ["best", "demo-1"],
    "best --overrides": ["best", "demo-1", "--overrides"],
    "export": ["export", "demo-1"],
    "register": ["register", "demo-1"],
    "logs": ["logs", "demo-1"],
    "report": ["report", "demo-1"],
    "plan": ["plan", "space.yaml"],
    "spaces": ["spaces"],
    "cancel": ["cancel", "demo-2"],
    "pause": ["pause", "demo-2"],
    "resume": ["resume", "demo-2"],
    "stop": ["stop", "demo-2"],
    "edit": ["edit", "demo-2", "--trials", "9"],
    "enqueue": ["enqueue", "demo-2", "lr=1e-4"],
    "watch": ["watch", "demo-1"],
    "launch": ["launch", "space.yaml"],
    "doctor": ["doctor"],
    "diagnose": ["diagnose", "demo-1", "0"],
}
FREE = {"params", "metrics", "violations", "numbers", "trials", "pruned", "proposals", "values", "means"}


def shape(value, key=""):
    """Keys and kinds; the keys of tables that a person's own names fill are left out."""
    if isinstance(value, dict):
        if key in FREE:
            return "table"
        return {name: shape(item, name) for name, item in sorted(value.items())}
    if isinstance(value, list):
        return [shape(value[0], key if key == "proposals" else "")] if value else []
    if value is None:
        return "null"
    return {bool: "boolean", int: "number", float: "number", str: "string"}[type(value)]


@pytest.mark.parametrize("name", COMMANDS)
def test_the_json_of_every_command_keeps_its_shape(cli, space, name):
    cli.service.add(finished_job(), finished_trials())
    cli.service.add(make_job("demo-2", state="running"))
    cli.script = lambda service, job, on_tick: service.add(finished_job(job_id=job), finished_trials())
    done = cli(*COMMANDS[name], "--json")
    assert done.exit_code == 0, done.stderr
    found = shape(json.loads(done.stdout))
    known = json.loads(SNAPSHOT.read_text())
    assert found == known[name]


def test_the_snapshot_knows_no_command_that_is_gone():
    assert set(json.loads(SNAPSHOT.read_text())) == set(COMMANDS)
