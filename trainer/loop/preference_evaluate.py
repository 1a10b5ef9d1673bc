"""The evaluation of what learns from given answers: does it rank held-out ones right, and what does it answer?"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from trainer.algorithms import kl_baseline, kl_k1, masked_sum
from trainer.data import Example
from trainer.loop.collect import sequences_of, sync_engine
from trainer.loop.evaluate import evaluate
from trainer.loop.forward import response_logprobs
from trainer.loop.micro_batches import micro_batches
from trainer.loop.preference_batch import (
    PreferenceBatch,
    answer_logprobs,
    even_share,
    preference_batch,
    with_reference,
)
from trainer.loop.preference_losses import label_sums, means_of, pair_sums
from trainer.loop.run import Run
from trainer.loop.samples import SampleFile
from trainer.rollout import Request, Response, Sampling, check_version, sample_seed

_NAMES = {
    "actor/loss": "eval/preference_loss",
    "reward/accuracy": "eval/preference_accuracy",
    "reward/margin": "eval/preference_margin",
}


def held_out_preferences(run: Run) -> PreferenceBatch:
    """The held-out answers with the reference's log-probabilities, which never change.

    The first examples come again at the end until all ranks can share them evenly; the evaluation leaves those out.
    """
    count, size = len(run.held_out), run.world.size
    filled = [run.held_out[place % count] for place in range(-(-count // size) * size)]
    return with_reference(run, preference_batch(run, filled))


def evaluate_preferences(run: Run, held_out: PreferenceBatch, step: int, samples: SampleFile) -> dict[str, float]:
    """The evaluation metrics of the actor after a step; all ranks take part.

    Args:
        run: The run.
        held_out: See `held_out_preferences`.
        step: Training steps done.
        samples: Keeps the first answers that are scored.
    """
    examples, response = own_answers(run, step)
    if run.eval_reward is None:
        run.engine.release()
        rewards = {}
    else:
        rewards = evaluate(run, step, samples)
    return ranked(run, held_out) | drift(run, examples, response) | rewards


def ranked(run: Run, held_out: PreferenceBatch) -> dict[str, float]:
    """Loss, accuracy and margin on the held-out answers."""
    count = len(run.held_out)
    assert held_out.ref_logprobs is not None
    logprobs, reference = answer_logprobs(run, run.actor, held_out)[:, :count], held_out.ref_logprobs[:, :count]
    if run.config.algorithm.name == "dpo":
        sums = pair_sums(run, logprobs, reference)
    else:
        baseline = kl_baseline((logprobs[1] - reference[1]).sum(), count)
        sums = label_sums(run, logprobs[0], reference[0], held_out.desirable[:count], baseline)
    means = means_of(sums, count)
    return {name: means[key] for key, name in _NAMES.items() if key in means}


def own_answers(run: Run, step: int) -> tuple[list[Example], Response]:
    """A response of the actor to each of this rank's held-out prompts, sampled as PPO samples its rollouts."""
    sync_engine(run, step)
    check_version(run.engine, step)
    examples = [run.held_out[place] for place in even_share(len(run.held_out), run.world)]
    seed = run.config.trainer.seed
    requests = [
        Request(prompt=run.tokenizer.encode(example.prompt), seed=sample_seed(seed, step, example.index, 0))
        for example in examples
    ]
    sampling = Sampling(temperature=1.0, max_tokens=run.config.data.max_response_length)
    return examples, run.engine.generate(requests, sampling)


@torch.no_grad()
def drift(run: Run, examples: Sequence[Example], response: Response) -> dict[str, float]:
    """How far the actor is from the reference on what it answers itself, and how sure it is of that.

    Given answers would not do: a KL is a mean over the policy's own samples.
    """
    tokens, attention_mask = sequences_of(run, examples, response)
    length, device = response.tokens.shape[1], tokens.device
    rows = torch.arange(len(examples), device=device)
    # The last rank's share may be filled up with examples of the first rank's.
    counted = response.mask & (run.world.rank * len(examples) + rows < len(run.held_out))[:, None]
    unpadded = run.config.trainer.use_remove_padding
    totals = torch.zeros(3, dtype=torch.float64, device=device)
    for micro in micro_batches([rows], attention_mask, length, run.config.trainer, run.world):
        place = (micro.sequences(tokens, length), micro.sequences(attention_mask, length), micro.response)
        logprobs, entropy = response_logprobs(run.actor, *place, 1.0, entropy=True, remove_padding=unpadded)
        reference, _ = response_logprobs(run.reference, *place, 1.0, entropy=False, remove_padding=unpadded)
        assert entropy is not None
        mask = micro.responses(counted)
        sums = (masked_sum(kl_k1(logprobs, reference), mask), masked_sum(entropy, mask), mask.sum())
        totals += torch.stack([value.double() for value in sums])
    kl, entropies, count = run.world.sum(totals).tolist()
    return {"kl/actor_ref": kl / max(count, 1.0), "actor/entropy": entropies / max(count, 1.0)}
