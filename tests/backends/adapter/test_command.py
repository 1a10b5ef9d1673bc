"""A program that knows nothing of the process contract keeps it through the adapter."""

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from autotune.search.types import EndKind
from autotune.spec.types import MetricsSpec, TrainerSpec

LOSSES = {step: {"eval/loss": 1 / (step + 1)} for step in range(1, 5)}
PATTERNS = (r"epoch +(?P<epoch>\d+) \| loss: (?P<loss>\S+)", r"accuracy = (?P<acc>.*)$")


def wait_for(path: Path) -> None:
    pause = threading.Event()
    for _ in range(1500):
        if path.exists():
            return
        pause.wait(0.02)
    raise AssertionError(f"{path} did not appear")


def script(code, steps=3, metrics=None, **fields):
    return TrainerSpec(
        backend="command",
        config="",
        command=(sys.executable, "-c", code),
        metrics=metrics or MetricsSpec(read="jsonl", names={"eval/loss": "loss"}),
        steps=steps,
        **{"parameters": {"lr": 0.1}, "workdir": "/", **fields},
    )


def test_json_lines_in_a_file_become_steps(attempts, program):
    steps, outcome, complaints = attempts.run(program("jsonl"))
    assert steps == LOSSES
    assert (outcome.kind, outcome.last_step, complaints) == (EndKind.FINISHED, 4, [])
    result = json.loads((attempts.directory / "result.json").read_text())
    assert result["status"] == "finished"
    assert result["peak_memory_gb"] > 0


def test_json_lines_in_the_output_become_steps_and_stay_in_the_log(attempts, program):
    names = {"eval/loss": "loss", "acc": "accuracy"}
    steps, outcome, _ = attempts.run(program("json", metrics=MetricsSpec(read="jsonl", names=names)))
    assert steps[3] == {"eval/loss": 1 / 4, "acc": 3 / 4}
    assert steps[2] == {"eval/loss": 1 / 3}
    assert outcome.kind is EndKind.FINISHED
    log = (attempts.directory / "attempt_1.log").read_text()
    assert "warming up" in log
    assert '"note": "text"' in log


def test_patterns_read_what_the_program_prints_also_from_several_lines(attempts, program):
    names = {"eval/loss": "loss", "acc": "acc"}
    spec = MetricsSpec(read="regex", step="epoch", patterns=PATTERNS, names=names)
    steps, outcome, _ = attempts.run(program("print", metrics=spec))
    assert steps == {step: {**LOSSES[step], "acc": 1 - 1 / (step + 1)} for step in LOSSES}
    assert outcome.kind is EndKind.FINISHED


def test_a_table_is_read_by_its_header(attempts, program):
    spec = MetricsSpec(read="csv", file="log.csv", names={"eval/loss": "train loss"})
    steps, outcome, _ = attempts.run(program("csv", metrics=spec))
    assert steps == LOSSES
    assert outcome.kind is EndKind.FINISHED


@pytest.mark.parametrize("how", ["jsonl", "csv"])
def test_another_attempt_reports_only_what_it_wrote_itself(attempts, program, how):
    spec = MetricsSpec(read=how, file="log", names={"eval/loss": "loss" if how == "jsonl" else "train loss"})
    _, first, _ = attempts.run(program(how, "exit", 3, metrics=spec))
    assert (first.kind, first.last_step) == (EndKind.CRASH, 2)
    assert "exit code 7" in first.message
    steps, second, _ = attempts.run(program(how, metrics=spec))
    assert steps == LOSSES
    assert second.kind is EndKind.FINISHED


def test_parameters_reach_the_program_as_arguments_environment_and_file(attempts, tmp_path):
    code = (
        "import json, os, sys; from pathlib import Path; "
        "given = [sys.argv[1:], os.environ['RATE'], json.load(open(sys.argv[3])), os.getcwd(), os.environ['SHELLS']];"
        "Path(sys.argv[2], 'given.json').write_text(json.dumps(given)); print(json.dumps({'step': 3, 'loss': 1}))"
    )
    trainer = script(
        code,
        parameters={"lr": 0.1, "optim.name": "adam", "nesterov": False},
        env={"RATE": "rate-{lr}", "SHELLS": "$HOME"},
        workdir=str(tmp_path),
    )
    command = (*trainer.command, "{lr} {optim.name} {nesterov} {seed} {{x}}", "{output_dir}", "{config}")
    trainer = TrainerSpec(**{**{name: getattr(trainer, name) for name in trainer.__slots__}, "command": command})
    _, outcome, _ = attempts.run(trainer, lr=1e-05)
    assert outcome.kind is EndKind.FINISHED
    output = attempts.directory / "output"
    arguments, rate, everything, where, untouched = json.loads((output / "given.json").read_text())
    assert arguments == ["1e-05 adam false 0 {x}", str(output), str(output / "parameters.json")]
    assert (rate, where, untouched) == ("rate-1e-05", str(tmp_path), "$HOME")
    assert everything == {"lr": 1e-05, "optim.name": "adam", "nesterov": False, "steps": 3, "seed": 0}


def test_the_program_searches_its_modules_where_it_would_search_them_alone(attempts):
    code = "import json, os; print(repr(os.environ.get('PYTHONPATH'))); print(json.dumps({'step': 3, 'loss': 1}))"
    attempts.run(script(code))
    assert repr(os.environ.get("PYTHONPATH")) in (attempts.directory / "attempt_1.log").read_text().splitlines()


