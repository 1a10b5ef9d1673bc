"""Checkpoints: written under a temporary name, made durable, then renamed, so that each is complete or absent."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import warnings
from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np
import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_state_dict,
    set_model_state_dict,
    set_state_dict,
)

from trainer.distributed.world import World

CHECKPOINTS = "checkpoints"
_NAME = re.compile(r"step_(\d+)")
_PROGRESS = "progress.json"

Pair = tuple[torch.nn.Module, torch.optim.Optimizer]


def save_checkpoint(
    directory: Path,
    step: int,
    pairs: Mapping[str, Pair],
    progress: Mapping[str, object],
    world: World,
    *,
    keep: int,
    stay: Collection[int] = (),
) -> str:
    """Write `checkpoints/step_N`; all ranks take part.

    Args:
        directory: The run's directory.
        step: N.
        pairs: Network and optimizer by name.
        progress: What else resuming needs, JSON-safe.
        world: The ranks.
        keep: Newest checkpoints to keep, this one included.
        stay: Steps whose checkpoints are kept besides.

    Returns:
        The path within the run's directory.
    """
    root = directory / CHECKPOINTS
    target, temporary = root / f"step_{step}", root / f".step_{step}.tmp"
    relative = f"{CHECKPOINTS}/{target.name}"
    if target.is_dir():  # the same step, reached again from an older checkpoint: it is the same to the bit
        return relative
    if world.is_main:
        for debris in root.glob(".step_*.tmp"):  # of attempts that were killed while they wrote
            shutil.rmtree(debris)
        temporary.mkdir(parents=True)
    world.barrier()
    dcp.save(_state(pairs), checkpoint_id=temporary)
    (temporary / f"rng_{world.rank}.json").write_text(json.dumps(_rng_state(world.device)))
    world.barrier()
    if world.is_main:
        (temporary / _PROGRESS).write_text(json.dumps(progress, indent=2))
        for path in [*temporary.iterdir(), temporary]:
            _fsync(path)
        temporary.rename(target)
        _fsync(root)
        prune_checkpoints(directory, keep=keep, stay=stay)
    world.barrier()
    return relative


def prune_checkpoints(directory: Path, *, keep: int, stay: Collection[int]) -> None:
    """Delete all but the newest `keep` checkpoints and those of the steps that stay; for one rank alone."""
    for old in set(sorted(complete_checkpoints(directory))[:-keep]) - set(stay):
        shutil.rmtree(directory / CHECKPOINTS / f"step_{old}")


def complete_checkpoints(directory: Path) -> list[int]:
    """The steps of the complete checkpoints of a run, in no order."""
    root = directory / CHECKPOINTS
    names = (_NAME.fullmatch(path.name) for path in root.iterdir()) if root.is_dir() else ()
    return [int(name[1]) for name in names if name and (root / name[0] / _PROGRESS).is_file()]


def read_progress(directory: Path, step: int) -> dict[str, object]:
    """What `save_checkpoint` was given as progress."""
    progress: dict[str, object] = json.loads((directory / CHECKPOINTS / f"step_{step}" / _PROGRESS).read_text())
    return progress


def load_checkpoint(directory: Path, step: int, pairs: Mapping[str, Pair], world: World) -> None:
    """Load networks, optimizers and random states; the number of ranks may differ from the one that saved.

    The optimizers keep their own settings (learning rate, weight decay): the configuration's values stay in force.
    """
    source = directory / CHECKPOINTS / f"step_{step}"
    state = _state(pairs)
    dcp.load(state, checkpoint_id=source)
    for name, (model, optimizer) in pairs.items():
        part = state[name]
        settings = [{key: group[key] for key in group if key != "params"} for group in optimizer.param_groups]
        set_state_dict(
            model,
            optimizer,
            model_state_dict=part["model"],
            optim_state_dict=part["optimizer"],
            options=StateDictOptions(ignore_frozen_params=True, strict=_all_trained(model)),
        )
        for group, own in zip(optimizer.param_groups, settings, strict=True):
            group.update(own)
    rng = source / f"rng_{world.rank}.json"
    if rng.is_file():
        _set_rng_state(json.loads(rng.read_text()), world.device)


def load_weights(directory: Path, step: int, name: str, model: torch.nn.Module) -> None:
    """Load what was trained of one network, without optimizer, ranks or process group.

    Args:
        directory: The run's directory.
        step: The checkpoint's step.
        name: The network's name in the checkpoint (`actor`, `critic`).
        model: Takes the weights; those of it that are frozen stay as they are.
    """
    options = StateDictOptions(ignore_frozen_params=True, strict=_all_trained(model))
    weights = get_model_state_dict(model, options=options)
    state = {name: {"model": weights}}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is disabled")
        dcp.load(state, checkpoint_id=directory / CHECKPOINTS / f"step_{step}", no_dist=True)
    set_model_state_dict(model, weights, options=options)


def _state(pairs: Mapping[str, Pair]) -> dict[str, dict[str, object]]:
    """What is trained; frozen weights are those that the run started from, so beside adapters they are left out."""
    state = {}
    for name, (model, optimizer) in pairs.items():
        weights, moments = get_state_dict(model, optimizer, options=StateDictOptions(ignore_frozen_params=True))
        state[name] = {"model": weights, "optimizer": moments}
    return state


def _all_trained(model: torch.nn.Module) -> bool:
    return all(parameter.requires_grad for parameter in model.parameters())


def _rng_state(device: torch.device) -> dict[str, object]:
    """The random states that people's reward functions may use; the trainer itself derives its seeds from the step."""
    name, keys, *rest = np.random.get_state()
    cuda = torch.cuda.get_rng_state(device).tolist() if device.type == "cuda" else None
    return {
        "python": random.getstate(),
        "numpy": [name, np.asarray(keys).tolist(), *rest],
        "torch": torch.get_rng_state().tolist(),
        "cuda": cuda,
    }


def _set_rng_state(state: dict[str, list[object]], device: torch.device) -> None:
    version, internal, gauss = state["python"]
    random.setstate((version, tuple(internal), gauss))
    name, keys, *rest = state["numpy"]
    np.random.set_state((name, np.array(keys, dtype=np.uint32), *rest))
    torch.set_rng_state(torch.tensor(state["torch"], dtype=torch.uint8))
    if device.type == "cuda" and state["cuda"] is not None:
        torch.cuda.set_rng_state(torch.tensor(state["cuda"], dtype=torch.uint8), device)


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
