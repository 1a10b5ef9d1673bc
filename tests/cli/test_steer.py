import pytest

from tests.fakes import make_job


@pytest.fixture
def running(cli):
    cli.service.add(make_job(state="running"))
    return cli


@pytest.mark.parametrize(("verb", "state"), [("pause", "paused"), ("stop", "stopping"), ("cancel", "cancelled")])
def test_a_verb_says_what_the_job_is_now(running, verb, state):
    assert running(verb, "demo-1").stdout == f"job demo-1 is {state}\n"


def test_resuming_without_a_service_says_how_to_run_it(cli):
    cli.service.add(make_job(state="cancelled"))
    done = cli("resume", "demo-1")
    assert done.stdout == "job demo-1 is queued\n"
    assert "autotune launch --resume demo-1" in done.stderr


def test_edit_sends_only_what_was_given(running):
    assert running("edit", "demo-1", "--trials", "9", "--wall-clock", "2h").exit_code == 0
    assert running.service.calls[-1] == ("edit", "demo-1", {"trials": 9, "wall_clock": "2h"}, None)
    assert running("edit", "demo-1", "--priority", "-1").exit_code == 0
    assert running.service.calls[-1] == ("edit", "demo-1", None, -1)


@pytest.mark.parametrize(
    "text",
    ["lr: {float: [1.0e-7, 1.0e-5]}\nppo_epochs:\n", "search:\n  lr: {float: [1.0e-7, 1.0e-5]}\n  ppo_epochs:\n"],
)
def test_edit_takes_a_search_from_a_file(running, tmp_path, text):
    path = tmp_path / "search.yaml"
    path.write_text(text)
    done = running("edit", "demo-1", "--search", str(path), "--stage", "effect")
    assert done.exit_code == 0, done.stderr
    wanted = {"lr": {"float": [1e-7, 1e-5]}, "ppo_epochs": None}
    assert running.service.calls[-1] == ("edit_space", "demo-1", wanted, "effect")


@pytest.mark.parametrize(("text", "code"), [("", 2), ("[1, 2]", 2), ("a: [", 2), (None, 4)])
def test_a_search_file_that_holds_none_is_refused(running, tmp_path, text, code):
    path = tmp_path / "search.yaml"
    if text is not None:
        path.write_text(text)
    assert running("edit", "demo-1", "--search", str(path)).exit_code == code
    assert running.service.calls == []


def test_enqueue_reads_numbers_words_and_truth_values(running):
    done = running("enqueue", "demo-1", "lr=1e-4", "epochs=2", "kl_type=adaptive", "flag=true", "size=1.5")
    assert done.exit_code == 0, done.stderr
    params = running.service.events_of["demo-1"][-1].data["params"]
    assert params == {"lr": 1e-4, "epochs": 2, "kl_type": "adaptive", "flag": True, "size": 1.5}
    running("enqueue", "demo-1", "default")
    assert running.service.events_of["demo-1"][-1].data["params"] == {}


@pytest.mark.parametrize("text", ["lr", "=3", "lr 3"])
def test_what_is_no_parameter_is_a_usage_error(running, text):
    done = running("enqueue", "demo-1", text)
    assert done.exit_code == 2
    assert "is no parameter" in done.stderr
    assert "lr=1e-4" in done.stderr


def test_a_verb_on_an_unknown_job_has_the_exit_code_of_not_found(cli):
    for verb in ("pause", "resume", "stop", "cancel"):
        assert cli(verb, "nothing-1").exit_code == 4


def test_a_launch_that_was_paused_elsewhere_ends_well_and_says_how_to_go_on(cli, space):
    cli.script = lambda service, job, on_tick: service.change(job, state="paused")
    done = cli("launch", "space.yaml")
    assert done.exit_code == 0
    assert "paused; nothing runs any more. Go on: autotune launch --resume" in done.stderr
