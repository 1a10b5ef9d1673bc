"""Keep the checkpoint of the best step so far, so that a run that goes too far still has its peak."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from trainer.config import TrainerConfig
from trainer.distributed import CHECKPOINTS, complete_checkpoints
from trainer.record import write_atomically

BEST_FILE = "best.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class Best:
    """The best step so far.

    Attributes:
        metric: What is compared (`trainer.save_best`).
        value: Its value there.
        step: The step, whose checkpoint is complete.
    """

    metric: str
    value: float
    step: int


def better(best: Best | None, step: int, metrics: Mapping[str, float], settings: TrainerConfig) -> Best | None:
    """The new best if this step is it, else None; a step without the metric, or with NaN, never is."""
    value = metrics.get(settings.save_best or "")
    if settings.save_best is None or value is None or not math.isfinite(value):
        return None
    sign = -1.0 if settings.save_best_mode == "min" else 1.0
    if best is not None and sign * value <= sign * best.value:
        return None
    return Best(metric=settings.save_best, value=value, step=step)


def write_best(directory: Path, best: Best) -> None:
    """Write `checkpoints/best.json`, atomically, once the checkpoint it names is complete."""
    write_atomically(directory / CHECKPOINTS / BEST_FILE, json.dumps(asdict(best), indent=2) + "\n")


def read_best(directory: Path) -> Best | None:
    """What `write_best` wrote; None when there is nothing or its checkpoint is gone."""
    path = directory / CHECKPOINTS / BEST_FILE
    if not path.is_file():
        return None
    best = Best(**json.loads(path.read_text()))
    return best if best.step in complete_checkpoints(directory) else None
