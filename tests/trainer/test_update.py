"""The gradient of an update: the same for any split, and none where nothing counts."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from trainer.config import build
from trainer.distributed import open_world, whole
from trainer.loop.collect import measure, sample, sync_engine
from trainer.loop.experience import Experience, Targets
from trainer.loop.forward import response_logprobs
from trainer.loop.losses import actor_loss, critic_loss
from trainer.loop.micro_batches import micro_batches
from trainer.loop.run import Run, build_run
from trainer.loop.targets import compute_targets
from trainer.loop.update import accumulate, mini_batches, update

Quick = Callable[..., dict[str, Any]]


@pytest.fixture
def start(quick: Quick, one_thread: None) -> Iterator[Callable[..., tuple[Run, Experience, Targets]]]:
    """Build a run and collect its first experience."""
    worlds = []

    def make(overrides: dict[str, object] | None = None) -> tuple[Run, Experience, Targets]:
        config = build(quick({"trainer.use_remove_padding": True, **(overrides or {})}))
        context = open_world(config.system)
        run = build_run(config, context.__enter__())
        worlds.append(context)
        # Built so that both are possible; usual is with padding.
        config = dataclasses.replace(config, trainer=dataclasses.replace(config.trainer, use_remove_padding=False))
        run = dataclasses.replace(run, config=config)
        sync_engine(run, 0)
        experience = measure(run, *sample(run, 1))
        # So small a model earns nothing by itself.
        scores = torch.rand(len(experience.scores), generator=torch.Generator().manual_seed(0))
        experience = dataclasses.replace(experience, scores=scores)
        return run, experience, compute_targets(experience, experience.scores, config.algorithm, 0.1, run.mathematics)

    yield make
    for context in worlds:
        context.__exit__(None, None, None)


def gradients(run: Run, experience: Experience, targets: Targets, **settings: object) -> dict[str, torch.Tensor]:
    """The gradient of each network over the whole batch as one mini-batch, split as the trainer's settings say."""
    rows, length = torch.arange(len(experience.tokens)), experience.response_mask.shape[1]
    split = dataclasses.replace(run.config.trainer, **settings)
    run = dataclasses.replace(run, config=dataclasses.replace(run.config, trainer=split))
    micros = micro_batches([rows], experience.attention_mask, length, split, run.world)
    found = {}
    for name, loss in {"actor": actor_loss, "critic": critic_loss}.items():
        if name in run.trained:
            model, _ = run.trained[name]
            accumulate(run, loss, experience, targets, micros, targets.mask)
            parts = [whole(parameter.grad).flatten() for parameter in model.parameters() if parameter.grad is not None]
            found[name] = torch.cat(parts)
            model.zero_grad()
    return found


SPLITS = {
    "rows of 1": {"ppo_micro_batch_size_per_gpu": 1},
    "rows of 3": {"ppo_micro_batch_size_per_gpu": 3},
    "tokens, a sequence each": {"use_dynamic_bsz": True, "ppo_max_token_len_per_gpu": 9},
    "tokens, some sequences": {"use_dynamic_bsz": True, "ppo_max_token_len_per_gpu": 30},
    "tokens, all at once": {"use_dynamic_bsz": True, "ppo_max_token_len_per_gpu": 10_000},
    "end to end, all at once": {"use_remove_padding": True, "ppo_micro_batch_size_per_gpu": 16},
    "end to end, rows of 3": {"use_remove_padding": True, "ppo_micro_batch_size_per_gpu": 3},
    "end to end, tokens": {"use_remove_padding": True, "use_dynamic_bsz": True, "ppo_max_token_len_per_gpu": 25},
}
TERMS: dict[str, dict[str, object]] = {
    "policy and value": {},
    "entropy": {"algorithm.entropy_coeff": 1.0},
    "k2": {"algorithm.kl_loss_coef": 1.0, "algorithm.kl_loss_type": "k2"},
    "k3": {"algorithm.kl_loss_coef": 1.0, "algorithm.kl_loss_type": "k3"},
    "everything, per response": {
        "algorithm.loss_agg_mode": "seq-mean-token-mean",
        "algorithm.entropy_coeff": 0.1,
        "algorithm.kl_loss_coef": 0.5,
        "algorithm.clip_ratio_c": 3.0,
        "algorithm.rollout_is_threshold": 2.0,
    },
    "sums of responses": {"algorithm.loss_agg_mode": "seq-mean-token-sum", "algorithm.entropy_coeff": 0.1},
}


