"""The shapes of what ``--json`` prints, and those that are promised."""

import json
from pathlib import Path

PROMISED = json.loads(Path(__file__).with_name("json_shapes.json").read_text())
"""Command -> the shape of its document; it changes only with the changelog."""
_FREE = {
    *("params", "metrics", "violations", "numbers", "trials", "pruned", "proposals", "values", "means"),
    *("versions", "seeds", "space", "kl_limits", "by_pruner"),
}


def shape(value, key=""):
    """Keys and kinds; the keys of tables that a person's own names fill are left out."""
    if isinstance(value, dict):
        if key in _FREE:
            return "table"
        return {name: shape(item, name) for name, item in sorted(value.items())}
    if isinstance(value, list):
        return [shape(value[0], key if key == "proposals" else "")] if value else []
    if value is None:
        return "null"
    return {bool: "boolean", int: "number", float: "number", str: "string"}[type(value)]
