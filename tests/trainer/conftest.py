"""Small, fast runs for the trainer's tests."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

QUICK: dict[str, object] = {
    "model.hidden_size": 16,
    "model.intermediate_size": 32,
    "model.num_layers": 1,
    "model.num_heads": 2,
    "model.warm_start.steps": 10,
    "model.warm_start.batch_size": 16,
    "data.width": 3,
    "data.max_prompt_length": 4,
    "data.max_response_length": 5,
    "data.train_size": 64,
    "data.eval_size": 8,
    "trainer.total_steps": 4,
    "trainer.train_batch_size": 8,
    "trainer.mini_batch_size": 4,
    "trainer.optim.lr": 1e-3,
    "trainer.optim.warmup_steps": 1,
    "trainer.save_freq": 0,
    "system.num_threads": 1,
    "system.logging.progress_freq": 0,
}


@pytest.fixture(scope="session")
def autotune_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache of warm-started weights for all tests."""
    return tmp_path_factory.mktemp("autotune-home")


@pytest.fixture(autouse=True)
def _home(autotune_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOTUNE_HOME", str(autotune_home))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.fixture
def quick() -> Callable[..., dict[str, object]]:
    """A complete nested configuration of a run that takes about a second; keyword `overrides` change it."""
    from trainer.config import compose

    def make(overrides: Mapping[str, object] | None = None) -> dict[str, object]:
        return dict(compose(overrides={**QUICK, **(overrides or {})}))

    return make


@pytest.fixture
def lines_of() -> Callable[[Path], list[dict[str, object]]]:
    """The lines of a run's metrics.jsonl."""

    def read(directory: Path) -> list[dict[str, object]]:
        return [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]

    return read


CHAT_TEMPLATE = (
    "{% for message in messages %}<|start|>{{ message['role'] }}\n{{ message['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
)


@pytest.fixture(scope="session")
def hf_model(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Write a small random Llama in Hugging Face format with a tokenizer of bytes; keywords change its shape."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    def make(*, seed: int = 0, chat: bool = True, vocab_size: int = 272, **shape: object) -> Path:
        directory = tmp_path_factory.mktemp("hf-model")
        alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
        inner = Tokenizer(models.BPE(vocab={char: index for index, char in enumerate(alphabet)}, merges=[]))
        inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        inner.decoder = decoders.ByteLevel()
        tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<|end|>", pad_token="<|pad|>")
        tokenizer.add_special_tokens({"additional_special_tokens": ["<|start|>"]})
        if chat:
            tokenizer.chat_template = CHAT_TEMPLATE
        tokenizer.save_pretrained(directory)
        sizes: dict[str, object] = {
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "max_position_embeddings": 512,
            "tie_word_embeddings": True,
        }
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            config = LlamaConfig(vocab_size=vocab_size, **{**sizes, **shape})
            LlamaForCausalLM(config).save_pretrained(directory)
        return directory

    return make


@pytest.fixture(scope="session")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Write a small random BERT classifier in Hugging Face format whose tokens are characters."""
    import torch
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertForSequenceClassification, BertModel, PreTrainedTokenizerFast

    def make(*, labels: int = 1, head: bool = True, own_code: bool = False, places: int = 64) -> Path:
        directory = tmp_path_factory.mktemp("classifier")
        words = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", *map(chr, range(32, 127))]
        inner = Tokenizer(models.WordLevel({word: index for index, word in enumerate(words)}, unk_token="[UNK]"))
        inner.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), behavior="isolated")
        inner.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]",
            pair="[CLS] $A [SEP] $B:1 [SEP]:1",
            special_tokens=[("[CLS]", 1), ("[SEP]", 2)],
        )
        special = {"pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]", "unk_token": "[UNK]"}
        names = ["input_ids", "token_type_ids", "attention_mask"]
        tokenizer = PreTrainedTokenizerFast(
            tokenizer_object=inner, model_input_names=names, model_max_length=places, **special
        )
        tokenizer.save_pretrained(directory)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(labels)
            config = BertConfig(
                vocab_size=len(words),
                hidden_size=16,
                num_hidden_layers=1,
                num_attention_heads=2,
                intermediate_size=32,
                max_position_embeddings=places,
                num_labels=labels,
                initializer_range=0.5,
            )
            (BertForSequenceClassification if head else BertModel)(config).save_pretrained(directory)
        if own_code:
            (directory / "own.py").write_text(
                "from transformers import BertConfig, BertForSequenceClassification\n"
                "class OwnConfig(BertConfig):\n    model_type = 'own'\n"
                "class OwnModel(BertForSequenceClassification):\n    config_class = OwnConfig\n"
            )
            code = {"AutoConfig": "own.OwnConfig", "AutoModelForSequenceClassification": "own.OwnModel"}
            content = json.loads((directory / "config.json").read_text())
            content |= {"model_type": "own", "architectures": ["OwnModel"], "auto_map": code}
            (directory / "config.json").write_text(json.dumps(content))
        return directory

    return make


@dataclass(frozen=True)
class Ended:
    """How a run in this process ended."""

    code: int
    result: dict[str, Any]
    stderr: str


@pytest.fixture
def run_here(one_thread: None, capsys: pytest.CaptureFixture[str]) -> Callable[[Path, Mapping[str, object]], Ended]:
    """Run the trainer's own command line in this process: the quick configuration with overrides."""
    from trainer.cli import main

    def run(directory: Path, overrides: Mapping[str, object]) -> Ended:
        settings = [f"{key}={json.dumps(value)}" for key, value in {**QUICK, **overrides}.items()]
        capsys.readouterr()
        code = main(["--run-dir", str(directory), *settings])
        result = json.loads((directory / "result.json").read_text())
        return Ended(code=code, result=result, stderr=capsys.readouterr().err)

    return run


FROM_FILES: dict[str, object] = {
    "model": "hf",
    "model.dtype": "float32",
    "model.enable_gradient_checkpointing": False,
    "data.max_prompt_length": 64,
    "data.max_response_length": 5,
    "data.eval_size": 2,
    **{key: value for key, value in QUICK.items() if not key.startswith(("model.", "data."))},
    "trainer.total_steps": 2,
}


@pytest.fixture
def run_files(one_thread: None, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    """Run the trainer's own command line in this process, on a model from a directory and prompts from files."""
    from trainer.cli import main

    def run(directory: Path, model: object, overrides: Mapping[str, object]) -> Ended:
        values = {**FROM_FILES, "model.path": str(model), **overrides}
        groups = {"model", "data", "reward", "rollout"}
        settings = [f"{key}={value if key in groups else json.dumps(value)}" for key, value in values.items()]
        capsys.readouterr()
        code = main(["--run-dir", str(directory), *settings])
        result = json.loads((directory / "result.json").read_text())
        return Ended(code=code, result=result, stderr=capsys.readouterr().err)

    return run


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Leave torch's thread count and determinism as they were."""
    import torch

    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(False)
