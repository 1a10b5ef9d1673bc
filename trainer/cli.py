"""The command line of the trainer. Imports torch only when a run begins."""

from __future__ import annotations

import argparse
import gc
import os
import resource
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

import yaml

from trainer.config import Config, ConfigError, ConfigProblem, build, compose, config_names
from trainer.configfile import dump_config, parse_value, read_config
from trainer.console import say
from trainer.failures import classify
from trainer.record import RESULT_FILE, Result, last_step, write_atomically, write_result
from trainer.signals import StopFlag, die_with_parent, stop_on_signals

EXIT_CODES = {"finished": 0, "stopped": 10, "failed": 1}
CONFIG_FILE = "config.yaml"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the trainer; returns the exit code: 0 finished, 10 stopped, 1 failed."""
    options = _parser().parse_args(arguments)
    is_main = os.environ.get("RANK", "0") == "0"
    directory = _directory(options)
    if options.trial:
        die_with_parent()
    with stop_on_signals() as stop:
        try:
            if is_main:
                directory.mkdir(parents=True, exist_ok=True)
                (directory / RESULT_FILE).unlink(missing_ok=True)
            config = _trial_config(directory) if options.trial else _own_config(directory, options, write=is_main)
            result = _run(config, directory, stop)
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - every end must reach result.json
            result = _ended_by(error, directory)
        _finish(result, directory, write=is_main)
    return EXIT_CODES[result.status]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m trainer",
        description="Train a language model with PPO and its kin, or on preferences with DPO or KTO.",
        epilog=f"configurations: {', '.join(config_names())}. Example: "
        "python -m trainer data=arithmetic trainer.optim.lr=1e-4 trainer.total_steps=20",
    )
    parser.add_argument("--trial", action="store_true", help="run the config.yaml of the working directory, there")
    parser.add_argument("--config-name", default="config", metavar="NAME", help="configuration to start from")
    parser.add_argument("--run-dir", type=Path, metavar="DIR", help="where to write (default: outputs/<time>)")
    parser.add_argument(
        "overrides", nargs="*", metavar="key=value", help="a group's option (data=digits) or a key's value"
    )
    return parser


def _directory(options: argparse.Namespace) -> Path:
    if not options.trial:
        return options.run_dir or Path("outputs") / time.strftime("%Y-%m-%d_%H-%M-%S")
    if options.overrides or options.run_dir is not None or options.config_name != "config":
        _parser().error("--trial takes its configuration from ./config.yaml: leave out every other argument")
    return Path()


def _trial_config(directory: Path) -> Config:
    return build(read_config(directory / CONFIG_FILE))


def _own_config(directory: Path, options: argparse.Namespace, *, write: bool) -> Config:
    overrides, problems = _overrides(options.overrides)
    try:
        composed = compose(options.config_name, overrides)
        config = build(composed)
    except ConfigError as error:
        raise ConfigError([*problems, *error.problems]) from None
    if problems:
        raise ConfigError(problems)
    if write:
        write_atomically(directory / CONFIG_FILE, dump_config(composed))
    return config


def _overrides(texts: Sequence[str]) -> tuple[dict[str, object], list[ConfigProblem]]:
    overrides: dict[str, object] = {}
    problems = []
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            problems.append(ConfigProblem(path=text, message="is not of the form key=value"))
            continue
        try:
            overrides[key] = parse_value(value)
        except yaml.YAMLError:
            problems.append(ConfigProblem(path=key, message=f"got {value!r}, which is no YAML value", hint="quote it"))
    return overrides, problems


def _run(config: Config, directory: Path, stop: StopFlag) -> Result:
    if stop.requested:
        return Result(status="stopped", last_step=last_step(directory), peak_memory_gb=_peak_memory_gb())
    gc.disable()  # collecting while torch creates a million objects that stay costs a second
    from trainer.loop import run_session  # after everything that can fail without torch

    gc.freeze()
    gc.enable()
    return run_session(config, directory, stop)


def _ended_by(error: BaseException, directory: Path) -> Result:
    reached = last_step(directory)
    if isinstance(error, KeyboardInterrupt):
        return Result(status="stopped", last_step=reached, peak_memory_gb=_peak_memory_gb())
    failure = classify(error)
    if failure.kind == "unknown":
        traceback.print_exception(error)
    if isinstance(error, ConfigError):
        for problem in error.problems:
            say(f"error: {problem}")
    else:
        say(f"error: {failure.message}" + (f" ({failure.hint})" if failure.hint else ""))
    return Result(status="failed", last_step=reached, peak_memory_gb=_peak_memory_gb(), error=failure)


def _finish(result: Result, directory: Path, *, write: bool) -> None:
    if not write:
        return
    try:
        write_result(directory, result)
    except OSError as error:
        say(f"error: cannot write {directory / RESULT_FILE}: {error}")
        return
    say(f"{result.status} after step {result.last_step}: {directory / RESULT_FILE}")


def _peak_memory_gb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
