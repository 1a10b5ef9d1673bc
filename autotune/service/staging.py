"""The stages of a job as they really run: which are over, and what each gets from those before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from autotune.backends.base import Backend
from autotune.errors import NotFoundError
from autotune.execution.checkpoints import steps_of
from autotune.search.book import History
from autotune.search.stages import Handover, StageVerdict, hand_over, receive
from autotune.search.types import Origin
from autotune.service.spaces import ResolvedSpace
from autotune.spec.nearest import did_you_mean
from autotune.spec.types import OnFail, Stage
from autotune.spec.values import FlatConfig
from autotune.store.values import Study

Load = Callable[[Study], History]
"""Reads the trials and curves of a study."""


def is_over(study: Study, stage: Stage | None) -> bool:
    """Whether a stage has ended in such a way that the next one may begin."""
    if stage is None or study.verdict is None:
        return False
    return bool(study.verdict.get("passed")) or stage.on_fail is OnFail.CONTINUE


def winner_of(study: Study) -> int | None:
    """The number of the trial with which a stage has ended; ``None`` before that, or without one."""
    winner = study.verdict.get("winner") if study.verdict else None
    return winner if isinstance(winner, int) else None


def shown(studies: Sequence[Study]) -> Study:
    """The stage that a job is at, or was at last."""
    begun = [study for study in studies if study.started_at is not None]
    return begun[-1] if begun else studies[0]


def named(studies: Sequence[Study], job: str, title: str | None) -> Study:
    """The stage of this name, the one that the job is at for ``None``.

    Raises:
        NotFoundError: If the job has no such stage; the message names those it has.
    """
    if title is None:
        return shown(studies)
    found = next((study for study in studies if study.title == title), None)
    if found is None:
        titles = [study.title for study in studies if study.title]
        has = f"its stages are {', '.join(titles)}" if titles else "it has none"
        raise NotFoundError(f"job {job!r} has no stage {title!r}; {has}.", hint=did_you_mean(title, titles))
    return found


def directory_of(job_dir: Path, study: Study) -> Path:
    """Where the trials of a study lie: in the job's directory, or in one of the stage's own inside it."""
    return job_dir / "stages" / study.title if study.title else job_dir


def handed_over(parts: Sequence[ResolvedSpace], studies: Sequence[Study], upto: int, load: Load) -> Handover:
    """What the stage at the place ``upto`` gets from those before it, which have ended."""
    given = Handover()
    for part, study in zip(parts[:upto], studies[:upto], strict=True):
        if part.stage is not None:
            history = load(study)
            given = hand_over(part.stage, winner_of(study), history.trials, history.curves, given)
    return given


def as_it_runs(part: ResolvedSpace, given: Handover) -> ResolvedSpace:
    """A search with what the stages before hand over."""
    if part.stage is None:
        return part
    space, base = receive(part.stage, part.base, given)
    carried = {path: base[path] for path in given.fixed if path in base and base[path] != part.base.get(path)}
    return replace(part, space=space, base=base, carried=carried)


def descent(
    backend: Backend, job_dir: Path, studies: Sequence[Study], load: Load
) -> Callable[[FlatConfig], Origin | None]:
    """Finds, for a configuration, the trial of an earlier stage that has trained its beginning already.

    Args:
        backend: Says which run continues which.
        job_dir: The job's directory.
        studies: The earlier stages.
        load: Reads their trials and curves.
    """
    found: list[tuple[FlatConfig, Origin]] = []
    for study in studies:
        history = load(study)
        for trial in history.trials:
            directory = directory_of(job_dir, study) / "trials" / f"{trial.number:04d}"
            steps = [step for step in steps_of(directory) if step <= trial.last_step]
            if steps:
                points = [point for point in history.curves.get(trial.number, ()) if point.step <= steps[-1]]
                name = f"trial {trial.number} of stage {study.title}"
                origin = Origin(directory=str(directory), step=steps[-1], name=name, points=points)
                found.append((trial.config, origin))
    found.sort(key=lambda one: -one[1].step)

    def find(config: FlatConfig) -> Origin | None:
        return next((origin for shorter, origin in found if backend.continues(shorter, config)), None)

    return find


def failure_hint(stage: Stage, verdict: StageVerdict, cause: str) -> str:
    """What to do about a stage that did not reach what it must."""
    if verdict.winner is None:
        advice = "Widen its search towards what is careful (smaller batches, less memory, a lower learning rate)"
        return f"{cause}. {advice}." if cause else f"{advice}."
    return (
        f"Everything measured is kept: autotune show JOB --stage {stage.name}. Search wider or longer, lower the "
        "criterion, or write on_fail: continue."
    )
