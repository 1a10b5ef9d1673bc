"""The page of the API in a real browser: complete, from this service alone, and able to ask."""

import json

import httpx2


def test_every_route_is_shown_with_nothing_from_elsewhere(open_page, url):
    page = open_page("docs")
    page.wait("document.querySelectorAll('details.route').length > 20")
    document = httpx2.get(f"{url}/openapi.json").json()
    wanted = {one["operationId"] for item in document["paths"].values() for one in item.values()}
    shown = page.evaluate("[...document.querySelectorAll('details.route')].map((one) => one.id)")
    assert sorted(shown) == sorted(wanted)
    assert "RFC 9457" in page.text("main")
    assert {request.partition("//")[2].partition("/")[0] for request in page.requests} == {url.partition("//")[2]}


def test_a_route_is_asked_with_what_was_filled_in(open_page):
    page = open_page("docs#getJob")
    page.wait("document.querySelector('#getJob[open] input')")
    page.evaluate("document.querySelector('#getJob input').value = 'no such/job'")
    page.click("#getJob button")
    answer = page.wait(
        "document.querySelector('#getJob .answer')?.textContent.includes('not_found') && "
        "document.querySelector('#getJob .answer').textContent"
    )
    assert answer.startswith("GET /v1/jobs/no%20such%2Fjob\n404")
    page.errors.clear()  # the browser itself reports the 404 that was asked for


def test_shapes_and_addresses_are_worked_out_from_the_document(call):
    schemas = {"Job": {"properties": {"id": {"type": "string"}, "n": {"type": "integer"}}, "required": ["id"]}}
    assert call("api_docs", "typeOf", {"$ref": "#/components/schemas/Job"}, schemas) == "Job: {id: string, n?: integer}"
    either = {"anyOf": [{"type": "array", "items": {"type": "number"}}, {"type": "null"}]}
    assert call("api_docs", "typeOf", either, {}) == "[number] | null"
    given = [{"name": "job_id", "in": "path"}, {"name": "limit", "in": "query"}, {"name": "state", "in": "query"}]
    where = call("api_docs", "addressOf", "/v1/jobs/{job_id}", given, {"job_id": "a b", "limit": "5", "state": ""})
    assert where == "/v1/jobs/a%20b?limit=5"


def test_the_page_stands_behind_the_same_policy_and_the_old_pages_are_gone(url):
    answer = httpx2.get(f"{url}/docs")
    assert "script-src 'self'" in answer.headers["content-security-policy"]
    assert "//" not in answer.text.replace("<!doctype", "").replace("image/svg+xml", "")
    assert httpx2.get(f"{url}/redoc").status_code == 404
    assert json.loads(httpx2.get(f"{url}/openapi.json").text)["openapi"].startswith("3.")
