"""The grammar of the values of an argument with a JSON schema: literals, references, lists and dicts.

In: a schema and a scope. Out: a node, or None if no value can be written. Its values are valid as far as
a plan can be checked before it runs; not all valid values are included.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeGuard, cast

from callsheet.frontends.export.rules import Chars, Many, Node, Text, chars, choice, optional, separated, seq
from callsheet.frontends.export.scope import Rules, Scope
from callsheet.frontends.values.printer import format_name, format_value
from callsheet.ir import JSON, DictExpr, ListExpr, Literal, Value

_DIGIT = chars("0-9")
COMMA = Text(", ")
"""What stands between arguments on one line."""
_BIGGEST = 10**9 - 1
"""The largest whole part of a number without a bound: nine digits."""


def integers(low: int | None, high: int | None) -> Node | None:
    """The whole numbers from `low` to `high`; None if there are none.

    >>> integers(0, 9)
    Chars(ranges=((48, 57),), outside=False)
    """
    first = low if low is not None else min(-_BIGGEST, _BIGGEST if high is None else high - _BIGGEST)
    last = high if high is not None else max(_BIGGEST, first + _BIGGEST)
    if first > last:
        return None
    negative = choice(*_from_to(max(1, -last), -first)) if first < 0 else None
    positive = choice(*_from_to(max(0, first), last)) if last >= 0 else None
    return choice(None if negative is None else seq("-", negative), positive)


def numbers(schema: Mapping[str, Any]) -> Node | None:
    """Numbers within the bounds of a schema, with up to six decimals."""
    low, is_above = _bound(schema, "minimum", "exclusiveMinimum", max)
    high, _ = _bound(schema, "maximum", "exclusiveMaximum", min)
    some = Many(_DIGIT, 1, 6)
    if low is None and high is None:
        return seq(optional(seq("-")), integers(0, None) or "0", optional(seq(".", some)))
    first = None if low is None else math.ceil(low)
    last = None if high is None else math.floor(high) - 1
    above = integers(max(0, (first or 0) + is_above), last) if last is None or last >= 0 else None
    below = None
    if first is None or first < 0:
        below = integers(max(0, -last) if last is not None else 0, None if first is None else -first - 1)
    alternatives = choice(
        whole_numbers(schema),
        None if above is None else seq(above, ".", some),
        seq(str(first), ".", _not_zero()) if is_above and 0 <= (first or 0) <= (last or 0) else None,
        None if below is None else seq("-", below, ".", some),
    )
    if alternatives is None and low is not None and high is not None and low < high:
        return Text(repr((low + high) / 2))
    return alternatives


def whole_numbers(schema: Mapping[str, Any]) -> Node | None:
    """Whole numbers within the bounds of a schema."""
    low, is_above = _bound(schema, "minimum", "exclusiveMinimum", max)
    high, is_below = _bound(schema, "maximum", "exclusiveMaximum", min)
    first = None if low is None else math.floor(low) + 1 if is_above else math.ceil(low)
    last = None if high is None else math.ceil(high) - 1 if is_below else math.floor(high)
    return integers(first, last)


def _bound(schema: Mapping[str, Any], name: str, exclusive: str, pick: Any) -> tuple[float | None, bool]:
    """The stricter bound, and whether it is exclusive."""
    bounds = [
        (value, key == exclusive)
        for key in (name, exclusive)
        if isinstance(value := schema.get(key), int | float) and not isinstance(value, bool)
    ]
    if not bounds:
        return None, False
    value = pick(bound for bound, _ in bounds)
    return value, any(is_out for bound, is_out in bounds if bound == value)


def _not_zero() -> Node:
    """Decimals that are not all zero."""
    return seq(Many(_DIGIT, 0, 5), chars("1-9"))


def _from_to(first: int, last: int) -> Iterator[Node]:
    """The numbers from `first` to `last`, neither below 0, by their number of digits."""
    full: list[int] = []
    for length in range(len(str(first)), len(str(last)) + 1):
        floor, ceiling = 10 ** (length - 1) if length > 1 else 0, 10**length - 1
        least, most = max(first, floor), min(last, ceiling)
        if length > 1 and (least, most) == (floor, ceiling):
            full.append(length - 1)
        elif least <= most:
            yield from _same_length(str(least), str(most))
    if full:
        yield seq(chars("1-9"), Many(_DIGIT, full[0], full[-1]))


def _same_length(first: str, last: str) -> Iterator[Node]:
    if not first:
        yield Text("")
        return
    rest = len(first) - 1
    nines, zeros = "9" * rest, "0" * rest
    if first[1:] == zeros and last[1:] == nines:
        yield seq(_digits(first[0], last[0]), _any(rest))
    elif first[0] == last[0]:
        inner = choice(*_same_length(first[1:], last[1:]))
        if inner is not None:
            yield seq(first[0], inner)
    else:
        yield from _same_length(first, first[0] + nines)
        low, high = chr(ord(first[0]) + 1), chr(ord(last[0]) - 1)
        if low <= high:
            yield seq(_digits(low, high), _any(rest))
        yield from _same_length(last[0] + zeros, last)


def _digits(first: str, last: str) -> Node:
    return Text(first) if first == last else Chars(((ord(first), ord(last)),))


def _any(count: int) -> Node:
    return Text("") if not count else _DIGIT if count == 1 else Many(_DIGIT, count, count)


Schema = Mapping[str, Any]
_ANNOTATIONS = frozenset({"description", "title", "default", "examples", "$comment", "deprecated"})
_MAX_DEPTH = 3
_MAX_REFERENCES = 16
_MAX_BRANCHES = 8
_KEY_CLASSES = ("A-Ca-c", "D-Md-m", "N-Rn-r", "S-Zs-z_")
"""The first characters of keys of a dict without known fields; one key of each class, hence no duplicates."""
_NAME_REST = Many(chars("A-Za-z0-9_"), 0, 30)
_KEY = seq(chars("A-Za-z_"), _NAME_REST)


class Values:
    """Creates nodes for the arguments of one tool; `root` is the schema that `$ref` starts from."""

    def __init__(self, rules: Rules, root: Schema) -> None:
        self._rules = rules
        self._root = root
        self._merged_schemas: dict[int, tuple[Schema, Schema]] = {}
        self._numbers: dict[int, tuple[Schema, Node | None]] = {}
        self._fingerprints: dict[int, tuple[Schema, str]] = {}

    def value(self, schema: Schema, scope: Scope, depth: int = 0) -> Node | None:
        """A value that is valid for the schema, or a reference."""
        name = f"value-{self._rules.numbered(self._fingerprint(schema))}-{depth}"
        return self._rules.scoped(
            name,
            scope,
            lambda some: choice(self.literal(schema, some, depth), self._rules.reference(some)),
        )

    def literal(self, schema: Schema, scope: Scope, depth: int = 0) -> Node | None:
        """A value that is valid for the schema and no reference, but may contain references."""
        schema = self._merged(schema)
        options = _options(schema)
        if options is not None:
            texts = (format_value(as_value(option)) for option in options if _is_finite(option))
            return self._rules.shared("enum", choice(*texts))
        either = _schemas(schema.get("anyOf")) or _schemas(schema.get("oneOf"))
        if either:
            rest = {key: part for key, part in schema.items() if key not in ("anyOf", "oneOf")}
            literals = (self.literal({**rest, **option}, scope, depth) for option in either[:_MAX_BRANCHES])
            return choice(*literals)
        return choice(*(self._of_kind(kind, schema, scope, depth) for kind in kinds(schema)))

    def _of_kind(self, kind: str, schema: Schema, scope: Scope, depth: int) -> Node | None:
        match kind:
            case "string":
                least, most = _length(schema, "minLength", 0), _length(schema, "maxLength", None)
                if most is not None and most < (least or 0):
                    return None
                return choice(self._rules.text(scope, least or 0, most), self._rules.raw(least or 0, most))
            case "integer":
                return self._number(schema, whole_numbers)
            case "number":
                return self._number(schema, numbers)
            case "boolean":
                return choice("true", "false")
            case "null":
                return choice("null")
            case "array":
                return self._list(schema, scope, depth)
            case "object":
                return self._dict(schema, scope, depth)
            case _:
                return None

    def _number(self, schema: Schema, make: Callable[[Schema], Node | None]) -> Node | None:
        """A number, as one token."""
        known = self._numbers.get(id(schema))
        if known is None:
            known = (schema, self._rules.shared("number", make(schema), is_token=True))
            self._numbers[id(schema)] = known
        return known[1]

    # ------------------------------------------------------------ lists and dicts

    def _list(self, schema: Schema, scope: Scope, depth: int) -> Node | None:
        least = _length(schema, "minItems", 0) or 0
        limit = _length(schema, "maxItems", None)
        cap = max(self._rules.options.max_items, least)
        most = cap if limit is None else min(limit, cap)
        every = schema.get("items")
        item = None
        if depth < _MAX_DEPTH and most:
            if _is_schema(every) and every:
                item = self.value(every, scope, depth + 1)
            else:
                item = self._anything(scope, depth + 1)
        if item is None:
            return choice("[]") if least == 0 and most >= 0 else None
        items = separated(item, ", ", least, most)
        return None if items is None else seq("[", items, "]")

    def _dict(self, schema: Schema, scope: Scope, depth: int) -> Node | None:
        fields = self._fields(schema, scope, depth)
        if fields is None:
            return None
        if not fields and schema.get("additionalProperties") is not False and not properties(schema):
            return self._free_dict(schema.get("additionalProperties"), scope, depth)
        body = arguments([(f"{_key(name)}: ", node, must) for name, node, must in fields])
        if body is None:
            return choice("{}")
        rule = seq("{", body, "}")
        return rule if any(must for _, _, must in fields) else choice("{}", rule)

    def _free_dict(self, every: object, scope: Scope, depth: int) -> Node | None:
        """A dict without known fields: up to four, of different classes, or one if `every` is a schema."""
        if depth >= _MAX_DEPTH:
            return choice("{}")
        if _is_schema(every) and every:
            item = self.value(every, scope, depth + 1)
            key = seq('"', _KEY, '": ')
            return choice("{}", None if item is None else seq("{", key, item, "}"))
        rest = self._more_fields(scope, depth, _KEY_CLASSES, "")
        return choice("{}", None if rest is None else seq("{", rest, "}"))

    def _more_fields(self, scope: Scope, depth: int, classes: tuple[str, ...], before: str) -> Node | None:
        """A field whose key is in one of these classes, and optionally more with the other classes."""

        def make(some: Scope) -> Node | None:
            item = self._anything(some, depth + 1)
            if item is None:
                return None
            alternatives: list[Node] = []
            for begin in classes:
                field = seq(before, '"', chars(begin), _NAME_REST, '": ', item)
                others = tuple(other for other in classes if other != begin)
                more = self._more_fields(some, depth, others, ", ") if others else None
                alternatives.append(seq(field, optional(more)))
            return choice(*alternatives)

        left = "".join(str(number) for number, one in enumerate(_KEY_CLASSES) if one in classes)
        return self._rules.scoped(f"dict-{depth}-{left}", scope, make)

    def _anything(self, scope: Scope, depth: int) -> Node | None:
        """A value of any kind."""
        return self._rules.scoped(f"any-{depth}", scope, lambda some: self.value({}, some, depth))

    def _fields(self, schema: Schema, scope: Scope, depth: int) -> list[tuple[str, Node, bool]] | None:
        """The fields with possible values, required ones first; None if a required one has none."""
        required = _required(schema)
        known = properties(schema)
        fields: list[tuple[str, Node, bool]] = []
        for name in (*required, *(name for name in known if name not in required)):
            node = self.value(known.get(name, {}), scope, depth + 1) if depth < _MAX_DEPTH else None
            if node is not None:
                fields.append((name, node, name in required))
            elif name in required:
                return None
        return fields

    def call(self, scope: Scope) -> Node | None:
        """The text after a tool's name; None if a required argument has no possible value."""
        schema = self._merged(self._root)
        fields = self._fields(schema, scope, 0)
        if fields is None:
            return None
        body = arguments([(f"{format_name(name)}=", node, must) for name, node, must in fields])
        if body is None:
            return seq()
        rule = seq(" (", body, ")")
        return rule if any(must for _, _, must in fields) else optional(rule)

    # ------------------------------------------------------------ schemas

    def _fingerprint(self, schema: Schema) -> str:
        """A text that is equal for schemas with the same meaning."""
        known = self._fingerprints.get(id(schema))
        if known is None:
            text = repr(_without_annotations(schema))
            known = (schema, f"{text} in {id(self._root)}" if "'$ref'" in text else text)
            self._fingerprints[id(schema)] = known
        return known[1]

    def _merged(self, schema: Schema) -> Schema:
        """The schema with `$ref` and `allOf` resolved."""
        known = self._merged_schemas.get(id(schema))
        if known is None:
            known = (schema, self._joined(schema))
            self._merged_schemas[id(schema)] = known
        return known[1]

    def _joined(self, schema: Schema) -> Schema:
        schema = self._resolved(schema)
        parts = [self._merged(part) for part in _schemas(schema.get("allOf"))[:_MAX_BRANCHES]]
        if not parts:
            return schema
        merged: dict[str, Any] = {key: part for key, part in schema.items() if key != "allOf"}
        for part in parts:
            both = {**properties(merged), **properties(part)}
            required = tuple(dict.fromkeys((*_required(merged), *_required(part))))
            merged = {**merged, **part, "properties": both, "required": list(required)}
        return merged

    def _resolved(self, schema: Schema) -> Schema:
        for _ in range(_MAX_REFERENCES):
            pointer = schema.get("$ref")
            if not isinstance(pointer, str):
                return schema
            target: Any = self._root if pointer.startswith("#") else None
            for part in pointer[2:].split("/") if len(pointer) > 1 else ():
                key = part.replace("~1", "/").replace("~0", "~")
                target = target.get(key) if _is_schema(target) else None
            schema = target if _is_schema(target) else {}
        return {}


