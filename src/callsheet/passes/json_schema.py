"""Judges known data by a JSON schema with the library `jsonschema`, where `passes.schema` does not suffice.

In: data, a schema, and the document that its references point into. Out: what the library rejects, or None if
it cannot judge. Schemas are untrusted: nothing is fetched (a reference to another document makes a schema one
that cannot be judged), patterns are matched by RE2, and the work is bounded. A schema whose keywords
`passes.schema` understands completely is not given to the library, which then is not even imported.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from functools import cache, lru_cache
from importlib import import_module
from itertools import islice
from math import isfinite
from typing import Any, cast

from callsheet import lazy
from callsheet.ir import JSON, ListExpr, Literal, Value
from callsheet.ir.linear_patterns import PatternRejected, compile_pattern
from callsheet.lazy import NamedTuple

_MOST_ITEMS = 10_000
"""Longer lists are not searched for equal items."""
_LONGEST_PATTERN = 2_000
_LONGEST_TEXT = 10_000
"""Longer texts are not matched with a pattern."""
_PATTERN_MEMORY = 1 << 20


def is_multiple(number: float, of: float) -> bool:
    """Whether a number is a multiple of another as both are written: 0.3 is one of 0.1."""
    if of <= 0 or not all(
        isfinite(part) if isinstance(part, float) else abs(part) < 10**300 for part in (number, of)
    ):
        return True
    from fractions import Fraction  # noqa: PLC0415 - only for such a keyword

    whole, step = Fraction(repr(number)), Fraction(repr(of))
    return (whole / step).denominator == 1


_BOUNDS: tuple[tuple[str, str, Callable[[float, float], bool]], ...] = (
    ("minimum", "number", lambda value, bound: value >= bound),
    ("maximum", "number", lambda value, bound: value <= bound),
    ("exclusiveMinimum", "number", lambda value, bound: value > bound),
    ("exclusiveMaximum", "number", lambda value, bound: value < bound),
    ("multipleOf", "number", is_multiple),
    ("minLength", "string", lambda value, bound: value >= bound),
    ("maxLength", "string", lambda value, bound: value <= bound),
    ("minItems", "array", lambda value, bound: value >= bound),
    ("maxItems", "array", lambda value, bound: value <= bound),
)
"""Keyword, type it applies to, and whether it is satisfied; strings and lists are compared by length."""


def keeps_constraints(value: Value, schema: Mapping[str, Any], repeats: Callable[[Value], bool]) -> bool:
    """Whether a value satisfies the constraints of a schema on it, not on its items or fields.

    `repeats` tells whether a list has two equal items.
    """
    measured: int | float
    match value:
        case Literal(value=bool() | None):
            return True
        case Literal(value=str() as text):
            kind, measured = "string", len(text)
            pattern: Any = schema.get("pattern")
            if isinstance(pattern, str) and match_of(pattern, text) is False:
                return False
        case Literal(value=int() | float() as number):
            kind, measured = "number", number
        case ListExpr(items=items):
            kind, measured = "array", len(items)
            if schema.get("uniqueItems") is True and repeats(value):
                return False
        case _:
            return True
    return all(
        keeps(measured, bound)
        for name, of, keeps in _BOUNDS
        if of == kind and (bound := _bound(schema, name)) is not None
    )


def constraints_in_words(schema: Mapping[str, Any]) -> str:
    """The constraints, for messages; empty without any.

    >>> constraints_in_words({"minimum": 1, "pattern": "^[a-z]+$"})
    ' (minimum 1, pattern ^[a-z]+$)'
    """
    parts = [f"{name} {schema[name]}" for name, _, _ in _BOUNDS if _bound(schema, name) is not None]
    if isinstance(pattern := schema.get("pattern"), str):
        parts.append(f"pattern {pattern[:80]}")
    if schema.get("uniqueItems") is True:
        parts.append("no duplicates")
    return f" ({', '.join(parts)})" if parts else ""


def is_equal(option: object, literal: JSON) -> bool:
    """Whether two values are equal as JSON: 1 equals 1.0 but not true, which Python's `==` equates.

    >>> is_equal(1, 1.0), is_equal(1, True)
    (True, False)
    """
    if isinstance(option, bool) or isinstance(literal, bool):
        return option is literal
    return option == literal


def _bound(schema: Mapping[str, Any], name: str) -> int | float | None:
    """The number of a bound; None without one, and for the boolean `exclusiveMinimum` of older drafts."""
    found: Any = schema.get(name)
    return found if isinstance(found, int | float) and not isinstance(found, bool) else None


def has_equal_items(items: JSON) -> bool:
    """Whether a list has two items that are equal as JSON; False for a longer list than is searched.

    >>> has_equal_items([1, "1", True]), has_equal_items([{"a": 1}, {"a": 1.0}])
    (False, True)
    """
    if not isinstance(items, list) or len(items) > _MOST_ITEMS:
        return False
    seen: set[str] = set()
    for item in items:
        text = json.dumps(_plain(item), sort_keys=True)
        if text in seen:
            return True
        seen.add(text)
    return False


def _plain(data: JSON) -> JSON:
    """The data with whole floats as integers, so that equal numbers have one text."""
    if isinstance(data, float) and data.is_integer():
        return int(data)
    if isinstance(data, list):
        return [_plain(item) for item in data]
    if isinstance(data, dict):
        return {name: _plain(item) for name, item in data.items()}
    return data


def match_of(pattern: str, text: str) -> bool | None:
    """Whether a text has a match; None if the text is too long, or RE2 rejects the pattern."""
    compiled = _compiled(pattern) if len(text) <= _LONGEST_TEXT else None
    clean = text if text.isascii() else text.encode(errors="replace").decode()
    return None if compiled is None else compiled.search(clean) is not None


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> Any:
    """The pattern for RE2; None if RE2 rejects it."""
    if len(pattern) > _LONGEST_PATTERN:
        return None
    try:
        return compile_pattern(pattern.encode(errors="replace").decode(), memory=_PATTERN_MEMORY)
    except PatternRejected:
        return None


_MOST_WORK = 20_000
"""Most keywords that one judgement evaluates; a schema that needs more is not judged."""
_MOST_REJECTIONS = 20
_MOST_SCHEMAS = 5_000
"""A larger schema is always given to the library."""
_MOST_JUDGES = 512
_LONGEST_MESSAGE = 200
_LIBRARY_ONLY = frozenset(
    (
        *("not", "if", "then", "else", "oneOf", "contains", "minContains", "maxContains"),
        *("patternProperties", "propertyNames", "minProperties", "maxProperties"),
        *("dependentRequired", "dependentSchemas", "dependencies", "unevaluatedItems"),
        *("unevaluatedProperties", "additionalItems", "$id", "id", "$anchor", "$dynamicAnchor"),
        *("$dynamicRef", "$recursiveRef", "$recursiveAnchor", "extends", "disallow", "divisibleBy"),
    )
)
"""Keywords that `passes.schema` does not know, or does not enforce."""
_ASSERTIONS = frozenset(
    (
        *("type", "enum", "const", "properties", "required", "additionalProperties", "items", "prefixItems"),
        *("anyOf", "allOf", "$ref", "pattern", "minLength", "maxLength", "minItems", "maxItems"),
        *("uniqueItems", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    )
)
_MODERN = lazy.pattern(r"https?://json-schema\.org/(?:draft/20\d\d-\d\d|draft-0[67])/schema#?")
_SIMPLE_PATTERN = lazy.pattern(r"\^?(?:[^\\^$.|?*+()\[\]{}]|\\[.\-_/$]|\.(?![*+?{]))*(?:\.\*)?\$?")
"""A pattern that takes linear time in Python, too."""


class Rejection(NamedTuple):
    """One fault: the keys and indexes that lead to it, the keyword, the schema that has it, and a message.

    `names` are the missing fields for `required`, the known ones for `additionalProperties`.
    """

    path: tuple[str | int, ...]
    keyword: str
    schema: Mapping[str, Any]
    message: str
    names: tuple[str, ...] = ()


class Judge:
    """The library's validator for one schema."""

    def __init__(self, schema: Mapping[str, Any], root: Mapping[str, Any]) -> None:
        """Raises whatever the library raises for an invalid schema."""
        dialect = _dialects()
        kind = dialect.class_of(root)
        document = {key: value for key, value in root.items() if key != "$schema"}
        resource = dialect.resource(document, kind)
        resolver = dialect.registry.with_resource("", resource).resolver_with_root(resource)
        whole = kind(document, _resolver=resolver)
        self._validator = whole if schema is root else whole.evolve(schema=schema)

    def rejections(self, data: JSON) -> list[Rejection] | None:
        """What is wrong with the data; None if that takes too long or the schema is invalid."""
        token = _WORK.set([_MOST_WORK])
        try:
            errors = islice(self._validator.iter_errors(data), _MOST_REJECTIONS)
            return [_rejection(error) for error in errors]
        except Exception:  # an invalid schema may raise anything in the library, at any keyword
            return None
        finally:
            _WORK.reset(token)


