"""Sampling: reproducible response by response, right against a slow oracle, refusing what is broken."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from trainer.config import ModelConfig, WarmStartConfig
from trainer.failures import NonFiniteError, WeightSyncError
from trainer.models.tiny import llama_config, new_llama
from trainer.rollout import HfEngine, Request, Sampling, check_version, sample_seed

SHAPE = ModelConfig(
    path="tiny",
    critic_path=None,
    trust_remote_code=False,
    hidden_size=16,
    intermediate_size=32,
    num_layers=2,
    num_heads=2,
    dtype="float32",
    enable_gradient_checkpointing=False,
    lora_rank=0,
    lora_alpha=16,
    warm_start=WarmStartConfig(steps=0, batch_size=1, lr=0.1, slip_fraction=0.0, seed=0),
)
PROMPTS = [[2, 3, 4], [5], [6, 7], [2, 2, 2, 2, 2]]
SAMPLING = Sampling(temperature=0.8, max_tokens=9)


def engine(max_batch_size: int = 64) -> HfEngine:
    model = new_llama(llama_config(SHAPE, vocab_size=9, max_length=32), seed=3).eval()
    for parameter in model.parameters():
        parameter.data.mul_(8.0)  # far from uniform, so that a mistake shows
    return HfEngine(model, pad_id=0, end_id=1, max_batch_size=max_batch_size)


def requests() -> list[Request]:
    return [Request(prompt=prompt, seed=sample_seed(0, 1, index, 0)) for index, prompt in enumerate(PROMPTS)]


def test_a_response_does_not_depend_on_its_neighbours() -> None:
    together = engine().generate(requests(), SAMPLING)
    small = engine(max_batch_size=3).generate(requests(), SAMPLING)
    backwards = engine().generate(requests()[::-1], SAMPLING)
    assert torch.equal(together.tokens, small.tokens)
    assert torch.equal(together.tokens, backwards.tokens.flip(0))
    assert torch.allclose(together.logprobs, backwards.logprobs.flip(0), atol=1e-5)


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_the_cached_decoding_equals_one_whole_forward_pass_per_token(temperature: float) -> None:
    sampled = engine()
    got = sampled.generate(requests(), Sampling(temperature=temperature, max_tokens=9))
    for row, request in enumerate(requests()):
        noise = np.random.Generator(np.random.Philox(key=request.seed)).random(9)
        ids, wanted, logprobs = list(request.prompt), [], []
        while len(wanted) < 9 and (not wanted or wanted[-1] != 1):
            with torch.no_grad():
                logits = sampled._model(input_ids=torch.tensor([ids])).logits[0, -1]
            p = (logits / (temperature or 1.0)).double().softmax(-1)
            token = int(logits.argmax()) if temperature == 0 else int((p.cumsum(0) < noise[len(wanted)]).sum())
            wanted.append(token)
            ids.append(token)
            logprobs.append(float(p[token].log()))
        length = int(got.mask[row].sum())
        assert got.tokens[row, :length].tolist() == wanted
        assert got.logprobs[row, :length].tolist() == pytest.approx(logprobs, abs=1e-4)
        assert bool(got.truncated[row]) == (wanted[-1] != 1)
        assert not got.tokens[row, length:].any()


def test_other_seeds_give_other_responses() -> None:
    first = engine().generate(requests(), SAMPLING)
    other = [Request(prompt=request.prompt, seed=request.seed + 1) for request in requests()]
    assert not torch.equal(first.tokens, engine().generate(other, SAMPLING).tokens)
    assert len({sample_seed(s, t, p, k) for s in range(3) for t in range(3) for p in range(3) for k in range(3)}) == 81


def test_sampled_tokens_have_the_models_frequencies() -> None:
    sampled = engine(max_batch_size=4000)
    many = [Request(prompt=[2, 3], seed=sample_seed(7, 0, 0, copy)) for copy in range(4000)]
    tokens = sampled.generate(many, Sampling(temperature=1.0, max_tokens=1)).tokens[:, 0]
    with torch.no_grad():
        wanted = sampled._model(input_ids=torch.tensor([[2, 3]])).logits[0, -1].softmax(-1)
    got = torch.bincount(tokens, minlength=9) / 4000
    assert float((got - wanted).abs().max()) < 0.03


def test_destroyed_weights_are_refused() -> None:
    broken = engine()
    broken.sync([("lm_head.weight", torch.full((9, 16), float("nan")))], policy_version=1)
    with pytest.raises(NonFiniteError, match="its weights are destroyed"):
        broken.generate(requests(), SAMPLING)


def test_stale_weights_are_refused() -> None:
    stale = engine()
    with pytest.raises(WeightSyncError, match="holds policy version -1, the actor is at 3"):
        check_version(stale, 3)
    stale.sync([], policy_version=3)
    check_version(stale, 3)
    assert stale.generate(requests(), SAMPLING).policy_version == 3


def test_an_answer_of_length_0_is_its_end_token_alone_and_an_answer_without_an_end_is_truncated() -> None:
    many = [Request(prompt=[2, 3], seed=seed) for seed in range(200)]
    got = engine(max_batch_size=256).generate(many, Sampling(temperature=20.0, max_tokens=2))
    empty, cut = got.tokens[:, 0].eq(1), ~got.tokens.eq(1).any(dim=1)
    assert bool(empty.any())
    assert got.mask[empty].tolist() == [[True, False]] * int(empty.sum())
    assert not got.tokens[empty, 1].any()
    assert not got.logprobs[empty, 1].any()
    assert torch.equal(got.truncated, cut)
    assert bool(got.mask[cut].all())
