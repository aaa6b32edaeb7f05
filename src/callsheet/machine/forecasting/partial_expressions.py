"""Evaluates expressions of version 2 over values of which only a part may be known.

What is known is computed by the machine's own functions, so it has the machine's values and failures. What
reads something unknown is followed through paths, displays, texts and conditions; all else is a placeholder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, TypeAlias, cast

from callsheet.frontends.expressions import format_expression
from callsheet.ir.expr import Literal
from callsheet.ir.expression import (
    Bound,
    Call,
    Coalesce,
    Compared,
    Comparison,
    Comprehension,
    Conditional,
    Display,
    Expression,
    Field,
    Hole,
    Index,
    Kind,
    Lambda,
    Logic,
    LogicOp,
    Mapping,
    Text,
    Unary,
    UnaryOp,
    Variable,
    asks_time,
    children,
    mapped,
    variables_in,
)
from callsheet.machine.expressions import Compiled, Environment, compile_expression
from callsheet.machine.expressions.encoding import to_text
from callsheet.machine.expressions.values import DEFAULT_WORK
from callsheet.machine.forecasting.partial_values import (
    Fields,
    Foreseen,
    Items,
    Unknown,
    at_least,
    dict_of,
    is_known,
    is_same,
    list_of,
    text_of,
)
from callsheet.machine.forecasting.partial_values import Text as PartialText
from callsheet.machine.tree.compiling import reads_clock

Read: TypeAlias = "Callable[[str], Foreseen]"
"""The value of a variable by name."""
_LONGEST_NAME = 60
_LONGEST_WHOLE = 1_000
_NO_TIME = datetime(1970, 1, 1, tzinfo=UTC)


class Evaluator:
    """Evaluates the expressions of one plan; each is compiled once. Raises ExpressionFailed, as they do."""

    def __init__(self) -> None:
        self._compiled: dict[int, tuple[Expression, tuple[str, ...], Compiled, bool]] = {}
        self.env = Environment(_NO_TIME)
        self.now: datetime | None = None
        """The time of the current statement, if it is known."""

    def value(self, node: Expression, read: Read) -> Foreseen:
        """The value, as far as it is known."""
        match node:
            case Literal(value=value):
                return value
            case Variable(name=name):
                return read(name)
            case _:
                pass
        names, compiled, asks_time = self._prepared(node)
        if self.now is not None or not asks_time:
            values = [read(name) for name in names]
            if all(map(is_known, values)):
                return self._run(compiled, values)
        return self._partly(node, read)

    def truth(self, node: Expression, read: Read) -> bool | None:
        """Whether a condition holds, None if that is not known."""
        match node:
            case Logic(op=op, operands=operands):
                return _chain(op, (self.truth(one, read) for one in operands))
            case Unary(op=UnaryOp.NOT, operand=operand):
                inner = self.truth(operand, read)
                return None if inner is None else not inner
            case _:
                return truth_of(self.value(node, read))

    def admitted(self, made: Foreseen) -> Foreseen:
        """A list or dict that was made. Raises ExpressionFailed if a run refuses it for its size."""
        self.env.sizes.admit(at_least(made, {}))
        return made

    def text(self, value: Any) -> str:
        """A known value as text."""
        self.env.work = DEFAULT_WORK
        return to_text(self.env, value)

    def _prepared(self, node: Expression) -> tuple[tuple[str, ...], Compiled, bool]:
        """The variables of an expression, its function, and whether that asks for the time."""
        found = self._compiled.get(id(node))
        if found is None:
            names = variables_in(node)
            slots = {name: slot for slot, name in enumerate(names)}
            made = compile_expression(node, slots.__getitem__)
            found = self._compiled[id(node)] = node, names, made, reads_clock((node,))
        return found[1], found[2], found[3]

    def _run(self, compiled: Compiled, slots: list[Foreseen]) -> Foreseen:
        self.env.work, self.env.now = DEFAULT_WORK, self.now or _NO_TIME
        return compiled(cast("list[Any]", slots), self.env)

    # -------------------------------------------------------------- what reads something unknown

    def _partly(self, node: Expression, read: Read) -> Foreseen:
        match node:
            case Logic(op=op):
                return self._logic(node, op, read)
            case Conditional(condition=condition, then=then, otherwise=otherwise):
                holds = self.truth(condition, read)
                if holds is not None:
                    return self.value(then if holds else otherwise, read)
                left, right = self.value(then, read), self.value(otherwise, read)
                return left if is_same(left, right) else _named(node)
            case Coalesce(left=left, right=right):
                value = self.value(left, read)
                if isinstance(value, Unknown):
                    return _named(node)
                return self.value(right, read) if value is None else value
            case Unary(op=UnaryOp.NOT):
                holds = self.truth(node, read)
                return _named(node, "bool") if holds is None else holds
            case Comprehension() | Lambda() | Bound():
                return _named(node)
            case _ if any(isinstance(one, Lambda) for one in children(node)):
                return _named(node)
            case _:
                return self._strict(node, read)

    def _logic(self, node: Expression, op: LogicOp, read: Read) -> Foreseen:
        """`and` and `or` give an operand: the first that decides, if those before it are known."""
        assert isinstance(node, Logic)
        value: Foreseen = None
        for operand in node.operands:
            value = self.value(operand, read)
            holds = truth_of(value)
            if holds is None:
                whole = self.truth(node, read)
                return _named(node) if whole is None else _named(node, "bool")
            if holds is (op is LogicOp.OR):
                return value
        return value

    def _strict(self, node: Expression, read: Read) -> Foreseen:  # noqa: PLR0911 - a case for each node
        """An expression that evaluates everything directly inside it."""
        parts = [(one, self.value(one, read)) for one in children(node)]
        if all(is_known(value) for _, value in parts) and not asks_time(node):
            numbers = iter(range(len(parts)))
            again = mapped(node, lambda _: Variable(f"#{next(numbers)}"))
            found = compile_expression(again, lambda name: int(name[1:]))
            order = [value for _, value in parts]
            if isinstance(node, Conditional):  # not in the order of the text
                return _named(node)
            return self._run(found, order)
        values = [value for _, value in parts]
        match node:
            case Field(name=name):
                return _part(values[0], name, node)
            case Index():
                index = values[1]
                return _part(values[0], index, node) if isinstance(index, str | int) else _named(node)
            case Text(parts=pieces):
                return self._text(pieces, values)
            case Display(kind=Kind.LIST | Kind.TUPLE):
                return self.admitted(list_of(values))
            case Mapping():
                keys = values[::2]
                if all(isinstance(key, str) for key in keys):
                    pairs = zip(cast("list[str]", keys), values[1::2], strict=True)
                    return self.admitted(dict_of(list(pairs)))
                return _named(node)
            case Call(function="len") if isinstance(values[0], Items | Fields):
                first = values[0]
                return len(first.items if isinstance(first, Items) else first.pairs)
            case Compared(rest=((Comparison.IS | Comparison.IS_NOT, _),)) if None in values:
                other = next((value for value in values if value is not None), None)
                return _named(node, "bool") if isinstance(other, Unknown) else self._is_none(node, other)
            case Compared():
                return _named(node, "bool")
            case _:
                return _named(node)

    @staticmethod
    def _is_none(node: Compared, other: Foreseen) -> bool:
        """`x is None` where x is partly known, and so is not None."""
        return (other is None) is (node.rest[0][0] is Comparison.IS)

    def _text(self, pieces: Iterable[str | Hole], values: list[Foreseen]) -> Foreseen:
        given = iter(values)
        parts: list[str | Unknown] = []
        for piece in pieces:
            if isinstance(piece, str):
                parts.append(piece)
                continue
            value = next(given)
            if piece.format is not None:
                parts.append(_named(piece.expression, "text"))
            elif isinstance(value, Unknown):
                parts.append(value)
            elif isinstance(value, PartialText):
                parts += value.parts
            elif is_known(value):
                parts.append(self.text(value))
            else:
                parts.append(_named(piece.expression, "text"))
        return text_of(parts)


def truth_of(value: Foreseen) -> bool | None:
    """Whether a value is true, as Python sees it; None if that is not known."""
    match value:
        case Unknown():
            return None
        case PartialText(parts=parts):
            return True if any(isinstance(part, str) and part for part in parts) else None
        case Items() | Fields():
            return True
        case _:
            return bool(value)


def _chain(op: LogicOp, verdicts: Iterable[bool | None]) -> bool | None:
    decides, result = op is LogicOp.OR, cast("bool | None", op is LogicOp.AND)
    for verdict in verdicts:
        if verdict is decides:
            return decides
        if verdict is None:
            result = None
    return result


def _part(value: Foreseen, part: Any, node: Expression) -> Foreseen:
    """A field or an item of a value that is partly known."""
    match value:
        case Unknown():
            return value.at(part)
        case Items(items=items) if type(part) is int and -len(items) <= part < len(items):
            return items[part]
        case Fields(pairs=pairs) if part in dict(pairs):
            return dict(pairs)[part]
        case Fields() if isinstance(node, Field | Index) and node.is_optional:
            return None
        case _:
            return _named(node)


def _named(node: Expression, kind: str | None = None) -> Unknown:
    """The placeholder for the value of an expression: the expression itself."""
    text = format_expression(node)
    if len(text) <= _LONGEST_NAME:
        return Unknown(text, kind=kind)
    whole = text if len(text) <= _LONGEST_WHOLE else ""
    return Unknown(f"{text[: _LONGEST_NAME - 1]}…", kind=kind, whole=whole)
