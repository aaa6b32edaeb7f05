"""Which value is of which declared type; so the inputs of a version 2 plan are read. Their JSON Schema.

In: the plan's tree, JSON values, values of a run, or texts as a shell gives them. Out: the values of the
variables, among them dates and durations, or diagnostics (RUN035 to RUN037). Every face reads inputs here,
before anything runs.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any, NoReturn, assert_never, cast

from callsheet import lazy
from callsheet.diagnostics import Diagnostic, Severity, WordFix, did_you_mean
from callsheet.ir.strict_json import described
from callsheet.ir.tree import Input, SubPlan, Tree
from callsheet.ir.types import (
    Basic,
    DictOf,
    ListOf,
    Maybe,
    Named,
    OneOf,
    Record,
    Type,
    json_schema,
    type_text,
)

# ------------------------------------------------------------------ values


class NotOfType(Exception):
    """A value is not of a type; `path` leads to the part that is wrong (`.labels[2]`; empty: the whole)."""

    def __init__(self, wanted: str, found: str, path: str = "") -> None:
        super().__init__(f"{wanted} is needed, not {found}")
        self.wanted, self.found, self.path = wanted, found, path


def read_value(of: Type, value: Any, named: Mapping[str, Record], *, in_run: bool = False) -> Any:
    """A value as one of a type; numbers are converted without loss, texts to dates and durations.

    `named` has the records that the plan declares. A value of a run (`in_run`) may be what JSON does not
    have: a tuple counts as a list, and a float may be infinite. Raises NotOfType.

    >>> read_value(ListOf(Basic.FLOAT), [1, 2.5], {}), read_value(Basic.DURATION, "90s", {})
    ([1.0, 2.5], datetime.timedelta(seconds=90))
    """
    match of:
        case Basic():
            return _basic(of, value, in_run)
        case ListOf(item=item):
            if not isinstance(value, list) and not (in_run and isinstance(value, tuple)):
                _refuse(of, value)
            items = cast("list[Any]", value)
            return [_part(item, one, named, f"[{number}]", in_run) for number, one in enumerate(items)]
        case DictOf(value=inner):
            if not isinstance(value, dict):
                _refuse(of, value)
            members = cast("dict[Any, Any]", value)
            return {key: _part(inner, one, named, _step(key), in_run) for key, one in members.items()}
        case OneOf(values=values):
            if not any(type(one) is type(value) and one == value for one in values):
                _refuse(of, value)
            return value
        case Maybe(of=inner):
            return None if value is None else read_value(inner, value, named, in_run=in_run)
        case Named(name=name):
            record = named.get(name)
            return value if record is None else _record(record, value, named, name, in_run)
        case Record():
            return _record(of, value, named, type_text(of), in_run)
    assert_never(of)


def _step(key: object) -> str:
    """The step of a path to a member of a dict."""
    return f".{key}" if isinstance(key, str) else f"[{key!r}]"


def _part(of: Type, value: Any, named: Mapping[str, Record], step: str, in_run: bool) -> Any:
    try:
        return read_value(of, value, named, in_run=in_run)
    except NotOfType as error:
        raise NotOfType(error.wanted, error.found, step + error.path) from None


def _record(
    record: Record, value: Any, named: Mapping[str, Record], words: str, in_run: bool
) -> dict[str, Any]:
    """A record with its fields read; others that it has are kept as they are."""
    if not isinstance(value, dict):
        raise NotOfType(words, described(value))
    made: dict[str, Any] = dict(cast("dict[str, Any]", value))
    for name, of in record.fields:
        if name in made:
            made[name] = _part(of, made[name], named, f".{name}", in_run)
        elif not isinstance(of, Maybe):
            there = ", ".join(map(str, list(made)[:12])) or "no fields"
            raise NotOfType(f"{words} with the field {name}", f"one with {there}")
    return made


def _basic(of: Basic, value: Any, in_run: bool) -> Any:
    kind = cast("type[Any]", type(value))
    match of:
        case Basic.JSON:
            return value
        case Basic.STR if kind is str:
            return value
        case Basic.BOOL if kind is bool:
            return value
        case Basic.INT if kind is int:
            return value
        case Basic.INT if kind is float and value.is_integer():
            return int(value)
        case Basic.FLOAT if kind is float and (in_run or math.isfinite(value)):
            return value
        case Basic.FLOAT if kind is int and _is_exact(value):
            return float(value)
        case Basic.DATE | Basic.DATETIME | Basic.DURATION:
            if kind is _OBJECTS[of]:
                return value
            if kind is str:
                return _of_text(of, value)
        case _:
            pass
    _refuse(of, value)


_OBJECTS = {Basic.DATE: date, Basic.DATETIME: datetime, Basic.DURATION: timedelta}
_FORMS = {
    Basic.DATE: "a date such as 2026-11-28",
    Basic.DATETIME: "a time such as 2026-11-28T12:00:00Z",
    Basic.DURATION: "a duration such as 2d or 1h30m",
}


def _is_exact(number: int) -> bool:
    """Whether a float has this very value."""
    try:
        return float(number) == number
    except OverflowError:
        return False


def _of_text(of: Basic, text: str) -> date | timedelta:
    try:
        match of:
            case Basic.DATE:
                return date.fromisoformat(text.strip())
            case Basic.DATETIME:
                return datetime.fromisoformat(text.strip())
            case _:
                return duration_of(text)
    except (ValueError, OverflowError):
        raise NotOfType(_FORMS[of], described(text)) from None


def _refuse(of: Type, value: Any) -> NoReturn:
    wanted = _FORMS[of] if isinstance(of, Basic) and of in _FORMS else _article(type_text(of))
    raise NotOfType(wanted, _found(value))


def _found(value: Any) -> str:
    """How an error names a value; those of plans that JSON does not have by their types there."""
    names = {datetime: "a datetime", date: "a date", timedelta: "a duration"}
    return names.get(cast("type[Any]", type(value))) or described(value)


def _article(words: str) -> str:
    if words.startswith(('"', "{")) or " | " in words:
        return f"one of {words}" if " | " in words else words
    return f"an {words}" if words[0] in "aeiou" else f"a {words}"


# ------------------------------------------------------------------ texts of a shell

_WHOLE = lazy.pattern(r"[+-]?\d{1,4000}")
_TRUTHS = {"true": True, "yes": True, "false": False, "no": False}


def read_text(of: Type, text: str, named: Mapping[str, Record]) -> Any:  # noqa: PLR0911, PLR0912 - a case for each type
    """A text of a shell (`--var limit=5`) as a value of a type. Raises NotOfType.

    A str is the text itself; lists, dicts and records are JSON, and so is `json` if the text is that.

    >>> read_text(Basic.INT, "5", {}), read_text(Basic.STR, "5", {}), read_text(OneOf((1, "a")), "1", {})
    (5, '5', 1)
    """
    match of:
        case Basic.STR:
            return text
        case Basic.INT if _WHOLE.fullmatch(text.strip()):
            return int(text)
        case Basic.FLOAT:
            return _number(text)
        case Basic.BOOL if text.strip().lower() in _TRUTHS:
            return _TRUTHS[text.strip().lower()]
        case Basic.DATE | Basic.DATETIME | Basic.DURATION:
            return _of_text(of, text)
        case Basic.JSON:
            try:
                return _json(text)
            except ValueError:
                return text
        case OneOf(values=values):
            for value in values:
                if text == (str(value).lower() if isinstance(value, bool) else str(value)):
                    return value
        case Maybe(of=inner):
            if text in ("null", "") and inner is not Basic.STR:
                return None
            return read_text(inner, text, named)
        case ListOf() | DictOf() | Named() | Record():
            try:
                data = _json(text)
            except ValueError:
                wanted = f"{_article(type_text(of))} as JSON ({_EXAMPLES[type(of)]})"
                raise NotOfType(wanted, f"the text {text[:40]!r}") from None
            return read_value(of, data, named)
        case _:
            pass
    raise NotOfType(_article(type_text(of)), f"the text {text[:40]!r}")


_EXAMPLES: dict[type, str] = {
    ListOf: '["a", "b"]',
    DictOf: '{"a": 1}',
    Named: '{"a": 1}',
    Record: '{"a": 1}',
}


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise NotOfType("a float", f"the text {text[:40]!r}")
    return number


def _json(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_json)
    except RecursionError:
        raise ValueError("this JSON nests too deep") from None


def _no_json(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


# ------------------------------------------------------------------ durations

_DURATION = lazy.pattern(
    r"\s*(?P<sign>[+-]?)\s*(?:(?P<w>\d+(?:\.\d+)?)\s*w)?\s*(?:(?P<d>\d+(?:\.\d+)?)\s*d)?"
    r"\s*(?:(?P<h>\d+(?:\.\d+)?)\s*h)?\s*(?:(?P<m>\d+(?:\.\d+)?)\s*m(?:in)?)?\s*(?:(?P<s>\d+(?:\.\d+)?)\s*s)?\s*",
    re.ASCII,
)
_ISO_DURATION = lazy.pattern(
    r"(?P<sign>[+-]?)P(?:(?P<w>\d+(?:\.\d+)?)W)?(?:(?P<d>\d+(?:\.\d+)?)D)?"
    r"(?:T(?:(?P<h>\d+(?:\.\d+)?)H)?(?:(?P<m>\d+(?:\.\d+)?)M)?(?:(?P<s>\d+(?:\.\d+)?)S)?)?",
    re.ASCII,
)


def duration_of(text: str) -> timedelta:
    """A duration as the language writes it (`1h30m`), or as ISO 8601 does (`P1DT2H`). Raises ValueError.

    >>> duration_of("1h30m"), duration_of("-P1D")
    (datetime.timedelta(seconds=5400), datetime.timedelta(days=-1))
    """
    found = _DURATION.fullmatch(text) or _ISO_DURATION.fullmatch(text)
    amounts = (
        {}
        if found is None
        else {name: held for name, held in found.groupdict().items() if held and name != "sign"}
    )
    if found is None or not amounts:
        raise ValueError(f"{text!r} is no duration; one is written 2d, 1h30m or 90s")
    weeks, days, hours, minutes, seconds = (float(amounts.get(name, 0)) for name in "wdhms")
    made = timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds)
    return -made if found["sign"] == "-" else made


def duration_text(value: timedelta) -> str:
    """A duration as the language writes it; `duration_of` reads it back.

    >>> duration_text(timedelta(days=2)), duration_text(timedelta(minutes=-90))
    ('2d', '-1h30m')
    """
    sign, rest = ("-", -value) if value < timedelta() else ("", value)
    minutes, seconds = divmod(rest.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    fraction = f"{rest.microseconds / 1_000_000:.6f}"[1:].rstrip("0").rstrip(".")
    amounts = ((rest.days, "d"), (hours, "h"), (minutes, "m"))
    parts = [f"{amount}{unit}" for amount, unit in amounts if amount]
    if seconds or fraction or not parts:
        parts.append(f"{seconds}{fraction}s")
    return sign + "".join(parts)


# ------------------------------------------------------------------ the inputs of a plan


@dataclass(frozen=True, slots=True)
class InputValues:
    """The values of a plan's inputs by name; to be used only where there are no `diagnostics`."""

    values: dict[str, Any] = field(default_factory=dict[str, Any])
    diagnostics: tuple[Diagnostic, ...] = ()

    @property
    def as_json(self) -> dict[str, Any]:
        """The values as JSON, of which `read_inputs` makes the same values again: what a journal keeps.

        >>> plan = Tree((), (Input("age", Basic.DURATION), Input("day", Basic.DATE)))
        >>> read_inputs(plan, {}, {"age": "1h30m", "day": "2026-11-28"}).as_json
        {'age': '5400s', 'day': '2026-11-28'}
        """
        return {name: _as_json(value) for name, value in self.values.items()}


