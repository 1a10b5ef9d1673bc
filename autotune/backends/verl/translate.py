"""From a configuration of the built-in trainer to verl's keys and back, offline: what has no equivalent is said."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath

from autotune.backends.verl.names import ACTOR, MODEL, PARAMETERS, WITHOUT_EQUIVALENT
from autotune.errors import InvalidConfigError
from autotune.spec.values import FlatConfig, JsonValue
from trainer.config import ConfigError, build, compose, known_keys

_ESTIMATORS: Mapping[str, str] = {
    "gae": "gae",
    "grpo": "grpo",
    "dr_grpo": "grpo",
    "rloo": "rloo",
    "reinforce_pp": "reinforce_plus_plus",
    "reinforce_pp_baseline": "reinforce_plus_plus_baseline",
}
"""Our estimator -> verl's."""
_GROUPS: Mapping[str, str] = {"grpo": "grpo", "rloo": "rloo", "reinforce_plus_plus": "reinforce_pp", "gae": "ppo"}
"""verl's estimator -> our option of ``algorithm``."""
_KL_LOSSES: Mapping[str, str] = {"k2": "mse", "k3": "low_var_kl"}
_ALIKE = ("data.max_prompt_length", "data.max_response_length", "trainer.save_freq", "trainer.test_freq")
_ENGINES = ("vllm", "sglang")
_KL = "algorithm.kl_ctrl"
_TREATED = (
    "algorithm",
    "algorithm.name",
    "algorithm.adv_estimator",
    "algorithm.vf_coef",
    "algorithm.kl_loss_coef",
    "algorithm.kl_loss_type",
    "algorithm.loss_agg_mode",
    "data",
    "data.name",
    "data.train_file",
    "data.eval_file",
    "model",
    "reward",
    "reward.name",
    "reward.function",
    "rollout",
    "trainer.use_remove_padding",
)
"""Names that are taken over by rules of their own."""

Translated = tuple[dict[str, JsonValue], list[str]]
"""Keys with values, and what could not be taken over, one sentence each."""


def to_verl(config: FlatConfig, named: tuple[str, ...]) -> Translated:
    """A configuration of the built-in trainer in verl's keys.

    Args:
        config: It, flat and complete.
        named: The names that somebody has set or searched: of these it is said when they cannot be taken over.

    Raises:
        InvalidConfigError: If it learns from preferences, which verl's PPO trainer does not.
    """
    method = str(config.get("algorithm.adv_estimator"))
    if config.get("algorithm.name") in ("dpo", "kto"):
        raise InvalidConfigError(
            f"verl's PPO trainer does not do {config['algorithm.name']}.",
            hint="Export it with --to native or --to yaml.",
        )
    notes: list[str] = []
    values: dict[str, JsonValue] = {"algorithm.adv_estimator": _ESTIMATORS.get(method, method)}
    if method == "dr_grpo":
        values["algorithm.norm_adv_by_std_in_grpo"] = False
    for name, mapped in PARAMETERS.items():
        value = config.get(name)
        if value is None or (name.startswith("model.lora") and not config.get("model.lora_rank")):
            continue
        if mapped.words and str(value) not in mapped.words:
            notes.append(f"{name}={value} has no equivalent in verl; it knows {', '.join(mapped.words)}.")
            continue
        keys = [key for key in mapped.keys if ".megatron." not in key and not key.endswith("decay_style")]
        values.update({key: mapped.words.get(str(value), value) for key in keys if _read(key, method)})
    values |= {name: config[name] for name in _ALIKE if config.get(name) is not None}
    values["trainer.total_epochs"] = config.get("trainer.num_epochs") or config["trainer.total_steps"]
    _kl(config, values)
    for part in (_losses, _model, _data, _reward):
        part(config, values, notes)
    handled = {*PARAMETERS, *_ALIKE, *_TREATED}
    for name in named:
        if name not in handled and not name.startswith((_KL, "data.", "rollout.")):
            about = WITHOUT_EQUIVALENT.get(name, "set what it is for by hand")
            notes.append(f"{name}={config.get(name)} has no equivalent in verl: {about}.")
    return values, notes


