"""Conditions of a space file (``require``, ``when``): parsed into a small tree, never evaluated as Python.

The grammar: numbers, texts in quotes, ``true``/``false``/``null`` (and Python's spelling), dotted names,
``+ - * / // %`` on numbers, ``== != < <= > >=`` (chains too), ``in`` and ``not in`` with a literal list, ``and``,
``or``, ``not``, brackets.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass

from autotune.errors import Problem
from autotune.spec.expression_nodes import (
    Arithmetic,
    Comparison,
    ExpressionError,
    Junction,
    Literal,
    Name,
    Negation,
    Node,
    Unknown,
)
from autotune.spec.values import FlatConfig, JsonValue

MAX_LENGTH = 500
MAX_DEPTH = 30
MAX_TEXT = 200

_WORDS = {"true": True, "false": False, "null": None}
_BINARY: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
}
_COMPARE: dict[type[ast.cmpop], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.In: "in",
    ast.NotIn: "not in",
}
_ALLOWED = "Allowed are names, numbers, texts, + - * / // %, comparisons, in [...], and, or, not and brackets."


@dataclass(frozen=True, kw_only=True, slots=True)
class Expression:
    """A parsed condition.

    A name that the configuration does not hold (a parameter that is not active) is *unknown*. Unknown spreads: a
    calculation or comparison with it is unknown, ``not`` of it too; ``and`` is false when another side is false, ``or``
    is true when another side is true. An expression that stays unknown evaluates to ``None`` and does not hold.

    Attributes:
        text: The condition as it was written.
        names: The dotted paths it reads.
        tree: What was parsed.
    """

    text: str
    names: frozenset[str]
    tree: Node

    def evaluate(self, values: FlatConfig) -> JsonValue:
        """The value of the expression over a configuration; ``None`` where missing names leave it open.

        Raises:
            ExpressionError: If it has no value: a division by zero, numbers compared with texts.
        """
        result = self.tree.evaluate(values)
        return None if isinstance(result, Unknown) else result

    def holds(self, values: FlatConfig) -> bool:
        """Whether the condition is true for a configuration; one that has no value there does not hold."""
        try:
            return bool(self.evaluate(values))
        except ExpressionError:
            return False


def parse(text: str, resolve: Callable[[str], str] | None = None) -> Expression:
    """Reads a condition.

    Args:
        text: The condition, at most ``MAX_LENGTH`` characters and ``MAX_DEPTH`` levels deep.
        resolve: Turns a name as written (a short alias) into its full dotted path.

    Raises:
        ExpressionError: If it cannot be read; ``problems[0].column`` says where, counted from 1.
    """
    flat = text.translate({10: " ", 13: " ", 9: " "})
    if not flat.strip():
        raise _error("the condition is empty.", 1, 'Write for example "trainer.ppo_epochs <= 4".')
    if len(flat) > MAX_LENGTH:
        raise _error(f"the condition has {len(flat)} characters; at most {MAX_LENGTH} are read.", 1, "Split it in two.")
    indent = len(flat) - len(flat.lstrip())
    source = flat.strip()
    try:
        body = ast.parse(source, mode="eval").body
    except SyntaxError as error:
        column = indent + max(error.offset or 1, 1)
        raise _error(f"the condition {source!r} cannot be read: {error.msg}.", column, _syntax_hint(source)) from None
    except (ValueError, RecursionError, MemoryError):
        raise _error("the condition is nested too deeply or holds a character that is not text.", 1, _ALLOWED) from None
    builder = _Builder(source=source, indent=indent, resolve=resolve or str)
    tree = builder.build(body, MAX_DEPTH)
    return Expression(text=text, names=frozenset(builder.names), tree=tree)


class _Builder:
    """Turns Python's syntax tree into ours, refusing everything that is not on the list."""

    def __init__(self, *, source: str, indent: int, resolve: Callable[[str], str]) -> None:
        self.source = source.encode()
        self.indent = indent
        self.resolve = resolve
        self.names: set[str] = set()

    def build(self, node: ast.expr, depth: int) -> Node:
        if depth <= 0:
            raise self.refuse(node, f"is nested more than {MAX_DEPTH} levels deep", "Split the condition.")
        match node:
            case ast.Constant():
                return Literal(value=self.constant(node))
            case ast.Name() | ast.Attribute():
                return self.name(node)
            case ast.UnaryOp(op=ast.Not()):
                return Negation(symbol="not", operand=self.build(node.operand, depth - 1))
            case ast.UnaryOp(op=ast.USub()):
                return Negation(symbol="-", operand=self.build(node.operand, depth - 1))
            case ast.BinOp() if type(node.op) in _BINARY:
                left, right = self.build(node.left, depth - 1), self.build(node.right, depth - 1)
                return Arithmetic(symbol=_BINARY[type(node.op)], left=left, right=right)
            case ast.BoolOp():
                symbol = "and" if isinstance(node.op, ast.And) else "or"
                return Junction(symbol=symbol, operands=tuple(self.build(part, depth - 1) for part in node.values))
            case ast.Compare():
                return self.comparison(node, depth)
        raise self.refuse(node, "is not allowed in a condition", _node_hint(node))

    def comparison(self, node: ast.Compare, depth: int) -> Node:
        links: list[tuple[str, Node]] = []
        for op, right in zip(node.ops, node.comparators, strict=True):
            symbol = _COMPARE.get(type(op))
            if symbol is None:
                raise self.refuse(node, "compares with 'is'", "Write == or != instead.")
            links.append((symbol, self.options(right) if "in" in symbol else self.build(right, depth - 1)))
        return Comparison(first=self.build(node.left, depth - 1), links=tuple(links))

    def options(self, node: ast.expr) -> Literal:
        if not isinstance(node, ast.List | ast.Tuple):
            raise self.refuse(node, "stands behind 'in' and is not a list", "Write for example x in [1, 2, 4].")
        return Literal(value=tuple(self.option(item) for item in node.elts))

    def option(self, node: ast.expr) -> bool | int | float | str | None:
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
            value = self.constant(node.operand)
            if isinstance(value, int | float) and not isinstance(value, bool):
                return -value
        elif isinstance(node, ast.Constant):
            return self.constant(node)
        elif isinstance(node, ast.Name) and node.id in _WORDS:
            return _WORDS[node.id]
        raise self.refuse(node, "is not a plain value", "A list behind 'in' holds numbers and texts only.")

    def constant(self, node: ast.Constant) -> bool | int | float | str | None:
        value = node.value
        if isinstance(value, str) and len(value) > MAX_TEXT:
            raise self.refuse(node, f"is a text of more than {MAX_TEXT} characters", "Shorten it.")
        if value is None or isinstance(value, bool | int | float | str):
            return value
        raise self.refuse(node, "is not a value of a configuration", _ALLOWED)

    def name(self, node: ast.Name | ast.Attribute) -> Node:
        parts: list[str] = []
        part: ast.expr = node
        while isinstance(part, ast.Attribute):
            parts.append(part.attr)
            part = part.value
        if not isinstance(part, ast.Name):
            raise self.refuse(node, "is not a name", _ALLOWED)
        if not parts and part.id in _WORDS:
            return Literal(value=_WORDS[part.id])
        path = self.resolve(".".join([part.id, *reversed(parts)]))
        self.names.add(path)
        return Name(path=path)

    def refuse(self, node: ast.expr, what: str, hint: str) -> ExpressionError:
        # Offsets of the syntax tree count UTF-8 bytes; people count characters.
        start, end = node.col_offset, node.end_col_offset or len(self.source)
        shown = self.source[start:end].decode(errors="replace")
        column = self.indent + len(self.source[:start].decode(errors="replace")) + 1
        return _error(f"{shown if len(shown) <= 60 else shown[:57] + '...'!r} {what}.", column, hint)


def _node_hint(node: ast.expr) -> str:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        return "Powers are not computed; write the number itself."
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd | ast.BitOr):
        return "Write 'and' or 'or'."
    return _ALLOWED


def _syntax_hint(source: str) -> str:
    if "&&" in source or "||" in source or "!" in source.replace("!=", ""):
        return "Write 'and', 'or' and 'not'."
    if "=" in source and not any(sign in source for sign in ("==", "<=", ">=", "!=")):
        return "Two values are compared with ==."
    return _ALLOWED


def _error(message: str, column: int, hint: str) -> ExpressionError:
    return ExpressionError(message, hint=hint, problems=[Problem(message=message, hint=hint, column=column)])
