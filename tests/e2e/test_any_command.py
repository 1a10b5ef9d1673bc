"""The example of the how-to page, as a person would copy it: two files and one command."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest

from tests.e2e.support import Home

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "any-command.md"


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    return found[1]


@pytest.fixture(scope="module")
def launched(home: Home) -> dict:
    here = home.path.parent
    home.path.mkdir(parents=True)
    (here / "train.py").write_text(block("python"))
    (here / "space.yaml").write_text(block("yaml"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
        plan = home.run("plan", "space.yaml")
        assert plan.returncode == 0, plan.stderr
        answer = home.run("launch", "space.yaml", "--json")
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


def test_the_example_is_as_short_as_it_is_plain():
    code = [line for line in block("python").splitlines() if line]
    assert len(code) <= 20
    assert "autotune" not in block("python")


def test_every_trial_of_the_example_completes_with_its_curve(home: Home, launched: dict):
    assert launched["job"]["trials"]["completed"] == 6
    lines = (home.path / "jobs" / "sine-1" / "trials" / "0000" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == list(range(1, 21))


def test_the_search_finds_a_better_learning_rate_than_the_default(home: Home, launched: dict):
    best = json.loads(home.run("best", "sine-1", "--json").stdout)
    assert best["default"]["params"]["lr"] == 0.0001
    assert best["trial"]["params"]["lr"] > 0.001
    assert best["trial"]["value"] < 0.5 * best["default"]["value"]