@pytest.mark.parametrize("terms", TERMS)
def test_the_gradient_does_not_depend_on_the_split_into_micro_batches(start: Callable, terms: str) -> None:
    run, experience, targets = start({"rollout.n": 2, **TERMS[terms]})
    assert len(set(experience.response_mask.sum(dim=1).tolist())) > 1, "responses of one length would hide mistakes"
    # Make the networks differ from the ones that sampled, so that clipping and the value loss matter.
    update(run, experience, targets, 1)
    usual = gradients(run, experience, targets, ppo_micro_batch_size_per_gpu=16)
    norms = {network: float(gradient.norm()) for network, gradient in usual.items()}
    assert min(norms.values()) > 1e-3, norms
    for name, settings in SPLITS.items():
        split = gradients(run, experience, targets, **settings)
        for network, gradient in usual.items():
            assert torch.allclose(gradient, split[network], atol=1e-5), (name, network)


@pytest.mark.parametrize("mode", ["token-mean", "seq-mean-token-sum", "seq-mean-token-mean"])
def test_the_first_losses_of_both_networks_are_averaged_as_the_mode_says(start: Callable, mode: str) -> None:
    run, experience, targets = start({"rollout.n": 2, "trainer.mini_batch_size": 8, "algorithm.loss_agg_mode": mode})
    stats = update(run, experience, targets, 1)

    def average(tokens: torch.Tensor) -> float:
        rows = [row[mask].tolist() for row, mask in zip(tokens, targets.mask, strict=True)]
        return {
            "token-mean": sum(map(sum, rows)) / sum(map(len, rows)),
            "seq-mean-token-sum": sum(map(sum, rows)) / len(rows),
            "seq-mean-token-mean": sum(sum(row) / len(row) for row in rows) / len(rows),
        }[mode]

    # Before the first update the ratio is 1 and every value is 0.
    assert stats.values["actor/loss"] == [pytest.approx(average(-targets.advantages), abs=1e-5)]
    assert stats.values["critic/loss"] == [pytest.approx(average(0.5 * targets.returns.square()), abs=1e-5)]


@pytest.mark.parametrize("term", ["entropy", "k2", "k3"])
def test_each_term_adds_its_own_gradient(start: Callable, term: str) -> None:
    run, experience, targets = start({"rollout.n": 2})
    update(run, experience, targets, 1)
    without = gradients(run, experience, targets)["actor"]
    changes = {path.rpartition(".")[2]: value for path, value in TERMS[term].items()}
    algorithm = dataclasses.replace(run.config.algorithm, **changes)
    run = dataclasses.replace(run, config=dataclasses.replace(run.config, algorithm=algorithm))
    assert float((gradients(run, experience, targets)["actor"] - without).norm()) > 1e-3


@pytest.mark.parametrize("split", ["tokens, some sequences", "end to end, rows of 3", "end to end, tokens"])
def test_measuring_does_not_depend_on_the_split(start: Callable, split: str) -> None:
    run, _, _ = start({"rollout.n": 2})
    settings = dataclasses.replace(run.config.trainer, **SPLITS[split])
    other = dataclasses.replace(run, config=dataclasses.replace(run.config, trainer=settings))
    examples, response = sample(run, 1)
    usual, found = measure(run, examples, response), measure(other, examples, response)
    mask = usual.response_mask
    for name in ("old_logprobs", "ref_logprobs", "entropy"):
        left, right = getattr(usual, name), getattr(found, name)
        assert torch.allclose(left[mask], right[mask], atol=1e-5), name
    assert torch.allclose(usual.values[:, :-1][mask], found.values[:, :-1][mask], atol=1e-5)
    assert torch.equal(usual.response_mask, found.response_mask)