def arguments(fields: Sequence[tuple[str, Node, bool]], between: Node = COMMA) -> Node | None:
    """Fields in order, each at most once, with `between` between them; None without fields.

    Required ones come first. If there are none, there is an alternative for each first field, so that
    the size is at most quadratic in their number.
    """
    head = [seq(name, node) for name, node, must in fields if must]
    rest = [seq(name, node) for name, node, must in fields if not must]
    if head:
        more = (seq(between, node) for node in head[1:])
        return seq(head[0], *more, *(optional(seq(between, node)) for node in rest))
    starts = (
        seq(node, *(optional(seq(between, later)) for later in rest[number + 1 :]))
        for number, node in enumerate(rest)
    )
    return choice(*starts)


def _key(name: str) -> str:
    """The key of a dict in canonical text."""
    return format_value(DictExpr(((name, Literal(None)),)))[1:].rpartition(":")[0]


def as_value(data: JSON) -> Value:
    """The literal for a JSON value."""
    match data:
        case list():
            return ListExpr(tuple(as_value(item) for item in data))
        case dict():
            return DictExpr(tuple((key, as_value(item)) for key, item in data.items()))
        case _:
            return Literal(data)


def properties(schema: Schema) -> Mapping[str, Schema]:
    """The declared fields of an object's schema."""
    declared = schema.get("properties")
    if not _is_schema(declared):
        return {}
    return {name: part if _is_schema(part) else {} for name, part in declared.items()}


