"""The path of somebody who has just installed it: every command that is printed as the next one works."""

import re
import shlex
from pathlib import Path

import pytest
import yaml

pytestmark = pytest.mark.slow


def next_commands(text):
    """What a command names as the next one."""
    return [shlex.split(found)[1:] for found in re.findall(r"^(?:next: |Next:)? *(autotune .+)$", text, re.MULTILINE)]


def test_from_nothing_to_a_command_that_trains_the_winner(home):
    made = home.run("init", "--yes", "--gpus", "0", "--trials", "2", "--steps", "3")
    assert made.returncode == 0, made.stderr
    plan, launch = next_commands(made.stderr)
    assert (plan[0], launch[0]) == ("plan", "launch")

    planned = home.run(*plan)
    assert planned.returncode == 0, planned.stderr
    assert "2 trials of 3 steps" in planned.stdout

    launched = home.run(*launch)
    assert launched.returncode == 0, launched.stderr
    following = next_commands(launched.stdout)
    assert following
    for command in following:
        done = home.run(*command)
        assert done.returncode == 0, (command, done.stderr)

    report = home.run("report", "my-search-1")
    assert "my-search-1" in Path(report.stdout.strip()).read_text()

    exported = home.run("export", "my-search-1")
    assert exported.returncode == 0, exported.stderr
    best = home.run("best", "my-search-1", "--overrides").stdout.split()
    words = shlex.split(exported.stdout.replace("\\\n", " "), comments=True)
    assert words[:3] == ["python", "-m", "trainer"]
    searched = [one for one in best if one.startswith("trainer.optim.lr=")]
    assert searched
    assert searched[0] in words
    tree = yaml.safe_load(home.run("export", "my-search-1", "--to", "yaml").stdout)
    assert tree["trainer"]["optim"]["lr"] == float(searched[0].partition("=")[2])
