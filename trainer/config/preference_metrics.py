"""The metrics of a run that learns from given answers."""

from __future__ import annotations

from collections.abc import Mapping

from trainer.config.schema import Config

_OWN = {
    "reward/chosen_mean": "mean reward of chosen (good) answers, beta times their log-ratio (reward units)",
    "reward/rejected_mean": "mean reward of rejected (bad) answers (reward units)",
    "reward/margin": "mean reward of chosen answers minus that of rejected ones (reward units)",
    "reward/accuracy": "share of pairs ranked right, or of labelled answers on their side of the baseline (0 to 1)",
    "actor/loss": "loss of the preferences, mean over pairs or answers (no unit)",
    "actor/chosen_logprobs": "mean log-probability of chosen (good) answers (nats, per token if normalised by length)",
    "actor/rejected_logprobs": "mean log-probability of rejected (bad) answers (as of the chosen ones)",
    "actor/entropy": "mean entropy of the actor on responses sampled to the held-out prompts (nats per token)",
    "kl/actor_ref": "KL of the actor to the reference on those responses, mean of k1 over tokens (nats per token)",
    "eval/preference_loss": "loss on the held-out answers (no unit)",
    "eval/preference_accuracy": "share of held-out pairs ranked right, or of answers on their side (0 to 1)",
    "eval/preference_margin": "margin of the rewards of the held-out answers (reward units)",
}
_BASELINE = "mean log-ratio of answers to other prompts, at least 0 (nats per answer)"
# Of the metrics of sampled and rewarded responses those that are measured here as well.
_SHARED = (
    *("eval/reward", "eval/accuracy", "eval/length_mean", "eval/truncated_fraction"),
    *("actor/grad_norm", "actor/lr"),
    *("perf/tokens_per_s", "perf/step_s", "perf/update_s", "perf/peak_memory_gb", "perf/mfu"),
)


def preference_metrics(config: Config, known: Mapping[str, str]) -> Mapping[str, str]:
    """Every metric that a run of this configuration can log, with its unit.

    Args:
        config: Of an algorithm that learns from preferences.
        known: What it could log if it learnt from sampled responses.
    """
    reward = config.reward
    components = {f"eval/{name}" for name in reward.components}
    found = {name: text for name, text in known.items() if name in _SHARED or name in components}
    if not reward.is_given and reward.eval_name is None and reward.eval_function is None:
        found = {name: text for name, text in found.items() if not name.startswith("eval/")}
    return found | _OWN | ({"kl/baseline": _BASELINE} if config.algorithm.name == "kto" else {})
