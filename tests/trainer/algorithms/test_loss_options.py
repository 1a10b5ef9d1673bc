"""Dual clip, weights, aggregation, KL losses, importance weights and the price of length, against plain Python."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.algorithms import (
    DENOMINATORS,
    KL_LOSSES,
    clipped_policy_loss,
    clipped_value_loss,
    fitting_horizon,
    kl_controller,
    kl_k1,
    kl_k2,
    masked_sum,
    overlong_penalty,
    response_weights,
    truncated_importance,
)

LENGTHS = st.lists(st.integers(0, 5), min_size=1, max_size=4)


def prefix(lengths: list[int], width: int = 5) -> torch.Tensor:
    return torch.arange(width)[None, :] < torch.tensor(lengths)[:, None]


def numbers(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@given(LENGTHS, st.integers(0, 10_000), st.floats(0.05, 0.5), st.floats(0.05, 0.9), st.floats(2.0, 5.0))
@settings(max_examples=60, deadline=None)
def test_the_dual_clip_bounds_what_a_bad_token_can_lose(
    lengths: list[int], seed: int, low: float, high: float, most: float
) -> None:
    mask, rows = prefix(lengths), len(lengths)
    new, old, advantages, weights = (numbers(seed + k, rows, 5) for k in range(4))
    loss, clipped, dual = clipped_policy_loss(
        new, old, advantages, mask, clip_low=low, clip_high=high, clip_c=most, weights=weights
    )
    wanted, clips, duals = 0.0, 0, 0
    for row, length in enumerate(lengths):
        for t in range(length):
            a, ratio = float(advantages[row, t]), math.exp(float(new[row, t] - old[row, t]))
            limited = min(max(ratio, 1 - low), 1 + high)
            token = max(-a * ratio, -a * limited)
            clips += -a * limited > -a * ratio
            if a < 0 and token > -a * most:
                token = -a * most
                duals += 1
            wanted += token * float(weights[row, t])
    assert float(loss) == pytest.approx(wanted, abs=1e-9)
    assert (int(clipped), int(dual)) == (clips, duals)


def test_beyond_the_dual_clip_there_is_no_gradient() -> None:
    logprobs = torch.tensor([[2.0, 0.1]], requires_grad=True)
    old, advantages, mask = torch.zeros(1, 2), -torch.ones(1, 2), torch.ones(1, 2, dtype=torch.bool)
    clipped_policy_loss(logprobs, old, advantages, mask, clip_low=0.2, clip_high=0.2, clip_c=3.0)[0].backward()
    assert logprobs.grad is not None
    assert logprobs.grad[0, 0] == 0
    assert float(logprobs.grad[0, 1]) == pytest.approx(math.exp(0.1))


def test_clip_higher_lets_a_good_token_grow_further_and_a_bad_one_shrink_as_before() -> None:
    mask = torch.ones(1, 1, dtype=torch.bool)

    def gradient(ratio: float, advantage: float, high: float) -> float:
        logprobs = torch.tensor([[math.log(ratio)]], requires_grad=True)
        arguments = (logprobs, torch.zeros(1, 1), torch.full((1, 1), advantage), mask)
        clipped_policy_loss(*arguments, clip_low=0.2, clip_high=high)[0].backward()
        assert logprobs.grad is not None
        return float(logprobs.grad)

    assert gradient(1.25, 1.0, 0.2) == 0
    assert gradient(1.25, 1.0, 0.28) == pytest.approx(-1.25)
    assert gradient(0.75, -1.0, 0.2) == gradient(0.75, -1.0, 0.28) == 0


@pytest.mark.parametrize("mode", DENOMINATORS)
@given(LENGTHS, st.integers(0, 10_000))
@settings(max_examples=40, deadline=None)
def test_losses_are_averaged_as_the_mode_says(mode: str, lengths: list[int], seed: int) -> None:
    mask, losses = prefix(lengths), numbers(seed, len(lengths), 5)
    weights = response_weights(mask, mode)
    weighted = losses if weights is None else losses * weights
    got = float(masked_sum(weighted, mask) / DENOMINATORS[mode](mask))
    sums = [float(losses[row, :n].sum()) for row, n in enumerate(lengths)]
    spoken = max(1, sum(n > 0 for n in lengths))
    wanted = {
        "token-mean": sum(sums) / max(1, sum(lengths)),
        "seq-mean-token-sum": sum(sums) / spoken,
        "seq-mean-token-mean": sum(s / n for s, n in zip(sums, lengths, strict=True) if n) / spoken,
    }
    assert got == pytest.approx(wanted[mode], abs=1e-6)


def test_a_value_loss_takes_weights_too() -> None:
    values, returns, mask = torch.tensor([[1.0, 3.0]]), torch.zeros(1, 2), torch.ones(1, 2, dtype=torch.bool)
    loss, _ = clipped_value_loss(values, values, returns, mask, cliprange=1.0, weights=torch.tensor([[2.0, 0.5]]))
    assert float(loss) == pytest.approx(0.5 * (2.0 * 1.0 + 0.5 * 9.0))


@given(st.lists(st.floats(-2, 2), min_size=3, max_size=3), st.lists(st.floats(-2, 2), min_size=3, max_size=3))
@settings(max_examples=40, deadline=None)
def test_as_losses_k1_pulls_nowhere_k2_to_the_kl_and_k3_to_its_reverse(left: list[float], right: list[float]) -> None:
    q = torch.tensor(right, dtype=torch.float64).log_softmax(-1)

    def expected_gradient(estimator: object) -> torch.Tensor:
        """The mean over samples of p of the estimator's gradient; the sampling itself carries none."""
        logits = torch.tensor(left, dtype=torch.float64, requires_grad=True)
        p = logits.log_softmax(-1)
        (p.exp().detach() * estimator(p, q)).sum().backward()
        assert logits.grad is not None
        return logits.grad

    def exact_gradient(reverse: bool) -> torch.Tensor:
        logits = torch.tensor(left, dtype=torch.float64, requires_grad=True)
        p = logits.log_softmax(-1)
        ((q.exp() * (q - p)) if reverse else (p.exp() * (p - q))).sum().backward()
        assert logits.grad is not None
        return logits.grad

    assert torch.allclose(expected_gradient(kl_k1), torch.zeros(3, dtype=torch.float64), atol=1e-12)
    assert torch.allclose(expected_gradient(KL_LOSSES["k2"]), exact_gradient(reverse=False), atol=1e-9)
    assert torch.allclose(expected_gradient(KL_LOSSES["k3"]), exact_gradient(reverse=True), atol=1e-9)


