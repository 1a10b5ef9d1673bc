"""Pure tensor functions of the algorithms: no configuration, no logging, no communication."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from trainer.algorithms.advantages import gae
from trainer.algorithms.aggregation import DENOMINATORS, num_tokens, response_weights
from trainer.algorithms.dpo import dpo_loss, ipo_loss, num_ranked_right
from trainer.algorithms.group_advantages import dr_grpo, grpo, reinforce_pp, reinforce_pp_baseline, rloo
from trainer.algorithms.importance import truncated_importance
from trainer.algorithms.kl import (
    AdaptiveKlController,
    FixedKlController,
    KlController,
    fitting_horizon,
    kl_controller,
    kl_k1,
    kl_k2,
    kl_k3,
)
from trainer.algorithms.kto import kl_baseline, kto_loss
from trainer.algorithms.logprobs import logprobs_and_entropy, token_logprobs
from trainer.algorithms.masked import masked_mean, masked_sum, masked_whiten
from trainer.algorithms.policy_loss import clipped_policy_loss
from trainer.algorithms.reward_normalizer import RewardNormalizer
from trainer.algorithms.sequences import sequence_logprobs
from trainer.algorithms.token_rewards import kl_penalised_rewards
from trainer.algorithms.truncation import overlong_penalty
from trainer.algorithms.value_loss import clipped_value_loss, explained_variance

CRITIC_ESTIMATORS: dict[str, Callable[..., tuple[Tensor, Tensor]]] = {"gae": gae}
GROUP_ESTIMATORS: dict[str, Callable[..., Tensor]] = {
    "grpo": grpo,
    "dr_grpo": dr_grpo,
    "rloo": rloo,
    "reinforce_pp": reinforce_pp,
    "reinforce_pp_baseline": reinforce_pp_baseline,
}
PAIR_LOSSES: dict[str, Callable[..., Tensor]] = {"sigmoid": dpo_loss, "ipo": ipo_loss}
KL_LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"k2": kl_k2, "k3": kl_k3}

__all__ = [
    "CRITIC_ESTIMATORS",
    "DENOMINATORS",
    "GROUP_ESTIMATORS",
    "KL_LOSSES",
    "PAIR_LOSSES",
    "AdaptiveKlController",
    "FixedKlController",
    "KlController",
    "RewardNormalizer",
    "clipped_policy_loss",
    "clipped_value_loss",
    "dpo_loss",
    "dr_grpo",
    "explained_variance",
    "fitting_horizon",
    "gae",
    "grpo",
    "ipo_loss",
    "kl_baseline",
    "kl_controller",
    "kl_k1",
    "kl_k2",
    "kl_k3",
    "kl_penalised_rewards",
    "kto_loss",
    "logprobs_and_entropy",
    "masked_mean",
    "masked_sum",
    "masked_whiten",
    "num_ranked_right",
    "num_tokens",
    "overlong_penalty",
    "reinforce_pp",
    "reinforce_pp_baseline",
    "response_weights",
    "rloo",
    "sequence_logprobs",
    "token_logprobs",
    "truncated_importance",
]
