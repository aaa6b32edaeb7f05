"""Checks a call of version 2 against its tool or operation, and finds the shape of its result.

What is written in the call is judged by the same code as in version 1, what it computes by its shape.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, cast

from callsheet import lazy
from callsheet.diagnostics import Edit, Fix, Severity, Span
from callsheet.ir import Call, CallKind, DictExpr, ListExpr, Literal, Ref, Template, Value
from callsheet.ir.expression import Display, Expression, Hole, Kind, Text, Variable, variables_in
from callsheet.ir.expression import Mapping as Pairs
from callsheet.ir.tree import Act
from callsheet.ir.types import Basic
from callsheet.passes.calls import (
    CODE_ARGUMENTS,
    code_findings,
    file_findings,
    operation_findings,
    tool_findings,
    unknown_tool,
)
from callsheet.passes.finding import OPERATIONS, ToolSignature
from callsheet.passes.schema import Fit, may_take, misfits, wanted
from callsheet.passes.structured import shapes
from callsheet.passes.structured.shapes import (
    ANY,
    Fields,
    Items,
    Options,
    Shape,
    Special,
    Table,
    Tuple,
    list_of,
    of_schema,
    text,
    widened,
)
from callsheet.passes.structured.typing import Typer

_QUERY = "query"
_WITH_TEXTS = ("SELECT", "CALC")
"""The tools whose argument is a text in another language."""
_ROOT = lazy.pattern(r"[.\[]")


class Calls:
    """Checks the calls of one plan; without a catalogue of `tools` none counts as unknown."""

    def __init__(self, tools: Mapping[str, ToolSignature] | None) -> None:
        self.tools = tools
        self._results: dict[str, Shape] = {}

    def check(self, typer: Typer, act: Act) -> Shape:
        """The shape of what a call gives, after a check of the call."""
        given = self._arguments(typer, act)
        faulty: set[str] = set()
        if self.tools is not None or act.tool in OPERATIONS or act.tool in CODE_ARGUMENTS:
            for finding in self._findings(typer, act):
                typer.report.add_finding(finding, act)
                faulty.update(finding.names[1:])
        signature = None if self.tools is None else self.tools.get(act.tool)
        if signature is not None:
            _shapes(typer, act, signature, given, faulty)
        return self._result(act, signature)

    def _arguments(self, typer: Typer, act: Act) -> dict[int | str, Shape]:
        """The shape of each argument by its position or name."""
        given: dict[int | str, Shape] = {}
        if act.tool not in _WITH_TEXTS:
            for name, value in (*enumerate(act.positional), *act.named):
                given[name] = typer.data(value)
            return given
        own = dict(act.named)
        for name, value in (*enumerate(act.positional), *act.named):
            query = act.tool == "SELECT" and (name == _QUERY or (name == 1 and _QUERY not in own))
            if query and isinstance(value, Literal) and isinstance(value.value, str):
                _check_parameters(typer, act, value)
            if act.tool == "CALC" and isinstance(value, Text):
                _check_text_of_calc(typer, value)
            if query and isinstance(value, Text):
                _check_query(typer, act, value)
                given[name] = shapes.STR
            else:
                given[name] = typer.data(value)
        return given

    def _findings(self, typer: Typer, act: Act) -> Iterator[Any]:
        call = Call(
            act.tool,
            tuple(_value(one) for one in act.positional),
            tuple((name, _value(value)) for name, value in act.named),
            act.span,
        )
        suggest = typer.report.suggest
        operation = OPERATIONS.get(act.tool)
        if operation is not None:
            yield from operation_findings(suggest, 0, call, operation)
        elif self.tools is not None:
            signature = self.tools.get(act.tool)
            if signature is not None:
                yield from tool_findings(suggest, 0, _without_parameters(call), signature)
            elif call.kind is CallKind.TOOL:
                yield unknown_tool(suggest, self.tools, 0, call)
        if act.tool in CODE_ARGUMENTS:
            yield from code_findings(0, call, act.span)
            yield from file_findings(0, call)

    def _result(self, act: Act, signature: ToolSignature | None) -> Shape:
        if act.tool == "LLM_CLASSIFY":
            given = dict(act.named).get("categories")
            items = given.items if isinstance(given, Display) else ()
            words = [one.value for one in items if isinstance(one, Literal) and isinstance(one.value, str)]
            return Shape((Options(tuple(words)),)) if words and len(words) == len(items) else ANY
        if signature is None:
            return ANY
        if signature.result is None:
            return list_of(ANY) if signature.gives_list else ANY
        if act.tool not in self._results:
            self._results[act.tool] = of_schema(signature.result, f"the result of @{act.tool}")
        return self._results[act.tool]


def _value(node: Expression) -> Value:
    """An expression as a value of version 1, so that what is literal in it can be judged."""
    match node:
        case Variable(name=name, span=span):  # by far the most frequent
            return Ref(name, (), span)
        case Literal():
            return node
        case Text(parts=parts, span=span):
            return Template(
                tuple(part if isinstance(part, str) else _ref(part.expression) for part in parts), span
            )
        case Display(kind=Kind.LIST | Kind.TUPLE, items=items, span=span):
            return ListExpr(tuple(map(_value, items)), span)
        case Pairs(items=pairs, span=span):
            keys = [key.value for key, _ in pairs if isinstance(key, Literal) and isinstance(key.value, str)]
            if len(set(keys)) == len(pairs):
                values = (_value(value) for _, value in pairs)
                return DictExpr(tuple(zip(keys, values, strict=True)), span)
            return _ref(node)
        case _:
            return _ref(node)


def _ref(node: Expression) -> Ref:
    names = variables_in(node)
    return Ref(names[0] if names else "…", (), node.span)


def _without_parameters(call: Call) -> Call:
    """The call without the parameters of a query, which are named as the query likes."""
    if call.tool != "SELECT":
        return call
    named = tuple((name, value) for name, value in call.named if name in ("data", _QUERY))
    return Call(call.tool, call.positional, named, call.span)


_READ = lazy.pattern(
    r"""'(?:\\.|[^'\\])*'|`(?:\\.|[^`\\])*`|"(?:\\.|[^"\\])*"|\$([A-Za-z_]\w*)""", re.S | re.A
)
"""A quoted part of a query, or a parameter that it reads."""


