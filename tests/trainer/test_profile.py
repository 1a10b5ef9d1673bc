"""Chosen steps leave a trace and a table; on a terminal one line moves along."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from trainer import console


def test_chosen_steps_leave_a_trace_and_a_table(tmp_path: Path, run_here: Callable) -> None:
    settings = {"trainer.total_steps": 3, "system.profile.steps": 2, "system.profile.first_step": 2}
    ended = run_here(tmp_path, settings)
    assert ended.code == 0, ended.stderr
    assert [path.name for path in (tmp_path / "profile").iterdir()] == ["steps_2_to_3_rank_0.json"]
    events = json.loads((tmp_path / "profile" / "steps_2_to_3_rank_0.json").read_text())["traceEvents"]
    names = [event.get("name") for event in events]
    assert {"sync_engine", "sample", "measure", "update", "evaluate"} <= set(names)
    assert names.count("update") == 2
    assert "profile of steps 2 to 3" in ended.stderr
    assert "Self CPU" in ended.stderr


def test_a_stop_in_between_leaves_what_was_recorded(tmp_path: Path, run_here: Callable) -> None:
    ended = run_here(tmp_path, {"trainer.total_steps": 2, "system.profile.steps": 9, "system.profile.first_step": 2})
    assert ended.code == 0
    assert [path.name for path in (tmp_path / "profile").iterdir()] == ["steps_2_to_2_rank_0.json"]


def test_without_a_choice_nothing_is_recorded(tmp_path: Path, run_here: Callable) -> None:
    assert "Self CPU" not in run_here(tmp_path, {"trainer.total_steps": 2}).stderr
    assert not (tmp_path / "profile").exists()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_one_line_moves_along_and_the_last_one_stays(
    tmp_path: Path, run_here: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("COLUMNS", "60")
    run_here(tmp_path, {"trainer.total_steps": 3, "system.logging.progress_freq": 1})
    parts = screen.getvalue().split("\r\x1b[2K")
    assert [part.split(" ")[0] for part in parts[1:3]] == ["[######..............]", "[#############.......]"]
    assert all(len(part) < 60 and "\n" not in part for part in parts[1:3])
    assert "0:0" in parts[1]
    assert parts[3].startswith("step 3/3  reward")
    assert parts[3].count("\n") == 2  # and where the result is


def test_a_line_takes_the_place_of_a_moving_one(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    console.say("first")
    console.show_live("moving")
    console.say("second")
    console.say("third")
    assert screen.getvalue() == "first\n\r\x1b[2Kmoving\r\x1b[2Ksecond\nthird\n"
    assert console.bar(1, 4, width=8) == "[##......]"
    assert console.bar(0, 0, width=4) == "[....]"
