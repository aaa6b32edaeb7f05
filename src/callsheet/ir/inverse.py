"""The inverse of a tool: the call that takes back what a call of it did.

In: a text such as `delete_event(event_id=result.id, calendar=call.calendar)`, as a tool's declaration has it.
Out: the tool to call, and its arguments once the arguments and the result of a call are known.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from enum import StrEnum
from keyword import iskeyword
from typing import TypeAlias, cast

from callsheet.ir.expr import JSON
from callsheet.ir.operations import canonical_tool_name
from callsheet.ir.strict_json import NotJson, read_json
from callsheet.lazy import dataclass

CALL, RESULT = "call", "result"
"""What an argument of an inverse begins with: an argument of the call, or its result."""
_HOW = "write it as tool(argument=result.field, other=call.argument)"


class NotAnInverse(ValueError):
    """A text that says no inverse; its message says why, and how to write one."""


class NotThere(ValueError):
    """A value that an inverse needs and that a call does not have; its message says which."""


class Fate(StrEnum):
    """What is known of a call that may have changed something."""

    DONE = "done"
    LOST = "lost"
    """It took place, but what it gave is not known."""
    UNKNOWN = "unknown"
    """It was sent, and may have taken place."""


@dataclass(frozen=True, slots=True)
class Place:
    """A part of a call's arguments (`root` is `call`) or of its result (`result`)."""

    root: str
    steps: tuple[str | int, ...]

    def __str__(self) -> str:
        inner = "".join(f".{step}" if _is_name(step) else f"[{step!r}]" for step in self.steps)
        return f"{self.root}{inner}"

    def value(self, args: Mapping[str, JSON], result: JSON) -> JSON:
        """What is there in a call with these arguments and this result; raises NotThere.

        A result that is a text with JSON in it, as many servers answer, is read as such.

        >>> Place("result", ("ids", 0)).value({}, '{"ids": [7]}')
        7
        """
        value: JSON = dict(args) if self.root == CALL else result
        if self.steps and isinstance(value, str):
            value = _read(value)
        for depth, step in enumerate(self.steps):
            try:
                value = _part(value, step)
            except (KeyError, IndexError, TypeError):
                here = Place(self.root, self.steps[:depth])
                raise NotThere(f"{self} is not there: {here} {_has(value)}") from None
        return value


Given: TypeAlias = "Place | JSON"
"""An argument of an inverse: a part of the call, or a value."""


@dataclass(frozen=True, slots=True)
class Inverse:
    """The call that takes back what a call did: a canonical tool name, and where its arguments come from."""

    tool: str
    arguments: Mapping[str, Given]

    def __str__(self) -> str:
        given = {name: f"{v if isinstance(v, Place) else repr(v)}" for name, v in self.arguments.items()}
        words = [f"{name}={value}" for name, value in given.items() if _is_name(name)]
        others = ", ".join(f"{name!r}: {value}" for name, value in given.items() if not _is_name(name))
        return f"{self.tool.lower()}({', '.join([*words, *([f'**{{{others}}}'] if others else [])])})"

    def bound(self, args: Mapping[str, JSON], result: JSON) -> dict[str, JSON]:
        """Its arguments for a call with these arguments and this result; raises NotThere."""
        return {
            name: given.value(args, result) if isinstance(given, Place) else given
            for name, given in self.arguments.items()
        }


def reversal(
    tool: str, inverse: Inverse | None, fate: Fate, args: Mapping[str, JSON], result: JSON
) -> dict[str, JSON] | str:
    """The arguments of the call that takes back a call of a tool; in words why none does.

    >>> reversal("SEND", None, Fate.DONE, {}, None)
    'no inverse of @SEND is declared'
    """
    if fate is Fate.UNKNOWN:
        return "it is not known whether it took place"
    if inverse is None:
        return f"no inverse of @{tool} is declared"
    needs_result = any(isinstance(v, Place) and v.root == RESULT for v in inverse.arguments.values())
    if fate is Fate.LOST and needs_result:
        return f"what it gave is lost, and {inverse} needs it"
    unwritable = next((name for name in inverse.arguments if not name.isidentifier()), None)
    if unwritable is not None:
        return f"plans cannot write the argument {unwritable!r} of {inverse}"
    try:
        return inverse.bound(args, result)
    except NotThere as error:
        return f"{inverse} cannot be called: {error}"


