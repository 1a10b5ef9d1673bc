from pathlib import Path

import pytest
from starlette.testclient import TestClient

from autotune.api import create_app
from autotune.settings import Settings
from tests.fakes import FakeService, finished_job, finished_trials
from tests.web.support import WebService


@pytest.fixture
def service(tmp_path: Path) -> FakeService:
    return WebService(tmp_path)


@pytest.fixture
def finished(service: FakeService) -> FakeService:
    service.add(finished_job(), finished_trials())
    return service


@pytest.fixture
def http(service: FakeService, tmp_path: Path) -> TestClient:
    app = create_app(service, Settings(home=tmp_path))
    return TestClient(app, base_url="http://127.0.0.1:8765")
