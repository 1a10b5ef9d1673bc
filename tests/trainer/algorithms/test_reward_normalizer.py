"""The running scale of the scores, against the statistics of all of them at once."""

from __future__ import annotations

import json
import statistics

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from trainer.algorithms import RewardNormalizer

SCORES = st.floats(-1e3, 1e3, width=32)
BATCHES = st.lists(st.lists(SCORES, max_size=9), min_size=1, max_size=6)


def after(batches: list[list[float]]) -> RewardNormalizer:
    normalizer = RewardNormalizer()
    for batch in batches:
        normalizer = normalizer.updated(torch.tensor(batch))
    return normalizer


@given(batches=BATCHES)
def test_merged_batches_are_one_batch(batches: list[list[float]]) -> None:
    together = [score for batch in batches for score in batch]
    normalizer = after(batches)
    assert normalizer.count == len(together)
    if together:
        assert normalizer.mean == pytest.approx(statistics.fmean(together), abs=1e-6, rel=1e-6)
        assert normalizer.std == pytest.approx(statistics.pstdev(together), abs=1e-3, rel=1e-6)


@given(batches=BATCHES)
def test_what_a_checkpoint_keeps_is_the_normaliser_to_the_bit(batches: list[list[float]]) -> None:
    normalizer = after(batches)
    assert RewardNormalizer.restored(json.loads(json.dumps(normalizer.saved()))) == normalizer
    assert RewardNormalizer.restored(None) == RewardNormalizer()


def test_one_batch_standardized_has_mean_zero_and_spread_one() -> None:
    scores = torch.tensor([1.0, 2.0, 3.0, 6.0])
    normalizer = RewardNormalizer().updated(scores)
    result = normalizer.normalized(scores, centered=True)
    assert float(result.mean()) == pytest.approx(0.0, abs=1e-6)
    assert float(result.std(correction=0)) == pytest.approx(1.0, abs=1e-6)
    assert torch.allclose(normalizer.normalized(scores, centered=False), scores / scores.std(correction=0))


def test_scores_without_spread_stay_as_they_are() -> None:
    same = torch.full((4,), 2.0)
    normalizer = RewardNormalizer().updated(same)
    assert torch.equal(normalizer.normalized(same, centered=False), same)
    assert not normalizer.normalized(same, centered=True).any()


@given(batches=BATCHES, factor=st.floats(0.125, 8))
def test_the_unit_of_the_scores_does_not_matter(batches: list[list[float]], factor: float) -> None:
    last = torch.tensor([1.0, -2.0])
    usual, scaled = (
        after([*batches, last.tolist()]),
        after([[s * factor for s in b] for b in [*batches, last.tolist()]]),
    )
    torch.testing.assert_close(
        usual.normalized(last, centered=True), scaled.normalized(last * factor, centered=True), atol=1e-4, rtol=1e-3
    )
