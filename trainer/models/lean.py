"""Import transformers' Llama classes without what a training run never uses.

Their import pulls in scikit-learn (assisted decoding), SciPy (losses of object detection) and accelerate (device maps)
wherever these happen to be installed: four seconds of every trial's start. For the time of the import transformers is
told that they are absent.
"""

from __future__ import annotations

import contextlib
import importlib
import types
from collections.abc import Iterator
from functools import cache

_UNUSED = ("is_sklearn_available", "is_scipy_available", "is_accelerate_available")


@contextlib.contextmanager
def _without_optional_packages() -> Iterator[None]:
    utils = importlib.import_module("transformers.utils")
    saved = {name: getattr(utils, name) for name in _UNUSED}
    for name in _UNUSED:
        setattr(utils, name, lambda: False)
    try:
        yield
    finally:
        for name, function in saved.items():
            setattr(utils, name, function)


@cache
def llama() -> types.ModuleType:
    """The module `transformers.models.llama.modeling_llama`."""
    with _without_optional_packages():
        return importlib.import_module("transformers.models.llama.modeling_llama")
