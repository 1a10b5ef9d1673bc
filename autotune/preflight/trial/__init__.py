"""Checks of one trial's configuration, before it costs anything: what cannot work is refused with its cure."""

from __future__ import annotations

from collections.abc import Mapping

from autotune.backends import VerlBackend
from autotune.errors import Problem
from autotune.preflight.memory import Estimate, capacity
from autotune.preflight.trial import devices, files, memory, model, ports
from autotune.preflight.trial.context import TrialContext, TrialRule
from autotune.settings import Settings
from autotune.spec.values import FlatConfig

__all__ = ["RULES", "TrialContext", "TrialRule", "estimate_of", "trial_context", "trial_problems"]

RULES: Mapping[str, TrialRule] = {
    "model": model.model,
    "files": files.files,
    "devices": devices.devices,
    "ports": ports.ports,
    "memory": memory.memory,
}
"""Every rule, cheap ones first. None starts a process or imports a framework."""

_KNOWN = ("native", "verl")


def trial_context(backend: str, config: FlatConfig, gpus: float, settings: Settings) -> TrialContext | None:
    """What the rules look at; None for a backend whose configuration says nothing to them.

    Args:
        backend: Its name.
        config: The trial's complete configuration.
        gpus: GPUs of one trial.
        settings: Where trials run, and what a person says about its GPUs.
    """
    if backend not in _KNOWN:
        return None
    values = VerlBackend().tree(config) if backend == "verl" else config
    room = capacity(max(gpus, 1.0) if backend == "verl" else gpus, settings.gpu_memory_gib)
    here = settings.ray_address is None
    python, workdir = (str(config.get(f"backend.{name}") or "") for name in ("python", "workdir"))
    return TrialContext(backend=backend, config=values, gpus=gpus, here=here, room=room, python=python, workdir=workdir)


def trial_problems(context: TrialContext | None) -> tuple[Problem, ...]:
    """Everything that keeps a trial from working."""
    return () if context is None else tuple(problem for rule in RULES.values() for problem in rule(context))


def estimate_of(context: TrialContext | None) -> Estimate | None:
    """What the trial needs on one device; None when nobody can say."""
    return None if context is None else memory.estimate_of(context)
