"""The space files that ship with the project."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from autotune.spec.document import read_document
from autotune.spec.nodes import Scalar


@dataclass(frozen=True, kw_only=True, slots=True)
class ShippedSpace:
    """One space file that ships with the project."""

    name: str
    description: str
    path: Path


def spaces_dir() -> Path:
    """Where they are: ``search_spaces/`` beside the package in a checkout, inside the package in an installed wheel."""
    package = Path(__file__).resolve().parent.parent
    checkout = package.parent / "search_spaces"
    is_checkout = (package.parent / "pyproject.toml").is_file() and checkout.is_dir()
    return checkout if is_checkout else package / "_search_spaces"


def shipped_paths() -> Mapping[str, Path]:
    """Name -> path of every shipped space; the name is the file's stem."""
    return {path.stem: path for path in sorted(spaces_dir().glob("*.yaml"), key=lambda path: path.stem)}


def shipped_spaces() -> list[ShippedSpace]:
    """Every shipped space with its description, by name."""
    return [
        ShippedSpace(name=name, description=_description(path), path=path) for name, path in shipped_paths().items()
    ]


def _description(path: Path) -> str:
    table, _ = read_document(path.read_text(encoding="utf-8"), path.name)
    entry = table.entries.get("description") if table is not None else None
    return str(entry.node.value) if entry is not None and isinstance(entry.node, Scalar) else ""
