"""The bank's format, its labels, and that a recorded run is what `python -m trainer` does."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Sequence
from pathlib import Path

import pytest
from curve_bank import record as recording
from curve_bank.bank import DATA, OBJECTIVE, Run, domains, load
from curve_bank.design import SEEDS, SPACE, TASKS, Axis, Planned, plan
from curve_bank.fidelity import fidelity
from curve_bank.pack import pack

from autotune.search.types import EndKind
from autotune.spec.domains import contains


def run(gold: Sequence[float], paid: Sequence[float] = (), **changes: object) -> Run:
    points = [(0, {OBJECTIVE: gold[0]})]
    for step, value in enumerate(gold[1:], 1):
        points.append((step, {OBJECTIVE: value, "reward/mean": paid[step - 1] if paid else value}))
    fields: dict[str, object] = {
        "name": "a",
        "task": "exploitable",
        "number": 0,
        "seed": 0,
        "params": {path: axis.at(0.5) for path, axis in SPACE.items()},
        "status": "finished",
        "error_kind": "",
        "error_message": "",
        "points": points,
        "seconds": [0.1] * (len(points) - 1),
    }
    return Run(**{**fields, **changes})


RISING = [0.5 + 0.01 * step for step in range(41)]
PEAKED = [*(0.5 + 0.02 * step for step in range(16)), *(0.8 - 0.02 * step for step in range(1, 26))]
FALLING = list(reversed(RISING))


@pytest.mark.parametrize("gold", [PEAKED, FALLING])
def test_a_run_over_optimized_when_its_evaluation_fell_for_good_while_its_reward_rose(gold: Sequence[float]) -> None:
    assert run(gold, RISING[1:]).over_optimized


@pytest.mark.parametrize(
    ("gold", "paid"),
    [
        (RISING, RISING[1:]),  # nothing fell
        (PEAKED, FALLING[1:]),  # the reward fell too: a collapse
        (FALLING, FALLING[1:]),
        ([*PEAKED[:20], *[0.75] * 21], RISING[1:]),  # it fell by less than the margin
        ([*PEAKED[:30], *RISING[30:]], RISING[1:]),  # it came back
        (PEAKED[:5], RISING[1:5]),  # too short to say
    ],
)
def test_other_runs_did_not(gold: Sequence[float], paid: Sequence[float]) -> None:
    assert not run(gold, paid).over_optimized


def test_only_a_run_of_full_length_has_a_final_objective() -> None:
    assert run(RISING).final == pytest.approx(sum(RISING[-5:]) / 5)
    assert run(RISING[:20], status="failed", error_kind="non_finite").final is None


def test_a_failed_run_is_replayed_with_its_failure() -> None:
    broken = run(RISING[:6], status="failed", error_kind="non_finite", error_message="the loss").recorded()
    assert (broken.end, broken.message, len(broken.steps)) == (EndKind.NON_FINITE, "the loss", 5)
    assert run(RISING).recorded().end is EndKind.FINISHED


def test_the_plan_lies_in_the_space_and_never_changes() -> None:
    runs = list(plan())
    assert len({planned.name for planned in runs}) == len(runs)
    assert runs == list(plan())
    space = domains()
    assert all(contains(space[path], value) for planned in runs for path, value in planned.params.items())
    numbers = {(planned.task, planned.number) for planned in runs}
    assert len(numbers) >= 300
    assert len(SPACE) >= 8
    repeated = {key for key in numbers if sum((one.task, one.number) == key for one in runs) == len(SEEDS)}
    assert len(repeated) >= 30
    assert {planned.task for planned in runs[: len(TASKS)]} == set(TASKS)


def test_axes_reach_both_ends() -> None:
    assert [Axis(low=1e-4, high=1e-2, log=True).at(place) for place in (0.0, 0.5, 1.0)] == [1e-4, 1e-3, 1e-2]
    assert [Axis(low=1, high=3, whole=True).at(place) for place in (0.0, 0.5, 0.99, 1.0)] == [1, 2, 3, 3]
    assert [Axis(choices=("a", "b")).at(place) for place in (0.0, 0.49, 0.5, 1.0)] == ["a", "a", "b", "b"]


def write_raw(directory: Path, planned: Planned, values: Sequence[float | None], error: object = None) -> None:
    directory.mkdir(parents=True)
    lines = [{"step": step, "time": 0.0, "metrics": {OBJECTIVE: value}} for step, value in enumerate(values)]
    lines.insert(2, {"step": 1, "time": 0.0, "checkpoint": "checkpoints/step_1"})
    (directory / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (directory / "cost.json").write_text(json.dumps({"step_cpu_s": [0.25] * (len(values) - 2)}))
    status = "failed" if error else "finished"
    result = {"status": status, "last_step": len(values) - 1, "peak_memory_gb": 0.1, "error": error}
    (directory / "result.json").write_text(json.dumps(result))


def test_what_is_packed_is_read_back_with_gaps_and_values_that_were_not_finite(tmp_path: Path) -> None:
    first, second = list(plan())[:2]
    write_raw(tmp_path / "raw" / first.name, first, [0.5, 0.625, 0.75])
    error = {"kind": "non_finite", "message": "the loss is not finite", "hint": ""}
    write_raw(tmp_path / "raw" / second.name, second, [0.5, None], error)
    (tmp_path / "raw" / "unfinished").mkdir()
    assert pack(tmp_path / "raw", tmp_path / "bank") == 2
    good, bad = load(directory=tmp_path / "bank")
    assert (good.name, good.params, good.status) == (first.name, dict(first.params), "finished")
    assert good.points == [(0, {OBJECTIVE: 0.5}), (1, {OBJECTIVE: 0.625}), (2, {OBJECTIVE: 0.75})]
    assert good.seconds == [0.25, 0.25]
    assert bad.seconds == [0.0]
    assert (bad.status, bad.error_kind, bad.error_message) == ("failed", "non_finite", "the loss is not finite")
    assert bad.points[1] == (1, {OBJECTIVE: None})
    assert load(second.task, tmp_path / "bank") == (bad,)


def test_the_weights_tell_what_matters_from_what_does_not() -> None:
    runs = []
    for number, planned in enumerate(one for one in plan() if one.task == "digits" and one.seed == 0):
        height = math.log10(float(planned.params["trainer.optim.lr"])) / 10 + 1
        runs.append(run([height] * 41, params=planned.params, number=number))
    found = fidelity(runs)
    assert found.weights["trainer.optim.lr"] == max(found.weights.values())
    assert found.foretold > 0.95


def test_the_committed_bank_is_whole() -> None:
    runs = load()
    planned = {one.name: one for one in plan()}
    assert {one.task for one in runs} == set(TASKS)
    assert all(dict(one.params) == dict(planned[one.name].params) for one in runs)
    for one in runs:
        steps = [step for step, _ in one.points]
        assert steps == list(range(len(steps)))
        assert one.status == "failed" or len(steps) == TASKS[one.task].steps + 1
    assert any(one.over_optimized for one in runs if one.task == "exploitable")
    assert sum(one.over_optimized for one in runs if one.task != "exploitable") < len(runs) / 50
    assert sum(path.stat().st_size for path in DATA.iterdir()) < 30e6


def test_a_recorded_run_is_what_the_trainer_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from trainer.cli import main

    threads = torch.get_num_threads()
    monkeypatch.setenv("AUTOTUNE_HOME", str(tmp_path / "home"))
    small = {
        "model.hidden_size": 16,
        "model.intermediate_size": 32,
        "model.num_layers": 1,
        "model.num_heads": 2,
        "model.warm_start.steps": 5,
        "data.train_size": 128,
        "data.eval_size": 8,
    }
    monkeypatch.setattr(recording, "QUIET", {**recording.QUIET, **small})
    short = {name: dataclasses.replace(task, steps=2) for name, task in TASKS.items()}
    monkeypatch.setattr("curve_bank.design.TASKS", short)
    planned = next(one for one in plan() if one.task == "exploitable")
    try:
        result = recording.record(planned, tmp_path / "recorded")
        overrides = {**recording.QUIET, **planned.overrides()}
        assert main(["--run-dir", str(tmp_path / "cli"), *(f"{key}={value}" for key, value in overrides.items())]) == 0
    finally:
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(False)

    def curves(directory: Path) -> list[dict[str, float]]:
        lines = [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
        metrics = [line["metrics"] for line in lines if "metrics" in line]
        return [{name: value for name, value in one.items() if not name.startswith("perf/")} for one in metrics]

    assert result.status == "finished"
    assert curves(tmp_path / "recorded") == curves(tmp_path / "cli")
    assert len(json.loads((tmp_path / "recorded" / "cost.json").read_text())["step_cpu_s"]) == 1
    assert not (tmp_path / "recorded" / "checkpoints").exists()
