"""The settings of a verl run: what was given, in verl's own keys, and what became of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from autotune.backends.verl.names import PARAMETERS, WITHOUT_EQUIVALENT
from autotune.errors import Problem
from autotune.spec.nearest import did_you_mean
from autotune.spec.values import FlatConfig, JsonValue

GROUPS = ("model_engine",)
_OPEN = "+"


@dataclass(slots=True)
class Draft:
    """Settings on their way to a command line.

    Attributes:
        values: verl's key -> value, in the order in which they were given; ``+`` before a key that is new to the tree.
        origins: verl's key -> the name under which it was given.
        notes: What was changed or does nothing, one sentence each.
        problems: What cannot be run; ``path`` is the name under which it was given.
    """

    values: dict[str, JsonValue] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def given(self, key: str) -> bool:
        """Whether somebody has set the key."""
        return key in self.values

    def repair(self, key: str, value: JsonValue, because: str, note: str) -> None:
        """Sets a key for the sake of another one."""
        self.values[key] = value
        self.origins.setdefault(key, self.origins.get(because, because))
        self.notes.append(note)

    def move(self, old: str, new: str) -> None:
        """Moves a setting from a key that nothing reads to the one that is read."""
        value, origin = self.values.pop(old), self.origins.pop(old)
        if new in self.values and self.values[new] != value:
            self.refuse(old, f"sets {old}, which nothing reads, against {new}.", f"Set {new} only.", origin)
            return
        self.values[new], self.origins[new] = value, origin
        self.notes.append(f"{old} has no effect in verl; set {new} instead.")

    def refuse(self, key: str, message: str, hint: str, origin: str = "") -> None:
        """Notes a problem where the key was given."""
        path = origin or self.origins.get(key, key)
        self.problems.append(Problem(message=message, hint=hint, path=path))


def draft(given: FlatConfig, tree: FlatConfig) -> Draft:
    """The given settings in verl's keys; a broad name (a seed for everything) gives way to a narrow one.

    Args:
        given: Our names or verl's keys -> value.
        tree: verl's composed tree, flat.
    """
    result = Draft()
    breadth: dict[str, int] = {}
    for name, value in sorted(given.items(), key=lambda item: -len(_keys(item[0], tree))):
        keys = _keys(name, tree)
        if not keys:
            _unknown(result, name, tree)
            continue
        if value is None and name == "algorithm.clip_ratio_high":
            continue  # the same as clip_ratio
        for key in keys:
            written = PARAMETERS[name].words.get(str(value), value) if name in PARAMETERS else value
            if breadth.get(key) == len(keys) and result.values[key] != written:
                message = f"{name!r} and {result.origins[key]!r} both set {key}."
                result.refuse(key, message, "Remove one of the two.", name)
                continue
            result.values[key], result.origins[key], breadth[key] = written, name, len(keys)
    return result


def our_values(tree: FlatConfig) -> dict[str, JsonValue]:
    """The values of our names in a composed tree."""
    found: dict[str, JsonValue] = {}
    for name, mapped in PARAMETERS.items():
        key = next((key for key in mapped.keys if key in tree), None)
        if key is None:
            continue
        words = {value: word for word, value in mapped.words.items()}
        value = words.get(tree[key], tree[key]) if words and not isinstance(tree[key], list | dict) else tree[key]
        found[name] = float(value) if mapped.fraction and isinstance(value, int) else value
    return found


def _keys(name: str, tree: FlatConfig) -> tuple[str, ...]:
    if name in PARAMETERS:
        return tuple(key for key in PARAMETERS[name].keys if key in tree)
    if name.startswith(_OPEN) or name in tree or name in GROUPS:
        return (name,)
    around = name
    while "." in around:
        around = around.rpartition(".")[0]
        if tree.get(around) == {}:
            return (f"{_OPEN}{name}",)  # an open dictionary takes any key
    return ()


def _unknown(result: Draft, name: str, tree: Mapping[str, JsonValue]) -> None:
    around = name
    while around and around not in WITHOUT_EQUIVALENT:
        around = around.rpartition(".")[0]
    inside = sorted(key for key in tree if key.startswith(f"{name}."))
    if around and (around == name or not inside):
        result.refuse(name, f"verl has no {name!r}: {WITHOUT_EQUIVALENT[around]}.", "Remove it.")
    elif inside:
        result.refuse(name, f"{name!r} is a group of keys.", f"Set one of: {', '.join(inside[:8])}.")
    else:
        near = did_you_mean(name, [*PARAMETERS, *tree])
        result.refuse(name, f"verl has no key {name!r}.", f"{near} A new key starts with '+'.")
