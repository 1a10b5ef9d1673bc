"""Rules over several keys."""

from __future__ import annotations

from collections.abc import Callable

from trainer.config.algorithm_rules import algorithm_problems
from trainer.config.machine_rules import machine_problems
from trainer.config.preference_rules import preference_problems
from trainer.config.problems import ConfigProblem
from trainer.config.reward_rules import reward_problems
from trainer.config.rollout_rules import rollout_problems, rollout_world_problems
from trainer.config.schema import Config, ModelConfig

TINY = "tiny"
FILE_FORMATS = ("jsonl", "parquet")


def cross_field_problems(config: Config) -> list[ConfigProblem]:
    """Every rule that this configuration breaks."""
    return [problem for rule in _RULES for problem in rule(config)]


def world_size_problems(config: Config, world_size: int) -> list[ConfigProblem]:
    """What only the number of ranks can tell: every batch must split evenly over them."""
    problems = []
    sizes = {
        "trainer.train_batch_size": config.trainer.train_batch_size,
        "trainer.mini_batch_size": config.trainer.mini_batch_size * config.rollout.n,
    }
    for path, size in sizes.items():
        if size % world_size:
            message = f"{size} responses cannot be split evenly over {world_size} ranks"
            problems.append(ConfigProblem(path=path, message=message, hint=f"use a multiple of {world_size}"))
    return [*problems, *rollout_world_problems(config, world_size)]


def _batches(config: Config) -> list[ConfigProblem]:
    train, mini = config.trainer.train_batch_size, config.trainer.mini_batch_size
    problems = []
    if train % mini:
        message = f"got {mini}, must divide trainer.train_batch_size = {train}"
        fitting = [size for size in range(1, train + 1) if train % size == 0]
        closest = min(fitting, key=lambda size: abs(size - mini))
        problems.append(ConfigProblem(path="trainer.mini_batch_size", message=message, hint=f"{closest} would do"))
    if config.data.train_size is not None and config.data.train_size < train:
        message = f"got {train}, but there are only data.train_size = {config.data.train_size} prompts"
        problems.append(
            ConfigProblem(path="trainer.train_batch_size", message=message, hint="lower it or raise data.train_size")
        )
    return problems


def _schedule(config: Config) -> list[ConfigProblem]:
    warmup, total = config.trainer.optim.warmup_steps, config.trainer.total_steps
    if warmup <= total:
        return []
    message = f"got {warmup}, must be at most trainer.total_steps = {total}"
    return [ConfigProblem(path="trainer.optim.warmup_steps", message=message, hint="lower it or train longer")]


def _kl(config: Config) -> list[ConfigProblem]:
    kl = config.algorithm.kl_ctrl
    problems = []
    if kl.type == "adaptive":
        if kl.target_kl is None:
            message = "is null, but algorithm.kl_ctrl.type = adaptive needs it"
            problems.append(
                ConfigProblem(path="algorithm.kl_ctrl.target_kl", message=message, hint="set it or use type: fixed")
            )
        if kl.kl_coef == 0:
            message = "is 0, and an adaptive controller multiplies: it would stay 0 for ever"
            problems.append(ConfigProblem(path="algorithm.kl_ctrl.kl_coef", message=message, hint="start at 0.001"))
    return problems


def _clip(config: Config) -> list[ConfigProblem]:
    low, high = config.algorithm.clip_ratio, config.algorithm.clip_ratio_high
    problems = []
    if low >= 1:
        message = f"got {low:g}, must be < 1 (the ratio is clipped to [1 - clip_ratio, ...])"
        problems.append(ConfigProblem(path="algorithm.clip_ratio", message=message, hint="usual: 0.1 to 0.3"))
    if high is not None and high < low:
        message = f"got {high:g}, must be at least algorithm.clip_ratio = {low:g}"
        problems.append(ConfigProblem(path="algorithm.clip_ratio_high", message=message, hint="null means the same"))
    return problems


