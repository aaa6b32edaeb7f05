"""Converts strings of a JSON plan: references such as `${name.field.0}`, and conditions of LTP text."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from callsheet import lazy
from callsheet.diagnostics import CallsheetError, Severity, Span
from callsheet.frontends.dag.json_tree import Report
from callsheet.frontends.tree import Mapping, Node, Scalar, Sequence
from callsheet.frontends.values.conditions import read_condition
from callsheet.frontends.values.printer import format_path
from callsheet.frontends.values.reader import MAX_INDEX_DIGITS, Reader, Stop, shown
from callsheet.frontends.values.strings import KEY, path_of
from callsheet.ir import (
    JSON,
    And,
    Compare,
    Condition,
    DictExpr,
    IsEmpty,
    ListExpr,
    Literal,
    Not,
    NotEmpty,
    Or,
    PathPart,
    Ref,
    Template,
    Value,
)
from callsheet.ir.expr import template

NAME = r"[A-Za-z_][A-Za-z0-9_-]*"
"""The name of a variable, as a pattern."""
is_variable_name = re.compile(NAME).fullmatch

_PART = rf"\.\w[\w-]*|\[[ \t]*(?:-?\d+|{KEY})[ \t]*\]"
_OPENING = lazy.pattern(r"(\\*)\$\{")
_REFERENCE = lazy.pattern(rf"({NAME})((?:{_PART})*+)\}}")
_PARTS = lazy.pattern(_PART)
_JSON_UNIT = lazy.pattern(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|.", re.DOTALL
)


class Texts:
    """Converts nodes of one source to values; references that cannot be read are reported."""

    def __init__(self, source: str, report: Report) -> None:
        self._source = source
        self._report = report

    def value(self, node: Node) -> Value:
        """The value of a node, with the references in its strings."""
        match node:
            case Scalar(value=str(text)) if "${" in text:
                return self._read(node, text)
            case Scalar(value=value, span=span):
                return Literal(value, span)
            case Sequence(items=items, span=span):
                return ListExpr(tuple([self.value(item) for item in items]), span)
            case Mapping(entries=entries, span=span):
                return DictExpr(tuple([(entry.key, self.value(entry.value)) for entry in entries]), span)

    def places(self, scalar: Scalar) -> Places:
        """The places in the source of the characters of a string."""
        return Places(self._source, scalar)

    def _read(self, scalar: Scalar, text: str) -> Value:
        places = Places(self._source, scalar)
        parts: list[str | Ref] = []
        at = 0
        while (opening := _OPENING.search(text, at)) is not None:
            slashes, start = len(opening[1]), opening.end(1)
            parts.append(text[at : opening.start()] + "\\" * (slashes // 2))
            at = opening.end()
            if slashes % 2:
                parts.append("${")
                continue
            match = _REFERENCE.match(text, at)
            if match is None:
                self._unreadable(text, start, places)
                parts.append("${")
                continue
            at = match.end()
            parts.append(Ref(match[1], _path(text, *match.span(2)), places.span(start, at)))
        parts.append(text[at:])
        return template(parts, scalar.span)

    def _unreadable(self, text: str, start: int, places: Places) -> None:
        end = text.find("}", start)
        end = min(len(text), start + 40) if end == -1 else end + 1
        written = text[start:end]
        inner = re.match(rf"\$\{{\s*\$?\{{?\s*({NAME}(?:\.\w[\w-]*)*)\s*\}}", written)
        near = f"did you mean ${{{inner[1]}}}? " if inner is not None else ""
        message = (
            f"{shown(written)} is not a reference to a variable"
            if text.find("}", start) != -1
            else "this reference is not closed: } is missing"
        )
        self._report.error(
            "DAG020",
            message,
            places.span(start, end),
            near
            + r"references are ${name}, ${name.field}, ${name.0}; a plain ${ is written \${ (in JSON \\${)",
        )


class Places:
    """Maps offsets in a decoded string to the source.

    For a folded or escaped YAML string every place is the whole scalar.
    """

    def __init__(self, source: str, scalar: Scalar) -> None:
        self._scalar = scalar.span
        self._offsets: list[int] | None = None
        self._start: int | None = None
        start, end = scalar.span
        text = str(scalar.value)
        if source[start : start + 1] == '"':
            self._start = start + 1
            if end - start - 2 != len(text):
                self._offsets = _offsets(source, start + 1, end - 1)
                if len(self._offsets) != len(text) + 1:
                    self._start = self._offsets = None
        else:
            index = source.find(text, start, end)
            self._start = index if index >= 0 else None

    def span(self, start: int, end: int) -> Span:
        """The span in the source of `text[start:end]`."""
        if self._start is None:
            return self._scalar
        if self._offsets is None:
            return Span(self._start + start, self._start + end)
        last = len(self._offsets) - 1
        return Span(self._offsets[min(start, last)], self._offsets[min(end, last)])


def _offsets(source: str, start: int, end: int) -> list[int]:
    """The source offset of each character of a decoded JSON string, and of its end."""
    offsets = [match.start() for match in _JSON_UNIT.finditer(source, start, end)]
    offsets.append(end)
    return offsets


def _path(text: str, start: int, end: int) -> tuple[PathPart, ...]:
    if start == end:
        return ()
    parts: list[PathPart] = []
    for match in _PARTS.finditer(text, start, end):
        if text[match.start()] == "." and "-" in match[0]:
            parts.append(match[0][1:])
        else:
            parts.extend(path_of(text, *match.span()))
    return tuple(parts)


# ---------------------------------------------------------------- writing


def refuse(what: str, help_: str | None = None) -> CallsheetError:
    """The error for a construct that a JSON plan cannot express."""
    return CallsheetError.single("DAG070", f"a JSON plan cannot express {what}", help=help_)


def written(value: Value) -> JSON:
    """A value as JSON data. Raises CallsheetError (DAG070) if a JSON plan cannot express it."""
    match value:
        case Literal(value=str(text)):
            return _escaped(text)
        case Literal(value=scalar):
            if isinstance(scalar, float) and scalar - scalar != 0.0:
                raise refuse(f"the number {scalar}", "give it as a text")
            if isinstance(scalar, int) and abs(scalar) >= _BIGGEST:
                raise refuse("a whole number of 4,000 digits or more", "give it as a text")
            return scalar
        case Ref():
            return reference(value)
        case Template(parts=parts):
            return _template(parts)
        case ListExpr(items=items):
            return [written(item) for item in items]
        case DictExpr(items=pairs):
            return {key: written(item) for key, item in pairs}


_BIGGEST = 10**3_999
_BIGGEST_INDEX = 10**MAX_INDEX_DIGITS


def reference(ref: Ref) -> str:
    """The text of a reference: `${name.path}`.

    Raises CallsheetError for a name or an index that a JSON plan cannot write.
    """
    if is_variable_name(ref.name) is None:
        raise refuse(f"the variable name {ref.name!r}", "a name is made of ASCII letters, digits, _ and -")
    for part in ref.path:
        if isinstance(part, int) and abs(part) >= _BIGGEST_INDEX:
            raise refuse(f"the index {part}")
    return f"${{{ref.name}{format_path(ref.path)}}}"


def _escaped(text: str) -> str:
    return _OPENING.sub(r"\1\1\\${", text) if "${" in text else text


def _template(parts: tuple[str | Ref, ...]) -> str:
    out: list[str] = []
    for number, part in enumerate(parts):
        if isinstance(part, Ref):
            out.append(reference(part))
            continue
        text = _escaped(part)
        if number + 1 < len(parts) and text.endswith("\\"):
            text += "\\" * (len(text) - len(text.rstrip("\\")))
        out.append(text)
    return "".join(out)


def read_when(scalar: Scalar, texts: Texts, report: Report, step: str | None) -> Condition | None:
    """The condition in a string; None after an error."""
    reader = Reader(str(scalar.value))
    reader.depth = 1  # a newline is white space, as inside brackets
    condition: Condition | None = None
    try:
        condition = read_condition(reader)
        if reader.skip():
            rest = reader.text[reader.pos :]
            reader.error(
                "LTP040",
                f"a condition cannot continue with {shown(rest)}",
                reader.pos,
                len(reader.text),
                help="join conditions with AND and OR",
            )
    except Stop:
        pass
    places = texts.places(scalar)
    for diagnostic in reader.diagnostics:
        if diagnostic.severity is Severity.ERROR:
            span = diagnostic.span or Span(0, 0)
            if span.start == span.end:
                span = Span(max(0, span.start - 1), span.end)
            report.error(diagnostic.code, diagnostic.message, places.span(*span), diagnostic.help, step=step)
    if reader.errors or condition is None:
        return None
    return _moved(condition, lambda span: None if span is None else places.span(*span))


_Move = Callable[[Span | None], Span | None]


def _moved(condition: Condition, move: _Move) -> Condition:
    """The condition with all spans mapped by `move`."""
    match condition:
        case Compare(left=left, right=right):
            return replace(
                condition, left=_value(left, move), right=_value(right, move), span=move(condition.span)
            )
        case IsEmpty(value=value) | NotEmpty(value=value):
            return replace(condition, value=_value(value, move), span=move(condition.span))
        case Not(condition=inner):
            return Not(_moved(inner, move), move(condition.span))
        case And(conditions=inner):
            return And(tuple(_moved(c, move) for c in inner), move(condition.span))
        case Or(conditions=inner):
            return Or(tuple(_moved(c, move) for c in inner), move(condition.span))


def _value(value: Value, move: _Move) -> Value:
    match value:
        case Literal() | Ref():
            return replace(value, span=move(value.span))
        case Template(parts=parts):
            moved = tuple(
                part if isinstance(part, str) else replace(part, span=move(part.span)) for part in parts
            )
            return Template(moved, move(value.span))
        case ListExpr(items=items):
            return ListExpr(tuple(_value(item, move) for item in items), move(value.span))
        case DictExpr(items=pairs):
            return DictExpr(tuple((key, _value(item, move)) for key, item in pairs), move(value.span))
