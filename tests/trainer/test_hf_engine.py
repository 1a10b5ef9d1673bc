"""The engine's savings: weights held once, prompts read once, ended rows dropped. None of them shows in a response."""

from __future__ import annotations

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from trainer.rollout import HfEngine, Request, Response, Sampling, sample_seed


def model(*, tied: bool = False) -> LlamaForCausalLM:
    torch.manual_seed(0)
    made = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=8,
            hidden_size=16,
            intermediate_size=24,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=1,
            max_position_embeddings=64,
            tie_word_embeddings=tied,
        )
    )
    for parameter in made.parameters():
        parameter.data.mul_(3.0)
    return made.eval().requires_grad_(False)


def engine(max_batch_size: int = 64, end_id: int = 1) -> HfEngine:
    return HfEngine(model(), pad_id=0, end_id=end_id, max_batch_size=max_batch_size)


def groups(prompts: list[list[int]], copies: int) -> list[Request]:
    return [
        Request(prompt=prompt, seed=sample_seed(0, 1, index, copy))
        for index, prompt in enumerate(prompts)
        for copy in range(copies)
    ]


def one_by_one(requests: list[Request], sampling: Sampling) -> Response:
    alone = [engine().generate([request], sampling) for request in requests]
    return Response(
        **{
            name: torch.cat([getattr(part, name) for part in alone])
            for name in ("tokens", "mask", "logprobs", "truncated")
        },
        policy_version=-1,
    )


@pytest.mark.parametrize("max_batch_size", [64, 5])
def test_groups_of_responses_are_those_that_each_request_gets_alone(max_batch_size: int) -> None:
    requests, sampling = (
        groups([[2, 3, 4], [5], [2, 3, 4, 6], [7, 7]], copies=4),
        Sampling(temperature=0.9, max_tokens=40),
    )
    got, wanted = engine(max_batch_size).generate(requests, sampling), one_by_one(requests, sampling)
    lengths = wanted.mask.sum(dim=1)
    assert int(lengths.min()) < int(lengths.median()) < int(lengths.max())  # rows do end, one after the other
    for name in ("tokens", "mask", "truncated"):
        assert torch.equal(getattr(got, name), getattr(wanted, name)), name
    assert torch.allclose(got.logprobs, wanted.logprobs, atol=1e-5)


def test_each_distinct_prompt_is_read_once_and_ended_rows_are_dropped() -> None:
    sampler = engine()
    shapes: list[tuple[int, ...]] = []
    sampler._model.register_forward_pre_hook(
        lambda _, arguments, named: shapes.append(tuple(named["input_ids"].shape)), with_kwargs=True
    )
    response = sampler.generate(groups([[2, 3, 4], [5, 6, 7]], copies=8), Sampling(temperature=0.9, max_tokens=40))
    alive = response.mask.sum(dim=0).tolist()
    assert shapes[0] == (2, 3)
    assert shapes[1] == (16, 1)
    for (rows, _), needed in zip(shapes[2:], alive[2:], strict=False):
        assert rows == needed or needed < rows < 2 * needed
    assert shapes[-1][0] < 8


def test_the_actors_tensors_are_held_not_copied() -> None:
    sampler, actor = engine(), model()
    sampler.sync(((name, item.detach()) for name, item in actor.named_parameters()), policy_version=3)
    for name, parameter in sampler._model.named_parameters():
        assert parameter.data_ptr() == actor.get_parameter(name).data_ptr(), name


def test_a_tensor_of_another_type_is_converted() -> None:
    sampler, actor = engine(), model().bfloat16()
    sampler.sync(((name, item.detach()) for name, item in actor.named_parameters()), policy_version=3)
    for name, parameter in sampler._model.named_parameters():
        assert parameter.dtype == torch.float32
        assert torch.equal(parameter, actor.get_parameter(name).float()), name


def test_tied_embeddings_stay_tied() -> None:
    sampler = HfEngine(model(tied=True), pad_id=0, end_id=1, max_batch_size=4)
    actor = model(tied=True)
    actor.get_input_embeddings().weight.data.mul_(0.5)
    sampler.sync(((name, item.detach()) for name, item in actor.named_parameters()), policy_version=0)
    held = sampler._model
    assert held.get_output_embeddings().weight is held.get_input_embeddings().weight
    assert torch.equal(held.get_output_embeddings().weight, actor.get_input_embeddings().weight)
