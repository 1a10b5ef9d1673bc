"""Whether what the service stands on is there: the parts that it needs to answer, and those that its jobs wait for."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from autotune.errors import AutotuneError, UnreachableError
from autotune.settings import Settings

LOW_DISK = 512 << 20
"""Bytes; below them trials cannot be trusted to write their checkpoints."""
_PATIENCE_S = 1.0


def components(settings: Settings, ping: Callable[[], None]) -> Mapping[str, str]:
    """Component -> ``ok``, or what is wrong with it; only those that the settings name.

    Args:
        settings: Where the components are.
        ping: Asks the study database for a sign of life.
    """
    checks: dict[str, Callable[[], None]] = {
        "database": ping,
        "home": settings.prepare_home,
        "disk": lambda: _disk(settings),
    }
    if settings.ray_address and ":" in settings.ray_address:
        address = settings.ray_address.removeprefix("ray://")
        checks["ray"] = lambda: _answers(f"//{address}", f"the Ray cluster at {address}")
    if settings.tracking_uri.startswith(("http://", "https://")):
        checks["mlflow"] = lambda: _answers(settings.tracking_uri, "the MLflow server")
    return {name: _ok(check) for name, check in checks.items()}


def _disk(settings: Settings) -> None:
    try:
        free = shutil.disk_usage(settings.root).free
    except OSError:
        return  # the home directory has a component of its own
    if free < LOW_DISK:
        raise UnreachableError(f"{free >> 20} MiB are free where {settings.root} lies; trials need {LOW_DISK >> 20}.")


def _answers(url: str, what: str) -> None:
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        socket.create_connection((parts.hostname or "", port), timeout=_PATIENCE_S).close()
    except (OSError, ValueError) as error:
        raise UnreachableError(f"{what} does not answer ({error}); what needs it waits.") from error


def _ok(check: Callable[[], None]) -> str:
    try:
        check()
    except AutotuneError as error:
        return error.message
    return "ok"
