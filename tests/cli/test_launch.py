import json

import pytest

from tests.fakes import FakeService, finished_job, finished_trials, make_job, make_trial


def finish(service: FakeService, job: str, on_tick) -> None:
    """Plays a small search from its first trial to its end."""
    service.add(make_job(job, state="running", trials={"running": 1}), [make_trial(0, state="running", value=None)])
    on_tick()
    on_tick()
    service.add(finished_job(job_id=job), finished_trials())
    on_tick()


def fail(service: FakeService, job: str, on_tick) -> None:
    service.add(finished_job(job_id=job, best_trial=None, best_value=None, trials={"infeasible": 1}), [])


def interrupt(service: FakeService, job: str, on_tick) -> None:
    service.change(job, state="queued")
    raise KeyboardInterrupt


def test_the_end_of_a_launch_names_winner_reasons_places_and_next_steps(cli, space):
    cli.script = finish
    done = cli("launch", str(space))
    assert done.exit_code == 0, done.stderr
    out = done.stdout
    assert "Winner: trial 1, eval/reward 0.6 (default 0.5, better by 0.1)" in out
    assert "trainer.optim.lr       = 0.002   (default 0.001)" in out
    assert "Pruned: 1 of 4 trials (1 by kl_ceiling)" in out
    assert "trial 2 pruned at step 9: kl_ceiling: kl/actor_ref was 0.31, above 0.15, for 3 steps" in out
    assert "trial 3 infeasible at step 2: out_of_memory: out of memory at step 2" in out
    assert str(cli.service.directory / "report.html") in out
    assert "autotune up, then http://127.0.0.1:8765/dashboard" in out
    assert "autotune up, then http://127.0.0.1:5000" in out
    assert "autotune best demo-1 --overrides" in out
    assert (cli.service.directory / "report.html").exists()


def test_progress_goes_to_stderr_one_line_for_each_change(cli, space):
    cli.script = finish
    lines = cli("launch", str(space)).stderr.splitlines()
    running = [line for line in lines if line.startswith("trial 0 running")]
    assert running == ["trial 0 running (default): lr=0.001 type=fixed"]
    assert "trial 0 completed after step 40: eval/reward 0.5" in lines
    assert "trial 2 pruned after step 9: kl_ceiling: kl/actor_ref was 0.31, above 0.15, for 3 steps" in lines
    assert lines.count("job demo-1 is completed") == 1


def test_json_is_the_only_thing_on_stdout(cli, space):
    cli.script = finish
    document = json.loads(cli("launch", str(space), "--json").stdout)
    assert document["job"]["state"] == "completed"
    assert document["best"]["trial"]["number"] == 1
    assert document["pruned"] == {"kl_ceiling": 1}
    assert (document["steps_run"], document["steps_planned"]) == (91, 160)


def test_a_job_without_a_completed_trial_exits_with_8_and_still_prints_its_document(cli, space):
    cli.script = fail
    done = cli("launch", str(space), "--json")
    assert done.exit_code == 8
    assert json.loads(done.stdout)["best"] is None
    assert "not one trial of job 'demo-1' completed (1 infeasible)" in done.stderr


def test_ctrl_c_says_what_is_kept_and_how_to_go_on(cli, space):
    cli.script = interrupt
    done = cli("launch", str(space))
    assert done.exit_code == 130
    assert "autotune launch --resume demo-1" in done.stderr
    assert done.stdout == ""


def test_a_resumed_job_is_run_and_not_submitted_again(cli):
    cli.service.add(make_job(state="failed"))
    cli.script = finish
    done = cli("launch", "--resume", "demo-1")
    assert done.exit_code == 0, done.stderr
    assert cli.service.calls == []
    assert list(cli.service.store) == ["demo-1"]


def test_options_are_written_into_the_space_that_is_submitted(cli, space):
    cli.script = finish
    done = cli("launch", str(space), "--name", "mine", "--seed", "7", "--trials", "9", "--parallel", "3")
    assert done.exit_code == 0, done.stderr
    _, source, file, key = cli.service.calls[0]
    assert 'name: "mine"' in source
    assert '"parallel": 3, trials: 9' in source
    assert 'sampler: {"seed": 7}' in source
    assert file == str(space)
    assert key


def test_a_bad_space_names_every_problem_with_its_place_and_starts_nothing(cli, space):
    space.write_text("name: x\n")
    done = cli("launch", str(space))
    assert done.exit_code == 3
    assert done.stderr.splitlines() == [
        f"error: {space} has 2 problems.",
        f"  {space}:1:1: search: a search is missing. Add search:",
        f"  {space}:2:7: a second thing.",
        "hint: Compare with search_spaces/.",
    ]
    assert done.stdout == ""
    assert cli.service.store == {}


@pytest.mark.parametrize(
    "arguments",
    [
        ["launch"],
        ["launch", "space.yaml", "--resume", "demo-1"],
        ["launch", "--resume", "demo-1", "--trials", "3"],
        ["launch", "space.yaml", "--no-watch"],
    ],
)
def test_options_that_contradict_each_other_are_a_usage_error_with_a_hint(cli, space, arguments):
    done = cli(*arguments)
    assert done.exit_code == 2
    assert "hint: " in done.stderr
    assert cli.service.store == {}


def test_a_service_elsewhere_is_only_handed_the_job_when_nobody_wants_to_watch(remote, space):
    done = remote("launch", str(space), "-d")
    assert done.exit_code == 0, done.stderr
    assert done.stdout == "demo-1\n"
    assert "autotune watch demo-1" in done.stderr
    assert list(remote.service.store) == ["demo-1"]


def test_a_watched_job_elsewhere_ends_with_the_same_summary(remote, space, monkeypatch):
    submit = remote.service.submit

    def submit_and_finish(source, file, key):
        job, created = submit(source, file, key)
        remote.service.add(finished_job(job_id=job.id), finished_trials())
        return job, created

    monkeypatch.setattr(remote.service, "submit", submit_and_finish)
    done = remote("launch", str(space))
    assert done.exit_code == 0, done.stderr
    assert "Winner: trial 1" in done.stdout
    assert "/v1/jobs/demo-1/report" in done.stdout


def test_a_winner_that_is_the_default_is_said_plainly(cli, space):
    def default_wins(service, job, on_tick):
        done = finished_job(job_id=job, best_trial=0, best_value=0.5, trials={"completed": 1})
        service.add(done, [make_trial(0)])

    cli.script = default_wins
    assert "it is the default configuration; nothing better was found" in cli("launch", str(space)).stdout
