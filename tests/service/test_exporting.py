import pytest
import yaml

from autotune.errors import NotFoundError, UsageError


def test_the_winner_or_any_trial_is_exported_with_its_origin(service, drive, source):
    job, _ = service.submit(source, "small.yaml")
    drive(service, job.id)
    best = service.best(job.id).trial
    made = service.export(job.id, "native")
    assert made.trial == best.number
    assert made.text.startswith(f"# Job {job.id}, trial {best.number} (completed, eval/reward ")
    assert f"trainer.optim.lr={best.params['trainer.optim.lr']}" in made.text
    other = next(number for number in range(4) if number != best.number)
    tree = yaml.safe_load(service.export(job.id, "yaml", other).text)
    assert tree["trainer"]["optim"]["lr"] == service.trial(job.id, other).params["trainer.optim.lr"]


def test_what_is_lost_on_the_way_to_verl_stands_in_the_text(service, drive, source):
    job, _ = service.submit(source, "small.yaml")
    drive(service, job.id)
    made = service.export(job.id, "verl")
    assert "verl.trainer.main_ppo" in made.text
    assert made.notes
    assert all(f"# Note: {note}" in made.text for note in made.notes)


def test_a_job_without_a_winner_and_an_unknown_form_are_refused(service, source):
    job, _ = service.submit(source, "small.yaml")
    with pytest.raises(NotFoundError, match="no best trial"):
        service.export(job.id, "native")
    with pytest.raises(NotFoundError):
        service.export(job.id, "native", 3)
    with pytest.raises(NotFoundError):
        service.export("nowhere-1", "yaml")


def test_the_form_must_be_one_that_the_backend_has(service, drive, source):
    job, _ = service.submit(source, "small.yaml")
    drive(service, job.id)
    with pytest.raises(UsageError, match="native, verl, yaml"):
        service.export(job.id, "command")
