"""The REST API: FastAPI routes over the service, and the port that the service satisfies."""

from __future__ import annotations

from autotune.api.app import create_app
from autotune.api.port import ServicePort

__all__ = ["ServicePort", "create_app"]
