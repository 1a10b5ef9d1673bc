"""The cache of warm-started weights, and the lean import."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import torch

from trainer.config import ModelConfig, WarmStartConfig
from trainer.data import TASKS, tokenizer_of
from trainer.models.cache import cache_dir, cached_weights
from trainer.models.lean import llama
from trainer.models.tiny import llama_config, new_llama
from trainer.models.warm_start import warm_start


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOTUNE_HOME", str(tmp_path / "home"))


def test_two_that_start_at_once_build_once() -> None:
    builds: list[int] = []
    inside = threading.Barrier(2)
    results: list[dict[str, torch.Tensor]] = []

    def make() -> dict[str, torch.Tensor]:
        builds.append(1)
        return {"w": torch.arange(3.0)}

    def start() -> None:
        inside.wait()
        results.append(cached_weights({"a": 1}, make))

    threads = [threading.Thread(target=start) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(builds) == 1
    assert all(result["w"].tolist() == [0.0, 1.0, 2.0] for result in results)
    assert not list(cache_dir().rglob("*.tmp"))


def test_other_ingredients_are_another_entry() -> None:
    first = cached_weights({"a": 1}, lambda: {"w": torch.zeros(1)})
    second = cached_weights({"a": 2}, lambda: {"w": torch.ones(1)})
    assert (float(first["w"]), float(second["w"])) == (0.0, 1.0)
    assert float(cached_weights({"a": 1}, lambda: {"w": torch.ones(1)})["w"]) == 0.0


def test_a_build_that_fails_leaves_nothing() -> None:
    def broken() -> dict[str, torch.Tensor]:
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        cached_weights({"a": 1}, broken)
    assert not list(cache_dir().rglob("*.safetensors"))


def warm(threads: int) -> torch.Tensor:
    settings = WarmStartConfig(steps=5, batch_size=8, lr=1e-2, slip_fraction=0.5, seed=0)
    shape = ModelConfig(
        path="tiny",
        critic_path=None,
        trust_remote_code=False,
        hidden_size=16,
        intermediate_size=32,
        num_layers=1,
        num_heads=2,
        dtype="float32",
        enable_gradient_checkpointing=False,
        lora_rank=0,
        lora_alpha=16,
        warm_start=settings,
    )
    task = TASKS["digits"](width=3)
    tokenizer = tokenizer_of(task)
    model = new_llama(llama_config(shape, tokenizer.vocab_size, 9), seed=0)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    warm_start(model, [task.example(index) for index in range(50)], tokenizer, settings)
    assert torch.get_num_threads() == threads
    torch.set_num_threads(before)
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def test_the_warm_start_is_deterministic_whatever_the_threads_and_the_global_seed() -> None:
    torch.manual_seed(1)
    first = warm(threads=1)
    torch.manual_seed(2)
    assert torch.equal(first, warm(threads=2))


def test_the_lean_import_leaves_transformers_as_it_was() -> None:
    import transformers.utils

    llama()
    assert transformers.utils.is_sklearn_available.__module__ == "transformers.utils.import_utils"
