"""Greedy responses to the held-out prompts; nothing random, so the training's random streams are left alone."""

from __future__ import annotations

import torch

from trainer.loop.collect import scores_of, sync_engine
from trainer.loop.run import Run
from trainer.rollout import Request, Sampling, check_version


def evaluate(run: Run, policy_version: int) -> dict[str, float]:
    """The evaluation metrics of the actor after step `policy_version`; the ranks share the prompts."""
    sync_engine(run, policy_version)
    check_version(run.engine, policy_version)
    totals = torch.zeros(5, dtype=torch.float64, device=run.world.device)
    mine = run.held_out[run.world.rank :: run.world.size]
    if mine:
        requests = [Request(prompt=run.tokenizer.encode(example.prompt), seed=0) for example in mine]
        sampling = Sampling(temperature=0.0, max_tokens=run.config.data.max_response_length)
        response = run.engine.generate(requests, sampling)
        scores = scores_of(run, run.eval_reward, mine, response)
        sums = [
            sum(scores),
            sum(value >= 1.0 for value in scores),
            response.mask.sum(),
            response.truncated.sum(),
            len(mine),
        ]
        totals += torch.tensor([float(value) for value in sums], dtype=torch.float64, device=run.world.device)
    reward, full, length, truncated, count = run.world.sum(totals).tolist()
    return {
        "eval/reward": reward / count,
        "eval/accuracy": full / count,
        "eval/length_mean": length / count,
        "eval/truncated_fraction": truncated / count,
    }