def to_native(config: FlatConfig) -> Translated:
    """A configuration of verl as overrides of the built-in trainer; ``config`` has our names beside verl's tree."""
    notes: list[str] = []
    estimator = str(config.get("algorithm.adv_estimator", "gae"))
    engine = str(config.get("rollout.name"))
    values: dict[str, JsonValue] = {
        "algorithm": _GROUPS.get(estimator, "ppo"),
        "model": "hf",
        "rollout": engine if engine in _ENGINES else "hf",
    }
    if estimator not in _GROUPS:
        notes.append(f"the built-in trainer has no estimator {estimator!r}; took {values['algorithm']}.")
    names = [*PARAMETERS, *_ALIKE]
    known = frozenset(known_keys())
    values |= {name: config[name] for name in names if name in known and config.get(name) is not None}
    values.pop("rollout.name", None)
    values.pop("trainer.num_epochs", None)
    if values["algorithm"] == "ppo":
        values["algorithm.vf_coef"] = 1.0  # verl's critic has a learning rate of its own and no weight
    else:
        values.pop("trainer.optim.critic_lr", None)
    _native_kl(config, values)
    _native_data(config, values, notes)
    _native_reward(config, values, notes)
    return _accepted(values, notes), notes


def _read(key: str, method: str) -> bool:
    return method == "gae" or not key.startswith("critic.")


