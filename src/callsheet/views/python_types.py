"""Turns JSON Schemas into types as Python writes them: expressions, and definitions of TypedDicts.

In: the schemas of a tool's arguments or results, as a server wrote them. Out: text that is always valid
Python, whatever the schema contains; what a type cannot say is `Any`.
"""

from __future__ import annotations

import builtins
import keyword
import math
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from callsheet import lazy
from callsheet.passes.structured.shapes import format_of

ANY = "Any"
_SCALARS = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
_WORD = lazy.pattern(r'"(?:[^"\\]|\\.)*"|\b[A-Z]\w*')
"""A text, or the name of a type that has to be defined."""
_MOST_DEPTH = 12
_MOST_CHOICES = 50
_MOST_NAME = 60
_TAKEN = frozenset({*dir(builtins), "Any", "Literal", "NotRequired", "TypedDict"})


def table(value: object) -> Mapping[str, Any]:
    """An object of JSON; empty if it is something else."""
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def required_of(schema: Mapping[str, Any]) -> frozenset[str]:
    """The names of the required properties of an object."""
    given = schema.get("required")
    names = cast("list[object]", given) if isinstance(given, list) else []
    return frozenset(name for name in names if isinstance(name, str))


def is_name(text: str) -> bool:
    """Whether a text can be the name of a variable, argument or function in Python.

    >>> is_name("state"), is_name("from"), is_name("user-id")
    (True, False, False)
    """
    return text.isascii() and text.isidentifier() and not keyword.iskeyword(text)


def class_name(*words: str) -> str:
    """A name of a class from words.

    >>> class_name("list_issues", "result")
    'ListIssuesResult'
    """
    letters = "".join(c if c.isascii() and c.isalnum() else " " for c in " ".join(words))
    name = "".join(part[:1].upper() + part[1:] for part in letters.split())[:_MOST_NAME]
    return name if name[:1].isalpha() else f"T{name}"


