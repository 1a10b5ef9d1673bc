"""The live page at ``/``: files of ours, the plotly bundle of the Python package, and nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse
from starlette.exceptions import HTTPException
from starlette.responses import Response

from autotune.errors import NotFoundError

router = APIRouter(include_in_schema=False)

# Plotly writes its style sheet into the page at run time; scripts come from here only, and none is compiled from text.
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@router.get("/")
def page(request: Request) -> Response:
    """Shows the live page."""
    return _send(request, _own("index.html"), {"Content-Security-Policy": PAGE_POLICY})


@router.get("/docs")
def api_page(request: Request) -> Response:
    """Shows the API as the service describes it."""
    return _send(request, _own("docs.html"), {"Content-Security-Policy": PAGE_POLICY})


@router.get("/web/plotly.min.js")
def plotly(request: Request) -> Response:
    """Serves the plotly bundle that the Python package carries."""
    return _send(request, _plotly_bundle(), {})


@router.get("/web/{name:path}")
def file(request: Request, name: str) -> Response:
    """Serves a script, a style sheet or an image of the page."""
    return _send(request, _own(name), {})


def web_dir() -> Path:
    """Where they are: ``dashboards/web/`` beside the package in a checkout, inside the package in a wheel."""
    package = Path(__file__).resolve().parent.parent
    checkout = package.parent / "dashboards" / "web"
    is_checkout = (package.parent / "pyproject.toml").is_file() and checkout.is_dir()
    return checkout if is_checkout else package / "_web"


@cache
def _files() -> dict[str, Path]:
    root = web_dir()
    return {path.relative_to(root).as_posix(): path for path in root.rglob("*") if path.suffix in _TYPES}


def _send(request: Request, path: Path, extra: Mapping[str, str]) -> Response:
    # The files change with the version installed: a browser asks each time and is mostly told that it has them.
    headers = {"Cache-Control": "no-cache", **extra}
    answer = FileResponse(path, media_type=_TYPES[path.suffix], headers=headers, stat_result=path.stat())
    if request.headers.get("if-none-match") == answer.headers["etag"]:
        return Response(status_code=304, headers={**headers, "ETag": answer.headers["etag"]})
    return answer


def _own(name: str) -> Path:
    # Looked up in a list and never put together from the request, so no name can lead outside.
    path = _files().get(name)
    if path is None:
        raise HTTPException(404)
    return path


@cache
def _plotly_bundle() -> Path:
    # Found without importing plotly, which takes a while.
    spec = find_spec("plotly")
    for place in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(place) / "package_data" / "plotly.min.js"
        if path.is_file():
            return path
    raise NotFoundError(
        "the plotly bundle is missing: package plotly has no package_data/plotly.min.js.",
        hint="Install it again: pip install --force-reinstall plotly",
    )
