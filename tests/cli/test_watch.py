import io
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from autotune.cli.live import Seen, budget_line, limit_bar, render, sparkline, time_left
from autotune.cli.output import duration, number, plain
from autotune.cli.watch import Watch
from autotune.clock import ManualClock
from autotune.errors import UnreachableError
from tests.fakes import finished_job, finished_trials, make_curve, make_job, make_trial


class Steps:
    """A client that shows one state of a job after the other; an exception among them is raised."""

    def __init__(self, *steps):
        self.steps = list(steps)
        self.trials = []

    def job(self, job):
        step = self.steps.pop(0) if len(self.steps) > 1 else self.steps[0]
        if isinstance(step, Exception):
            raise step
        view, self.trials = step
        return view

    def all_trials(self, job):
        return iter(self.trials)

    def space(self, job):
        return SPACE

    def curves(self, job, *, metrics, trials, max_points):
        return [make_curve(number) for number in trials]


SPACE = {
    "constraints": ["kl/actor_ref <= 0.12"],
    "prune": [{"kl_ceiling": {"above": 0.15}}],
    "budget": {"trials": 4, "gpu_hours": 8, "wall_clock": "2h"},
}


def seen(job, trials, **changes):
    values = {"document": SPACE, "curves": {}, "now": 1_700_000_121.0, **changes}
    return Seen(job=job, trials=trials, **values)


def drawn(job, trials, rows=20, width=140, **changes):
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    console.print(render(seen(job, trials, **changes), rows=rows, width=width))
    return console.file.getvalue()


def test_the_table_shows_state_step_value_and_reason():
    text = drawn(finished_job(), finished_trials())
    assert "demo-1 completed  4 of 4 trials, 2 completed, 1 pruned, 1 infeasible" in text
    assert "best eval/reward 0.6 (default 0.5)" in text
    assert any("1*" in line and "40/40" in line and "0.6" in line for line in text.splitlines())
    assert any("pruned" in line and "kl_ceiling" in line for line in text.splitlines())


def test_a_wide_terminal_shows_kl_against_its_limit_the_speed_and_the_curve():
    metrics = {"eval/reward": 0.5, "kl/actor_ref": 0.06, "perf/tokens_per_s": 12345.6}
    running = make_trial(0, state="running", value=None, last_step=20, metrics=metrics)
    text = drawn(make_job(state="running"), [running], curves={0: [0.0, None, 1.0, 2.0]})
    (line,) = [line for line in text.splitlines() if "20/40" in line]
    assert "\u2588\u2588\u2588\u2591\u2591\u2591" in line, "half of 0.12 is used"
    assert "12,346" in line
    assert "\u2581\u2585\u2588" in line


def test_a_bar_says_when_the_limit_is_broken_and_is_left_out_without_one():
    assert limit_bar(0.24, 0.12) == ("\u2588" * 6 + "!", "bold red")
    assert limit_bar(0.11, 0.12)[1] == "yellow"
    assert limit_bar(float("nan"), 0.12) == limit_bar(None, 0.12) == limit_bar(0.1, None) == ("-", "")


@given(st.lists(st.one_of(st.none(), st.floats()), max_size=300))
def test_a_sparkline_is_short_whatever_the_values_are(values):
    line = sparkline(values)
    assert len(line) <= 10
    assert (line == "") == (not any(value is not None and math.isfinite(value) for value in values))


def test_the_budget_says_what_is_used_of_what():
    job = make_job(state="running", started_at=1_700_000_001.0, trials={"completed": 1, "running": 1}, cost_gpu_hours=2)
    trials = [make_trial(0, cost_s=60.0), make_trial(1, state="running", cost_s=20.0)]
    line = budget_line(seen(job, trials))
    assert line == "used: trials 1/4, GPU-hours 2.00/8, time 2m00s/2h, about 1m20s left"
    assert time_left(job, []) is None
    assert time_left(finished_job(), trials) is None


def test_a_narrow_terminal_cuts_the_parameters_and_nothing_else():
    text = drawn(finished_job(), finished_trials(), width=80)
    assert any("infeasible" in line and "2/40" in line and "0.07" in line for line in text.splitlines())
    assert max(map(len, text.splitlines())) <= 80


def test_running_trials_stay_in_a_table_that_is_too_short():
    trials = [make_trial(0, state="running", value=None)] + [make_trial(number) for number in range(1, 50)]
    numbers = [line.split()[0] for line in drawn(make_job(), trials, rows=4).splitlines() if "/40" in line]
    assert numbers == ["0", "47", "48", "49"]


def test_a_name_is_never_read_as_markup():
    assert "[red]x[/red]" in drawn(make_job("[red]x[/red]"), [])


def test_a_live_table_is_drawn_on_a_terminal():
    console = Console(file=io.StringIO(), width=120, height=30, force_terminal=True)
    with Watch(Steps((finished_job(), finished_trials())), "demo-1", console) as watch:
        watch.refresh()
    assert "demo-1" in console.file.getvalue()


def test_following_outlasts_a_short_silence(capsys):
    silence = UnreachableError("the service cannot be reached.")
    client = Steps((make_job(state="running"), []), silence, silence, (finished_job(), finished_trials()))
    with Watch(client, "demo-1", Console(file=io.StringIO()), ManualClock()) as watch:
        assert watch.follow().state == "completed"
    assert "job demo-1 is completed" in capsys.readouterr().err


def test_following_gives_up_after_a_minute_and_says_that_the_job_goes_on():
    client = Steps((make_job(state="running"), []), UnreachableError("the service cannot be reached."))
    clock = ManualClock()
    watch = Watch(client, "demo-1", Console(file=io.StringIO()), clock)
    with watch, pytest.raises(UnreachableError) as caught:
        watch.follow()
    assert "autotune watch demo-1" in caught.value.hint
    assert 60 < clock.now() < 65


def test_a_foreground_run_survives_a_look_that_fails(capsys):
    client = Steps(UnreachableError("the database is busy."), (finished_job(), []))
    clock = ManualClock()
    with Watch(client, "demo-1", Console(file=io.StringIO()), clock) as watch:
        watch.tick()
        clock.advance(1.0)
        watch.tick()
    assert capsys.readouterr().err.splitlines() == ["warning: the database is busy.", "job demo-1 is completed"]


def test_a_foreground_run_is_looked_at_once_a_second_at_most():
    looks, clock = [], ManualClock()
    watch = Watch(Steps((make_job(), [])), "demo-1", Console(file=io.StringIO()), clock)
    watch.refresh = lambda: looks.append(clock.now())
    for _ in range(7):
        watch.tick()
        clock.advance(0.5)
    assert looks == [0.0, 1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, "-"), (0.4, "0s"), (59.6, "1m00s"), (200, "3m20s"), (7500, "2h05m")]
)
def test_durations_are_short(seconds, text):
    assert duration(seconds) == text


def test_numbers_that_are_not_finite_leave_json_as_null():
    assert plain({"a": float("nan"), "b": [float("inf"), 1.5], "c": None}) == {"a": None, "b": [None, 1.5], "c": None}
    assert number(float("nan")) == "nan"
