import dataclasses
import shlex

import pytest
import yaml

from autotune.backends import get_backend
from autotune.backends.exporting import TARGETS, export, launch_line
from autotune.backends.verl.backend import VerlBackend
from autotune.backends.verl.translate import to_native, to_verl
from autotune.errors import InvalidConfigError, UsageError
from autotune.spec.types import TrainerSpec
from tests.backends.verl_wheel import GOOD, interpreter, real_verl
from trainer.config import build, compose

LARGE = TrainerSpec(
    config="my_qwen2_ppo_vllm",
    overrides={"data.train_file": "/data/a b.parquet", "data.eval_file": "/data/c.parquet", "trainer.optim.lr": 2e-6},
    searched=("algorithm.clip_ratio",),
)


def whole(trainer, **changes):
    return {**get_backend(trainer.backend).describe(trainer).config, **changes}


def words(text):
    return shlex.split(text.replace("\\\n", " "))


def test_a_configuration_of_ours_is_a_command_that_composes_to_it():
    config = whole(LARGE, **{"algorithm.clip_ratio": 0.17})
    made = export(LARGE, config, "native", gpus=1)
    python, _, module, option, name, *overrides = words(made.text)
    assert (python, module, option, name) == ("python", "trainer", "--config-name", "my_qwen2_ppo_vllm")
    given = {path: yaml.safe_load(value) for path, _, value in (word.partition("=") for word in overrides)}
    built = build(compose(name, {**given, "trainer.optim.lr": float(given["trainer.optim.lr"])}))
    assert built.algorithm.clip_ratio == 0.17
    assert built.data.train_file == "/data/a b.parquet"
    assert made.notes == ()


@pytest.mark.parametrize(("gpus", "ranks"), [(0, None), (1, None), (2, "2"), (8, "8")])
def test_a_command_of_ours_starts_as_many_ranks_as_the_trial_had(gpus, ranks):
    argv = words(export(LARGE, whole(LARGE), "native", gpus=gpus).text)
    assert tuple(argv) == tuple(launch_line(LARGE, whole(LARGE), gpus))
    assert ("torch.distributed.run" in argv) is (ranks is not None)
    if ranks is not None:
        assert argv[argv.index("--nproc-per-node") + 1] == ranks
        assert argv[argv.index("--nproc-per-node") + 2 :][:2] == ["-m", "trainer"]


def test_as_yaml_it_is_the_whole_tree_without_what_the_backend_keeps_for_itself():
    config = {**whole(LARGE), "backend.name": "x"}
    tree = yaml.safe_load(export(LARGE, config, "yaml", gpus=1).text)
    assert "backend" not in tree
    assert build(tree).trainer.optim.lr == 2e-6


def test_in_verls_keys_the_meaning_is_kept():
    values, notes = to_verl(whole(LARGE), tuple(LARGE.overrides))
    actor = "actor_rollout_ref.actor"
    assert values[f"{actor}.optim.lr"] == 2e-6
    assert values["critic.optim.lr"] == pytest.approx(1e-4 * 0.1), "our weight of the value loss acts there"
    assert values["algorithm.use_kl_in_reward"] is True
    assert values["algorithm.kl_ctrl.horizon"] == 200 * 256 // 20
    assert values[f"{actor}.clip_ratio_low"] == values[f"{actor}.clip_ratio_high"] == 0.1
    assert values["data.val_files"] == "/data/c.parquet"
    assert any("data_source" in note for note in notes)


def test_without_a_critic_nothing_is_said_about_one():
    values, _ = to_verl(whole(TrainerSpec(overrides={"algorithm": "grpo", "rollout.n": 4})), ())
    assert values["algorithm.adv_estimator"] == "grpo"
    assert not [key for key in values if key.startswith("critic.")]


def test_what_verl_does_not_have_is_named():
    tiny = TrainerSpec(overrides={"model": "tiny", "data": "digits", "algorithm.whiten_advantages": False})
    _, notes = to_verl(whole(tiny), tuple(tiny.overrides))
    text = " ".join(notes)
    assert all(word in text for word in ("'tiny'", "data.train_files", "whiten_advantages", "'hf'"))
    with pytest.raises(InvalidConfigError, match="dpo"):
        to_verl(whole(TrainerSpec(config="dpo")), ())


@pytest.fixture
def verl(tmp_path):
    return interpreter(tmp_path, real_verl())


def test_verl_accepts_what_was_made_of_ours(verl):
    values, _ = to_verl(whole(LARGE), ())
    trainer = TrainerSpec(backend="verl", python=verl, overrides={**values, "trainer.n_gpus_per_node": 1})
    description = VerlBackend().describe(trainer)
    assert description.config["trainer.optim.lr"] == 2e-6
    assert description.config["trainer.mini_batch_size"] == 128


def test_ours_accepts_what_was_made_of_verls(verl):
    overrides = {**GOOD, "data.train_files": "/data/gsm8k/train.parquet", "algorithm.kl_ctrl.kl_coef": 0.002}
    trainer = TrainerSpec(backend="verl", python=verl, overrides=overrides)
    values, notes = to_native(whole(trainer))
    built = build(compose("config", values))
    assert built.model.path == "Qwen/Qwen2-7B-Instruct"
    assert (built.trainer.mini_batch_size, built.trainer.total_steps) == (64, 50)
    assert built.algorithm.kl_ctrl.kl_coef == 0.002
    assert built.reward.name == "gsm8k"
    assert notes


def test_a_run_of_verl_stays_a_run_of_verl(verl):
    trainer = TrainerSpec(backend="verl", python=verl, overrides=GOOD)
    text = export(trainer, whole(trainer), "verl", gpus=2).text
    assert "data.train_batch_size=256" in words(text)


def test_a_form_that_there_is_not_is_refused_with_those_that_there_are():
    config = whole(LARGE)
    with pytest.raises(UsageError, match=r"unknown form 'yml'.*yaml"):
        export(LARGE, config, "yml", gpus=1)
    with pytest.raises(UsageError, match="native, verl, yaml"):
        export(LARGE, config, "command", gpus=1)
    command = dataclasses.replace(LARGE, backend="command")
    for to in {"native", "verl"} & set(TARGETS):
        with pytest.raises(UsageError, match="yaml, command"):
            export(command, config, to, gpus=1)
