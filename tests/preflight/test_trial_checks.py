import dataclasses
import json
import socket

import pytest

from autotune.preflight.memory import GIB, Capacity
from autotune.preflight.memory import capacity as capacity_of
from autotune.preflight.trial import RULES, TrialContext, trial_context, trial_problems
from autotune.preflight.trial.model import tokenizer_size
from autotune.settings import Settings
from trainer.config import build, compose, flatten

ROOMY = Capacity(bytes=80 * GIB, host=False, source="test")


def context(overrides=None, *, gpus=1.0, room=ROOMY, here=True):
    values = flatten(dataclasses.asdict(build(compose("config", overrides or {}))))
    return TrialContext(backend="native", config=values, gpus=gpus, here=here, room=room)


def model_directory(path, *, tokens=100, **config):
    path.mkdir(exist_ok=True)
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100}
    (path / "config.json").write_text(json.dumps({"model_type": "llama", **sizes, **config}))
    (path / "model.safetensors").write_text("")
    vocabulary = {f"t{index}": index for index in range(tokens)}
    (path / "tokenizer.json").write_text(json.dumps({"model": {"vocab": vocabulary}, "added_tokens": []}))
    return path


def of_model(path, **more):
    return context({"model": "hf", "model.path": str(path), "data": "jsonl", "data.train_file": __file__, **more})


def test_the_shipped_default_passes_every_rule():
    assert trial_problems(context()) == ()


# The three traps of the configuration guide, each as it is met there.


def test_trap_one_an_engine_on_one_gpu_beside_weights_on_several_is_caught():
    trap = {
        "rollout": "vllm",
        "rollout.device": "cuda:0",
        "trainer.fsdp_config.sharding_strategy": "FULL_SHARD",
        "system.device": "cuda",
    }
    (problem,) = trial_problems(context(trap, gpus=2))
    assert problem.path == "rollout.device"
    assert "cuda:0" in problem.message
    assert "auto" in problem.hint
    assert trial_problems(context({**trap, "rollout.device": "auto"}, gpus=2)) == ()


def test_trap_two_a_model_with_code_of_its_own_is_caught_before_it_is_loaded(tmp_path):
    auto = {"auto_map": {"AutoModelForCausalLM": "modeling_own.OwnForCausalLM"}, "architectures": ["OwnForCausalLM"]}
    directory = model_directory(tmp_path / "model", **auto)
    (problem,) = trial_problems(of_model(directory))
    assert problem.path == "model.trust_remote_code"
    assert "OwnForCausalLM" in problem.message
    assert "model.trust_remote_code: true" in problem.hint
    assert trial_problems(of_model(directory, **{"model.trust_remote_code": True})) == ()


def test_trap_three_a_rendezvous_port_that_is_taken_is_caught_and_a_free_one_named():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        (problem,) = trial_problems(context({"system.distributed.master_port": port}))
    assert problem.path == "system.distributed.master_port"
    assert f"port {port} is in use" in problem.message
    assert "null" in problem.hint
    assert trial_problems(context({"system.distributed.master_port": port})) == ()


def test_no_port_is_assumed_when_none_is_given():
    assert context().config["system.distributed.master_port"] is None


def test_a_micro_batch_that_cannot_fit_is_refused_before_launch():
    large = {"model.num_layers": 200, "model.hidden_size": 1024, "model.intermediate_size": 4096}
    (problem,) = trial_problems(context(large, room=Capacity(bytes=2 * GIB, host=False, source="test")))
    assert "needs about" in problem.message


def test_a_tensor_parallel_size_beyond_the_gpus_is_caught():
    wide = {"rollout": "vllm", "rollout.tensor_model_parallel_size": 4, "model.num_heads": 4}
    problems = trial_problems(context(wide, gpus=2))
    assert [problem.path for problem in problems] == ["rollout.tensor_model_parallel_size"]


