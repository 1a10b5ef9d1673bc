"""Any program as a backend. Its parameters are declared in the space file and reach it as arguments."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from autotune.backends.adapter import __main__ as adapter
from autotune.backends.base import Command, Description
from autotune.backends.config_file import OWN, write_config
from autotune.backends.value_types import typed
from autotune.errors import InvalidConfigError, Problem
from autotune.spec.nearest import did_you_mean
from autotune.spec.placeholders import fill, placeholders
from autotune.spec.types import MetricsSpec, TrainerSpec
from autotune.spec.values import FlatConfig, JsonValue

STEPS_PATH = "steps"
SEED_PATH = "seed"
_SCRIPTS = (".py", ".sh", ".bash", ".r", ".jl", ".pl", ".js")
_INTERPRETERS = ("python", "bash", "sh", "Rscript", "julia", "perl", "node")


class CommandBackend:
    """Runs the command through an adapter that keeps the trial process contract for it.

    The configuration is the declared parameters, ``steps``, ``seed``, and under ``backend.`` what the adapter needs.

    Args:
        cpus: Cores that one trial occupies; numerical libraries start that many threads and not one per core.
    """

    name = "command"

    def __init__(self, cpus: float = 1.0) -> None:
        self._cpus = cpus

    def describe(self, trainer: TrainerSpec) -> Description:
        """The declared parameters with the fixed overrides applied.

        Raises:
            InvalidConfigError: If the program or its working directory does not exist, or an override is wrong.
        """
        problems = [*_places(trainer), *_overrides(trainer)]
        if problems:
            count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
            raise InvalidConfigError(
                f"the command cannot be run: {count}.", hint="Correct the trainer section.", problems=problems
            )
        steps = trainer.steps or 1
        own: dict[str, JsonValue] = {
            "backend.name": self.name,
            "backend.command": list(trainer.command),
            "backend.workdir": trainer.workdir,
            "backend.stall_s": trainer.stall_s,
            "backend.env": [[name, text] for name, text in trainer.env.items()],
            "backend.parameters": [[name, default] for name, default in trainer.parameters.items()],
            "backend.metrics.read": trainer.metrics.read,
            "backend.metrics.file": trainer.metrics.file,
            "backend.metrics.step": trainer.metrics.step,
            "backend.metrics.patterns": list(trainer.metrics.patterns),
            "backend.metrics.names": [[metric, source] for metric, source in trainer.metrics.names.items()],
        }
        given = {STEPS_PATH: steps, SEED_PATH: 0, **trainer.parameters, **trainer.overrides}
        return Description(
            config={**given, **own},
            metrics={metric: _about(trainer.metrics, source) for metric, source in trainer.metrics.names.items()},
            steps=steps,
            steps_path=STEPS_PATH,
            seed_path=SEED_PATH,
        )

    def check(self, config: FlatConfig) -> tuple[Problem, ...]:
        """Everything that is wrong with one complete configuration, without starting anything."""
        declared = config.get("backend.parameters")
        if not isinstance(declared, list):
            return (Problem(message="the declared parameters are missing.", path="backend.parameters"),)
        pairs = [pair for pair in declared if isinstance(pair, list) and len(pair) == 2]
        expected: dict[str, JsonValue] = {STEPS_PATH: 1, SEED_PATH: 0, **{str(name): value for name, value in pairs}}
        return tuple(problem for name, default in expected.items() for problem in typed(name, default, config))

    def prepare(self, config: FlatConfig, directory: Path) -> Command:
        """Writes ``config.yaml`` into the trial directory and says how to start the adapter there.

        Raises:
            ValueError: If a value is not finite.
            OSError: If the directory cannot be written.
        """
        write_config(config, directory)
        env = {"OMP_NUM_THREADS": str(max(1, int(self._cpus))), "TOKENIZERS_PARALLELISM": "false"}
        return Command(argv=adapter_argv(), env=env)

    def continues(self, shorter: FlatConfig, longer: FlatConfig) -> bool:  # noqa: ARG002 - one signature for all
        """Never: what else in a program depends on the number of steps is not known."""
        return False

    def command_line(self, trainer: TrainerSpec, config: FlatConfig) -> Sequence[str]:
        """The command with its placeholders filled in; what it writes goes to ``output``."""
        names = {*trainer.parameters, STEPS_PATH, SEED_PATH}
        values = {name: value for name, value in config.items() if name in names}
        places = {"output_dir": "output", "config": "output/parameters.json"}
        env = [f"{name}={fill(text, {**values, **places})}" for name, text in trainer.env.items()]
        return [*(["env", *env] if env else []), *(fill(part, {**values, **places}) for part in trainer.command)]


def adapter_argv() -> tuple[str, ...]:
    """How to start the adapter in a trial directory."""
    return (sys.executable, "-I", str(Path(adapter.__file__)))


def missing_workdir(trainer: TrainerSpec) -> tuple[Problem, ...]:
    """A problem if the working directory does not exist."""
    if not trainer.workdir or Path(trainer.workdir).is_dir():
        return ()
    message = f"the directory {trainer.workdir} does not exist."
    return (Problem(message=message, hint="Write an absolute path.", path="trainer.workdir"),)


def _places(trainer: TrainerSpec) -> list[Problem]:
    if trainer.config not in ("", TrainerSpec().config):
        message = f"a command has no configuration by name, got {trainer.config!r}."
        return [Problem(message=message, hint="Remove it.", path="trainer.config")]
    if not trainer.command:
        return [Problem(message="names no program.", hint="Write command: [python, train.py]", path="trainer.command")]
    if wrong := missing_workdir(trainer):
        return list(wrong)
    workdir = Path(trainer.workdir or ".")
    program, script = trainer.command[0], trainer.command[1] if len(trainer.command) > 1 else ""
    if not placeholders(program) and not _is_program(program, workdir, trainer.env):
        looked = f"in {workdir}" if "/" in program else "on the PATH"
        hint = "Write the path of the program, or install it."
        return [Problem(message=f"there is no program {program!r} {looked}.", hint=hint, path="trainer.command[0]")]
    is_script = Path(script).suffix.lower() in _SCRIPTS and Path(program).name.startswith(_INTERPRETERS)
    if is_script and not placeholders(script) and not (workdir / script).is_file():
        near = did_you_mean(script, sorted(path.name for path in workdir.glob(f"*{Path(script).suffix}"))[:200])
        message = f"there is no file {script!r} in {workdir}."
        hint = f"{near} Set trainer.workdir to its directory.".strip()
        return [Problem(message=message, hint=hint, path="trainer.command[1]")]
    return []


def _is_program(program: str, workdir: Path, env: Mapping[str, str]) -> bool:
    if "/" in program:
        path = workdir / program
        return path.is_file() and os.access(path, os.X_OK)
    return shutil.which(program, path=env.get("PATH")) is not None


def _overrides(trainer: TrainerSpec) -> list[Problem]:
    own = [name for name in trainer.searched if name == STEPS_PATH or name.startswith(OWN)]
    problems = [
        Problem(message=f"{name!r} is no parameter of the program.", hint="Remove it.", path=f"search.{name}")
        for name in own
    ]
    for name, value in trainer.overrides.items():
        path = f"trainer.overrides.{name}"
        if name == STEPS_PATH:
            problems.append(Problem(message="the steps have a key of their own.", hint="Set trainer.steps.", path=path))
        elif name not in trainer.parameters and name != SEED_PATH:
            hint = did_you_mean(name, trainer.parameters)
            problems.append(Problem(message=f"{name!r} is not a declared parameter.", hint=hint, path=path))
        else:
            default = trainer.parameters.get(name, 0)
            problems += [
                Problem(message=problem.message, hint=problem.hint, path=path)
                for problem in typed(name, default, {name: value})
            ]
    return problems


def _about(metrics: MetricsSpec, source: str) -> str:
    what = {"jsonl": "field", "regex": "group", "csv": "column"}[metrics.read]
    return f"{what} {source!r} of {metrics.file or 'the output'}, in the program's own unit"
