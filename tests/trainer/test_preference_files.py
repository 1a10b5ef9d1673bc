"""Answers to learn from, out of JSONL and Parquet files: read, checked, filtered, and trained on."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from trainer.config import Config, ConfigError, build, compose
from trainer.data import CharTokenizer, LabelExample, PairExample, load_prompts, unpaired
from trainer.data.preference_rows import read_labels, read_pairs
from trainer.failures import DataError, classify


class Words(CharTokenizer):
    """A tokenizer of words, as simple as a test needs it."""

    def encode(self, text: str) -> list[int]:
        return [len(word) for word in text.split()]

    def conversation(self, messages: Sequence[dict[str, str]]) -> str:
        return " ".join(f"{message['role']}: {message['content']}" for message in messages)


WORDS = Words(alphabet="")
USER, GOOD, BAD = (
    {"role": role, "content": text} for role, text in (("user", "q"), ("assistant", "g"), ("assistant", "b"))
)
SYSTEM = {"role": "system", "content": "s"}


def lines(path: Path, *records: object) -> Path:
    path.write_text("".join(f"{record if isinstance(record, str) else json.dumps(record)}\n" for record in records))
    return path


def config(data: str, path: Path, **overrides: object) -> Config:
    fixed = {"data": data, "model": "hf", "trainer.train_batch_size": 2, "trainer.mini_batch_size": 2}
    own = {"algorithm": "kto" if "kto" in data else "dpo", "reward": "none", "data.train_file": str(path)}
    return build(compose(overrides={**fixed, **own, "data.eval_size": 1, **overrides}))


@pytest.mark.parametrize(
    ("record", "prompt"),
    [
        ({"prompt": "q", "chosen": "g", "rejected": "b"}, "q"),
        ({"prompt": [SYSTEM, USER], "chosen": "g", "rejected": "b"}, (SYSTEM, USER)),
        ({"prompt": [USER], "chosen": [GOOD], "rejected": [BAD]}, (USER,)),
        ({"prompt": "q", "chosen": [GOOD], "rejected": [BAD]}, (USER,)),
        ({"chosen": [USER, GOOD], "rejected": [USER, BAD]}, (USER,)),
        ({"prompt": "q", "chosen": [SYSTEM, USER, GOOD], "rejected": [SYSTEM, USER, BAD]}, (SYSTEM, USER)),
        ({"prompt": [USER], "chosen": [USER, GOOD], "rejected": [USER, BAD]}, (USER,)),
        (
            {"chosen": [USER, BAD, USER, GOOD], "rejected": [USER, BAD, USER, BAD]},
            (USER, BAD, USER),
        ),
    ],
    ids=["texts", "chat prompt", "messages", "text and messages", "conversations", "with text", "with chat", "turns"],
)
def test_pairs_come_as_texts_messages_or_whole_conversations(tmp_path: Path, record: object, prompt: object) -> None:
    (pair,) = read_pairs(lines(tmp_path / "rows.jsonl", record), "jsonl", "data.train_file")
    assert (pair.row.prompt, pair.chosen, pair.rejected) == (prompt, "g", "b")


@pytest.mark.parametrize(
    ("record", "prompt"),
    [
        ({"prompt": "q", "completion": "g", "label": True}, "q"),
        ({"prompt": [USER], "completion": [GOOD], "label": 1}, (USER,)),
        ({"completion": [SYSTEM, USER, GOOD], "label": True}, (SYSTEM, USER)),
    ],
)
def test_labelled_answers_come_in_the_same_shapes(tmp_path: Path, record: object, prompt: object) -> None:
    (row,) = read_labels(lines(tmp_path / "rows.jsonl", record), "jsonl", "data.train_file")
    assert (row.row.prompt, row.completion, row.label) == (prompt, "g", True)


def test_tables_hold_the_same(tmp_path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    columns = {"prompt": [[USER]], "chosen": [[GOOD]], "rejected": [[BAD]], "ground_truth": ["g"]}
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "pairs.parquet")
    (pair,) = read_pairs(tmp_path / "pairs.parquet", "parquet", "data.train_file")
    assert (pair.row.prompt, pair.chosen, pair.rejected, pair.row.ground_truth) == ((USER,), "g", "b", "g")
    columns = {"prompt": ["q", "q"], "completion": ["g", "b"], "label": [True, False]}
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "labels.parquet")
    rows = read_labels(tmp_path / "labels.parquet", "parquet", "data.train_file")
    assert [(row.completion, row.label) for row in rows] == [("g", True), ("b", False)]


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ({"prompt": "q", "chosen": "g"}, "has no rejected; its keys are prompt, chosen"),
        ({"chosen": "g", "rejected": "b"}, "has no prompt"),
        ({"prompt": "", "chosen": "g", "rejected": "b"}, "the prompt is empty"),
        ({"prompt": "q", "chosen": 3, "rejected": "b"}, "the chosen is 3, must be a text or a list of messages"),
        ({"prompt": "q", "chosen": "g", "rejected": []}, "the rejected is []"),
        ({"prompt": "q", "chosen": "g", "rejected": [BAD]}, "must both be texts or both be lists"),
        ({"prompt": "q", "chosen": [{"role": "assistant"}], "rejected": [BAD]}, "must have role and content"),
        ({"prompt": "q", "chosen": [USER], "rejected": [BAD]}, "the last message of chosen is of 'user'"),
        ({"chosen": [USER, GOOD], "rejected": [SYSTEM, BAD]}, "differ before their last message"),
        ({"prompt": "z", "chosen": [USER, GOOD], "rejected": [USER, BAD]}, "do not begin with the prompt"),
        ({"chosen": [GOOD], "rejected": [BAD]}, "has no prompt"),
        ("[1]", "is a list, must be an object"),
        ("{oops", "is no JSON"),
    ],
)
def test_a_malformed_pair_is_named_by_file_and_line(tmp_path: Path, record: object, words: str) -> None:
    path = lines(tmp_path / "rows.jsonl", {"prompt": "q", "chosen": "g", "rejected": "b"}, record)
    with pytest.raises(DataError) as caught:
        read_pairs(path, "jsonl", "data.train_file")
    assert str(caught.value).startswith(f"{path}:2: ")
    assert words in str(caught.value)
    assert classify(caught.value).kind == "data"


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ({"prompt": "q", "completion": "g"}, "has no label"),
        ({"prompt": "q", "completion": "g", "label": "yes"}, "the label is 'yes', must be true"),
        ({"prompt": "q", "completion": "g", "label": 0.5}, "the label is 0.5"),
        ({"prompt": "q", "completion": "g", "label": 2}, "the label is 2"),
        ({"prompt": "q", "label": True}, "has no completion"),
    ],
)
def test_a_malformed_label_is_named_by_file_and_line(tmp_path: Path, record: object, words: str) -> None:
    path = lines(tmp_path / "rows.jsonl", record)
    with pytest.raises(DataError) as caught:
        read_labels(path, "jsonl", "data.train_file")
    assert str(caught.value).startswith(f"{path}:1: ")
    assert words in str(caught.value)


def pair(number: int, chosen: int, rejected: int) -> dict[str, str]:
    """A prompt of so many words, and answers of so many."""
    return {"prompt": "p " * number, "chosen": "c " * chosen, "rejected": "rr " * rejected}


def test_rows_that_are_too_long_or_say_nothing_are_left_out_and_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [pair(1, 1, 2), pair(2, 3, 1), pair(3, 1, 3), pair(4, 2, 2), pair(9, 1, 1), pair(5, 4, 4), pair(6, 0, 0)]
    path = lines(tmp_path / "rows.jsonl", *rows)
    limits = {"data.max_prompt_length": 8, "data.max_response_length": 4}
    prompts = load_prompts(config("jsonl_preferences", path, **limits), WORDS, announce=True)
    kept = sorted(len(example.prompt.split()) for example in (*prompts.train, *prompts.held_out))
    assert kept == [1, 2, 3, 4]
    said = capsys.readouterr().err
    assert "left out 1 of 7 training prompts: longer than 8 tokens" in said
    assert "left out 1 of 6 training rows: an answer is longer than 4 tokens" in said
    assert "left out 1 of 6 training rows: chosen and rejected are the same" in said


def test_long_answers_are_cut_where_that_is_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # The last pair is the same up to the cut.
    rows = [
        pair(1, 9, 1),
        pair(2, 1, 9),
        pair(3, 1, 2),
        {"prompt": "x", "chosen": "a a a a", "rejected": "a a a b c d"},
    ]
    path = lines(tmp_path / "rows.jsonl", *rows)
    cut = {"data.overlong": "truncate", "data.max_response_length": 3}
    prompts = load_prompts(config("jsonl_preferences", path, **cut), WORDS, announce=True)
    assert len(prompts.train) + len(prompts.held_out) == 3
    said = capsys.readouterr().err
    assert "cut the answers of 3 of 4 training rows: an answer is longer than 3 tokens" in said
    assert "left out 1 of 4 training rows: chosen and rejected are the same" in said


def test_kto_takes_pairs_apart() -> None:
    example = {"index": 7, "prompt": "q", "ground_truth": "t", "extra_info": {"a": 1}}
    pairs = [PairExample(**example, chosen="g", rejected="b")]
    good, bad = unpaired(pairs)
    assert good == LabelExample(**example, completion="g", label=True)
    assert bad == LabelExample(**example, completion="b", label=False)
    assert unpaired([good]) == [good]


def test_a_built_in_reward_needs_answers_and_says_how_to_do_without(tmp_path: Path) -> None:
    path = lines(tmp_path / "rows.jsonl", *(pair(1, 1, 2) for _ in range(4)))
    with pytest.raises(DataError, match="has no ground truth") as caught:
        load_prompts(config("jsonl_preferences", path, reward="exact_match"), WORDS, announce=False)
    assert "reward=none" in caught.value.hint
    assert len(load_prompts(config("jsonl_preferences", path), WORDS, announce=False).train) == 3


def test_when_nothing_is_left_the_limit_is_named(tmp_path: Path) -> None:
    path = lines(tmp_path / "rows.jsonl", *(pair(1, 5, 6) for _ in range(4)))
    with pytest.raises(ConfigError, match=r"data\.max_response_length for the answers"):
        load_prompts(config("jsonl_preferences", path, **{"data.max_response_length": 2}), WORDS, announce=False)


QUESTIONS = [f"What is {number} plus one?" for number in range(20)]


@pytest.mark.parametrize(
    ("data", "more"),
    [
        ("jsonl_preferences", {"reward": "none"}),
        ("jsonl_preferences", {"algorithm": "kto", "model.lora_rank": 2, "reward": "exact_match"}),
        ("jsonl_kto", {"reward": "none", "trainer.use_dynamic_bsz": True, "trainer.ppo_max_token_len_per_gpu": 200}),
    ],
    ids=["dpo", "kto on pairs with lora", "kto by tokens"],
)
def test_a_model_from_a_directory_learns_from_a_file(
    tmp_path: Path,
    run_files: Callable,
    hf_model: Callable[..., Path],
    lines_of: Callable,
    data: str,
    more: dict[str, object],
) -> None:
    rows: list[dict[str, object]] = []
    for number, question in enumerate(QUESTIONS):
        chat = [{"role": "user", "content": question}]
        answers = [{"role": "assistant", "content": text} for text in (str(number + 1), "no idea")]
        if data == "jsonl_kto":
            rows.append({"prompt": chat, "completion": answers[number % 2]["content"], "label": number % 2 == 0})
        else:
            rows.append({"chosen": [*chat, answers[0]], "rejected": [*chat, answers[1]], "ground_truth": number + 1})
    path = lines(tmp_path / "rows.jsonl", *rows)
    algorithm = "kto" if data == "jsonl_kto" else "dpo"
    settings = {
        "algorithm": algorithm,
        "data": data,
        "data.train_file": str(path),
        "data.max_response_length": 12,
        "data.eval_size": 3,
        "trainer.optim.lr": 1e-2,
        **more,
    }
    ended = run_files(tmp_path / "run", hf_model(), settings)
    assert ended.code == 0, ended.stderr
    steps = [line["metrics"] for line in lines_of(tmp_path / "run") if "metrics" in line]
    assert len(steps) == 3
    assert all(("eval/reward" in metrics) == (settings["reward"] != "none") for metrics in steps)
    assert steps[2]["eval/preference_margin"] > steps[0]["eval/preference_margin"] == 0.0
    assert abs(steps[0]["kl/actor_ref"]) < 1e-6
    assert steps[2]["reward/margin"] != 0.0


def test_a_broken_row_ends_the_run_before_the_first_step(
    tmp_path: Path, run_files: Callable, hf_model: Callable[..., Path]
) -> None:
    path = lines(
        tmp_path / "rows.jsonl", {"prompt": "a", "chosen": "b", "rejected": "c"}, {"prompt": "a", "chosen": "b"}
    )
    settings = {"algorithm": "dpo", "data": "jsonl_preferences", "data.train_file": str(path), "reward": "none"}
    ended = run_files(tmp_path / "run", hf_model(), settings)
    assert (ended.code, ended.result["last_step"], ended.result["error"]["kind"]) == (1, 0, "data")
    assert f"{path}:2: has no rejected; its keys are prompt, chosen" in ended.stderr
    assert "Traceback" not in ended.stderr
