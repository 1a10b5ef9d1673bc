"""Finds the command line of verl in a shell script: variables, arrays and arithmetic are followed, nothing is run."""

from __future__ import annotations

import ast
import operator
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

MAIN = re.compile(r"verl\.trainer\.main_ppo\b|\bmain_ppo\.py$")
UNKNOWN = "\N{WHITE QUESTION MARK ORNAMENT}"
"""Stands for what only a running shell could tell."""

_ARRAY = re.compile(r"^[ \t]*(?:declare -a )?(\w+)=\(\s*(.*?)^[ \t]*\)", re.MULTILINE | re.DOTALL)
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_ARITHMETIC = re.compile(r"\$\(\((.*?)\)\)")
_SUBSTITUTION = re.compile(r"\$\([^()]*\)|`[^`]*`")
_VARIABLE = re.compile(r"\$\{(\w+)(?::?-([^}]*))?\}|\$(\w+|[@*#?])")
_END = re.compile(r"\d?[<>]|[|;&]")
_OPERATORS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.floordiv,
    ast.Mod: operator.mod,
}


@dataclass(slots=True)
class Found:
    """verl's command line as a script has it.

    Attributes:
        python: The interpreter.
        arguments: What follows the main module.
        env: The environment variables that the script sets for it.
    """

    python: str
    arguments: list[str]
    env: dict[str, str]


@dataclass(slots=True)
class _Shell:
    variables: dict[str, str] = field(default_factory=dict)
    exported: set[str] = field(default_factory=set)
    arrays: dict[str, list[str]] = field(default_factory=dict)


def find_command(text: str) -> Found | None:
    """The last command of a script that starts verl's PPO trainer; ``None`` if there is none.

    Args:
        text: The script, or a command line alone.
    """
    shell, found = _Shell(), None
    text = text.replace("\r\n", "\n")
    arrays = {match[1]: match[2] for match in _ARRAY.finditer(text)}
    text = re.sub(r"\\\n", " ", _ARRAY.sub(r"\1=__array__", text))
    for line in text.splitlines():
        words = _words(_calculated(line, shell))
        for name in [word.partition("=")[0] for word in words if word.endswith("=__array__")]:
            body = _words(_calculated(re.sub(r"\\\n|\n", "\n", arrays[name]), shell))
            shell.arrays[name] = [one for word in body for one in _expanded(word, shell)]
        found = _line([word for word in words if not word.endswith("=__array__")], shell) or found
    return found


def _line(words: list[str], shell: _Shell) -> Found | None:
    exports = words[:1] == ["export"]
    words = words[1:] if exports else words
    own: dict[str, str] = {}
    while words and (match := _ASSIGNMENT.fullmatch(words[0])):
        own[match[1]] = " ".join(_expanded(match[2], shell))
        words = words[1:]
    if not words or exports:
        shell.variables.update(own)
        shell.exported.update(own if exports else ())
        return None
    words = [one for word in words for one in _expanded(word, shell)]
    main = next((index for index, word in enumerate(words) if MAIN.search(word)), None)
    if main is None:
        return None
    start = main - 1
    while start >= 0 and words[start].startswith("-"):
        start -= 1
    arguments: list[str] = []
    for word in words[main + 1 :]:
        if _END.match(word):
            break
        arguments.append(word)
    env = {name: shell.variables[name] for name in sorted(shell.exported)}
    python = words[start] if start >= 0 else "python3"
    return Found(python=python, arguments=arguments, env={**env, **own})


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line, comments=True)
    except ValueError:
        return []


def _calculated(line: str, shell: _Shell) -> str:
    def result(match: re.Match[str]) -> str:
        # Inside of arithmetic a variable needs no dollar.
        named = re.sub(r"(?<![\w$])([A-Za-z_]\w*)", lambda m: shell.variables.get(m[1], m[1]), match[1])
        return _arithmetic(" ".join(_expanded(named, shell)))

    return _SUBSTITUTION.sub(UNKNOWN, _ARITHMETIC.sub(result, line))


def _arithmetic(text: str) -> str:
    def value(node: ast.expr) -> int:
        if isinstance(node, ast.Constant) and isinstance(node.value, int):
            return node.value
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            return _OPERATORS[type(node.op)](value(node.left), value(node.right))
        raise ValueError(text)

    try:
        return str(value(ast.parse(text.strip(), mode="eval").body))
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError):
        return UNKNOWN


def _expanded(word: str, shell: _Shell) -> list[str]:
    """A word with its variables replaced; an array, or the script's own arguments, becomes several or none."""
    array = re.fullmatch(r"\$\{(\w+)\[[@*]\]\}", word)
    if array is not None:
        return shell.arrays.get(array[1], [])
    if word in ("$@", "$*"):
        return []

    def result(match: re.Match[str]) -> str:
        name = match[1] or match[3]
        default = match[2] if match[2] is not None else UNKNOWN
        return shell.variables.get(name, default)

    return [_VARIABLE.sub(result, word)]
