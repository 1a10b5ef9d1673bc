from math import nan

from autotune.views import ErrorView
from tests.fakes import finished_job, make_job


def test_the_page_shows_jobs_with_their_links(http, finished):
    page = http.get("/")
    assert page.headers["content-type"].startswith("text/html")
    assert "href='/v1/jobs/demo-1/report'" in page.text
    assert "4 of 4" in page.text
    assert "0.6" in page.text
    assert "href='/dashboard'" in page.text


def test_names_from_outside_are_text_and_never_markup(http, service):
    error = ErrorView(kind="x", message="<img src=x onerror=alert(1)>", hint="")
    service.add(make_job("a'><script>alert(1)</script>-1", description="<b>bold</b>", error=error))
    page = http.get("/").text
    for hostile in ("<script>", "<b>bold", "<img"):
        assert hostile not in page
    assert "&lt;b&gt;bold&lt;/b&gt;" in page


def test_an_empty_service_says_how_to_start(http):
    assert "autotune launch quickstart" in http.get("/").text


def test_a_value_that_is_not_finite_is_a_dash(http, service):
    service.add(finished_job(best_value=nan))
    assert "<td class=number>-</td><td class=number>0.5</td>" in http.get("/").text