def test_a_gpu_that_the_space_does_not_ask_for_is_caught():
    (problem,) = trial_problems(context({"system.device": "cuda"}, gpus=0))
    assert "resources.gpus" in problem.hint


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda path: (path / "config.json").unlink(), "holds no config.json"),
        (lambda path: (path / "config.json").write_text("{"), "cannot be read"),
        (lambda path: (path / "model.safetensors").unlink(), "holds no weights"),
        (lambda path: (path / "tokenizer.json").unlink(), "holds no tokenizer"),
    ],
)
def test_a_damaged_model_directory_is_named_with_what_it_lacks(tmp_path, damage, words):
    directory = model_directory(tmp_path / "model")
    assert trial_problems(of_model(directory)) == ()
    damage(directory)
    (problem,) = trial_problems(of_model(directory))
    assert words in problem.message
    assert problem.hint


def test_a_model_directory_that_is_not_there_is_caught_and_a_name_on_the_hub_is_not(tmp_path):
    (problem,) = trial_problems(of_model(tmp_path / "nothing"))
    assert "there is no model directory" in problem.message
    assert trial_problems(of_model("Qwen/Qwen2.5-0.5B-Instruct")) == ()


def test_a_tokenizer_with_more_tokens_than_the_model_has_embeddings_is_caught(tmp_path):
    directory = model_directory(tmp_path / "model", tokens=101)
    (problem,) = trial_problems(of_model(directory))
    assert "has 100 token embeddings, but its tokenizer has 101 tokens" in problem.message
    assert trial_problems(of_model(model_directory(tmp_path / "model", tokens=60))) == ()


def test_tokens_that_were_added_count_too(tmp_path):
    added = [{"id": 7, "content": "<s>"}]
    (tmp_path / "tokenizer.json").write_text(json.dumps({"model": {"vocab": [["a", 0.0]] * 3}, "added_tokens": added}))
    assert tokenizer_size(tmp_path) == 8
    assert tokenizer_size(tmp_path / "elsewhere") is None


def test_a_data_file_that_is_not_there_is_named(tmp_path):
    directory = model_directory(tmp_path / "model")
    (problem,) = trial_problems(of_model(directory, **{"data.eval_file": str(tmp_path / "eval.jsonl")}))
    assert problem.path == "data.eval_file"
    assert "eval.jsonl" in problem.message
    (problem,) = trial_problems(of_model(directory, **{"data.train_file": "train.jsonl"}))
    assert "absolute path" in problem.hint


def test_the_files_of_verl_are_looked_for_too_and_addresses_are_not(tmp_path):
    values = {
        "data.train_files": [str(tmp_path / "absent.parquet"), "s3://bucket/rows.parquet"],
        "reward.custom_reward_function.path": str(tmp_path / "reward.py"),
    }
    trial = TrialContext(backend="verl", config=values, gpus=1.0, here=True, room=ROOMY)
    paths = [problem.path for problem in trial_problems(trial)]
    assert paths == ["data.train_files", "reward.custom_reward_function.path"]


def test_files_and_ports_of_another_machine_are_not_judged_here(tmp_path):
    values = of_model(tmp_path / "nothing")
    assert trial_problems(dataclasses.replace(values, here=False)) == ()


def test_a_command_has_no_configuration_to_judge(tmp_path):
    assert trial_context("command", {"lr": 0.1}, 1.0, Settings(home=tmp_path)) is None
    assert trial_problems(None) == ()


def test_the_room_is_what_a_person_says_of_gpus_elsewhere_or_the_machines_memory(tmp_path):
    settings = Settings(home=tmp_path, gpu_memory_gib=24)
    room = trial_context("native", flatten(compose("config", {})), 1.0, settings).room
    assert (room.bytes, room.host) == (24 * GIB, False)
    half = capacity_of(0.5, 24)
    assert half.bytes == 12 * GIB
    host = capacity_of(0, None)
    assert host.host
    assert host.bytes is None or host.bytes > GIB


def test_no_rule_imports_a_framework():
    import subprocess
    import sys

    code = (
        "import sys, autotune.preflight.trial\n"
        "print(sorted({'torch', 'vllm', 'ray', 'mlflow', 'transformers'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert list(RULES)[-1] == "memory"