def _without_annotations(schema: Schema) -> dict[str, Any]:
    """The schema without annotations such as descriptions, recursively."""
    return {
        key: {name: _without_annotations(field) for name, field in properties(schema).items()}
        if key == "properties"
        else _without_annotations(part)
        if _is_schema(part)
        else part
        for key, part in schema.items()
        if key not in _ANNOTATIONS
    }


def _is_schema(value: object) -> TypeGuard[Schema]:
    return isinstance(value, Mapping)


def _schemas(value: object) -> list[Schema]:
    return (
        [part for part in cast("list[object]", value) if _is_schema(part)] if isinstance(value, list) else []
    )


def _required(schema: Schema) -> tuple[str, ...]:
    declared = schema.get("required")
    if not isinstance(declared, list):
        return ()
    names = [name for name in cast("list[object]", declared) if isinstance(name, str)]
    known = list(properties(schema))
    return tuple(sorted(dict.fromkeys(names), key=lambda n: known.index(n) if n in known else len(known)))


def _options(schema: Schema) -> list[JSON] | None:
    if isinstance(schema.get("enum"), list):
        return cast("list[JSON]", schema["enum"])
    return [cast("JSON", schema["const"])] if "const" in schema else None


def _is_finite(option: JSON) -> bool:
    return not isinstance(option, float) or option - option == 0.0


def kinds(schema: Schema) -> tuple[str, ...]:
    """The JSON types of a schema; all but null if no keyword implies one."""
    declared = schema.get("type")
    if isinstance(declared, str):
        return (declared,)
    if isinstance(declared, list):
        return tuple(kind for kind in cast("list[object]", declared) if isinstance(kind, str))
    if "properties" in schema:
        return ("object",)
    if "items" in schema:
        return ("array",)
    return ("string", "number", "boolean", "array", "object")


def _length(schema: Schema, name: str, default: int | None) -> int | None:
    length = schema.get(name)
    return length if isinstance(length, int) and not isinstance(length, bool) and length >= 0 else default
