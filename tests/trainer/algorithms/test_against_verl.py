"""The formulas against numbers that verl 0.9.1 gave; `verl_0_9_1.json` says how they were obtained."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from trainer.algorithms import (
    DENOMINATORS,
    AdaptiveKlController,
    clipped_policy_loss,
    clipped_value_loss,
    dr_grpo,
    gae,
    grpo,
    kl_k1,
    kl_k2,
    kl_k3,
    masked_mean,
    masked_whiten,
    reinforce_pp,
    reinforce_pp_baseline,
    response_weights,
    rloo,
    truncated_importance,
)

REFERENCE: dict[str, Any] = json.loads((Path(__file__).parent / "verl_0_9_1.json").read_text())
INPUTS = {name: torch.tensor(rows, dtype=torch.float64) for name, rows in REFERENCE["inputs"].items()}
WANTED = REFERENCE["outputs"]
MASK = torch.arange(5)[None, :] < torch.tensor(REFERENCE["lengths"])[:, None]
# verl whitens with the unbiased variance, this trainer with the biased one.
UNBIASED = math.sqrt((int(MASK.sum()) - 1) / int(MASK.sum()))


def close(got: torch.Tensor, wanted: object) -> bool:
    return torch.allclose(got, torch.tensor(wanted, dtype=torch.float64), atol=1e-6)


def test_gae_and_its_whitening_are_verls() -> None:
    advantages, returns = gae(INPUTS["rewards"], INPUTS["values"], MASK, torch.zeros(6), gamma=0.9, lam=0.8)
    assert close(returns, WANTED["gae_returns"])
    assert close(masked_whiten(advantages, MASK) * UNBIASED, WANTED["gae_whitened_advantages"])


@pytest.mark.parametrize(("name", "estimator"), [("grpo", grpo), ("dr_grpo", dr_grpo), ("rloo", rloo)])
def test_group_advantages_are_verls(name: str, estimator: Any) -> None:
    assert close(estimator(INPUTS["rewards"], MASK, group_size=3), WANTED[name])


def test_groups_of_one_are_verls() -> None:
    assert close(grpo(INPUTS["rewards"], MASK, group_size=1), WANTED["grpo_groups_of_one"])
    assert close(rloo(INPUTS["rewards"], MASK, group_size=1), WANTED["rloo_groups_of_one"])


def test_reinforce_pp_and_its_baseline_variant_are_verls() -> None:
    plain = reinforce_pp(INPUTS["rewards"], MASK, group_size=3, gamma=0.9)
    assert close(masked_whiten(plain, MASK) * UNBIASED, WANTED["reinforce_pp_whitened"])
    baseline = reinforce_pp_baseline(INPUTS["rewards"], MASK, group_size=3)
    assert close(masked_whiten(baseline, MASK) * UNBIASED, WANTED["reinforce_pp_baseline_whitened"])


@pytest.mark.parametrize("mode", DENOMINATORS)
@pytest.mark.parametrize("corrected", [False, True])
def test_the_policy_loss_is_verls_in_every_mode(mode: str, corrected: bool) -> None:
    old = INPUTS["old_logprobs"]
    weights = response_weights(MASK, mode)
    if corrected:
        importance = truncated_importance(old, INPUTS["rollout_logprobs"], MASK, threshold=1.2)
        weights = importance if weights is None else weights * importance
    loss, clipped, dual = clipped_policy_loss(
        INPUTS["logprobs"],
        old,
        INPUTS["advantages"],
        MASK,
        clip_low=0.2,
        clip_high=0.28,
        clip_c=1.5,
        weights=weights,
    )
    suffix = "_importance" if corrected else ""
    assert float(loss / DENOMINATORS[mode](MASK)) == pytest.approx(WANTED[f"policy_loss_{mode}{suffix}"], abs=1e-6)
    assert float(clipped / MASK.sum()) == pytest.approx(WANTED["clip_fraction"], abs=1e-6)
    assert float(dual / MASK.sum()) == pytest.approx(WANTED["dual_clip_fraction"], abs=1e-6)


@pytest.mark.parametrize("mode", DENOMINATORS)
def test_the_value_loss_is_verls_in_every_mode(mode: str) -> None:
    loss, clipped = clipped_value_loss(
        INPUTS["new_values"],
        INPUTS["values"],
        INPUTS["returns"],
        MASK,
        cliprange=0.4,
        weights=response_weights(MASK, mode),
    )
    assert float(loss / DENOMINATORS[mode](MASK)) == pytest.approx(WANTED[f"value_loss_{mode}"], abs=1e-6)
    assert float(clipped / MASK.sum()) == pytest.approx(WANTED["value_clip_fraction"], abs=1e-6)


@pytest.mark.parametrize(("name", "estimator"), [("k1", kl_k1), ("k2", kl_k2), ("k3", kl_k3)])
def test_the_kl_estimators_are_verls(name: str, estimator: Any) -> None:
    mean = masked_mean(estimator(INPUTS["logprobs"], INPUTS["ref_logprobs"]), MASK)
    assert float(mean) == pytest.approx(WANTED[f"mean_{name}"], abs=1e-6)


def test_the_adaptive_controller_is_verls() -> None:
    controller = AdaptiveKlController(coef=0.2, target_kl=0.1, horizon=1000)
    for kl, wanted in zip((0.05, 0.3, 0.11, 0.0), WANTED["controller"], strict=True):
        controller = controller.updated(kl, 64)
        assert controller.coef == pytest.approx(wanted)
