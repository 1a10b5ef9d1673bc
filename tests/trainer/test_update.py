"""The gradient of an update: the same for any split, and none where nothing counts."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from trainer.config import build
from trainer.distributed import open_world, whole
from trainer.loop.collect import measure, sample, sync_engine
from trainer.loop.experience import Experience, Targets
from trainer.loop.forward import response_logprobs
from trainer.loop.run import Run, build_run
from trainer.loop.targets import compute_targets
from trainer.loop.update import accumulate_gradients, mini_batches, update

Quick = Callable[..., dict[str, Any]]


@pytest.fixture
def start(quick: Quick, one_thread: None) -> Iterator[Callable[..., tuple[Run, Experience, Targets]]]:
    """Build a run and collect its first experience."""
    worlds = []

    def make(overrides: dict[str, object] | None = None) -> tuple[Run, Experience, Targets]:
        config = build(quick(overrides))
        context = open_world(config.system)
        run = build_run(config, context.__enter__())
        worlds.append(context)
        sync_engine(run, 0)
        experience = measure(run, *sample(run, 1))
        return run, experience, compute_targets(experience, config.algorithm, 0.1, run.mathematics)

    yield make
    for context in worlds:
        context.__exit__(None, None, None)


def gradients(run: Run, experience: Experience, targets: Targets, size: int) -> torch.Tensor:
    rows = torch.arange(len(experience.tokens))
    num_tokens = targets.mask.sum()
    for micro in rows.split(size):
        accumulate_gradients(run, experience, targets, micro, num_tokens)
    parameters = [*run.actor.parameters(), *run.critic.parameters()]
    flat = torch.cat([whole(parameter.grad).flatten() for parameter in parameters if parameter.grad is not None])
    run.actor.zero_grad()
    run.critic.zero_grad()
    return flat


@pytest.mark.parametrize("size", [1, 3, 5])
def test_the_gradient_does_not_depend_on_the_split_into_micro_batches(start: Callable, size: int) -> None:
    run, experience, targets = start({"algorithm.entropy_coeff": 0.1})
    # Make the networks differ from the ones that sampled, so that clipping and the value loss matter.
    update(run, experience, targets, 1)
    whole_batch, split_batch = gradients(run, experience, targets, 8), gradients(run, experience, targets, size)
    assert float(whole_batch.norm()) > 1e-3
    assert torch.allclose(whole_batch, split_batch, atol=1e-5)


def test_the_ratio_is_1_before_the_first_update(start: Callable) -> None:
    run, experience, _ = start({"rollout.temperature": 0.7})
    length = experience.response_mask.shape[1]
    logprobs, _ = response_logprobs(run.actor, experience.tokens, experience.attention_mask, length, 0.7, entropy=False)
    gap = (logprobs.detach() - experience.old_logprobs)[experience.response_mask].abs().max()
    assert float(gap) < 1e-5
    engine_gap = (experience.rollout_logprobs - experience.old_logprobs)[experience.response_mask].abs().max()
    assert float(engine_gap) < 1e-5


def test_the_first_values_are_zero_and_the_first_kl_too(start: Callable) -> None:
    _, experience, _ = start()
    assert not experience.values.any()
    assert torch.allclose(experience.old_logprobs, experience.ref_logprobs, atol=1e-6)


def test_when_every_response_is_cut_and_left_out_nothing_moves(start: Callable) -> None:
    run, experience, _ = start({"algorithm.truncation": "mask"})
    cut = dataclasses.replace(
        experience,
        response_mask=torch.ones_like(experience.response_mask),
        truncated=torch.ones_like(experience.truncated),
    )
    targets = compute_targets(cut, run.config.algorithm, 0.1, run.mathematics)
    assert not targets.mask.any()
    before = [whole(parameter).clone() for parameter in run.actor.parameters()]
    stats = update(run, cut, targets, 1)
    assert stats.skipped == 0
    assert stats.actor_loss == [0.0, 0.0]
    assert all(torch.equal(a, whole(b)) for a, b in zip(before, run.actor.parameters(), strict=True))


def test_bootstrapping_adds_the_critics_value_to_cut_responses_alone(start: Callable) -> None:
    run, experience, _ = start()
    valued = dataclasses.replace(
        experience,
        values=torch.ones_like(experience.values),
        response_mask=torch.ones_like(experience.response_mask),
        truncated=torch.arange(len(experience.tokens)) % 2 == 0,
    )
    settings = dataclasses.replace(run.config.algorithm, whiten_advantages=False, gamma=1.0, lam=1.0)
    plain = compute_targets(valued, settings, 0.0, run.mathematics)
    bootstrapped = compute_targets(valued, dataclasses.replace(settings, truncation="bootstrap"), 0.0, run.mathematics)
    gained = bootstrapped.returns - plain.returns
    assert torch.allclose(gained[valued.truncated], torch.ones_like(gained[valued.truncated]))
    assert not gained[~valued.truncated].any()


def test_mini_batches_cover_the_batch_once_per_epoch_in_fresh_orders(start: Callable) -> None:
    run, experience, _ = start({"trainer.ppo_epochs": 2, "rollout.n": 2})
    batches = list(mini_batches(run, len(experience.tokens), 1))
    assert [len(batch) for batch in batches] == [8, 8, 8, 8]
    first, second = torch.cat(batches[:2]), torch.cat(batches[2:])
    assert sorted(first.tolist()) == sorted(second.tolist()) == list(range(16))
    assert first.tolist() != second.tolist()
    assert torch.cat(list(mini_batches(run, 16, 1))).tolist() == torch.cat(batches).tolist()
