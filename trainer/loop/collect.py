"""The first half of a step: sample responses, score them, and measure them with all networks."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.profiler import record_function

from trainer.config import Config
from trainer.data import Example
from trainer.distributed import whole_weights
from trainer.loop.experience import Experience
from trainer.loop.forward import response_logprobs, response_values
from trainer.loop.micro_batches import micro_batches, restored
from trainer.loop.run import Run
from trainer.models import merged
from trainer.rewards import Scorer, score_rows
from trainer.rollout import Request, Response, Sampling, check_version, sample_seed


@record_function("sync_engine")
def sync_engine(run: Run, policy_version: int) -> None:
    """Hand the actor's weights to the rollout engine, unless it has them."""
    if run.engine.policy_version != policy_version:
        run.engine.sync(merged(run.actor, whole_weights(run.actor)), policy_version)


@record_function("sample")
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
    response = run.engine.generate(requests, sampling)
    run.engine.release()
    return examples, response


def scores_of(run: Run, reward: Scorer, examples: Sequence[Example], response: Response) -> list[list[float]]:
    """What a reward says of each response, followed by its components (see `component_names`)."""
    texts = [run.tokenizer.decode(row[mask].tolist()) for row, mask in zip(response.tokens, response.mask, strict=True)]
    return score_rows(reward, examples, texts)


def update_measures(config: Config, step: int) -> bool:
    """Whether a step can leave the actor's log-probabilities and entropy before the update to the update itself.

    When each response is seen by one update alone, the forward pass of that update runs with the very weights that
    would have measured it before; and nothing may need the numbers earlier, as a KL penalty in the reward and weights
    for the rollout engine's deviation do.
    """
    settings, algorithm = config.trainer, config.algorithm
    once = settings.ppo_epochs == 1 and settings.mini_batch_size == settings.train_batch_size
    early = algorithm.kl_ctrl.kl_coef != 0 or algorithm.rollout_is_threshold is not None
    return once and not early and step > settings.critic_warmup


@record_function("measure")
@torch.no_grad()
def measure(run: Run, examples: Sequence[Example], response: Response, *, actor: bool = True) -> Experience:
    """Score this rank's responses and compute log-probabilities, entropy and values before the update.

    Args:
        run: The parts.
        examples: The prompt of each response.
        response: What was sampled.
        actor: Compute the actor's part too; otherwise its log-probabilities and entropy stay 0 for now.
    """
    tokens, attention_mask = sequences_of(run, examples, response)
    length = response.tokens.shape[1]
    temperature, unpadded = run.config.rollout.temperature, run.config.trainer.use_remove_padding
    everyone = torch.arange(len(examples), device=tokens.device)
    micros = micro_batches([everyone], attention_mask, length, run.config.trainer, run.world)
    parts: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []
    for micro in micros:
        part, mask = micro.sequences(tokens, length), micro.sequences(attention_mask, length)
        place = (part, mask, micro.response)
        old = entropy = torch.zeros(len(part), micro.response, device=tokens.device)
        if actor:
            old, entropy = response_logprobs(run.actor, *place, temperature, entropy=True, remove_padding=unpadded)
        ref, _ = response_logprobs(run.reference, *place, temperature, entropy=False, remove_padding=unpadded)
        assert entropy is not None
        values = torch.zeros(len(part), micro.response + 1, device=tokens.device)
        if run.critic is not None:
            values = response_values(run.critic, *place, remove_padding=unpadded)
        parts.append((old, entropy, ref, values))
    old_logprobs, entropies, ref_logprobs, values = (
        restored(column, micros, width)
        for column, width in zip(zip(*parts, strict=True), (length, length, length, length + 1), strict=True)
    )
    assert run.reward is not None
    rows = torch.tensor(scores_of(run, run.reward, examples, response), device=tokens.device)
    return Experience(
        tokens=tokens,
        attention_mask=attention_mask,
        response_mask=response.mask,
        rollout_logprobs=response.logprobs,
        old_logprobs=old_logprobs,
        ref_logprobs=ref_logprobs,
        entropy=entropies,
        values=values,
        scores=rows[:, 0],
        components=rows[:, 1:],
        truncated=response.truncated,
    )


def sequences_of(run: Run, examples: Sequence[Example], response: Response) -> tuple[Tensor, Tensor]:
    """Prompts padded on the left to the longest allowed, so that all ranks and steps share one shape."""
    width, pad = run.config.data.max_prompt_length, run.tokenizer.pad_id
    prompts = [run.tokenizer.encode(example.prompt) for example in examples]
    device = response.tokens.device
    left = torch.tensor([[pad] * (width - len(prompt)) + prompt for prompt in prompts], device=device)
    mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts], device=device)
    return torch.cat([left, response.tokens], dim=1), torch.cat([mask, response.mask.long()], dim=1)
