"""Keys that a configuration holds but its algorithm does not read: searching one of them would be searching noise."""

from __future__ import annotations

from collections.abc import Mapping

from trainer.config.build import known_keys
from trainer.config.preference_rules import PREFERENCE_KEYS, PREFERENCE_OFF
from trainer.config.schema import Config

_OF_THE_CRITIC = (
    "algorithm.cliprange_value",
    "algorithm.vf_coef",
    "model.critic_path",
    "trainer.critic_warmup",
    "trainer.optim.critic_lr",
)


def unread_keys(config: Config) -> Mapping[str, str]:
    """The dotted path of each key that changes nothing, with the key whose value decides that."""
    algorithm = config.algorithm
    if algorithm.learns_from_preferences:
        read = {f"algorithm.preference.{key}" for key in PREFERENCE_KEYS[algorithm.name]} | {"algorithm.name"}
        paths = [path for path in known_keys() if path.startswith("algorithm.") and path not in read]
        return dict.fromkeys([*paths, *PREFERENCE_OFF, *_OF_THE_CRITIC, "reward.normalize"], "algorithm.name")
    unread = dict.fromkeys(
        (path for path in known_keys() if path.startswith("algorithm.preference.")), "algorithm.name"
    )
    if not algorithm.needs_critic:
        unread |= dict.fromkeys((*_OF_THE_CRITIC, "algorithm.lam"), "algorithm.adv_estimator")
        if algorithm.adv_estimator != "reinforce_pp":
            unread["algorithm.gamma"] = "algorithm.adv_estimator"
    if algorithm.adv_estimator == "grpo" and not algorithm.kl_ctrl.kl_coef:  # each group has a scale of its own
        unread["reward.normalize"] = "algorithm.adv_estimator"
    return unread
