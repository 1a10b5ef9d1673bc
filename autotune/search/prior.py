"""What people believe before the first trial, and how it fades.

As in PriorBand (Mallik et al. 2023, arXiv:2306.12370) a proposal comes either from the prior or from the sampler. The
share of the prior falls like ``1/n``, as the weight of the belief does in piBO (Hvarfner et al. 2022,
arXiv:2204.11051, whose acquisition function is multiplied by ``prior ** (beta / n)``): ``p(n) = PRIOR_TRIALS /
(PRIOR_TRIALS + n)`` with ``n`` earlier trials. A prior that is wrong therefore costs a few early trials and no more.

Around a number the belief is normal on the parameter's own scale with a standard deviation of a quarter of the range
(PriorBand's), cut at its ends; a listed value is taken half of the time. One draw in five of each parameter, and every
draw of a parameter without a prior, is uniform.
"""

from __future__ import annotations

import math
import random

from autotune.spec.domains import contains, draw
from autotune.spec.types import Choice, FloatRange, IntRange, Parameter
from autotune.spec.values import JsonValue

PRIOR_TRIALS = 8
"""Earlier trials at which the prior makes half of the proposals."""
SPREAD = 0.25
UNIFORM = 0.2
_CHOSEN = 0.5
_TRIES = 100


def share(number: int) -> float:
    """The probability that the proposal after ``number`` earlier trials comes from the prior."""
    return PRIOR_TRIALS / (PRIOR_TRIALS + number)


def draw_near(parameter: Parameter, rng: random.Random) -> JsonValue:
    """A value for a parameter as its prior would have it; uniform where it has none."""
    domain, prior = parameter.domain, parameter.prior
    if prior is None or not contains(domain, prior) or rng.random() < UNIFORM:
        return draw(domain, rng)
    if isinstance(domain, Choice):
        return prior if rng.random() < _CHOSEN else draw(domain, rng)
    assert isinstance(prior, int | float)
    for _ in range(_TRIES):
        value = _near(domain, float(prior), rng)
        if contains(domain, value):
            return value
    return draw(domain, rng)


def _near(domain: FloatRange | IntRange, prior: float, rng: random.Random) -> JsonValue:
    if domain.log:
        low, high = math.log(domain.low), math.log(domain.high)
        value = math.exp(rng.gauss(math.log(prior), SPREAD * (high - low)))
    else:
        value = rng.gauss(prior, SPREAD * (domain.high - domain.low))
    if domain.step is not None:
        value = domain.low + round((value - domain.low) / domain.step) * domain.step
    return round(value) if isinstance(domain, IntRange) else value
