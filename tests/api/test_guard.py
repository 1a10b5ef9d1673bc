import pytest

from autotune.api.middleware import is_loopback
from tests.fakes import SPACE

YAML = {"Content-Type": "application/yaml"}


@pytest.mark.parametrize("host", ["127.0.0.1:8765", "localhost:8765", "localhost", "[::1]:8765", "127.8.9.1"])
def test_loopback_names_are_served(http, host):
    assert http.get("/livez", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "192.168.1.4:8765", "", "[", "localhost.evil"]
)
def test_a_rebound_name_is_refused(http, host):
    answer = http.get("/v1/jobs", headers={"Host": host})
    assert answer.status_code == 403
    assert answer.json()["code"] == "not_allowed"
    assert answer.headers["x-request-id"]


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Sec-Fetch-Site": "cross-site"},
    ],
)
def test_a_foreign_page_cannot_start_or_end_anything(http, finished, headers):
    before = dict(finished.store)
    assert http.post("/v1/jobs", content=SPACE, headers={**YAML, **headers}).status_code == 403
    assert http.post("/v1/jobs/demo-1/resume", headers=headers).status_code == 403
    assert finished.store == before


def test_a_page_of_the_service_itself_may_change_things(http):
    headers = {**YAML, "Origin": "http://127.0.0.1:8765", "Sec-Fetch-Site": "same-origin"}
    assert http.post("/v1/jobs", content=SPACE, headers=headers).status_code == 201


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False), ("10.0.0.1", False)],
)
def test_only_addresses_of_the_machine_itself_are_loopback(host, expected):
    assert is_loopback(host) is expected
