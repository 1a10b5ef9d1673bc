"""Advantages without a critic against plain Python: groups of any size, masks, empty and one-token responses."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.algorithms import GROUP_ESTIMATORS, dr_grpo, grpo, masked_whiten, reinforce_pp, rloo


@dataclass(frozen=True)
class Groups:
    """Token rewards of prompts with `size` responses each, neighbours in the batch."""

    rewards: list[list[float]]
    lengths: list[int]
    size: int

    @property
    def tensor(self) -> torch.Tensor:
        return torch.tensor(self.rewards, dtype=torch.float64)

    @property
    def mask(self) -> torch.Tensor:
        return torch.arange(len(self.rewards[0]))[None, :] < torch.tensor(self.lengths)[:, None]

    @property
    def scores(self) -> list[list[float]]:
        flat = [sum(row[:length]) for row, length in zip(self.rewards, self.lengths, strict=True)]
        return [flat[start : start + self.size] for start in range(0, len(flat), self.size)]

    def spread(self, groups: list[list[float]]) -> torch.Tensor:
        """One number per response as one per valid token."""
        flat = [value for group in groups for value in group]
        width = len(self.rewards[0])
        rows = [[value] * n + [0.0] * (width - n) for value, n in zip(flat, self.lengths, strict=True)]
        return torch.tensor(rows, dtype=torch.float64)


@st.composite
def groups(draw: st.DrawFn) -> Groups:
    prompts, size, time = draw(st.integers(1, 3)), draw(st.integers(1, 4)), draw(st.integers(1, 5))
    quarters = st.integers(-12, 12).map(lambda number: number / 4)
    rows = prompts * size
    return Groups(
        rewards=draw(st.lists(st.lists(quarters, min_size=time, max_size=time), min_size=rows, max_size=rows)),
        lengths=draw(st.lists(st.integers(0, time), min_size=rows, max_size=rows)),
        size=size,
    )


def close(left: torch.Tensor, right: torch.Tensor) -> bool:
    return torch.allclose(left, right, atol=1e-9)


@given(groups())
@settings(max_examples=60, deadline=None)
def test_grpo_is_the_distance_to_the_groups_mean_in_deviations(batch: Groups) -> None:
    wanted = []
    for group in batch.scores:
        mean, deviation = (0.0, 1.0) if len(group) == 1 else (statistics.fmean(group), statistics.stdev(group))
        scale = deviation if len(group) == 1 else deviation + 1e-6
        wanted.append([(score - mean) / scale for score in group])
    assert close(grpo(batch.tensor, batch.mask, group_size=batch.size), batch.spread(wanted))


@given(groups())
@settings(max_examples=60, deadline=None)
def test_dr_grpo_is_the_distance_to_the_groups_mean(batch: Groups) -> None:
    wanted = [[score - (statistics.fmean(g) if len(g) > 1 else 0.0) for score in g] for g in batch.scores]
    for name in ("dr_grpo", "reinforce_pp_baseline"):
        got = GROUP_ESTIMATORS[name](batch.tensor, batch.mask, group_size=batch.size)
        assert close(got, batch.spread(wanted))


@given(groups())
@settings(max_examples=60, deadline=None)
def test_rloo_leaves_one_out(batch: Groups) -> None:
    wanted = []
    for group in batch.scores:
        others = [[*group[:i], *group[i + 1 :]] for i in range(len(group))]
        wanted.append([s - (statistics.fmean(rest) if rest else 0.0) for s, rest in zip(group, others, strict=True)])
    assert close(rloo(batch.tensor, batch.mask, group_size=batch.size), batch.spread(wanted))


@given(groups(), st.floats(0, 1))
@settings(max_examples=60, deadline=None)
def test_reinforce_pp_is_the_discounted_return_of_each_token(batch: Groups, gamma: float) -> None:
    got = reinforce_pp(batch.tensor, batch.mask, group_size=batch.size, gamma=gamma)
    for row, length in enumerate(batch.lengths):
        rewards = batch.rewards[row][:length]
        wanted = [sum(gamma ** (k - t) * rewards[k] for k in range(t, length)) for t in range(length)]
        padding = [0.0] * (len(batch.rewards[0]) - length)
        assert close(got[row], torch.tensor(wanted + padding, dtype=torch.float64))


def test_reinforce_pp_passes_over_holes_in_the_mask() -> None:
    rewards, mask = torch.tensor([[1.0, 9.0, 3.0]]), torch.tensor([[True, False, True]])
    assert reinforce_pp(rewards, mask, group_size=1, gamma=0.5).tolist() == [[2.5, 0.0, 3.0]]


@pytest.mark.parametrize("name", GROUP_ESTIMATORS)
def test_in_a_group_of_one_the_score_is_the_advantage(name: str) -> None:
    rewards, mask = torch.tensor([[0.0, 2.0], [3.0, 7.0]]), torch.tensor([[True, True], [True, False]])
    got = GROUP_ESTIMATORS[name](rewards, mask, group_size=1, gamma=1.0)
    assert got.tolist() == [[2.0, 2.0], [3.0, 0.0]]


@pytest.mark.parametrize("size", [2, 3, 5, 7])
def test_a_group_that_agrees_says_nothing_even_where_rounding_would(size: int) -> None:
    rewards = torch.full((size, 1), 0.1)
    mask = torch.ones(size, 1, dtype=torch.bool)
    assert not grpo(rewards, mask, group_size=size).any()
    assert dr_grpo(rewards, mask, group_size=size).abs().max() < 1e-7


@pytest.mark.parametrize("name", GROUP_ESTIMATORS)
def test_what_is_masked_has_no_influence(name: str) -> None:
    clean = torch.tensor([[1.0, 2.0, 0.0], [3.0, 0.0, 0.0]])
    mask = torch.tensor([[True, True, False], [True, False, False]])
    dirty = torch.where(mask, clean, torch.tensor(float("nan")))
    estimator = GROUP_ESTIMATORS[name]
    assert torch.equal(estimator(dirty, mask, group_size=2, gamma=0.9), estimator(clean, mask, group_size=2, gamma=0.9))
    nothing = estimator(dirty, torch.zeros_like(mask), group_size=2, gamma=0.9)
    assert not nothing.any()
    assert not masked_whiten(nothing, torch.zeros_like(mask)).any()


def test_a_batch_that_does_not_make_groups_is_refused() -> None:
    with pytest.raises(ValueError, match="5 responses do not make groups of 2"):
        grpo(torch.zeros(5, 1), torch.ones(5, 1, dtype=torch.bool), group_size=2)
