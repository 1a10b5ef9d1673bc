"""What a space may make this machine run.

Whoever owns the machine may run anything; holders of tokens may run the built-in trainer, and more only where the
operator of the service has said so (``AUTOTUNE_ALLOW``).
"""

from __future__ import annotations

from collections.abc import Iterator

from autotune.access import Caller
from autotune.errors import NotAllowedError, Problem
from autotune.service.spaces import ResolvedSpace
from autotune.settings import ALLOWABLE
from autotune.spec.types import Choice, Space
from autotune.spec.values import JsonValue


def refuse_code(resolved: ResolvedSpace, caller: Caller, allowed: frozenset[str]) -> None:
    """Refuses a space that would run somebody's own code.

    Raises:
        NotAllowedError: With one problem for each thing that is not allowed.
    """
    if caller.is_local:
        return
    problems = [
        Problem(path=path, message=f"would run {ALLOWABLE[word]}, which this service does not.", hint=f"Word: {word}")
        for word, path in sorted(set(_wanted(resolved)))
        if word not in allowed
    ]
    if problems:
        words = ",".join(sorted({problem.hint.removeprefix("Word: ") for problem in problems} | allowed))
        raise NotAllowedError(
            "the space would run code of its own: " + "; ".join(str(problem) for problem in problems),
            hint=f"The operator of the service can allow it: AUTOTUNE_ALLOW={words} autotune serve",
            problems=problems,
        )


def _wanted(resolved: ResolvedSpace) -> Iterator[tuple[str, str]]:
    """Word and place of everything that is code, in all stages."""
    for path, value in resolved.base.items():
        yield from _of(path, value)
    for space in (resolved.space, *(stage.space for stage in resolved.space.stages)):
        yield from _of_space(space)


def _of_space(space: Space) -> Iterator[tuple[str, str]]:
    if space.trainer.backend != "native":
        yield (space.trainer.backend, "trainer.backend")
    for path, value in space.trainer.overrides.items():
        yield from _of(path, value)
    for path, parameter in space.search.items():
        for option in parameter.domain.options if isinstance(parameter.domain, Choice) else ():
            yield from _of(path, option)


def _of(path: str, value: JsonValue) -> Iterator[tuple[str, str]]:
    name = path.rpartition(".")[2]
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _of(f"{path}.{key}", inner)
    elif name == "trust_remote_code" and value not in (None, False):
        yield ("remote_code", path)
    elif path.startswith("reward.") and name.endswith("function") and value is not None:
        yield ("reward_functions", path)
