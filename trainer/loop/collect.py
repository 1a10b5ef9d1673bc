"""The first half of a step: sample responses, score them, and measure them with all networks."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from trainer.data import Example
from trainer.distributed import whole_weights
from trainer.loop.experience import Experience
from trainer.loop.forward import response_logprobs, response_values
from trainer.loop.micro_batches import micro_batches, restored
from trainer.loop.run import Run
from trainer.models import merged
from trainer.rewards import Reward
from trainer.rollout import Request, Response, Sampling, check_version, sample_seed


def sync_engine(run: Run, policy_version: int) -> None:
    """Hand the actor's weights to the rollout engine, unless it has them."""
    if run.engine.policy_version != policy_version:
        run.engine.sync(merged(run.actor, whole_weights(run.actor)), policy_version)


def sample(run: Run, step: int) -> tuple[list[Example], Response]:
    """Sample this rank's share of the step's responses with the weights after step - 1."""
    settings = run.config.rollout
    batch = run.order.batch(step)
    share = len(batch) // run.world.size
    mine = batch[run.world.rank * share : (run.world.rank + 1) * share]
    seed = run.config.trainer.seed
    examples = [example for example in mine for _ in range(settings.n)]
    requests = [
        Request(
            prompt=run.tokenizer.encode(example.prompt), seed=sample_seed(seed, step, example.index, copy % settings.n)
        )
        for copy, example in enumerate(examples)
    ]
    check_version(run.engine, step - 1)
    sampling = Sampling(temperature=settings.temperature, max_tokens=run.config.data.max_response_length)
    return examples, run.engine.generate(requests, sampling)


def scores_of(run: Run, reward: Reward, examples: Sequence[Example], response: Response) -> list[float]:
    """What a reward says of each response."""
    texts = [run.tokenizer.decode(row[mask].tolist()) for row, mask in zip(response.tokens, response.mask, strict=True)]
    return [reward.of(example, text) for example, text in zip(examples, texts, strict=True)]


@torch.no_grad()
def measure(run: Run, examples: Sequence[Example], response: Response) -> Experience:
    """Score this rank's responses and compute log-probabilities, entropy and values before the update."""
    tokens, attention_mask = _sequences(run, examples, response)
    length = response.tokens.shape[1]
    temperature = run.config.rollout.temperature
    everyone = torch.arange(len(examples), device=tokens.device)
    micros = micro_batches([everyone], attention_mask, length, run.config.trainer, run.world)
    parts: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []
    for micro in micros:
        part, mask = micro.sequences(tokens, length), micro.sequences(attention_mask, length)
        old, entropy = response_logprobs(run.actor, part, mask, micro.response, temperature, entropy=True)
        ref, _ = response_logprobs(run.reference, part, mask, micro.response, temperature, entropy=False)
        assert entropy is not None
        no_values = torch.zeros(len(part), micro.response + 1, device=tokens.device)
        values = no_values if run.critic is None else response_values(run.critic, part, mask, micro.response)
        parts.append((old, entropy, ref, values))
    old_logprobs, entropies, ref_logprobs, values = (
        restored(column, micros, width)
        for column, width in zip(zip(*parts, strict=True), (length, length, length, length + 1), strict=True)
    )
    return Experience(
        tokens=tokens,
        attention_mask=attention_mask,
        response_mask=response.mask,
        rollout_logprobs=response.logprobs,
        old_logprobs=old_logprobs,
        ref_logprobs=ref_logprobs,
        entropy=entropies,
        values=values,
        scores=torch.tensor(scores_of(run, run.reward, examples, response), device=tokens.device),
        truncated=response.truncated,
    )


def _sequences(run: Run, examples: Sequence[Example], response: Response) -> tuple[Tensor, Tensor]:
    """Prompts padded on the left to the longest allowed, so that all ranks and steps share one shape."""
    width, pad = run.config.data.max_prompt_length, run.tokenizer.pad_id
    prompts = [run.tokenizer.encode(example.prompt) for example in examples]
    device = response.tokens.device
    left = torch.tensor([[pad] * (width - len(prompt)) + prompt for prompt in prompts], device=device)
    mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts], device=device)
    return torch.cat([left, response.tokens], dim=1), torch.cat([mask, response.mask.long()], dim=1)
