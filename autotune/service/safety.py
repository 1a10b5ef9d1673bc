"""What a space may make this machine run.

Whoever owns the machine may run anything; holders of tokens may run the built-in trainer, and more only where the
operator of the service has said so (``AUTOTUNE_ALLOW``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from autotune.access import Caller
from autotune.errors import NotAllowedError, Problem, UsageError
from autotune.service.spaces import ResolvedSpace
from autotune.spec.nearest import did_you_mean
from autotune.spec.types import Choice, Space
from autotune.spec.values import JsonValue

ALLOWABLE: Mapping[str, str] = {
    "command": "programs of the person's own (`backend: command`)",
    "verl": "verl, with any interpreter and override (`backend: verl`)",
    "remote_code": "code that lies beside a model's weights (`trust_remote_code: true`)",
    "reward_functions": "reward functions that are named module:function",
}
"""Word of ``AUTOTUNE_ALLOW`` -> what it allows."""


def allowed_words(text: str) -> frozenset[str]:
    """Reads ``AUTOTUNE_ALLOW``.

    Raises:
        UsageError: If a word is unknown.
    """
    words = frozenset(word.strip() for word in text.split(",") if word.strip())
    for word in sorted(words - ALLOWABLE.keys()):
        raise UsageError(
            f"AUTOTUNE_ALLOW: {word!r} is unknown; allowed are {', '.join(ALLOWABLE)}.",
            hint=did_you_mean(word, ALLOWABLE),
        )
    return words


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
