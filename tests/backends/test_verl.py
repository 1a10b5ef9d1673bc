"""verl's real configuration, composed with Hydra alone: names, settings that do nothing, what verl would refuse."""

import dataclasses
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.backends import get_backend
from autotune.backends.verl.installation import find
from autotune.backends.verl.names import ACTOR, METRICS, MODEL, PARAMETERS, ROLLOUT
from autotune.backends.verl.tree import compose_tree, override
from autotune.errors import InvalidConfigError, Problem
from autotune.spec.check import check_space
from autotune.spec.loader import load_space
from tests.backends.verl_wheel import GOOD, imitation, interpreter, real_verl, without_a_key
from trainer.config import METRICS as OUR_METRICS

VALUES = {
    **GOOD,
    "algorithm.gamma": 0.99,
    "algorithm.lam": 0.95,
    "algorithm.clip_ratio": 0.15,
    "algorithm.clip_ratio_high": 0.28,
    "algorithm.cliprange_value": 0.3,
    "algorithm.clip_ratio_c": 5.0,
    "algorithm.loss_agg_mode": "seq-mean-token-sum",
    "algorithm.entropy_coeff": 0.002,
    "model.critic_path": "Qwen/Qwen2-1.5B-Instruct",
    "model.trust_remote_code": True,
    "model.enable_gradient_checkpointing": False,
    "model.lora_rank": 32,
    "model.lora_alpha": 64,
    "rollout.name": "vllm",
    "rollout.dtype": "float16",
    "rollout.temperature": 0.9,
    "rollout.top_p": 0.95,
    "rollout.top_k": 50,
    "rollout.n": 4,
    "rollout.gpu_memory_utilization": 0.6,
    "rollout.tensor_model_parallel_size": 1,
    "rollout.max_num_batched_tokens": 16384,
    "rollout.max_num_seqs": 128,
    "rollout.enable_chunked_prefill": False,
    "rollout.enable_prefix_caching": False,
    "rollout.enforce_eager": True,
    "trainer.num_epochs": 3,
    "trainer.ppo_epochs": 2,
    "trainer.use_dynamic_bsz": False,
    "trainer.ppo_max_token_len_per_gpu": 8192,
    "trainer.use_remove_padding": False,
    "trainer.max_checkpoints": 3,
    "trainer.grad_clip": 0.5,
    "trainer.optim.lr": 3e-6,
    "trainer.optim.critic_lr": 2e-5,
    "trainer.optim.weight_decay": 0.1,
    "trainer.optim.warmup_steps": 10,
    "trainer.optim.scheduler": "cosine",
    "trainer.fsdp_config.sharding_strategy": "SHARD_GRAD_OP",
    "trainer.fsdp_config.cpu_offload": True,
    "trainer.fsdp_config.shard_group_size": 2,
    "data.train_file": "/data/train set.parquet",
    "data.eval_file": "/data/test.parquet",
    "trainer.seed": 7,
}
OF_ITS_OWN = {
    "actor_rollout_ref.actor.strategy": "fsdp2",
    "critic.strategy": "fsdp2",
    "algorithm.use_kl_in_reward": True,
    "algorithm.kl_ctrl.type": "adaptive",
    "algorithm.kl_ctrl.kl_coef": 0.02,
    "algorithm.kl_ctrl.target_kl": 0.08,
    "algorithm.kl_ctrl.horizon": 4000,
    "algorithm.rollout_correction.rollout_is": "token",
    "algorithm.rollout_correction.rollout_is_threshold": 3.0,
    "data.max_response_length": 256,
    "reward.custom_reward_function.path": "/code/reward.py",
    "reward.custom_reward_function.name": "score",
    "trainer.save_freq": 10,
    "trainer.test_freq": 5,
    "trainer.critic_warmup": 2,
    "trainer.val_before_train": False,
    "actor_rollout_ref.actor.fsdp_config.model_dtype": "bfloat16",
    "actor_rollout_ref.model.override_config.attn_implementation": "eager",
}