def inverse_pair(tool: str, text: object) -> tuple[str, str]:
    """A tool and its inverse as UNDO names them, in the form that plans keep; raises NotAnInverse."""
    if not isinstance(text, str):
        raise NotAnInverse(f"the inverse of {tool} is a text")
    inverse = read_inverse(text)
    if not all(argument.isidentifier() for argument in inverse.arguments):
        raise NotAnInverse(f"plans cannot write the arguments of {inverse}")
    return canonical_tool_name(tool), str(inverse)


def read_inverse(text: str, roots: tuple[str, str] = (CALL, RESULT)) -> Inverse:
    """The inverse that a declaration names; raises NotAnInverse.

    `roots` are the words that its arguments begin with: for those of the call, and for what else is known.

    >>> inverse = read_inverse("delete_event(event_id=result.id, notify=False)")
    >>> inverse.tool, inverse.bound({}, {"id": 7})
    ('DELETE_EVENT', {'event_id': 7, 'notify': False})
    """
    try:
        call = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise NotAnInverse(f"{text[:80]!r} is no call; {_HOW}") from None
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name)):
        raise NotAnInverse(f"{text[:80]!r} is no call of a tool; {_HOW}")
    if call.args:
        raise NotAnInverse(f"the arguments of {call.func.id} need names; {_HOW}")
    arguments: dict[str, Given] = {}
    for word in call.keywords:
        if word.arg is not None:
            arguments[word.arg] = _given(word.value, roots)
        elif isinstance(word.value, ast.Dict):  # for names that Python keeps for itself, such as `from`
            for key, value in zip(word.value.keys, word.value.values, strict=True):
                if not (isinstance(key, ast.Constant) and isinstance(key.value, str)):
                    raise NotAnInverse(f"the arguments of {call.func.id} need names; {_HOW}")
                arguments[key.value] = _given(value, roots)
        else:
            raise NotAnInverse(f"the arguments of {call.func.id} need names; {_HOW}")
    return Inverse(canonical_tool_name(call.func.id), arguments)


def _is_name(step: str | int) -> bool:
    return isinstance(step, str) and step.isidentifier() and not iskeyword(step)


def _read(text: str) -> JSON:
    try:
        return read_json(text)
    except NotJson:
        return text


def _given(node: ast.expr, roots: tuple[str, str]) -> Given:
    steps: list[str | int] = []
    inner = node
    while isinstance(inner, ast.Attribute | ast.Subscript):
        if isinstance(inner, ast.Attribute):
            steps.append(inner.attr)
        else:
            steps.append(_index(inner.slice, node, roots))
        inner = inner.value
    if isinstance(inner, ast.Name):
        if inner.id not in roots:
            raise _no_value(node, roots)
        if inner.id == CALL and not steps:
            raise NotAnInverse("name the argument of the call: call.argument")
        return Place(inner.id, tuple(reversed(steps)))
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, RecursionError, MemoryError):
        raise _no_value(node, roots) from None
    if not _is_json(value):
        raise _no_value(node, roots)
    return cast("JSON", value)


def _index(slice_: ast.expr, node: ast.expr, roots: tuple[str, str]) -> str | int:
    try:
        index = ast.literal_eval(slice_)
    except ValueError:
        raise _no_value(node, roots) from None
    if type(index) not in (str, int):
        raise _no_value(node, roots)
    return index


def _is_json(value: object) -> bool:
    match value:
        case float():
            return math.isfinite(value)
        case None | bool() | int() | str():
            return True
        case list():
            return all(map(_is_json, cast("list[object]", value)))
        case dict():
            entries = cast("dict[object, object]", value)
            return all(isinstance(key, str) and _is_json(each) for key, each in entries.items())
        case _:
            return False


def _no_value(node: ast.expr, roots: tuple[str, str]) -> NotAnInverse:
    shown, (call, other) = ast.unparse(node)[:60], roots
    rest = "of its result (result.…)" if other == RESULT else f"its {other}"
    return NotAnInverse(f"{shown} is neither a value nor a part of the call ({call}.…) or {rest}")


def _part(value: JSON, step: str | int) -> JSON:
    if isinstance(value, dict) and isinstance(step, str):
        return value[step]
    if isinstance(value, list) and isinstance(step, int):
        return value[step]
    raise TypeError("it has no parts, or none of this kind")


def _has(value: object) -> str:
    match value:
        case dict():
            names = [*map(str, cast("dict[object, object]", value))]
            return f"has {', '.join(names[:8])}" if names else "is empty"
        case list():
            return f"has {len(cast('list[object]', value))} items"
        case None:
            return "is null"
        case str():
            return "is a text"
        case _:
            return f"is {value!r}"
