"""The plots as Plotly figures in plain JSON: curves over steps, and parallel coordinates.

Parallel coordinates are drawn with ordinary lines instead of Plotly's own trace: that one needs WebGL, compiles code
at run time, and can show neither a missing parameter nor a trial without a value.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from autotune.reports.facts import KL, Material, kl_limits, number, text_of, why
from autotune.states import TrialState
from autotune.views import TrialView

Figure = dict[str, Any]

_COLOURS = (
    "#3366cc",
    "#0f9d8a",
    "#8e44ad",
    "#c2185b",
    "#5d8c2a",
    "#b8860b",
    "#00838f",
    "#6d4c41",
    "#455a64",
    "#7b6fd0",
)
_BEST, _LIMIT, _FADED = "#d35400", "#b00020", 0.38
_GAP, _SPARSE = 0.07, 30
_LINES = 500
"""Most lines of parallel coordinates: more are one dark cloud that takes long to draw."""


def curve_figure(material: Material) -> Figure | None:
    """Objective, reward and KL of every trial over a shared step axis; ``None`` when no curve has a point."""
    wanted = dict.fromkeys((material.job.objective.metric, "reward/mean", KL))
    panels = [metric for metric in wanted if any(_has_points(curve.metrics.get(metric)) for curve in material.curves)]
    if not panels:
        return None
    trials = {trial.number: trial for trial in material.trials}
    traces: list[dict[str, Any]] = []
    shown: set[int] = set()
    for panel, metric in enumerate(panels):
        for curve in material.curves:
            trial = trials.get(curve.trial)
            values = curve.metrics.get(metric)
            if trial is None or values is None or not _has_points(values):
                continue
            points = [(x, y) for x, y in zip(curve.steps, values, strict=False) if y is not None and math.isfinite(y)]
            traces.append(_line(material, trial, metric, points, panel, legend=trial.number not in shown))
            shown.add(trial.number)
    return {"data": traces, "layout": _curve_layout(material, panels)}


def _has_points(values: Sequence[float | None] | None) -> bool:
    return any(value is not None and math.isfinite(value) for value in values or ())


def _line(
    material: Material,
    trial: TrialView,
    metric: str,
    points: Sequence[tuple[int, float]],
    panel: int,
    *,
    legend: bool,
) -> dict[str, Any]:
    best = trial.number == material.job.best_trial
    completed = trial.state in (TrialState.COMPLETED, TrialState.RUNNING)
    role = " (best)" if best else " (default)" if trial.source == "default" else ""
    reason = why(trial)
    hover = f"trial {trial.number} ({trial.state}{', best' if best else ''})" + (
        f"<br>{escape(reason)}" if reason else ""
    )
    return {
        "type": "scatter",
        "mode": "lines+markers" if len(points) <= _SPARSE else "lines",
        "name": f"{trial.number} {trial.state}{role}",
        "legendgroup": str(trial.number),
        "showlegend": legend,
        "x": [x for x, _ in points],
        "y": [y for _, y in points],
        "yaxis": _axis("y", panel),
        "opacity": 1.0 if completed else _FADED,
        "line": {
            "color": _colour(material, trial),
            "width": 3.5 if best else 1.6,
            "dash": "dash" if trial.source == "default" else "solid",
        },
        "marker": {"size": 4},
        "hovertemplate": f"{hover}<br>step %{{x}}: {escape(metric)} %{{y:.4g}}<extra></extra>",
    }


def _curve_layout(material: Material, panels: Sequence[str]) -> dict[str, Any]:
    height = (1 - _GAP * (len(panels) - 1)) / len(panels)
    layout: dict[str, Any] = {
        "height": 120 + 250 * len(panels),
        "margin": {"l": 70, "r": 20, "t": 20, "b": 50},
        "hovermode": "closest",
        "legend": {"title": {"text": "trial"}},
        "xaxis": {"title": {"text": "training step"}, "anchor": _axis("y", len(panels) - 1), "rangemode": "tozero"},
        "shapes": [],
        "annotations": [],
    }
    for panel, metric in enumerate(panels):
        top = 1 - panel * (height + _GAP)
        axis = {"title": {"text": escape(metric)}, "domain": [max(0.0, top - height), top], "zeroline": False}
        layout[_axis("yaxis", panel)] = axis
        if metric == KL:
            _draw_limits(layout, kl_limits(material.rules), _axis("y", panel))
    return layout


def _draw_limits(layout: dict[str, Any], limits: Mapping[str, float], axis: str) -> None:
    for place, (label, bound) in enumerate(limits.items()):
        line = {"color": _LIMIT, "width": 1.5, "dash": "dot"}
        layout["shapes"].append(
            {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "yref": axis, "y0": bound, "y1": bound, "line": line}
        )
        layout["annotations"].append(
            {
                "xref": "paper",
                "x": 0.02 + 0.25 * place,
                "xanchor": "left",
                "yref": axis,
                "y": bound,
                "yanchor": "bottom",
                "text": escape(label),
                "showarrow": False,
                "font": {"color": _LIMIT, "size": 11},
            }
        )


def parallel_figure(material: Material) -> Figure | None:
    """Each trial as a line through its parameters to its value; ``None`` when there are not two trials to compare."""
    trials = [trial for trial in material.trials if trial.params]
    if len(trials) < 2:
        return None
    paths = list(dict.fromkeys(path for trial in trials for path in trial.params))
    metric = material.job.objective.metric
    scales = [_scale([trial.params.get(path) for trial in trials]) for path in paths]
    scales.append(_scale([_finite(trial.value) for trial in trials]))
    traces = []
    # The best one is drawn last, on top of the others.
    order = sorted(trials, key=lambda trial: (trial.number == material.job.best_trial, trial.value is not None))
    for trial in order[-_LINES:]:
        column = [trial.params.get(path) for path in paths] + [_finite(trial.value)]
        marks = [
            (place, height)
            for place, (scale, value) in enumerate(zip(scales, column, strict=True))
            if (height := scale.height(value)) is not None
        ]
        traces.append(_parallel_line(material, trial, marks))
    names = [path.rpartition(".")[2] for path in paths]
    unique = [name if names.count(name) == 1 else path for name, path in zip(names, paths, strict=True)]
    return {"data": traces, "layout": _parallel_layout([*unique, metric], scales)}


class _Scale:
    """Places the values of one axis between 0 and 1.

    Args:
        ticks: Height -> label.
    """

    def __init__(self, heights: Mapping[str, float], ticks: Mapping[float, str]) -> None:
        self._heights = heights
        self.ticks = ticks

    def height(self, value: object) -> float | None:
        """Where a value lies; ``None`` for one that is missing."""
        return None if value is None else self._heights[repr(value)]


def _scale(values: Sequence[object]) -> _Scale:
    present = [value for value in values if value is not None]
    numbers = [
        float(v) for v in present if isinstance(v, (int, float)) and not isinstance(v, bool) and math.isfinite(v)
    ]
    if len(numbers) < len(present):
        options = sorted({repr(value): text_of(value) for value in present}.items(), key=lambda item: item[1])
        last = max(1, len(options) - 1)
        heights = {key: 0.5 if len(options) == 1 else index / last for index, (key, _) in enumerate(options)}
        return _Scale(heights, {heights[key]: text for key, text in options})
    low, high = min(numbers, default=0.0), max(numbers, default=1.0)
    # More than a decade of positive values is read best on a logarithmic axis.
    log = low > 0 and high / low > 10

    def place(value: float) -> float:
        if high == low:
            return 0.5
        if log:
            return math.log(value / low) / math.log(high / low)
        return (value - low) / (high - low)

    heights = {repr(value): place(float(value)) for value in present if isinstance(value, (int, float))}
    middle = math.sqrt(low * high) if log else (low + high) / 2
    marked = (
        set(numbers) if all(isinstance(v, int) for v in present) and len(set(numbers)) <= 6 else {low, middle, high}
    )
    ticks = {place(value): number(value, 3) for value in marked}
    return _Scale(heights, ticks)


def _parallel_line(material: Material, trial: TrialView, marks: Sequence[tuple[int, float]]) -> dict[str, Any]:
    best = trial.number == material.job.best_trial
    params = "<br>".join(f"{escape(path)} = {escape(text_of(value))}" for path, value in trial.params.items())
    head = f"trial {trial.number} ({trial.state}), value {number(trial.value)}"
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "x": [place for place, _ in marks],
        "y": [height for _, height in marks],
        "opacity": 1.0 if best else 0.75 if trial.state == TrialState.COMPLETED else _FADED,
        "line": {"color": _colour(material, trial), "width": 4 if best else 1.6},
        "marker": {"size": 6},
        "showlegend": False,
        "hovertemplate": f"{head}<br>{params}<extra></extra>",
    }


def _parallel_layout(names: Sequence[str], scales: Sequence[_Scale]) -> dict[str, Any]:
    annotations = [
        {"x": place, "y": height, "text": escape(label), "showarrow": False, "xanchor": "left", "xshift": 6,
         "font": {"size": 11, "color": "#555"}, "bgcolor": "rgba(255,255,255,0.7)"}
        for place, scale in enumerate(scales)
        for height, label in scale.ticks.items()
    ]  # fmt: skip
    axes = [
        {"type": "line", "x0": place, "x1": place, "y0": 0, "y1": 1, "line": {"color": "#999", "width": 1}}
        for place in range(len(names))
    ]
    return {
        "height": 430,
        "margin": {"l": 40, "r": 60, "t": 50, "b": 20},
        "hovermode": "closest",
        "xaxis": {
            "tickvals": list(range(len(names))), "ticktext": [escape(name) for name in names], "side": "top",
            "showgrid": False, "zeroline": False, "range": [-0.15, len(names) - 0.65],
        },
        "yaxis": {"visible": False, "range": [-0.06, 1.06]},
        "shapes": axes,
        "annotations": annotations,
    }  # fmt: skip


def _colour(material: Material, trial: TrialView) -> str:
    return _BEST if trial.number == material.job.best_trial else _COLOURS[trial.number % len(_COLOURS)]


def _axis(name: str, panel: int) -> str:
    return name if panel == 0 else f"{name}{panel + 1}"


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
