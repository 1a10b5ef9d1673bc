"""The space file: from text to a ``Space``, or to everything that is wrong with it at once."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from autotune.errors import InvalidSpaceError, NotAllowedError, NotFoundError
from autotune.spec import known
from autotune.spec.catalogue import shipped_paths
from autotune.spec.document import read_text
from autotune.spec.expressions import Expression
from autotune.spec.extends import Source, expand, is_path
from autotune.spec.nearest import did_you_mean
from autotune.spec.nodes import Place, Scalar, Table, join, places, plain
from autotune.spec.parameters import read_expression, read_search
from autotune.spec.prune import read_prune
from autotune.spec.reader import Report, Section, show
from autotune.spec.sections import (
    read_budget,
    read_constraints,
    read_finalists,
    read_name,
    read_objective,
    read_resources,
    read_retry,
    read_sampler,
)
from autotune.spec.starts import read_starts
from autotune.spec.trainer import read_trainer, with_places
from autotune.spec.types import Parameter, Space
from autotune.spec.values import JsonValue


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
    identity = str((directory / Path(file).name).resolve()) if directory is not None else ""
    source = Source(file=file, directory=directory, identity=identity)
    report = Report()
    table = expand(text, source, shipped_paths() if catalogue is None else catalogue, report)
    if table is None:
        report.close(file)
        raise InvalidSpaceError(f"{file} cannot be used.")
    space = _build(table, report)
    report.close(file)
    return space


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


def _build(table: Table, report: Report) -> Space:
    top = Section(table, "", report, known.TOP)
    search = _search(top)
    objective = read_objective(top)
    resources = read_resources(top)
    budget = read_budget(top, resources)
    starts = read_starts(top, search)
    if len(starts) > budget.trials and not any(p.path == "budget.trials" for p in report.problems):
        message = f"{len(starts)} configurations do not fit into a budget of {budget.trials} trials."
        top.complain("start_from", message, "Raise budget.trials or remove some.")
    trainer = dataclasses.replace(read_trainer(top), searched=tuple(search))
    for path in trainer.overrides.keys() & search.keys():
        place = _places(table)[f"trainer.overrides.{path}"]
        message = f"{path!r} is searched too, so it cannot have a fixed value."
        report.add(place, f"trainer.overrides.{path}", message, "Remove it here or under search.")
    return Space(
        name=read_name(top),
        description=top.text("description"),
        trainer=trainer,
        resources=resources,
        search=search,
        require=_require(top),
        objective=objective,
        constraints=read_constraints(top),
        sampler=read_sampler(top),
        prune=read_prune(top, objective.metric),
        budget=budget,
        retry=read_retry(top),
        start_from=starts,
        finalists=read_finalists(top),
        document=with_places(cast("Mapping[str, JsonValue]", plain(table)), trainer),
        marks=_places(table),
    )


def _search(top: Section) -> Mapping[str, Parameter]:
    entry = top.entry("search")
    hint = "Write for example search: {lr: {float: [1e-6, 1e-5], log: true}}"
    if entry is None and top.report.partial:
        return {}
    if entry is None or (isinstance(entry.node, Table) and not entry.node.entries):
        top.complain("search", "there is nothing to search: the section is missing or empty.", hint)
        return {}
    if not isinstance(entry.node, Table):
        top.complain("search", f"must be a mapping of parameters, got {show(entry.node)}.", hint)
        return {}
    return read_search(Section(entry.node, join("", "search"), top.report, entry.node.entries))


def _require(top: Section) -> tuple[Expression, ...]:
    found: list[Expression] = []
    for path, node in top.items("require", "[train_batch_size % mini_batch_size == 0]"):
        if isinstance(node, Scalar) and isinstance(node.value, str):
            expression = read_expression(node.value, node.place, path, top.report)
            found += [] if expression is None else [expression]
        else:
            message = f"must be a condition, got {show(node)}."
            top.report.add(node.place, path, message, 'Write for example "ppo_epochs <= 4"')
    return tuple(found)


def _places(table: Table) -> dict[str, Place]:
    return {"": table.place, **dict(places(table))}
