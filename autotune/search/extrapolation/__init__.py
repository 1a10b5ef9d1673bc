"""Where a curve is going: a Bayesian ensemble of parametric learning curves, in closed form."""

from __future__ import annotations

from autotune.search.extrapolation.fit import Belief, Reports, fit
from autotune.search.extrapolation.forecast import Mixture, forecast
from autotune.search.extrapolation.learned import believe
from autotune.search.extrapolation.shapes import FAMILIES, SHAPES

__all__ = ["FAMILIES", "SHAPES", "Belief", "Mixture", "Reports", "believe", "fit", "forecast"]
