"""A job that has ended is in Optuna's study and in MLflow, sooner or later."""

import pytest

from autotune.errors import ConflictError, UnreachableError
from autotune.service.mirroring import catch_up
from autotune.service.upkeep import check
from autotune.settings import Settings


@pytest.fixture
def ended(service, source, drive):
    """A job that has ended while no mirror listened."""
    job = service.submit(source, "space.yaml")[0].id
    with service.store.begin() as work:
        work.connection.exec_driver_sql("UPDATE autotune_jobs SET started_at = 1.0")
    drive(service, job)
    return job


def behind(service):
    with service.store.read() as work:
        return list(work.jobs.behind(service.clock.now()))


def test_a_job_that_the_mirrors_missed_is_written_to_them_after_its_end(service, ended):
    assert behind(service) == [ended]
    assert {one.kind for one in check(service)} == {"optuna", "mlflow"}
    catch_up(service, ended)
    assert behind(service) == []
    assert list(check(service)) == []
    catch_up(service, ended)
    assert list(check(service)) == []


def test_a_mirror_that_does_not_answer_is_tried_again_later(service, ended):
    service.settings = Settings(home=service.settings.home, mlflow_uri="http://127.0.0.1:1")
    with pytest.raises(UnreachableError, match="MLflow"):
        catch_up(service, ended)
    assert behind(service) == [ended]
    with service.store.read() as work:
        assert work.jobs.get(ended).lease_owner is None


def test_a_job_that_somebody_holds_is_left_to_them(service, ended):
    with service.store.begin() as work:
        work.jobs.lease(ended, "elsewhere/1/x", service.clock.now(), 60.0)
    assert behind(service) == []
    with pytest.raises(ConflictError, match="driven by elsewhere"):
        catch_up(service, ended)


def test_a_job_that_goes_on_is_its_drivers_affair(service, source):
    job = service.submit(source, "space.yaml")[0].id
    assert behind(service) == []
    with pytest.raises(ConflictError, match="its driver writes the mirrors"):
        catch_up(service, job)


def test_a_resumed_job_has_to_be_written_again(service, ended):
    catch_up(service, ended)
    with service.store.begin() as work:
        work.connection.exec_driver_sql("UPDATE autotune_jobs SET state = 'failed'")
    service.resume(ended)
    with service.store.begin() as work:
        work.connection.exec_driver_sql("UPDATE autotune_jobs SET state = 'failed'")
    assert behind(service) == [ended]