def _as_json(value: Any) -> Any:
    match value:
        case date():
            return value.isoformat()
        case timedelta():
            text = f"{value.total_seconds():.6f}".rstrip("0").rstrip(".")
            return f"{text}s"
        case list():
            return [_as_json(one) for one in cast("list[Any]", value)]
        case dict():
            return {name: _as_json(one) for name, one in cast("dict[str, Any]", value).items()}
        case _:
            return value


def takes_text(kind: Type) -> bool:
    """Whether any text is a value of a type, or one of its literals is a text."""
    match kind:
        case Basic.STR:
            return True
        case OneOf(values=values):
            return any(isinstance(value, str) for value in values)
        case Maybe(of=inner):
            return takes_text(inner)
        case _:
            return False


def read_inputs(tree: Tree, given: Mapping[str, Any], texts: Mapping[str, str] | None = None) -> InputValues:
    """The values of all inputs of a plan, those with a default and optional ones included.

    `given` are JSON values (dates may also be Python's own), `texts` what a shell gives: each is read by the
    type of its input. The diagnostics tell every input that is missing, unknown or of another type.

    >>> plan = Tree((), (Input("limit", Basic.INT, 20, is_required=False), Input("repo", Basic.STR)))
    >>> read_inputs(plan, {"repo": "a/b"}).values
    {'limit': 20, 'repo': 'a/b'}
    >>> [one.message for one in read_inputs(plan, {}, {"limit": "many"}).diagnostics]
    ["the input $limit takes an int, not the text 'many'", 'the plan needs the input $repo: str']
    """
    words: Mapping[str, str] = {} if texts is None else texts
    named = tree.named_types
    values: dict[str, Any] = {}
    found: list[Diagnostic] = []
    for one in tree.inputs:
        try:
            if one.name in words:
                values[one.name] = read_text(one.type, words[one.name], named)
            elif one.name in given:
                values[one.name] = read_value(one.type, given[one.name], named)
            elif not one.must_be_given:
                values[one.name] = read_value(one.type, one.default, named)
            else:
                found.append(_missing(one))
        except NotOfType as error:
            found.append(_of_another_type(one, error))
    return InputValues(values, (*found, *unknown_inputs(tree, (*words, *given))))


