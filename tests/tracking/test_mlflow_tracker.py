import dataclasses
import itertools
import json
import multiprocessing
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from mlflow.tracking import MlflowClient

from autotune.clock import ManualClock
from autotune.errors import NotAllowedError, UnreachableError
from autotune.search.book import History
from autotune.search.types import Attempt, EndKind, Point, Reason, Trial
from autotune.spec.types import Objective
from autotune.states import JobState, TrialState
from autotune.tracking import MlflowTracker

OBJECTIVE = Objective(metric="eval/reward")
JOBS = (f"quick-{number}" for number in itertools.count(1))


class Place:
    """One MLflow database for the whole module, and a job of its own for each test."""

    def __init__(self, folder: Path) -> None:
        self.uri = f"sqlite:///{folder / 'mlflow.db'}"
        self.artifacts = folder / "mlflow-artifacts"
        self.client = MlflowClient(tracking_uri=self.uri)

    def runs(self, job: str, kind: str = "trial") -> dict[str, object]:
        experiment = self.client.get_experiment_by_name("autotune")
        found = self.client.search_runs(
            [experiment.experiment_id], f"tags.`autotune.job` = '{job}' and tags.`autotune.kind` = '{kind}'"
        )
        runs = {run.data.tags.get("autotune.trial", "job"): run for run in found}
        assert len(runs) == len(found), "two runs of one trial"
        return runs


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    folder = tmp_path_factory.mktemp("mlflow")
    MlflowTracker(f"sqlite:///{folder / 'mlflow.db'}", "autotune", "warm-up", objective=OBJECTIVE).start()
    return Place(folder)


@pytest.fixture
def job() -> str:
    return next(JOBS)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1000.0)


@pytest.fixture
def make(place: Place, job: str, clock: ManualClock) -> Callable[[], MlflowTracker]:
    return lambda: MlflowTracker(
        place.uri,
        "autotune",
        job,
        objective=OBJECTIVE,
        tags={"backend": "native", "seed": "0"},
        description="Reward and KL",
        clock=clock,
    )


def trial(number: int = 0, **changes: object) -> Trial:
    values: dict[str, object] = {
        "number": number,
        "state": TrialState.RUNNING,
        "source": "sampler",
        "params": {"trainer.optim.lr": 1e-5, "algorithm.kl_ctrl.type": "fixed"},
        "config": {"trainer.optim.lr": 1e-5, "trainer.seed": 0},
        "attempt": Attempt(trial=number, number=1, token="t"),
        "created_at": 1000.0,
        "started_at": 1001.0,
    }
    return Trial(**(values | changes))  # type: ignore[arg-type]


def points(*values: float | None, start: int = 0, at: float = 1002.0) -> list[Point]:
    return [
        Point(step=start + place, time=at + start + place, metrics={"eval/reward": value, "kl/actor_ref": 0.5})
        for place, value in enumerate(values)
    ]


def history(place: Place, job: str, number: str = "0", metric: str = "eval/reward") -> list[tuple[int, float]]:
    run = place.runs(job)[number]
    return sorted((entry.step, entry.value) for entry in place.client.get_metric_history(run.info.run_id, metric))


def test_a_completed_trial_is_read_back_by_mlflow(place: Place, job: str, make) -> None:
    tracker = make()
    tracker.on_save(trial())
    tracker.on_save(trial(), points(1.0, 2.0, 3.0))
    tracker.on_save(trial(state=TrialState.COMPLETED, value=3.0, last_step=2, ended_at=1050.0, cost_s=49.0))
    run, parent = place.runs(job)["0"], place.runs(job, "job")["job"]
    assert (run.info.status, run.info.start_time, run.info.end_time) == ("FINISHED", 1001000, 1050000)
    full = {"trainer.optim.lr": "1e-05", "algorithm.kl_ctrl.type": "fixed"}
    assert run.data.params == {**full, "lr": "1e-05", "type": "fixed"}
    assert run.data.tags["mlflow.parentRunId"] == parent.info.run_id
    wanted = {"state": "completed", "source": "sampler", "backend": "native", "seed": "0", "feasible": "true"}
    assert {name: run.data.tags[f"autotune.{name}"] for name in wanted} == wanted
    assert history(place, job) == [(0, 1.0), (1, 2.0), (2, 3.0)]
    assert history(place, job, metric="autotune/objective") == [(2, 3.0)]
    assert parent.data.tags["mlflow.note.content"] == "Reward and KL"


