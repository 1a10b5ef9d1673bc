"""DPO, IPO and KTO against the same formulas in plain Python, over masks, empty and one-token answers."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.algorithms import dpo_loss, ipo_loss, kl_baseline, kto_loss, num_ranked_right, sequence_logprobs

NUMBERS = st.floats(-3, 3, width=32)
RATIOS = st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=6)
BETAS = st.floats(0.01, 2.0)


def log_sigmoid(x: float) -> float:
    return -math.log1p(math.exp(-x)) if x >= 0 else x - math.log1p(math.exp(x))


def columns(pairs: list[tuple[float, float]]) -> tuple[torch.Tensor, torch.Tensor]:
    chosen, rejected = zip(*pairs, strict=True)
    return torch.tensor(chosen, dtype=torch.float64), torch.tensor(rejected, dtype=torch.float64)


@given(st.lists(st.lists(NUMBERS, min_size=5, max_size=5), min_size=1, max_size=4), st.data())
@settings(max_examples=60, deadline=None)
def test_the_logprob_of_a_response_is_the_sum_over_its_own_tokens(rows: list[list[float]], data: st.DataObject) -> None:
    lengths = data.draw(st.lists(st.integers(0, 5), min_size=len(rows), max_size=len(rows)))
    mask = torch.arange(5)[None, :] < torch.tensor(lengths)[:, None]
    poisoned = torch.where(mask, torch.tensor(rows, dtype=torch.float64), torch.nan)
    whole = [sum(row[:length]) for row, length in zip(rows, lengths, strict=True)]
    assert sequence_logprobs(poisoned, mask).tolist() == pytest.approx(whole, abs=1e-9)
    each = [total / max(1, length) for total, length in zip(whole, lengths, strict=True)]
    assert sequence_logprobs(poisoned, mask, per_token=True).tolist() == pytest.approx(each, abs=1e-9)


def test_padding_gets_no_gradient_not_even_a_nan() -> None:
    logprobs = torch.tensor([[-1.0, math.nan], [-2.0, -0.5]], requires_grad=True)
    mask = torch.tensor([[True, False], [True, True]])
    dpo_loss(*sequence_logprobs(logprobs, mask), beta=1.0).backward()
    assert logprobs.grad is not None
    assert logprobs.grad.isfinite().all()
    assert logprobs.grad[0, 1] == 0.0


@given(RATIOS, BETAS, st.floats(0.0, 0.49))
@settings(max_examples=60, deadline=None)
def test_dpo_is_the_cross_entropy_of_preferences_that_may_be_wrong(
    pairs: list[tuple[float, float]], beta: float, smoothing: float
) -> None:
    loss = dpo_loss(*columns(pairs), beta=beta, label_smoothing=smoothing)
    margins = [beta * (chosen - rejected) for chosen, rejected in pairs]
    wanted = -sum((1 - smoothing) * log_sigmoid(m) + smoothing * log_sigmoid(-m) for m in margins)
    assert float(loss) == pytest.approx(wanted, abs=1e-9)


@given(RATIOS, BETAS)
@settings(max_examples=40, deadline=None)
def test_ipo_is_the_squared_distance_to_its_margin(pairs: list[tuple[float, float]], beta: float) -> None:
    wanted = sum((chosen - rejected - 1 / (2 * beta)) ** 2 for chosen, rejected in pairs)
    assert float(ipo_loss(*columns(pairs), beta=beta)) == pytest.approx(wanted, rel=1e-9, abs=1e-9)


def test_with_smoothing_the_margin_has_an_end_and_without_it_has_none() -> None:
    def slope(margin: float, smoothing: float) -> float:
        chosen = torch.tensor([margin], dtype=torch.float64, requires_grad=True)
        dpo_loss(chosen, torch.zeros(1, dtype=torch.float64), beta=1.0, label_smoothing=smoothing).backward()
        assert chosen.grad is not None
        return float(chosen.grad)

    assert slope(math.log(0.8 / 0.2), 0.2) == pytest.approx(0.0, abs=1e-12)
    assert slope(4.0, 0.2) > 0 > slope(4.0, 0.0)


def test_an_extreme_margin_neither_overflows_nor_loses_its_gradient() -> None:
    chosen = torch.tensor([-5e4], requires_grad=True)
    loss = dpo_loss(chosen, torch.zeros(1), beta=1.0)
    loss.backward()
    assert float(loss.detach()) == pytest.approx(5e4)
    assert chosen.grad is not None
    assert float(chosen.grad) == pytest.approx(-1.0)


@given(st.lists(st.tuples(NUMBERS, st.booleans()), min_size=1, max_size=6), NUMBERS, BETAS, BETAS, BETAS)
@settings(max_examples=60, deadline=None)
def test_kto_weighs_gains_and_losses_against_the_baseline(
    answers: list[tuple[float, bool]], mean: float, beta: float, good: float, bad: float
) -> None:
    baseline = kl_baseline(torch.tensor(mean * len(answers), dtype=torch.float64), len(answers))
    zero = max(0.0, mean)
    assert float(baseline) == pytest.approx(zero, abs=1e-9)
    wanted = 0.0
    for ratio, label in answers:
        distance = beta * (ratio - zero) if label else beta * (zero - ratio)
        wanted += (good if label else bad) * (1 - 1 / (1 + math.exp(-distance)))
    ratios, labels = zip(*answers, strict=True)
    loss = kto_loss(
        torch.tensor(ratios, dtype=torch.float64),
        torch.tensor(labels),
        baseline,
        beta=beta,
        desirable_weight=good,
        undesirable_weight=bad,
    )
    assert float(loss) == pytest.approx(wanted, abs=1e-9)


def test_the_baseline_carries_no_gradient() -> None:
    total = torch.tensor(3.0, requires_grad=True)
    assert not kl_baseline(total, 2).requires_grad


@given(RATIOS)
@settings(max_examples=30, deadline=None)
def test_a_tie_counts_half(pairs: list[tuple[float, float]]) -> None:
    wanted = sum(1.0 if a > b else 0.5 if a == b else 0.0 for a, b in pairs)
    assert float(num_ranked_right(*columns(pairs))) == wanted
