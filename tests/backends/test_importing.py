"""Launch scripts of verl, in the shapes in which people have them, become space files that verl's own tree accepts."""

import dataclasses
from pathlib import Path

import pytest
import yaml

from autotune.backends import get_backend
from autotune.backends.verl.importing import import_script, value_of
from autotune.backends.verl.script import find_command
from autotune.errors import InvalidConfigError
from autotune.spec.check import check_space
from autotune.spec.loader import load_space
from tests.backends.verl_wheel import interpreter, real_verl

SCRIPTS = sorted((Path(__file__).parent / "support" / "verl_scripts").glob("*.sh"))


def imported(stem):
    script = next(path for path in SCRIPTS if path.stem == stem)
    made = import_script(script.read_text(), name="mine")
    document = yaml.safe_load(made.text)
    return document, document["trainer"], made.notes


def test_there_are_ten_scripts():
    assert len(SCRIPTS) == 10


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_becomes_a_space_that_passes_the_checks_and_starts_from_its_own_values(script, tmp_path):
    made = import_script(script.read_text(), name=script.stem)
    space = load_space(made.text, file=f"{script.stem}.yaml")
    trainer = dataclasses.replace(space.trainer, python=interpreter(tmp_path, real_verl()))
    description = get_backend("verl").describe(trainer)
    space = check_space(space, description.config, description.metrics, description.steps)
    start = space.start_from[0].values
    assert start.keys() == space.search.keys()
    assert get_backend("verl").check({**description.config, **start}) == ()


def test_variables_quotes_and_lists_are_read_as_the_shell_and_hydra_would():
    _, trainer, notes = imported("gsm8k_ppo")
    overrides = trainer["overrides"]
    assert overrides["data.truncation"] == "error"
    assert overrides["data.filter_overlong_prompts"] is True
    assert overrides["trainer.logger"] == ["console", "wandb"]
    assert overrides["trainer.total_epochs"] == 15
    assert any("data.train_files depends on" in note for note in notes)  # $HOME is the running shell's
    assert any("trainer.total_training_steps" in note for note in notes)


def test_what_is_searched_is_taken_out_of_the_fixed_values_and_tried_first():
    document, trainer, _ = imported("gsm8k_ppo")
    lr = "actor_rollout_ref.actor.optim.lr"
    assert lr not in trainer["overrides"]
    assert document["search"][lr] == {"float": [2e-7, 5e-6], "log": True}
    assert document["start_from"][0][lr] == 1e-6
    assert document["resources"] == {"gpus": 8, "cpus": 64}


def test_arrays_arithmetic_defaults_and_exports_are_followed():
    document, trainer, notes = imported("grpo_arrays")
    overrides = trainer["overrides"]
    assert overrides["data.train_batch_size"] == 1024
    assert overrides["actor_rollout_ref.model.path"] == "Qwen/Qwen3-8B"
    assert overrides["actor_rollout_ref.rollout.n"] == 5
    assert trainer["env"] == {"VLLM_USE_V1": "1"}
    assert "trainer.experiment_name" not in overrides
    assert any("trainer.experiment_name" in note for note in notes)
    assert "actor_rollout_ref.actor.kl_loss_coef" in document["search"]
    assert "critic.optim.lr" not in document["search"]


def test_a_limit_on_the_kl_is_proposed_only_where_there_is_one():
    assert "algorithm.kl_ctrl.kl_coef" in imported("quickstart")[0]["search"]
    assert [list(one) for one in imported("quickstart")[0]["prune"]] == [["kl_ceiling"], ["not_finite"]]
    assert [list(one) for one in imported("gsm8k_ppo")[0]["prune"]] == [["not_finite"]]


def test_a_submission_a_pipe_and_a_redirection_end_where_verl_does():
    assert imported("ray_job")[1]["python"] == "python3"
    assert imported("ray_job")[1]["overrides"]["+actor_rollout_ref.model.override_config.attention_dropout"] == 0.0
    assert "tee" not in str(imported("quickstart")[0])
    assert imported("quickstart")[1]["env"] == {"PYTHONUNBUFFERED": "1"}
    assert imported("sglang_lora")[1]["python"] == "/opt/envs/verl/bin/python"
    assert "run.log" not in str(imported("sglang_lora")[0])


def test_a_configuration_by_name_is_kept_and_one_by_path_is_pointed_out():
    _, trainer, notes = imported("config_name")
    assert trainer["config"] == "ppo_megatron_trainer"
    assert any("--config-path config is not taken over" in note for note in notes)


def test_what_autotune_sets_itself_is_left_out():
    _, trainer, notes = imported("legacy_reward")
    assert "trainer.default_local_dir" not in trainer["overrides"]
    assert any("trainer.resume_mode is left out" in note for note in notes)


def test_a_script_by_path_with_an_interpreter_before_it_is_found():
    found = find_command("srun --ntasks=1 python -u /opt/verl/verl/trainer/main_ppo.py a.b=1")
    assert (found.python, found.arguments) == ("python", ["a.b=1"])


def test_another_interpreter_may_be_named():
    text = import_script("python -m verl.trainer.main_ppo a=1", name="x", python="/opt/verl/bin/python").text
    assert yaml.safe_load(text)["trainer"]["python"] == "/opt/verl/bin/python"


@pytest.mark.parametrize("text", ["", "echo hello", "python train.py", "# python -m verl.trainer.main_ppo a=1", "'"])
def test_a_text_that_starts_no_verl_is_refused(text):
    with pytest.raises(InvalidConfigError, match="no command that starts"):
        import_script(text, name="x")


def test_nothing_in_a_script_is_run(tmp_path):
    touched = tmp_path / "touched"
    script = f"A=$(touch {touched})\nB=`touch {touched}`\n"
    script += "python -m verl.trainer.main_ppo a=$A b=$((__import__('os'))) c=$((9**9))"
    found = find_command(script)
    assert not touched.exists()
    assert len(found.arguments) == 3


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-6", 1e-6),
        ("8", 8),
        ("0.", 0.0),
        ("True", True),
        ("null", None),
        ("'a b'", "a b"),
        ("[a,b]", ["a", "b"]),
        ('["console","wandb"]', ["console", "wandb"]),
        ("{a:1}", {"a": 1}),
        ("Qwen/Qwen2-7B", "Qwen/Qwen2-7B"),
        ("[broken", "[broken"),
        ("", ""),
    ],
)
def test_a_value_is_read_as_hydra_reads_it(text, value):
    assert value_of(text) == value