def test_the_whole_configuration_is_an_artifact_under_our_home(place: Place, job: str, make) -> None:
    make().on_save(trial(params={"long": "x" * 7000}))
    run = place.runs(job)["0"]
    assert run.data.params["long"] == "see the artifact params/long.json"
    (config,) = place.artifacts.glob(f"{run.info.run_id}/artifacts/config.json")
    assert json.loads(config.read_text()) == {"trainer.optim.lr": 1e-5, "trainer.seed": 0}
    assert len(config.with_name("params").joinpath("long.json").read_text()) == 7000


@pytest.mark.parametrize(
    ("state", "status"),
    [
        (TrialState.QUEUED, "SCHEDULED"),
        (TrialState.PRUNED, "KILLED"),
        (TrialState.INFEASIBLE, "FAILED"),
        (TrialState.FAILED, "FAILED"),
        (TrialState.CANCELLED, "KILLED"),
    ],
)
def test_every_end_has_its_status(place: Place, job: str, make, state: TrialState, status: str) -> None:
    tracker = make()
    tracker.on_save(trial())
    tracker.on_save(trial(state=state))
    assert place.runs(job)["0"].info.status == status


def test_a_pruned_trial_tells_why(place: Place, job: str, make) -> None:
    tracker = make()
    reason = Reason(pruner="kl_ceiling", text="kl/actor_ref 0.5 above 0.15 for 3 steps", numbers={"kl": 0.5})
    tracker.on_save(trial(), points(1.0))
    tracker.on_save(trial(state=TrialState.PRUNED, reason=reason, error_kind=None))
    tags = place.runs(job)["0"].data.tags
    assert (tags["autotune.pruner"], tags["autotune.reason"]) == ("kl_ceiling", reason.text)


def test_an_infeasible_trial_tells_its_error(place: Place, job: str, make) -> None:
    make().on_save(trial(state=TrialState.INFEASIBLE, error_kind=EndKind.OUT_OF_MEMORY, error_message="x" * 9000))
    error = place.runs(job)["0"].data.tags["autotune.error"]
    assert error.startswith("out_of_memory: xxx")


def test_what_is_not_finite_becomes_a_tag_and_no_metric(place: Place, job: str, make) -> None:
    tracker = make()
    tracker.on_save(trial(), points(1.0, None, float("inf"), 4.0))
    tracker.flush()
    assert history(place, job) == [(0, 1.0), (3, 4.0)]
    assert place.runs(job)["0"].data.tags["autotune.diverged"] == "eval/reward at step 1"


def test_metrics_wait_until_they_are_due(place: Place, job: str, make, clock: ManualClock) -> None:
    tracker = make()
    tracker.on_save(trial(0))
    tracker.on_save(trial(1))
    tracker.on_save(trial(0), points(1.0))
    tracker.on_save(trial(1), points(2.0))
    assert history(place, job, "0") == []
    clock.advance(5.0)
    tracker.on_save(trial(0), points(3.0, start=1))
    assert history(place, job, "0") == [(0, 1.0), (1, 3.0)]
    assert history(place, job, "1") == [(0, 2.0)]


def test_many_metrics_do_not_wait_and_go_in_several_batches(place: Place, job: str, make) -> None:
    tracker = make()
    tracker.on_save(trial())
    many = [
        Point(step=step, time=float(step), metrics={f"group/metric_{n}": float(step) for n in range(50)})
        for step in range(60)
    ]
    tracker.on_save(trial(), many)
    assert len(history(place, job, metric="group/metric_49")) == 60


def test_repeating_a_save_changes_nothing(place: Place, job: str, make) -> None:
    tracker = make()
    ended = trial(state=TrialState.COMPLETED, value=2.0, ended_at=1050.0)
    for _ in range(2):
        tracker.on_save(trial(), points(1.0, 2.0))
        tracker.flush()
    for _ in range(2):
        tracker.on_save(ended, points(1.0, 2.0))
    assert history(place, job) == [(0, 1.0), (1, 2.0)]
    assert history(place, job, metric="autotune/objective") == [(0, 2.0)]
    assert list(place.runs(job)) == ["0"]


