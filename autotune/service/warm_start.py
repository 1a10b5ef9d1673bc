"""Looks up what a space wants to start from: the best configurations of earlier jobs and of Optuna's studies.

They are written into the job's document as plain values when it is submitted, so that the job never needs the other one
again and a driver that takes over starts from the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from autotune.errors import AutotuneError, InvalidSpaceError, NotFoundError, Problem
from autotune.search.ranking import ranked
from autotune.search.stages import fitted
from autotune.service.present import objective_of, stage_document
from autotune.service.spaces import ResolvedSpace, resolve_document
from autotune.service.staging import shown
from autotune.spec.aliases import resolve
from autotune.spec.configs import complete, start_params
from autotune.spec.places import place_of
from autotune.spec.types import Space, Start, WarmStart
from autotune.spec.values import FlatConfig, JsonValue
from autotune.store import Store


def look_up(resolved: ResolvedSpace, file: str, store: Store) -> ResolvedSpace:
    """The space with its warm starts replaced by plain values: moved into the ranges, none twice.

    Raises:
        InvalidSpaceError: If an earlier search does not exist, found nothing, or has no parameter in common with this
            one; with every such problem at its place in the file.
    """
    if not any(part.space.warm_starts for part in resolved.parts):
        return resolved
    document = json.loads(json.dumps(resolved.document))
    problems: list[Problem] = []
    for index, part in enumerate(resolved.parts):
        own = document["stages"][index] if resolved.stages else document
        prefix = f"stages[{index}]." if resolved.stages else ""
        if part.space.warm_starts:
            own["start_from"] = _replaced(part, own["start_from"], prefix, store, problems)
    if problems:
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        raise InvalidSpaceError(
            f"{file} cannot be used: {count}.", hint="See the jobs there are with: autotune jobs", problems=problems
        )
    return resolve_document(document, file)


def _replaced(
    part: ResolvedSpace, items: Sequence[JsonValue], prefix: str, store: Store, problems: list[Problem]
) -> list[JsonValue]:
    """The items of ``start_from`` with plain values in place of the names of earlier searches."""
    space, base = part.space, part.base
    written = {warm.place: warm for warm in space.warm_starts}
    known = [start_params(space, base, start) for start in space.start_from]
    room = space.budget.trials - len(known)
    found: list[JsonValue] = []
    for place, item in enumerate(items):
        if place not in written:
            found.append(item)
            continue
        try:
            configs = _configurations(space, written[place], store)
        except AutotuneError as error:
            path = f"start_from[{place}]"
            file, line, column = place_of(space, path)
            problems.append(
                Problem(message=error.message, hint=error.hint, path=prefix + path, file=file, line=line, column=column)
            )
            continue
        for values in configs:
            start = fitted(space, Start(label="", values=values))
            params = start_params(space, base, start)
            meets = all(condition.holds(complete(space, base, params)) for condition in space.require)
            if params not in known and meets and room > 0:
                known.append(params)
                found.append(dict(start.values))
                room -= 1
    return found


def _configurations(space: Space, warm: WarmStart, store: Store) -> list[FlatConfig]:
    """The best configurations of an earlier search, best first, for the parameters that this space searches."""
    if warm.job:
        return _of_job(space, warm, store)
    from autotune.search.importing import best_of_study

    configs = best_of_study(warm.optuna, warm.study, warm.top)
    named = [
        {name if name in space.search else resolve(name): value for name, value in config.items()} for config in configs
    ]
    _refuse_strangers(space, {path for config in named for path in config}, warm.study or warm.optuna)
    return [{path: value for path, value in config.items() if path in space.search} for config in named]


def _of_job(space: Space, warm: WarmStart, store: Store) -> list[FlatConfig]:
    with store.read() as work:
        job = work.jobs.get(warm.job)
        study = shown(work.jobs.studies(job.id))
        trials = [record.trial for record in work.trials.list(job.id, study.stage)]
    document: Mapping[str, Any] = stage_document(job.document, study.stage)
    best = ranked(trials, objective_of(document))[: warm.top]
    if not best:
        raise NotFoundError(
            f"job {job.id!r} ({job.state}) has no trial that completed within its constraints.",
            hint=f"See its trials with: autotune show {job.id}",
        )
    _refuse_strangers(space, {path for trial in best for path in trial.params}, f"job {job.id!r}")
    # What the earlier job had fixed counts too, where it is searched now.
    return [{path: trial.config[path] for path in space.search if path in trial.config} for trial in best]


def _refuse_strangers(space: Space, searched: set[str], what: str) -> None:
    if not searched & space.search.keys():
        raise NotFoundError(
            f"{what} searched another space: {', '.join(sorted(searched)) or 'nothing'}; here "
            f"{', '.join(space.search)} is searched.",
            hint="Start from a search that has a parameter in common with this one, or write the values themselves.",
        )
