import re

import pytest

from autotune.api.web import web_dir
from tests.fakes import finished_job


def test_the_page_may_load_from_this_service_only(http):
    answer = http.get("/")
    assert answer.headers["content-type"].startswith("text/html")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "http" not in policy
    assert "autotune jobs" in answer.text, "what to do without scripts"


def test_everything_the_page_names_is_served(http):
    names = set(re.findall(r'(?:src|href)="(/web/[^"]+)"', http.get("/").text))
    for script in web_dir().rglob("*.js"):
        text = script.read_text(encoding="utf-8")
        names |= set(re.findall(r'"(/web/[^"]+)"', text))
        for found in re.findall(r'from "(\.[^"]+)"', text):
            assert (script.parent / found).resolve().is_file(), f"{script.name} imports {found}"
    assert "/web/plotly.min.js" in names
    for name in names:
        answer = http.get(name)
        assert answer.status_code == 200, name
        assert answer.content


def test_nothing_in_the_page_comes_from_elsewhere_or_is_compiled_from_text():
    for file in web_dir().rglob("*.*"):
        text = file.read_text(encoding="utf-8")
        for reach in re.findall(r"https?://[^\s\"'`]+", text):
            assert reach == "http://www.w3.org/2000/svg", f"{file.name}: {reach}"
        for danger in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"):
            assert danger not in text, f"{file.name}: {danger}"


def test_a_browser_that_has_a_file_is_told_so(http):
    for name in ("/", "/web/js/main.js", "/web/plotly.min.js"):
        tag = http.get(name).headers["etag"]
        again = http.get(name, headers={"If-None-Match": tag})
        assert (again.status_code, again.content) == (304, b"")
        assert http.get(name, headers={"If-None-Match": '"older"'}).status_code == 200


@pytest.mark.parametrize(
    "name",
    ["../../pyproject.toml", "..%2f..%2fpyproject.toml", "%2e%2e/web.py", "js", "js/", "nothing.js", "/etc/passwd", ""],
)
def test_no_name_leads_outside(http, name):
    answer = http.get(f"/web/{name}")
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"


def test_a_job_shows_its_space(http, service):
    service.add(finished_job())
    space = http.get("/v1/jobs/demo-1/space").json()
    assert space["constraints"] == ["kl/actor_ref <= 0.3"]
    assert http.get("/v1/jobs/nothing-1/space").status_code == 404
