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


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Leave torch's thread count and determinism as they were."""
    import torch

    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(False)
