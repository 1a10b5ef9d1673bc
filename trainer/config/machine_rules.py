"""Rules over keys that say how a run is spread over its machine and what it leaves on disk."""

from __future__ import annotations

from trainer.config.metrics import metrics_of
from trainer.config.problems import ConfigProblem, nearest
from trainer.config.schema import Config


def machine_problems(config: Config) -> list[ConfigProblem]:
    """Every rule on sharding and checkpoints that this configuration breaks; `sharding_mesh` checks the ranks."""
    return [*_groups(config), *_best(config)]


def _groups(config: Config) -> list[ConfigProblem]:
    settings = config.trainer.fsdp_config
    if settings.shard_group_size is None or settings.sharding_strategy == "HYBRID_SHARD":
        return []
    message = f"got {settings.shard_group_size}, but sharding_strategy = {settings.sharding_strategy} does not read it"
    return [
        ConfigProblem(
            path="trainer.fsdp_config.shard_group_size", message=message, hint="use HYBRID_SHARD, or set it to null"
        )
    ]


def _best(config: Config) -> list[ConfigProblem]:
    metric = config.trainer.save_best
    if metric is None:
        if config.trainer.save_best_mode == "max":
            return []
        message = f"got {config.trainer.save_best_mode!r}, but trainer.save_best = null names no metric"
        return [ConfigProblem(path="trainer.save_best_mode", message=message, hint="set save_best, or this to max")]
    known = [name for name in metrics_of(config) if not name.startswith("perf/")]
    if metric in known:
        return []
    what = "differs from rank to rank" if metric.startswith("perf/") else "is no metric of this run"
    return [
        ConfigProblem(path="trainer.save_best", message=f"got {metric!r}, which {what}", hint=nearest(metric, known))
    ]
