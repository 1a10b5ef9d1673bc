"""The report as one JSON document, for programs: the same facts as on the page, unrounded."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass

from autotune.reports.facts import Material, differences, kl_limits, savings, seeds, verdict, versions
from autotune.reports.importance import importance

SCHEMA = 1


def render_json(material: Material) -> str:
    """Builds the document; a number that is not finite becomes ``null``."""
    saved = savings(material.job, material.trials)
    document = {
        "schema": SCHEMA,
        "verdict": verdict(material),
        "job": material.job,
        "best": material.best,
        "differences": [] if material.best is None else differences(material.best),
        "trials": material.trials,
        "curves": material.curves,
        "savings": {**asdict(saved), "share": saved.share},
        "importance": importance(material.trials),
        "constraints": list(material.rules.get("constraints") or ()),
        "kl_limits": kl_limits(material.rules),
        "samples": material.samples,
        "advice": material.advice,
        "events": material.events,
        "reproduce": {"space": material.document, "seeds": seeds(material), "versions": versions()},
    }
    return json.dumps(_plain(document), indent=1, ensure_ascii=False, allow_nan=False, default=str) + "\n"


def _plain(value: object) -> object:
    if is_dataclass(value) and not isinstance(value, type):
        return _plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
