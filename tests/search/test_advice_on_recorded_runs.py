"""Each rule on two runs that really happened: one in which it finds what it is for, and one close to it but sound."""

import json
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
if str(BENCHMARKS) not in sys.path:
    sys.path.append(str(BENCHMARKS))

from advising.cases import case_of  # noqa: E402
from advising.record_rules import FILE, RUNS  # noqa: E402
from curve_bank.bank import load  # noqa: E402

from autotune.search.advice import RULES, Case  # noqa: E402
from autotune.search.types import Point  # noqa: E402
from autotune.spec.types import Direction  # noqa: E402
from trainer.config import compose, flatten  # noqa: E402

PAIRS = {
    "peak_then_fall": ("digits-021-0", "digits-005-0"),
    "kl_too_high": ("digits-001-0", "digits-028-0"),
    "entropy_collapse": ("digits-006-0", "digits-101-0"),
    "longer_not_better": ("arithmetic-026-0", "arithmetic-066-0"),
    "gradient_spikes": ("digits-000-0", "digits-016-0"),
    "clip_busy": ("narrow-clip", "four-passes"),
    "critic_not_learning": ("digits-002-0", "digits-066-0"),
    "many_epochs": ("eight-passes", "four-passes"),
    "short_warmup": ("digits-006-0", "digits-028-0"),
    "slow_steady": ("arithmetic-003-0", "arithmetic-063-0"),
    "kl_too_low": ("exploitable-016-0", "exploitable-019-0"),
    "clip_idle": ("arithmetic-003-0", "digits-068-0"),
    "plateau_oscillation": ("eight-passes", "four-passes"),
    "small_batches": ("digits-001-0", "digits-016-0"),
    "padding_waste": ("short-responses", "engine-waits"),
    "cache_pressure": ("engine-waits", "engine-keeps-up"),
}
"""Rule -> a run of the curve bank or of `benchmarks/advising/rule_runs.json` that shows it, and one that does not."""
READS = {
    "peak_then_fall": ["reward/mean"],
    "kl_too_high": ["kl/actor_ref"],
    "entropy_collapse": ["actor/entropy"],
    "longer_not_better": ["response/length_mean", "reward/mean"],
    "gradient_spikes": ["actor/grad_norm"],
    "clip_busy": ["actor/clip_fraction"],
    "critic_not_learning": ["critic/explained_variance", "critic/loss"],
    "many_epochs": [],
    "short_warmup": ["actor/grad_norm"],
    "slow_steady": ["reward/mean", "kl/actor_ref"],
    "kl_too_low": ["kl/actor_ref"],
    "clip_idle": ["actor/clip_fraction", "kl/actor_ref"],
    "plateau_oscillation": ["reward/mean"],
    "small_batches": ["actor/grad_norm"],
    "padding_waste": ["response/length_mean", "perf/update_s", "perf/step_s"],
    "cache_pressure": ["perf/rollout_s", "perf/step_s"],
}
"""What a rule's silence must not be for want of."""


def short_run(name):
    run = json.loads(FILE.read_text())[name]
    config = flatten(compose("config", run["overrides"]))
    points = [
        Point(step=step, time=0.0, metrics={metric: values[at] for metric, values in run["curves"].items()})
        for at, step in enumerate(run["steps"])
    ]
    steps = config["trainer.total_steps"]
    return Case(config=config, curve=points, metric="eval/reward", direction=Direction.MAXIMIZE, total_steps=steps)


@pytest.fixture(scope="module")
def recorded():
    bank = {run.name: run for run in load()}
    return lambda name: case_of(bank[name]) if name in bank else short_run(name)


def test_every_rule_has_its_two_runs():
    assert set(PAIRS) == set(READS) == set(RULES)
    assert set(json.loads(FILE.read_text())) == set(RUNS)


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_finds_what_it_is_for_in_a_recorded_run(recorded, rule):
    advice = RULES[rule](recorded(PAIRS[rule][0]))
    assert advice is not None
    assert advice.changes
    assert advice.numbers


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_is_silent_in_a_recorded_run_that_has_all_it_reads(recorded, rule):
    case = recorded(PAIRS[rule][1])
    assert all(len(case.values(metric)) >= 12 for metric in READS[rule])
    assert RULES[rule](case) is None
