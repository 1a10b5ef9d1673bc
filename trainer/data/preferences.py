"""Prompts with answers that are known to be good or bad, from a built-in task or from files."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from trainer.config import DataConfig
from trainer.console import say
from trainer.data.task import Example, demonstration
from trainer.data.tokenizer import Tokenizer

SLIP_FRACTION = 0.65
"""How often a slippery digit slips in the worse answers of a built-in task: as in the habits of the built-in model."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PairExample(Example):
    """A prompt with a better and a worse answer.

    Attributes:
        chosen: The better answer, without the end token.
        rejected: The worse one.
    """

    chosen: str
    rejected: str


@dataclass(frozen=True, kw_only=True, slots=True)
class LabelExample(Example):
    """A prompt with an answer that is good or bad.

    Attributes:
        completion: The answer, without the end token.
        label: Whether it is good.
    """

    completion: str
    label: bool


def pair_of(example: Example, seed: int) -> PairExample:
    """A prompt of a built-in task with the right answer and with one that has slips.

    Args:
        example: The prompt.
        seed: Draws the slips, together with the prompt's number.
    """
    rng = random.Random(f"pair/{seed}/{example.index}")
    truth = example.ground_truth
    wrong = demonstration(example, SLIP_FRACTION, rng)
    if wrong == truth:
        place = rng.choice([place for place, char in enumerate(truth) if char.isdigit()])
        wrong = f"{truth[:place]}{(int(truth[place]) - 1) % 10}{truth[place + 1 :]}"
    return PairExample(**_shared(example), chosen=truth, rejected=wrong)


def label_of(example: Example, seed: int) -> LabelExample:
    """A prompt of a built-in task with the right answer, or as often with one that has slips."""
    pair = pair_of(example, seed)
    label = random.Random(f"label/{seed}/{example.index}").random() < 0.5
    return LabelExample(**_shared(example), completion=pair.chosen if label else pair.rejected, label=label)


OF_TASKS: Mapping[str, Callable[[Example, int], Example]] = {"pairs": pair_of, "labels": label_of}
"""How the prompts of a built-in task get answers, by `data.kind`."""


def usable(
    examples: Sequence[Example], config: DataConfig, tokenizer: Tokenizer, what: str, *, announce: bool
) -> list[Example]:
    """The examples from whose answers something can be learnt.

    Args:
        examples: With answers; examples without any stay.
        config: Reads `overlong` and `max_response_length`.
        tokenizer: Measures the answers.
        what: What they are, for the announcement.
        announce: Say on stderr how many were left out, and how many are cut.
    """
    longest = config.max_response_length
    kept: list[Example] = []
    too_long = same = 0
    for example in examples:
        answers = [answer_tokens(tokenizer, answer, longest + 1) for answer in answers_of(example)]
        is_long = any(len(answer) > longest for answer in answers)
        too_long += is_long
        if is_long and config.overlong == "drop":
            continue
        if len(answers) == 2 and answers[0][:longest] == answers[1][:longest]:
            same += 1
            continue
        kept.append(example)
    if announce and too_long:
        done = "left out" if config.overlong == "drop" else "cut the answers of"
        say(f"{done} {too_long} of {len(examples)} {what} rows: an answer is longer than {longest} tokens")
    if announce and same:
        say(f"left out {same} of {len(examples)} {what} rows: chosen and rejected are the same")
    return kept


def unpaired(examples: Sequence[Example]) -> list[Example]:
    """Each pair as a good and a bad answer; other examples as they are."""
    singles: list[Example] = []
    for example in examples:
        if isinstance(example, PairExample):
            singles.append(LabelExample(**_shared(example), completion=example.chosen, label=True))
            singles.append(LabelExample(**_shared(example), completion=example.rejected, label=False))
        else:
            singles.append(example)
    return singles


def answers_of(example: Example) -> tuple[str, ...]:
    """The answers of an example, the better one first; none for a prompt alone."""
    if isinstance(example, PairExample):
        return example.chosen, example.rejected
    return (example.completion,) if isinstance(example, LabelExample) else ()


def answer_tokens(tokenizer: Tokenizer, answer: str, longest: int) -> list[int]:
    """What a model would have to sample to give an answer: its tokens and the end token, cut after `longest`."""
    return [*tokenizer.encode(answer), tokenizer.end_id][:longest]


def _shared(example: Example) -> dict[str, object]:
    return {item.name: getattr(example, item.name) for item in dataclasses.fields(Example)}