def unknown_inputs(tree: Tree, names: Iterable[str]) -> Iterator[Diagnostic]:
    """RUN036 for each name that is none of the plan's inputs."""
    declared = {one.name for one in tree.inputs}
    for name in dict.fromkeys(names):
        if name not in declared:
            yield _unknown(name, tree.inputs)


def _missing(one: Input) -> Diagnostic:
    what = f" ({one.help})" if one.help else ""
    message = f"the plan needs the input ${one.name}: {type_text(one.type)}{what}"
    option = f"secret {one.name}=env:…" if one.is_secret else f"{one.name.replace('_', '-')} …"
    how = f"give it a value (in a shell: --{option}), or a default in the plan"
    return Diagnostic("RUN035", Severity.ERROR, message, one.span, help=how)


def _unknown(name: str, inputs: Iterable[Input]) -> Diagnostic:
    known = [one.name for one in inputs]
    near = did_you_mean(name, known, 1)
    if near:
        how = f"did you mean ${near[0]}?"
    elif known:
        how = "it has " + ", ".join(f"${one.name}: {type_text(one.type)}" for one in inputs)
    else:
        how = f"it has none; INPUT ${name}: … declares one"
    swap = WordFix(name, near) if near else None
    return Diagnostic("RUN036", Severity.ERROR, f"the plan has no input ${name}", help=how, swap=swap)


