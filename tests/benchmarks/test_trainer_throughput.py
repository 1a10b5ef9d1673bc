"""The benchmark's own arithmetic, its protocol between processes, and the document it prints. Needs no TRL."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from benchmarks.harness import finish
from benchmarks.throughput_gate import vowels
from benchmarks.throughput_setup import prompts
from benchmarks.trainer_throughput import (
    QUICK,
    SHAPES,
    Measured,
    Side,
    chosen_options,
    main,
    summary,
    take_steps,
    targets_of,
)

TRAINER = """
import sys
sys.path.insert(0, {here!r})
from benchmarks.throughput_gate import Gate
gate = Gate()
print("what a library prints is no word of the protocol")
for step in range({steps}):
    gate.step_begins(0 if step == 0 else 100 * step, last=False)
    sum(range({work}))
gate.step_begins(100 * {steps}, last=True)
gate.end({{"fake": "1.0"}})
"""


class Told:
    """A side whose words are written down beforehand."""

    def __init__(self, words: list[dict[str, object]]) -> None:
        self._words: Iterator[dict[str, object]] = iter(words)
        self.steps = 0

    def go(self) -> None:
        self.steps += 1

    def heard(self) -> dict[str, object]:
        return next(self._words)


def told(seconds: list[float], memory: float) -> Told:
    steps = [{"tokens": 600, "seconds": each, "cpu_seconds": each / 2} for each in seconds]
    return Told([*steps, {"peak_memory_gib": memory, "versions": {"fake": "1.0"}}])


def empty() -> Measured:
    return Measured(tokens_per_s=[], tokens_per_cpu_s=[], tokens=[], memory_gib=[], versions={})


@pytest.fixture
def compared() -> dict[str, Measured]:
    sides = {"autotune": empty(), "TRL": empty()}
    take_steps({"autotune": told([99.0, 2.0, 3.0, 1.0], 3.0), "TRL": told([1.0, 4.0, 3.0, 3.0], 4.0)}, sides, steps=3)
    return sides


def test_the_first_step_is_thrown_away_and_steps_are_compared_in_pairs(compared: Mapping[str, Measured]) -> None:
    result = summary(compared)
    assert result["tokens_per_s"]["autotune"] == {"median": 300.0, "min": 200.0, "max": 600.0}
    assert result["tokens_per_cpu_s"]["TRL"] == {"median": 400.0, "min": 300.0, "max": 400.0}
    assert result["speed_ratio"] == {"median": 2.0, "min": 1.0, "max": 3.0}
    assert result["memory_ratio"]["median"] == 0.75


def test_sides_that_trained_on_different_batches_are_not_compared(compared: dict[str, Measured]) -> None:
    compared["TRL"].tokens[1] = 599
    with pytest.raises(RuntimeError, match="different batches"):
        summary(compared)


def test_speed_must_be_above_its_target_and_memory_below(compared: Mapping[str, Measured]) -> None:
    held = {target.name: target.holds for target in targets_of({"tiny": summary(compared)})}
    assert held == {
        "tiny: tokens per second over TRL's": True,
        "tiny: tokens per processor second": True,
        "tiny: peak memory": True,
    }
    reversed_sides = {"autotune": compared["TRL"], "TRL": compared["autotune"]}
    assert not any(target.holds for target in targets_of({"tiny": summary(reversed_sides)}))


def test_the_document_says_what_was_measured_and_the_exit_code_whether_it_holds(
    compared: Mapping[str, Measured], capsys: pytest.CaptureFixture[str]
) -> None:
    result = summary(compared)
    targets = list(targets_of({"tiny": result}))
    assert (
        finish("trainer_throughput", chosen_options(["--json", "--check"]), {"tiny": result}, targets, ["torch"]) == 0
    )
    document = json.loads(capsys.readouterr().out)
    assert document["results"]["tiny"]["speed_ratio"]["median"] == 2.0
    assert document["targets"][0] == {
        "name": "tiny: tokens per second over TRL's",
        "value": 2.0,
        "target": 1.3,
        "holds": True,
    }
    assert set(document) == {"name", "machine", "versions", "results", "targets"}


def test_two_processes_take_their_steps_in_turn_and_report_time_tokens_and_memory(tmp_path: Path) -> None:
    here = str(Path(__file__).resolve().parents[2])
    sides, running = {}, {}
    for name, work in (("autotune", 1_000), ("TRL", 3_000_000)):
        script = tmp_path / f"{name}.py"
        script.write_text(TRAINER.format(here=here, steps=3, work=work))
        sides[name] = empty()
        running[name] = Side([sys.executable, str(script)], dict(os.environ), tmp_path / f"{name}.log")
        assert running[name].heard() == {"ready": True}
    try:
        take_steps(running, sides, steps=2)
    finally:
        for side in running.values():
            side.close()
    result = summary(sides)
    assert sides["TRL"].tokens == [200, 300]
    assert result["cpu_speed_ratio"]["min"] > 5
    assert 0.001 < result["peak_memory_gib"]["TRL"]["median"] < 1
    assert sides["TRL"].versions == {"fake": "1.0"}
    assert "no word of the protocol" in (tmp_path / "TRL.log").read_text()


def test_a_trainer_that_fails_is_quoted(tmp_path: Path) -> None:
    side = Side([sys.executable, "-c", "raise SystemExit('out of luck')"], dict(os.environ), tmp_path / "log")
    with pytest.raises(RuntimeError, match="out of luck"):
        side.heard()
    side.close()


def test_without_the_peers_interpreter_it_says_how_to_get_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["trainer_throughput.py", "--peer-python", str(tmp_path / "python")])
    assert main() == 2
    assert "--make-peer" in capsys.readouterr().err


def test_prompts_are_always_the_same_and_of_two_lengths() -> None:
    texts = prompts(6, 3)
    assert texts == prompts(6, 3)
    assert [text.count(".") for text in texts] == [3, 3, 2, 3, 3, 2]
    assert vowels("aeioux") == 5 / 6
    assert vowels("") == 0.0


def test_every_shape_fills_its_micro_batches() -> None:
    for shape in (*SHAPES.values(), *QUICK.values()):
        assert shape.prompts_per_step * shape.group_size % shape.micro_batch_size == 0
