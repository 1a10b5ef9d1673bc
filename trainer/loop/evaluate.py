"""Greedy responses to the held-out prompts; nothing random, so the training's random streams are left alone."""

from __future__ import annotations

import torch
from torch.profiler import record_function

from trainer.loop.collect import scores_of, sync_engine
from trainer.loop.run import Run
from trainer.loop.samples import SampleFile
from trainer.rewards import component_names
from trainer.rollout import Request, Sampling, check_version


@record_function("evaluate")
def evaluate(run: Run, policy_version: int, samples: SampleFile) -> dict[str, float]:
    """The evaluation metrics of the actor after step `policy_version`; the ranks share the prompts.

    Args:
        run: The run.
        policy_version: Training steps done.
        samples: Keeps the first answers for people to read.
    """
    sync_engine(run, policy_version)
    check_version(run.engine, policy_version)
    assert run.eval_reward is not None
    names = component_names(run.eval_reward)
    totals = torch.zeros(5 + len(names), dtype=torch.float64, device=run.world.device)
    mine = run.held_out[run.world.rank :: run.world.size]
    # A rank without a prompt of its own samples all the same: an engine over several ranks needs every one of them.
    asked = mine or run.held_out[:1]
    requests = [Request(prompt=run.tokenizer.encode(example.prompt), seed=0) for example in asked]
    sampling = Sampling(temperature=0.0, max_tokens=run.config.data.max_response_length)
    response = run.engine.generate(requests, sampling)
    run.engine.release()
    if mine:
        rows = torch.tensor(scores_of(run, run.eval_reward, mine, response), dtype=torch.float64)
        first = slice(samples.count)
        answers = zip(response.tokens[first], response.mask[first], strict=True)
        texts = [run.tokenizer.decode(tokens[mask].tolist()) for tokens, mask in answers]
        samples.keep(policy_version, mine[first], texts[: len(mine)], rows[first, 0].tolist())
        full = (rows[:, 0] >= 1.0).sum()
        sums = [response.mask.sum(), response.truncated.sum(), len(mine), full, *rows.sum(dim=0)]
        totals += torch.tensor([float(value) for value in sums], dtype=torch.float64, device=run.world.device)
    length, truncated, count, full_reward, *rewards = run.world.sum(totals).tolist()
    means = [value / count for value in rewards]
    return {
        "eval/reward": means[0],
        "eval/accuracy": full_reward / count,
        "eval/length_mean": length / count,
        "eval/truncated_fraction": truncated / count,
        **{f"eval/{name}": value for name, value in zip(names, means[1:], strict=True)},
    }
