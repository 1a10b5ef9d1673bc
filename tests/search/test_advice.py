import math
from pathlib import Path
from statistics import median

import pytest

from autotune.search.advice import RULES, Case, advise
from autotune.search.types import Point
from autotune.spec.types import Direction
from trainer.config import compose, flatten

BANK = Path(__file__).parents[2] / "benchmarks"
STEPS = 40
CONFIG = {
    **flatten(compose("config", {})),
    "trainer.mini_batch_size": 512,
    "trainer.train_batch_size": 1024,
    "data.max_response_length": 512,
}
HEALTHY = {
    "reward/mean": lambda at: 0.2 + 0.6 * (1 - math.exp(-6 * at)),
    "eval/reward": lambda at: 0.2 + 0.6 * (1 - math.exp(-6 * at)),
    "reward/std": lambda _: 0.3,
    "kl/actor_ref": lambda at: 0.06 * at + 0.02,
    "actor/entropy": lambda at: 1.0 - 0.4 * at,
    "actor/clip_fraction": lambda _: 0.08,
    "actor/grad_norm": lambda _: 0.5,
    "critic/explained_variance": lambda at: 0.6 * at + 0.2,
    "critic/loss": lambda at: 0.1 - 0.05 * at,
    "response/length_mean": lambda _: 400.0,
    "perf/step_s": lambda _: 10.0,
    "perf/update_s": lambda _: 4.0,
    "perf/rollout_s": lambda _: 4.0,
}


def case(config=None, **curves):
    """A healthy run with some curves and parameters of its own; a curve is a function of the run's share (0 to 1)."""
    shapes = {**HEALTHY, **{name.replace("__", "/"): shape for name, shape in curves.items()}}
    points = [
        Point(step=step, time=0.0, metrics={name: shape(step / STEPS) for name, shape in shapes.items()})
        for step in range(STEPS + 1)
    ]
    values = {**CONFIG, **(config or {})}
    return Case(config=values, curve=points, metric="eval/reward", direction=Direction.MAXIMIZE, total_steps=STEPS)


def spiky(usual, spike, every):
    return lambda at: spike if round(at * STEPS) % every == 0 else usual


UNHEALTHY = {
    "slow_steady": (
        case({"algorithm.kl_ctrl.kl_coef": 0.03}, reward__mean=lambda at: 0.2 + 0.1 * at, kl__actor_ref=lambda _: 0.02),
        "algorithm.kl_ctrl.kl_coef: 0.03 -> 0.01",
    ),
    "peak_then_fall": (
        case({"algorithm.clip_ratio": 0.2}, reward__mean=lambda at: 0.2 + 0.6 * math.sin(math.pi * min(1, 1.3 * at))),
        "algorithm.clip_ratio: 0.2 -> 0.1",
    ),
    "plateau_oscillation": (
        case(
            reward__mean=lambda at: 0.2 + 2.4 * at if at < 0.25 else 0.8 + 0.1 * math.sin(2.0 * round(at * STEPS)),
        ),
        "algorithm.entropy_coeff: 0 -> 0.005",
    ),
    "longer_not_better": (
        case(response__length_mean=lambda at: 200 + 200 * at, reward__mean=lambda _: 0.4, eval__reward=lambda _: 0.4),
        "algorithm.truncation_penalty: 0 -> 0.5",
    ),
    "kl_too_high": (
        case({"trainer.optim.lr": 3e-5}, kl__actor_ref=lambda at: 0.3 * at),
        "trainer.optim.lr: 3e-05 -> 1e-05",
    ),
    "kl_too_low": (
        case({"algorithm.kl_ctrl.kl_coef": 0.3}, kl__actor_ref=lambda _: 0.004),
        "algorithm.kl_ctrl.kl_coef: 0.3 -> 0.1",
    ),
    "entropy_collapse": (
        case(actor__entropy=lambda at: math.exp(-6 * at)),
        "algorithm.entropy_coeff: 0 -> 0.005",
    ),
    "clip_idle": (
        case({"trainer.optim.lr": 1e-6}, actor__clip_fraction=lambda _: 0.0, kl__actor_ref=lambda _: 0.02),
        "trainer.optim.lr: 1e-06 -> 2e-06",
    ),
    "clip_busy": (
        case({"trainer.ppo_epochs": 4}, actor__clip_fraction=lambda _: 0.45),
        "trainer.ppo_epochs: 4 -> 3",
    ),
    "gradient_spikes": (
        case({"trainer.grad_clip": 1.0}, actor__grad_norm=spiky(0.1, 3.0, 9)),
        "trainer.grad_clip: 1 -> 0.1",
    ),
    "critic_not_learning": (
        case({"trainer.optim.critic_lr": 1e-5}, critic__explained_variance=lambda _: 0.01),
        "trainer.optim.critic_lr: 1e-05 -> 3e-05",
    ),
    "padding_waste": (
        case(response__length_mean=lambda _: 100.0),
        "trainer.use_dynamic_bsz: False -> True",
    ),
    "cache_pressure": (
        case({"rollout.name": "vllm", "rollout.gpu_memory_utilization": 0.3}, perf__rollout_s=lambda _: 8.0),
        "rollout.gpu_memory_utilization: 0.3 -> 0.45",
    ),
    "small_batches": (
        case(
            {"trainer.mini_batch_size": 32, "trainer.ppo_epochs": 1},
            actor__grad_norm=lambda at: 1 + 0.9 * math.cos(3 * round(at * STEPS)),
        ),
        "trainer.mini_batch_size: 32 -> 64",
    ),
    "many_epochs": (case({"trainer.ppo_epochs": 8}), "trainer.ppo_epochs: 8 -> 4"),
    "short_warmup": (
        case({"trainer.optim.warmup_steps": 0}, actor__grad_norm=lambda at: 4.0 if at < 0.06 else 0.5),
        "trainer.optim.warmup_steps: 0 -> 4",
    ),
}