def test_more_than_sixty_overrides_compose_and_arrive_in_the_real_tree(describe, prepared, configs):
    overrides = {**VALUES, **OF_ITS_OWN}
    arguments, _ = prepared(describe(overrides).config)
    assert len(arguments) > 80
    assert set(PARAMETERS) <= set(VALUES)
    tree = compose_tree(configs, "ppo_trainer", [one for one in arguments if not one.startswith("hydra.")])
    for name, mapped in PARAMETERS.items():
        if name not in ("algorithm.clip_ratio", "model.path"):  # a narrower name takes one of their keys
            value = mapped.words.get(VALUES[name], VALUES[name])
            assert {key: tree[key] for key in mapped.keys if key in tree} == {
                key: value for key in mapped.keys if key in tree
            }
    assert (tree[f"{MODEL}.path"], tree["critic.model.path"]) == (VALUES["model.path"], VALUES["model.critic_path"])
    assert (tree[f"{ACTOR}.clip_ratio_low"], tree[f"{ACTOR}.clip_ratio_high"]) == (0.15, 0.28)
    assert {key: tree[key] for key in OF_ITS_OWN} == OF_ITS_OWN


@pytest.mark.parametrize(
    "overrides",
    [
        {"model_engine": "megatron", f"{ACTOR}.megatron.tensor_model_parallel_size": 2},
        {"rollout.name": "sglang"},
        {"model_engine": "megatron", "rollout.name": "sglang", "trainer.optim.scheduler": "cosine"},
    ],
)
def test_other_engines_compose_through_verls_own_switches(describe, prepared, configs, overrides):
    arguments, _ = prepared(describe(overrides).config, **{"trainer.optim.lr": 2e-6})
    tree = compose_tree(configs, "ppo_trainer", [one for one in arguments if not one.startswith("hydra.")])
    assert tree[f"{ACTOR}.strategy"] == ("megatron" if "model_engine" in overrides else "fsdp")
    assert tree[f"{ROLLOUT}.name"] == overrides.get("rollout.name", "vllm")
    assert tree[f"{ACTOR}.optim.lr"] == 2e-6
    if "trainer.optim.scheduler" in overrides:
        assert tree[f"{ACTOR}.optim.lr_decay_style"] == "cosine"


def test_a_searched_value_reaches_every_key_it_stands_for_and_what_follows_it(describe, prepared, configs):
    config = describe({}, ["algorithm.clip_ratio", "trainer.ppo_epochs"]).config
    arguments, _ = prepared(config, **{"algorithm.clip_ratio": 0.3, "trainer.ppo_epochs": 4})
    tree = compose_tree(configs, "ppo_trainer", [one for one in arguments if not one.startswith("hydra.")])
    assert [tree[f"{ACTOR}.clip_ratio{end}"] for end in ("", "_low", "_high")] == [0.3, 0.3, 0.3]
    assert tree["critic.ppo_epochs"] == 4


def test_the_length_of_a_trial_may_be_changed_under_either_name(describe, prepared):
    config = describe({"trainer.total_steps": ..., "trainer.total_training_steps": 50}).config
    arguments, _ = prepared(config, **{"trainer.total_steps": 20})
    assert "trainer.total_training_steps=20" in arguments
    assert "trainer.total_epochs=30" not in arguments