def _check_parameters(typer: Typer, act: Act, query: Literal) -> None:
    """CHK042 for a parameter of a query that the call does not give, CHK041 for one that is not read."""
    read = [one[1] for one in _READ.finditer(str(query.value)) if one[1]]
    given = {name: value for name, value in act.named if name not in ("data", _QUERY)}
    for name in dict.fromkeys(read):
        if name not in given:
            help_ = typer.near(name, given) or f"add {name}=… to the call"
            typer.add("CHK042", f"the query reads ${name}, which the call does not give", query, help_)
    for name, value in given.items():
        if name not in read:
            help_ = typer.near(name, read) or f"a query reads it as ${name}"
            typer.add("CHK041", f"the query has no parameter {name}", value, help_)


def _check_query(typer: Typer, act: Act, query: Text) -> None:
    """CHK124 for a value that becomes part of the text of a query."""
    given = {name for name, _ in act.named}
    for place, part in enumerate(query.parts):
        if not isinstance(part, Hole):
            continue
        inner = part.expression
        typer.data(inner)
        names = variables_in(inner)
        name = names[0] if names else "x"
        typer.add(
            "CHK124",
            f"a value becomes part of the text of the query (${name}), and could rewrite it",
            inner,
            f'give it as a parameter: query="… ${name} …", {name}=…',
            fix=None if name in given else _as_parameter(act, query, place, inner),
        )


def _check_text_of_calc(typer: Typer, text: Text) -> None:
    """CHK124 for a value that becomes part of the text of an expression."""
    span, fix = text.span, None
    parts = [part if isinstance(part, str) else _reference(part) for part in text.parts]
    written = "".join(part for part in parts if part is not None)
    if span is not None and len(written) == span.end - span.start - 2:  # plain references in plain quotes
        edits = (Edit(Span(span.start, span.start + 1), ""), Edit(Span(span.end - 1, span.end), ""))
        fix = Fix("write the expression without quotes", edits)
    typer.add(
        "CHK124",
        "a value becomes part of the text of the expression",
        text,
        "write the expression without quotes: @CALC ($price * 1.2)",
        fix=fix,
    )


