"""Finds a backend by its name, inside the process that runs the trial."""

from __future__ import annotations

import importlib
from typing import cast

from autotune.backends.base import Backend
from autotune.errors import UsageError


def load_backend(name: str) -> Backend:
    """The backend of that name in the registry, or, for ``module:attribute``, the one that a module offers.

    Raises:
        NotFoundError: If the registry has no such name.
        UsageError: If the module or its attribute does not exist.
    """
    module, colon, attribute = name.partition(":")
    if not colon:
        from autotune.backends import get_backend  # only here: composing configurations takes a while to import

        return get_backend(name)
    try:
        return cast("Backend", getattr(importlib.import_module(module), attribute))
    except (ImportError, AttributeError) as error:
        raise UsageError(
            f"cannot load the backend {name!r}: {error}.", hint="Give it as importable.module:attribute."
        ) from error
