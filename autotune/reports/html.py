"""The report as one HTML page that opens without a network. Everything that came from outside is escaped."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape

import yaml

from autotune.reports.advice import FOLLOWED_HEADERS, advice_rows, followed_rows
from autotune.reports.advice import HEADERS as ADVICE_HEADERS
from autotune.reports.facts import (
    KL,
    STAGE_HEADERS,
    Material,
    differences,
    duration,
    front_table,
    number,
    savings,
    seeds,
    stage_rows,
    text_of,
    verdict,
    versions,
    why,
)
from autotune.reports.figures import Figure, curve_figure, parallel_figure
from autotune.reports.html_evidence import constraints, importances, samples
from autotune.views import BestView, TrialView

_EVENTS = 300
_ROWS = 300
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #222; background: #fff; max-width: 76rem; margin: 2rem auto;
  padding: 0 1rem }
h2 { margin-top: 2.2rem; border-bottom: 1px solid #ddd }
.verdict { font-size: 1.2rem; background: #f4f7fb; border-left: 4px solid #3366cc; padding: .8rem 1rem }
.scroll { overflow-x: auto }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
th, td { text-align: left; padding: .25rem .9rem .25rem 0; border-bottom: 1px solid #e5e5e5; vertical-align: top }
td.n, th.n { text-align: right }
tr.best { background: #fff3e6 } tr.changed td { font-weight: 600 } tr.faded { color: #777 }
pre { background: #f6f6f6; padding: .8rem; overflow-x: auto } code, pre { font-size: .9em }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1.2rem } dt { color: #666 } dd { margin: 0 }
.note { color: #666 } .faint { color: #999 } .bar { display: inline-block; height: .7em; background: currentColor }
td.text { white-space: pre-wrap; overflow-wrap: anywhere; min-width: 6rem; max-width: 26rem }
@page { margin: 15mm }
@media print {
  body { max-width: none; margin: 0; font-size: 10pt } .scroll { overflow: visible } details { display: none }
  h2 { break-after: avoid } tr, .plot, pre { break-inside: avoid }
  pre { white-space: pre-wrap; overflow-wrap: anywhere }
  .verdict, tr.best, .bar { print-color-adjust: exact } th, td { padding-right: .5rem }
}
"""
_SCRIPT = """
for (const holder of document.querySelectorAll('.plot')) {
  const figure = JSON.parse(document.getElementById(holder.dataset.figure).textContent);
  Object.assign(figure.layout, {paper_bgcolor: 'rgba(0,0,0,0)', plot_bgcolor: 'rgba(0,0,0,0)'});
  Plotly.newPlot(holder, figure.data, figure.layout, {responsive: true, displaylogo: false});
}
"""


def render_html(material: Material) -> str:
    """Builds the page."""
    title = f"{material.job.id}: report"
    figures = {"curves": curve_figure(material), "parallel": parallel_figure(material)}
    body = [
        f"<h1>{escape(material.job.id)}</h1>",
        f"<p>{escape(material.job.description)}</p>" if material.job.description else "",
        f"<p class=verdict>{escape(verdict(material))}</p>",
        _facts(material),
        _stages(material),
        _best(material),
        constraints(material),
        "<h2>Curves</h2>",
        _holder("curves", figures["curves"], "No trial has reported a step yet."),
        _left_out(material),
        "<p class=note>Pruned and failed trials are faded, the default configuration is dashed, the best trial is "
        "thick. A click on a trial in the legend hides it, a double click shows it alone.</p>",
        "<h2>Parameters</h2>",
        _holder("parallel", figures["parallel"], "Parallel coordinates need two trials with searched parameters."),
        "<p class=note>Each line is a trial, from its parameters to its value on the last axis. A line that ends "
        "early has no value, a line that skips an axis does not have that parameter.</p>",
        importances(material),
        samples(material),
        _trials(material),
        _pruning(material),
        _advice(material),
        _reproduce(material),
        _events(material),
    ]
    return (
        "<!doctype html>\n<html lang=en><head><meta charset=utf-8>"
        "<meta name=viewport content='width=device-width, initial-scale=1'>"
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>\n<body>{''.join(body)}"
        f"{_scripts(figures)}</body></html>\n"
    )


def _left_out(material: Material) -> str:
    """Says so where there are too many trials to draw or to list them all."""
    missing = sum(trial.last_step > 0 for trial in material.trials) - len(material.curves)
    if missing <= 0 or len(material.trials) <= _ROWS:
        return ""
    return f"<p class=note>{missing} of {len(material.trials)} trials are not drawn here.</p>"


