"""Values of the JSON form of version 2: expressions in JSON data, and back.

`{"=": "e"}` is an expression; a text may have `${e}` in it, and one that is a single `${e}` is that value and
keeps its type. A plain `${` is written `\\${`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from callsheet import lazy
from callsheet.diagnostics import Span
from callsheet.frontends.dag.json_tree import Report
from callsheet.frontends.dag.texts import Texts
from callsheet.frontends.expressions import (
    NotAnExpression,
    format_expression,
    format_hole,
    read_expression,
    read_hole,
)
from callsheet.frontends.tree import Mapping, Node, Scalar, Sequence, kind_of
from callsheet.ir import JSON
from callsheet.ir.expr import Literal
from callsheet.ir.expression import Display, Expression, Hole, Kind, Text, mapped
from callsheet.ir.expression import Mapping as Dict

_OPENING = lazy.pattern(r"(\\*)\$\{")
_SLASHES = lazy.pattern(r"\\+\Z")
_EXPRESSION = "="
_DOLLAR = lazy.pattern(r"\$([A-Za-z_]\w*)")


class Values:
    """Converts nodes of one source to expressions; those that cannot be read are reported (DAG021)."""

    def __init__(self, source: str, report: Report) -> None:
        self._texts = Texts(source, report)
        self._report = report
        self._dollars: list[tuple[str, Span]] = []
        """Texts with a `$name` in them, which is literal."""

    def warn_of_dollars(self, names: Collection[str]) -> None:
        """DAG025 for each text in which a variable with one of these names seems to be meant."""
        for text, span in self._dollars:
            found = next((each for each in _DOLLAR.finditer(text) if each[1] in names), None)
            if found is not None:
                name = found[1]
                message = f"{found[0]} is literal here, although there is a variable of that name"
                whole = f'{{"=": "${name}"}} is its value' if found[0] == text else ""
                inside = f"in a text it is ${{{name}}}"
                self._report.warning("DAG025", message, span, ", ".join(filter(None, (whole, inside))))

    def value(self, node: Node) -> Expression:
        """The expression that a node stands for."""
        match node:
            case Scalar(value=str(text)):
                if "$" in text:
                    self._dollars.append((text, node.span))
                return self._text(node, text) if "${" in text else Literal(text, node.span)
            case Scalar(value=value, span=span):
                return Literal(value, span)
            case Sequence(items=items, span=span):
                return Display(Kind.LIST, tuple(self.value(item) for item in items), span)
            case Mapping(entries=entries, span=span):
                if len(entries) == 1 and entries[0].key == _EXPRESSION:
                    return self.expression(entries[0].value)
                pairs = ((Literal(entry.key, entry.key_span), self.value(entry.value)) for entry in entries)
                return Dict(tuple(pairs), span)

    def condition(self, node: Node) -> Expression:
        """The expression of a condition, which may be its text alone."""
        return (
            self.expression(node)
            if isinstance(node, Scalar) and isinstance(node.value, str)
            else self.value(node)
        )

    def expression(self, node: Node) -> Expression:
        """The expression whose text a node has."""
        if not isinstance(node, Scalar) or not isinstance(node.value, str):
            message = f"an expression is a text, but this is {kind_of(node)}"
            self._report.error("DAG021", message, node.span, 'write {"=": "$x + 1"}')
            return Literal(None, node.span)
        places = self._texts.places(node).span
        try:
            found = read_expression(node.value).expression
        except NotAnExpression as error:
            self._report.error("DAG021", error.message, places(*error.span), error.help)
            return Literal(None, node.span)
        return _placed(found, places)

    def _text(self, node: Scalar, text: str) -> Expression:
        places = self._texts.places(node).span
        parts: list[str | Hole] = []
        at = 0
        while (opening := _OPENING.search(text, at)) is not None:
            slashes = len(opening[1])
            parts.append(text[at : opening.start()] + "\\" * (slashes // 2))
            at = opening.end()
            if slashes % 2:
                parts.append("${")
                continue
            try:
                hole, at = read_hole(text, opening.end(1))
            except NotAnExpression as error:
                help_ = error.help or r"a plain ${ is written \${, which is \\${ in JSON"
                self._report.error("DAG021", error.message, places(*error.span), help_)
                return Literal(text, node.span)
            parts.append(Hole(_placed(hole.expression, places), hole.format))
        parts.append(text[at:])
        return _joined(parts, node.span)


def _joined(parts: list[str | Hole], span: Span) -> Expression:
    merged: list[str | Hole] = []
    for part in parts:
        if isinstance(part, str) and merged and isinstance(merged[-1], str):
            merged[-1] += part
        elif part != "":
            merged.append(part)
    if len(merged) == 1:
        (only,) = merged
        if isinstance(only, str):
            return Literal(only, span)
        if only.format is None:
            return only.expression
    return Text(tuple(merged), span)


def _placed(node: Expression, places: Callable[[int, int], Span]) -> Expression:
    """The expression with its places in the source."""
    inner = mapped(node, lambda part: _placed(part, places))
    return inner if inner.span is None else replace(inner, span=places(*inner.span))


def value_of(node: Expression) -> JSON:
    """The JSON data of an expression, which `Values.value` reads; raises ValueError as its printer does."""
    match node:
        case Literal(value=str(text)):
            return _escaped(text)
        case Literal(value=value):
            return value
        case Display(kind=Kind.LIST, items=items):
            return [value_of(item) for item in items]
        case Dict(items=pairs):
            keys = [key.value for key, _ in pairs if isinstance(key, Literal) and isinstance(key.value, str)]
            if len(keys) == len(pairs) and keys != [_EXPRESSION] and len(set(keys)) == len(keys):
                return {key: value_of(value) for key, (_, value) in zip(keys, pairs, strict=True)}
        case Text(parts=parts):
            is_lone = len(parts) == 1 and isinstance(parts[0], Hole) and parts[0].format is None
            if not is_lone:
                return "".join(_part(part, before_hole=n + 1 < len(parts)) for n, part in enumerate(parts))
        case _:
            pass
    return {_EXPRESSION: format_expression(node)}


def _part(part: str | Hole, *, before_hole: bool) -> str:
    if isinstance(part, str):
        text = _escaped(part)
        return _SLASHES.sub(lambda found: found[0] * 2, text) if before_hole else text
    spec = "" if part.format is None else f":{part.format}"
    return f"${{{format_hole(part.expression)}{spec}}}"


def _escaped(text: str) -> str:
    return _OPENING.sub(lambda found: found[1] * 2 + "\\${", text)
