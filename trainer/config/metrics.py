"""Every metric that the trainer can log, with its unit."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from trainer.config.preference_metrics import preference_metrics
from trainer.config.schema import Config

METRICS: Mapping[str, str] = MappingProxyType(
    {
        "reward/mean": "mean reward of the sampled training responses, without the KL penalty (reward units)",
        "reward/std": "standard deviation of those rewards (reward units)",
        "reward/max": "largest of those rewards (reward units)",
        "reward/running_mean": "mean of all scores so far, when reward.normalize is on (reward units)",
        "reward/running_std": "standard deviation of all scores so far, when reward.normalize is on (reward units)",
        "eval/reward": "mean reward of greedy responses to the held-out prompts, by reward.eval_* if one is set "
        "(reward units)",
        "eval/accuracy": "share of held-out prompts answered with full reward (0 to 1)",
        "eval/length_mean": "mean length of the greedy responses, end token included (tokens)",
        "eval/truncated_fraction": "share of greedy responses that hit the length limit (0 to 1)",
        "kl/actor_ref": "KL of the sampling policy to the reference, mean of k1 over tokens (nats per token)",
        "kl/old_new": "KL of the sampling policy to the policy being updated, mean of k3 (nats per token)",
        "kl/rollout_actor": "gap between the log-probabilities of engine and trainer, mean of k3 (nats per token)",
        "kl/coef": "coefficient of the KL penalty that this step used (reward units per nat)",
        "actor/loss": "policy loss minus the entropy bonus plus the KL loss, mean as loss_agg_mode says (no unit)",
        "actor/kl_loss": "KL loss to the reference before its coefficient, when there is one (nats)",
        "actor/clip_fraction": "share of tokens whose ratio was clipped (0 to 1)",
        "actor/dual_clip_fraction": "share of tokens held by the dual clip, when it is on (0 to 1)",
        "actor/importance_mean": "mean weight of truncated importance sampling, when it is on (no unit)",
        "actor/entropy": "mean entropy of the sampling policy (nats per token)",
        "actor/grad_norm": "mean norm of the actor's gradient before clipping (no unit)",
        "actor/lr": "learning rate of the actor in this step (no unit)",
        "critic/loss": "clipped value loss, mean as loss_agg_mode says (squared reward units)",
        "critic/clip_fraction": "share of tokens whose value was clipped (0 to 1)",
        "critic/explained_variance": "1 - Var(returns - values) / Var(returns) before the update (at most 1)",
        "critic/grad_norm": "mean norm of the critic's gradient before clipping (no unit)",
        "response/length_mean": "mean length of the sampled responses, end token included (tokens)",
        "response/truncated_fraction": "share of sampled responses that hit the length limit (0 to 1)",
        "perf/tokens_per_s": "prompt and response tokens of the step per second (tokens per second)",
        "perf/step_s": "duration of the training step, evaluation left out (seconds)",
        "perf/rollout_s": "duration of weight sync and sampling (seconds)",
        "perf/update_s": "duration of the updates (seconds)",
        "perf/peak_memory_gb": "largest memory of one rank so far: of the device, or resident on a CPU (GiB)",
        "perf/mfu": "model FLOPs of the step against the GPU's data sheet, or a matrix product on this device (0 to 1)",
    }
)


def metrics_of(config: Config) -> Mapping[str, str]:
    """Every metric that a run of this configuration can log: `METRICS`, and two for each component of its reward."""
    own: dict[str, str] = {}
    for name in config.reward.components:
        own[f"reward/{name}"] = f"mean of the reward's component {name} on training responses, before its weight"
        if config.reward.eval_name is None and config.reward.eval_function is None:
            own[f"eval/{name}"] = f"mean of the reward's component {name} on held-out prompts, before its weight"
    known = {**METRICS, **own}
    return preference_metrics(config, known) if config.algorithm.learns_from_preferences else known
