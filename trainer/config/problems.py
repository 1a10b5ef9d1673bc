"""What can be wrong with a configuration, said all at once."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class ConfigProblem:
    """One thing that is wrong.

    Attributes:
        path: Dotted path of the key, for example `trainer.optim.lr`; empty for the file as a whole.
        message: What is wrong, the value got and what is allowed.
        hint: What to do about it; may be empty.
    """

    path: str
    message: str
    hint: str = ""

    def __str__(self) -> str:
        """`path: message (hint)` on one line."""
        text = f"{self.path}: {self.message}" if self.path else self.message
        return f"{text} ({self.hint})" if self.hint else text


class ConfigError(ValueError):
    """A configuration that cannot be used, with every problem found in it.

    Attributes:
        problems: All problems, in the order of the configuration tree.
    """

    def __init__(self, problems: Iterable[ConfigProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))

    def __reduce__(self) -> tuple[type[ConfigError], tuple[tuple[ConfigProblem, ...]]]:
        """Pickle by the problems, so that the error crosses process borders whole."""
        return (ConfigError, (self.problems,))


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint that names the known word closest to `name`, or lists some when none is close."""
    choices = sorted(known)
    close = difflib.get_close_matches(name, choices, n=1, cutoff=0.6)
    if not close:
        # A full path is often known by its last word alone: `lr` for `trainer.optim.lr`.
        tail = name.rsplit(".", 1)[-1]
        close = [choice for choice in choices if choice.rsplit(".", 1)[-1] == tail][:1]
    if not close:
        tails = {choice.rsplit(".", 1)[-1]: choice for choice in choices}
        close = [tails[tail] for tail in difflib.get_close_matches(name.rsplit(".", 1)[-1], tails, n=1, cutoff=0.6)]
    if close:
        return f"did you mean '{close[0]}'?"
    if not choices:
        return ""
    shown = ", ".join(choices[:12]) + (", ..." if len(choices) > 12 else "")
    return f"known: {shown}"
