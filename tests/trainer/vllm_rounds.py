"""Real updates with vLLM as rollout, in processes of their own: vLLM changes torch for everybody in its process.

Usage: python [-m torch.distributed.run ...] vllm_rounds.py CONFIG.json OUT.json
"""

from __future__ import annotations

import collections
import dataclasses
import json
import os
import sys
from pathlib import Path

import torch

from trainer.config import build
from trainer.distributed import open_world, whole_weights
from trainer.failures import NonFiniteError, WeightSyncError
from trainer.leaving import leave
from trainer.loop.collect import measure, sample, sync_engine
from trainer.loop.experience import Experience
from trainer.loop.progress import Progress, save
from trainer.loop.run import Run, build_run, first_controller
from trainer.loop.targets import compute_targets
from trainer.loop.update import update
from trainer.models import merged
from trainer.models.export import export
from trainer.record import MetricsFile
from trainer.rollout import HfEngine, Request, Sampling, sample_seed
from trainer.rollout.vllm import SyncSteps, VllmEngine, open_llm
from trainer.rollout.vllm_settings import engine_arguments

ROUNDS = 10


def main(config_file: str, out: str) -> None:
    config = build(json.loads(Path(config_file).read_text()))
    with open_world(config.system) as world:
        run = build_run(config, world)
        rounds = [round_of(run, step) for step in range(1, ROUNDS + 1)]
        seen: dict[str, object] = {"gaps": [gap for gap, _ in rounds], "tokens": [tokens for _, tokens in rounds]}
        step = ROUNDS + 1
        parts = {"pad_id": run.tokenizer.pad_id, "end_id": run.tokenizer.end_id, "device": world.device}
        parts |= {"tied": run.engine._tied, "team": run.engine._team}
        mutants = {
            "without the weights": SyncSteps(load=lambda llm, weights: collections.deque(weights, maxlen=0)),
            "without the reset": SyncSteps(forget=lambda llm: None),
        }
        for name, steps in mutants.items():
            blind = VllmEngine(run.engine._llm, steps=steps, **parts)
            seen[name], _ = round_of(dataclasses.replace(run, engine=blind), step)
            watched = VllmEngine(run.engine._llm, steps=steps, parity=run.engine._parity, **parts)
            seen[f"{name}, watched"] = refusal(dataclasses.replace(run, engine=watched), step + 1)
            seen[f"repaired after {name}"], _ = round_of(run, step + 2)
            step += 3
        seen["name"] = os.environ.get("VLLM_DIST_IDENT", "")
        if world.size == 1:
            seen |= sampling(run, step)
            seen |= extremes(run)
            seen["exported"] = exported(run, step)
            seen["destroyed"] = destroyed(run)
        seen["asleep"], seen["after sleep"] = slept(run, parts, step + 1)
        if world.is_main:
            Path(out).write_text(json.dumps(seen))


def round_of(run: Run, step: int) -> tuple[float, list[list[int]]]:
    """One training step of all ranks.

    Returns:
        The largest gap between the engines' and the actor's log-probabilities (nats), and the responses' tokens.
    """
    experience = collected(run, step).gathered(run.world)
    mask = experience.response_mask
    gap = (experience.rollout_logprobs - experience.old_logprobs)[mask].abs().max()
    targets = compute_targets(experience, experience.scores, run.config.algorithm, 0.1, run.mathematics)
    update(run, experience, targets, step)
    responses = experience.tokens[:, -mask.shape[1] :]
    return float(gap), [row[kept].tolist() for row, kept in zip(responses, mask, strict=True)]


def collected(run: Run, step: int) -> Experience:
    sync_engine(run, step - 1)
    return measure(run, *sample(run, step))


def refusal(run: Run, step: int) -> str:
    try:
        collected(run, step)
    except WeightSyncError as error:
        return str(error)
    return "none"


def slept(run: Run, parts: dict[str, object], step: int) -> tuple[str, float]:
    """Let the engine sleep as on a GPU (a CPU keeps the memory, vLLM's scheduler stops all the same)."""
    engine = VllmEngine(run.engine._llm, sleeps=True, **parts)
    sleepy = dataclasses.replace(run, engine=engine)
    sync_engine(sleepy, step - 1)
    engine.release()
    try:
        engine.generate([Request(prompt=[3, 4, 5], seed=0)], Sampling(temperature=1.0, max_tokens=4))
        refused = "none"
    except WeightSyncError as error:
        refused = str(error)
    return refused, round_of(sleepy, step)[0]


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


def extremes(run: Run) -> dict[str, object]:
    """Answers of length 0 (the end token comes first), and answers that are all cut."""
    requests = [Request(prompt=[3, 4, 5 + row], seed=row) for row in range(3)]
    sampling = Sampling(temperature=1.0, max_tokens=3)
    weights = dict(merged(run.actor, whole_weights(run.actor)))
    name, rows = next((name, tensor.clone()) for name, tensor in weights.items() if "embed_tokens" in name)
    rows[:] = 1000.0  # so large that no layer matters: the end token's logit is twice that of all others, or half
    seen = {}
    for label, value in (("ended", 2000.0), ("cut", 500.0)):
        rows[run.tokenizer.end_id] = value
        run.engine.sync({**weights, name: rows}.items(), 998)
        engine = VllmEngine(run.engine._llm, pad_id=0, end_id=run.tokenizer.end_id, device=run.world.device)
        response = engine.generate(requests, sampling)
        seen[label] = [response.mask.sum(dim=1).tolist(), response.truncated.tolist(), response.logprobs.sum().item()]
        seen[f"{label} texts"] = [
            run.tokenizer.decode(row[kept].tolist()) for row, kept in zip(response.tokens, response.mask, strict=True)
        ]
    return seen


def exported(run: Run, step: int) -> float:
    """Save, export with the adapters merged, load the directory in another vLLM; returns the largest gap (nats)."""
    directory = Path("run")
    directory.mkdir()
    (directory / "config.yaml").write_text(Path("config.json").read_text())
    progress = Progress(step=step - 1, controller=first_controller(run.config))
    save(run, progress, directory, MetricsFile(directory, enabled=True))
    export(directory, Path("exported"))
    arguments = engine_arguments(run.config, Path("exported").absolute(), run.world)
    del arguments["load_format"]  # its own weights, as anybody would load it
    nothing = SyncSteps(load=lambda llm, weights: None, forget=lambda llm: None)
    parts = {"pad_id": run.tokenizer.pad_id, "end_id": run.tokenizer.end_id, "device": run.world.device}
    engine = VllmEngine(open_llm(arguments), steps=nothing, **parts)
    engine.sync([], step - 1)
    experience = measure(run, *sample(dataclasses.replace(run, engine=engine), step))
    gap = (experience.rollout_logprobs - experience.old_logprobs)[experience.response_mask].abs().max()
    return float(gap)


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
    leave(0)
