"""Training runs that never happened: curves shaped like PPO's, for trying a search without a GPU.

The shapes are plausible, not measured. With ``u = (lr / 1e-6) * (clip_ratio / 0.2)``, the size of an update:

- reward climbs a sigmoid whose speed grows with ``u`` and whose ceiling falls with ``kl_coef`` (a strong leash keeps
  the policy near the reference);
- KL to the reference grows with ``u`` and is held back by ``kl_coef``;
- once KL has passed ``COLLAPSE_KL`` the reward collapses, as it does when a policy exploits or forgets;
- a very large ``u`` makes the loss non-finite after some steps;
- a micro-batch beyond ``MEMORY_ROWS`` rows runs out of memory before the first step.

The best region is interior: too timid learns too slowly, too bold collapses.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

from autotune.execution.simulated import CurveItem, Failure
from autotune.search.types import EndKind
from autotune.spec.values import FlatConfig

LR = "trainer.optim.lr"
KL_COEF = "algorithm.kl_ctrl.kl_coef"
CLIP_RATIO = "algorithm.clip_ratio"
MICRO_BATCH = "trainer.ppo_micro_batch_size_per_gpu"

COLLAPSE_KL = 0.3
"""Nats per token at which the reward starts to fall."""
NON_FINITE_UPDATE = 40.0
"""Update size (1 = the usual one) from which on the loss stops being finite."""
MEMORY_ROWS = 64
"""Rows per micro-batch that fit into the imagined GPU."""


def ppo_like(config: FlatConfig, seed: int, *, noise: float = 0.02, step_s: float = 10.0) -> Iterator[CurveItem]:
    """An endless training run; the same configuration and seed give the same curve.

    Args:
        config: Reads ``trainer.optim.lr``, ``algorithm.kl_ctrl.kl_coef``, ``algorithm.clip_ratio`` and
            ``trainer.ppo_micro_batch_size_per_gpu``; what is missing has its usual value.
        seed: Seed of everything that is drawn.
        noise: Standard deviation of the reward.
        step_s: Mean seconds of a step.

    Yields:
        Seconds and metrics of one step after the other, or the failure that ends the run.
    """
    update = _number(config, LR, 1e-6) / 1e-6 * _number(config, CLIP_RATIO, 0.2) / 0.2
    leash = _number(config, KL_COEF, 1e-3) / 1e-2
    draw = random.Random(f"{seed}:{update:.6g}:{leash:.6g}")
    if _number(config, MICRO_BATCH, 8.0) > MEMORY_ROWS:
        yield Failure(kind=EndKind.OUT_OF_MEMORY, seconds=step_s, message="CUDA out of memory (simulated)")
        return
    breaks_at = draw.randint(5, 25) if update >= NON_FINITE_UPDATE else None
    ceiling, speed = 0.8 / (1.0 + 0.5 * leash), 0.12 * update**0.7
    kl, damage, step = 0.0, 0.0, 0
    while True:
        step += 1
        seconds = step_s * draw.uniform(0.9, 1.1)
        if step == breaks_at:
            yield seconds, {"reward/mean": None, "eval/reward": None, "kl/actor_ref": None, "actor/loss": None}
            yield Failure(kind=EndKind.NON_FINITE, seconds=0.0, message="the actor's loss is not finite (simulated)")
            return
        kl += 0.001 * update**1.2 / (1.0 + 2.0 * leash + 20.0 * leash * kl)
        damage += 0.05 if kl > COLLAPSE_KL else 0.0
        learned = 0.1 + ceiling / (1.0 + math.exp(-(speed * step - 4.0)))
        reward = learned * math.exp(-damage)
        yield (
            seconds,
            {
                "reward/mean": reward + draw.gauss(0.0, noise),
                "eval/reward": reward + draw.gauss(0.0, noise / 2),
                "kl/actor_ref": kl * draw.uniform(0.95, 1.05),
                "actor/loss": draw.gauss(0.0, 0.05),
            },
        )


def _number(config: FlatConfig, path: str, usual: float) -> float:
    value = config.get(path)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else usual
