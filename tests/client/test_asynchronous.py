import asyncio
import inspect

import httpx2
import pytest

from autotune.api import create_app
from autotune.client import AsyncClient, Client
from autotune.errors import JobFailedError, NotFoundError, UnreachableError
from autotune.settings import Settings
from tests.fakes import SPACE, FakeService, finished_job, finished_trials
from tests.serving import served


@pytest.fixture
def service(tmp_path):
    return FakeService(tmp_path)


@pytest.fixture
def app(service, tmp_path):
    return create_app(service, Settings(home=tmp_path))


def run(app, use):
    async def whole():
        async with AsyncClient("http://localhost", transport=httpx2.ASGITransport(app)) as client:
            return await use(client)

    return asyncio.run(whole())


def test_it_has_every_method_of_the_waiting_client_with_the_same_parameters():
    for name, method in inspect.getmembers(Client, inspect.isfunction):
        if name.startswith("_") or name == "open":
            continue
        other = getattr(AsyncClient, name)
        assert list(inspect.signature(other).parameters) == list(inspect.signature(method).parameters), name


def test_what_one_client_reads_the_other_reads_alike(app, service):
    trials = finished_trials()
    job = service.add(finished_job(), trials)

    async def use(client):
        assert await client.job(job.id) == job
        assert [trial async for trial in client.all_trials(job.id)] == trials
        assert (await client.jobs()).items == [job]
        assert await client.curves(job.id) == service.curves_of[job.id]
        assert (await client.wait(job.id)).id == job.id
        return await client.submit(SPACE)

    assert run(app, use).state == "queued"


def test_errors_arrive_as_the_classes_that_were_raised(app, service):
    failed = service.add(finished_job(state="cancelled"), [])

    async def use(client):
        with pytest.raises(NotFoundError, match="no job"):
            await client.job("nothing-1")
        with pytest.raises(JobFailedError, match="was cancelled"):
            await client.wait(failed.id)

    run(app, use)


def test_nothing_listening_is_unreachable():
    async def use():
        async with AsyncClient("http://127.0.0.1:1") as client:
            await client.jobs()

    with pytest.raises(UnreachableError, match="cannot be reached"):
        asyncio.run(use())


def test_events_are_followed_over_a_real_connection_until_the_job_ends(service, app):
    job = service.add(finished_job(), finished_trials())
    wanted = service.events_of[job.id]

    async def use(url):
        async with AsyncClient(url) as client:
            return [event async for event in client.stream_events(job.id)]

    with served(app) as url:
        assert asyncio.run(use(url)) == wanted
