"""One way to the service for every command: over HTTP to ``AUTOTUNE_URL``, else the same code inside this process."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autotune.cli.guard import debug_wanted

if TYPE_CHECKING:
    from autotune.client import Client
    from autotune.service import Service
    from autotune.settings import Settings

_EMBEDDED_URL = "http://localhost"


@dataclass(frozen=True, kw_only=True, slots=True)
class Connection:
    """What a command works with.

    Attributes:
        embedded: The service inside this process; ``None`` when the client talks to ``AUTOTUNE_URL``.
    """

    client: Client
    settings: Settings
    embedded: Service | None


@contextmanager
def connect() -> Iterator[Connection]:
    """Opens the way to the service.

    Raises:
        UsageError: If the environment is not usable.
        NotAllowedError: If the home directory cannot be written.
    """
    from autotune.client import Client
    from autotune.settings import load_settings

    settings = load_settings()
    if settings.url:
        with Client(settings.url, token=settings.token.get_secret_value() if settings.token else None) as client:
            yield Connection(client=client, settings=settings, embedded=None)
        return
    settings.prepare_home()
    log_to(settings)
    from autotune.api import create_app
    from autotune.cli.inprocess import InProcessTransport
    from autotune.service import open_service

    service = open_service(settings)
    app = create_app(service, settings, embedded=True)
    with Client(_EMBEDDED_URL, transport=InProcessTransport(app)) as client:
        yield Connection(client=client, settings=settings, embedded=service)


def log_to(settings: Settings, *, service: bool = False) -> None:
    """Sends log records to stderr when debugging, else warnings and worse to ``autotune.log`` in the home directory.

    Args:
        settings: Say how a record is written.
        service: This process is a service: with JSON lines it writes everything to stderr, where collectors look.
    """
    from logging.handlers import RotatingFileHandler

    from autotune import logs

    handler: logging.Handler
    if debug_wanted() or (service and settings.log_format == "json"):
        handler, level = logging.StreamHandler(sys.stderr), logging.INFO
    else:
        file = settings.root / "autotune.log"
        handler, level = RotatingFileHandler(file, maxBytes=5_000_000, backupCount=1, delay=True), logging.WARNING
    logs.set_up(handler, level, settings.log_format)
