"""The report as Markdown, for issues, pull requests and terminals."""

from __future__ import annotations

import re
from collections.abc import Sequence

from autotune.reports.advice import FOLLOWED_HEADERS, advice_rows, followed_rows
from autotune.reports.advice import HEADERS as ADVICE_HEADERS
from autotune.reports.facts import (
    KL,
    STAGE_HEADERS,
    Material,
    constraint_rows,
    differences,
    duration,
    front_table,
    number,
    savings,
    seeds,
    stage_rows,
    verdict,
    versions,
    why,
)
from autotune.reports.importance import Association, importance

_SPECIAL = re.compile(r"([\\`*_\[\]<>|#])")


def render_markdown(material: Material) -> str:
    """Builds the file."""
    job = material.job
    lines = [f"# {_text(job.id)}", "", _text(verdict(material)), ""]
    if job.stages:
        lines += ["## Stages", "", *_table(STAGE_HEADERS, stage_rows(job)), ""]
        lines += [f"What follows is stage {_text(job.stage)}.", ""]
    if material.best is not None:
        rows = [[f"`{row.path}`", row.best, row.default] for row in differences(material.best)]
        finding = [material.best.finding, ""] if material.best.finding else []
        if material.best.front:
            headers, ahead = front_table(material.best)
            lines += ["## Front", "", *_table(headers, ahead), ""]
        lines += ["## Best configuration", "", *finding, *_table(["parameter", "best", "default"], rows), ""]
        lines += ["```text", *(_code(line) for line in material.best.overrides), "```", ""]
    trials = [
        [
            str(trial.number),
            trial.state,
            number(trial.value),
            number(trial.metrics.get(KL)),
            f"{trial.last_step}/{job.steps}",
            duration(trial.cost_s),
            why(trial),
        ]
        for trial in material.trials
    ]
    headers = ["trial", "state", job.objective.metric, KL, "steps", "cost", "why it ended"]
    lines += ["## Trials", "", *(_table(headers, trials) if trials else ["No trial has been proposed yet."]), ""]
    saved = savings(job, material.trials)
    lines += [
        "## Cost",
        "",
        f"{duration(job.cost_s)} of trials, {job.cost_gpu_hours:.2f} GPU-hours. Pruning saved {saved.steps_saved} of "
        f"{saved.steps_run + saved.steps_saved} training steps ({saved.share:.0%}).",
        "",
        *_constraints(material),
        *_importance(material),
        *_samples(material),
        *_advice(material),
        "## How to reproduce it",
        "",
        f"Space file: `{_code(job.directory)}/space.yaml`, seeds: "
        + ", ".join(f"{name} {seed}" for name, seed in seeds(material).items())
        + ".",
    ]
    if material.best is not None:
        lines += ["", "```bash", _code(material.best.command), "```"]
    made = ", ".join(f"{name} {found}" for name, found in versions().items())
    lines += ["", f"Made with {_text(made)}.", ""]
    return "\n".join(lines)


def _advice(material: Material) -> list[str]:
    rows = advice_rows(material.advice, material.best)
    found = ["## What the curves advise", "", *_table(ADVICE_HEADERS, rows), ""] if rows else []
    followed = followed_rows(material.job.advised)
    table = _table(FOLLOWED_HEADERS, followed)
    return [*found, "## What came of advice that was followed", "", *table, ""] if followed else found


def _constraints(material: Material) -> list[str]:
    rows = constraint_rows(material)
    headers = ["constraint", "the best trial", "trials that broke it"]
    return ["## Constraints", "", *_table(headers, rows), ""] if rows else []


def _importance(material: Material) -> list[str]:
    rows = [[f"`{row.path}`", _strength(row.objective), _strength(row.kl)] for row in importance(material.trials)]
    headers = ["parameter", material.job.objective.metric, KL]
    note = "Rank correlation with the result; in brackets where chance alone reaches as much."
    return ["## Importance", "", *_table(headers, rows), "", note, ""] if rows else []


def _strength(found: Association | None) -> str:
    if found is None:
        return "-"
    text = f"{found.strength:{'+' if found.signed else ''}.2f}"
    return text if found.sure else f"({text})"


def _samples(material: Material) -> list[str]:
    if not material.samples:
        return []
    rows = [
        [
            one.prompt,
            one.ground_truth,
            one.base.text if one.base else "-",
            number(one.base.reward) if one.base else "-",
            one.best.text,
            number(one.best.reward),
        ]
        for one in material.samples
    ]
    headers = ["prompt", "expected", "base", "reward", f"best, step {material.samples[0].step}", "reward"]
    return ["## Answers", "", *_table(headers, rows), ""]


def _table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [
        "| " + " | ".join(_text(header) for header in headers) + " |",
        "|" + " --- |" * len(headers),
        *("| " + " | ".join(_cell(cell) for cell in row) + " |" for row in rows),
    ]


def _cell(text: str) -> str:
    # A parameter's path comes as code already; a path holds neither a bar nor a backtick.
    return text if re.fullmatch(r"`[\w.@/-]+`", text) else _text(text)


def _text(text: str) -> str:
    """Text that Markdown takes literally, on one line."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def _code(text: str) -> str:
    """A line inside a code block, which a fence in it cannot end."""
    return " ".join(text.split()).replace("```", "'''")