def _model(config: Config) -> list[ConfigProblem]:
    model = config.model
    sizes = {name: getattr(model, name) for name in ("hidden_size", "intermediate_size", "num_layers", "num_heads")}
    if model.path == TINY:
        problems = [
            ConfigProblem(
                path=f"model.{name}",
                message=f"is null, but the built-in model '{TINY}' needs it",
                hint="see model=tiny",
            )
            for name, size in sizes.items()
            if size is None
        ]
        if model.critic_path is not None:
            message = f"got {model.critic_path!r}, but the critic of '{TINY}' starts from the actor"
            problems.append(ConfigProblem(path="model.critic_path", message=message, hint="set it to null"))
        if model.trust_remote_code:
            message = f"got true, but the built-in model '{TINY}' brings no code"
            problems.append(ConfigProblem(path="model.trust_remote_code", message=message, hint="set it to false"))
        return problems or _rotary(model)
    given = [name for name, size in sizes.items() if size is not None]
    if given or model.warm_start.steps:
        named = [*given, *(["warm_start.steps"] if model.warm_start.steps else [])]
        message = (
            f"got {model.path!r}, which brings its own sizes and weights, but "
            f"{', '.join(f'model.{name}' for name in named)} are those of the built-in '{TINY}'"
        )
        return [ConfigProblem(path="model.path", message=message, hint="choose the option model=hf")]
    return []


def _rotary(model: ModelConfig) -> list[ConfigProblem]:
    hidden, heads = model.hidden_size, model.num_heads
    if hidden is None or heads is None or (hidden % heads == 0 and (hidden // heads) % 2 == 0):
        return []
    message = f"got {hidden}, must be an even multiple of model.num_heads = {heads} (rotary embeddings come in pairs)"
    return [
        ConfigProblem(
            path="model.hidden_size", message=message, hint=f"{2 * heads * max(1, hidden // (2 * heads))} would do"
        )
    ]


def _data(config: Config) -> list[ConfigProblem]:
    data = config.data
    of_files = data.name in FILE_FORMATS
    needed = ("train_file",) if of_files else ("width", "train_size", "eval_size")
    unused = ("width",) if of_files else ("train_file", "eval_file")
    problems = [
        ConfigProblem(path=f"data.{name}", message=f"is null, but data.name = {data.name} needs it", hint="set it")
        for name in needed
        if getattr(data, name) is None
    ]
    for name in unused:
        if getattr(data, name) is not None:
            message = f"got {getattr(data, name)!r}, but data.name = {data.name} does not read it"
            hint = "set it to null" if of_files else "choose the option data=jsonl or data=parquet, or set it to null"
            problems.append(ConfigProblem(path=f"data.{name}", message=message, hint=hint))
    if of_files and data.eval_file is None and data.eval_size is None:
        message = "is null, and so is data.eval_file: nothing would be held out for the evaluation"
        problems.append(ConfigProblem(path="data.eval_size", message=message, hint="set one of the two"))
    if of_files and config.model.path == TINY:
        message = f"got {TINY!r}, which knows the characters of the built-in tasks only, not the words of a file"
        problems.append(ConfigProblem(path="model.path", message=message, hint="choose model=hf or model=smollm2"))
    return problems


def _until(config: Config) -> list[ConfigProblem]:
    until, total = config.trainer.until_step, config.trainer.total_steps
    if until is None or until <= total:
        return []
    message = f"got {until}, must be at most trainer.total_steps = {total}"
    return [ConfigProblem(path="trainer.until_step", message=message, hint="null means all steps")]


_RULES: tuple[Callable[[Config], list[ConfigProblem]], ...] = (
    _clip,
    _kl,
    algorithm_problems,
    preference_problems,
    _model,
    _data,
    rollout_problems,
    _batches,
    _schedule,
    _until,
    reward_problems,
    machine_problems,
)
