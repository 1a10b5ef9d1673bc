import json

import pytest

from autotune.api import create_app
from autotune.settings import Settings
from tests.serving import served
from tests.web.browser import Browser, find_chromium
from tests.web.support import WebService


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    program = find_chromium()
    if program is None:
        pytest.skip("no chromium here; install it with: apt-get install chromium")
    browser = Browser(program, tmp_path_factory.mktemp("chromium"))
    yield browser
    browser.close()


@pytest.fixture
def service(tmp_path):
    return WebService(tmp_path)


@pytest.fixture
def url(service, tmp_path):
    app = create_app(service, Settings(home=tmp_path))
    app.state.feed.look_s = 0.05
    with served(app) as url:
        yield url


@pytest.fixture
def open_page(browser, url):
    """Opens a page of the service; afterwards nothing may have gone wrong in it."""
    pages = []

    def open_page(where="", **options):
        page = browser.open(f"{url}/{where}", **options)
        pages.append(page)
        return page

    yield open_page
    for page in pages:
        page.close()
    assert [error for page in pages for error in page.errors] == []
    assert [request for page in pages for request in page.requests if not request.startswith((url, "data:"))] == []


@pytest.fixture
def call(open_page):
    """Calls a function of one of the page's own modules with JSON arguments."""
    page = open_page()

    def call(module, function, *arguments):
        script = f"import('/web/js/{module}.js').then((found) => found.{function}(...{json.dumps(arguments)}))"
        return page.evaluate(script)

    return call
