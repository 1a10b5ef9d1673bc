import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from autotune.backends import get_backend
from autotune.backends.config_file import flat, nested
from autotune.backends.native import CHANGEABLE
from autotune.errors import InvalidConfigError
from autotune.spec.types import TrainerSpec
from trainer.config import known_keys

ROOT = Path(__file__).resolve().parents[2]


def describe_problems(**fields):
    with pytest.raises(InvalidConfigError) as caught:
        get_backend("native").describe(TrainerSpec(**fields))
    return caught.value.problems


def test_the_description_holds_every_key_of_the_trainer():
    description = get_backend("native").describe(TrainerSpec())
    assert set(description.config) == set(known_keys())
    assert isinstance(description.config["algorithm.kl_ctrl.kl_coef"], float)
    assert (description.steps_path, description.seed_path) == ("trainer.total_steps", "trainer.seed")


def test_a_group_can_be_chosen_and_its_problems_carry_its_name():
    config = get_backend("native").describe(TrainerSpec(overrides={"data": "arithmetic"})).config
    assert config["data.name"] == "arithmetic"
    (problem,) = describe_problems(overrides={"data": "arithmetc"})
    assert problem.path == "trainer.overrides.data"
    assert "'arithmetic'" in problem.hint


def test_a_rule_over_two_keys_is_blamed_on_an_override():
    (problem,) = describe_problems(overrides={"trainer.mini_batch_size": 48})
    assert problem.path == "trainer.overrides.trainer.mini_batch_size"
    assert "trainer.train_batch_size" in problem.message


def test_the_trainer_is_started_with_this_interpreter_in_the_trial_directory(tmp_path):
    backend = get_backend("native", 0.5)
    command = backend.prepare(backend.describe(TrainerSpec()).config, tmp_path)
    assert list(command.argv) == [sys.executable, "-m", "trainer", "--trial"]
    assert command.env["OMP_NUM_THREADS"] == "1"
    assert command.env["PYTHONPATH"].split(os.pathsep)[0] == str(ROOT)


def test_the_prepared_process_finds_the_trainer_and_accepts_the_configuration(tmp_path):
    backend = get_backend("native")
    command = backend.prepare(backend.describe(TrainerSpec()).config, tmp_path)
    code = "from trainer.config import build; import json; print(build(json.load(open('config.yaml'))).trainer.seed)"
    run = subprocess.run(
        [command.argv[0], "-c", code],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], **command.env},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout == "0\n"


def test_a_flat_configuration_becomes_a_tree():
    tree = {"a": {"b": {"c": 1, "d": None}}, "e": []}
    assert nested({"a.b.c": 1, "a.b.d": None, "e": []}) == tree
    assert nested(flat(tree)) == tree
    with pytest.raises(ValueError, match="which is a value"):
        nested({"a": 1, "a.b": 2})


def test_importing_the_backends_imports_neither_hydra_nor_torch():
    heavy = ["torch", "hydra", "omegaconf", "ray", "mlflow", "transformers", "vllm", "optuna"]
    code = "import autotune.backends, autotune.spec.loader, json, sys; "
    code += f"print(json.dumps([name for name in {heavy} if name in sys.modules]))"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert json.loads(run.stdout) == []


@pytest.mark.slow
def test_a_prepared_trial_trains_and_keeps_the_process_contract(tmp_path):
    backend = get_backend("native")
    small = {
        "trainer.total_steps": 2,
        "trainer.train_batch_size": 8,
        "trainer.mini_batch_size": 4,
        "model.warm_start.steps": 2,
        "data.eval_size": 4,
    }
    description = backend.describe(TrainerSpec(overrides=small))
    trial = tmp_path / "0000"
    command = backend.prepare(description.config, trial)
    env = {**os.environ, **command.env, "AUTOTUNE_HOME": str(tmp_path / "home")}
    subprocess.run(list(command.argv), cwd=trial, env=env, capture_output=True, text=True, check=True, timeout=240)
    assert json.loads((trial / "result.json").read_text())["status"] == "finished"
    lines = [json.loads(line) for line in (trial / "metrics.jsonl").read_text().splitlines()]
    reported = {name for line in lines for name in line.get("metrics", {})}
    assert max(line["step"] for line in lines if "metrics" in line) == 2
    assert {"eval/reward", "reward/mean", "kl/actor_ref"} <= reported <= set(description.metrics)


def test_components_of_the_reward_are_metrics_and_their_weights_parameters():
    parts = {"short": {"function": "mine:short", "weight": 0.2}, "right": {"name": "exact_match"}}
    overrides = {"reward.name": None, "reward.components": parts}
    description = get_backend("native").describe(TrainerSpec(overrides=overrides))
    assert {"reward/short", "eval/short", "reward/right", "eval/right", "reward/mean"} <= set(description.metrics)
    assert description.config["reward.components.short.weight"] == 0.2
    assert "reward/short" not in get_backend("native").describe(TrainerSpec()).metrics
    own = {**overrides, "reward.eval_name": "prefix_match"}
    assert "eval/short" not in get_backend("native").describe(TrainerSpec(overrides=own)).metrics


@pytest.mark.parametrize(
    ("changes", "continued"),
    [
        ({}, True),
        ({"trainer.save_freq": 5}, True),
        ({"trainer.optim.lr": 1e-3}, False),
        ({"trainer.seed": 1}, False),
        ({"trainer.optim.scheduler": "cosine"}, False),
        ({"algorithm.kl_ctrl.type": "adaptive"}, False),
    ],
)
def test_a_longer_run_continues_a_shorter_one_where_only_the_steps_differ_and_nothing_depends_on_them(
    changes, continued
):
    backend = get_backend("native")
    base = backend.describe(TrainerSpec(overrides={"data": "digits", "model": "tiny"})).config
    assert backend.continues({**base, "trainer.total_steps": 10}, {**base, "trainer.total_steps": 20, **changes}) is (
        continued
    )


def test_an_adaptive_penalty_with_a_horizon_of_its_own_does_not_depend_on_the_steps():
    backend = get_backend("native")
    overrides = {"data": "digits", "model": "tiny", "algorithm.kl_ctrl.type": "adaptive"}
    base = backend.describe(TrainerSpec(overrides={**overrides, "algorithm.kl_ctrl.horizon": 100})).config
    assert backend.continues(base, {**base, "trainer.total_steps": 80})


def test_a_run_can_be_told_to_end_early_with_a_checkpoint():
    backend = get_backend("native")
    base = backend.describe(TrainerSpec(overrides={"data": "digits", "model": "tiny"})).config
    part = backend.until(base, 8)
    assert part == {**base, "trainer.until_step": 8}
    assert not backend.check(part)
    assert backend.until(base, base["trainer.total_steps"]) == base


def test_everything_that_may_change_between_attempts_exists_in_the_configuration():
    backend = get_backend("native")
    base = backend.describe(TrainerSpec(overrides={"data": "digits", "model": "tiny"})).config
    kept = backend.fixed(base, base)
    assert {"trainer.optim.lr", "algorithm.clip_ratio", "rollout.temperature"} <= set(base) - set(kept)
    assert {"model.path", "trainer.mini_batch_size", "trainer.total_steps", "trainer.seed"} <= set(kept)
    assert set(CHANGEABLE) <= set(base)
