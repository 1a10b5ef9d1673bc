"""Learning from given answers: batches, gradients, baselines, whole runs and their resumption."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from trainer.config import build, metrics_of
from trainer.data import LabelExample, PairExample
from trainer.distributed import open_world, whole
from trainer.loop.preference_batch import (
    PreferenceBatch,
    answer_logprobs,
    example_micro_batches,
    other_answers,
    preference_batch,
    with_reference,
)
from trainer.loop.preference_losses import means_of, measured_baseline
from trainer.loop.preference_update import accumulate_labels, accumulate_pairs, update_on_preferences
from trainer.loop.run import Run, build_run

Quick = Callable[..., dict[str, Any]]
Lines = Callable[[Path], list[dict[str, object]]]
DPO: dict[str, object] = {"algorithm": "dpo", "data": "digits_preferences"}
KTO: dict[str, object] = {"algorithm": "kto", "data": "digits_kto"}


@pytest.fixture
def start(quick: Quick, one_thread: None) -> Iterator[Callable[..., tuple[Run, PreferenceBatch]]]:
    """Build a run, with a batch of answers of many lengths and an actor that has left the reference."""
    worlds = []

    def make(overrides: dict[str, object]) -> tuple[Run, PreferenceBatch]:
        config = build(quick(overrides))
        context = open_world(config.system)
        run = build_run(config, context.__enter__())
        worlds.append(context)
        batch = with_reference(run, preference_batch(run, [varied(example) for example in run.order.batch(1)]))
        update_on_preferences(run, batch, 1)
        return run, batch

    yield make
    for context in worlds:
        context.__exit__(None, None, None)


def varied(example: PairExample | LabelExample) -> PairExample | LabelExample:
    """The same example with answers that are shorter by its number."""
    cut = example.index % 4
    if isinstance(example, PairExample):
        return dataclasses.replace(example, chosen=example.chosen[cut:], rejected=example.rejected[: 3 - cut])
    return dataclasses.replace(example, completion=example.completion[cut:])


def gradient(run: Run, batch: PreferenceBatch, **settings: object) -> tuple[torch.Tensor, dict[str, float]]:
    """The gradient over the whole batch as one mini-batch, split as the trainer's settings say, and the means."""
    split = dataclasses.replace(run.config.trainer, **settings)
    run = dataclasses.replace(run, config=dataclasses.replace(run.config, trainer=split))
    accumulate = {"dpo": accumulate_pairs, "kto": accumulate_labels}[run.config.algorithm.name]
    totals, more = accumulate(run, batch, torch.arange(len(batch)))
    found = torch.cat([whole(parameter.grad).flatten() for parameter in run.actor.parameters()])
    run.actor.zero_grad()
    return found, {**means_of(totals, len(batch)), **more}


SPLITS = {
    "rows of 2": {"ppo_micro_batch_size_per_gpu": 2},
    "rows of 3": {"ppo_micro_batch_size_per_gpu": 3},
    "rows of 5": {"ppo_micro_batch_size_per_gpu": 5},
    "tokens, a pair each": {"use_dynamic_bsz": True, "ppo_max_token_len_per_gpu": 18},
    "tokens, some": {"use_dynamic_bsz": True, "ppo_max_token_len_per_gpu": 50},
    "tokens, all at once": {"use_dynamic_bsz": True, "ppo_max_token_len_per_gpu": 10_000},
}
LOSSES: dict[str, dict[str, object]] = {
    "dpo": DPO,
    "conservative": {**DPO, "algorithm.preference.label_smoothing": 0.2},
    "ipo per token": {
        **DPO,
        "algorithm.preference.loss_type": "ipo",
        "algorithm.preference.length_normalization": True,
    },
    "kto": {**KTO, "algorithm.preference.beta": 1.0, "algorithm.preference.undesirable_weight": 2.0},
}