def test_k2_survives_a_token_that_the_other_policy_excludes() -> None:
    assert float(kl_k2(torch.tensor(0.0), torch.tensor(-1e9))) == 200.0


@given(LENGTHS, st.integers(0, 10_000), st.floats(0.2, 3.0))
@settings(max_examples=40, deadline=None)
def test_importance_weights_are_ratios_cut_from_above(lengths: list[int], seed: int, threshold: float) -> None:
    mask, old, engine = prefix(lengths), numbers(seed, len(lengths), 5), numbers(seed + 1, len(lengths), 5)
    got = truncated_importance(old, engine, mask, threshold=threshold)
    for row, length in enumerate(lengths):
        for t in range(5):
            ratio = min(math.exp(float(old[row, t] - engine[row, t])), threshold)
            assert float(got[row, t]) == pytest.approx(ratio if t < length else 1.0)


def test_importance_weights_carry_no_gradient_and_survive_what_is_masked() -> None:
    old = torch.tensor([[0.0, float("nan"), 500.0]], requires_grad=True)
    got = truncated_importance(old, torch.zeros(1, 3), torch.tensor([[True, False, True]]), threshold=2.0)
    assert not got.requires_grad
    assert got.tolist() == [[1.0, 1.0, 2.0]]


@given(st.lists(st.integers(0, 8), min_size=1, max_size=5), st.integers(0, 8), st.floats(0.1, 2.0), st.data())
@settings(max_examples=60, deadline=None)
def test_the_price_of_length_rises_linearly_to_the_whole(
    lengths: list[int], buffer: int, penalty: float, data: st.DataObject
) -> None:
    cut = [n == 8 and data.draw(st.booleans()) for n in lengths]
    got = overlong_penalty(prefix(lengths, 8), torch.tensor(cut), penalty=penalty, buffer=buffer)
    for price, n, was_cut in zip(got.tolist(), lengths, cut, strict=True):
        share = min(max((n - (8 - buffer)) / buffer, 0.0), 1.0) if buffer else 0.0
        assert price == pytest.approx(penalty * (1.0 if was_cut else share), abs=1e-6)


@pytest.mark.parametrize("steps", [10, 40, 1000])
def test_a_fitting_horizon_lets_short_and_long_runs_adapt_alike(steps: int) -> None:
    controller = kl_controller("adaptive", kl_coef=1.0, target_kl=0.1, horizon=fitting_horizon(steps * 64))
    for _ in range(steps):
        controller = controller.updated(1.0, 64)
    assert 25 < controller.coef < 56


def test_a_horizon_is_at_least_one_response() -> None:
    assert fitting_horizon(1) == 1
