"""Prompts from JSONL and Parquet files: read, checked, filtered, and trained on."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from trainer.config import Config, ConfigError, build, compose
from trainer.data import CharTokenizer, load_prompts, read_rows
from trainer.failures import DataError, classify

GSM8K = Path(__file__).resolve().parents[1] / "fixtures" / "gsm8k"


class Words(CharTokenizer):
    """A tokenizer of words, as simple as a test needs it."""

    def encode(self, text: str) -> list[int]:
        return [len(word) for word in text.split()]

    def conversation(self, messages: Sequence[dict[str, str]]) -> str:
        return " ".join(f"{message['role']}: {message['content']}" for message in messages)

    def opening(self, text: str) -> str:
        return f"<s> {text}"


WORDS = Words(alphabet="")


def config(**overrides: object) -> Config:
    data = {"data": "jsonl", "model": "hf", "trainer.train_batch_size": 1, "trainer.mini_batch_size": 1}
    return build(compose(overrides={**data, "data.eval_size": 1, **overrides}))


def lines(path: Path, *records: object) -> Path:
    path.write_text("".join(f"{record if isinstance(record, str) else json.dumps(record)}\n" for record in records))
    return path


def test_verls_schema_is_read_from_parquet() -> None:
    rows = read_rows(GSM8K / "train.parquet", "parquet", "data.train_file")
    assert len(rows) == 32
    first = rows[0]
    assert (first.index, first.ground_truth, first.data_source) == (0, "72", "openai/gsm8k")
    assert [message["role"] for message in first.prompt] == ["user"]
    assert first.extra_info["split"] == "train"


def test_plain_prompts_messages_and_both_places_of_the_answer_are_read_from_jsonl(tmp_path: Path) -> None:
    path = lines(
        tmp_path / "rows.jsonl",
        {"prompt": "2+2", "ground_truth": 4},
        "",
        {"prompt": [{"role": "user", "content": "hé"}], "reward_model": {"ground_truth": "x"}, "extra_info": None},
    )
    plain, chat = read_rows(path, "jsonl", "data.train_file")
    assert (plain.prompt, plain.ground_truth) == ("2+2", "4")
    assert (chat.prompt, chat.ground_truth) == (({"role": "user", "content": "hé"},), "x")
    assert chat.place == f"{path}:3"


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ("{oops", "is no JSON"),
        ([1], "is a list"),
        ({"question": "x"}, "has no prompt; its keys are question"),
        ({"prompt": ""}, "the prompt is empty"),
        ({"prompt": 3}, "must be a text or a list of messages"),
        ({"prompt": []}, "must be a text or a list of messages"),
        ({"prompt": [{"role": "user"}]}, "must have role and content"),
        ({"prompt": "x", "reward_model": 3}, "reward_model is a int"),
        ({"prompt": "x", "reward_model": {"ground_truth": [1]}}, "the ground truth is [1]"),
        ({"prompt": "x", "extra_info": "y"}, "extra_info is a str"),
    ],
)
def test_a_malformed_row_is_named_by_file_and_line(tmp_path: Path, record: object, words: str) -> None:
    path = lines(tmp_path / "rows.jsonl", {"prompt": "fine"}, record)
    with pytest.raises(DataError) as caught:
        read_rows(path, "jsonl", "data.train_file")
    assert str(caught.value).startswith(f"{path}:2: ")
    assert words in str(caught.value)
    assert classify(caught.value).kind == "data"


def test_a_file_of_the_wrong_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bytes").write_bytes(b"PAR1\xff\xfe")
    with pytest.raises(DataError, match="is not UTF-8 text"):
        read_rows(tmp_path / "bytes", "jsonl", "data.train_file")
    with pytest.raises(DataError, match="cannot be read as Parquet"):
        read_rows(tmp_path / "bytes", "parquet", "data.train_file")
    with pytest.raises(DataError, match="holds no rows"):
        read_rows(lines(tmp_path / "empty.jsonl"), "jsonl", "data.train_file")


def test_a_missing_file_is_a_config_error_that_says_absolute_paths_are_wanted() -> None:
    with pytest.raises(ConfigError, match="write an absolute path"):
        read_rows(Path("nowhere.jsonl"), "jsonl", "data.train_file")


def test_prompts_that_are_too_long_are_left_out_and_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = lines(tmp_path / "rows.jsonl", *({"prompt": "word " * n, "ground_truth": n} for n in range(1, 9)))
    settings = config(**{"data.train_file": str(path), "data.max_prompt_length": 6})
    prompts = load_prompts(settings, WORDS, announce=True)
    kept = sorted(int(example.ground_truth) for example in (*prompts.train, *prompts.held_out))
    assert kept == [1, 2, 3, 4, 5]  # one word more opens each prompt
    assert "left out 3 of 8 training prompts: longer than 6 tokens" in capsys.readouterr().err


def test_without_a_file_of_their_own_held_out_rows_are_drawn_by_seed(tmp_path: Path) -> None:
    path = str(lines(tmp_path / "rows.jsonl", *({"prompt": f"p{n}", "ground_truth": n} for n in range(20))))

    def held_out(seed: int) -> set[int]:
        settings = config(**{"data.train_file": path, "data.eval_size": 5, "data.seed": seed})
        prompts = load_prompts(settings, WORDS, announce=False)
        train, held = ({example.index for example in part} for part in (prompts.train, prompts.held_out))
        assert not train & held
        assert (len(train), len(held)) == (15, 5)
        return held

    assert held_out(0) == held_out(0) != held_out(1)


def test_sizes_take_the_first_rows_and_an_eval_file_is_read(tmp_path: Path) -> None:
    train = lines(tmp_path / "train.jsonl", *({"prompt": f"p{n}", "ground_truth": n} for n in range(6)))
    other = lines(tmp_path / "eval.jsonl", *({"prompt": f"q{n}", "ground_truth": n} for n in range(6)))
    files = {"data.train_file": str(train), "data.eval_file": str(other)}
    prompts = load_prompts(config(**files, **{"data.train_size": 4, "data.eval_size": 2}), WORDS, announce=False)
    assert [example.prompt for example in prompts.train] == ["<s> p0", "<s> p1", "<s> p2", "<s> p3"]
    assert [example.prompt for example in prompts.held_out] == ["<s> q0", "<s> q1"]


def test_a_built_in_reward_needs_answers_and_ones_own_does_not(tmp_path: Path) -> None:
    path = str(lines(tmp_path / "rows.jsonl", {"prompt": "a", "ground_truth": 1}, {"prompt": "b"}, {"prompt": "c"}))
    with pytest.raises(DataError, match=r"rows\.jsonl:2: has no ground truth"):
        load_prompts(config(**{"data.train_file": path}), WORDS, announce=False)
    own = {"reward.name": None, "reward.function": "a:b", "data.train_file": path}
    assert len(load_prompts(config(**own), WORDS, announce=False).train) == 2


def test_too_few_rows_for_a_batch_are_refused(tmp_path: Path) -> None:
    path = str(lines(tmp_path / "rows.jsonl", *({"prompt": "a", "ground_truth": 1} for _ in range(4))))
    sizes = {"trainer.train_batch_size": 4, "trainer.mini_batch_size": 4}
    with pytest.raises(ConfigError, match="got 4, but only 3 training prompts are left"):
        load_prompts(config(**{"data.train_file": path}, **sizes), WORDS, announce=False)
    with pytest.raises(ConfigError, match="no held-out prompt is that short"):
        load_prompts(config(**{"data.train_file": path, "data.max_prompt_length": 1}), WORDS, announce=False)


def test_word_problems_train_a_model_from_a_directory(
    tmp_path: Path, run_files: Callable, hf_model: Callable[..., Path], lines_of: Callable
) -> None:
    overrides = {
        "data": "parquet",
        "reward": "gsm8k",
        "data.train_file": str(GSM8K / "train.parquet"),
        "data.eval_file": str(GSM8K / "test.parquet"),
        "data.eval_size": 4,
        "data.max_prompt_length": 400,
        "data.max_response_length": 6,
    }
    ended = run_files(tmp_path, hf_model(), overrides)
    assert ended.code == 0, ended.stderr
    assert "training prompts: longer than 400 tokens" in ended.stderr
    steps = [line["metrics"] for line in lines_of(tmp_path) if "metrics" in line]
    assert len(steps) == 3
    assert all(0.0 <= metrics["reward/mean"] <= 1.0 for metrics in steps[1:])
    assert "eval/accuracy" in steps[0]


def test_a_broken_row_ends_the_run_before_the_first_step(
    tmp_path: Path, run_files: Callable, hf_model: Callable[..., Path]
) -> None:
    path = lines(tmp_path / "rows.jsonl", {"prompt": "a", "ground_truth": 1}, {"prompt": 7})
    ended = run_files(tmp_path / "run", hf_model(), {"data": "jsonl", "data.train_file": str(path)})
    assert (ended.code, ended.result["last_step"], ended.result["error"]["kind"]) == (1, 0, "data")
    assert f"{path}:2: the prompt is 7" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_messages_without_a_chat_template_are_refused(
    tmp_path: Path, run_files: Callable, hf_model: Callable[..., Path]
) -> None:
    path = lines(tmp_path / "rows.jsonl", {"prompt": [{"role": "user", "content": "x"}], "ground_truth": 1})
    ended = run_files(tmp_path / "run", hf_model(chat=False), {"data": "jsonl", "data.train_file": str(path)})
    assert ended.result["error"]["kind"] == "data"
    assert "rows.jsonl:1: the prompt is a list of chat messages" in ended.stderr
