"""The controllers of the KL coefficient."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.algorithms import AdaptiveKlController, FixedKlController, kl_controller


def test_a_fixed_coefficient_never_moves() -> None:
    controller = kl_controller("fixed", kl_coef=0.1, target_kl=None, horizon=None)
    assert controller == FixedKlController(coef=0.1)
    assert controller.updated(5.0, 64).coef == 0.1


@given(st.floats(0, 10), st.floats(0.001, 1), st.integers(1, 512), st.integers(1, 10_000))
def test_an_adaptive_coefficient_follows_the_error_as_in_the_paper(
    kl: float, target: float, responses: int, horizon: int
) -> None:
    before = AdaptiveKlController(coef=0.2, target_kl=target, horizon=horizon)
    after = before.updated(kl, responses)
    error = max(-0.2, min(0.2, kl / target - 1))
    assert after.coef == pytest.approx(max(0.1 * 0.2, 0.2 * (1 + error * responses / horizon)))
    assert after.coef > 0
    assert (after.coef > before.coef) == (error * responses / horizon > 1e-15) or abs(error) < 1e-9


def test_an_adaptive_controller_needs_its_target() -> None:
    with pytest.raises(ValueError, match="needs target_kl and horizon"):
        kl_controller("adaptive", kl_coef=0.1, target_kl=None, horizon=10)
    with pytest.raises(ValueError, match="must be fixed or adaptive"):
        kl_controller("adaptve", kl_coef=0.1, target_kl=0.1, horizon=10)


def test_a_resumed_adaptive_controller_goes_on_and_a_fixed_one_obeys_its_configuration() -> None:
    assert AdaptiveKlController(coef=0.1, target_kl=0.1, horizon=10).restored(0.7).coef == 0.7
    assert FixedKlController(coef=0.1).restored(0.7).coef == 0.1
