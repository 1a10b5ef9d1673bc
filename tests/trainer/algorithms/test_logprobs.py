"""Log-probabilities and entropy in chunks: values and gradients of the whole, and no second tensor of their size."""

from __future__ import annotations

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from trainer.algorithms import logprobs_and_entropy

VOCAB = 7


def example(batch: int = 3, time: int = 5, vocab: int = VOCAB) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(batch, time + 1, vocab, generator=generator)
    return logits, torch.randint(vocab, (batch, time), generator=generator)


def plain(logits: torch.Tensor, tokens: torch.Tensor, temperature: float) -> tuple[torch.Tensor, torch.Tensor]:
    logs = (logits[:, : tokens.shape[1]].float() / temperature).log_softmax(dim=-1)
    return logs.gather(-1, tokens.unsqueeze(-1)).squeeze(-1), -(logs.exp() * logs).sum(dim=-1)


@pytest.mark.parametrize("chunk", [1, VOCAB, 3 * VOCAB, 5 * VOCAB, 11 * VOCAB, 10**6])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("reuse", [False, True])
def test_any_chunk_gives_the_values_and_gradients_of_the_whole(chunk: int, temperature: float, reuse: bool) -> None:
    values, tokens = example()
    leaf, twin = values.clone().requires_grad_(), values.clone().requires_grad_()
    options = {"temperature": temperature, "entropy": True, "reuse": reuse, "chunk": chunk}
    logprobs, entropies = logprobs_and_entropy(leaf * 1.0, tokens, **options)
    wanted_logprobs, wanted_entropies = plain(twin, tokens, temperature)
    assert torch.allclose(logprobs, wanted_logprobs, atol=1e-6)
    assert torch.allclose(entropies, wanted_entropies, atol=1e-6)
    weights = torch.linspace(-1, 2, tokens.numel()).view_as(tokens)
    ((logprobs * weights).sum() + 0.3 * (entropies * weights.flip(0)).sum()).backward()
    ((wanted_logprobs * weights).sum() + 0.3 * (wanted_entropies * weights.flip(0)).sum()).backward()
    assert torch.allclose(leaf.grad, twin.grad, atol=1e-6)
    assert not leaf.grad[:, -1].any(), "a place without a token has no gradient"


def test_without_entropy_only_the_logprobs_carry_a_gradient() -> None:
    values, tokens = example()
    leaf, twin = values.clone().requires_grad_(), values.clone().requires_grad_()
    logprobs, entropies = logprobs_and_entropy(leaf, tokens, temperature=1.0, entropy=False)
    assert entropies is None
    logprobs.sum().backward()
    plain(twin, tokens, 1.0)[0].sum().backward()
    assert torch.allclose(leaf.grad, twin.grad, atol=1e-6)


def test_bfloat16_logits_are_read_in_float32_and_their_gradient_is_bfloat16() -> None:
    values, tokens = example()
    leaf = values.bfloat16().requires_grad_()
    logprobs, _ = logprobs_and_entropy(leaf * 1.0, tokens, temperature=1.0, entropy=True, reuse=True)
    assert logprobs.dtype == torch.float32
    assert torch.allclose(logprobs, plain(leaf.detach(), tokens, 1.0)[0], atol=1e-6)
    logprobs.sum().backward()
    assert leaf.grad.dtype == torch.bfloat16


def test_logits_that_were_written_over_cannot_be_used_again_unnoticed() -> None:
    values, tokens = example()
    logits = values.requires_grad_() * 1.0
    squares = logits.square().sum()  # wants the logits in its backward pass
    logprobs, _ = logprobs_and_entropy(logits, tokens, temperature=1.0, entropy=False, reuse=True)
    logprobs.sum().backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        squares.backward()


def peak_bytes(run: object) -> int:
    """The most memory that torch held at once beyond what was there before, from the allocator's own record."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        run()
    held = most = 0
    for event in record.profiler.kineto_results.events():
        if event.name() == "[memory]":
            held += event.nbytes()
            most = max(most, held)
    return most


@pytest.mark.parametrize("entropy", [False, True])
def test_forward_and_backward_hold_no_second_tensor_of_the_logits_size(entropy: bool) -> None:
    vocab, width = 16_384, 8
    hidden = torch.randn(4, 65, width, requires_grad=True)
    head = torch.randn(width, vocab, requires_grad=True)
    tokens = torch.randint(vocab, (4, 64))
    size = 4 * 65 * vocab * 4  # 17 MB of logits

    def backward(logprobs: torch.Tensor, entropies: torch.Tensor | None) -> None:
        (logprobs.sum() + (entropies.sum() if entropies is not None else 0.0)).backward()
        hidden.grad = head.grad = None

    def chunked() -> None:
        options = {"temperature": 0.7, "entropy": entropy, "reuse": True, "chunk": 4 * 65 * vocab // 32}
        backward(*logprobs_and_entropy(hidden @ head, tokens, **options))

    def whole() -> None:
        logprobs, entropies = plain(hidden @ head, tokens, 0.7)
        backward(logprobs, entropies if entropy else None)

    held, usual = peak_bytes(chunked) / size, peak_bytes(whole) / size
    assert 1.0 <= held < 1.25, held  # the logits, and the temporaries of a thirty-second of them
    assert usual > 2.9, usual
