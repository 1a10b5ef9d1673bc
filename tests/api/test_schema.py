"""What the OpenAPI document promises, tried out with requests made from it, over the real service.

No request may fail inside (5xx), and no answer may be one that the document does not know.
"""

import contextlib

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    allow_header_conformance,
    content_type_conformance,
    ensure_resource_availability,
    ignored_auth,
    missing_required_header,
    negative_data_rejection,
    object_level_authorization,
    positive_data_acceptance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
    use_after_free,
)

from autotune.access import LOCAL, Role
from autotune.api import create_app
from autotune.service import open_service
from autotune.settings import Settings
from tests.postgres import postgres_server
from tests.serving import served

pytestmark = pytest.mark.slow

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
    missing_required_header,
    unsupported_method,
    allow_header_conformance,
    ignored_auth,
    object_level_authorization,
    use_after_free,
    ensure_resource_availability,
    positive_data_acceptance,
]
"""All there are."""
BEYOND_A_SCHEMA = ["POST /v1/jobs", "POST /v1/plan", "GET /v1/jobs", "GET /v1/jobs/{job_id}/trials"]
"""What takes a space file or a cursor, each a text to the document: a request that fits it may still be a 422."""
CONFIG = schemathesis.Config.from_dict(
    {
        "operations": [
            {
                "include-name": name,
                "checks": {
                    "positive_data_acceptance": {
                        "expected-statuses": ["2xx", "3xx", "401", "403", "404", "409", "422", "429"]
                    }
                },
            }
            for name in BEYOND_A_SCHEMA
        ]
    }
)
SPACE = """
name: demo
trainer: {overrides: {data: digits, model: tiny}}
search: {lr: {float: [1e-5, 1e-3], log: true}}
objective: {metric: eval/reward}
budget: {trials: 4, steps: 4}
"""


def service_in(home, database_url=None):
    settings = Settings(home=home, database_url=database_url, requests_per_s=1e9, requests_at_once=10**9)
    service = open_service(settings)
    # Both have ended, so that a request for their events as a stream is answered in full.
    for name in ("demo", "other"):
        service.cancel(service.submit(SPACE.replace("demo", name), "space.yaml")[0].id)
    return service, settings


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def open_api(request, tmp_path_factory):
    with contextlib.ExitStack() as kept:
        database_url = kept.enter_context(postgres_server()).fresh() if request.param == "postgresql" else None
        service, options = service_in(tmp_path_factory.mktemp("open"), database_url)
        kept.callback(service.store.close)
        url = kept.enter_context(served(create_app(service, options)))
        yield schemathesis.openapi.from_url(f"{url}/openapi.json", config=CONFIG)


@pytest.fixture(scope="module")
def token(guarded):
    return guarded.access.issue(LOCAL, "ada", Role.ADMIN).token


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    service, _ = service_in(tmp_path_factory.mktemp("shut"))
    yield service
    service.store.close()


@pytest.fixture(scope="module")
def shut_api(guarded, token):
    with served(create_app(guarded, guarded.settings)) as url:
        yield schemathesis.openapi.from_url(
            f"{url}/openapi.json", config=CONFIG, headers={"Authorization": f"Bearer {token}"}
        )


SLOW = list(HealthCheck)


def explore(schema, examples, check):
    """Calls ``check`` with requests to every operation."""
    seen = 0
    for found in schema.get_all_operations():
        operation = found.ok()

        @settings(
            max_examples=examples,
            deadline=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
            database=None,
        )
        @given(case=operation.as_strategy())
        def one(case):
            check(case)

        one()
        seen += 1
    assert seen > 25


def test_every_route_keeps_its_promise_to_whoever_owns_the_machine(open_api):
    explore(open_api, 12, lambda case: case.call_and_validate(checks=CHECKS))


def test_every_route_keeps_its_promise_to_a_token_holder(shut_api, token):
    explore(
        shut_api,
        6,
        lambda case: case.call_and_validate(checks=CHECKS, headers={"Authorization": f"Bearer {token}"}),
    )


def test_every_route_keeps_its_promise_to_a_stranger(shut_api):
    def check(case):
        answer = case.call_and_validate(checks=CHECKS)
        assert answer.status_code in (400, 401, 404, 405) or case.path == "/livez", answer.text

    explore(shut_api, 2, check)
