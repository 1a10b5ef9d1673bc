import json
from dataclasses import replace
from pathlib import Path

import pytest

from autotune.cli.commands.results import added, follow_log
from autotune.clock import ManualClock
from tests.fakes import SPACE, finished_job, finished_trials, make_job, make_trial


@pytest.fixture
def finished(cli):
    cli.service.add(finished_job(), finished_trials())
    return cli


def test_jobs_are_listed_with_best_and_default(finished):
    lines = finished("jobs").stdout.splitlines()
    assert lines[0].split() == ["job", "state", "trials", "objective", "best", "default", "submitted"]
    assert lines[1].split()[:6] == ["demo-1", "completed", "4/4", "eval/reward", "0.6", "0.5"]


def test_jobs_stop_at_the_limit_and_say_that_there_are_more(cli):
    for number in range(7):
        cli.service.add(make_job(f"demo-{number}"))
    done = cli("jobs", "--limit", "3", "--json")
    document = json.loads(done.stdout)
    assert ([job["id"] for job in document["jobs"]], document["more"]) == (["demo-6", "demo-5", "demo-4"], True)
    assert "--limit" in cli("jobs", "--limit", "3").stderr


def test_an_unknown_state_is_refused_with_the_choices(cli):
    done = cli("jobs", "--state", "happy")
    assert done.exit_code == 2
    assert "'queued', 'running'" in done.stderr


def test_show_has_one_row_for_each_trial_with_the_reason(finished):
    out = finished("show", "demo-1").stdout
    assert "progress:    4 of 4 trials, 2 completed, 1 pruned, 1 infeasible, best eval/reward 0.6 (default 0.5)" in out
    row = next(line for line in out.splitlines() if line.startswith("2 "))
    assert "kl_ceiling: kl/actor_ref was 0.31" in row
    assert next(line for line in out.splitlines() if line.startswith("1*"))


def test_show_of_a_job_without_trials_says_so(cli):
    cli.service.add(make_job())
    assert "No trial yet." in cli("show", "demo-1").stdout


def test_best_prints_overrides_alone_ready_to_paste(finished):
    assert finished("best", "demo-1", "--overrides").stdout.splitlines() == [
        "trainer.optim.lr=0.002",
        "algorithm.kl_ctrl.type=fixed",
    ]


def test_best_compares_with_the_default(finished):
    out = finished("best", "demo-1").stdout
    assert "eval/reward: 0.6 (maximize)" in out
    assert "improvement 0.1" in out
    assert "constraint kl/actor_ref <= 0.12: holds by 0.05" in out
    assert "train it again: python -m trainer" in out


def test_logs_print_the_last_lines_and_drop_what_drives_a_terminal(finished):
    finished.service.log = "one\ntwo\x1b[2J\x07\nthree\n"
    assert finished("logs", "demo-1", "--tail", "2").stdout == "two[2J\nthree\n"


def test_logs_of_a_trial_that_is_not_there_are_not_found(finished):
    done = finished("logs", "demo-1", "--trial", "99")
    assert (done.exit_code, done.stdout) == (4, "")


def test_cancel_says_what_the_job_is_now(cli):
    cli.service.add(make_job(state="running"))
    assert cli("cancel", "demo-1").stdout == "job demo-1 is cancelled\n"
    done = cli("cancel", "demo-1")
    assert done.exit_code == 5
    assert "cannot become cancelled" in done.stderr


def test_a_report_is_named_where_it_lies_and_can_be_copied(finished, tmp_path):
    assert finished("report", "demo-1").stdout.strip() == str(finished.service.directory / "report.html")
    target = tmp_path / "copy.html"
    assert finished("report", "demo-1", "-o", str(target)).stdout.strip() == str(target)
    assert "<title>demo-1</title>" in target.read_text()
    done = finished("report", "demo-1", "-o", str(tmp_path / "none" / "copy.html"))
    assert done.exit_code == 6


def test_a_report_of_a_service_elsewhere_is_brought_here(remote, tmp_path):
    remote.service.add(finished_job(), finished_trials())
    assert remote("report", "demo-1").stdout.strip() == str(tmp_path / "demo-1-report.html")
    assert (tmp_path / "demo-1-report.html").exists()


def test_plan_prints_the_table_and_keeps_warnings_off_stdout(cli, space):
    done = cli("plan", str(space))
    assert "at most:     160 training steps, if no trial were pruned" in done.stdout
    assert "kl_ctrl.type == 'adaptive'" in done.stdout
    assert "warning: 4 trials are few" in done.stderr
    assert "warning" not in done.stdout


def test_plan_reads_stdin(cli):
    done = cli("plan", "-", "--json", text=SPACE)
    assert json.loads(done.stdout)["name"] == "demo"


def test_watch_follows_to_the_end_and_sums_up(finished):
    done = finished("watch", "demo-1")
    assert done.exit_code == 0
    assert "job demo-1 is completed" in done.stderr
    assert "Winner: trial 1" in done.stdout


