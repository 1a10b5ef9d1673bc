"""How sure a mean of a few runs is: Student's t, with the quantiles of a table so that nothing heavy is imported."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, variance

_T = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
"""The 97.5 % quantile of Student's t for 1, 2, ... 30 degrees of freedom."""


def t_quantile(freedom: float) -> float:
    """The two-sided 95 % quantile; between whole degrees of freedom that of the smaller, which is the wider one.

    Raises:
        ValueError: If there is less than one degree of freedom.
    """
    if freedom < 1:
        raise ValueError(f"got {freedom} degrees of freedom, allowed are values from 1")
    # Rounding must not decide: 12 degrees may have been computed as 11.999999999999998.
    whole = int(freedom * (1 + 1e-9))
    # From 31 on the table's last value errs on the wide side by 4 % at most.
    return _T[min(whole, len(_T)) - 1]


def half_width(values: Sequence[float]) -> float | None:
    """Half of the 95 % interval of a mean, ``t * s / sqrt(n)``; ``None`` for fewer than two values."""
    if len(values) < 2:
        return None
    return t_quantile(len(values) - 1) * math.sqrt(variance(values) / len(values))


def difference(first: Sequence[float], second: Sequence[float]) -> tuple[float, float] | None:
    """The difference of two means and half of its 95 % interval, by Welch's t-test.

    The degrees of freedom are ``(a + b)^2 / (a^2 / (n - 1) + b^2 / (m - 1))`` with ``a = s1^2 / n`` and ``b = s2^2 /
    m`` (Welch 1947). ``None`` if one of them has fewer than two values.
    """
    if len(first) < 2 or len(second) < 2:
        return None
    a, b = variance(first) / len(first), variance(second) / len(second)
    gap = fmean(first) - fmean(second)
    if a + b == 0:
        return gap, 0.0
    share = a / (a + b)  # the same formula, safe for values near 0
    freedom = 1 / (share**2 / (len(first) - 1) + (1 - share) ** 2 / (len(second) - 1))
    return gap, t_quantile(max(1.0, freedom)) * math.sqrt(a + b)
