"""Reads ``trainer``: what a trial runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from autotune.spec.bounds import COUNT
from autotune.spec.command import read_command, read_env, read_parameters, unquoted
from autotune.spec.metrics import KEYS as METRICS_KEYS
from autotune.spec.metrics import read_metrics
from autotune.spec.nodes import Scalar, Table, plain
from autotune.spec.reader import Section, show
from autotune.spec.types import MetricsSpec, TrainerSpec
from autotune.spec.units import parse_duration
from autotune.spec.values import JsonValue

BACKENDS: Mapping[str, str] = {
    "native": "The PPO trainer of this project, composed from its Hydra tree.",
    "verl": "verl's PPO trainer (python -m verl.trainer.main_ppo), in an environment of its own.",
    "command": "Any program: its parameters are declared, its metrics are read from what it writes.",
}

CONFIGS: Mapping[str, str] = {"native": "config", "verl": "ppo_trainer", "command": ""}
"""The Hydra configuration of a backend where the file names none."""

KEYS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "backend": (tuple(BACKENDS), "What runs a trial."),
    "config": (("native", "verl"), "Name of the Hydra configuration."),
    "overrides": (tuple(BACKENDS), "Fixed values, by parameter; the searched parameters come on top."),
    "python": (("verl",), "Interpreter of the environment in which verl is installed."),
    "command": (
        ("command",),
        "The program and its arguments, a list or one text. {NAME} stands for a parameter, also {steps}, {seed}, "
        "{output_dir} and {config}. No shell reads it.",
    ),
    "parameters": (("command",), "The parameters of the command with their defaults: the base configuration."),
    "metrics": (("command",), "Where the metrics of the command are found."),
    "env": (("verl", "command"), "Environment variables of the process; {NAME} stands for a parameter in a command's."),
    "workdir": (
        ("verl", "command"),
        "Directory in which the process starts; relative ones, and the default, are those of the caller.",
    ),
    "steps": (("command",), "Training steps of the command: the last step that it reports."),
    "stall": (
        ("verl", "command"),
        "Longest time without any output or metric, after which a process counts as hung and is ended, for example "
        "30m; verl has an hour, a command as long as it likes.",
    ),
}
"""Key of ``trainer`` -> the backends it goes with, and what it means."""


def read_trainer(top: Section) -> TrainerSpec:
    """What a trial runs."""
    section = top.section("trainer", KEYS)
    if section is None:
        return TrainerSpec()
    before = len(section.report.problems)
    backend = section.one_of("backend", "native", BACKENDS, "backend")
    if len(section.report.problems) == before:
        _refuse_foreign(section, backend)
    common = TrainerSpec(backend=backend, config=section.text("config", CONFIGS[backend]), overrides=_fixed(section))
    if backend == "command":
        return _command(section, common)
    if backend == "verl":
        return TrainerSpec(
            backend=backend,
            config=common.config,
            overrides=common.overrides,
            python=_python(section),
            env=read_env(section, None),
            workdir=_workdir(section),
            stall_s=_stall(section),
        )
    return common


def with_places(document: Mapping[str, JsonValue], trainer: TrainerSpec) -> Mapping[str, JsonValue]:
    """The document with the trainer's paths spelt out, so that it means the same wherever it is read again."""
    written = document.get("trainer")
    places = {"workdir": trainer.workdir, "python": trainer.python}
    given: dict[str, JsonValue] = {key: place for key, place in places.items() if place}
    return {**document, "trainer": {**written, **given}} if given and isinstance(written, dict) else document


def _refuse_foreign(section: Section, backend: str) -> None:
    for key, (backends, _) in KEYS.items():
        if backend not in backends and section.entry(key) is not None:
            entry = section.table.entries[key]
            message = f"{key!r} does not go with backend {backend!r}."
            hint = f"It goes with {' and '.join(backends)}; remove it or change the backend."
            section.report.add(entry.place, f"{section.path}.{key}", message, hint)


def _fixed(section: Section) -> Mapping[str, JsonValue]:
    entry = section.entry("overrides")
    if entry is None:
        return {}
    if isinstance(entry.node, Table):
        return {path: plain(value.node) for path, value in entry.node.entries.items()}
    section.complain("overrides", f"must be a mapping, got {show(entry.node)}.", "Write overrides: {model: tiny}")
    return {}


def _command(section: Section, common: TrainerSpec) -> TrainerSpec:
    parameters = read_parameters(section)
    used: set[str] = set()
    command = read_command(section, parameters, used)
    env = read_env(section, parameters, used)
    metrics = section.section("metrics", METRICS_KEYS)
    if section.entry("metrics") is None:
        hint = "Write for example metrics: {read: jsonl, names: [loss]}"
        section.missing("metrics", hint)
    if section.entry("steps") is None:
        section.missing("steps", "Write for example steps: 100, the last step that the program reports.")
    if command and "config" not in used:
        _unused(section, parameters, used)
    return TrainerSpec(
        backend=common.backend,
        config=common.config,
        overrides={name: unquoted(value) for name, value in common.overrides.items()},
        command=command,
        parameters=parameters,
        metrics=MetricsSpec() if metrics is None else read_metrics(metrics),
        env=env,
        workdir=_workdir(section),
        steps=section.whole("steps", 1, COUNT),
        stall_s=_stall(section),
    )


def _unused(section: Section, parameters: Mapping[str, JsonValue], used: set[str]) -> None:
    table = section.table.entries["parameters"].node if parameters else None
    for name in parameters:
        if name not in used and name != "seed" and isinstance(table, Table):
            place = table.entries[name].place
            message = f"{name!r} reaches the program nowhere, so its value would change nothing."
            hint = f'Pass it on in command, for example "--{name}={{{name}}}", or pass {{config}}.'
            section.report.add(place, f"{section.path}.parameters.{name}", message, hint)


def _stall(section: Section) -> float | None:
    entry = section.entry("stall")
    if entry is None:
        return None
    text = entry.node.value if isinstance(entry.node, Scalar) else None
    seconds = parse_duration(text) if isinstance(text, str) else None
    if not seconds:
        message = f"must be a duration above 0 with its unit, got {show(entry.node)}."
        section.complain("stall", message, "Write for example stall: 30m")
    return seconds or None


def _python(section: Section) -> str:
    """A name is looked up on the path; anything with a slash in it is a place."""
    written = section.text("python")
    return str(Path(written).expanduser().absolute()) if "/" in written else written


def _workdir(section: Section) -> str:
    return str(Path(section.text("workdir") or ".").expanduser().absolute())
