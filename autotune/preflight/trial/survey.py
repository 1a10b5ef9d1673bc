"""One configuration looked at rule by rule, for a person: what keeps it from working, else what was found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from autotune.backends.verl.names import ACTOR, ROLLOUT
from autotune.errors import Problem
from autotune.preflight.check import Check, Status
from autotune.preflight.memory import GIB
from autotune.preflight.memory.fits import breakdown
from autotune.preflight.memory.models import BUILT_IN, find_model
from autotune.preflight.trial import devices, files, memory, model, ports
from autotune.preflight.trial.context import TrialContext, TrialRule

CONFIG_EXIT = 3


def survey(trial: TrialContext) -> Iterator[Check]:
    """A finding for each rule."""
    for name, (rule, found) in _RULES.items():
        problems = list(rule(trial))
        yield from failures(name, problems)
        if not problems:
            yield found(trial, name)


def failures(name: str, problems: list[Problem]) -> list[Check]:
    """Problems as findings that nothing can run with."""
    return [
        Check(
            name=name,
            status=Status.FAIL,
            text=f"{problem.path}: {problem.message}" if problem.path else problem.message,
            fix=problem.hint,
            exit_code=CONFIG_EXIT,
        )
        for problem in problems
    ]


def _model(trial: TrialContext, name: str) -> Check:
    path = trial.config.get(trial.model_key)
    if not isinstance(path, str):
        return Check(name=name, status=Status.OK, text="none is named")
    found = find_model(path, trial.config)
    if found.directory is None and path not in BUILT_IN:
        where = "looked at where trials run" if not trial.here else "not on this machine: every trial downloads it"
        fix = "" if not trial.here else f"Download it once: hf download {path}"
        return Check(name=name, status=Status.WARN if trial.here else Status.OK, text=f"'{path}' is {where}", fix=fix)
    words = [path]
    classes = found.config.get("architectures")
    if isinstance(classes, list) and classes:
        words.append(str(classes[0]))
    if found.shape is not None:
        shape = found.shape
        words += [f"{shape.layers} layers of {shape.hidden}", f"vocabulary {shape.vocab}"]
        words.append("tied embeddings" if shape.tied else "embeddings of its own")
    tokens = model.tokenizer_size(found.directory) if found.directory is not None else None
    if tokens is not None:
        words.append(f"tokenizer of {tokens} tokens")
    if found.config.get("auto_map"):
        words.append("runs Python code of its own, as trust_remote_code allows")
    return Check(name=name, status=Status.OK, text=", ".join(words))


def _files(trial: TrialContext, name: str) -> Check:
    if not trial.here:
        return Check(name=name, status=Status.OK, text="looked at where trials run")
    paths = files.paths(trial)
    return Check(name=name, status=Status.OK, text=", ".join(paths) or "none; the data is built in")


def _devices(trial: TrialContext, name: str) -> Check:
    config, native = trial.config, trial.backend == "native"
    strategy = config.get("trainer.fsdp_config.sharding_strategy" if native else f"{ACTOR}.strategy")
    rollout = "rollout" if native else ROLLOUT
    parallel = config.get(f"{rollout}.tensor_model_parallel_size") or 1
    batch = config.get("trainer.train_batch_size" if native else "data.train_batch_size")
    mini = config.get("trainer.mini_batch_size" if native else f"{ACTOR}.ppo_mini_batch_size")
    text = (
        f"{trial.ranks} rank{'s' if trial.ranks > 1 else ''}, {strategy}, rollout {config.get(f'{rollout}.name')} with "
        f"tensor parallel size {parallel}; batches of {batch} in mini-batches of {mini}"
    )
    return Check(name=name, status=Status.OK, text=text)


def _ports(trial: TrialContext, name: str) -> Check:
    port = trial.config.get(ports.KEY)
    text = f"{port} is free" if isinstance(port, int) else "each trial takes a free one"
    return Check(name=name, status=Status.OK, text=text)


def _memory(trial: TrialContext, name: str) -> Check:
    found = memory.estimate_of(trial)
    if found is None:
        return Check(name=name, status=Status.OK, text="not estimated: the model's sizes are unknown here")
    room = "unknown" if trial.room.bytes is None else f"{trial.room.bytes / GIB:.1f} GiB"
    text = f"about {found.peak / GIB:.2f} GiB in the {found.phase} ({breakdown(found)}); {trial.room.source}: {room}"
    return Check(name=name, status=Status.OK, text=text)


_RULES: Mapping[str, tuple[TrialRule, Callable[[TrialContext, str], Check]]] = {
    "model": (model.model, _model),
    "files": (files.files, _files),
    "batches and devices": (devices.devices, _devices),
    "rendezvous port": (ports.ports, _ports),
    "memory estimate": (memory.memory, _memory),
}