@pytest.mark.parametrize("flushed", [0, 1, 3])
def test_after_a_crash_no_metric_is_missing_or_logged_twice(place: Place, job: str, make, flushed: int) -> None:
    curve = points(1.0, 2.0, 3.0)
    crashed = make()
    crashed.on_save(trial(), curve[:flushed])
    crashed.flush()
    crashed.on_save(trial(), curve[flushed:])  # buffered, and lost with the process
    ended = trial(state=TrialState.COMPLETED, value=3.0, ended_at=1050.0)
    make().reconcile(History(trials=[ended, trial(1)], curves={0: curve, 1: points(9.0)}))
    assert history(place, job, "0") == [(0, 1.0), (1, 2.0), (2, 3.0)]
    assert history(place, job, "1") == [(0, 9.0)]
    assert place.runs(job)["0"].info.status == "FINISHED"
    assert len(place.runs(job, "job")) == 1


def test_metrics_written_without_their_mark_are_not_doubled(place: Place, job: str, make) -> None:
    tracker = make()
    tracker.on_save(trial(), points(1.0, 2.0))
    tracker.flush()
    run = place.runs(job)["0"].info.run_id
    place.client.delete_tag(run, "autotune.last_step")  # as if the process had died between the two
    make().reconcile(History(trials=[trial()], curves={0: points(1.0, 2.0, 3.0)}))
    assert history(place, job) == [(0, 1.0), (1, 2.0), (2, 3.0)]


def test_a_later_attempt_goes_on_after_the_last_logged_step(place: Place, job: str, make) -> None:
    tracker = make()
    tracker.on_save(trial(), points(1.0, 2.0, 3.0))
    tracker.flush()
    again = trial(attempt=Attempt(trial=0, number=2, token="again"))
    tracker.on_save(again, points(20.0, 30.0, 40.0, start=1, at=2000.0))
    tracker.flush()
    assert history(place, job) == [(0, 1.0), (1, 2.0), (2, 3.0), (3, 40.0)]
    assert place.runs(job)["0"].data.tags["autotune.attempt"] == "2"


def test_runs_that_the_truth_does_not_know_are_ended(place: Place, job: str, make) -> None:
    make().on_save(trial(5))
    make().reconcile(History(trials=[trial(0)], curves={}))
    assert {number: run.info.status for number, run in place.runs(job).items()} == {"0": "RUNNING", "5": "KILLED"}


def test_a_second_run_of_a_trial_is_deleted_and_the_other_has_everything(place: Place, job: str, make) -> None:
    first, second = make(), make()
    first.start()
    second.start()  # neither knows of the other's run
    first.on_save(trial(), points(0.1))
    second.on_save(trial(), points(0.1))
    first.flush()
    with pytest.raises(AssertionError, match="two runs"):
        place.runs(job)
    third = make()
    whole = points(0.1, 0.2, 0.3)
    third.reconcile(History(trials=[trial()], curves={0: whole}))
    assert len(place.runs(job)) == 1
    assert [value for _, value in history(place, job)] == [0.1, 0.2, 0.3]


def test_a_resumed_trial_runs_again(place: Place, job: str, make) -> None:
    tracker = make()
    tracker.on_save(trial(), points(1.0))
    tracker.on_save(trial(state=TrialState.CANCELLED, ended_at=1010.0))
    tracker.on_save(trial(state=TrialState.QUEUED))
    tracker.on_save(trial(), points(2.0, start=1))
    assert place.runs(job)["0"].info.status == "RUNNING"
    tracker.on_save(trial(state=TrialState.COMPLETED, value=2.0, ended_at=1100.0))
    assert place.runs(job)["0"].info.end_time == 1100000
    assert history(place, job) == [(0, 1.0), (1, 2.0)]


