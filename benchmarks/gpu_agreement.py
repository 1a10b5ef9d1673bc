"""Run the algorithms on the same numbers on the CPU and on another device, and say how far they are apart."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from trainer.algorithms import (
    GROUP_ESTIMATORS,
    clipped_policy_loss,
    clipped_value_loss,
    kl_k1,
    kl_k3,
    logprobs_and_entropy,
    masked_whiten,
)
from trainer.algorithms.advantages import gae

_BATCH, _TIME, _VOCAB = 8, 64, 512
Inputs = dict[str, Tensor]


def disagreements(device: torch.device) -> dict[str, float]:
    """Largest difference of each algorithm's results, relative to the largest result."""
    inputs = _inputs()
    there = {name: tensor.to(device) for name, tensor in inputs.items()}
    return {name: _difference(algorithm(inputs), algorithm(there)) for name, algorithm in _ALGORITHMS.items()}


def _inputs() -> Inputs:
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    lengths = torch.randint(1, _TIME + 1, (_BATCH, 1), generator=generator)
    old = -normal(_BATCH, _TIME).abs()
    return {
        "mask": torch.arange(_TIME) < lengths,
        "rewards": normal(_BATCH, _TIME),
        "values": normal(_BATCH, _TIME),
        "returns": normal(_BATCH, _TIME),
        "advantages": normal(_BATCH, _TIME),
        "old": old,
        "new": old + 0.2 * normal(_BATCH, _TIME),
        "last": normal(_BATCH),
        "logits": 3 * normal(_BATCH, _TIME, _VOCAB),
        "tokens": torch.randint(_VOCAB, (_BATCH, _TIME), generator=generator),
    }


def _gae(given: Inputs) -> Tensor:
    mask = given["mask"]
    return torch.cat(gae(given["rewards"] * mask, given["values"], mask, given["last"], gamma=0.99, lam=0.95))


def _group(given: Inputs) -> Tensor:
    mask = given["mask"]
    return GROUP_ESTIMATORS["grpo"](given["rewards"] * mask, mask, group_size=4, gamma=1.0)


def _policy(given: Inputs) -> Tensor:
    new = given["new"].clone().requires_grad_()
    loss, clipped, _ = clipped_policy_loss(
        new, given["old"], given["advantages"], given["mask"], clip_low=0.2, clip_high=0.2, clip_c=3.0, weights=None
    )
    loss.backward()
    return torch.cat([_column(loss), _column(clipped), _column(new.grad)])


def _value(given: Inputs) -> Tensor:
    values = given["values"].clone().requires_grad_()
    loss, _ = clipped_value_loss(
        values, given["values"] + 0.1, given["returns"], given["mask"], cliprange=0.5, weights=None
    )
    loss.backward()
    return torch.cat([_column(loss), _column(values.grad)])


def _logits(given: Inputs) -> Tensor:
    logits = given["logits"].clone().requires_grad_()
    logprobs, entropy = logprobs_and_entropy(logits, given["tokens"], temperature=0.7, entropy=True, chunk=2**15)
    (logprobs.sum() + 0.1 * entropy.sum()).backward()
    return torch.cat([_column(logprobs), _column(entropy), _column(logits.grad)])


def _column(tensor: Tensor | None) -> Tensor:
    assert tensor is not None
    return tensor.detach().float().reshape(-1)


def _difference(here: Tensor, there: Tensor) -> float:
    here, there = here.detach().double(), there.detach().cpu().double()
    return float((here - there).abs().max() / here.abs().max().clamp(min=1e-12))


_ALGORITHMS: dict[str, Callable[[Inputs], Tensor]] = {
    "gae": _gae,
    "grpo": _group,
    "whitening": lambda given: masked_whiten(given["advantages"], given["mask"]),
    "kl k1": lambda given: kl_k1(given["old"], given["new"]),
    "kl k3": lambda given: kl_k3(given["old"], given["new"]),
    "policy loss": _policy,
    "value loss": _value,
    "log-probabilities and entropy": _logits,
}