def test_ctrl_c_on_a_watched_job_only_stops_watching(cli, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    cli.service.add(make_job(state="running"))
    monkeypatch.setattr("autotune.clock.SystemClock.sleep", interrupted)
    done = cli("watch", "demo-1")
    assert done.exit_code == 130
    assert done.stderr.splitlines()[-1].startswith("detached; the job goes on. Come back: autotune watch demo-1")
    assert cli.service.store["demo-1"].state == "running"


def test_a_missing_space_names_near_files_and_shipped_spaces(cli, space):
    done = cli("plan", "spce.yaml")
    assert done.exit_code == 4
    assert done.stderr.splitlines()[0] == "error: there is no space file 'spce.yaml'."
    assert "space.yaml" in done.stderr
    assert "quickstart" in done.stderr
    assert "Did you mean quickstart" in cli("plan", "quickstrat").stderr


def test_a_shipped_space_is_found_by_its_name(cli, tmp_path):
    path = tmp_path / "shipped" / "quickstart.yaml"
    path.parent.mkdir()
    path.write_text(SPACE)
    spaces = cli.service.spaces()
    cli.service.spaces = lambda: [replace(spaces[0], path=str(path))]
    assert json.loads(cli("plan", "quickstart", "--json").stdout)["name"] == "demo"


@pytest.mark.parametrize(
    ("content", "code"), [(None, 2), (b"\xff\xfe\x00", 3)], ids=["a directory", "a file that is no text"]
)
def test_a_path_that_is_no_space_file_is_refused(cli, tmp_path, content, code):
    path = tmp_path / "thing.yaml"
    path.mkdir() if content is None else path.write_bytes(content)
    done = cli("plan", str(path))
    assert done.exit_code == code
    assert "hint: " in done.stderr


def test_a_home_that_cannot_be_written_exits_with_6(cli, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("AUTOTUNE_HOME", str(tmp_path / "file" / "home"))
    done = cli("jobs")
    assert done.exit_code == 6
    assert "AUTOTUNE_HOME" in done.stderr


def test_a_service_that_does_not_answer_exits_with_7(cli, monkeypatch):
    monkeypatch.setenv("AUTOTUNE_URL", "http://127.0.0.1:9")
    done = cli("jobs")
    assert done.exit_code == 7
    assert "autotune serve" in done.stderr


def test_a_defect_is_one_line_without_a_traceback_unless_asked_for(cli, monkeypatch):
    def broken(*_):
        raise ZeroDivisionError("oops")

    monkeypatch.setattr("autotune.client.Client.job", broken)
    done = cli("show", "demo-1")
    assert done.exit_code == 1
    assert "ZeroDivisionError: oops" in done.stderr
    assert "Traceback" not in done.stderr
    assert "Traceback" in cli("--debug", "show", "demo-1").stderr
    monkeypatch.delenv("AUTOTUNE_DEBUG", raising=False)


def test_names_from_a_service_cannot_drive_the_terminal(cli):
    cli.service.add(make_job("demo-1", description="\x1b]0;owned\x07[bold]x[/bold]"), [make_trial(0)])
    out = cli("show", "demo-1").stdout
    assert "\x1b" not in out
    assert "[bold]x[/bold]" in out


class GrowingLog:
    """A client whose job writes a line between two looks and ends at the last."""

    def __init__(self, logs):
        self.logs_left = list(logs)

    def job(self, job):
        return make_job(state="running" if len(self.logs_left) > 1 else "completed")

    def logs(self, job, *, trial, tail, stage=None):
        return self.logs_left.pop(0)


def test_a_followed_log_prints_each_line_once_and_whole(capsys):
    client = GrowingLog(["a\nb\n", "a\nb\n", "a\nb\nc\npart", "a\nb\nc\npart done\nlast"])
    clock = ManualClock()
    follow_log(client, "demo-1", None, 1, clock=clock)
    assert capsys.readouterr().out.splitlines() == ["b", "c", "part done", "last"]
    assert clock.now() == 3.0


@pytest.mark.parametrize(
    ("before", "now", "new"),
    [
        (["a", "b"], ["a", "b", "c"], ["c"]),
        (["a", "b", "c"], ["b", "c", "d"], ["d"]),
        (["a", "a"], ["a", "a", "a"], ["a"]),
        (["a"], ["x", "y"], ["x", "y"]),
        (["a", "b"], ["a", "b"], []),
    ],
)
def test_only_lines_that_were_added_to_a_window_are_new(before, now, new):
    assert added(before, now) == new


@pytest.mark.parametrize(
    ("form", "name"), [("html", "report.html"), ("markdown", "report.md"), ("json", "report.json")]
)
def test_a_report_comes_in_three_forms(cli, form, name):
    cli.service.add(finished_job(directory=str(cli.service.directory)), finished_trials())
    assert Path(cli("report", "demo-1", "--format", form).stdout.strip()).name == name


def test_a_form_that_no_report_has_names_those_it_has(cli):
    cli.service.add(finished_job(), finished_trials())
    done = cli("report", "demo-1", "--format", "pdf")
    assert done.exit_code == 2
    assert "got 'pdf', allowed are html, markdown, json" in done.stderr
