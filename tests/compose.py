"""Reads docker-compose.yml as `docker compose` does: merge keys, variables, what a service runs, its environment."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "docker-compose.yml"
_VARIABLE = re.compile(r"\$\{(?P<name>\w+)(?:(?P<how>:-|:\?)(?P<text>[^}]*))?\}")


def variables() -> dict[str, str]:
    """Name of each variable in the file -> how it is written: required, with a default, or plain."""
    return {found["name"]: found["how"] or "" for found in _VARIABLE.finditer(FILE.read_text("utf-8"))}


def compose(values: Mapping[str, str]) -> dict[str, Any]:
    """The file with its variables filled in."""

    def fill(found: re.Match[str]) -> str:
        value = values.get(found["name"], "")
        if not value and found["how"] == ":?":
            raise KeyError(f"{found['name']}: {found['text']}")
        return value or (found["text"] if found["how"] == ":-" else "")

    def walk(node: Any) -> Any:
        if isinstance(node, dict):
            return {key: walk(value) for key, value in node.items()}
        if isinstance(node, list):
            return [walk(item) for item in node]
        return _VARIABLE.sub(fill, node) if isinstance(node, str) else node

    document: dict[str, Any] = walk(yaml.safe_load(FILE.read_text("utf-8")))
    return document


def command(document: Mapping[str, Any], service: str) -> list[str]:
    """What a service runs."""
    return [str(part) for part in document["services"][service]["command"]]


def environment(document: Mapping[str, Any], service: str) -> dict[str, str]:
    """The environment that a service runs in."""
    return {name: str(value) for name, value in document["services"][service]["environment"].items()}
