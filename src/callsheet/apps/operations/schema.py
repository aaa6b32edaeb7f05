"""JSON Schemas (2020-12) from the types of results, and the types that several results share.

In: a type: a TypedDict, a union, a list, a literal. Out: its schema. So a result is declared once, as the
type that its function returns, and no schema can say something else. In `Annotated` a text is a description.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    NotRequired,
    TypeAlias,
    TypedDict,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from callsheet.diagnostics import Diagnostic, Fix, Source, fix_to_json, to_json

Schema: TypeAlias = "dict[str, Any]"


CaseRow = TypedDict("CaseRow", {"if": dict[str, bool], "changes": list[str]})
"""A case: the conditions on which it depends with whether they hold, and what is changed."""


class WorldsRow(TypedDict):
    """What is changed in any case, and with each condition true and false.

    The cases of a group are about conditions that decide together. `undecided` conditions change nothing
    although a change stands behind them; `left_open` were not varied.
    """

    always: list[str]
    groups: list[list[CaseRow]]
    undecided: list[str]
    left_open: list[str]


class Keyword(NamedTuple):
    """A keyword of a schema, for `Annotated`."""

    name: str
    value: int | tuple[str, ...]


Count = Annotated[int, Keyword("minimum", 0)]
Ordinal = Annotated[int, Keyword("minimum", 1)]
Object = dict[str, Any]
"""An object with any content."""

_PLAIN = {str: "string", bool: "boolean", int: "integer", float: "number", dict: "object", NoneType: "null"}
ANY_JSON: Schema = {
    "anyOf": [{"type": kind} for kind in ("string", "number", "boolean", "object", "array", "null")],
    "description": "any JSON value",
}
"""Any value; some clients refuse an empty schema."""


def schema_of(kind: Any, named: Callable[[Any], Schema] | None = None) -> Schema:
    """The schema of a type; `named` gives that of a TypedDict in it, by default its own in full.

    >>> schema_of(Annotated[list[str] | None, "names"])["anyOf"]
    [{'type': 'array', 'items': {'type': 'string'}}, {'type': 'null'}]
    """
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Annotated, NotRequired):
        schema = schema_of(parts[0], named)
        for said in parts[1:]:
            value: Any = said if isinstance(said, str) else said.value
            name = "description" if isinstance(said, str) else said.name
            schema[name] = [*cast("tuple[str, ...]", value)] if isinstance(value, tuple) else value
        return schema
    if is_typeddict(kind):
        return object_schema(kind) if named is None else named(kind)
    if origin in (Union, UnionType):
        return {"anyOf": [schema_of(part, named) for part in parts]}
    if origin is Literal:
        return {"type": "string", "enum": list(parts)}
    if origin is list:
        return (
            {"type": "array"} if parts == (Any,) else {"type": "array", "items": schema_of(parts[0], named)}
        )
    if kind is Any:
        return dict(ANY_JSON)
    return {"type": _PLAIN[origin or kind]}


def object_schema(kind: Any, named: Callable[[Any], Schema] | None = None) -> Schema:
    """The schema of a TypedDict, with its fields and its docstring."""
    hints = get_type_hints(kind, include_extras=True)
    required = [name for name, hint in hints.items() if get_origin(hint) is not NotRequired]
    properties = {name: schema_of(hint, named) for name, hint in hints.items()}
    schema: Schema = {"type": "object", "properties": properties, "required": required}
    return schema if kind.__doc__ is None else schema | {"description": _described(kind.__doc__)}


def _described(docstring: str) -> str:
    first = " ".join(docstring.partition("\n\n")[0].split()).removesuffix(".")
    return first[:1].lower() + first[1:]


def named_types(kind: Any) -> Iterator[Any]:
    """The TypedDicts that a type contains, itself included, each before those in it; some may repeat."""
    if is_typeddict(kind):
        yield kind
        for hint in get_type_hints(kind, include_extras=True).values():
            yield from named_types(hint)
    for part in get_args(kind):
        yield from named_types(part)


# ---------------------------------------------------------------- shared by many results


class EditRow(TypedDict):
    """An edit of a text, by character offsets."""

    start: Count
    end: Count
    text: str


class FixRow(TypedDict):
    """Edits of the text that fix it."""

    title: str
    edits: list[EditRow]


class DiagnosticRow(TypedDict):
    """An error, a warning or a hint."""

    code: Annotated[str, "the diagnostic code, such as LTP012; `explain` shows its page"]
    severity: Literal["error", "warning", "hint"]
    message: Annotated[str, "the message"]
    help: NotRequired[Annotated[str, "how to fix it"]]
    step: NotRequired[Annotated[str, "the id of the step"]]
    source: NotRequired[Annotated[str, "the name of the text, such as a file name"]]
    line: NotRequired[Ordinal]
    column: NotRequired[Ordinal]
    end_line: NotRequired[Ordinal]
    end_column: NotRequired[Ordinal]
    fix: NotRequired[FixRow]


class ProblemRow(TypedDict):
    """An error as in RFC 9457, with diagnostics."""

    type: Annotated[str, "the address of the page that explains the code"]
    title: str
    status: int
    detail: Annotated[str, "what is wrong"]
    code: Annotated[str, "the first diagnostic's code"]
    diagnostics: list[DiagnosticRow]
    effects: NotRequired[Annotated[list[Object], "effects of the new run that need consent"]]
    consent: NotRequired[Annotated[str, "the code that allows exactly these effects"]]


Ok = Annotated[bool, "whether there are no errors"]
SyntaxWord = Annotated[str | None, "the syntax: ltp, micro, dag, python, or json for the canonical form"]
PlanHash = Annotated[str, "the SHA-256 of the plan's canonical form"]
Time = Annotated[str, "a time as ISO 8601, in UTC"]


def fix_row(fix: Fix) -> FixRow:
    """A fix as data."""
    return cast("FixRow", fix_to_json(fix))


def diagnostic_rows(
    diagnostics: Sequence[Diagnostic], source: Source | None = None, *, named: bool = False
) -> list[DiagnosticRow]:
    """Diagnostics as rows; with `named` each has the name of its source, also one without a position."""
    rows: list[Mapping[str, object]] = [*to_json(diagnostics, source)]
    if named and source is not None:
        rows = [{"source": source.name, **row} for row in rows]
    return cast("list[DiagnosticRow]", rows)