@pytest.mark.parametrize("loss", LOSSES)
def test_the_gradient_does_not_depend_on_the_split_into_micro_batches(start: Callable, loss: str) -> None:
    run, batch = start({"trainer.train_batch_size": 12, "trainer.mini_batch_size": 12, **LOSSES[loss]})
    assert len(set(batch.answer_mask[0].sum(dim=1).tolist())) > 1, "answers of one length would hide mistakes"
    usual, means = gradient(run, batch, ppo_micro_batch_size_per_gpu=64)
    assert float(usual.norm()) > 1e-3
    for name, settings in SPLITS.items():
        split, others = gradient(run, batch, **settings)
        assert torch.allclose(usual, split, atol=1e-5), name
        assert others == pytest.approx(means, abs=1e-5), name


@pytest.mark.parametrize("loss", ["dpo", "ipo per token", "kto"])
def test_padding_removed_gives_the_same_gradient(start: Callable, loss: str) -> None:
    choice = {"trainer.train_batch_size": 12, "trainer.mini_batch_size": 12, "trainer.use_remove_padding": True}
    run, batch = start({**choice, **LOSSES[loss]})
    packed, means = gradient(run, batch)
    padded, others = gradient(run, batch, use_remove_padding=False)
    assert torch.allclose(packed, padded, atol=1e-5)
    assert others == pytest.approx(means, abs=1e-5)


def test_what_a_step_reports_is_what_plain_python_says(start: Callable) -> None:
    run, batch = start({**DPO, "trainer.mini_batch_size": 8})
    logprobs, reference = answer_logprobs(run, run.actor, batch).tolist(), batch.ref_logprobs.tolist()
    chosen, rejected = (
        [0.1 * (new - old) for new, old in zip(*sides, strict=True)] for sides in zip(logprobs, reference, strict=True)
    )
    _, means = gradient(run, batch)
    margins = [good - bad for good, bad in zip(chosen, rejected, strict=True)]
    assert means == pytest.approx(
        {
            "actor/loss": sum(math.log1p(math.exp(-margin)) for margin in margins) / 8,
            "reward/accuracy": sum((margin > 0) + 0.5 * (margin == 0) for margin in margins) / 8,
            "reward/chosen_mean": sum(chosen) / 8,
            "reward/rejected_mean": sum(rejected) / 8,
            "reward/margin": sum(margins) / 8,
            "actor/chosen_logprobs": sum(logprobs[0]) / 8,
            "actor/rejected_logprobs": sum(logprobs[1]) / 8,
        },
        abs=1e-5,
    )


def test_the_baseline_is_the_gain_on_answers_to_other_prompts(start: Callable) -> None:
    run, batch = start(KTO)
    gains = (answer_logprobs(run, run.actor, batch) - batch.ref_logprobs)[1]
    rows = torch.arange(len(batch))
    micros = example_micro_batches(run, [rows], batch, (1,))
    assert float(measured_baseline(run, batch, micros, len(rows))) == pytest.approx(
        max(0.0, float(gains.mean())), abs=1e-6
    )
    worse = dataclasses.replace(batch, ref_logprobs=batch.ref_logprobs + 5.0)
    assert float(measured_baseline(run, worse, micros, len(rows))) == 0.0


def test_a_batch_holds_prompts_answers_and_end_tokens(start: Callable) -> None:
    run, _ = start(DPO)
    first = PairExample(index=0, prompt="12:", ground_truth="", chosen="23", rejected="")
    second = PairExample(index=1, prompt="7:", ground_truth="", chosen="8", rejected="99999999")
    batch = preference_batch(run, [first, second])
    end = run.tokenizer.end_id
    for place, example in enumerate((first, second)):
        for column, answer in enumerate((example.chosen, example.rejected)):
            tokens, mask = batch.tokens[column, place], batch.attention_mask[column, place].bool()
            expected = [*run.tokenizer.encode(answer), end][:5]  # data.max_response_length
            assert tokens[mask].tolist() == [*run.tokenizer.encode(example.prompt), *expected]
            assert tokens[-batch.length :][batch.answer_mask[column, place]].tolist() == expected
    assert batch.desirable.all()