def _reference(part: Hole) -> str | None:
    """The text of a hole that is a variable without braces."""
    node = part.expression
    return f"${node.name}" if isinstance(node, Variable) else None


def _as_parameter(act: Act, query: Text, place: int, inner: Expression) -> Fix | None:
    """The edits that make a variable in the text of a query its parameter; None if it is more."""
    values = [*act.positional, *(value for _, value in act.named)]
    ends = [value.span.end for value in values if value.span is not None]
    if not isinstance(inner, Variable) or inner.span is None or len(ends) < len(values):
        return None
    before, after = query.parts[place - 1 : place], query.parts[place + 1 : place + 2]
    edits = [Edit(Span(max(ends), max(ends)), f", {inner.name}=${inner.name}")]
    is_quoted = before and after and str(before[0]).endswith("'") and str(after[0]).startswith("'")
    if is_quoted:
        if inner.span.end - inner.span.start != len(inner.name) + 1:
            return None  # in braces, with the quotes around them
        start, end = inner.span
        edits += [Edit(Span(start - 1, start), ""), Edit(Span(end, end + 1), "")]
    return Fix(f"make ${inner.name} a parameter of the query", tuple(sorted(edits, key=lambda one: one.span)))


# ---------------------------------------------------------------- arguments by their shapes


def _shapes(
    typer: Typer,
    act: Act,
    signature: ToolSignature,
    given: Mapping[int | str, Shape],
    faulty: Collection[str],
) -> None:
    """CHK044 and CHK122 for each argument but those of which a part is `faulty` as it is written."""
    named = {name for name, _ in act.named}
    free = [name for name in signature.parameters if name not in named]
    roots = {_ROOT.split(place, maxsplit=1)[0] for place in faulty}
    for name, (number, node) in zip(free, enumerate(act.positional), strict=False):
        if name not in roots:
            _argument(typer, act, signature, name, node, given[number])
    for name, node in act.named:
        if name not in roots:
            _argument(typer, act, signature, name, node, given[name])


def _argument(
    typer: Typer, act: Act, signature: ToolSignature, name: str, node: Expression, shape: Shape
) -> None:
    schema, root = signature.schema_of(name), signature.schema
    what = f"the argument {name} of @{act.tool}"
    if shape.may_be_null and not isinstance(node, Literal) and not may_take(schema, root, "null"):
        is_null = not shape.without(Special.NULL).kinds
        typer.add(
            "CHK122",
            f"{what} {'is' if is_null else 'may be'} null here, and should be {wanted(schema)}",
            node,
            'give another value for null with ?? ("none", 0, []), or test it first',
            Severity.ERROR if is_null else Severity.WARNING,
        )
    if isinstance(node, Literal | Text):
        return
    fits = [_fits(kind, schema, root) for kind in shape.without(Special.NULL).kinds]
    worst = max(fits, default=Fit.YES)
    if worst is Fit.YES:
        return
    typer.add(
        "CHK044",
        f"{what} should be {wanted(schema)}, and is {text(widened(shape.without(Special.NULL)))}",
        node,
        _help(name, shape, schema, root),
        Severity.ERROR if worst is Fit.NO else Severity.WARNING,
    )


def _help(name: str, shape: Shape, schema: Mapping[str, Any], root: Mapping[str, Any]) -> str | None:
    kinds = shape.without(Special.NULL).kinds
    if listed := [kind.item.without(Special.NULL).kinds for kind in kinds if isinstance(kind, Items)]:
        one = "go through it with ?FOREACH, or take one of its items, the first is [0]"
        records = [kind for item in listed for kind in item if isinstance(kind, Fields)]
        if records and not may_take(schema, root, "object"):
            return f"{one}, and of it {_which_field(name, records, schema, root)}"
        joined = '; ", ".join(…) makes one text of all' if may_take(schema, root, "string") else ""
        return f"{one}{joined}"
    if any(isinstance(kind, Fields) for kind in kinds) and not may_take(schema, root, "object"):
        return _which_field(name, kinds, schema, root)
    if may_take(schema, root, "array"):
        return f"write a list, also of one: {name}=[…]"
    if may_take(schema, root, "integer") or may_take(schema, root, "number"):
        return "convert it: int(…) or float(…)"
    if may_take(schema, root, "string"):
        return 'write it into a text: "${…}"' if not any(isinstance(one, Fields) for one in kinds) else (
            _which_field(name, kinds, schema, root)
        )  # fmt: skip
    return None


