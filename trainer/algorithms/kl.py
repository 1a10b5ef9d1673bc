"""Estimators of the KL divergence from samples, and the controllers of its coefficient.

With `x ~ p` and `r = log p(x) - log q(x)` the estimators of `KL(p || q)` are, after Schulman's note
(http://joschu.net/blog/kl-approx.html): `k1 = r`, `k2 = r^2 / 2` and `k3 = exp(-r) - 1 + r`. k1 and k3 are unbiased as
values; k3 is never negative and has the smaller variance near `p = q`.

As losses they are judged by their gradient with respect to p on samples of p: k1's is zero on average (the score
function's), k2's is that of `KL(p || q)`, k3's is that of `KL(q || p)`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

_MAX_LOG_RATIO = 20.0
_MAX_ERROR = 0.2


def kl_k1(logprobs: Tensor, other_logprobs: Tensor) -> Tensor:
    """Estimator k1, `log p - log q`, of `KL(p || q)` for samples of p.

    Args:
        logprobs: Any shape, log-probabilities under the sampled distribution p (nats).
        other_logprobs: Same shape, under q.

    Returns:
        Same shape, nats per token; single tokens may be negative.
    """
    return logprobs - other_logprobs


def kl_k2(logprobs: Tensor, other_logprobs: Tensor) -> Tensor:
    """Estimator k2, `(log p - log q)^2 / 2`: biased as a value, but its gradient is that of `KL(p || q)`.

    The log-ratio is clamped to +-20, where its gradient ends.

    Args:
        logprobs: Any shape, log-probabilities under the sampled distribution p (nats).
        other_logprobs: Same shape, under q.

    Returns:
        Same shape, nats per token, never negative.
    """
    return 0.5 * (logprobs - other_logprobs).clamp(-_MAX_LOG_RATIO, _MAX_LOG_RATIO).square()


def kl_k3(logprobs: Tensor, other_logprobs: Tensor) -> Tensor:
    """Estimator k3, `q/p - 1 - log(q/p)`, of `KL(p || q)` for samples of p.

    The log-ratio is clamped to +-20 before the exponential, so that one token cannot overflow the mean.

    Args:
        logprobs: Any shape, log-probabilities under the sampled distribution p (nats).
        other_logprobs: Same shape, under q.

    Returns:
        Same shape, nats per token, never negative.
    """
    log_ratio = (other_logprobs - logprobs).clamp(-_MAX_LOG_RATIO, _MAX_LOG_RATIO)
    return torch.expm1(log_ratio) - log_ratio


@dataclass(frozen=True, kw_only=True, slots=True)
class FixedKlController:
    """A coefficient that never moves.

    Attributes:
        coef: Coefficient of the KL penalty (reward units per nat).
    """

    coef: float

    def updated(self, kl: float, num_responses: int) -> FixedKlController:
        """The controller of the next step: this one."""
        del kl, num_responses
        return self

    def restored(self, coef: float) -> FixedKlController:
        """This controller when a run resumes: the configuration's coefficient stays in force."""
        del coef
        return self


@dataclass(frozen=True, kw_only=True, slots=True)
class AdaptiveKlController:
    """The proportional controller of Ziegler et al. 2019 (arXiv:1909.08593, section 2.2).

    `error = clip(KL / target - 1, -0.2, 0.2)` and `coef <- coef * (1 + error * num_responses / horizon)`.
    KL and target are means per token here (the paper sums over a sequence).

    Attributes:
        coef: Current coefficient (reward units per nat).
        target_kl: KL aimed at (nats per token).
        horizon: Responses over which an error is corrected.
    """

    coef: float
    target_kl: float
    horizon: int

    def updated(self, kl: float, num_responses: int) -> AdaptiveKlController:
        """The controller after a batch.

        Args:
            kl: Mean KL of the batch to the reference (nats per token).
            num_responses: Responses in the batch.
        """
        error = min(max(kl / self.target_kl - 1.0, -_MAX_ERROR), _MAX_ERROR)
        # A batch far larger than the horizon must not turn the coefficient negative.
        factor = max(1.0 + error * num_responses / self.horizon, 0.1)
        return AdaptiveKlController(coef=self.coef * factor, target_kl=self.target_kl, horizon=self.horizon)

    def restored(self, coef: float) -> AdaptiveKlController:
        """This controller when a run resumes with the coefficient it had reached."""
        return AdaptiveKlController(coef=coef, target_kl=self.target_kl, horizon=self.horizon)


def fitting_horizon(num_responses: int) -> int:
    """A horizon for a run that samples `num_responses` in all: a twentieth of them.

    The coefficient can then move by a factor of at most `exp(0.2 * 20)`, about 55, whether the run is short or long.
    """
    return max(1, round(num_responses / 20))


KlController = FixedKlController | AdaptiveKlController


def kl_controller(kind: str, *, kl_coef: float, target_kl: float | None, horizon: int | None) -> KlController:
    """The controller named `kind` (fixed or adaptive); an adaptive one needs target and horizon.

    Raises:
        ValueError: Unknown kind, or an adaptive controller without target or horizon.
    """
    if kind == "fixed":
        return FixedKlController(coef=kl_coef)
    if kind != "adaptive":
        raise ValueError(f"unknown KL controller '{kind}': must be fixed or adaptive")
    if target_kl is None or horizon is None:
        raise ValueError(f"an adaptive KL controller needs target_kl and horizon, got {target_kl} and {horizon}")
    return AdaptiveKlController(coef=kl_coef, target_kl=target_kl, horizon=horizon)
