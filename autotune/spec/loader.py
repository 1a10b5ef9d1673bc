"""The space file: from text to a ``Space``, or to everything that is wrong with it at once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from autotune.errors import InvalidSpaceError, NotAllowedError, NotFoundError
from autotune.spec.building import build_space
from autotune.spec.catalogue import shipped_paths
from autotune.spec.document import read_text
from autotune.spec.extends import Source, expand, is_path
from autotune.spec.nearest import did_you_mean
from autotune.spec.reader import Report
from autotune.spec.types import Space


def load_space(
    text: str,
    *,
    file: str = "space.yaml",
    directory: Path | None = None,
    catalogue: Mapping[str, Path] | None = None,
) -> Space:
    """Reads a space from text.

    Args:
        text: YAML or JSON.
        file: What to call the text in messages.
        directory: Where relative paths of ``extends`` start; without it only shipped spaces can be extended, so that a
            text from somewhere else cannot make this process read files.
        catalogue: Name -> path of the spaces that ``extends`` may name; the shipped ones if not given.

    Raises:
        InvalidSpaceError: With every problem of the file, each with file, line, column, path and hint.
    """
    space, report = draft_space(text, file=file, directory=directory, catalogue=catalogue)
    report.close(file)
    return space


def draft_space(
    text: str,
    *,
    file: str = "space.yaml",
    directory: Path | None = None,
    catalogue: Mapping[str, Path] | None = None,
) -> tuple[Space, Report]:
    """Reads what can be read of a space, as `load_space` does, so that more can be found wrong with it.

    Returns:
        The space, and what is wrong with it so far. With problems it lacks what could not be read.

    Raises:
        InvalidSpaceError: If nothing of it can be read.
    """
    identity = str((directory / Path(file).name).resolve()) if directory is not None else ""
    source = Source(file=file, directory=directory, identity=identity)
    report = Report()
    table = expand(text, source, shipped_paths() if catalogue is None else catalogue, report)
    if table is None:
        report.close(file)
        raise InvalidSpaceError(f"{file} cannot be used.")
    return build_space(table, report), report


def read_space(path_or_name: str | Path) -> Space:
    """Reads a space from a file or, where no such file exists, by the name of a shipped space.

    Raises:
        NotFoundError: If there is neither.
        NotAllowedError: If the file cannot be read.
        InvalidSpaceError: If it cannot be used.
    """
    shipped = shipped_paths()
    path = Path(path_or_name)
    name = str(path_or_name)
    if not path.is_file():
        if name not in shipped or is_path(name):
            kind = "is a directory, not a space file" if path.is_dir() else "does not exist"
            hint = did_you_mean(path.stem, shipped)
            raise NotFoundError(
                f"the space {name!r} {kind}.",
                hint=f"Give the path of a space file or the name of a shipped one. {hint}",
            )
        path = shipped[name]
        name = path.name
    try:
        text = read_text(path)
    except OSError as error:
        raise NotAllowedError(
            f"cannot read {name}: {error.strerror or error}.", hint="Give yourself read access to the file."
        ) from error
    except UnicodeDecodeError as error:
        raise InvalidSpaceError(f"{name} is not UTF-8 text.", hint="Save it as UTF-8.") from error
    return load_space(text, file=name, directory=path.parent, catalogue=shipped)