def _of_another_type(one: Input, error: NotOfType) -> Diagnostic:
    """RUN037; what was given is not told of a secret input."""
    found = "" if one.is_secret else f", not {error.found}"
    place = f"${one.name}{error.path}"
    message = f"the input {place} takes {error.wanted}{found}"
    kind = one.type.of if isinstance(one.type, Maybe) else one.type
    example = None if error.path or one.is_secret else _EXAMPLES.get(type(kind))
    how = example and f"write it as JSON (in a shell: --{one.name.replace('_', '-')} '{example}')"
    return Diagnostic("RUN037", Severity.ERROR, message, one.span, help=how)


def secret_inputs(tree: Tree, given: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a plan's SECRET inputs by name: those that are given, and the defaults of the others."""
    found: dict[str, Any] = {}
    for one in tree.inputs:
        value = given.get(one.name, one.default)
        if one.is_secret and (one.name in given or value is not None):
            found[one.name] = value
    return found


def input_schema(plan: Tree | SubPlan, named: Mapping[str, Record] | None = None) -> dict[str, Any]:
    """The JSON Schema of an object with the plan's inputs, for HTTP, MCP, forms and `as_tool`.

    `named` are the declared records, for a sub-plan.

    >>> input_schema(Tree((), (Input("limit", Basic.INT, 20, is_required=False, help="how many"),)))
    ... # doctest: +NORMALIZE_WHITESPACE
    {'type': 'object', 'properties': {'limit': {'type': 'integer', 'description': 'how many', 'default': 20}},
     'required': [], 'additionalProperties': False}
    """
    known = plan.named_types if isinstance(plan, Tree) else named or {}
    properties: dict[str, Any] = {}
    for one in plan.inputs:
        schema = json_schema(one.type, known)
        if one.help:
            schema["description"] = one.help
        if not one.is_required:
            schema["default"] = one.default
        if one.is_secret:
            schema["writeOnly"] = True
        properties[one.name] = schema
    needed = [one.name for one in plan.inputs if one.must_be_given]
    return {
        "type": "object",
        "properties": properties,
        "required": needed,
        "additionalProperties": False,
    }
