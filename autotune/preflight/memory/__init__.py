"""How much memory a trial needs on one GPU, before it is launched. Imports no torch: it counts."""

from __future__ import annotations

from autotune.preflight.memory.capacity import Capacity, capacity
from autotune.preflight.memory.estimate import GIB, Estimate, Part, estimate
from autotune.preflight.memory.fits import MARGIN, breakdown, too_large
from autotune.preflight.memory.models import FoundModel, find_model
from autotune.preflight.memory.native import native_workload
from autotune.preflight.memory.shape import ModelShape, shape_of
from autotune.preflight.memory.verl import verl_workload
from autotune.preflight.memory.workload import Engine, Sharding, Workload

__all__ = [
    "GIB",
    "MARGIN",
    "Capacity",
    "Engine",
    "Estimate",
    "FoundModel",
    "ModelShape",
    "Part",
    "Sharding",
    "Workload",
    "breakdown",
    "capacity",
    "estimate",
    "find_model",
    "native_workload",
    "shape_of",
    "too_large",
    "verl_workload",
]
