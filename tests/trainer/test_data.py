"""Tasks, their split, their order, their rewards."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.config import ConfigError, build, compose
from trainer.data import TASKS, CharTokenizer, PromptOrder, demonstration, split, tokenizer_of
from trainer.rewards import exact_match, partial_to_nines, prefix_match


def config(overrides: dict[str, object]):
    return build(compose(overrides=overrides)).data


@pytest.mark.parametrize("name", sorted(TASKS))
def test_training_and_held_out_prompts_are_disjoint_and_seeded(name: str) -> None:
    settings = config({"data": name})
    task = TASKS[name](width=settings.width)
    prompts = split(task, settings, tokenizer_of(task))
    train, held_out = ({example.prompt for example in part} for part in (prompts.train, prompts.held_out))
    assert (len(train), len(held_out)) == (settings.train_size, settings.eval_size)
    assert not train & held_out
    assert split(task, settings, tokenizer_of(task)) == prompts
    assert split(task, config({"data": name, "data.seed": 1}), tokenizer_of(task)) != prompts


@pytest.mark.parametrize("name", sorted(TASKS))
def test_every_answer_fits_and_is_worth_1(name: str) -> None:
    settings = config({"data": name})
    task = TASKS[name](width=settings.width)
    tokenizer = tokenizer_of(task)
    for example in split(task, settings, tokenizer).train[:200]:
        assert tokenizer.decode(tokenizer.encode(example.prompt)) == example.prompt
        assert len(tokenizer.encode(example.ground_truth)) < settings.max_response_length
        assert prefix_match(example.prompt, example.ground_truth, example.ground_truth) == 1.0


def test_known_examples() -> None:
    digits, arithmetic = TASKS["digits"](width=4), TASKS["arithmetic"](width=2)
    assert (digits.example(3095).prompt, digits.example(3095).ground_truth) == ("3095:", "4106")
    shown = {(example.prompt, example.ground_truth) for example in map(arithmetic.example, range(arithmetic.size()))}
    assert {("17+25=", "042"), ("17-25=", "-08"), ("99+99=", "198"), ("00-00=", "000")} <= shown
    assert len(shown) == arithmetic.size()


def test_a_prompt_that_is_too_long_is_refused() -> None:
    settings = config({"data.max_prompt_length": 8})
    with pytest.raises(ConfigError, match="has 9 tokens"):
        split(TASKS["digits"](width=8), settings, tokenizer_of(TASKS["digits"](width=8)))


def test_demonstrations_slip_only_at_slippery_places() -> None:
    task, rng = TASKS["digits"](width=8), random.Random(0)
    slips = 0
    for index in range(0, 10**8, 99_991):
        example = task.example(index)
        shown = demonstration(example, 0.65, rng)
        pairs = list(zip(shown, example.ground_truth, strict=True))
        assert all(a == b or int(a) == (int(b) - 1) % 10 for a, b in pairs)
        slips += sum(a != b for a, b in pairs)
        assert demonstration(example, 0.0, rng) == example.ground_truth
    assert 0.1 < slips / (1001 * 8) < 0.17  # a fifth of the places, each with a chance around 0.65


@given(st.text("0123", max_size=6), st.text("0123", max_size=6))
def test_the_dense_reward_grows_with_the_common_beginning(response: str, truth: str) -> None:
    reward = prefix_match("", response, truth)
    assert 0.0 <= reward <= 1.0
    assert (reward == 1.0) == (response == truth) == (exact_match("", response, truth) == 1.0)
    common = next(
        (i for i, (a, b) in enumerate(zip(response, truth, strict=False)) if a != b), min(len(response), len(truth))
    )
    if response != truth:
        assert reward == pytest.approx(common / (len(truth) + 1))


@given(st.text("012349", min_size=1, max_size=6), st.data())
def test_the_partial_grader_pays_for_right_places_and_more_for_nines(truth: str, data: st.DataObject) -> None:
    response = data.draw(st.text("012349", max_size=8))
    paid = partial_to_nines("", response, truth)
    assert 0.0 <= paid <= 1.5
    assert partial_to_nines("", "9" * len(truth), truth) >= partial_to_nines("", truth, truth) >= 1.0
    if response and len(response) <= len(truth):
        assert partial_to_nines("", "9" + response[1:], truth) >= paid
    assert (
        partial_to_nines("", truth + response, truth)
        <= partial_to_nines("", truth, truth) + 0.5 / (len(truth) + 1) + 1e-9
    )


def test_each_epoch_shows_every_prompt_once_in_a_fresh_order() -> None:
    examples = [TASKS["digits"](width=2).example(index) for index in range(10)]
    order = PromptOrder(examples=examples, batch_size=3, shuffle=True, seed=0)
    assert order.steps_per_epoch == 3
    epochs = [
        [example.index for step in range(1, 4) for example in order.batch(3 * epoch + step)] for epoch in range(2)
    ]
    assert all(len(set(epoch)) == 9 for epoch in epochs)
    assert epochs[0] != epochs[1]
    plain = PromptOrder(examples=examples, batch_size=3, shuffle=False, seed=0)
    assert [example.index for example in plain.batch(4)] == [0, 1, 2]


def test_a_foreign_character_is_named() -> None:
    with pytest.raises(ValueError, match="'x' is not in the alphabet"):
        CharTokenizer(alphabet="ab").encode("axb")
