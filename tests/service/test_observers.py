import re

from mlflow.tracking import MlflowClient

from autotune.service.observers import git_commit, observers_for
from autotune.service.spaces import resolve_document
from tests.docs.reading import ROOT


def test_a_run_says_which_code_backend_and_seed_made_it(service, source):
    job = service.submit(source, "space.yaml")[0].id
    with service.store.read() as work:
        row, study = work.jobs.get(job), work.jobs.studies(job)[0]
    resolved = resolve_document(row.document, row.file)
    tracker = observers_for(service, row, resolved, study)["MLflow"]()
    run = MlflowClient(tracking_uri=service.settings.tracking_uri).get_run(service.job(job).mlflow_run)
    told = {name.removeprefix("autotune."): value for name, value in run.data.tags.items()}
    assert (told["backend"], told["seed"], told["sampler"], told["space"]) == ("native", "0", "tpe", "small")
    assert told.get("git_commit", "") == git_commit()
    assert "version" in told
    assert tracker is not None


def test_the_commit_is_one_in_a_checkout_and_nothing_elsewhere():
    found = git_commit()
    assert re.fullmatch("[0-9a-f]{40}", found) if (ROOT / ".git").exists() else found == ""
