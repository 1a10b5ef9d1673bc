"""The learning rate by step."""

from __future__ import annotations

import dataclasses

import pytest

from trainer.config import OptimConfig
from trainer.loop.schedule import lr_factor

OPTIM = OptimConfig(lr=1.0, critic_lr=1.0, weight_decay=0.0, eps=1e-8, warmup_steps=4, scheduler="constant")


def test_the_warm_up_rises_linearly_and_starts_above_zero() -> None:
    assert [lr_factor(step, 10, OPTIM) for step in range(1, 7)] == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]


def test_the_cosine_falls_from_1_towards_0_at_the_end() -> None:
    cosine = dataclasses.replace(OPTIM, scheduler="cosine")
    factors = [lr_factor(step, 10, cosine) for step in range(5, 11)]
    assert factors[0] == 1.0
    assert factors == sorted(factors, reverse=True)
    assert 0.0 < factors[-1] < 0.1
    assert factors[3] == pytest.approx(0.5)


def test_without_warm_up_the_first_step_is_full() -> None:
    assert lr_factor(1, 10, dataclasses.replace(OPTIM, warmup_steps=0)) == 1.0


def test_a_warm_up_as_long_as_the_run_never_divides_by_zero() -> None:
    cosine = dataclasses.replace(OPTIM, warmup_steps=10, scheduler="cosine")
    assert lr_factor(10, 10, cosine) == 1.0
