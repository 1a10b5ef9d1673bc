"""Sequences end to end: the same numbers as with padding, for models whose attention allows it, and no others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.config import ConfigError
from trainer.loop.forward import response_logprobs
from trainer.loop.unpadded import join
from trainer.models.unpadded import UNPADDED, allow_unpadded

SIZES = {"vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4}


def llama(**more: object) -> torch.nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(LlamaConfig(**SIZES, intermediate_size=32, num_key_value_heads=2, **more))


def mistral() -> torch.nn.Module:
    from transformers import MistralConfig, MistralForCausalLM

    config = MistralConfig(**SIZES, intermediate_size=32, num_key_value_heads=2, sliding_window=3)
    return MistralForCausalLM(config)


def gpt2() -> torch.nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config(vocab_size=40, n_embd=16, n_layer=2, n_head=2, n_positions=32))


def qwen2() -> torch.nn.Module:
    from transformers import Qwen2Config, Qwen2ForCausalLM

    return Qwen2ForCausalLM(Qwen2Config(**SIZES, intermediate_size=32, num_key_value_heads=2))


def with_convolutions() -> torch.nn.Module:
    from transformers import Lfm2Config, Lfm2ForCausalLM

    shape = {**SIZES, "intermediate_size": 32, "num_key_value_heads": 2, "initializer_range": 0.3}
    return Lfm2ForCausalLM(Lfm2Config(**shape, layer_types=["conv", "full_attention"]))


MODELS = {"Llama": llama, "Mistral, sliding window": mistral, "GPT-2": gpt2, "Qwen2": qwen2}


def batch(lengths: list[tuple[int, int]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens and mask of prompts padded on the left to 4 and responses padded on the right to 7 places."""
    rows = [[0] * (4 - p) + [1] * p + [1] * r + [0] * (7 - r) for p, r in lengths]
    mask = torch.tensor(rows)
    generator = torch.Generator().manual_seed(0)
    return torch.where(mask.bool(), torch.randint(2, 40, mask.shape, generator=generator), 1), mask


@pytest.mark.parametrize("name", MODELS)
def test_log_probabilities_and_gradients_are_those_with_padding(name: str) -> None:
    torch.manual_seed(0)
    model = MODELS[name]().eval()
    tokens, mask = batch([(4, 7), (1, 1), (3, 0), (2, 7), (4, 3), (1, 4)])
    seen = []
    allow_unpadded(model)
    assert model.config._attn_implementation == UNPADDED
    for remove_padding in (False, True):
        logprobs, entropy = response_logprobs(model, tokens, mask, 7, 0.8, entropy=True, remove_padding=remove_padding)
        real = mask[:, -7:].bool()
        (logprobs[real].sum() + entropy[real].square().sum()).backward()
        gradient = torch.cat([p.grad.flatten() for p in model.parameters()])
        model.zero_grad()
        seen.append((logprobs[real].detach(), entropy[real].detach(), gradient))
        if remove_padding:
            assert not logprobs[~real].any()
    for padded, unpadded in zip(*seen, strict=True):
        assert torch.allclose(padded, unpadded, atol=1e-5)
    assert float(seen[0][2].norm()) > 1e-2


def test_a_model_that_mixes_tokens_otherwise_is_refused_with_the_difference() -> None:
    torch.manual_seed(0)
    with pytest.raises(ConfigError, match=r"use_remove_padding: got true, but Lfm2ForCausalLM computes something else"):
        allow_unpadded(with_convolutions().eval())


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 7)), min_size=1, max_size=8), st.integers(1, 8))
@settings(max_examples=60, deadline=None)
def test_values_of_joined_tokens_come_back_to_their_rows(lengths: list[tuple[int, int]], width: int) -> None:
    tokens, mask = batch(lengths)
    joined = join(tokens, mask)
    assert sum(count * length for count, length in joined.runs) == int(mask.sum()) == joined.tokens.shape[1]
    assert sum(count for count, _ in joined.runs) == len(lengths)
    back = joined.rows(joined.tokens[0, joined.places(width)], width)
    assert torch.equal(back, torch.where(mask.bool(), tokens, 0)[:, -width:])
    starts = [start for start, place in enumerate(joined.positions[0].tolist()) if place == 0]
    assert len(starts) == len(lengths)


def test_a_run_end_to_end_gives_the_curves_of_a_padded_one(
    tmp_path: Path, run_files: Callable, hf_model: Callable, lines_of: Callable
) -> None:
    rows = "".join(f'{{"prompt": "{"ab" * size}", "ground_truth": "1"}}\n' for size in range(1, 13))
    (tmp_path / "rows.jsonl").write_text(rows)
    (tmp_path / "lengths.py").write_text("def score(response): return len(response) / 5\n")
    shared = {
        "data": "jsonl",
        "data.train_file": str(tmp_path / "rows.jsonl"),
        "reward.name": None,
        "reward.function": "lengths:score",
        "model.lora_rank": 2,
        "model.enable_gradient_checkpointing": True,
        "trainer.ppo_epochs": 2,
    }
    model = hf_model()
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(tmp_path))
        for name, value in {"padded": False, "joined": True}.items():
            ended = run_files(tmp_path / name, model, {**shared, "trainer.use_remove_padding": value})
            assert ended.code == 0, ended.stderr
    padded, joined = lines_of(tmp_path / "padded"), lines_of(tmp_path / "joined")
    for left, right in zip(padded, joined, strict=True):
        for metric, value in left.get("metrics", {}).items():
            if not metric.startswith("perf/"):
                assert right["metrics"][metric] == pytest.approx(value, abs=1e-4), (left["step"], metric)
