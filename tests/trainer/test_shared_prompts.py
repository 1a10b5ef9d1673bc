"""A prompt computed once for all its responses: the same numbers and the same gradients."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM, PreTrainedModel

from trainer.config import ModelConfig, build, compose
from trainer.loop.forward import response_logprobs
from trainer.loop.shared_prompts import Groups, prompt_groups, shared_logprobs
from trainer.models.lora import WithoutAdapters, add_adapters

SIZES = {
    "vocab_size": 23,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
}
PROMPT, LENGTH = 6, 5


def llama(**shape: object) -> LlamaForCausalLM:
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(**{**SIZES, **shape})).eval()


def batch(*prompts: list[int], lengths: list[int]) -> tuple[Tensor, Tensor]:
    """Rows of a prompt and a random response, padded as the loop pads them."""
    draw = torch.Generator().manual_seed(1)
    tokens = torch.zeros(len(prompts), PROMPT + LENGTH, dtype=torch.long)
    mask = torch.zeros_like(tokens)
    for row, (prompt, length) in enumerate(zip(prompts, lengths, strict=True)):
        tokens[row, PROMPT - len(prompt) : PROMPT] = torch.tensor(prompt)
        tokens[row, PROMPT : PROMPT + length] = torch.randint(2, 23, (length,), generator=draw)
        mask[row, PROMPT - len(prompt) : PROMPT + length] = 1
    return tokens, mask


A, B, C = [5, 6, 7, 8], [9, 10], [5, 6, 7, 9]
ROWS = batch(A, B, A, C, B, A, lengths=[4, 3, 1, 4, 2, 4])


def groups_of(model: torch.nn.Module, tokens: Tensor, mask: Tensor) -> Groups:
    found = prompt_groups(model, tokens, mask, LENGTH, worthwhile=0)
    assert found is not None
    return found


def gradients(model: torch.nn.Module, values: Tensor, mask: Tensor) -> dict[str, Tensor]:
    model.zero_grad()
    weights = torch.linspace(0.5, 1.5, values.numel()).view_as(values)
    (values * weights * mask[:, PROMPT:]).sum().backward()
    return {name: item.grad.clone() for name, item in model.named_parameters() if item.grad is not None}


def test_equal_prompts_are_found_wherever_they_are() -> None:
    groups = groups_of(llama(), *ROWS)
    assert groups.first.tolist() == [0, 1, 3]
    assert groups.of_row.tolist() == [0, 1, 0, 2, 1, 0]
    assert (groups.prompt, groups.response) == (4, 4)


def test_padding_is_no_token_of_a_prompt() -> None:
    tokens, mask = batch([0, 0, 5], [5], lengths=[2, 2])
    assert prompt_groups(llama(), tokens, mask, LENGTH, worthwhile=0) is None


@pytest.mark.parametrize("length", [4, 1])
def test_numbers_and_gradients_are_those_of_whole_sequences(length: int) -> None:
    model = llama()
    tokens, mask = ROWS if length == 4 else batch(A, B, A, C, B, A, lengths=[1] * 6)
    real = mask[:, PROMPT:].bool()
    whole, entropy = response_logprobs(model, tokens, mask, LENGTH, 0.7, entropy=True)
    wanted = gradients(model, whole + 0.1 * entropy, mask)
    shared, also = shared_logprobs(model, tokens, mask, LENGTH, 0.7, groups_of(model, tokens, mask), entropy=True)
    got = gradients(model, shared + 0.1 * also, mask)
    assert torch.allclose(shared[real], whole[real], atol=1e-5)
    assert torch.allclose(also[real], entropy[real], atol=1e-5)
    assert shared.shape == whole.shape
    assert got.keys() == wanted.keys()
    for name, gradient in wanted.items():
        assert torch.allclose(got[name], gradient, atol=1e-5), name


def test_the_loop_shares_what_is_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    model, (tokens, mask) = llama(), ROWS
    widths: list[tuple[int, ...]] = []
    model.register_forward_pre_hook(
        lambda _, arguments, named: widths.append(tuple(named["input_ids"].shape)), with_kwargs=True
    )
    response_logprobs(model, tokens, mask, LENGTH, 1.0, entropy=False)
    assert widths == [(6, PROMPT + LENGTH)]  # some dozen tokens of a small model: not worth it
    monkeypatch.setattr("trainer.loop.shared_prompts.WORTHWHILE", {"cpu": 1})
    response_logprobs(model, tokens, mask, LENGTH, 1.0, entropy=False)
    assert widths[1:] == [(3, 4), (6, 3)]  # three prompts of up to 4 tokens, then all but the last token of responses


def test_a_reference_that_is_the_actor_without_adapters_shares_too() -> None:
    model, (tokens, mask) = llama(), ROWS
    plain, _ = response_logprobs(model, tokens, mask, LENGTH, 1.0, entropy=False)
    add_adapters(model, lora(), seed=0)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter)
    reference = WithoutAdapters(model)
    groups = groups_of(reference, tokens, mask)
    shared, _ = shared_logprobs(reference, tokens, mask, LENGTH, 1.0, groups, entropy=False)
    real = mask[:, PROMPT:].bool()
    assert torch.allclose(shared[real], plain[real], atol=1e-5)


def lora() -> ModelConfig:
    return build(compose(overrides={"model.lora_rank": 2})).model


def windowed() -> PreTrainedModel:
    return MistralForCausalLM(MistralConfig(**{**SIZES, "sliding_window": 3})).eval()


def checkpointed() -> PreTrainedModel:
    model = llama()
    model.gradient_checkpointing_enable({"use_reentrant": False})
    return model.train()


@pytest.mark.parametrize("make", [windowed, checkpointed])
def test_a_model_that_keeps_no_whole_prompt_computes_whole_sequences(make: object) -> None:
    assert prompt_groups(make(), *ROWS, LENGTH, worthwhile=0) is None


def test_different_prompts_have_nothing_to_share() -> None:
    tokens, mask = batch(A, B, C, lengths=[2, 2, 2])
    assert prompt_groups(llama(), tokens, mask, LENGTH, worthwhile=0) is None