def literal(value: object) -> str | None:
    """A JSON value as a literal of Python; None for a list, an object, or no finite number.

    >>> literal("it's"), literal(True), literal([1])
    ('"it\\'s"', 'True', None)
    """
    if isinstance(value, str):
        return f'"{"".join(_escaped(c, quotes=True, is_ascii=True) for c in value)}"'
    if value is None or isinstance(value, bool | int):
        return repr(value)
    if isinstance(value, float) and math.isfinite(value):
        return repr(value)
    return None


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a TypedDict."""

    name: str
    type: str
    is_required: bool
    about: str = ""
    format: str = ""
    """That of a text which is a date or a time."""


@dataclass(frozen=True, slots=True)
class Record:
    """A TypedDict: the shape of an object."""

    name: str
    fields: tuple[Field, ...]

    def lines(self, defined: Container[str]) -> Iterator[str]:
        """Its definition: a class, or a call where a key is no name of Python.

        A call can name only the records that are `defined` before it.
        """
        if all(is_name(each.name) and not each.name.startswith("__") for each in self.fields):
            yield f"class {self.name}(TypedDict):"
            for each in self.fields:
                yield f"    {each.name}: {each.type if each.is_required else f'NotRequired[{each.type}]'}"
                if each.about:
                    yield f"    {docstring(each.about)}"
            return
        yield f"{self.name} = TypedDict("
        yield f'    "{self.name}",'
        yield "    {"
        for each in self.fields:
            kind = _WORD.sub(
                lambda word: word[0] if word[0][0] == '"' or word[0] in _TAKEN or word[0] in defined else ANY,
                each.type,
            )
            yield f"        {literal(each.name)}: {kind if each.is_required else f'NotRequired[{kind}]'},"
        yield "    },"
        yield ")"


@dataclass(slots=True)
class Types:
    """The named types of one module, in the order of their first use."""

    shares: bool = False
    """Whether a record with the same fields is used again, whatever its name would be."""
    records: dict[str, Record] = field(default_factory=dict[str, Record])
    _names: set[str] = field(default_factory=lambda: set(_TAKEN))

    def reserve(self, name: str) -> None:
        """Keep a name from being that of a type."""
        self._names.add(name)

    def of(self, schema: object, hint: str) -> str:
        """The type of a schema; `hint` names the record that it may need."""
        return _Reader(self, schema).type_of(schema, hint, 0)

    def new_name(self, wanted: str) -> str:
        """A name that no other type has."""
        name, number = wanted, 2
        while name in self._names:
            name, number = f"{wanted}{number}", number + 1
        self._names.add(name)
        return name

    def add(self, record: Record) -> str:
        """Define a record and return its name; one with the same fields and a similar name is used again."""
        for other in self.records.values():
            is_called_so = other.name.rstrip("0123456789") == record.name.rstrip("0123456789")
            if other.fields == record.fields and (self.shares or is_called_so):
                return other.name
        self.records[record.name] = record
        return record.name


class _Reader:
    """Reads one schema with its definitions."""

    def __init__(self, types: Types, root: object) -> None:
        self._types = types
        self._root = root
        self._references: dict[str, str] = {}

    def type_of(self, schema: object, hint: str, depth: int) -> str:
        if not isinstance(schema, Mapping) or depth > _MOST_DEPTH:
            return ANY
        given = cast("Mapping[str, Any]", schema)
        if isinstance(reference := given.get("$ref"), str):
            return self._referred(reference, depth)
        if "const" in given:
            return _choice([given["const"]])
        if isinstance(given.get("enum"), list):
            return _choice(given["enum"])
        for key in ("anyOf", "oneOf"):
            if isinstance(options := given.get(key), list):
                return self._union(cast("list[object]", options), hint, depth)
        if isinstance(parts := given.get("allOf"), list):
            only = cast("list[object]", parts)
            return self.type_of(only[0], hint, depth + 1) if len(only) == 1 else ANY
        kind = given.get("type")
        if isinstance(kind, list):
            kinds = cast("list[object]", kind)
            return self._union([{**given, "type": each} for each in kinds], hint, depth)
        return self._plain(kind, given, hint, depth)

    def _plain(self, kind: object, schema: Mapping[str, Any], hint: str, depth: int) -> str:
        if isinstance(kind, str) and kind in _SCALARS:
            return _SCALARS[kind]
        if kind == "array":
            return f"list[{self.type_of(schema.get('items'), _singular(hint), depth + 1)}]"
        properties = table(schema.get("properties"))
        if kind == "object" or (kind is None and properties):
            if properties:
                return self._record(schema, properties, hint, depth)
            more = schema.get("additionalProperties")
            inner = self.type_of(table(more), _singular(hint), depth + 1) if more else ANY
            return f"dict[str, {inner}]"
        return ANY

    def _record(
        self, schema: Mapping[str, Any], properties: Mapping[str, Any], hint: str, depth: int, name: str = ""
    ) -> str:
        title = schema.get("title")
        wanted = class_name(title) if isinstance(title, str) and title.strip() else hint
        own = name or self._types.new_name(wanted)
        needed = required_of(schema)
        fields = tuple(
            Field(
                str(key),
                self.type_of(each, class_name(own, str(key)), depth + 1),
                key in needed,
                _about(each),
                format_of(each),
            )
            for key, each in properties.items()
        )
        return self._types.add(Record(own, fields))

    def _referred(self, reference: str, depth: int) -> str:
        if reference in self._references:
            return self._references[reference]
        target = self._root
        if not reference.startswith("#/"):
            return ANY
        for part in reference[2:].split("/"):
            key = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(target, Mapping) or key not in target:
                return ANY
            target = cast("Mapping[str, object]", target)[key]
        last = class_name(reference.rpartition("/")[2])
        schema = table(target)
        properties = table(schema.get("properties"))
        if properties:
            name = self._references[reference] = self._types.new_name(last)  # before its fields: it may recur
            known = self._record(schema, properties, last, depth + 1, name)
            self._references[reference] = known
            return known
        self._references[reference] = ANY  # a type that consists of itself alone
        self._references[reference] = self.type_of(target, last, depth + 1)
        return self._references[reference]

    def _union(self, options: Sequence[object], hint: str, depth: int) -> str:
        parts: dict[str, None] = {}
        for option in options:
            parts |= dict.fromkeys(parts_of(self.type_of(option, hint, depth + 1)))
        if ANY in parts or not parts:
            return ANY
        ordered = [part for part in parts if part != "None"] + (["None"] if "None" in parts else [])
        return " | ".join(ordered)


def parts_of(expression: str) -> list[str]:
    """The members of a union of types; one inside brackets or a text does not count.

    >>> parts_of("str | list[int | None]")
    ['str', 'list[int | None]']
    """
    parts, depth, start, quoted, at = list[str](), 0, 0, False, 0
    while at < len(expression):
        char = expression[at]
        if quoted and char == "\\":
            at += 1
        elif char == '"':
            quoted = not quoted
        elif not quoted and char in "[]":
            depth += 1 if char == "[" else -1
        elif not quoted and depth == 0 and expression.startswith(" | ", at):
            parts.append(expression[start:at])
            start = at + 3
        at += 1
    return [*parts, expression[start:]]


def _choice(values: object) -> str:
    """One of these values; Any if one of them is no literal of Python."""
    given = cast("list[object]", values)
    texts = [literal(value) for value in given if not isinstance(value, float)]
    known = [text for text in texts if text is not None]
    if not known or len(known) != len(given) or len(known) > _MOST_CHOICES:
        kinds = {type(value) for value in given}
        return kinds.pop().__name__ if len(kinds) == 1 and kinds <= {str, int, float, bool} else ANY
    return f"Literal[{', '.join(dict.fromkeys(known))}]"


def _about(schema: object) -> str:
    about = table(schema).get("description")
    return " ".join(about.split()) if isinstance(about, str) else ""


def _singular(name: str) -> str:
    """The name of an item of a list.

    >>> _singular("Issues"), _singular("Status"), _singular("ListResult")
    ('Issue', 'Status', 'ListResultItem')
    """
    if name.endswith("s"):
        return name[:-1] if len(name) > 3 and name[-2] not in "us" else name
    return f"{name}Item"


def docstring(text: str, indent: str = "    ") -> str:
    """A text as a docstring; nothing in it can end the docstring or hide from the reader.

    >>> docstring('Say "hi".'), docstring('Say "hi"')
    ('\"\"\"Say "hi".\"\"\"', '\"\"\"Say \\\\"hi\\\\"\"\"\"')
    """
    lines = [line.rstrip() for line in text.strip().split("\n")]
    quotes = '"""' in text or lines[-1].endswith('"')
    first, *rest = ("".join(_escaped(c, quotes=quotes) for c in line) for line in lines)
    if not rest:
        return f'"""{first}"""'
    body = "\n".join(f"{indent}{line}" if line else "" for line in rest)
    return f'"""{first}\n{body}\n{indent}"""'


def _escaped(char: str, *, quotes: bool, is_ascii: bool = False) -> str:
    """A character inside a text in Python; one that people cannot see is a code."""
    if char == "\\" or (char == '"' and quotes):
        return f"\\{char}"
    if char == " " or (char.isprintable() and not char.isspace() and (char.isascii() or not is_ascii)):
        return char
    return f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}"