def _which_field(
    name: str, kinds: Iterable[shapes.Kind], schema: Mapping[str, Any], root: Mapping[str, Any]
) -> str:
    """Which field of a record an argument was meant to be: of its own name, or the only one that fits."""
    fields = {
        key: known.shape for kind in kinds if isinstance(kind, Fields) for key, known in kind.fields.items()
    }
    fitting = [
        key
        for key, shape in fields.items()
        if shape.kinds
        and all(_fits(kind, schema, root) is Fit.YES for kind in shape.without(Special.NULL).kinds)
    ]
    if name in fitting:
        return f'take its field "{name}"'
    return f'take its field "{fitting[0]}"' if len(fitting) == 1 else "take one of its fields"


_JSON_KINDS: Mapping[Basic, tuple[str, ...]] = {
    Basic.STR: ("string",),
    Basic.INT: ("integer", "number"),
    Basic.FLOAT: ("number", "integer"),
    Basic.BOOL: ("boolean",),
    Basic.DATE: ("string",),
    Basic.DATETIME: ("string",),
    Basic.DURATION: ("number", "integer"),
}
_DEEPEST = 6


def _fits(kind: shapes.Kind, schema: Mapping[str, Any], root: Mapping[str, Any], depth: int = 0) -> Fit:
    """How well a value of a kind fits a schema; YES if that is not known."""
    if depth > _DEEPEST:
        return Fit.YES
    match kind:
        case Basic.JSON | Special():
            return Fit.YES
        case Basic():
            return _basic(kind, schema, root)
        case Options(values=values):
            found = [
                min((one.fit for one in misfits(Literal(value), schema, root)), default=Fit.YES)
                for value in values
            ]
            return max(found)
        case Items(kind=sort, item=item):
            if sort == "set" or not may_take(schema, root, "array"):
                return Fit.NO
            return _inside(item, schema.get("items"), root, depth)
        case Tuple():
            return Fit.YES if may_take(schema, root, "array") else Fit.NO
        case Table():
            return Fit.YES if may_take(schema, root, "object") else Fit.NO
        case Fields():
            return _fields(kind, schema, root, depth) if may_take(schema, root, "object") else Fit.NO


def _inside(shape: Shape, schema: object, root: Mapping[str, Any], depth: int) -> Fit:
    """How well the best kind of an item or field fits."""
    if not isinstance(schema, Mapping):
        return Fit.YES
    known = cast("Mapping[str, Any]", schema)
    kinds = shape.without(Special.NULL, Special.FAILURE).kinds
    return max((_fits(kind, known, root, depth + 1) for kind in kinds), default=Fit.YES)


def _fields(kind: Fields, schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> Fit:
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, Mapping) or "anyOf" in schema or "oneOf" in schema or "$ref" in schema:
        return Fit.YES
    needed = cast("list[Any]", required) if isinstance(required, list) else []
    if not kind.is_open and any(isinstance(name, str) and name not in kind.fields for name in needed):
        return Fit.NO
    parts = cast("Mapping[str, Any]", properties)
    fits = (
        _inside(known.shape, parts[name], root, depth) for name, known in kind.fields.items() if name in parts
    )
    return min(fits, default=Fit.YES)


def _basic(kind: Basic, schema: Mapping[str, Any], root: Mapping[str, Any]) -> Fit:
    if any(may_take(schema, root, name) for name in _JSON_KINDS[kind]):
        return Fit.YES
    is_number = kind in (Basic.INT, Basic.FLOAT)
    loosely = ("string",) if is_number else ("integer", "number") if kind is Basic.STR else ()
    return Fit.LOOSELY if any(may_take(schema, root, name) for name in loosely) else Fit.NO