def test_the_example_of_the_page_fits_verl_as_it_stands(python):
    page = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "verl.md"
    space = load_space(re.search(r"```yaml\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)[1])
    description = get_backend("verl").describe(dataclasses.replace(space.trainer, python=python))
    check_space(space, description.config, description.metrics, description.steps)
    assert description.config["algorithm.use_kl_in_reward"] is True


def test_each_trial_has_its_own_places(describe, prepared, tmp_path):
    arguments, _ = prepared(describe().config)
    assert f"trainer.default_local_dir={tmp_path}/checkpoints" in arguments
    assert f"hydra.run.dir={tmp_path}/output/hydra" in arguments
    assert "trainer.logger=[console,file]" in arguments


def test_a_logger_of_ones_own_is_kept(describe, prepared):
    arguments, _ = prepared(describe({"trainer.logger": ["console", "swanlab"]}).config)
    assert "trainer.logger=[console,file,swanlab]" in arguments


def test_one_seed_seeds_everything_and_the_shuffle_is_never_unseeded(describe, prepared):
    arguments, _ = prepared(describe({"data.seed": 5}).config, **{"trainer.seed": 9})
    assert {"data.seed=5", f"{ROLLOUT}.seed=9", "critic.fsdp.seed=9"} <= set(arguments)
    assert "data.seed=0" in prepared(describe().config)[0]


def test_our_metrics_are_a_part_of_those_of_the_own_trainer_so_that_a_space_fits_both():
    assert set(METRICS) <= set(OUR_METRICS)
    assert {"eval/reward", "reward/mean", "kl/actor_ref", "actor/grad_norm"} <= set(METRICS)


def test_a_metric_that_will_never_come_is_not_offered(describe):
    assert "kl/actor_ref" not in describe().metrics
    assert "kl/actor_ref" in describe({"algorithm.kl_ctrl.kl_coef": 0.01}).metrics
    assert "critic/loss" in describe().metrics
    assert "critic/loss" not in describe({"algorithm.adv_estimator": "grpo"}).metrics


def test_an_interpreter_without_verl_or_that_is_none_is_refused(trainer, tmp_path):
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho no python here >&2\nexit 3\n")
    broken.chmod(0o755)
    empty = interpreter(tmp_path / "empty", tmp_path)
    for python, message in (
        ("/no/such/python", "no interpreter"),
        (str(broken), "no python here"),
        (empty, "not installed"),
    ):
        with pytest.raises(InvalidConfigError) as caught:
            get_backend("verl").describe(trainer(python=python))
        (problem,) = caught.value.problems
        assert problem.path == "trainer.python"
        assert message in problem.message


def test_a_verl_that_is_installed_later_is_found(trainer, tmp_path):
    python = interpreter(tmp_path / "later", tmp_path / "packages")
    with pytest.raises(InvalidConfigError):
        get_backend("verl").describe(trainer(python=python))
    (tmp_path / "packages").symlink_to(real_verl())
    assert get_backend("verl").describe(trainer(python=python)).steps == 50


def test_another_verl_is_told_by_its_keys(trainer, tmp_path):
    packages = tmp_path / "packages"
    configs = packages / "verl" / "trainer" / "config"
    configs.mkdir(parents=True)
    (packages / "verl" / "__init__.py").touch()
    (configs / "ppo_trainer.yaml").write_text("actor: {lr: 1e-6}\ntrainer: {seed: 1}\n")
    (packages / "verl-0.1.dist-info").mkdir()
    (packages / "verl-0.1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: verl\nVersion: 0.1\n")
    with pytest.raises(InvalidConfigError) as caught:
        get_backend("verl").describe(trainer(python=interpreter(tmp_path / "old", packages)))
    (problem,) = caught.value.problems
    assert problem.path == "trainer.python"
    assert "verl 0.1 has other keys than 0.9.1: it lacks" in problem.message
    assert f"{ACTOR}.clip_ratio" in problem.message


def test_where_a_key_is_refused_another_verl_says_which_keys_it_lacks(trainer, tmp_path):
    python = without_a_key(tmp_path)
    assert get_backend("verl").describe(trainer(python=python)).config["backend.version"] == "0.9.9"
    with pytest.raises(InvalidConfigError) as caught:
        get_backend("verl").describe(trainer({"rollout.max_num_seqs": 64}, python=python))
    refused, other = caught.value.problems
    assert "max_num_seqs" in refused.message
    assert other.path == "trainer.python"
    assert other.message == f"verl 0.9.9 has other keys than 0.9.1: it lacks {ROLLOUT}.max_num_seqs."
    assert other.hint == "Leave these keys out, or install verl 0.9.1."


def test_a_newer_verl_with_the_same_keys_is_accepted(trainer, tmp_path):
    python = imitation(tmp_path, version="0.9.2")
    description = get_backend("verl").describe(trainer(python=python))
    assert description.config["backend.version"] == "0.9.2"


def test_looking_for_verl_does_not_import_it(python):
    found = find(python)
    assert not isinstance(found, Problem)  # importing it would need torch and fail here
    assert found.version == "0.9.1"


def test_the_trials_environment_is_that_of_the_space(trainer):
    made = dataclasses.replace(trainer(), env={"VLLM_USE_V1": "1"}, stall_s=60.0)
    config = get_backend("verl").describe(made).config
    assert config["backend.env"] == [["VLLM_USE_V1", "1"]]
    assert config["backend.stall_s"] == 60.0


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=12))
def test_any_text_is_written_so_that_hydra_reads_the_same(text):
    from hydra.core.override_parser.overrides_parser import OverridesParser

    value = OverridesParser.create().parse_override(override("key", text)).value()
    assert str(value) == text
