"""One configuration as something to run or to keep: a launch command of this or another backend, or plain YAML."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import yaml

from autotune.backends import get_backend
from autotune.backends.base import Command, Distributed
from autotune.backends.config_file import OWN, nested
from autotune.backends.native import NativeBackend
from autotune.backends.verl.tree import override
from autotune.errors import UsageError
from autotune.spec.nearest import did_you_mean
from autotune.spec.placeholders import written
from autotune.spec.types import TrainerSpec
from autotune.spec.values import FlatConfig

_WIDTH = 100


@dataclass(frozen=True, kw_only=True, slots=True)
class Exported:
    """A configuration in another form.

    Attributes:
        text: A shell command, or YAML.
        notes: What could not be taken over, one sentence each.
    """

    text: str
    notes: tuple[str, ...] = ()


def export(trainer: TrainerSpec, config: FlatConfig, to: str, *, gpus: float) -> Exported:
    """One complete configuration in another form.

    Args:
        trainer: The trainer section that it came from.
        config: The configuration of a trial.
        to: One of ``TARGETS``.
        gpus: GPUs of a trial.

    Raises:
        UsageError: If the form is unknown, or the backend has no such form.
        InvalidConfigError: If the configuration cannot be brought into it.
    """
    if to not in TARGETS:
        raise UsageError(f"unknown form {to!r}; known are {', '.join(TARGETS)}.", hint=did_you_mean(to, TARGETS))
    return TARGETS[to](trainer, config, gpus)


def launch_line(trainer: TrainerSpec, config: FlatConfig, gpus: float) -> Sequence[str]:
    """What a person types to run one complete configuration on as many GPUs as its trial had.

    Args:
        trainer: The trainer section that it came from.
        config: The configuration of a trial.
        gpus: GPUs of a trial.

    Raises:
        InvalidConfigError: If the trainer section cannot be used.
    """
    backend = get_backend(trainer.backend)
    argv = tuple(backend.command_line(trainer, config))
    if gpus < 2 or not isinstance(backend, Distributed):
        return argv
    return backend.on_ranks(Command(argv=argv, env={}), int(gpus)).argv


def _native(trainer: TrainerSpec, config: FlatConfig, gpus: float) -> Exported:
    if trainer.backend == "native":
        return Exported(text=_lines(launch_line(trainer, config, gpus)))
    _refuse(trainer, "native", "verl")
    from autotune.backends.verl.translate import to_native

    values, notes = to_native(config)
    overrides = [f"{path}={written(value)}" for path, value in values.items()]
    return Exported(text=_lines([*_launcher(gpus), *overrides]), notes=tuple(notes))


def _verl(trainer: TrainerSpec, config: FlatConfig, gpus: float) -> Exported:
    if trainer.backend == "verl":
        return Exported(text=_lines(get_backend("verl").command_line(trainer, config)))
    _refuse(trainer, "verl", "native")
    from autotune.backends.verl.translate import to_verl

    named = tuple(dict.fromkeys([*trainer.overrides, *trainer.searched]))
    values, notes = to_verl(config, named)
    values["trainer.n_gpus_per_node"] = max(1, int(gpus))
    argv = ["python", "-m", "verl.trainer.main_ppo", *(override(key, value) for key, value in values.items())]
    return Exported(text=_lines(argv), notes=tuple(notes))


def _command(trainer: TrainerSpec, config: FlatConfig, gpus: float) -> Exported:  # noqa: ARG001 - as the others
    _refuse(trainer, "command", "command")
    return Exported(text=_lines(get_backend("command").command_line(trainer, config)))


def _yaml(trainer: TrainerSpec, config: FlatConfig, gpus: float) -> Exported:  # noqa: ARG001 - as the others
    tree = nested({path: value for path, value in config.items() if not path.startswith(OWN)})
    return Exported(text=yaml.safe_dump(tree, sort_keys=False, allow_unicode=True, width=_WIDTH))


def _refuse(trainer: TrainerSpec, to: str, source: str) -> None:
    if trainer.backend == source:
        return
    own = "yaml, command" if trainer.backend == "command" else "native, verl, yaml"
    raise UsageError(
        f"a job of the backend {trainer.backend} has no form {to!r}; it has {own}.",
        hint=f"Choose another one: --to {own.partition(',')[0]}",
    )


def _launcher(gpus: float) -> list[str]:
    command = Command(argv=("python", "-m", "trainer"), env={})
    return list((NativeBackend().on_ranks(command, int(gpus)) if gpus >= 2 else command).argv)


def _lines(argv: Sequence[str]) -> str:
    """A command for a shell, one setting a line."""
    first = next((place for place, word in enumerate(argv) if place and "=" in word and argv[0] != "env"), len(argv))
    head, rest = shlex.join(argv[:first]), [shlex.quote(word) for word in argv[first:]]
    return " \\\n    ".join([head, *rest]) + "\n"


TARGETS: Mapping[str, Callable[[TrainerSpec, FlatConfig, float], Exported]] = {
    "native": _native,
    "verl": _verl,
    "yaml": _yaml,
    "command": _command,
}
"""Name of a form -> how it is made."""
