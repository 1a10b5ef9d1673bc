"""The page at ``/``: the jobs, how far they are, and where to look further. Plain HTML, no script."""

from __future__ import annotations

from datetime import UTC, datetime
from html import escape
from math import isfinite
from urllib.parse import quote

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from autotune import __version__
from autotune.api.context import Service
from autotune.views import JobView

router = APIRouter()

_SHOWN = 100
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_STYLE = """
:root { color-scheme: light dark }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; width: 100% }
th, td { text-align: left; padding: .4rem .8rem .4rem 0; border-bottom: 1px solid #8884; vertical-align: top }
.number { text-align: right; font-variant-numeric: tabular-nums }
code { font-size: .95em } nav a { margin-right: 1rem }
"""


@router.get("/", include_in_schema=False)
def home(service: Service) -> HTMLResponse:
    """Shows the newest jobs."""
    page = service.jobs(None, _SHOWN, None)
    return HTMLResponse(_render(page.items, more=page.next is not None), headers={"Content-Security-Policy": _POLICY})


def _render(jobs: list[JobView], *, more: bool) -> str:
    rows = "".join(map(_row, jobs))
    table = (
        "<table><thead><tr><th>job</th><th>state</th><th>trials</th><th class=number>best</th>"
        "<th class=number>default</th><th>objective</th><th>submitted (UTC)</th><th></th></tr></thead>"
        f"<tbody>{rows}</tbody></table>"
        if jobs
        else "<p>No job yet. Start one with <code>autotune launch quickstart</code>.</p>"
    )
    note = f"<p>The newest {_SHOWN} jobs; all of them: <code>autotune jobs</code>.</p>" if more else ""
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>autotune</title><style>{_STYLE}</style><h1>autotune {escape(__version__)}</h1>"
        "<nav><a href='/dashboard'>Optuna Dashboard</a><a href='/docs'>API</a>"
        "<a href='/readyz'>health</a></nav><h2>Jobs</h2>"
        f"{table}{note}<p>This page shows the moment it was loaded; reload it for news.</p></html>"
    )


def _row(job: JobView) -> str:
    address = f"/v1/jobs/{quote(job.id, safe='')}"
    done = sum(count for state, count in job.trials.items() if state not in ("queued", "running", "paused"))
    states = ", ".join(f"{count} {state}" for state, count in job.trials.items() if count)
    error = f"<br>{escape(job.error.message)}" if job.error else ""
    submitted = datetime.fromtimestamp(job.created_at, UTC).strftime("%Y-%m-%d %H:%M")
    return (
        f"<tr><td><a href='{escape(address)}'>{escape(job.id)}</a><br>{escape(job.description)}</td>"
        f"<td>{escape(job.state)}{error}</td>"
        f"<td title='{escape(states)}'>{done} of {job.budget_trials}</td>"
        f"<td class=number>{_value(job.best_value)}</td><td class=number>{_value(job.default_value)}</td>"
        f"<td>{escape(job.objective.direction)} {escape(job.objective.metric)}</td><td>{submitted}</td>"
        f"<td><a href='{escape(address)}/report'>report</a></td></tr>"
    )


def _value(value: float | None) -> str:
    return f"{value:.4g}" if value is not None and isfinite(value) else "-"
