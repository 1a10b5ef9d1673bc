"""What is looked at before a trial costs anything: the backend's own rules, then what preflight knows."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.backends import get_backend
from autotune.errors import Problem
from autotune.preflight.memory import GIB
from autotune.preflight.probe import Probed, probe, probe_key
from autotune.preflight.trial import TrialContext, estimate_of, trial_context, trial_problems
from autotune.settings import Settings
from autotune.spec.types import Space
from autotune.spec.values import FlatConfig
from autotune.views import MemoryView


class TrialCheck:
    """Finds what is wrong with complete configurations of one space.

    Args:
        space: Tells the backend and the resources of a trial.
        settings: Where trials run.
    """

    def __init__(self, space: Space, settings: Settings) -> None:
        self._space = space
        self._settings = settings
        self._backend = get_backend(space.trainer.backend)
        self._probed: dict[str, Probed] = {}

    def __call__(self, config: FlatConfig) -> Sequence[Problem]:
        """Everything that keeps this configuration from working; empty when it may be launched.

        Where data or reward are a person's own they are tried in another process, once for all trials that share them.
        """
        found = self.without_trying(config)
        return found or self.tried(config).problems

    def without_trying(self, config: FlatConfig) -> Sequence[Problem]:
        """What can be seen without starting anything."""
        wrong = tuple(self._backend.check(config))
        return wrong or trial_problems(self._context(config))

    def tried(self, config: FlatConfig) -> Probed:
        """What came of trying the data and the reward."""
        context = self._context(config)
        key = "" if context is None else probe_key(context)
        if context is None or not key:
            return Probed()
        if key not in self._probed:
            self._probed[key] = probe(context)
        return self._probed[key]

    def memory(self, config: FlatConfig) -> MemoryView | None:
        """What this configuration needs on one device; ``None`` when nobody can say."""
        context = self._context(config)
        found = estimate_of(context)
        if context is None or found is None:
            return None
        room = context.room
        return MemoryView(
            peak_gib=found.peak / GIB,
            phase=found.phase,
            parts={part.name: part.bytes / GIB for part in found.largest},
            room_gib=None if room.bytes is None else room.bytes / GIB,
            room=room.source,
            device="cpu" if room.host else "gpu",
        )

    def _context(self, config: FlatConfig) -> TrialContext | None:
        trainer, resources = self._space.trainer, self._space.resources
        return trial_context(trainer.backend, config, resources.gpus, self._settings)
