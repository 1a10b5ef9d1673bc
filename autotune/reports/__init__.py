"""The report of a job: one self-contained HTML page, and the same in Markdown and JSON beside it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from autotune.errors import NotAllowedError
from autotune.reports.facts import Material
from autotune.reports.html import render_html
from autotune.reports.json_report import render_json
from autotune.reports.markdown import render_markdown
from autotune.reports.samples import samples_of
from autotune.views import AdviceView, BestView, CurveView, EventView, JobView, TrialView

FORMATS: Mapping[str, str] = {"html": ".html", "markdown": ".md", "json": ".json"}
"""Form of the report -> how its file's name ends."""

__all__ = ["FORMATS", "write_report"]


def write_report(
    *,
    job: JobView,
    trials: Sequence[TrialView],
    curves: Sequence[CurveView],
    best: BestView | None,
    events: Sequence[EventView],
    document: Mapping[str, Any],
    directory: Path,
    advice: Sequence[AdviceView] = (),
) -> Path:
    """Writes the report in all its ``FORMATS``; a reader sees the old file or the new one, never half of one.

    Args:
        job: The job.
        trials: Its trials, by number.
        curves: Their curves.
        best: The best trial with its evidence; ``None`` when there is none.
        events: The job's record, oldest first.
        document: The space file as plain JSON.
        directory: Where the three files go; created when it is missing.
        advice: What the rules on curves found.

    Returns:
        The HTML file.

    Raises:
        NotAllowedError: If the files cannot be written.
    """
    material = Material(
        job=job,
        trials=trials,
        curves=curves,
        best=best,
        events=events,
        document=document,
        advice=advice,
        samples=samples_of(best, trials),
    )
    path = directory / "report.html"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        _write(directory / "report.md", render_markdown(material))
        _write(directory / "report.json", render_json(material))
        _write(path, render_html(material))
    except OSError as error:
        raise NotAllowedError(
            f"the report cannot be written to {directory}: {error.strerror or error}.",
            hint="Give yourself write access, or free some space.",
        ) from error
    return path


def _write(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        # Lone surrogates from broken log bytes must not cost the whole report.
        temporary.write_text(text, encoding="utf-8", errors="replace")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
