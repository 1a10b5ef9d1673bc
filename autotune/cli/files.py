"""Finds and reads the space file that a person named."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from autotune.errors import AutotuneError, InvalidSpaceError, NotAllowedError, NotFoundError, UsageError

if TYPE_CHECKING:
    from autotune.client import Client
    from autotune.views import SpaceView

_SUFFIXES = (".yaml", ".yml", ".json")


@dataclass(frozen=True, kw_only=True, slots=True)
class SpaceFile:
    """The text of a space file and the name by which messages call it."""

    text: str
    name: str


def read_space(given: str, client: Client) -> SpaceFile:
    """Reads a file, ``-`` for stdin, or a shipped space by its name.

    Raises:
        NotFoundError: If there is no such file and no such shipped space; near names are offered.
        NotAllowedError: If the file may not be read.
        InvalidSpaceError: If the file is not UTF-8 text.
    """
    if given == "-":
        return SpaceFile(text=sys.stdin.read(), name="stdin.yaml")
    path = Path(given).expanduser()
    if path.is_dir():
        raise UsageError(f"{given} is a directory, a space file was expected.", hint=_offer(_files_in(path)))
    if path.exists():
        return _read(path, given)
    shipped = {} if path.parent != Path() else {space.name: space for space in _shipped(client)}
    found = shipped.get(given) or shipped.get(path.stem)
    if found is not None and Path(found.path).exists():
        return _read(Path(found.path), found.path)
    names = get_close_matches(path.name, [file.name for file in _files_in(path.parent)], n=3, cutoff=0.5)
    near = [str(path.parent / name) for name in names] + get_close_matches(path.stem, list(shipped), n=2, cutoff=0.5)
    ships = f" Shipped spaces: {', '.join(shipped)}." if shipped else ""
    meant = (
        f"Did you mean {' or '.join(near)}?"
        if near
        else "Name a file, or a shipped space as `autotune spaces` lists them."
    )
    raise NotFoundError(f"there is no space file {given!r}.", hint=meant + ships)


def _read(path: Path, name: str) -> SpaceFile:
    try:
        return SpaceFile(text=path.read_text(encoding="utf-8-sig"), name=name)
    except UnicodeDecodeError as error:
        raise InvalidSpaceError(
            f"{name} is not UTF-8 text: {error.reason} at byte {error.start}.", hint="Save the file as UTF-8."
        ) from error
    except OSError as error:
        raise NotAllowedError(f"{name} cannot be read: {error.strerror}.", hint="Give yourself read access.") from error


def _shipped(client: Client) -> list[SpaceView]:
    try:
        return client.spaces()
    except AutotuneError:
        # Only names to offer are lost; the message about the missing file matters more.
        return []


def _files_in(directory: Path) -> list[Path]:
    try:
        return sorted(path for path in directory.iterdir() if path.suffix in _SUFFIXES)
    except OSError:
        return []


def _offer(files: list[Path]) -> str:
    return f"It holds: {', '.join(str(file) for file in files[:5])}" if files else "It holds no YAML or JSON file."
