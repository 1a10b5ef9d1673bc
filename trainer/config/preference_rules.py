"""Rules that tell apart what learns from preferences and what learns from sampled responses."""

from __future__ import annotations

from collections.abc import Mapping

from trainer.config.problems import ConfigProblem
from trainer.config.schema import PREFERENCE_ALGORITHMS, Config

# The kinds of data that each algorithm learns from, and the options of `data` that bring the usual one.
KINDS: Mapping[str, tuple[str, ...]] = {"ppo": ("prompts",), "dpo": ("pairs",), "kto": ("labels", "pairs")}
_OPTIONS: Mapping[str, str] = {
    "ppo": "data=digits, arithmetic, jsonl or parquet",
    "dpo": "data=digits_preferences, jsonl_preferences or parquet_preferences",
    "kto": "data=digits_kto, jsonl_kto or parquet_kto",
}
# The keys of `algorithm.preference` that each algorithm reads; null for all others.
PREFERENCE_KEYS: Mapping[str, tuple[str, ...]] = {
    "ppo": (),
    "dpo": ("beta", "loss_type", "label_smoothing", "length_normalization"),
    "kto": ("beta", "desirable_weight", "undesirable_weight"),
}
# What would act if responses were sampled to train on; with preferences it must be off.
PREFERENCE_OFF: Mapping[str, object] = {
    "algorithm.truncation": "terminal",
    "algorithm.truncation_penalty": 0.0,
    "algorithm.overlong_buffer": 0,
    "algorithm.clip_ratio_high": None,
    "algorithm.clip_ratio_c": None,
    "algorithm.rollout_is_threshold": None,
    "algorithm.entropy_coeff": 0.0,
    "algorithm.kl_loss_coef": 0.0,
    "algorithm.kl_ctrl.type": "fixed",
    "algorithm.kl_ctrl.kl_coef": 0.0,
    "model.critic_path": None,
    "rollout.n": 1,
    "rollout.temperature": 1.0,
    "trainer.critic_warmup": 0,
}


def preference_problems(config: Config) -> list[ConfigProblem]:
    """Every such rule that this configuration breaks."""
    return [problem for rule in (_kind, _keys, _off, _loss, _overlong, _sizes) for problem in rule(config)]


def _kind(config: Config) -> list[ConfigProblem]:
    name, kind = config.algorithm.name, config.data.kind
    if kind in KINDS[name]:
        return []
    message = f"got {kind!r}, but algorithm.name = {name} learns from {' or '.join(KINDS[name])}"
    others = [f"algorithm={other}" for other, kinds in KINDS.items() if kind in kinds]
    hint = f"choose the option {_OPTIONS[name]}, or {' or '.join(others)}"
    return [ConfigProblem(path="data.kind", message=message, hint=hint)]


def _keys(config: Config) -> list[ConfigProblem]:
    name, preference = config.algorithm.name, config.algorithm.preference
    problems = []
    for key in dict.fromkeys(key for keys in PREFERENCE_KEYS.values() for key in keys):
        path, value = f"algorithm.preference.{key}", getattr(preference, key)
        if key in PREFERENCE_KEYS[name]:
            if value is None:
                message = f"is null, but algorithm.name = {name} needs it"
                problems.append(ConfigProblem(path=path, message=message, hint=f"choose the option algorithm={name}"))
        elif value is not None:
            readers = " or ".join(f"algorithm={other}" for other, keys in PREFERENCE_KEYS.items() if key in keys)
            message = f"got {value!r}, but algorithm.name = {name} does not read it"
            problems.append(
                ConfigProblem(path=path, message=message, hint=f"choose the option {readers}, or set it to null")
            )
    return problems


def _off(config: Config) -> list[ConfigProblem]:
    name = config.algorithm.name
    if name not in PREFERENCE_ALGORITHMS:
        return []
    problems = []
    for path, off in PREFERENCE_OFF.items():
        value: object = config
        for part in path.split("."):
            value = getattr(value, part)
        if value != off:
            message = f"got {value!r}, but algorithm.name = {name} learns from given answers and does not read it"
            hint = f"set it to {'null' if off is None else off}"
            hint += "; the pull to the reference is algorithm.preference.beta" if "kl_" in path else ""
            problems.append(ConfigProblem(path=path, message=message, hint=hint))
    return problems


def _loss(config: Config) -> list[ConfigProblem]:
    preference = config.algorithm.preference
    smoothing = preference.label_smoothing
    if config.algorithm.name != "dpo" or not smoothing:
        return []
    path = "algorithm.preference.label_smoothing"
    if preference.loss_type != "sigmoid":
        message = f"got {smoothing:g}, but algorithm.preference.loss_type = {preference.loss_type} does not read it"
        return [ConfigProblem(path=path, message=message, hint="use loss_type: sigmoid, or set it to 0")]
    if smoothing < 0.5:
        return []
    message = "got 0.5, must be < 0.5: if every second preference is wrong, there is nothing to learn"
    return [ConfigProblem(path=path, message=message, hint="usual: 0 to 0.3")]


def _overlong(config: Config) -> list[ConfigProblem]:
    kind, overlong = config.data.kind, config.data.overlong
    if (kind == "prompts") == (overlong is None):
        return []
    if overlong is None:
        message, hint = f"is null, but data.kind = {kind} needs it", "use drop or truncate"
    else:
        message = f"got {overlong!r}, but data.kind = prompts has no answers to be too long"
        hint = "set it to null"
    return [ConfigProblem(path="data.overlong", message=message, hint=hint)]


def _sizes(config: Config) -> list[ConfigProblem]:
    settings, name = config.trainer, config.algorithm.name
    problems = []
    if name == "dpo" and settings.use_dynamic_bsz:
        longest = config.data.max_prompt_length + config.data.max_response_length
        budget = settings.ppo_max_token_len_per_gpu
        if budget < 2 * longest:
            message = f"got {budget}, must hold a pair of the longest sequences: 2 * {longest} = {2 * longest} tokens"
            hint = f"use at least {2 * longest} tokens"
            problems.append(ConfigProblem(path="trainer.ppo_max_token_len_per_gpu", message=message, hint=hint))
    elif name == "dpo" and settings.ppo_micro_batch_size_per_gpu < 2:
        message = "got 1, must be at least 2: the two answers of a pair go through the network together"
        problems.append(
            ConfigProblem(path="trainer.ppo_micro_batch_size_per_gpu", message=message, hint="use 2 or more")
        )
    if name == "kto" and settings.train_batch_size < 2:
        message = "got 1, must be at least 2: the baseline is measured with the answers to other prompts"
        problems.append(ConfigProblem(path="trainer.train_batch_size", message=message, hint="use 2 or more"))
    return problems