def test_the_actor_rests_while_the_critic_warms_up(start: Callable) -> None:
    run, experience, targets = start({"trainer.critic_warmup": 2})
    before = {name: [whole(p).clone() for p in model.parameters()] for name, (model, _) in run.trained.items()}

    def moved(name: str) -> bool:
        model, _ = run.trained[name]
        return any(not torch.equal(a, whole(b)) for a, b in zip(before[name], model.parameters(), strict=True))

    stats = update(run, experience, targets, 2)
    assert (moved("actor"), moved("critic")) == (False, True)
    assert "actor/loss" not in stats.values
    update(run, experience, targets, 3)
    assert moved("actor")


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_gradient_that_is_not_finite_leaves_that_networks_weights_and_moments_alone(
    start: Callable, bad: float
) -> None:
    run, experience, targets = start({"trainer.mini_batch_size": 8})
    update(run, experience, targets, 1)
    before = {name: [whole(p).clone() for p in model.parameters()] for name, (model, _) in run.trained.items()}
    moments = [state["exp_avg"].to_local().clone() for state in run.actor_optimizer.state.values()]
    # The loss stays finite: only what flows back through one weight does not.
    poisoned = next(run.actor.parameters()).register_post_accumulate_grad_hook(
        lambda parameter: parameter.grad.to_local().fill_(bad)
    )
    stats = update(run, experience, targets, 2)
    poisoned.remove()
    assert stats.skipped == 1
    assert all(math.isfinite(value) for value in stats.values["actor/loss"])
    assert not math.isfinite(stats.values["actor/grad_norm"][0])
    assert all(torch.equal(a, whole(b)) for a, b in zip(before["actor"], run.actor.parameters(), strict=True))
    after = [state["exp_avg"].to_local() for state in run.actor_optimizer.state.values()]
    assert all(torch.equal(a, b) for a, b in zip(moments, after, strict=True))
    assert run.critic is not None
    assert any(not torch.equal(a, whole(b)) for a, b in zip(before["critic"], run.critic.parameters(), strict=True))
    assert all(parameter.grad is None for parameter in run.actor.parameters())
    assert update(run, experience, targets, 3).skipped == 0


def test_without_a_critic_none_is_built_and_none_is_reported(start: Callable) -> None:
    run, experience, targets = start({"algorithm.adv_estimator": "grpo", "rollout.n": 2})
    assert run.critic is None
    assert run.critic_optimizer is None
    assert not experience.values.any()
    stats = update(run, experience, targets, 1)
    assert not [name for name in stats.values if name.startswith("critic/")]
    assert stats.values["actor/grad_norm"][0] > 0


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


@pytest.mark.parametrize("mode", ["token-mean", "seq-mean-token-sum", "seq-mean-token-mean"])
def test_when_every_response_is_cut_and_left_out_nothing_moves(start: Callable, mode: str) -> None:
    run, experience, _ = start({"algorithm.truncation": "mask", "algorithm.loss_agg_mode": mode})
    cut = dataclasses.replace(
        experience,
        response_mask=torch.ones_like(experience.response_mask),
        truncated=torch.ones_like(experience.truncated),
    )
    targets = compute_targets(cut, cut.scores, run.config.algorithm, 0.1, run.mathematics)
    assert not targets.mask.any()
    before = [whole(parameter).clone() for parameter in run.actor.parameters()]
    stats = update(run, cut, targets, 1)
    assert stats.skipped == 0
    assert stats.values["actor/loss"] == [0.0, 0.0]
    assert all(torch.equal(a, whole(b)) for a, b in zip(before, run.actor.parameters(), strict=True))


def test_an_empty_response_and_one_of_one_token_fit_into_any_split(start: Callable) -> None:
    run, experience, _ = start(TERMS["everything, per response"])
    mask, attention = experience.response_mask.clone(), experience.attention_mask.clone()
    width = mask.shape[1]
    mask[0], mask[1] = False, torch.arange(width) < 1
    attention[:, -width:] = mask.long()
    odd = dataclasses.replace(experience, response_mask=mask, attention_mask=attention)
    targets = compute_targets(odd, odd.scores, run.config.algorithm, 0.1, run.mathematics)
    usual = gradients(run, odd, targets, ppo_micro_batch_size_per_gpu=8)
    assert all(float(gradient.norm()) > 1e-3 for gradient in usual.values())
    for name, settings in SPLITS.items():
        split = gradients(run, odd, targets, **settings)
        for network, gradient in usual.items():
            assert torch.allclose(gradient, split[network], atol=1e-5), (name, network)


def test_bootstrapping_adds_the_critics_value_to_cut_responses_alone(start: Callable) -> None:
    run, experience, _ = start()
    valued = dataclasses.replace(
        experience,
        values=torch.ones_like(experience.values),
        response_mask=torch.ones_like(experience.response_mask),
        truncated=torch.arange(len(experience.tokens)) % 2 == 0,
    )
    settings = dataclasses.replace(run.config.algorithm, whiten_advantages=False, gamma=1.0, lam=1.0)
    plain = compute_targets(valued, valued.scores, settings, 0.0, run.mathematics)
    bootstrapped = compute_targets(
        valued, valued.scores, dataclasses.replace(settings, truncation="bootstrap"), 0.0, run.mathematics
    )
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
