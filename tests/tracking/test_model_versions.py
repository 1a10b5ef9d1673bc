"""A real registry: what was registered is found, loaded and never doubled."""

from pathlib import Path

import mlflow
import pytest
from mlflow.tracking import MlflowClient

from autotune.errors import NotFoundError, UnreachableError
from autotune.search.types import Attempt, Trial
from autotune.spec.types import Objective
from autotune.states import TrialState
from autotune.tracking import MlflowTracker
from autotune.tracking.model_versions import Candidate, find_version, log_version


@pytest.fixture(scope="module")
def uri(tmp_path_factory) -> str:
    """MLflow with the run of trial 3 of a job."""
    uri = f"sqlite:///{tmp_path_factory.mktemp('registry') / 'mlflow.db'}"
    tracker = MlflowTracker(uri, "autotune", "quick-1", objective=Objective(metric="eval/reward"))
    trial = Trial(
        number=3,
        state=TrialState.COMPLETED,
        source="sampler",
        params={"trainer.optim.lr": 1e-5},
        config={},
        attempt=Attempt(trial=3, number=1, token="t"),
        created_at=1.0,
        started_at=2.0,
        ended_at=3.0,
        value=0.5,
    )
    tracker.on_save(trial)
    tracker.close(trial)
    return uri


def candidate(tmp_path: Path, step: int = 20, **changes) -> Candidate:
    files = tmp_path / "model"
    (files / "deep").mkdir(parents=True, exist_ok=True)
    (files / "config.json").write_text('{"model_type": "llama"}')
    (files / "deep" / "weights.bin").write_bytes(b"\0\1")
    report = tmp_path / "report.html"
    report.write_text("<!doctype html>")
    values = {
        "job": "quick-1",
        "trial": 3,
        "step": step,
        "files": files,
        "report": report,
        "tags": {"autotune.job": "quick-1"},
        "description": "Trial 3",
        **changes,
    }
    return Candidate(**values)


def test_a_checkpoint_becomes_a_version_that_mlflow_finds_and_loads(uri, tmp_path):
    made = log_version(uri, "autotune", "digits", candidate(tmp_path))
    assert (made.name, made.version, made.created) == ("digits", "1", True)
    client = MlflowClient(tracking_uri=uri)
    (found,) = client.search_model_versions("name = 'digits'")
    assert (found.run_id, found.description) == (made.run, "Trial 3")
    assert found.tags == {"autotune.job": "quick-1", "autotune.step": "20"}
    mlflow.set_tracking_uri(uri)
    loaded = Path(mlflow.artifacts.download_artifacts("models:/digits/1", dst_path=str(tmp_path / "loaded")))
    assert (loaded / "config.json").read_text() == '{"model_type": "llama"}'
    assert (loaded / "deep" / "weights.bin").read_bytes() == b"\0\1"


def test_the_report_lies_with_the_jobs_own_run(uri, tmp_path):
    made = log_version(uri, "autotune", "with-report", candidate(tmp_path))
    client = MlflowClient(tracking_uri=uri)
    parent = client.get_run(made.run).data.tags["mlflow.parentRunId"]
    assert "report.html" in [item.path for item in client.list_artifacts(parent)]


def test_the_same_step_is_found_again_and_another_step_is_the_next_version(uri, tmp_path):
    first = log_version(uri, "autotune", "steps", candidate(tmp_path))
    again = find_version(uri, "autotune", "steps", "quick-1", 3, 20)
    assert again is not None
    assert (again.version, again.created) == (first.version, False)
    assert find_version(uri, "autotune", "steps", "quick-1", 3, 40) is None
    assert find_version(uri, "autotune", "other-name", "quick-1", 3, 20) is None
    assert log_version(uri, "autotune", "steps", candidate(tmp_path, 40)).version == "2"


def test_a_trial_without_a_run_is_named(uri, tmp_path):
    with pytest.raises(NotFoundError, match="no run of trial 9 of 'quick-1'"):
        log_version(uri, "autotune", "digits", candidate(tmp_path, trial=9))


def test_what_mlflow_refuses_says_why(uri, tmp_path):
    with pytest.raises(UnreachableError, match="did not take the model"):
        log_version(uri, "autotune", "a/b:c", candidate(tmp_path))
