"""Placeholders in the arguments and the environment of a program: ``--lr={lr}``."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from autotune.spec.values import JsonValue

BUILT_IN: Mapping[str, str] = {
    "steps": "training steps of the trial",
    "seed": "the trial's seed",
    "output_dir": "directory for what the program writes, one per trial and the same for each of its attempts",
    "config": "path of a JSON file with all parameters, steps and seed",
}
"""Placeholders that need not be declared."""

_PLACEHOLDER = re.compile(r"\{\{|\}\}|\{([A-Za-z_][\w.]*)\}")


def placeholders(text: str) -> list[str]:
    """The names in a text, in order. Braces around anything but a name are no placeholder; ``{{`` is a brace."""
    return [match[1] for match in _PLACEHOLDER.finditer(text) if match[1]]


def fill(text: str, values: Mapping[str, JsonValue]) -> str:
    """The text with every placeholder replaced.

    Raises:
        KeyError: If there is no value for a name.
    """
    return _PLACEHOLDER.sub(lambda match: written(values[match[1]]) if match[1] else match[0][0], text)


def written(value: JsonValue) -> str:
    """A value as an argument: a text as it is, anything else as JSON (``true``, ``null``, ``1e-05``)."""
    return value if isinstance(value, str) else json.dumps(value)