def test_a_program_that_counts_from_zero_has_done_all_its_steps(attempts):
    code = "import json\nfor step in range(3): print(json.dumps({'step': step, 'loss': 1.0}))"
    steps, outcome, _ = attempts.run(script(code))
    assert list(steps) == [0, 1, 2]
    assert (outcome.kind, outcome.last_step) == (EndKind.FINISHED, 3)


def test_a_program_that_never_says_its_step_is_counted(attempts):
    code = "import json\nfor step in range(3): print(json.dumps({'loss': 1.0 - step}))"
    steps, outcome, _ = attempts.run(script(code))
    assert steps == {1: {"eval/loss": 1.0}, 2: {"eval/loss": 0.0}, 3: {"eval/loss": -1.0}}
    assert outcome.kind is EndKind.FINISHED


def test_a_value_that_is_not_finite_is_reported_as_such(attempts, program):
    steps, _, _ = attempts.run(program("jsonl", "nan", 3))
    assert steps[3] == {"eval/loss": None}
    lines = (attempts.directory / "metrics.jsonl").read_text().splitlines()
    assert json.loads(lines[2])["nonfinite"] == ["eval/loss"]


@pytest.mark.parametrize(
    ("mishap", "kind", "message"),
    [
        ("exit", EndKind.CRASH, "exit code 7"),
        ("oom", EndKind.OUT_OF_MEMORY, "CUDA out of memory"),
        ("kill", EndKind.OUT_OF_MEMORY, "SIGKILL"),
    ],
)
def test_a_program_that_dies_is_judged_as_if_it_ran_alone(attempts, program, mishap, kind, message):
    _, outcome, _ = attempts.run(program("jsonl", mishap, 3))
    assert (outcome.kind, outcome.last_step) == (kind, 2)
    assert message in outcome.message
    assert not (attempts.directory / "result.json").exists()


def test_a_program_without_any_metric_fails_and_says_what_was_looked_for(attempts, program):
    spec = MetricsSpec(read="regex", patterns=(r"loss=(?P<loss>\S+)",), names={"eval/loss": "loss"})
    _, outcome, _ = attempts.run(program("print", metrics=spec))
    assert outcome.kind is EndKind.UNKNOWN
    assert "'loss' in its output" in outcome.message
    assert "validation accuracy" in outcome.hint


def test_a_file_that_never_comes_is_named(attempts, program):
    _, outcome, _ = attempts.run(program("print"))
    assert outcome.kind is EndKind.UNKNOWN
    assert "output/log.jsonl" in outcome.message
    assert "Nothing was written there" in outcome.hint


def test_a_program_that_ends_early_by_itself_has_not_finished(attempts, program):
    steps, outcome, _ = attempts.run(
        program("jsonl", steps=4), **{"backend.command": [sys.executable, "-c", "print()"]}
    )
    assert (steps, outcome.kind) == ({}, EndKind.UNKNOWN)
    code = "import json; print(json.dumps({'step': 2, 'loss': 1}))"
    _, outcome, _ = attempts.run(script(code, steps=9))
    assert outcome.kind is EndKind.UNKNOWN
    assert "after step 2 of 9" in outcome.message
    assert "trainer.steps" in outcome.hint


def test_a_program_that_is_gone_by_the_time_it_should_start_fails_with_its_name(attempts, program):
    _, outcome, _ = attempts.run(program(), **{"backend.command": ["no-such-program"]})
    assert outcome.kind is EndKind.UNKNOWN
    assert "cannot start 'no-such-program'" in outcome.message


@pytest.mark.parametrize("shell", [False, True])
def test_a_stop_reaches_the_program_which_ends_in_its_own_time(attempts, program, tmp_path, shell):
    trainer = program("jsonl", "wait", 3)
    if shell:
        wrapped = ("/bin/bash", "-c", f"{' '.join(trainer.command)}; true")
        trainer = TrainerSpec(**{**{name: getattr(trainer, name) for name in trainer.__slots__}, "command": wrapped})
    process = attempts.start(trainer)
    wait_for(tmp_path / "waiting")
    process.terminate(20.0)
    assert (tmp_path / "saved").exists()
    outcome = process.outcome(last_step=2, expected_steps=4)
    assert (outcome.kind, outcome.last_step) == (EndKind.STOPPED, 2)
    assert json.loads((attempts.directory / "result.json").read_text())["status"] == "stopped"


def test_a_program_that_will_not_end_is_killed_after_the_grace_period(attempts, tmp_path):
    code = "import signal, time, pathlib; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    code += "pathlib.Path('up').touch(); time.sleep(60)"
    process = attempts.start(script(code, workdir=str(tmp_path)))
    wait_for(tmp_path / "up")
    process.terminate(0.5)
    assert process.outcome(last_step=0, expected_steps=3).kind is EndKind.STOPPED
    found = subprocess.run(["pgrep", "-f", str(tmp_path)], capture_output=True, text=True, check=False)
    assert found.stdout == ""


def test_what_a_program_leaves_behind_does_not_keep_the_attempt_from_ending(attempts):
    code = (
        "import json, subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']); "
        "print(json.dumps({'step': 3, 'loss': 1}))"
    )
    began = time.monotonic()
    _, outcome, _ = attempts.run(script(code))
    assert outcome.kind is EndKind.FINISHED
    assert time.monotonic() - began < 30


def test_a_program_that_shows_nothing_any_more_is_ended_as_hung(attempts, tmp_path):
    code = "import json, threading; print(json.dumps({'step': 1, 'loss': 1}), flush=True); threading.Event().wait(60)"
    _, outcome, _ = attempts.run(script(code, stall_s=0.5))
    assert (outcome.kind, outcome.last_step) == (EndKind.CRASH, 1)
    assert "ended as hung" in outcome.message
    assert "trainer.stall" in outcome.hint
