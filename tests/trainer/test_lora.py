"""Low-rank adapters: they alone are trained and saved, the reference is the network without them, and they merge."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed.checkpoint import FileSystemReader

from trainer.config import build
from trainer.distributed import open_world, whole, whole_weights
from trainer.loop.collect import measure, sample, sync_engine
from trainer.loop.forward import response_logprobs
from trainer.loop.run import Run, build_run
from trainer.loop.targets import compute_targets
from trainer.loop.update import update
from trainer.models import merged
from trainer.models.build import build_actor
from trainer.models.export import main as export
from trainer.models.lora import adapters_off

# The entropy bonus moves the weights also in a step whose rewards are all equal.
MOVING: dict[str, object] = {"trainer.optim.lr": 1e-2, "algorithm.entropy_coeff": 0.1}
LORA: dict[str, object] = {**MOVING, "model.lora_rank": 2, "model.lora_alpha": 8}


@pytest.fixture
def stepped(quick: Callable[..., dict[str, Any]], one_thread: None) -> Iterator[Callable[..., Run]]:
    """A run after one real update."""
    worlds = []

    def make(overrides: dict[str, object]) -> Run:
        config = build(quick(overrides))
        context = open_world(config.system)
        run = build_run(config, context.__enter__())
        worlds.append(context)
        sync_engine(run, 0)
        experience = measure(run, *sample(run, 1))
        update(
            run, experience, compute_targets(experience, experience.scores, config.algorithm, 0.1, run.mathematics), 1
        )
        return run

    yield make
    for context in worlds:
        context.__exit__(None, None, None)


def logprobs(model: torch.nn.Module, run: Run) -> torch.Tensor:
    tokens = torch.arange(2, 10)[None].repeat(3, 1)
    with torch.no_grad():
        return response_logprobs(model, tokens, torch.ones_like(tokens), 5, 1.0, entropy=False)[0]


@pytest.mark.parametrize("checkpointing", [False, True])
def test_an_update_moves_the_adapters_alone_and_never_the_reference(stepped: Callable, checkpointing: bool) -> None:
    run = stepped({**LORA, "model.enable_gradient_checkpointing": checkpointing})
    trained = {name for name, parameter in run.actor.named_parameters() if parameter.requires_grad}
    assert trained
    assert all("lora_" in name for name in trained)
    assert any(whole(item.detach()).any() for name, item in run.actor.named_parameters() if "lora_B" in name)
    critic = {name for name, parameter in run.critic.named_parameters() if parameter.requires_grad}
    assert {"head.weight", "head.bias"} <= critic
    assert all("lora_" in name or name.startswith("head.") for name in critic)

    examples = (*run.order.examples,)
    start = build_actor(run.config, examples, run.tokenizer, torch.device("cpu"), adapters=False)
    assert torch.allclose(logprobs(run.reference, run), logprobs(start, run), atol=1e-6)
    assert float((logprobs(run.actor, run) - logprobs(run.reference, run)).abs().max()) > 1e-3
    assert run.reference is not run.actor
    assert not list(run.reference.parameters())


def test_the_engine_samples_with_the_merged_weights(stepped: Callable) -> None:
    run = stepped(LORA)
    sync_engine(run, 1)
    engine_model = run.engine._model
    assert {name for name, _ in merged(run.actor, whole_weights(run.actor))} == {
        name for name, _ in engine_model.named_parameters()
    }
    assert torch.allclose(logprobs(engine_model, run), logprobs(run.actor, run), atol=1e-5)


def test_adapters_come_back_on_after_an_error(stepped: Callable) -> None:
    run = stepped(LORA)
    before = logprobs(run.actor, run)
    with pytest.raises(KeyError), adapters_off(run.actor):
        raise KeyError
    assert torch.equal(before, logprobs(run.actor, run))


def test_a_checkpoint_holds_what_is_trained_and_resumes_to_the_bit(
    tmp_path: Path, run_here: Callable, lines_of: Callable
) -> None:
    def curves(directory: Path) -> list[dict[str, float]]:
        return [
            {name: value for name, value in line["metrics"].items() if not name.startswith("perf/")}
            for line in lines_of(directory)
            if "metrics" in line
        ]

    assert run_here(tmp_path / "whole", LORA).code == 0
    assert run_here(tmp_path / "parts", {**LORA, "trainer.until_step": 2}).code == 0
    assert run_here(tmp_path / "parts", LORA).code == 0
    assert curves(tmp_path / "parts") == curves(tmp_path / "whole")
    saved = FileSystemReader(tmp_path / "whole" / "checkpoints" / "step_4").read_metadata().state_dict_metadata
    weights = [name for name in saved if name.startswith("actor.model.")]
    assert weights
    assert all("lora_" in name for name in weights)


@pytest.mark.parametrize("overrides", [{}, LORA], ids=["all-weights", "adapters"])
def test_an_exported_actor_is_what_from_pretrained_loads(
    tmp_path: Path, run_here: Callable, overrides: dict[str, object], capsys: pytest.CaptureFixture[str]
) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    assert run_here(tmp_path / "run", {**MOVING, **overrides}).code == 0
    assert export([str(tmp_path / "run"), "--out", str(tmp_path / "out")]) == 0
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    ids = tokenizer.encode("123:", add_special_tokens=False)
    assert ids == [3, 4, 5, 12]
    assert tokenizer.decode(ids) == "123:"
    assert not any("lora" in name for name in model.state_dict())
    assert json.loads((tmp_path / "out" / "training.json").read_text())["step"] == 4

    # Resumed at its last step the run evaluates nothing new, so its own greedy answers are asked for here.
    config = build(json.loads((tmp_path / "run" / "config.yaml").read_text()))
    from trainer.loop.session import resume

    with open_world(config.system) as world:
        run = build_run(config, world)
        resume(run, tmp_path / "run")
        assert torch.allclose(logprobs(run.actor, run), logprobs(model, run), atol=1e-5)
        assert float((logprobs(run.reference, run) - logprobs(model, run)).abs().max()) > 1e-3

    assert export([str(tmp_path / "run"), "--out", str(tmp_path / "out")]) == 1
    assert export([str(tmp_path / "run"), "--out", str(tmp_path / "other"), "--step", "3"]) == 1
    said = capsys.readouterr().err
    assert "exists (name a directory that does not exist yet)" in said
    assert "no checkpoint of step 3" in said
    assert "(there: 4)" in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "run"]


def test_a_tied_model_from_a_directory_trains_resumes_and_exports_with_adapters(
    tmp_path: Path, hf_model: Callable[..., Path], run_files: Callable
) -> None:
    from transformers import AutoModelForCausalLM

    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps({"prompt": char, "ground_truth": "1"}) + "\n" for char in "abcdefghijkl"))
    settings = {**LORA, "data": "jsonl", "data.train_file": str(path), "reward": "gsm8k", "trainer.total_steps": 3}
    settings |= {"reward.name": None, "reward.function": "trainer.rewards.builtin:prefix_match"}
    model = hf_model()
    assert run_files(tmp_path / "run", model, {**settings, "trainer.until_step": 2}).code == 0
    ended = run_files(tmp_path / "run", model, settings)
    assert (ended.code, ended.result["last_step"]) == (0, 3)
    assert "resuming after step 2" in ended.stderr
    assert export([str(tmp_path / "run"), "--out", str(tmp_path / "out")]) == 0
    before, after = (AutoModelForCausalLM.from_pretrained(where) for where in (model, tmp_path / "out"))
    assert after.lm_head.weight is after.model.embed_tokens.weight
    assert torch.equal(after.lm_head.weight, before.lm_head.weight)  # the head and the embeddings have no adapter
    moved = before.model.layers[0].mlp.up_proj.weight - after.model.layers[0].mlp.up_proj.weight
    assert torch.linalg.matrix_rank(moved.double(), tol=1e-6) <= 2


def test_a_rank_above_the_models_width_is_refused(tmp_path: Path, run_here: Callable) -> None:
    ended = run_here(tmp_path, {"model.lora_rank": 17, "model.hidden_size": 16})
    assert ended.result["error"]["kind"] == "config"
    assert "model.lora_rank: got 17, but the model is 16 wide" in ended.stderr
