"""A job of real trainings follows its own advice: what drifts away is tried again with smaller steps."""

from __future__ import annotations

import json
import textwrap

import pytest

from tests.e2e.support import Home

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SPACE = textwrap.dedent("""
    name: advised
    trainer: {overrides: {data: digits, model: tiny, trainer.save_freq: 0, algorithm.kl_ctrl.kl_coef: 0.001}}
    search:
      lr: {float: [3e-5, 1e-2], log: true}
    objective: {metric: eval/reward, smooth: 2}
    budget: {trials: 2, parallel: 1, steps: 14}
    start_from: [{lr: 1e-3}]
    advisor: {enqueue: {share: 0.5}}
""")


def test_a_training_that_drifts_is_tried_again_as_the_advice_has_it(home: Home) -> None:
    home.path.mkdir(parents=True)
    space = home.path.parent / "space.yaml"
    space.write_text(SPACE)
    launched = home.run("launch", str(space))
    assert launched.returncode == 0, launched.stderr

    shown = json.loads(home.run("show", "advised-1", "--json").stdout)
    drifted, advised = shown["trials"]
    assert drifted["metrics"]["kl/actor_ref"] > 0.15
    assert advised["source"] == "advice:kl_too_high:0"
    assert advised["params"]["trainer.optim.lr"] == pytest.approx(0.00033)
    assert advised["metrics"]["kl/actor_ref"] < drifted["metrics"]["kl/actor_ref"]
    better = advised["value"] > drifted["value"]
    assert shown["job"]["advised"] == [{"rule": "kl_too_high", "trials": [1], "better": int(better), "open": 0}]
    assert "from advice did better than the trial before" in home.run("show", "advised-1").stdout

    with (home.path / "jobs" / "advised-1" / "report.html").open() as report:
        assert "What came of advice that was followed" in report.read()