def test_a_healthy_run_gets_no_advice():
    assert advise(case()) == ()


def test_every_rule_has_its_case():
    assert set(UNHEALTHY) == set(RULES)


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_speaks_up_where_it_should_with_its_numbers_and_a_change(rule):
    given, change = UNHEALTHY[rule]
    advice = RULES[rule](given)
    assert advice is not None
    assert advice.rule == rule
    assert change in map(str, advice.changes)
    assert advice.source
    assert advice.numbers
    assert all(math.isfinite(number) for number in advice.numbers.values())
    assert any(character.isdigit() for character in advice.finding)


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_is_silent_on_a_healthy_run_and_where_nothing_was_measured(rule):
    assert RULES[rule](case()) is None
    nothing = Case(config={}, curve=[], metric="m", direction=Direction.MAXIMIZE, total_steps=STEPS)
    assert RULES[rule](nothing) is None


@pytest.mark.parametrize("rule", RULES)
def test_a_proposal_differs_from_what_was_there_and_names_a_known_parameter(rule):
    for change in RULES[rule](UNHEALTHY[rule][0]).changes:
        assert change.after != change.before
        assert change.path in CONFIG


def test_of_two_rules_on_one_parameter_the_more_urgent_one_counts():
    both = case(
        {"trainer.optim.lr": 3e-5, "trainer.ppo_epochs": 1},
        kl__actor_ref=lambda at: 0.3 * at,
        actor__clip_fraction=lambda _: 0.5,
    )
    found = advise(both)
    assert [advice.rule for advice in found] == ["kl_too_high"]


def test_the_first_response_lengths_of_a_minimised_objective_do_not_confuse_the_reward():
    falling = case(
        reward__mean=lambda _: None, eval__reward=lambda at: 1.0 - 0.6 * math.sin(math.pi * min(1, 1.3 * at))
    )
    minimised = Case(
        config={**falling.config, "algorithm.clip_ratio": 0.2},
        curve=falling.curve,
        metric="eval/reward",
        direction=Direction.MINIMIZE,
        total_steps=STEPS,
    )
    assert "peak_then_fall" in [advice.rule for advice in advise(minimised)]


@pytest.mark.skipif(not (BANK / "curve_bank" / "data" / "runs.parquet").is_file(), reason="no recorded runs")
def test_recorded_runs_that_went_wrong_get_the_advice_for_it(monkeypatch):
    monkeypatch.syspath_prepend(str(BANK))
    from curve_bank.bank import load

    runs, found = {run.name: run for run in load()}, {}
    for name, run in runs.items():
        points = [Point(step=step, time=0.0, metrics=metrics) for step, metrics in run.points]
        config = {**flatten(compose("config", {})), **run.params}
        found[name] = advise(
            Case(config=config, curve=points, metric="eval/reward", direction=Direction.MAXIMIZE, total_steps=STEPS)
        )
        for advice in found[name]:
            assert all(change.after != change.before for change in advice.changes), (name, advice)
    kl = {name: [value for _, value in run.curve("kl/actor_ref")][-20:] for name, run in runs.items()}
    drifted = [name for name, values in kl.items() if values and median(values) > 1]
    assert drifted
    # A fall from a peak goes before the KL, and changes the same learning rate.
    assert all({"kl_too_high", "peak_then_fall"} & {advice.rule for advice in found[name]} for name in drifted)
    # The better half of the runs is advised less than the worse half.
    finished = sorted((run.final, name) for name, run in runs.items() if run.final is not None)
    half = len(finished) // 2
    worse, better = (sum(len(found[name]) for _, name in part) for part in (finished[:half], finished[-half:]))
    assert better < worse
