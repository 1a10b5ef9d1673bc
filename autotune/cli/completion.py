"""What a shell offers after Tab: jobs, trials, stages and space files.

A person waits for it at every key, so it looks once and briefly. Whatever goes wrong, it offers nothing and is silent:
a message would land in the middle of the line that is being typed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from autotune.client import Client
    from autotune.settings import Settings
    from autotune.store import Store

Offer = list[tuple[str, str]]
"""Values that fit, each with what a shell may show beside it."""

_TARGETS = {
    "native": "a command that trains it without autotune",
    "verl": "the same in verl's keys",
    "yaml": "the whole configuration",
    "command": "a program's own command",
}
FORMS = {"html": ".html", "markdown": ".md", "json": ".json"}
"""Form of a report -> how its file's name ends."""
_JOBS = 100
_TRIALS = 500
_PATIENCE_S = 2.0


def complete_job(incomplete: str) -> Offer:
    """Ids of jobs, the newest first, with their states."""
    return _offer(incomplete, _jobs)


def complete_trial(ctx: typer.Context, incomplete: str) -> Offer:
    """Numbers of the trials of the job that stands on the line already, with their states."""
    job, stage = _job_on_the_line(ctx), ctx.params.get("stage")
    return _offer(incomplete, lambda: _trials(job, stage)) if job else []


def complete_stage(ctx: typer.Context, incomplete: str) -> Offer:
    """Names of the stages of the job that stands on the line already."""
    job = _job_on_the_line(ctx)
    return _offer(incomplete, lambda: _stages(job)) if job else []


def complete_space(incomplete: str) -> Offer:
    """Names of shipped spaces, and the YAML files and directories that the line may lead to."""
    return _offer(incomplete, lambda: [*_shipped(), *_files(incomplete)])


def complete_target(incomplete: str) -> Offer:
    """What a configuration can be exported to."""
    return _offer(incomplete, _TARGETS.items)


def complete_form(incomplete: str) -> Offer:
    """Forms of a report."""
    return _offer(incomplete, lambda: [(form, "") for form in FORMS])


def complete_state(incomplete: str) -> Offer:
    """States of a job."""
    from autotune.states import JobState

    return _offer(incomplete, lambda: [(str(state), "") for state in JobState])


def _offer(incomplete: str, look: Callable[[], Iterable[tuple[str, str]]]) -> Offer:
    try:
        return [(value, about) for value, about in look() if value.startswith(incomplete)]
    except Exception:  # noqa: BLE001 - see above
        return []


def _job_on_the_line(ctx: typer.Context) -> str | None:
    # While an option waits for its value the line is not parsed to its end, and arguments are not named yet.
    job: str | None = ctx.params.get("job") or next(iter(ctx.args), None)
    return job


def _jobs() -> Offer:
    if client := _remote():
        with client:
            return [(job.id, str(job.state)) for job in client.jobs(limit=_JOBS).items]
    store = _local()
    if store is None:
        return []
    with store.read() as work:
        return [(job.id, str(job.state)) for job in work.jobs.list(states=[], limit=_JOBS, after=None).items]


def _trials(job: str, stage: str | None) -> Offer:
    if client := _remote():
        with client:
            found = client.trials(job, stage=stage, limit=_TRIALS).items
            return [(str(trial.number), str(trial.state)) for trial in found]
    store = _local()
    if store is None:
        return []
    with store.read() as work:
        studies = [study for study in work.jobs.studies(job) if stage is None or study.title == stage]
        study = next((study for study in reversed(studies) if study.started_at is not None), studies[0])
        records = work.trials.list(job, study.stage, limit=_TRIALS)
        return [(str(record.trial.number), str(record.trial.state)) for record in records]


def _stages(job: str) -> Offer:
    if client := _remote():
        with client:
            return [(stage.name, str(stage.state)) for stage in client.job(job).stages]
    store = _local()
    if store is None:
        return []
    with store.read() as work:
        return [(study.title, "") for study in work.jobs.studies(job) if study.title]


def _shipped() -> Offer:
    from autotune.spec.catalogue import shipped_paths

    return [(name, "ships with autotune") for name in shipped_paths()]


def _files(incomplete: str) -> Offer:
    typed = incomplete if incomplete.endswith("/") else incomplete.rpartition("/")[0]
    folder = Path(typed or ("/" if incomplete.startswith("/") else ".")).expanduser()
    lead = incomplete[: incomplete.rfind("/") + 1]
    entries = sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))
    files = [(lead + entry.name, "") for entry in entries if entry.suffix in (".yaml", ".yml") and entry.is_file()]
    return files + [(f"{lead}{entry.name}/", "") for entry in entries if entry.is_dir()]


def _settings() -> Settings:
    from autotune.settings import load_settings

    return load_settings()


def _remote() -> Client | None:
    """The way to the service at ``AUTOTUNE_URL``, for one brief question."""
    settings = _settings()
    if not settings.url:
        return None
    from autotune.client import Client

    token = settings.token.get_secret_value() if settings.token else None
    return Client(settings.url, token=token, timeout=_PATIENCE_S, retries=0)


def _local() -> Store | None:
    """The study database for reading; opening it must not create one."""
    from autotune.store import Store

    store = Store(_settings().study_database)
    file = store.url.database if store.url.get_backend_name() == "sqlite" else None
    return None if file is not None and not Path(file).is_file() else store
