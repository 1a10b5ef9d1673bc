"""The configuration: compose it from `conf/`, check it, read it. Imports neither torch nor (until used) Hydra."""

from __future__ import annotations

from trainer.config.build import build, known_keys
from trainer.config.compose import JsonValue, compose, conf_dir, config_names, flatten
from trainer.config.metrics import METRICS
from trainer.config.problems import ConfigError, ConfigProblem, nearest
from trainer.config.rules import world_size_problems
from trainer.config.schema import (
    AlgorithmConfig,
    Config,
    DataConfig,
    DistributedConfig,
    FsdpConfig,
    KlCtrlConfig,
    LoggingConfig,
    ModelConfig,
    OptimConfig,
    RewardConfig,
    RolloutConfig,
    SystemConfig,
    TrainerConfig,
    WarmStartConfig,
)

__all__ = [
    "METRICS",
    "AlgorithmConfig",
    "Config",
    "ConfigError",
    "ConfigProblem",
    "DataConfig",
    "DistributedConfig",
    "FsdpConfig",
    "JsonValue",
    "KlCtrlConfig",
    "LoggingConfig",
    "ModelConfig",
    "OptimConfig",
    "RewardConfig",
    "RolloutConfig",
    "SystemConfig",
    "TrainerConfig",
    "WarmStartConfig",
    "build",
    "compose",
    "conf_dir",
    "config_names",
    "flatten",
    "known_keys",
    "nearest",
    "world_size_problems",
]
