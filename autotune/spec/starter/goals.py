"""What each goal searches, measures, stops and spends, as commented YAML; for the tiny model and for large ones."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

from autotune.spec.starter.wishes import Wishes


@dataclass(frozen=True, kw_only=True, slots=True)
class _Ranges:
    """The ranges of the search for effect."""

    clip_ratio: str
    kl_coef: str
    target_kl: str
    lr: str
    mini_batch_size: str
    kl_limit: float
    kl_ceiling: float


_TINY = _Ranges(
    clip_ratio="{float: [0.05, 0.4]}",
    kl_coef="{float: [1e-3, 2e-1], log: true}",
    target_kl="{float: [0.05, 0.3], log: true, when: \"algorithm.kl_ctrl.type == 'adaptive'\"}",
    lr="{float: [1e-5, 5e-3], log: true}",
    mini_batch_size="{choice: [16, 32, 64]}",
    kl_limit=0.3,
    kl_ceiling=0.4,
)
_LARGE = _Ranges(
    clip_ratio="{float: [0.1, 0.3]}",
    kl_coef="{float: [1e-4, 1e-1], log: true, prior: 1e-3}",
    target_kl="{float: [0.02, 0.2], log: true, when: \"algorithm.kl_ctrl.type == 'adaptive'\"}",
    lr="{float: [5e-7, 1e-5], log: true, prior: 3e-6}",
    mini_batch_size="{choice: [32, 64, 128]}",
    kl_limit=0.12,
    kl_ceiling=0.15,
)


_LONG = 8
"""In fewer steps nothing falls back and nobody can be compared."""


def effect(wishes: Wishes) -> str:
    """The best reward at a KL that stays in bounds."""
    ranges = _TINY if wishes.tiny else _LARGE
    steps = wishes.steps or (40 if wishes.tiny else 200)
    rules = [f"- kl_ceiling: {{above: {ranges.kl_ceiling}, patience: 3}}"] if steps > 1 else []
    rules += ["- reward_collapse: {drop: 0.5, patience: 5}"] if steps >= _LONG else []
    rules += ["- not_finite"]
    looks = f"min_steps: {steps // 4}, every: {max(1, steps // 8)}"
    rules += [f"- extrapolate: {{{looks}}}"] if steps >= _LONG else []
    prune = "\n      ".join(rules)
    return textwrap.dedent(f"""\
    # What may vary, and between which values. log: orders of magnitude count; when: only then; prior: most likely here.
    search:
      algorithm.clip_ratio:        {ranges.clip_ratio}
      algorithm.kl_ctrl.type:      {{choice: [fixed, adaptive]}}
      algorithm.kl_ctrl.kl_coef:   {ranges.kl_coef}
      algorithm.kl_ctrl.target_kl: {ranges.target_kl}
      trainer.optim.lr:            {ranges.lr}
      trainer.ppo_epochs:          {{int: [1, 4]}}
      trainer.mini_batch_size:     {ranges.mini_batch_size}
    # Combinations that break these are never tried.
    require:
      - trainer.train_batch_size % trainer.mini_batch_size == 0

    # What is good: the mean over the last 5 evaluations on held-out prompts.
    objective: {{metric: eval/reward, direction: maximize, reduce: last, smooth: 5}}
    # What must hold: how far the policy may be from where it began, in nats per token.
    constraints: ["kl/actor_ref <= {ranges.kl_limit}"]
    # What ends a trial early: a KL on its way out, a reward that falls back, numbers that are none, and a curve that is
    # not expected to reach the best one any more.
    prune:
      {prune}
    # What may be spent. gpu_hours and wall_clock (24h) are limits as well.
    budget: {{trials: {wishes.trials or (12 if wishes.tiny else 24)}, parallel: {wishes.parallel}, steps: {steps}}}
    # The configuration as it is now runs first: it is the yardstick.
    start_from: [default]
    """)


def stability(wishes: Wishes) -> str:
    """What runs to its end in the least memory."""
    engine = (
        "\n      rollout.gpu_memory_utilization:       {float: [0.2, 0.4], prior: 0.3}" if uses_vllm(wishes) else ""
    )
    trials = wishes.trials or (4 if wishes.tiny else 6)
    return textwrap.dedent(f"""\
    # What decides about memory.
    search:
      trainer.ppo_micro_batch_size_per_gpu: {{choice: [2, 4, 8, 16]}}
      model.enable_gradient_checkpointing:  {{choice: [false, true]}}{engine}
    # What is good: the lowest peak of memory over all steps.
    objective: {{metric: perf/peak_memory_gb, direction: minimize, reduce: max}}
    prune: [not_finite]
    budget: {{trials: {trials}, parallel: {wishes.parallel}, steps: {wishes.steps or (5 if wishes.tiny else 100)}}}
    """)


def throughput(wishes: Wishes) -> str:
    """The most tokens per second."""
    engine = ""
    if uses_vllm(wishes):
        engine = (
            "\n      rollout.gpu_memory_utilization:       {float: [0.3, 0.6], prior: 0.4}"
            "\n      rollout.enable_chunked_prefill:       {choice: [false, true], prior: false}"
        )
    steps = wishes.steps or (8 if wishes.tiny else 50)
    # Less than half the speed of the best one.
    floor = "\n      - throughput_floor: {below: 0.5}" if steps >= _LONG else ""
    trials = wishes.trials or (6 if wishes.tiny else 16)
    return textwrap.dedent(f"""\
    # What decides about speed and changes nothing that is learnt.
    search:
      trainer.ppo_micro_batch_size_per_gpu: {{choice: [4, 8, 16, 32, 64]}}
      trainer.use_dynamic_bsz:              {{choice: [false, true], prior: false}}
      trainer.ppo_max_token_len_per_gpu:    {{choice: [8192, 16384, 32768], when: trainer.use_dynamic_bsz}}{engine}
    # What is good: tokens per second over the whole trial.
    objective: {{metric: perf/tokens_per_s, direction: maximize, reduce: mean}}
    # What ends a trial early.
    prune:
      - not_finite{floor}
    budget: {{trials: {trials}, parallel: {wishes.parallel}, steps: {steps}}}
    start_from: [default]
    """)


def uses_vllm(wishes: Wishes) -> bool:
    """Large models on GPUs answer through vLLM."""
    return wishes.gpus > 0 and not wishes.tiny