def _kl(config: FlatConfig, values: dict[str, JsonValue]) -> None:
    coefficient = config.get(f"{_KL}.kl_coef")
    values["algorithm.use_kl_in_reward"] = bool(coefficient)
    if not coefficient:
        return
    values |= {f"{_KL}.{name}": config.get(f"{_KL}.{name}") for name in ("type", "kl_coef")}
    if config.get(f"{_KL}.type") == "adaptive":
        values[f"{_KL}.target_kl"] = config.get(f"{_KL}.target_kl")
        sizes = [config.get(name) for name in ("trainer.total_steps", "trainer.train_batch_size", "rollout.n")]
        steps, batch, samples = (size if isinstance(size, int) else 1 for size in sizes)
        # Where it is open, ours is a twentieth of all responses; verl's own 10000 would hardly move in a short run.
        values[f"{_KL}.horizon"] = config.get(f"{_KL}.horizon") or max(1, steps * batch * samples // 20)


def _losses(config: FlatConfig, values: dict[str, JsonValue], notes: list[str]) -> None:  # noqa: ARG001 - as the others
    values.pop(f"{ACTOR}.clip_ratio", None)  # low and high decide
    weight = config.get("algorithm.kl_loss_coef")
    values[f"{ACTOR}.use_kl_loss"] = bool(weight)
    if weight:
        kind = str(config.get("algorithm.kl_loss_type"))
        values |= {f"{ACTOR}.kl_loss_coef": weight, f"{ACTOR}.kl_loss_type": _KL_LOSSES.get(kind, kind)}
    vf_coef, critic_lr = config.get("algorithm.vf_coef"), config.get("trainer.optim.critic_lr")
    if "critic.optim.lr" in values and isinstance(vf_coef, int | float) and isinstance(critic_lr, int | float):
        values["critic.optim.lr"] = float(f"{critic_lr * vf_coef:.6g}")


def _model(config: FlatConfig, values: dict[str, JsonValue], notes: list[str]) -> None:
    values[f"{MODEL}.use_remove_padding"] = bool(config.get("trainer.use_remove_padding"))
    values[f"{ACTOR}.strategy"] = "fsdp2"
    for part in (MODEL, "critic.model"):
        alpha = values.get(f"{part}.lora_alpha")
        if isinstance(alpha, float):
            values[f"{part}.lora_alpha"] = int(alpha) if alpha.is_integer() else alpha
    if f"{MODEL}.lora_rank" in values:
        values["actor_rollout_ref.rollout.load_format"] = "safetensors"  # from dummy weights adapters never arrive
    if values["algorithm.adv_estimator"] == "gae":
        values["critic.strategy"] = "fsdp2"
    if config.get("model.path") in ("tiny", "smollm2"):
        notes.append(f"verl cannot build the model {config['model.path']!r}: set model.path to a model of yours.")
    if config.get("rollout.name") not in _ENGINES:
        values["actor_rollout_ref.rollout.name"] = "vllm"
        notes.append(f"verl has no rollout engine {config.get('rollout.name')!r}; took vllm.")


def _data(config: FlatConfig, values: dict[str, JsonValue], notes: list[str]) -> None:
    train, held_out = config.get("data.train_file"), config.get("data.eval_file")
    if train is None:
        notes.append(f"verl has no task {config.get('data.name')!r}: set data.train_files and data.val_files.")
        return
    values["data.train_files"] = train
    if held_out is None:
        notes.append("verl holds nothing out by itself: set data.val_files to rows that are not trained on.")
    else:
        values["data.val_files"] = held_out
    if config.get("data.name") != "parquet":
        notes.append("verl's rows have data_source and reward_model beside the prompt: see that yours have them.")


def _reward(config: FlatConfig, values: dict[str, JsonValue], notes: list[str]) -> None:
    function = config.get("reward.function")
    if isinstance(function, str):
        module, _, name = function.partition(":")
        values["reward.custom_reward_function.path"] = module.replace(".", "/") + ".py"
        values["reward.custom_reward_function.name"] = name
        notes.append(
            "verl calls a reward function with data_source, solution_str, ground_truth and extra_info: see that "
            f"{function} takes them, and give its file by an absolute path."
        )
    else:
        notes.append(f"verl chooses its reward by the rows' data_source: see that it is {config.get('reward.name')!r}.")


def _native_kl(config: FlatConfig, values: dict[str, JsonValue]) -> None:
    coefficient = config.get(f"{_KL}.kl_coef")
    in_reward = config.get("algorithm.use_kl_in_reward") is True
    values[f"{_KL}.type"] = config.get(f"{_KL}.type", "fixed") if in_reward else "fixed"
    values[f"{_KL}.kl_coef"] = coefficient if in_reward else 0.0
    if values[f"{_KL}.type"] == "adaptive":
        values |= {f"{_KL}.{name}": config.get(f"{_KL}.{name}") for name in ("target_kl", "horizon")}
    if config.get(f"{ACTOR}.use_kl_loss") is True:
        kind = str(config.get(f"{ACTOR}.kl_loss_type"))
        values["algorithm.kl_loss_coef"] = config.get(f"{ACTOR}.kl_loss_coef")
        values["algorithm.kl_loss_type"] = "k3" if kind.startswith(("low_var_kl", "k3")) else "k2"


def _native_data(config: FlatConfig, values: dict[str, JsonValue], notes: list[str]) -> None:
    values["data"] = "parquet"
    for ours, theirs in (("data.train_file", "data.train_files"), ("data.eval_file", "data.val_files")):
        files = config.get(theirs)
        listed = files if isinstance(files, list) else [files]
        if len(listed) > 1:
            notes.append(f"{theirs} names {len(listed)} files; took the first.")
        values[ours] = listed[0]


def _native_reward(config: FlatConfig, values: dict[str, JsonValue], notes: list[str]) -> None:
    path, name = (config.get(f"reward.custom_reward_function.{part}") for part in ("path", "name"))
    if isinstance(path, str) and path:
        values |= {"reward.name": None, "reward.function": f"{PurePath(path).stem}:{name or 'compute_score'}"}
        notes.append(f"put {PurePath(path).parent} on PYTHONPATH, so that {values['reward.function']} is found.")
        return
    values["reward"] = "gsm8k" if "gsm8k" in str(config.get("data.train_files")) else "exact_match"
    notes.append(f"verl chose the reward by the rows' data_source; took {values['reward']}, look at it.")


def _accepted(values: dict[str, JsonValue], notes: list[str]) -> dict[str, JsonValue]:
    """The overrides that the trainer takes; those that it refuses are left out and named."""
    for _ in range(len(values)):
        try:
            build(compose("config", values))
        except ConfigError as error:
            refused = {problem.path: problem for problem in error.problems if problem.path in values}
            if not refused:
                notes.extend(str(problem) for problem in error.problems)
                return values
            notes += [f"left out {path}={values[path]}: {problem.message}." for path, problem in refused.items()]
            values = {path: value for path, value in values.items() if path not in refused}
        else:
            return values
    return values
