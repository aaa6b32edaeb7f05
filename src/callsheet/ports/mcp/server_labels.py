"""The labels that MCP servers give to what they return: read from `_meta` and annotations, never believed.

In: a result, a declaration. Out: a `SaidLabel`, which a policy's label is joined with. So a server can say
that data is private or untrusted; that it is public or trusted changes nothing. Three vocabularies are read:

- `_meta.ifc`: `integrity` and `confidentiality`, as servers with information-flow labels send it;
- `_meta.annotations`: the hints of SEP-1913 (`privateHint`, `sensitiveHint`, `openWorldHint`, …);
- `_meta["io.modelcontextprotocol/trust-annotations"]`: `sensitive` and `untrusted`, its successor.

What is there and is none of the known words counts as untrusted and private, and is told by its place.
Nothing of a server's text is kept: a label is one of a few, whatever was sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

from callsheet.ir.labels import LITERAL, UNKNOWN, Label, read_label
from callsheet.machine.events import LABEL, Fact

if TYPE_CHECKING:
    from mcp_types import CallToolResult

    from callsheet.ports.calls import CallContext

IFC = "ifc"
HINTS = "annotations"
TRUST = "io.modelcontextprotocol/trust-annotations"
_MOST_PLACES = 3
"""How many places a remark names."""

_UNTRUSTED = Label(True)
_PRIVATE = Label(False, UNKNOWN.readers)
_PERSONAL = read_label("T/user")
_Words: TypeAlias = Mapping[str, Label]


class _Field(NamedTuple):
    """What the values of a field mean: those of a list together; `other` is the label of what is none."""

    words: _Words
    other: Label
    or_true: Label | None = None
    """The label of `true`; None if the field is no yes or no."""


def _hint(label: Label) -> _Field:
    return _Field({}, label, label)


_SOURCES = _Field(
    {"untrustedPublic": _UNTRUSTED} | dict.fromkeys(("trustedPublic", "internal", "user", "system"), LITERAL),
    _UNTRUSTED,
)
_CLASSES = _Field(
    {"none": LITERAL, "credentials": _PERSONAL} | dict.fromkeys(("user", "pii", "financial"), _PRIVATE),
    _PERSONAL,
)
_FIELDS: Mapping[str, Mapping[str, _Field]] = {
    IFC: {
        "integrity": _Field({"trusted": LITERAL, "untrusted": _UNTRUSTED}, _UNTRUSTED),
        # Names of readers are those of the server: they are not everybody, and no audience of a policy.
        "confidentiality": _Field(
            {"public": LITERAL, "private": _PRIVATE, "user_identity": _PERSONAL}, _PRIVATE
        ),
    },
    HINTS: {
        "privateHint": _hint(_PRIVATE),
        "sensitiveHint": _Field(
            {"low": _PRIVATE, "medium": _PRIVATE, "high": _PERSONAL}, _PERSONAL, _PRIVATE
        ),
        "openWorldHint": _hint(_UNTRUSTED),
        "maliciousActivityHint": _hint(_UNTRUSTED),
        "sensitivity": _CLASSES,
        "source": _SOURCES,
    },
    TRUST: {"sensitive": _hint(_PRIVATE), "untrusted": _hint(_UNTRUSTED)},
}
_OF_DECLARATION: Mapping[str, _Field] = {
    name: field
    for name, field in _FIELDS[HINTS].items()
    if name not in ("openWorldHint", "source", "sensitivity")
}
"""Without `openWorldHint`: libraries write out that default of the protocol for every tool."""


class SaidLabel(NamedTuple):
    """What a server says of data: its label, and where it says so.

    `odd` are the places of what was not understood. `is_suspicious`: it has seen signs of an attack.
    """

    label: Label = LITERAL
    places: tuple[str, ...] = ()
    odd: tuple[str, ...] = ()
    is_suspicious: bool = False

    def join(self, other: SaidLabel) -> SaidLabel:
        """What both say, of data of which each describes a part."""
        places = tuple(dict.fromkeys((*self.places, *other.places)))
        odd = tuple(dict.fromkeys((*self.odd, *other.odd)))
        is_suspicious = self.is_suspicious or other.is_suspicious
        return SaidLabel(self.label.join(other.label), places, odd, is_suspicious)

    def tell(self, context: CallContext) -> None:
        """Tell the policy of a run the label, and people what they should know of it in any run."""
        if self.is_suspicious:
            context.remark(Fact("warning", "the server has seen signs of an attack in it"))
        if self.odd:
            told = f"the server's labels at {_some_of(self.odd)} were not understood"
            context.remark(Fact(LABEL, f"{told}: they are dropped, and count as {UNKNOWN}"))
        if self.label is not LITERAL:
            context.labelled(self.label, _some_of(self.places))


NOTHING_SAID = SaidLabel()


def _some_of(places: tuple[str, ...]) -> str:
    """The first places, and how many more there are."""
    more = len(places) - _MOST_PLACES
    return ", ".join(places[:_MOST_PLACES]) + (f" and {more} more" if more > 0 else "")


def said_of_result(result: CallToolResult) -> SaidLabel:
    """What a server says of a result, as a whole or of a part of its content: the join of all."""
    parts = [("_meta", result.meta)]
    for number, block in enumerate(result.content):
        if block.meta:
            parts.append((f"content[{number}]._meta", block.meta))
        if block.type == "resource" and block.resource.meta:
            parts.append((f"content[{number}].resource._meta", block.resource.meta))
    return _joined(parts)


def said_of_answer(result: Mapping[str, Any], field: str) -> SaidLabel:
    """What a server says of the answer to another request, or of the parts in a field of it.

    >>> answer = {"contents": [{"uri": "a:b", "_meta": {"ifc": {"integrity": "untrusted"}}}]}
    >>> said = said_of_answer(answer, "contents")
    >>> str(said.label), said.places
    ('U/pub', ('contents[0]._meta.ifc.integrity',))
    """
    parts: list[tuple[str, Any]] = [("_meta", result.get("_meta"))]
    found = result.get(field)
    for number, each in enumerate(cast("list[Any]", found) if isinstance(found, list) else ()):
        if isinstance(each, dict):
            parts.append((f"{field}[{number}]._meta", cast("dict[str, Any]", each).get("_meta")))
    return _joined(parts)


def said_of_tool(declaration: Mapping[str, Any]) -> SaidLabel:
    """What a server says of all results of a tool, in its declaration.

    >>> declared = {"name": "pay", "annotations": {"privateHint": True, "openWorldHint": True}}
    >>> str(said_of_tool(declared).label)
    'T/priv'
    >>> str(said_of_tool({"name": "me", "_meta": {"ifc": {"integrity": "trusted"}}}).label)
    'T/pub'
    """
    said = _in_meta("_meta", declaration.get("_meta"))
    hints = declaration.get(HINTS)
    if isinstance(hints, dict):
        given = cast("dict[str, Any]", hints)
        said = said.join(_in_fields(HINTS, given, _OF_DECLARATION))
        returned = given.get("returnMetadata")
        if returned is not None:
            said = said.join(_in_label(f"{HINTS}.returnMetadata", returned, _FIELDS[HINTS]))
    return said


def _joined(parts: Iterable[tuple[str, Any]]) -> SaidLabel:
    said = NOTHING_SAID
    for place, meta in parts:
        if meta:
            found = _in_meta(place, meta)
            said = said if found is NOTHING_SAID else said.join(found)
    return said


def _in_meta(place: str, meta: object) -> SaidLabel:
    """What is said in a `_meta`; other fields of it are none of ours."""
    said = NOTHING_SAID
    if not isinstance(meta, dict):
        return said
    given = cast("dict[str, Any]", meta)
    for vocabulary, fields in _FIELDS.items():
        if vocabulary in given:
            found = _in_label(f"{place}.{vocabulary}", given[vocabulary], fields)
            said = said if found is NOTHING_SAID else said.join(found)
    return said


def _in_label(place: str, value: object, fields: Mapping[str, _Field]) -> SaidLabel:
    if not isinstance(value, dict):
        return SaidLabel(UNKNOWN, (place,), (place,))
    return _in_fields(place, cast("dict[str, Any]", value), fields)


def _in_fields(place: str, given: Mapping[str, Any], fields: Mapping[str, _Field]) -> SaidLabel:
    label, places, odd, is_suspicious = LITERAL, list[str](), list[str](), False
    for name, field in fields.items():
        if name not in given:
            continue
        found, is_known = _meaning(given[name], field)
        if found is LITERAL and is_known:
            continue
        label = label.join(found)
        places.append(f"{place}.{name}")
        if not is_known:
            odd.append(f"{place}.{name}")
        is_suspicious = is_suspicious or (name == "maliciousActivityHint" and is_known)
    if label is LITERAL and not odd:
        return NOTHING_SAID
    return SaidLabel(label, tuple(places), tuple(odd), is_suspicious)


_MOST_VALUES = 16
"""How many values of a list are looked at one by one; more are the names of readers, or hostile."""


def _meaning(value: object, field: _Field) -> tuple[Label, bool]:
    """The label that a value of a field stands for, and whether the value is one that the field can have."""
    if isinstance(value, bool) or value is None:
        if field.or_true is not None:
            return (field.or_true if value else LITERAL), True
        return _least(field), False
    if isinstance(value, str):
        return (field.words[value], True) if value in field.words else (_least(field), False)
    if isinstance(value, list):
        return _of_list(cast("list[Any]", value), field)
    if isinstance(value, dict) and field is _CLASSES and "regulated" in value:
        return _PERSONAL, True
    return _least(field), False


def _of_list(values: list[Any], field: _Field) -> tuple[Label, bool]:
    """The meaning of several values: of readers who are not all known by name, or of all that may be."""
    if field is _FIELDS[IFC]["confidentiality"]:
        if not values:
            return _PERSONAL, True  # no reader is common to all of it: only whose access it was
        if len(values) == 1 and values[0] in ("public", "private", "user_identity"):
            return field.words[values[0]], True
        return _PRIVATE, len(values) > _MOST_VALUES or all(isinstance(each, str) for each in values)
    if not values or len(values) > _MOST_VALUES or field not in (_CLASSES, _SOURCES):
        return _least(field), False
    found = [_meaning(each, field) for each in values if not isinstance(each, list)]
    label = field.other if len(found) < len(values) else LITERAL
    for each, _ in found:
        label = label.join(each)
    return label, len(found) == len(values) and all(is_known for _, is_known in found)


def _least(field: _Field) -> Label:
    """The label of a value that is not understood: nothing less than any that the field can give."""
    return field.other.join(UNKNOWN)
