"""Real updates with vLLM as rollout, in a process of their own: vLLM changes torch for everybody in its process.

Usage: python vllm_rounds.py CONFIG.json OUT.json
"""

from __future__ import annotations

import collections
import dataclasses
import json
import sys
from pathlib import Path

import torch

from trainer.config import build
from trainer.distributed import open_world, whole_weights
from trainer.failures import NonFiniteError, WeightSyncError
from trainer.loop.collect import measure, sample, sync_engine
from trainer.loop.experience import Experience
from trainer.loop.run import Run, build_run
from trainer.loop.targets import compute_targets
from trainer.loop.update import update
from trainer.models import merged
from trainer.rollout import HfEngine, Request, Sampling, sample_seed
from trainer.rollout.vllm import SyncSteps, VllmEngine

ROUNDS = 6


def main(config_file: str, out: str) -> None:
    config = build(json.loads(Path(config_file).read_text()))
    with open_world(config.system) as world:
        run = build_run(config, world)
        seen = {"gaps": [round_of(run, step) for step in range(1, ROUNDS + 1)]}
        step = ROUNDS + 1
        parts = {"pad_id": run.tokenizer.pad_id, "end_id": run.tokenizer.end_id, "device": world.device}
        parts["tied"] = run.engine._tied
        mutants = {
            "without the weights": SyncSteps(load=lambda llm, weights: collections.deque(weights, maxlen=0)),
            "without the reset": SyncSteps(forget=lambda llm: None),
        }
        for name, steps in mutants.items():
            blind = VllmEngine(run.engine._llm, steps=steps, **parts)
            seen[name] = round_of(dataclasses.replace(run, engine=blind), step)
            watched = VllmEngine(run.engine._llm, steps=steps, parity=run.engine._parity, **parts)
            seen[f"{name}, watched"] = refusal(dataclasses.replace(run, engine=watched), step + 1)
            seen[f"repaired after {name}"] = round_of(run, step + 2)
            step += 3
        seen |= sampling(run, step)
        seen["random"] = torch.rand(3, generator=torch.Generator().manual_seed(0)).tolist()
        seen["destroyed"] = destroyed(run)
        Path(out).write_text(json.dumps(seen))


def round_of(run: Run, step: int) -> float:
    """One training step; returns the largest gap between the engine's and the actor's log-probabilities (nats)."""
    experience = collected(run, step)
    gap = (experience.rollout_logprobs - experience.old_logprobs)[experience.response_mask].abs().max()
    targets = compute_targets(experience, run.config.algorithm, 0.1, run.mathematics)
    update(run, experience, targets, step)
    return float(gap)


def collected(run: Run, step: int) -> Experience:
    sync_engine(run, step - 1)
    return measure(run, *sample(run, step))


def refusal(run: Run, step: int) -> str:
    try:
        collected(run, step)
    except WeightSyncError as error:
        return str(error)
    return "none"


def sampling(run: Run, step: int) -> dict[str, object]:
    sync_engine(run, step)
    requests = [
        Request(prompt=run.tokenizer.encode(example.prompt), seed=sample_seed(0, step, example.index, copy))
        for example in run.order.batch(1)
        for copy in range(2)
    ]
    settings, greedy = Sampling(temperature=0.9, max_tokens=6), Sampling(temperature=0.0, max_tokens=6)
    engine = VllmEngine(
        run.engine._llm, pad_id=run.tokenizer.pad_id, end_id=run.tokenizer.end_id, device=run.world.device
    )
    together, backwards = engine.generate(requests, settings), engine.generate(requests[::-1], settings)
    alone = engine.generate(requests[:1], settings)
    other = engine.generate([dataclasses.replace(item, seed=item.seed + 1) for item in requests], settings)
    oracle = HfEngine(
        run.engine._parity._model, pad_id=run.tokenizer.pad_id, end_id=run.tokenizer.end_id, max_batch_size=64
    )
    wanted, got = oracle.generate(requests, greedy), engine.generate(requests, greedy)
    return {
        "order does not matter": torch.equal(together.tokens, backwards.tokens.flip(0)),
        "company does not matter": torch.equal(together.tokens[:1], alone.tokens),
        "seeds matter": not torch.equal(together.tokens, other.tokens),
        "greedy as the oracle": torch.equal(wanted.tokens, got.tokens) and torch.equal(wanted.mask, got.mask),
        "version": engine.policy_version,
    }


def destroyed(run: Run) -> str:
    weights = ((name, tensor * float("nan")) for name, tensor in merged(run.actor, whole_weights(run.actor)))
    run.engine.sync(weights, 999)
    try:
        run.engine.generate([Request(prompt=[3, 4, 5], seed=0)], Sampling(temperature=1.0, max_tokens=4))
    except NonFiniteError as error:
        return str(error)
    return "none"


if __name__ == "__main__":
    main(*sys.argv[1:])
