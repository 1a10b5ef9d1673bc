"""The configuration: compose it from `conf/`, check it, read it. Imports neither torch nor (until used) Hydra."""

from __future__ import annotations

from trainer.config.build import build, known_keys
from trainer.config.compose import JsonValue, compose, conf_dir, config_names, flatten
from trainer.config.metrics import METRICS, metrics_of
from trainer.config.problems import ConfigError, ConfigProblem, nearest
from trainer.config.rules import world_size_problems
from trainer.config.schema import (
    AlgorithmConfig,
    ComponentConfig,
    Config,
    DataConfig,
    DistributedConfig,
    FsdpConfig,
    KlCtrlConfig,
    LoggingConfig,
    ModelConfig,
    OptimConfig,
    PreferenceConfig,
    ProfileConfig,
    RewardConfig,
    RewardModelConfig,
    RolloutConfig,
    SystemConfig,
    TrainerConfig,
    WarmStartConfig,
)
from trainer.config.unread import unread_keys

__all__ = [
    "METRICS",
    "AlgorithmConfig",
    "ComponentConfig",
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
    "PreferenceConfig",
    "ProfileConfig",
    "RewardConfig",
    "RewardModelConfig",
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
    "metrics_of",
    "nearest",
    "unread_keys",
    "world_size_problems",
]