_JUDGES: dict[tuple[int, int], tuple[Mapping[str, Any], Mapping[str, Any], Judge | None]] = {}
"""By the identities of schema and document; both are kept, so that no identity is used again."""


def judge_of(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Judge | None:
    """The judge for a schema; None if `passes.schema` suffices, or the library cannot take it."""
    if not schema:
        return None
    key = id(schema), id(root)
    known = _JUDGES.get(key)
    if known is not None:
        return known[2]
    judge = None
    if not _suffices(schema, root):
        try:
            judge = Judge(schema, root)
        except Exception:  # as in `rejections`
            judge = None
    if len(_JUDGES) >= _MOST_JUDGES:
        _JUDGES.clear()
    _JUDGES[key] = schema, root, judge
    return judge


# ---------------------------------------------------------------- which schemas need the library


def _suffices(schema: Mapping[str, Any], root: Mapping[str, Any]) -> bool:
    """Whether `passes.schema` understands everything that a schema asks for, references included.

    False as well for a part that names another dialect, which the library would validate by rules that are
    not bounded (`Judge` is then refused by `_is_foreign`).
    """
    if _is_foreign(root):
        return True
    dialect: Any = root.get("$schema")
    if isinstance(dialect, str) and not _MODERN.fullmatch(dialect):
        return False
    seen: set[int] = set()
    left: list[Any] = [schema]
    while left:
        found = left.pop()
        if not isinstance(found, Mapping):
            return False
        part = cast("Mapping[str, Any]", found)
        if id(part) in seen:
            continue
        seen.add(id(part))
        inner = _parts_understood(part, root)
        if inner is None or len(seen) > _MOST_SCHEMAS:
            return False
        left += inner
    return True


def _parts_understood(part: Mapping[str, Any], root: Mapping[str, Any]) -> list[Any] | None:
    """The schemas directly within one; None if the library has to judge it."""
    if not _LIBRARY_ONLY.isdisjoint(part):
        return None
    asserted = _ASSERTIONS.intersection(part)
    if ("anyOf" in asserted or "$ref" in asserted) and len(asserted) > 1:
        return None
    options: Any = [*_listed(part.get("enum")), *([part["const"]] if "const" in part else ())]
    if any(isinstance(option, list | dict) for option in options):
        return None
    inner: list[Any] = [*_listed(part.get("anyOf")), *_listed(part.get("allOf"))]
    inner += _listed(part.get("prefixItems"))
    if "items" in part:
        inner.append(part["items"])
    more = part.get("additionalProperties", True)
    if not isinstance(more, bool):
        inner.append(more)
    fields = part.get("properties")
    if isinstance(fields, Mapping):
        inner += cast("Mapping[str, Any]", fields).values()
    if "$ref" in part:
        target = _target(part["$ref"], root)
        if target is None:
            return None
        inner.append(target)
    return inner


def _listed(value: object) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _target(pointer: object, root: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The object that a plain reference within the document points to; None for any other reference."""
    if pointer == "#":
        return root
    if not isinstance(pointer, str) or not pointer.startswith("#/") or "%" in pointer:
        return None
    target = root
    for part in pointer[2:].split("/"):
        found: object = target.get(part.replace("~1", "/").replace("~0", "~"))
        if not isinstance(found, Mapping):
            return None
        target = cast("Mapping[str, Any]", found)
    return target


def _is_foreign(root: Mapping[str, Any]) -> bool:
    """Whether a part of the document names a dialect: from there on the library would take its own rules."""
    left: list[object] = list(root.values())
    while left:
        part = left.pop()
        if isinstance(part, Mapping):
            table = cast("Mapping[str, Any]", part)
            if isinstance(table.get("$schema"), str):
                return True
            left += table.values()
        elif isinstance(part, list):
            left += cast("list[object]", part)
    return False


# ---------------------------------------------------------------- the library, with bounds

_WORK: ContextVar[list[int]] = ContextVar("work left of the present judgement")
_Keyword = Callable[[Any, Any, Any, Any], Iterator[Any]]


class _Dialects(NamedTuple):
    """The validators by dialect, and the dialects' own schemas, the only documents that are known."""

    classes: Mapping[str, Any]
    usual: Any
    registry: Any

    def class_of(self, root: Mapping[str, Any]) -> Any:
        """The validator for a document; that of draft 2020-12 unless it names another dialect."""
        named: Any = root.get("$schema")
        return self.classes.get(named.rstrip("#"), self.usual) if isinstance(named, str) else self.usual

    def resource(self, document: Mapping[str, Any], kind: Any) -> Any:
        """The document as the library's resource of this dialect."""
        dialects: Any = import_module("referencing.jsonschema")
        by_id = dialects.specification_with(kind.META_SCHEMA["$schema"])
        return by_id.create_resource(document)


@cache
def _dialects() -> _Dialects:
    library: Any = import_module("jsonschema.validators")
    referencing: Any = import_module("referencing")
    dialects: Any = import_module("referencing.jsonschema")
    known: Any = import_module("jsonschema_specifications").REGISTRY
    classes: dict[str, Any] = {}
    for name in ("Draft4", "Draft6", "Draft7", "Draft201909", "Draft202012"):
        kind = getattr(library, f"{name}Validator")
        bounded = library.extend(kind, _bounded(kind.VALIDATORS))
        classes[str(kind.META_SCHEMA["$schema"]).rstrip("#")] = bounded
    registry: Any = referencing.Registry()
    for address in known:
        contents = known.contents(address)
        rules = dialects.specification_with(contents["$schema"])
        # Without its dialect's name the library stays with the bounded validator.
        plain = {key: value for key, value in contents.items() if key != "$schema"}
        registry = registry.with_resource(address, rules.create_resource(plain))
    return _Dialects(classes, classes["https://json-schema.org/draft/2020-12/schema"], registry)


class _TooMuch(Exception):
    """A judgement takes more work than it may."""


def _bounded(keywords: Mapping[str, _Keyword]) -> dict[str, _Keyword]:
    """The keywords of a dialect, each counting its work; some of them replaced."""
    own = {name: keyword for name, keyword in _OWN.items() if name in keywords}
    guarded = {**keywords, **own}
    if "unevaluatedProperties" in keywords:
        guarded["unevaluatedProperties"] = _unevaluated(keywords["unevaluatedProperties"])
    return {name: _counted(keyword) for name, keyword in guarded.items()}


def _counted(keyword: _Keyword) -> _Keyword:
    def counted(validator: Any, wanted: Any, data: Any, schema: Any) -> Iterator[Any]:
        left = _WORK.get()
        left[0] -= 1
        if left[0] < 0:
            raise _TooMuch
        return keyword(validator, wanted, data, schema) or iter(())

    return counted


def _fault(message: str, **where: Any) -> Any:
    return import_module("jsonschema.exceptions").ValidationError(message, **where)


def _pattern(validator: Any, wanted: Any, data: Any, _: Any) -> Iterator[Any]:
    if validator.is_type(data, "string") and match_of(wanted, data) is False:
        yield _fault("")


def _pattern_properties(validator: Any, wanted: Any, data: Any, _: Any) -> Iterator[Any]:
    if validator.is_type(data, "object"):
        for pattern, schema in wanted.items():
            for name, value in data.items():
                if match_of(pattern, name):
                    yield from validator.descend(value, schema, path=name, schema_path=pattern)


def _additional_properties(validator: Any, wanted: Any, data: Any, schema: Any) -> Iterator[Any]:
    if not validator.is_type(data, "object"):
        return
    known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    for name, value in data.items():
        # A pattern that RE2 does not know may match: the field counts as declared.
        if name in known or any(match_of(pattern, name) is not False for pattern in patterns):
            continue
        if wanted is False:
            yield _fault("", path=(name,))
        else:
            yield from validator.descend(value, wanted, path=name)


def _unevaluated(keyword: _Keyword) -> _Keyword:
    """`unevaluatedProperties` of the library, where Python's patterns within it take linear time."""

    def guarded(validator: Any, wanted: Any, data: Any, schema: Any) -> Iterator[Any]:
        patterns = {*_patterns_in(schema), *_patterns_in(validator._resolver.lookup("#").contents)}
        if all(_SIMPLE_PATTERN.fullmatch(pattern) for pattern in patterns):
            yield from keyword(validator, wanted, data, schema) or ()

    return guarded


def _patterns_in(schema: object) -> Iterator[str]:
    """Every name in a table called `patternProperties`, at any depth."""
    left = [schema]
    while left:
        part = left.pop()
        if isinstance(part, Mapping):
            table = cast("Mapping[str, Any]", part)
            yield from map(str, cast("Mapping[str, Any]", table.get("patternProperties") or {}))
            left += table.values()
        elif isinstance(part, list):
            left += cast("list[object]", part)


def _unique_items(validator: Any, wanted: Any, data: Any, _: Any) -> Iterator[Any]:
    if wanted is True and validator.is_type(data, "array") and has_equal_items(data):
        yield _fault("")


def _multiple_of(validator: Any, wanted: Any, data: Any, _: Any) -> Iterator[Any]:
    if validator.is_type(data, "number") and not is_multiple(data, wanted):
        yield _fault("")


_OWN: Mapping[str, _Keyword] = {
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "uniqueItems": _unique_items,
    "multipleOf": _multiple_of,
}


def _rejection(error: Any) -> Rejection:
    keyword, asked = str(error.validator), error.validator_value
    path: tuple[str | int, ...] = tuple(error.absolute_path)
    names: tuple[str, ...] = ()
    if keyword == "required" and isinstance(asked, list):
        names = tuple(n for n in cast("list[Any]", asked) if isinstance(n, str) and n not in error.instance)
    elif keyword == "additionalProperties":
        names = tuple(error.schema.get("properties", ()))
    message = str(error.message)
    if len(message) > _LONGEST_MESSAGE:
        message = f"{message[:_LONGEST_MESSAGE]}…"
    schema: Any = error.schema
    return Rejection(path, keyword, schema if isinstance(schema, Mapping) else {}, message, names)