def _scripts(figures: dict[str, Figure | None]) -> str:
    drawn = {name: figure for name, figure in figures.items() if figure is not None}
    if not drawn:
        return ""
    from plotly.offline import get_plotlyjs

    data = "".join(
        f"<script type='application/json' id='figure-{name}'>{_embedded(figure)}</script>"
        for name, figure in drawn.items()
    )
    return f"{data}<script>{get_plotlyjs()}</script><script>{_SCRIPT}</script>"


def _embedded(figure: Figure) -> str:
    """JSON that cannot end the script element it lies in."""
    return json.dumps(figure, allow_nan=False).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _holder(name: str, figure: Figure | None, otherwise: str) -> str:
    if figure is None:
        return f"<p class=note>{escape(otherwise)}</p>"
    return f"<div class=plot data-figure='figure-{name}'></div>"


def _facts(material: Material) -> str:
    job = material.job
    ran = None if job.started_at is None or job.ended_at is None else job.ended_at - job.started_at
    counts = ", ".join(f"{count} {state}" for state, count in job.trials.items() if count) or "none"
    return _definitions(
        [
            ("state", job.state),
            ("error", f"{job.error.kind}: {job.error.message} {job.error.hint}" if job.error else ""),
            ("objective", ", ".join(f"{one.direction} {one.metric}" for one in job.objectives or [job.objective])),
            ("constraints", "; ".join(map(str, material.rules.get("constraints") or ()))),
            ("trials", f"{counts} (budget {job.budget_trials}, {job.parallel} at a time, {job.steps} steps each)"),
            ("started", _moment(job.started_at)),
            ("took", duration(ran)),
            ("cost", f"{duration(job.cost_s)} of trials, {job.cost_gpu_hours:.2f} GPU-hours"),
            ("MLflow run", job.mlflow_run or ""),
        ]
    )


def _stages(material: Material) -> str:
    """What each stage has come to; nothing for a job without stages."""
    job = material.job
    if not job.stages:
        return ""
    head = "".join(f"<th>{escape(name)}</th>" for name in STAGE_HEADERS)
    rows = "".join(
        f"<tr{' class=best' if row[0] == job.stage else ''}>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>"
        for row in stage_rows(job)
    )
    return (
        f"<h2>Stages</h2><div class=scroll><table><tr>{head}</tr>{rows}</table></div>"
        f"<p class=note>What follows is stage {escape(job.stage)}.</p>"
    )


def _best(material: Material) -> str:
    best = material.best
    if best is None:
        return ""
    rows = "".join(
        f"<tr{' class=changed' if row.changed else ''}><td><code>{escape(row.path)}</code></td>"
        f"<td>{escape(row.best)}</td><td>{escape(row.default)}</td></tr>"
        for row in differences(best)
    )
    checkpoint = f"<p>Checkpoint: <code>{escape(best.checkpoint)}</code></p>" if best.checkpoint else ""
    return (
        f"{_front(best)}<h2>Best configuration</h2>{_finalists(best)}"
        f"<table><tr><th>parameter</th><th>trial {best.trial.number}</th><th>default</th></tr>{rows}</table>"
        f"<p>As Hydra overrides, with everything that differs from the configuration:</p>"
        f"<pre>{escape(chr(10).join(best.overrides))}</pre>{checkpoint}"
    )


def _front(best: BestView) -> str:
    """The trials that nobody beats in everything; nothing with one objective."""
    if not best.front:
        return ""
    headers, ahead = front_table(best)
    head = "".join(f"<th class=n>{escape(text)}</th>" for text in headers)
    rows = "".join(f"<tr>{''.join(f'<td class=n>{escape(cell)}</td>' for cell in row)}</tr>" for row in ahead)
    return f"<h2>Front</h2><table><tr>{head}</tr>{rows}</table>"


def _finalists(best: BestView) -> str:
    """The runs with fresh seeds and what they say; nothing where there were none."""
    if not best.finalists:
        return ""
    rows = "".join(
        f"<tr><td class=n>{one.trial}</td><td class=n>{number(one.mean)}</td>"
        f"<td class=n>{'' if one.half is None else '&plusmn; ' + number(one.half)}</td>"
        f"<td>{', '.join(number(value) for value in one.values)}</td><td class=n>{one.lost}</td></tr>"
        for one in best.finalists
    )
    return (
        f"<p>{escape(best.finding)}</p><table><tr><th class=n>finalist</th><th class=n>mean</th>"
        f"<th class=n>95 % interval</th><th>fresh seeds</th><th class=n>lost</th></tr>{rows}</table>"
    )


