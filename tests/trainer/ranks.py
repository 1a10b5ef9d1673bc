"""What every rank does in `test_sharding.py`: one experience, one update, then the gradients of another."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path

import torch
from torch.distributed.tensor import DTensor

from trainer.config import build
from trainer.distributed import World, open_world, whole
from trainer.leaving import leave
from trainer.loop.collect import measure, sample, sync_engine
from trainer.loop.losses import actor_loss, critic_loss
from trainer.loop.micro_batches import micro_batches
from trainer.loop.run import build_run
from trainer.loop.targets import compute_targets
from trainer.loop.update import accumulate, update


def seen(config: dict[str, object], world: World) -> dict[str, object]:
    """Losses of an update, and whole gradients after it, of one configuration."""
    run = build_run(build(config), world)
    sync_engine(run, 0)
    experience = measure(run, *sample(run, 1)).gathered(world)
    # So small a model earns nothing by itself.
    scores = torch.rand(len(experience.scores), generator=torch.Generator().manual_seed(0))
    experience = dataclasses.replace(experience, scores=scores)
    targets = compute_targets(experience, experience.scores, run.config.algorithm, 0.1, run.mathematics)
    stats = update(run, experience, targets, 1)
    rows = torch.arange(len(experience.tokens))
    length = experience.response_mask.shape[1]
    micros = micro_batches(rows.chunk(world.size), experience.attention_mask, length, run.config.trainer, run.world)
    gradients = {}
    for name, loss in {"actor": actor_loss, "critic": critic_loss}.items():
        if name in run.trained:
            accumulate(run, loss, experience, targets, micros, targets.mask)
            model, _ = run.trained[name]
            found = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
            gradients[name] = torch.cat([whole(gradient).flatten() for gradient in found])
    parameters = list(run.actor.parameters())
    mesh = parameters[0].device_mesh if isinstance(parameters[0], DTensor) else None
    return {
        "values": stats.values,
        "gradients": gradients,
        "lengths": experience.response_mask.sum(dim=1),
        "mesh": None if mesh is None else tuple(mesh.shape),
        "held": sum((p.to_local() if isinstance(p, DTensor) else p).numel() for p in parameters),
        "types": sorted({str(parameter.dtype) for parameter in parameters}),
        "gradient types": sorted({str(p.grad.dtype) for p in parameters if p.grad is not None}),
    }


def main(cases: Path, out: Path) -> None:
    """Run every case of a JSON file (configurations by name) and let rank 0 save what was seen."""
    torch.set_num_threads(1)
    configs = json.loads(cases.read_text())
    with open_world(build(next(iter(configs.values()))).system) as world:
        found = {name: seen(config, world) for name, config in configs.items()}
        if world.is_main:
            torch.save(found, out)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
    leave(0)