@given(st.lists(st.sampled_from("abc"), min_size=2, max_size=8))
def test_the_answer_to_another_prompt_is_the_next_one_that_has_one(prompts: list[str]) -> None:
    for place, other in enumerate(other_answers(prompts)):
        assert other != place
        if len(set(prompts)) > 1:
            assert prompts[other] != prompts[place]
        distance = (other - place) % len(prompts)
        between = [prompts[(place + step) % len(prompts)] for step in range(1, distance)]
        assert all(prompt == prompts[place] for prompt in between)


def curves(lines: list[dict[str, object]]) -> list[dict[str, object]]:
    """The metrics of each step, without what a clock measures."""
    return [
        {name: value for name, value in line["metrics"].items() if not name.startswith("perf/")}
        for line in lines
        if "metrics" in line
    ]


@pytest.mark.parametrize(
    "choice",
    [
        DPO,
        {**DPO, "algorithm.preference.loss_type": "ipo", "trainer.use_dynamic_bsz": True},
        KTO,
        {**KTO, "data": "digits_preferences", "model.lora_rank": 2},
    ],
    ids=["dpo", "ipo by tokens", "kto", "kto on pairs with lora"],
)
def test_a_resumed_run_is_equal_to_the_bit(
    tmp_path: Path, run_here: Callable, lines_of: Lines, quick: Quick, choice: dict[str, object]
) -> None:
    settings = {
        "trainer.total_steps": 5,
        "trainer.optim.scheduler": "cosine",
        "trainer.ppo_epochs": 2,
        "data.train_size": 16,  # an epoch is two steps
        **choice,
    }
    assert run_here(tmp_path / "whole", settings).code == 0
    assert run_here(tmp_path / "parts", {**settings, "trainer.until_step": 3}).code == 0
    second = run_here(tmp_path / "parts", settings)
    assert (second.code, second.result["status"]) == (0, "finished")
    assert "resuming after step 3" in second.stderr
    whole_run, parts = (curves(lines_of(tmp_path / name)) for name in ("whole", "parts"))
    assert parts == whole_run
    assert len(parts) == 6
    assert set(lines_of(tmp_path / "whole")[1]["metrics"]) == set(metrics_of(build(quick(settings))))


def test_a_loss_that_is_never_finite_ends_the_run_after_three_steps(
    tmp_path: Path, quick: Quick, one_thread: None, lines_of: Lines
) -> None:
    from trainer.failures import NonFiniteError
    from trainer.loop import ppo_mathematics, run_session
    from trainer.signals import StopFlag

    def broken(chosen: torch.Tensor, rejected: torch.Tensor, *, beta: float, label_smoothing: float) -> torch.Tensor:
        del rejected, beta, label_smoothing
        return chosen.sum() * math.nan

    formulas = dataclasses.replace(ppo_mathematics("gae"), pair_losses={"sigmoid": broken})
    with pytest.raises(NonFiniteError, match="3 steps in a row"):
        run_session(build(quick(DPO)), tmp_path, StopFlag(), mathematics=formulas)
    steps = [line for line in lines_of(tmp_path) if line["step"]]
    assert [line["metrics"]["actor/loss"] for line in steps] == [None] * 3
    assert all("actor/loss" in line["nonfinite"] for line in steps)


def test_a_batch_of_one_kind_of_answers_reports_no_margin(start: Callable) -> None:
    run, batch = start(KTO)
    only_good = dataclasses.replace(batch, desirable=torch.ones_like(batch.desirable))
    _, means = gradient(run, only_good)
    assert "reward/chosen_mean" in means
    assert not {"reward/rejected_mean", "reward/margin", "actor/rejected_logprobs"} & set(means)