def _trials(material: Material) -> str:
    paths = list(dict.fromkeys(path for trial in material.trials for path in trial.params))
    head = "".join(f"<th title='{escape(path)}'>{escape(path.rpartition('.')[2])}</th>" for path in paths)
    rows = "".join(_trial_row(material, trial, paths) for trial in material.trials)
    return (
        "<h2>Trials</h2><div class=scroll><table><tr><th class=n>trial</th><th>state</th>"
        f"<th class=n>{escape(material.job.objective.metric)}</th><th class=n>{KL}</th><th class=n>steps</th>"
        f"<th class=n>cost</th><th>why it ended</th>{head}<th>source</th></tr>{rows}</table></div>"
        if material.trials
        else "<h2>Trials</h2><p class=note>No trial has been proposed yet.</p>"
    )


def _trial_row(material: Material, trial: TrialView, paths: Sequence[str]) -> str:
    best = trial.number == material.job.best_trial
    style = "best" if best else "" if trial.state in ("completed", "running") else "faded"
    cells = "".join(
        f"<td>{escape(text_of(trial.params[path])) if path in trial.params else '-'}</td>" for path in paths
    )
    return (
        f"<tr class='{style}'><td class=n>{trial.number}</td><td>{escape(trial.state)}{' (best)' if best else ''}</td>"
        f"<td class=n>{number(trial.value)}</td><td class=n>{number(trial.metrics.get(KL))}</td>"
        f"<td class=n>{trial.last_step}/{material.job.steps}</td><td class=n>{duration(trial.cost_s)}</td>"
        f"<td>{escape(why(trial))}</td>{cells}<td>{escape(trial.source)}</td></tr>"
    )


def _pruning(material: Material) -> str:
    saved = savings(material.job, material.trials)
    by = ", ".join(f"{count} by {pruner}" for pruner, count in sorted(saved.by_pruner.items()))
    if not by:
        return "<h2>What pruning saved</h2><p>No trial was pruned.</p>"
    return (
        f"<h2>What pruning saved</h2><p>{escape(by)}. {saved.steps_saved} of {saved.steps_run + saved.steps_saved} "
        f"training steps were not run ({saved.share:.0%}), about {duration(saved.seconds_saved)} at each trial's own "
        "speed.</p>"
    )


def _advice(material: Material) -> str:
    rows = advice_rows(material.advice, material.best)
    found = followed = ""
    if rows:
        note = "Rules on each trial's curves. They say what to try next, not what is certain."
        found = f"<h2>What the curves advise</h2><p class=note>{note}</p>{_table(ADVICE_HEADERS, rows)}"
    if material.job.advised:
        table = _table(FOLLOWED_HEADERS, followed_rows(material.job.advised))
        followed = f"<h2>What came of advice that was followed</h2>{table}"
    return found + followed


def _table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in headers)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<div class=scroll><table><tr>{head}</tr>{body}</table></div>"


def _reproduce(material: Material) -> str:
    document = yaml.safe_dump(json.loads(json.dumps(material.document, default=str)), sort_keys=False)
    again = ["autotune launch space.yaml    # the space file below, with its seed"]
    if material.best is not None:
        again += ["", "# the best configuration alone:", material.best.command]
    made = ", ".join(f"{name} {found}" for name, found in versions().items())
    return (
        f"<h2>How to reproduce it</h2><pre>{escape(chr(10).join(again))}</pre>"
        + _definitions(
            [
                ("seeds", ", ".join(f"{name} {seed}" for name, seed in seeds(material).items())),
                ("versions", made),
                ("files", material.job.directory),
            ]
        )
        + f"<details><summary>The space file, as it was resolved</summary><pre>{escape(document)}</pre></details>"
    )


def _events(material: Material) -> str:
    if not material.events:
        return ""
    rows = "".join(
        f"<tr><td>{_moment(event.at)}</td><td>{escape(event.kind)}</td>"
        f"<td class=n>{'' if event.trial is None else event.trial}</td><td>{escape(event.text)}</td></tr>"
        for event in material.events[-_EVENTS:]
    )
    total = len(material.events)
    which = f"the last {_EVENTS} of {total}" if total > _EVENTS else f"{total}"
    return (
        f"<details><summary>Record ({which} entries)</summary><div class=scroll><table><tr><th>time (UTC)</th>"
        f"<th>kind</th><th class=n>trial</th><th>what</th></tr>{rows}</table></div></details>"
    )


def _definitions(facts: Iterable[tuple[str, str]]) -> str:
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in facts if text)
    return f"<dl>{rows}</dl>"


def _moment(at: float | None) -> str:
    return "-" if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")
