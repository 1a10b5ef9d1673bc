"""What a step says about itself: metrics, and lines on stderr."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from trainer.algorithms import RewardNormalizer, explained_variance, kl_k1, kl_k3, masked_mean
from trainer.console import bar, is_terminal, say, show_live
from trainer.loop.experience import Experience, Targets
from trainer.loop.perf import num_parameters, peak_flops, peak_memory_gb
from trainer.loop.run import Run
from trainer.loop.update import UpdateStats
from trainer.rewards import component_names

_SHOWN = {
    "reward": "reward/mean",
    "margin": "reward/margin",
    "ranked right": "reward/accuracy",
    "eval": "eval/reward",
    "kl": "kl/actor_ref",
    "entropy": "actor/entropy",
    "length": "response/length_mean",
    "s": "perf/step_s",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Timing:
    """Durations of a step (seconds).

    Attributes:
        rollout_s: Weight sync and sampling; 0 where nothing is sampled.
        update_s: The updates.
        step_s: All of it, without the evaluation.
    """

    rollout_s: float
    update_s: float
    step_s: float


def step_metrics(
    run: Run, experience: Experience, targets: Targets, stats: UpdateStats, timing: Timing
) -> dict[str, float]:
    """The metrics of a training step over all ranks, without the evaluation's."""
    mask, scores = experience.response_mask, experience.scores
    lengths = mask.sum(dim=1).float()
    old = experience.old_logprobs
    tensors = {
        "reward/mean": scores.mean(),
        "reward/std": scores.std(correction=0),
        "reward/max": scores.max(),
        "kl/actor_ref": masked_mean(kl_k1(old, experience.ref_logprobs), mask),
        "kl/rollout_actor": masked_mean(kl_k3(experience.rollout_logprobs, old), mask),
        "actor/entropy": masked_mean(experience.entropy, mask),
        "response/length_mean": lengths.mean(),
        "response/truncated_fraction": experience.truncated.float().mean(),
    }
    if run.critic is not None:
        tensors["critic/explained_variance"] = explained_variance(
            experience.values[:, :-1], targets.returns, targets.mask
        )
    assert run.reward is not None
    for name, values in zip(component_names(run.reward), experience.components.T, strict=True):
        tensors[f"reward/{name}"] = values.mean()
    tokens = int(experience.attention_mask.sum())
    measured = {name: float(value) for name, value in tensors.items()}
    speed = perf_metrics(run, tokens, _flops(run, tokens), timing)
    return measured | stats.means() | speed | {"perf/rollout_s": timing.rollout_s}


def running_scores(normalizer: RewardNormalizer) -> dict[str, float]:
    """What the scores are measured by; nothing when they are not normalised."""
    if not normalizer.count:
        return {}
    return {"reward/running_mean": normalizer.mean, "reward/running_std": normalizer.std}


def perf_metrics(run: Run, tokens: int, flops: float, timing: Timing) -> dict[str, float]:
    """Speed and memory of a training step.

    Args:
        run: The run.
        tokens: Tokens of the step over all ranks.
        flops: What the step computed over all ranks.
        timing: How long it took.
    """
    return {
        "perf/tokens_per_s": tokens / timing.step_s,
        "perf/step_s": timing.step_s,
        "perf/update_s": timing.update_s,
        "perf/peak_memory_gb": peak_memory_gb(run.world.device),
        "perf/mfu": flops / timing.step_s / (_peak(run) * run.world.size),
    }


def _flops(run: Run, tokens: int) -> float:
    """FLOPs of a step by the usual count: 2 per parameter and token forward, 4 backward (attention left out)."""
    actor = num_parameters(run.actor)
    critic = 0 if run.critic is None else num_parameters(run.critic)
    forward = 2 * tokens * (3 * actor + critic)  # sampling, old and reference log-probabilities; values
    updates = 6 * tokens * (actor + critic) * run.config.trainer.ppo_epochs
    return float(forward + updates)


def _peak(run: Run) -> float:
    dtype = torch.bfloat16 if run.config.model.dtype == "bfloat16" else torch.float32
    return peak_flops(run.world.device, dtype)


def show_progress(run: Run, step: int, metrics: Mapping[str, float]) -> None:
    """A line on stderr every `system.logging.progress_freq` steps; on a terminal a bar, with a line at the end."""
    every = run.config.system.logging.progress_freq
    if not (run.world.is_main and every):
        return
    text = "  ".join(f"{name} {metrics[metric]:.4f}" for name, metric in _SHOWN.items() if metric in metrics)
    text = f"step {step}/{run.last_step}  {text}"
    if is_terminal() and step < run.last_step:
        left = round((run.last_step - step) * metrics["perf/step_s"])
        show_live(f"{bar(step, run.last_step)} {left // 60}:{left % 60:02d} left  {text}")
    elif step % every == 0 or step == run.last_step:
        say(text)
