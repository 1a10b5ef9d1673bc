"""The learning rate as a pure function of the step, so a checkpoint needs only the step."""

from __future__ import annotations

import math

import torch

from trainer.config import OptimConfig


def lr_factor(step: int, total_steps: int, optim: OptimConfig) -> float:
    """The share of the peak learning rate in a training step.

    Rises linearly over `warmup_steps` (step 1 already moves), then stays (constant) or falls to 0 after the last step
    along half a cosine.

    Args:
        step: 1-based training step.
        total_steps: Length of the schedule.
        optim: Reads `warmup_steps` and `scheduler`.
    """
    if step <= optim.warmup_steps:
        return step / optim.warmup_steps
    if optim.scheduler == "constant":
        return 1.0
    rest = total_steps - optim.warmup_steps
    return 0.5 * (1.0 + math.cos(math.pi * (step - 1 - optim.warmup_steps) / rest))


def set_lr(optimizer: torch.optim.Optimizer, factor: float) -> float:
    """Set the learning rate to a share of its peak; returns it."""
    for group in optimizer.param_groups:
        group["lr"] = group["peak_lr"] * factor
    return float(optimizer.param_groups[0]["lr"])
