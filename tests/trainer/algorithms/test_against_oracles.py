"""Each formula against the same formula in plain Python, over masks, truncation, empty and one-token responses."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.algorithms import (
    clipped_policy_loss,
    clipped_value_loss,
    explained_variance,
    gae,
    kl_k1,
    kl_k3,
    kl_penalised_rewards,
    logprobs_and_entropy,
    masked_mean,
    masked_whiten,
    token_logprobs,
)

NUMBERS = st.floats(-3, 3, width=32)


@dataclass(frozen=True)
class Batch:
    """Random columns of one shape with a prefix mask per row (empty rows included)."""

    columns: list[list[list[float]]]
    lengths: list[int]
    last: list[float]

    def tensor(self, column: int) -> torch.Tensor:
        return torch.tensor(self.columns[column], dtype=torch.float64)

    @property
    def mask(self) -> torch.Tensor:
        time = len(self.columns[0][0])
        return torch.arange(time)[None, :] < torch.tensor(self.lengths)[:, None]


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    rows, time = draw(st.integers(1, 4)), draw(st.integers(1, 6))
    grid = st.lists(st.lists(NUMBERS, min_size=time, max_size=time), min_size=rows, max_size=rows)
    return Batch(
        columns=draw(st.lists(grid, min_size=4, max_size=4)),
        lengths=draw(st.lists(st.integers(0, time), min_size=rows, max_size=rows)),
        last=draw(st.lists(NUMBERS, min_size=rows, max_size=rows)),
    )


def close(got: torch.Tensor | float, wanted: object) -> bool:
    return torch.allclose(
        torch.as_tensor(got, dtype=torch.float64), torch.as_tensor(wanted, dtype=torch.float64), atol=1e-9
    )


@given(batches(), st.floats(0, 1), st.floats(0, 1))
@settings(max_examples=60, deadline=None)
def test_gae_is_the_discounted_sum_of_deltas(batch: Batch, gamma: float, lam: float) -> None:
    rewards, values = batch.tensor(0), batch.tensor(1)
    advantages, returns = gae(rewards, values, batch.mask, torch.tensor(batch.last).double(), gamma=gamma, lam=lam)
    for row, length in enumerate(batch.lengths):
        r, v = batch.columns[0][row][:length], [*batch.columns[1][row][:length], batch.last[row]]
        deltas = [r[t] + gamma * v[t + 1] - v[t] for t in range(length)]
        wanted = [sum((gamma * lam) ** (k - t) * deltas[k] for k in range(t, length)) for t in range(length)]
        padding = [0.0] * (len(batch.columns[0][row]) - length)
        assert close(advantages[row], wanted + padding)
        assert close(returns[row], [a + b for a, b in zip(wanted, v, strict=False)] + padding)


@given(batches(), st.data())
@settings(max_examples=40, deadline=None)
def test_gae_passes_over_holes_in_the_mask(batch: Batch, data: st.DataObject) -> None:
    time = len(batch.columns[0][0])
    holes = data.draw(st.lists(st.booleans(), min_size=time, max_size=time))
    mask = torch.tensor([holes])
    kept = [t for t in range(time) if holes[t]]
    rewards, values, last = batch.tensor(0)[:1], batch.tensor(1)[:1], torch.tensor(batch.last[:1]).double()
    with_holes, _ = gae(rewards, values, mask, last, gamma=0.9, lam=0.8)
    if kept:
        packed, _ = gae(rewards[:, kept], values[:, kept], mask[:, kept], last, gamma=0.9, lam=0.8)
        assert close(with_holes[:, kept], packed)
    assert not with_holes[:, [t for t in range(time) if not holes[t]]].any()


@given(batches(), st.floats(0, 1))
@settings(max_examples=60, deadline=None)
def test_the_score_lands_on_the_last_token_and_the_penalty_on_all(batch: Batch, kl_coef: float) -> None:
    rewards = kl_penalised_rewards(torch.tensor(batch.last).double(), batch.tensor(0), batch.mask, kl_coef=kl_coef)
    for row, length in enumerate(batch.lengths):
        wanted = [-kl_coef * kl if t < length else 0.0 for t, kl in enumerate(batch.columns[0][row])]
        if length:
            wanted[length - 1] += batch.last[row]
        assert close(rewards[row], wanted)


@given(batches(), st.floats(0.01, 0.9), st.floats(0.01, 0.9))
@settings(max_examples=60, deadline=None)
def test_the_policy_loss_is_ppos_clipped_surrogate(batch: Batch, low: float, high: float) -> None:
    loss, clipped, dual_clipped = clipped_policy_loss(
        batch.tensor(0), batch.tensor(1), batch.tensor(2), batch.mask, clip_low=low, clip_high=high
    )
    wanted, count = 0.0, 0
    for row, length in enumerate(batch.lengths):
        for t in range(length):
            new, old, advantage = (batch.columns[column][row][t] for column in range(3))
            ratio = math.exp(new - old)
            limited = min(max(ratio, 1 - low), 1 + high)
            wanted -= min(ratio * advantage, limited * advantage)
            count += -limited * advantage > -ratio * advantage
    assert close(loss, wanted)
    assert int(clipped) == count
    assert int(dual_clipped) == 0


@given(batches(), st.floats(0.01, 2))
@settings(max_examples=60, deadline=None)
def test_the_value_loss_is_half_the_worse_square(batch: Batch, cliprange: float) -> None:
    loss, clipped = clipped_value_loss(
        batch.tensor(0), batch.tensor(1), batch.tensor(2), batch.mask, cliprange=cliprange
    )
    wanted, count = 0.0, 0
    for row, length in enumerate(batch.lengths):
        for t in range(length):
            new, old, goal = (batch.columns[column][row][t] for column in range(3))
            limited = min(max(new, old - cliprange), old + cliprange)
            wanted += 0.5 * max((new - goal) ** 2, (limited - goal) ** 2)
            count += (limited - goal) ** 2 > (new - goal) ** 2
    assert close(loss, wanted)
    assert int(clipped) == count


@given(batches())
@settings(max_examples=40, deadline=None)
def test_whitening_gives_mean_0_and_variance_1_over_the_valid_tokens(batch: Batch) -> None:
    mask, values = batch.mask, batch.tensor(0)
    white = masked_whiten(values, mask)
    assert not white[~mask].any()
    valid = values[mask]
    if len(valid) < 2:
        assert close(white[mask], valid)
    elif float(valid.var(correction=0)) > 1e-3:
        assert abs(float(white[mask].mean())) < 1e-6
        assert float(white[mask].var(correction=0)) == pytest.approx(1.0, abs=1e-4)


def test_what_is_masked_cannot_poison_a_result() -> None:
    mask = torch.tensor([[True, False]])
    bad = torch.tensor([[1.0, float("nan")]])
    assert float(masked_mean(bad, mask)) == 1.0
    assert (
        masked_whiten(torch.tensor([[1.0, float("inf")], [3.0, 0.0]]), torch.tensor([[True, False]] * 2))
        .isfinite()
        .all()
    )
    assert kl_penalised_rewards(torch.ones(1), bad, mask, kl_coef=0.1).isfinite().all()
    advantages, returns = gae(bad, bad, mask, torch.zeros(1), gamma=1.0, lam=1.0)
    assert advantages.isfinite().all()
    assert returns.isfinite().all()
    logprobs = torch.tensor([[0.0, float("nan")]], requires_grad=True)
    clipped_policy_loss(logprobs, logprobs.detach(), bad, mask, clip_low=0.1, clip_high=0.1)[0].backward()
    assert logprobs.grad is not None
    assert logprobs.grad.tolist() == [[-1.0, 0.0]]
    values = torch.tensor([[2.0, float("nan")]], requires_grad=True)
    clipped_value_loss(values, values.detach(), bad, mask, cliprange=0.5)[0].backward()
    assert values.grad is not None
    assert values.grad.tolist() == [[1.0, 0.0]]


def test_nothing_valid_gives_zero() -> None:
    mask = torch.zeros(2, 3, dtype=torch.bool)
    assert float(masked_mean(torch.ones(2, 3), mask)) == 0.0
    assert float(explained_variance(torch.ones(2, 3), torch.ones(2, 3), mask)) == 0.0


@given(st.lists(st.floats(-2, 2), min_size=3, max_size=3), st.lists(st.floats(-2, 2), min_size=3, max_size=3))
@settings(max_examples=40, deadline=None)
def test_both_estimators_have_the_kl_as_their_mean(left: list[float], right: list[float]) -> None:
    p, q = (torch.tensor(logits, dtype=torch.float64).log_softmax(-1) for logits in (left, right))
    exact = float((p.exp() * (p - q)).sum())
    assert float((p.exp() * kl_k1(p, q)).sum()) == pytest.approx(exact, abs=1e-9)
    assert float((p.exp() * kl_k3(p, q)).sum()) == pytest.approx(exact, abs=1e-9)
    assert bool((kl_k3(p, q) >= 0).all())


def test_k3_survives_a_token_that_the_other_policy_excludes() -> None:
    assert torch.isfinite(kl_k3(torch.tensor([-200.0]), torch.tensor([0.0]))).all()


@given(st.lists(st.floats(-4, 4), min_size=2, max_size=5), st.floats(0.3, 3))
@settings(max_examples=40, deadline=None)
def test_logprobs_and_entropy_follow_the_tempered_softmax(logits: list[float], temperature: float) -> None:
    weights = [math.exp(z / temperature) for z in logits]
    p = [weight / sum(weights) for weight in weights]
    row = torch.tensor([[logits] * len(logits)], dtype=torch.float32)
    tokens = torch.arange(len(logits))[None, :]
    assert torch.allclose(
        token_logprobs(row, tokens, temperature=temperature)[0], torch.tensor([math.log(x) for x in p]), atol=1e-4
    )
    entropy = -sum(x * math.log(x) for x in p)
    entropies = logprobs_and_entropy(row, tokens, temperature=temperature, entropy=True)[1]
    assert entropies is not None
    assert float(entropies[0, 0]) == pytest.approx(entropy, abs=1e-4)


def test_explained_variance_is_1_for_a_perfect_critic_and_0_for_a_constant_one() -> None:
    returns, mask = torch.tensor([[1.0, 2.0, 4.0]]), torch.ones(1, 3, dtype=torch.bool)
    assert float(explained_variance(returns, returns, mask)) == pytest.approx(1.0)
    assert float(explained_variance(torch.full((1, 3), 7.0), returns, mask)) == pytest.approx(0.0, abs=1e-5)
    assert float(explained_variance(-returns, returns, mask)) < 0
