"""DPO, IPO and KTO against numbers that TRL 1.16.0 gave; `trl_1_16_0.json` says how they were obtained."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from trainer.algorithms import dpo_loss, ipo_loss, kl_baseline, kto_loss, num_ranked_right, sequence_logprobs

REFERENCE: dict[str, Any] = json.loads((Path(__file__).parent / "trl_1_16_0.json").read_text())
SIDES = ("chosen", "rejected")
LENGTHS = {side: torch.tensor(REFERENCE["lengths"][side]) for side in SIDES}
MASKS = {side: torch.arange(6)[None, :] < LENGTHS[side][:, None] for side in SIDES}
LOGPROBS = {side: torch.tensor(REFERENCE["logprobs"][side], dtype=torch.float64) for side in SIDES}
REFS = {side: torch.tensor(REFERENCE["ref_logprobs"][side], dtype=torch.float64) for side in SIDES}


def log_ratios(side: str, logprobs: torch.Tensor, *, per_token: bool = False) -> torch.Tensor:
    mask = MASKS[side]
    return sequence_logprobs(logprobs, mask, per_token=per_token) - sequence_logprobs(
        REFS[side], mask, per_token=per_token
    )


def close(got: torch.Tensor, wanted: object) -> bool:
    return torch.allclose(got, torch.tensor(wanted, dtype=torch.float64), atol=1e-7)


@pytest.mark.parametrize(
    ("name", "loss_of", "per_token"),
    [("dpo", dpo_loss, False), ("dpo_per_token", dpo_loss, True), ("ipo_per_token", ipo_loss, True)],
)
def test_losses_on_pairs_and_their_gradients_are_trls(name: str, loss_of: Any, per_token: bool) -> None:
    wanted = REFERENCE[name]
    leaves = [LOGPROBS[side].clone().requires_grad_() for side in SIDES]
    ratios = [log_ratios(side, leaf, per_token=per_token) for side, leaf in zip(SIDES, leaves, strict=True)]
    loss = loss_of(*ratios, beta=wanted["beta"]) / 5
    loss.backward()
    assert float(loss.detach()) == pytest.approx(wanted["loss"], abs=1e-8)
    assert all(close(leaf.grad, gradient) for leaf, gradient in zip(leaves, wanted["gradient"], strict=True))


def test_conservative_dpo_mixes_trls_losses_of_the_pairs_and_of_the_swapped_pairs() -> None:
    leaves = [LOGPROBS[side].clone().requires_grad_() for side in SIDES]
    ratios = [log_ratios(side, leaf) for side, leaf in zip(SIDES, leaves, strict=True)]
    loss = dpo_loss(*ratios, beta=0.3, label_smoothing=0.2) / 5
    loss.backward()
    right, swapped = REFERENCE["dpo"], REFERENCE["dpo_swapped"]
    assert float(loss.detach()) == pytest.approx(0.8 * right["loss"] + 0.2 * swapped["loss"], abs=1e-8)
    for side, leaf in enumerate(leaves):
        mixed = 0.8 * torch.tensor(right["gradient"][side]) + 0.2 * torch.tensor(swapped["gradient"][1 - side])
        assert torch.allclose(leaf.grad.float(), mixed, atol=1e-7)


def test_rewards_of_pairs_are_trls() -> None:
    wanted, beta = REFERENCE["dpo"]["metrics"], REFERENCE["dpo"]["beta"]
    chosen, rejected = (beta * log_ratios(side, LOGPROBS[side]) for side in SIDES)
    assert float(chosen.mean()) == pytest.approx(wanted["rewards/chosen"])
    assert float(rejected.mean()) == pytest.approx(wanted["rewards/rejected"])
    assert float((chosen - rejected).mean()) == pytest.approx(wanted["rewards/margins"])
    assert float(num_ranked_right(chosen, rejected) / 5) == pytest.approx(wanted["rewards/accuracies"])
    for side in SIDES:
        mean = sequence_logprobs(LOGPROBS[side], MASKS[side]).mean()
        assert float(mean) == pytest.approx(wanted[f"logps/{side}"])


@pytest.mark.parametrize("wanted", REFERENCE["kto"], ids=["plain", "weighted", "negative baseline"])
def test_kto_its_gradient_and_its_baseline_are_trls(wanted: dict[str, Any]) -> None:
    leaf = LOGPROBS["chosen"].clone().requires_grad_()
    mismatched = log_ratios("rejected", LOGPROBS["rejected"] + wanted["shift"])
    baseline = kl_baseline(mismatched.sum(), 5)
    assert float(baseline) == pytest.approx(wanted["metrics"]["kl"], abs=1e-8)
    loss = (
        kto_loss(
            log_ratios("chosen", leaf),
            torch.tensor(wanted["labels"]),
            baseline,
            beta=wanted["beta"],
            desirable_weight=wanted["desirable_weight"],
            undesirable_weight=wanted["undesirable_weight"],
        )
        / 5
    )
    loss.backward()
    assert float(loss.detach()) == pytest.approx(wanted["loss"], abs=1e-8)
    assert close(leaf.grad, wanted["gradient"])
