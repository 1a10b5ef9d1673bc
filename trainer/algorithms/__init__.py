"""Pure tensor functions of the algorithms: no configuration, no logging, no communication."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from trainer.algorithms.advantages import gae
from trainer.algorithms.kl import (
    AdaptiveKlController,
    FixedKlController,
    KlController,
    kl_controller,
    kl_k1,
    kl_k3,
)
from trainer.algorithms.logprobs import token_entropy, token_logprobs
from trainer.algorithms.masked import masked_mean, masked_sum, masked_whiten
from trainer.algorithms.policy_loss import clipped_policy_loss
from trainer.algorithms.token_rewards import kl_penalised_rewards
from trainer.algorithms.value_loss import clipped_value_loss, explained_variance

ADVANTAGE_ESTIMATORS: dict[str, Callable[..., tuple[Tensor, Tensor]]] = {"gae": gae}

__all__ = [
    "ADVANTAGE_ESTIMATORS",
    "AdaptiveKlController",
    "FixedKlController",
    "KlController",
    "clipped_policy_loss",
    "clipped_value_loss",
    "explained_variance",
    "gae",
    "kl_controller",
    "kl_k1",
    "kl_k3",
    "kl_penalised_rewards",
    "masked_mean",
    "masked_sum",
    "masked_whiten",
    "token_entropy",
    "token_logprobs",
]
