"""verl's PPO trainer as a backend: the same parameter and metric names as the project's own trainer."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from autotune.backends.base import Command, Description
from autotune.backends.command import adapter_argv, missing_workdir
from autotune.backends.config_file import differences, write_config
from autotune.backends.value_types import typed
from autotune.backends.verl.installation import KNOWN_VERSION, Installation, find
from autotune.backends.verl.names import METRICS, PARAMETERS
from autotune.backends.verl.plan import STEPS, Plan, bare_tree, plan_of
from autotune.backends.verl.rules import needs_critic, needs_reference
from autotune.backends.verl.settings import our_values
from autotune.backends.verl.tree import override
from autotune.errors import InvalidConfigError, Problem
from autotune.spec.nearest import did_you_mean
from autotune.spec.types import TrainerSpec
from autotune.spec.values import FlatConfig, JsonValue

STEPS_PATH = "trainer.total_steps"
SEED_PATH = "trainer.seed"
CONFIG = "ppo_trainer"
_STALL_S = 3600.0


class VerlBackend:
    """Runs ``python -m verl.trainer.main_ppo`` through an adapter that keeps the trial process contract for it.

    The configuration is verl's whole tree, flat, together with this project's names for the parameters that have one,
    and under ``backend.`` what was given and what the adapter needs.

    Args:
        cpus: Cores that one trial occupies; numerical libraries start that many threads and not one per core.
    """

    name = "verl"

    def __init__(self, cpus: float = 1.0) -> None:
        self._cpus = cpus

    def describe(self, trainer: TrainerSpec) -> Description:
        """Composes verl's own configuration, offline, with the fixed overrides; settings without effect are repaired.

        Raises:
            InvalidConfigError: With every problem of the interpreter, the configuration name and the overrides.
        """
        verl = _installed(trainer)
        config = trainer.config if trainer.config != TrainerSpec().config else CONFIG
        if not (verl.configs / f"{config}.yaml").is_file():
            known = sorted(path.stem for path in verl.configs.glob("*.yaml") if not path.stem.startswith("_"))
            message = f"verl {verl.version} has no configuration {config!r}."
            raise _refused([Problem(message=message, hint=did_you_mean(config, known), path="trainer.config")])
        searched = [name for name in trainer.searched if name not in trainer.overrides]
        made = _made(verl, config, trainer.overrides, searched)
        problems = [_in_space(problem, trainer) for problem in made.problems]
        steps = made.tree.get(STEPS)
        if not problems and not isinstance(steps, int):
            message = "verl needs to know how many steps a trial has."
            hint = "Write for example overrides: {trainer.total_steps: 100}"
            problems = [Problem(message=message, hint=hint, path="trainer.overrides")]
        if problems or not isinstance(steps, int):
            raise _refused([*problems, *_other_version(verl, made.tree)])
        own: dict[str, JsonValue] = {
            "backend.name": self.name,
            "backend.python": trainer.python,
            "backend.version": verl.version,
            "backend.config": config,
            "backend.overrides": [[name, value] for name, value in trainer.overrides.items()],
            "backend.searched": list(searched),
            "backend.workdir": trainer.workdir,
            "backend.env": [[name, text] for name, text in trainer.env.items()],
            "backend.stall_s": _STALL_S if trainer.stall_s is None else trainer.stall_s,
        }
        return Description(
            config={**made.tree, **our_values(made.tree), **own},
            metrics=_metrics(made.tree),
            steps=steps,
            steps_path=STEPS_PATH,
            seed_path=SEED_PATH,
        )

    def check(self, config: FlatConfig) -> tuple[Problem, ...]:
        """What verl would refuse in one complete configuration, without starting it."""
        verl = find(str(config.get("backend.python", "")))
        if isinstance(verl, Problem):
            return (verl,)
        base = _base(verl, config)
        lost = [problem for name in base if name not in config for problem in typed(name, None, config)]
        if lost:
            return tuple(lost)
        problems = _trial(verl, config, base).problems
        return tuple(dataclasses.replace(problem, path=problem.path or "backend.overrides") for problem in problems)

    def tree(self, config: FlatConfig) -> FlatConfig:
        """The whole configuration of verl as one trial gets it, flat; empty when verl is not there."""
        verl = find(str(config.get("backend.python", "")))
        return {} if isinstance(verl, Problem) else _trial(verl, config, _base(verl, config)).tree

    def prepare(self, config: FlatConfig, directory: Path) -> Command:
        """Writes ``config.yaml``, with the command line and what was repaired, and says how to start the adapter.

        Raises:
            InvalidConfigError: If verl is no longer there.
            ValueError: If a value is not finite.
            OSError: If the directory cannot be written.
        """
        verl = find(str(config.get("backend.python", "")))
        if isinstance(verl, Problem):
            raise _refused([verl])
        json.dumps(dict(config), allow_nan=False)  # before anything is made of a value that is not finite
        made = _trial(verl, config, _base(verl, config))
        here = {
            "trainer.default_local_dir": str(directory.absolute() / "checkpoints"),
            "hydra.run.dir": str(directory.absolute() / "output" / "hydra"),
            "hydra.output_subdir": None,
        }
        argv = _command(verl, config, {**made.values, **here})
        steps = made.tree[STEPS]
        written: dict[str, JsonValue] = {
            "backend.command": list[JsonValue](argv),
            "backend.notes": list[JsonValue](made.notes),
            "backend.steps": steps,
        }
        write_config({**config, **written}, directory)
        env = {"OMP_NUM_THREADS": str(max(1, int(self._cpus))), "TOKENIZERS_PARALLELISM": "true"}
        return Command(argv=adapter_argv(), env=env)

    def continues(self, shorter: FlatConfig, longer: FlatConfig) -> bool:  # noqa: ARG002 - one signature for all
        """Never: what else in verl depends on the number of steps is not known."""
        return False

    def command_line(self, trainer: TrainerSpec, config: FlatConfig) -> Sequence[str]:
        """The command line of verl for one complete configuration; everything that was repaired is in it.

        Raises:
            InvalidConfigError: If verl is not there or the trainer section cannot be used.
        """
        verl = _installed(trainer)
        env = [f"{name}={text}" for name, text in trainer.env.items()]
        values = _trial(verl, config, _base(verl, config)).values
        return [*(["env", *env] if env else []), *_command(verl, config, values)]


def _metrics(tree: FlatConfig) -> dict[str, str]:
    """The metrics that will come: without a critic or a reference there is nothing to measure about it."""
    absent = [] if needs_critic(tree) else [name for name in METRICS if name.startswith("critic/")]
    absent += [] if needs_reference(tree) else ["kl/actor_ref", "kl/coef"]
    return {name: metric.about for name, metric in METRICS.items() if name not in absent}


def _command(verl: Installation, config: FlatConfig, values: FlatConfig) -> list[str]:
    argv = [verl.python, "-m", "verl.trainer.main_ppo", "--config-name", str(config["backend.config"])]
    return argv + [override(key, value) for key, value in values.items()]


def _installed(trainer: TrainerSpec) -> Installation:
    verl = find(trainer.python)
    if isinstance(verl, Problem):
        raise _refused([verl])
    if wrong := missing_workdir(trainer):
        raise _refused(list(wrong))
    return verl


def _made(verl: Installation, config: str, given: FlatConfig, searched: list[str]) -> Plan:
    """The plan of the fixed overrides; what is searched has its default and counts as given."""
    try:
        bare = bare_tree(verl.configs, config, given)
    except ValueError as error:
        raise _not_composed(verl, config, error) from error
    _compare(verl, bare)
    try:
        # Twice, since a searched parameter's default is only known once the tree is there.
        plain = plan_of(verl.configs, config, _json(given), ())
        defaults = {**plain.tree, **our_values(plain.tree)}
        values = {name: defaults.get(name) for name in searched if name in defaults}
        unknown = {name: 0 for name in searched if name not in defaults}
        return plan_of(verl.configs, config, _json({**given, **values, **unknown}), tuple(searched))
    except ValueError as error:
        raise _not_composed(verl, config, error) from error


def _not_composed(verl: Installation, config: str, error: ValueError) -> InvalidConfigError:
    message = f"verl {verl.version} cannot compose {config!r}: {error}."
    return _refused([Problem(message=message, hint="Correct the overrides.", path="trainer.overrides")])


def _lacking(tree: FlatConfig) -> list[str]:
    """The keys that the table of names speaks of and this verl does not have."""
    return sorted(keys.keys[0] for keys in PARAMETERS.values() if not any(key in tree for key in keys.keys))


def other_keys(version: str, tree: FlatConfig) -> str:
    """In which keys this verl differs from the known one, in words; empty where the known one has no more.

    Args:
        version: Of this verl.
        tree: Its whole configuration, flat.
    """
    lost = _lacking(tree)
    return f"verl {version} has other keys than {KNOWN_VERSION}: it lacks {', '.join(lost)}" if lost else ""


def _other_version(verl: Installation, tree: FlatConfig) -> list[Problem]:
    """What else is to be known where something is refused: that this is another verl, and in what."""
    found = "" if verl.version == KNOWN_VERSION else other_keys(verl.version, tree)
    hint = f"Leave these keys out, or install verl {KNOWN_VERSION}."
    return [Problem(message=f"{found}.", hint=hint, path="trainer.python")] if found else []


def _compare(verl: Installation, tree: FlatConfig) -> None:
    """Refuses a verl whose keys are others than those that the table of names was written for."""
    if len(_lacking(tree)) > len(PARAMETERS) // 10 and (problems := _other_version(verl, tree)):
        raise _refused(problems)


def _base(verl: Installation, config: FlatConfig) -> FlatConfig:
    """The configuration that a trial started from."""
    given, searched = _given(config), _searched(config)
    tree = _made(verl, str(config["backend.config"]), given, searched).tree
    return {**tree, **our_values(tree)}


def _trial(verl: Installation, config: FlatConfig, base: FlatConfig) -> Plan:
    """The plan of a trial: the fixed overrides, the searched parameters, and whatever else differs."""
    given, searched = _given(config), _searched(config)
    changed = differences(config, base)
    # The length of a trial may have been fixed under verl's own name and changed under ours.
    replaced = {PARAMETERS[name].keys for name in changed if name in PARAMETERS}
    given = {name: value for name, value in given.items() if (name,) not in replaced}
    values = {**given, **{name: config[name] for name in searched if name in config}, **changed}
    return plan_of(verl.configs, str(config["backend.config"]), _json(values), tuple(searched))


def _given(config: FlatConfig) -> dict[str, JsonValue]:
    pairs = config.get("backend.overrides")
    found: dict[str, JsonValue] = {}
    for pair in pairs if isinstance(pairs, list) else []:
        if isinstance(pair, list) and len(pair) == 2:
            found[str(pair[0])] = pair[1]
    return found


def _searched(config: FlatConfig) -> list[str]:
    names = config.get("backend.searched")
    return [str(name) for name in names] if isinstance(names, list) else []


def _json(values: Mapping[str, JsonValue]) -> str:
    return json.dumps(values)


def _in_space(problem: Problem, trainer: TrainerSpec) -> Problem:
    """A problem of a name, under the key of the space file where the name was written."""
    if problem.path in trainer.overrides:
        path = f"trainer.overrides.{problem.path}"
    else:
        path = f"search.{problem.path}" if problem.path in trainer.searched else "trainer.overrides"
    return dataclasses.replace(problem, path=path)


def _refused(problems: list[Problem]) -> InvalidConfigError:
    count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    return InvalidConfigError(f"verl cannot run this: {count}.", hint="Correct the trainer section.", problems=problems)
