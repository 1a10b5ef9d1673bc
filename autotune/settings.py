"""What the environment says: every ``AUTOTUNE_*`` variable, read in one place."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal
from urllib.parse import quote, urlsplit, urlunsplit

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from autotune.errors import NotAllowedError, Problem, UsageError

LOCAL_MLFLOW = "http://127.0.0.1:5000"
"""Where ``autotune up`` serves MLflow unless it is told otherwise."""
ALLOWABLE: Mapping[str, str] = {
    "command": "programs of the person's own (`backend: command`)",
    "verl": "verl, with any interpreter and override (`backend: verl`)",
    "remote_code": "code that lies beside a model's weights (`trust_remote_code: true`)",
    "reward_functions": "reward functions that are named module:function",
}
"""Word of ``AUTOTUNE_ALLOW`` -> what it allows."""


class Settings(BaseSettings):
    """Settings of the command line and of the service, from ``AUTOTUNE_*`` variables."""

    model_config = SettingsConfigDict(env_prefix="AUTOTUNE_", env_ignore_empty=True, frozen=True, extra="ignore")

    home: Path = Field(default=Path("~/.autotune"), description="Where databases, trials and caches live.")
    url: str | None = Field(default=None, description="The service to talk to; without it the service runs embedded.")
    token: SecretStr | None = Field(default=None, description="The access token for the service at AUTOTUNE_URL.")
    requests_per_s: float = Field(default=50.0, gt=0, description="Requests a second that one token may make.")
    requests_at_once: int = Field(default=200, ge=1, description="Requests that one token may make in one go.")
    log_format: Literal["text", "json"] = Field(
        default="text",
        description="How log records are written: text, or json for JSON lines; with json the service writes them to "
        "stderr, every request included.",
    )
    allow: str = Field(
        default="",
        description="What spaces of token holders may run besides the built-in trainer: command, verl, remote_code, "
        "reward_functions; separated by commas.",
    )
    allow_paths: str = Field(
        default="",
        description="Directories whose models and data spaces of token holders may name; separated by colons. Names on "
        "the Hub, and what a trial finds in its own directory, need none.",
    )
    database_url: str | None = Field(default=None, description="SQLAlchemy URL of the study database.")
    mlflow_uri: str | None = Field(default=None, description="MLflow tracking URI.")
    ray_address: str | None = Field(default=None, description="A running Ray cluster; without it a local Ray starts.")
    grace_s: float = Field(default=20.0, gt=0, description="Seconds between SIGTERM and SIGKILL for a trial.")
    drain_s: float = Field(
        default=0.0,
        ge=0,
        description="Seconds that running trials may go on for when the service is told to go (SIGTERM); what is left "
        "then writes a checkpoint and goes on under the next service. 0 = all write one at once.",
    )
    warm_s: float = Field(
        default=3600.0,
        ge=0,
        description="Seconds that a machine keeps the trainer imported (0.3 GiB) after its last trial, so that the "
        "next one starts in a second. 0 = every trial starts a fresh interpreter, and no driver waits ready for the "
        "next job (0.2 GiB).",
    )
    jobs: int = Field(default=1, ge=1, description="Jobs that the service runs at a time on this machine.")
    gpu_memory_gib: float | None = Field(
        default=None, gt=0, description="Memory of one GPU where trials run (GiB); without it this machine's is asked."
    )
    lease_s: float = Field(default=30.0, gt=0, description="Seconds until the lease of a silent driver expires.")

    @field_validator("allow")
    @classmethod
    def _known_words(cls, text: str) -> str:
        for word in sorted(_words(text) - ALLOWABLE.keys()):
            raise ValueError(f"{word!r} is unknown; allowed are {', '.join(ALLOWABLE)}")
        return text

    @property
    def allowed(self) -> frozenset[str]:
        """What spaces of token holders may run besides the built-in trainer."""
        return _words(self.allow)

    @property
    def allowed_paths(self) -> tuple[Path, ...]:
        """Directories whose models and data spaces of token holders may name."""
        return tuple(Path(part).expanduser().resolve() for part in self.allow_paths.split(os.pathsep) if part.strip())

    @property
    def root(self) -> Path:
        """The home directory, expanded and absolute."""
        return self.home.expanduser().absolute()

    @property
    def study_database(self) -> str:
        """SQLAlchemy URL of the study database."""
        return self.database_url or _sqlite(self.root / "autotune.db")

    @property
    def tracking_uri(self) -> str:
        """MLflow tracking URI; MLflow has a database of its own."""
        return self.mlflow_uri or _sqlite(self.root / "mlflow.db")

    @property
    def mlflow_pages(self) -> str:
        """Where a browser finds MLflow: its server, or of a local database where ``autotune up`` serves it."""
        if not self.tracking_uri.startswith(("http://", "https://")):
            return LOCAL_MLFLOW
        parts = urlsplit(self.tracking_uri)
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/"), "", ""))

    @property
    def artifacts_dir(self) -> Path:
        """Where the files lie that Optuna Dashboard shows beside a study."""
        return self.root / "optuna-artifacts"

    def job_dir(self, job: str) -> Path:
        """Where a job keeps its trials, logs and reports."""
        return self.root / "jobs" / job

    def prepare_home(self) -> None:
        """Creates the home directory and makes sure that it can be written.

        Raises:
            NotAllowedError: If the directory cannot be created or written.
        """
        hint = "Choose a writable directory with AUTOTUNE_HOME=/some/dir, or give yourself write access."
        try:
            self.root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise NotAllowedError(
                f"cannot create the home directory {self.root}: {error.strerror or error}.", hint=hint
            ) from error
        probe = self.root / f".write-{os.getpid()}"
        try:
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise NotAllowedError(
                f"the home directory {self.root} cannot be written: {error.strerror or error}.", hint=hint
            ) from error


def _words(text: str) -> frozenset[str]:
    return frozenset(word.strip() for word in text.split(",") if word.strip())


def _sqlite(path: Path) -> str:
    # SQLAlchemy decodes percent signs in a URL, so a path that has one must be quoted.
    return f"sqlite:///{quote(str(path))}"


def load_settings() -> Settings:
    """Reads the environment.

    Raises:
        UsageError: If a variable has a value that is not allowed.
    """
    try:
        return Settings()
    except ValidationError as error:
        problems = [
            Problem(message=f"{item['msg']}, got {item['input']!r}", path="AUTOTUNE_" + str(item["loc"][0]).upper())
            for item in error.errors()
        ]
        raise UsageError(
            "the environment is not usable: " + "; ".join(map(str, problems)), problems=problems
        ) from error