def test_the_winner_is_written_on_the_jobs_run(place: Place, job: str, make) -> None:
    tracker = make()
    best = trial(3, state=TrialState.COMPLETED, value=7.5, ended_at=1050.0)
    tracker.on_save(best)
    tracker.close(best)
    parent = place.runs(job, "job")["job"]
    assert parent.info.status == "FINISHED"
    assert parent.data.params["trainer.optim.lr"] == "1e-05"
    assert parent.data.metrics["best/eval/reward"] == 7.5
    assert parent.data.tags["autotune.best_trial"] == "3"
    assert parent.data.tags["autotune.best_run"] == place.runs(job)["3"].info.run_id


def test_another_winner_after_a_resume_does_not_break_on_mlflows_fixed_params(place: Place, job: str, make) -> None:
    make().close(trial(0, value=1.0), JobState.FAILED)
    other = trial(1, value=2.0, params={"trainer.optim.lr": 3e-5, "algorithm.kl_ctrl.type": "fixed"})
    make().close(other)
    parent = place.runs(job, "job")["job"]
    assert parent.info.status == "FINISHED"
    assert parent.data.tags["autotune.best_trial"] == "1"
    assert parent.data.tags["autotune.best.trainer.optim.lr"] == "3e-05"


def test_a_job_that_goes_on_keeps_its_run_open(place: Place, job: str, make) -> None:
    tracker = make()
    tracker.on_save(trial(), points(1.0))
    tracker.close(None, JobState.QUEUED)
    assert place.runs(job, "job")["job"].info.status == "RUNNING"
    assert history(place, job) == [(0, 1.0)]
    assert make().start() == tracker.start()


def test_a_server_that_is_not_there_is_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    tracker = MlflowTracker("http://127.0.0.1:9", "autotune", "x-1", objective=OBJECTIVE)
    with pytest.raises(UnreachableError, match=r"127\.0\.0\.1:9") as caught:
        tracker.start()
    assert "AUTOTUNE_MLFLOW_URI" in caught.value.hint


def test_a_file_that_is_no_database_is_refused_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    path.write_text("not a database\n" * 100)
    with pytest.raises(NotAllowedError, match=r"notes\.db"):
        MlflowTracker(f"sqlite:///{path}", "autotune", "x-1", objective=OBJECTIVE).start()
    assert path.read_text() == "not a database\n" * 100


def _start(uri: str, job: str, barrier, answers) -> None:
    barrier.wait(60)
    try:
        tracker = MlflowTracker(uri, "autotune", job, objective=OBJECTIVE)
        tracker.on_save(dataclasses.replace(trial(), number=0))
        experiment = tracker._client.get_experiment_by_name("autotune")
        answers.put(("ok", experiment.experiment_id))
    except Exception as error:  # noqa: BLE001 - whatever it is, the parent shall see it
        answers.put(("failed", repr(error)))


@pytest.fixture
def fresh_uri(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'fresh' / 'mlflow.db'}"


def test_two_first_starts_at_once_share_one_experiment(fresh_uri: str) -> None:
    context = multiprocessing.get_context("fork")
    barrier, answers = context.Barrier(2), context.Queue()
    starters = [context.Process(target=_start, args=(fresh_uri, f"race-{n}", barrier, answers)) for n in (1, 2)]
    for process in starters:
        process.start()
    said = [answers.get(timeout=120) for _ in starters]
    for process in starters:
        process.join(30)
    assert [word for word, _ in said] == ["ok", "ok"], said
    assert len({experiment for _, experiment in said}) == 1


def test_nothing_is_said_on_stdout_and_mlflow_is_imported_late(fresh_uri: str) -> None:
    script = f"""
import sys
from autotune.tracking import MlflowTracker
from autotune.spec.types import Objective
tracker = MlflowTracker({fresh_uri!r}, "autotune", "quiet-1", objective=Objective(metric="m"))
assert "mlflow" not in sys.modules
tracker.start()
tracker.close()
assert "mlflow" in sys.modules and "torch" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert (done.stdout, done.stderr) == ("", "")


def test_artifacts_can_be_kept_elsewhere(fresh_uri: str, tmp_path: Path) -> None:
    tracker = MlflowTracker(fresh_uri, "autotune", "x-1", objective=OBJECTIVE, artifacts=tmp_path / "art")
    tracker.on_save(trial())
    assert len(list(tmp_path.glob("art/*/artifacts/config.json"))) == 1
