"""Reads the parts of a policy file: tables by key, values by kind, `[[limit]]` tables, each with its errors.

In: parsed TOML, its path in the file. Out: values of the model, or what is expected at that path.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from sys import float_info
from typing import Any, TypeAlias, cast

from callsheet import lazy
from callsheet.diagnostics import CallsheetError, Diagnostic, Severity, Source, Span, meant
from callsheet.ir.labels import Label, read_label
from callsheet.ir.operations import canonical_tool_name, pattern_fault
from callsheet.policy.classes import pattern_of
from callsheet.policy.model import Limit, Per

Path: TypeAlias = "tuple[str | int, ...]"

_KEY = r"""(?:"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|[A-Za-z0-9_-]+)"""
_DOTTED = rf"{_KEY}(?:[ \t]*\.[ \t]*{_KEY})*"
_HEADER = lazy.pattern(rf"^[ \t]*(\[\[?)[ \t]*({_DOTTED})[ \t]*\]\]?", re.MULTILINE)
_ENTRY = lazy.pattern(rf"^[ \t]*({_DOTTED})[ \t]*=", re.MULTILINE)
_PART = lazy.pattern(_KEY)


def key_spans(text: str) -> dict[Path, Span]:
    """The span of every key and table header at the start of a line.

    >>> key_spans("a = 1\\n[b.c]\\n'd' = 2\\n")[("b", "c", "d")]
    Span(start=12, end=15)
    """
    spans: dict[Path, Span] = {}
    counts: dict[Path, int] = {}
    table: Path = ()
    marks = sorted([*_HEADER.finditer(text), *_ENTRY.finditer(text)], key=lambda match: match.start())
    for match in marks:
        if match[0].lstrip().startswith("["):
            table = _parts(match[2])
            if match[1] == "[[":
                number = counts.get(table, 0)
                counts[table] = number + 1
                table = (*table, number)
            spans.setdefault(table, Span(match.start(2), match.end(2)))
        else:
            spans.setdefault((*table, *_parts(match[1])), Span(match.start(1), match.end(1)))
    return spans


def place_of(text: str, spans: dict[Path, Span], path: Path) -> Span | None:
    """The span of the key at the path, or of the nearest key above it; keys in inline tables are searched
    for.
    """
    for length in range(len(path), 0, -1):
        span = spans.get(path[:length])
        if span is None:
            below = (found for known, found in spans.items() if known[:length] == path)
            span = next(below, None) if length == len(path) else None
        if span is None:
            continue
        return span if length == len(path) else _within(text, span, str(path[-1]))
    return None


def _within(text: str, span: Span, key: str) -> Span:
    """The span of a key in the inline table after another key; the other key's span if it is not found."""
    following = re.search(r"\n[ \t]*(?:\[|[^\s\[\]{},#=]+[ \t]*=)", text[span.end :])
    end = len(text) if following is None else span.end + following.start()
    match = re.compile(rf"[\"']?{re.escape(key)}[\"']?(?=[ \t]*[=\]\",'}}])").search(text, span.end, end)
    return span if match is None else Span(match.start(), match.end())


def _parts(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip("\"'") for part in _PART.findall(dotted))


Table: TypeAlias = "dict[str, Any]"


class Faults:
    """Collects the errors of a policy file.

    `readers` are the audiences that labels refer to, with the place of each label.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._spans = key_spans(source.text)
        self._found: list[Diagnostic] = []
        self.readers: list[tuple[Path, frozenset[str]]] = []

    def add(self, code: str, message: str, path: Path, hint: str | None = None) -> None:
        """Record an error at a path."""
        span = place_of(self._source.text, self._spans, path)
        self._found.append(Diagnostic(code, Severity.ERROR, message, span, hint))

    def raise_if_any(self) -> None:
        """Raise CallsheetError with the recorded errors in text order, if there are any."""
        if self._found:
            in_order = sorted(self._found, key=lambda d: d.span.start if d.span is not None else -1)
            raise CallsheetError(in_order, self._source)


Reader: TypeAlias = "Callable[[object, Path, Faults], Any]"
"""Reads and returns one value, or raises ValueError saying what is expected."""


def read_table(data: object, keys: Mapping[str, Reader], path: Path, faults: Faults) -> Table:
    """The values of a table by key; errors are recorded and the values left out. Raises ValueError if `data`
    is not a table.
    """
    if not isinstance(data, Mapping):
        raise ValueError("a table")
    values: Table = {}
    for key, value in cast("Mapping[str, object]", data).items():
        key_path = (*path, key)
        reader = keys.get(key)
        if reader is None:
            hint = meant(key, keys, f"known are {', '.join(keys)}")
            faults.add("POL002", f"a policy has no key {dotted(key_path)}", key_path, hint)
            continue
        try:
            values[key] = reader(value, key_path, faults)
        except ValueError as error:
            faults.add("POL003", f"{dotted(key_path)} must be {error}", key_path)
    return values


def dotted(path: Path) -> str:
    """A path as it is shown in a message."""
    if len(path) > 1 and isinstance(path[1], int):  # of a list of tables; people count from one
        return ": ".join((f"{path[0]} {path[1] + 1}", *filter(None, [dotted(path[2:])])))
    return ".".join(f'"{part}"' if set(str(part)) - _PLAIN else str(part) for part in path)


_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")


def text_value(value: object, path: Path, faults: Faults) -> str:
    """A text that is not blank."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError("a text")
    return value


def flag_value(value: object, path: Path, faults: Faults) -> bool:
    """A boolean."""
    if not isinstance(value, bool):
        raise ValueError("true or false")
    return value


def count_value(value: object, path: Path, faults: Faults) -> int:
    """A whole number of at least 0."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError("a whole number of at least 0")
    return value


def seconds_value(value: object, path: Path, faults: Faults) -> float:
    """A number of seconds above 0."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < 1e9:
        raise ValueError("a number of seconds above 0")
    return float(value)


def text_values(value: object, path: Path, faults: Faults) -> tuple[str, ...]:
    """A list of texts."""
    if not isinstance(value, list) or not all(isinstance(v, str) and v for v in cast("list[object]", value)):
        raise ValueError("a list of strings")
    return tuple(cast("list[str]", value))


def host_values(value: object, path: Path, faults: Faults) -> tuple[str, ...]:
    """A list of hosts, or `*.HOST` for those below one, in lower case."""
    hosts = text_values(value, path, faults)
    for host in hosts:
        name = host.removeprefix("*.")
        is_bare_number = ":" in name and not name.startswith("[")
        if not name or "/" in name or "*" in name or is_bare_number:
            raise ValueError(f"a list of hosts such as api.internal or *.corp.example; {host!r} is not one")
    return tuple(host.lower().removesuffix(".") for host in hosts)


def address_values(value: object, path: Path, faults: Faults) -> tuple[str, ...]:
    """A list of mail addresses, or `*@HOST` for all of a host, in lower case."""
    addresses = text_values(value, path, faults)
    for address in addresses:
        if address.count("@") != 1 or "*" in address.replace("*@", "", 1):
            raise ValueError(f"a list of mail addresses such as *@corp.example; {address!r} is not one")
    return tuple(address.lower() for address in addresses)


def tool_values(value: object, path: Path, faults: Faults) -> tuple[str, ...]:
    """A list of tools, as policies hold them."""
    return tuple(tool_named(name) for name in text_values(value, path, faults))


def tool_set(value: object, path: Path, faults: Faults) -> frozenset[str]:
    """A set of tools, given as a list."""
    return frozenset(tool_values(value, path, faults))


def label_value(value: object, path: Path, faults: Faults) -> Label:
    """A label; its audiences are recorded, to be checked when all are known."""
    try:
        label = read_label(text_value(value, path, faults))
    except ValueError:
        raise ValueError("a label: T/ or U/ and who may read it, such as U/priv") from None
    faults.readers.append((path, label.readers or frozenset()))
    return label


def pattern_values(value: object, path: Path, faults: Faults) -> tuple[str, ...]:
    """A list of RE2 patterns."""
    from callsheet.ir.linear_patterns import Patterns  # noqa: PLC0415 - loads RE2 only if needed

    patterns = text_values(value, path, faults)
    try:
        Patterns(patterns)
    except ValueError as error:
        raise ValueError(f"a list of RE2 patterns; {error}") from None
    return patterns


def one_of(kind: type[StrEnum]) -> Reader:
    """A reader of a member of an enumeration."""

    def read(value: object, path: Path, faults: Faults) -> StrEnum:
        words = [str(member) for member in kind]
        if value not in words:
            raise ValueError(f"one of {', '.join(words)}")
        return kind(cast("str", value))

    return read


def word(words: Mapping[str, Any]) -> Reader:
    """A reader of one of these words, which stands for a value."""

    def read(value: object, path: Path, faults: Faults) -> object:
        if not isinstance(value, str) or value not in words:
            raise ValueError(f"one of {', '.join(words)}")
        return words[value]

    return read


def tool_named(name: str) -> str:
    """The name of a tool as policies hold it; raises ValueError for one that no tool can have."""
    fault = pattern_fault(name)
    if fault is not None:
        raise ValueError(f"the name of one tool; {fault} (`callsheet policy init` writes an entry for each)")
    own = name.partition("/")[2] if name.startswith("mcp:") else name.removeprefix("@")
    if not own or not own.isascii() or not own.isprintable() or own != own.strip():
        raise ValueError(
            f"a tool's name, of ASCII characters and without blanks around it; {name!a} is not one"
        )
    return tool_key(name)


def tool_pattern(name: str) -> str:
    """A pattern of tool names, in which `*` stands for any characters; raises ValueError for any other text.

    >>> tool_pattern("github__*")
    'github__*'
    """
    own = name.removeprefix("mcp:").removeprefix("@")
    if not own or not own.isascii() or not own.isprintable() or set(own) & set(" ?[]"):
        raise ValueError(
            f'a name of tools, in which * stands for anything, such as "get_*"; {name!a} is not one'
        )
    return name


def tool_patterns(value: object, path: Path, faults: Faults) -> tuple[str, ...]:
    """A list of patterns of tool names, as policies hold them."""
    return tuple(pattern_of(tool_pattern(name)) for name in text_values(value, path, faults))


def tool_key(name: str) -> str:
    """A tool's name as policies hold it: canonical, or `mcp:SERVER/TOOL` verbatim.

    >>> tool_key("@send_email"), tool_key("mcp:fs/delete")
    ('SEND_EMAIL', 'mcp:fs/delete')
    """
    return name if name.startswith("mcp:") else canonical_tool_name(name)


def made_by(make: Callable[..., Any], keys: Mapping[str, Reader]) -> Reader:
    """A reader that passes a table's values to `make`."""

    def read(value: object, path: Path, faults: Faults) -> object:
        return make(**read_table(value, keys, path, faults))

    return read


def section(keys: Mapping[str, Reader]) -> Reader:
    """A reader of a table with these keys."""
    return lambda value, path, faults: read_table(value, keys, path, faults)


_KINDS = ("calls", "sum", "after", "needs", "hours")
"""The settings of which each limit has one."""


def limit_values(value: object, path: Path, faults: Faults) -> tuple[Limit, ...]:
    """The limits of a policy file. Raises ValueError if it is no list of tables."""
    if not isinstance(value, list):
        raise ValueError("a list of tables, each [[limit]]")
    limits: list[Limit] = []
    for number, table in enumerate(cast("list[object]", value)):
        key_path = (*path, number)
        try:
            values = read_table(table, _LIMIT, key_path, faults)
        except ValueError as error:
            faults.add("POL003", f"{dotted(key_path)} must be {error}", key_path)
            continue
        if values.keys() != cast("Mapping[str, object]", table).keys():  # the rest is recorded already
            continue
        wrong = _fault_of_limit(values)
        if wrong is not None:
            faults.add("POL003", f"limit {number + 1} {wrong[0]}", key_path, wrong[1])
        else:
            limits.append(Limit(**{**values, "then": values.get("then", _then_of(values))}))
    return tuple(limits)


def _then_of(values: Table) -> str:
    return "refuse" if "hours" in values or values.get("per", Per.RUN) is not Per.RUN else "ask"


def _fault_of_limit(values: Table) -> tuple[str, str | None] | None:
    """What is wrong with a limit, and how to write it."""
    kinds = [kind for kind in _KINDS if kind in values]
    if not values.get("tools"):
        return "lacks tools", 'say whose calls it limits: tools = ["send_*"]'
    if len(kinds) != 1:
        says = f"has {' and '.join(kinds)}" if kinds else "says nothing"
        return says, "a limit has one of calls, sum (with most), after, needs, hours"
    if values[kinds[0]] == ():
        return f"names no tools in {kinds[0]}", f'say which: {kinds[0]} = ["get_*"]'
    if ("sum" in values) != ("most" in values):
        return "needs both sum and most", 'write sum = "amount" and most = 500'
    if "per" in values and kinds[0] not in ("calls", "sum"):
        return "has per, which is for calls and sum", None
    if "zone" in values and kinds[0] != "hours":
        return "has zone, which is for hours", None
    if values.get("then") == "ask" and _then_of(values) == "refuse":
        hint = "leave out `then`: what depends on the clock or on other runs is refused"
        return "cannot ask", hint
    return None


def _hours(value: object, path: Path, faults: Faults) -> str:
    from callsheet.policy.limits import hours_of  # noqa: PLC0415 - loads time zones only if needed

    text = text_value(value, path, faults)
    hours_of(text)
    return text


def _zone(value: object, path: Path, faults: Faults) -> str:
    from zoneinfo import ZoneInfo  # noqa: PLC0415 - loads time zones only if needed

    name = text_value(value, path, faults)
    try:
        ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        raise ValueError('a time zone such as "Europe/Berlin"') from None
    return name


def _amount(value: object, path: Path, faults: Faults) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= float_info.max:
        raise ValueError("a number of at least 0")
    return float(value)


_LIMIT: dict[str, Reader] = {
    "tools": tool_patterns,
    "calls": count_value,
    "sum": text_value,
    "most": _amount,
    "after": tool_patterns,
    "needs": tool_patterns,
    "hours": _hours,
    "zone": _zone,
    "per": one_of(Per),
    "then": word({"ask": "ask", "refuse": "refuse"}),
}
