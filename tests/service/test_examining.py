"""The doctor over a space: GPUs, model, tokenizer, files, data, reward, devices, memory and the first proposals."""

import json

import pytest
import yaml

from autotune.preflight import Status
from autotune.service import examining
from autotune.service.examining import examine
from autotune.service.spaces import resolve_space
from autotune.settings import Settings
from tests.backends.verl_wheel import GOOD, imitation, without_a_key

SPACE = {
    "name": "small",
    "search": {"lr": {"float": [1e-6, 1e-4]}},
    "objective": {"metric": "eval/reward"},
    "budget": {"trials": 3, "parallel": 2, "steps": 4},
}

OWN = {"model": "hf", "data": "jsonl", "reward.name": None, "reward.function": "scoring:score"}


@pytest.fixture
def look(tmp_path):
    def at(settings=None, **changes):
        text = yaml.safe_dump({**SPACE, **changes})
        return examine(resolve_space(text, "space.yaml"), settings or Settings(home=tmp_path / "home"))

    return at


def of(checks, name):
    return [check for check in checks if check.name == name]


def failed(checks):
    return [check for check in checks if check.status is Status.FAIL]


@pytest.fixture
def model(tmp_path):
    directory = tmp_path / "model"
    directory.mkdir()
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100}
    config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "tie_word_embeddings": True, **sizes}
    (directory / "config.json").write_text(json.dumps(config))
    (directory / "model.safetensors").write_text("")
    words = {f"t{index}": index for index in range(100)}
    (directory / "tokenizer.json").write_text(json.dumps({"model": {"vocab": words}, "added_tokens": []}))
    return directory


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text(
        "".join(json.dumps({"prompt": f"{n} and {n}?", "ground_truth": f"{2 * n}"}) + "\n" for n in range(8))
    )
    return path


@pytest.fixture
def own(model, rows, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def overrides(score="return float(response == ground_truth)"):
        (tmp_path / "scoring.py").write_text(f"def score(prompt, response, ground_truth, **_):\n    {score}\n")
        return {**OWN, "model.path": str(model), "data.train_file": str(rows), "data.eval_file": str(rows)}

    return overrides


def test_a_shipped_kind_of_space_is_fine(look):
    checks = look()
    assert failed(checks) == []
    assert [check.name for check in checks] == [
        "space",
        "GPUs of a trial",
        "configuration",
        "model",
        "files",
        "batches and devices",
        "rendezvous port",
        "memory estimate",
        "first trials",
    ]
    assert "3 trials of 4 steps, 2 at a time, on native" in of(checks, "space")[0].text
    assert "batches of 64 in mini-batches of 32" in of(checks, "batches and devices")[0].text
    assert "the first 3 could be launched" in of(checks, "first trials")[0].text


def test_a_persons_own_model_data_and_reward_are_looked_at_and_tried(look, own, rows):
    checks = look(trainer={"overrides": own()})
    assert failed(checks) == []
    said = of(checks, "model")[0].text
    for part in ("LlamaForCausalLM", "2 layers of 64", "vocabulary 100", "tied embeddings", "tokenizer of 100 tokens"):
        assert part in said
    assert str(rows) in of(checks, "files")[0].text
    tried = " ".join(check.text for check in of(checks, "data and reward"))
    assert "8 rows" in tried
    assert "0 and 0?" in tried


def test_a_reward_that_raises_is_found_with_its_own_message(look, own):
    checks = look(trainer={"overrides": own("raise KeyError('ground truth')")})
    (problem,) = failed(checks)
    assert problem.name == "data and reward"
    assert "ground truth" in problem.text
    assert problem.exit_code == 3


def test_a_model_without_weights_and_a_missing_file_are_found_with_their_cure(look, own, model):
    (model / "model.safetensors").unlink()
    overrides = {**own(), "data.train_file": "/nowhere/rows.jsonl"}
    found = {check.name: check for check in failed(look(trainer={"overrides": overrides}))}
    assert "holds no weights" in found["model"].text
    assert found["model"].fix
    assert "/nowhere/rows.jsonl" in found["files"].text


@pytest.mark.parametrize(
    ("there", "gpus", "status", "words"),
    [
        (0, 1, Status.FAIL, "no trial would ever start"),
        (1, 1, Status.WARN, "1 at a time fit"),
        (2, 1, Status.OK, "1 for each of 2"),
        (0, 0, Status.OK, "trials run on the CPU"),
    ],
)
def test_the_gpus_that_the_space_asks_for_are_counted(look, monkeypatch, there, gpus, status, words):
    monkeypatch.setattr(examining, "gpu_count", lambda: there)
    (check,) = of(look(resources={"gpus": gpus}), "GPUs of a trial")
    assert check.status is status
    assert words in check.text


def test_a_cluster_has_its_own_gpus_and_files(look, tmp_path):
    settings = Settings(home=tmp_path / "home", ray_address="ray.example:6379")
    checks = look(settings, resources={"gpus": 8})
    assert failed(checks) == []
    assert "ray.example:6379 has to have them" in of(checks, "GPUs of a trial")[0].text


def test_proposals_that_would_not_be_launched_are_counted(look):
    checks = look(search={"trainer.mini_batch_size": {"choice": [7, 11, 13]}})
    (check,) = of(checks, "first trials")
    assert check.status is Status.WARN
    assert "3 of the first 3 would not be launched: trainer.mini_batch_size" in check.text
    assert "require" in check.fix


def test_each_stage_is_looked_at_under_its_name(look):
    stage = {key: SPACE[key] for key in ("search", "objective", "budget")}
    text = {"name": "two", "stages": [{"name": "first", **stage}, {"name": "second", **stage}]}
    checks = examine(resolve_space(yaml.safe_dump(text), "space.yaml"), Settings())
    names = {check.name.partition(": ")[0] for check in checks}
    assert names == {"first", "second"}


def of_verl(python):
    trainer = {"backend": "verl", "python": python, "overrides": {**GOOD, "trainer.use_dynamic_bsz": True}}
    return {"trainer": trainer, "resources": {"gpus": 2}, "search": {"lr": {"float": [1e-6, 1e-5]}}}


def test_of_a_space_for_verl_its_version_is_said_and_what_another_one_lacks(look, tmp_path):
    python = imitation(tmp_path / "known")
    (check,) = of(look(**of_verl(python)), "verl")
    assert (check.status, check.text) == (Status.OK, f"0.9.1 at {python}")
    other = without_a_key(tmp_path / "other")
    (check,) = of(look(**of_verl(other)), "verl")
    assert check.status is Status.WARN
    assert "0.9.9" in check.text
    assert "it lacks actor_rollout_ref.rollout.max_num_seqs" in check.text
