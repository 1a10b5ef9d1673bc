"""Rewards over rows: the number of a word problem, one's own functions, their time and their mistakes."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.config import ConfigError, RewardConfig, build, compose
from trainer.data import Example
from trainer.failures import DataError, NonFiniteError
from trainer.rewards import REWARDS, Reward, exact_match, gsm8k, load_eval_reward, load_reward
from trainer.rewards.limit import TimeLimit

EXAMPLE = Example(index=3, prompt="p", ground_truth="g", data_source="d", extra_info={"k": 1})


@pytest.mark.parametrize(
    ("response", "reward"),
    [
        ("so 24 + 48 = 72\n#### 72", 1.0),
        ("#### 72.00 of 100", 1.0),
        ("the answer is 72", 1.0),
        ("72, no: 73", 0.0),
        ("72 #### 73", 0.0),
        ("#### 7 #### 72", 1.0),
        ("#### none, 72 before", 1.0),
        ("72 ####", 0.0),
        ("", 0.0),
        ("-72", 0.0),
    ],
)
def test_the_final_number_decides(response: str, reward: float) -> None:
    assert gsm8k("", response, "72") == reward


def test_a_truth_without_a_number_is_refused() -> None:
    with pytest.raises(DataError, match="holds no number"):
        Reward(function=gsm8k).of(EXAMPLE, "1")


@given(st.integers(-(10**9), 10**9), st.text("abc \n$", max_size=9))
def test_separators_and_words_around_do_not_matter(number: int, words: str) -> None:
    assert gsm8k("", f"{words}#### {words}{number:,}{words}", str(number)) == 1.0
    assert gsm8k("", f"{words}{number:,}{words}", f"{number}.0") == 1.0
    assert gsm8k("", f"#### {number + 1}", str(number)) == 0.0


def own_reward(function: str, timeout_s: float = 5.0, **evaluation: str) -> RewardConfig:
    usual = build(compose()).reward
    return dataclasses.replace(usual, name=None, function=function, timeout_s=timeout_s, **evaluation)


def own(body: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, timeout_s: float = 5.0) -> Reward:
    name = f"own_{abs(hash(str(tmp_path)))}"
    (tmp_path / f"{name}.py").write_text(body)
    monkeypatch.syspath_prepend(tmp_path)
    return load_reward(own_reward(f"{name}:score", timeout_s), REWARDS)


@pytest.mark.parametrize(
    "body",
    [
        "def score(prompt, response, ground_truth): return (prompt, response, ground_truth) == ('p', 'r', 'g')",
        "def score(a, b, c): return (a, b, c) == ('p', 'r', 'g')",
        "def score(ground_truth, response): return (ground_truth, response) == ('g', 'r')",
        "def score(data_source, solution_str, ground_truth, extra_info=None): "
        "return (data_source, solution_str, ground_truth, extra_info) == ('d', 'r', 'g', {'k': 1})",
        "def score(*parts): return parts == ('p', 'r', 'g')",
        "def score(response, *, scale=1.0): return response == 'r'",
    ],
)
def test_a_function_gets_what_it_asks_for(body: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert own(body, tmp_path, monkeypatch).of(EXAMPLE, "r") == 1.0


def test_a_function_that_wants_something_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"takes \(a, b\): cannot be called with prompt, response, ground_truth"):
        own("def score(a, b): return 0", tmp_path, monkeypatch)


def test_a_function_that_hangs_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = "import threading\ndef score(response): threading.Event().wait()"
    with pytest.raises(DataError, match=r"'score' took longer than 0.05 s for the prompt 'p' and the response 'r'"):
        own(body, tmp_path, monkeypatch, timeout_s=0.05).of(EXAMPLE, "r")


def test_calls_run_in_order_on_one_thread_that_keeps_nobody_alive() -> None:
    limit = TimeLimit(seconds=5.0)
    threads = {limit.call(threading.current_thread) for _ in range(3)}
    assert len(threads) == 1
    assert threads.pop().daemon
    with pytest.raises(ZeroDivisionError):
        limit.call(lambda: 1 / 0)
    assert limit.call(lambda: 7) == 7


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_not_finite_is_refused(value: float) -> None:
    function: Callable[..., float] = lambda prompt, response, ground_truth: value  # noqa: E731
    with pytest.raises(NonFiniteError, match="the reward is"):
        Reward(function=function).of(EXAMPLE, "r")


def test_the_evaluation_has_the_reward_of_training_unless_it_has_its_own() -> None:
    training = Reward(function=gsm8k)
    assert load_eval_reward(own_reward("a:b"), REWARDS, training) is training
    assert load_eval_reward(own_reward("a:b", eval_name="exact_match"), REWARDS, training).function is exact_match
    own_one = load_eval_reward(own_reward("a:b", eval_function="trainer.rewards:exact_match"), REWARDS, training)
    assert own_one.function is exact_match
    assert own_one.limit is not None


def test_a_reward_of_the_evaluation_that_cannot_be_loaded_is_named() -> None:
    with pytest.raises(ConfigError, match=r"reward\.eval_function: cannot load 'no_such_module:score'"):
        load_eval_reward(own_reward("a:b", eval_function="no_such_module:score"), REWARDS, Reward(function=gsm8k))
