"""The project's own trainer as a backend. Hydra is imported only when a configuration is composed."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import cast

from autotune.backends.base import Command, Description
from autotune.backends.config_file import differences, nested, write_config
from autotune.errors import InvalidConfigError, Problem
from autotune.spec.placeholders import written
from autotune.spec.types import TrainerSpec
from autotune.spec.values import FlatConfig, JsonValue
from trainer.config import ConfigError, ConfigProblem, build, compose, flatten, metrics_of, unread_keys
from trainer.config.rules import TINY

STEPS_PATH = "trainer.total_steps"
_HOUSEKEEPING = ("trainer.save_freq", "trainer.max_checkpoints", "trainer.eval_samples")
"""What changes nothing that is learnt or measured."""
SEED_PATH = "trainer.seed"
_UNTIL_PATH = "trainer.until_step"
_BEST_PATH = "trainer.save_best"
CHANGEABLE = (
    "algorithm.gamma",
    "algorithm.lam",
    "algorithm.whiten_advantages",
    "algorithm.truncation_penalty",
    "algorithm.clip_ratio",
    "algorithm.clip_ratio_high",
    "algorithm.clip_ratio_c",
    "algorithm.cliprange_value",
    "algorithm.vf_coef",
    "algorithm.entropy_coeff",
    "algorithm.kl_loss_coef",
    "algorithm.kl_ctrl.kl_coef",
    "algorithm.kl_ctrl.target_kl",
    "algorithm.kl_ctrl.horizon",
    "rollout.temperature",
    "trainer.ppo_epochs",
    "trainer.grad_clip",
    "trainer.optim.lr",
    "trainer.optim.critic_lr",
    "trainer.optim.weight_decay",
)
"""What acts anew in every step, so that a run that goes on from a checkpoint may have another value of it."""


class NativeBackend:
    """Runs ``python -m trainer --trial`` in the trial directory.

    Args:
        cpus: Cores that one trial occupies; numerical libraries start that many threads and not one per core.
    """

    name = "native"

    def __init__(self, cpus: float = 1.0) -> None:
        self._cpus = cpus

    def describe(self, trainer: TrainerSpec) -> Description:
        """Composes the configuration with the fixed overrides.

        Raises:
            InvalidConfigError: With every problem of the configuration name and the overrides; each path starts with
                ``trainer.``, as in the space file.
        """
        try:
            built = build(compose(trainer.config, trainer.overrides))
        except ConfigError as error:
            problems = tuple(_in_space(problem, trainer) for problem in error.problems)
            count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
            raise InvalidConfigError(
                f"the configuration {trainer.config!r} with its overrides cannot be used: {count}.",
                hint="Correct trainer.config and trainer.overrides.",
                problems=problems,
            ) from error
        # The typed configuration, not the composed one: there a fraction is a fraction even if it was written as 1.
        config = cast("dict[str, JsonValue]", flatten(dataclasses.asdict(built)))
        return Description(
            config=config,
            metrics=metrics_of(built),
            steps=built.trainer.total_steps,
            steps_path=STEPS_PATH,
            seed_path=SEED_PATH,
            unread=unread_keys(built),
        )

    def check(self, config: FlatConfig) -> tuple[Problem, ...]:
        """Everything that is wrong with one complete configuration, without starting anything."""
        try:
            build(nested(config))
        except ConfigError as error:
            return tuple(
                Problem(message=_sentence(p.message), hint=_sentence(p.hint), path=p.path) for p in error.problems
            )
        return ()

    def prepare(self, config: FlatConfig, directory: Path) -> Command:
        """Writes ``config.yaml`` into the trial directory, atomically, and says how to start the trainer there.

        Raises:
            ValueError: If a value is not finite.
            OSError: If the directory cannot be written.
        """
        write_config(config, directory)
        return self.command(config)

    def command(self, config: FlatConfig) -> Command:
        """How the trainer is started in a directory that holds this configuration."""
        tiny = config.get("model.path") == TINY
        return Command(
            argv=(sys.executable, "-m", "trainer", "--trial"),
            env=self._environment(),
            preload="trainer.preload.builtin" if tiny else "trainer.preload.pretrained",
        )

    def on_ranks(self, command: Command, ranks: int) -> Command:
        """The trainer under torch's launcher, which finds a free port of its own for the ranks to meet at.

        The launcher starts its ranks itself, each in a fresh interpreter.
        """
        python, *rest = command.argv
        launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks))
        return Command(argv=(python, *launcher, *rest), env=command.env)

    def continues(self, shorter: FlatConfig, longer: FlatConfig) -> bool:
        """Whether a run of ``longer`` begins exactly like one of ``shorter`` and can go on from its checkpoint.

        A cosine schedule and an adaptive KL penalty without a horizon of its own are spread over all the steps.
        """
        spread = longer.get("trainer.optim.scheduler") != "constant"
        adaptive = longer.get("algorithm.kl_ctrl.type") == "adaptive"
        if spread or (adaptive and longer.get("algorithm.kl_ctrl.horizon") is None):
            return False
        ignored = {STEPS_PATH, *_HOUSEKEEPING}
        differing = {path for path in shorter.keys() | longer.keys() if shorter.get(path) != longer.get(path)}
        return differing <= ignored

    def fixed(self, config: FlatConfig, paths: Iterable[str]) -> Mapping[str, str]:
        """Of these paths those that a run cannot change when it goes on, each with the reason."""
        adaptive = config.get("algorithm.kl_ctrl.type") == "adaptive"
        found: dict[str, str] = {}
        for path in paths:
            if path == "algorithm.kl_ctrl.kl_coef" and adaptive:
                found[path] = "an adaptive KL penalty goes on with the coefficient that it has reached"
            elif path not in CHANGEABLE:
                found[path] = "the checkpoint, the data order or the length of the run depends on it"
        if config.get(_BEST_PATH) is not None:
            found[_BEST_PATH] = "the best checkpoint of a run that is given up would stay behind"
        return found

    def until(self, config: FlatConfig, step: int) -> FlatConfig:
        """The configuration of the same run that ends after a step, with a checkpoint."""
        return config if step >= cast("int", config[STEPS_PATH]) else {**config, _UNTIL_PATH: step}

    def command_line(self, trainer: TrainerSpec, config: FlatConfig) -> Sequence[str]:
        """What a person types to run one complete configuration without this project.

        Raises:
            InvalidConfigError: If the trainer section cannot be used.
        """
        values = {**trainer.overrides, **differences(config, self.describe(trainer).config)}
        overrides = (f"{path}={written(value)}" for path, value in values.items())
        return ("python", "-m", "trainer", "--config-name", trainer.config, *overrides)

    def _environment(self) -> Mapping[str, str]:
        env = {
            "OMP_NUM_THREADS": str(max(1, int(self._cpus))),
            "TOKENIZERS_PARALLELISM": "false",
            "PYTHONUNBUFFERED": "1",
        }
        root = Path(sys.modules["trainer"].__file__ or "").resolve().parent.parent
        if (root / "pyproject.toml").is_file():
            # A checkout need not be installed: the process starts in the trial directory and must find the trainer.
            paths = [str(root), *filter(None, [os.environ.get("PYTHONPATH")])]
            env["PYTHONPATH"] = os.pathsep.join(paths)
        return env


def _in_space(problem: ConfigProblem, trainer: TrainerSpec) -> Problem:
    """A problem of the configuration, under the key of the space file that caused it."""
    key = _cause(problem.path, trainer.overrides)
    path = "trainer.config" if not problem.path else f"trainer.overrides.{key}"
    about = "" if key == problem.path or not problem.path else f"{problem.path}: "
    return Problem(message=about + _sentence(problem.message), hint=_sentence(problem.hint), path=path)


def _cause(path: str, overrides: Iterable[str]) -> str:
    """The override that a path comes from: itself, or the longest one around it (a group that was chosen)."""
    around = [key for key in overrides if path == key or path.startswith(f"{key}.")]
    return max(around, key=len, default=path)


def _sentence(text: str) -> str:
    text = text.strip()
    text = text[:1].upper() + text[1:] if text.startswith(("did ", "known", "set ")) else text
    return text if not text or text[-1] in ".?!" else f"{text}."
