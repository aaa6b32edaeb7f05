"""The schema of a policy file: its tables, their keys, and a reader for each value.

In: the parsed TOML. Out: the same tables with values of the model, and all errors in them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, TypeAlias, cast

from callsheet.diagnostics import CallsheetError, Diagnostic, Severity, Source, did_you_mean
from callsheet.ir.labels import Label, read_label, read_readers
from callsheet.ir.operations import canonical_tool_name
from callsheet.policy.constraints import check_pattern
from callsheet.policy.model import (
    AgentRule,
    Audience,
    CallRule,
    Implicit,
    ReplanRule,
    SourceRule,
    ToolRule,
    When,
)
from callsheet.policy.toml_spans import Path, key_spans, place_of

Table: TypeAlias = "dict[str, Any]"
_SOURCE_KINDS = ("file", "url", "host", "tool", "memory")


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
            suggestions = did_you_mean(key, keys)
            hint = (
                f"did you mean {' or '.join(suggestions)}?" if suggestions else f"known are {', '.join(keys)}"
            )
            faults.add("POL002", f"a policy has no key {_dotted(key_path)}", key_path, hint)
            continue
        try:
            values[key] = reader(value, key_path, faults)
        except ValueError as error:
            faults.add("POL003", f"{_dotted(key_path)} must be {error}", key_path)
    return values


def _dotted(path: Path) -> str:
    if path[:1] == ("rule",) and len(path) > 1 and isinstance(path[1], int):  # people count from one
        return ": ".join((f"rule {path[1] + 1}", *filter(None, [_dotted(path[2:])])))
    return ".".join(f'"{part}"' if set(str(part)) - _PLAIN else str(part) for part in path)


_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")


# ---------------------------------------------------------------- single values


def _text(value: object, path: Path, faults: Faults) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("a text")
    return value


def _flag(value: object, path: Path, faults: Faults) -> bool:
    if not isinstance(value, bool):
        raise ValueError("true or false")
    return value


def _count(value: object, path: Path, faults: Faults) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError("a whole number of at least 0")
    return value


def _seconds(value: object, path: Path, faults: Faults) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < 1e9:
        raise ValueError("a number of seconds above 0")
    return float(value)


def _texts(value: object, path: Path, faults: Faults) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(v, str) and v for v in cast("list[object]", value)):
        raise ValueError("a list of strings")
    return tuple(cast("list[str]", value))


def _hosts(value: object, path: Path, faults: Faults) -> tuple[str, ...]:
    hosts = _texts(value, path, faults)
    for host in hosts:
        name = host.removeprefix("*.")
        is_bare_number = ":" in name and not name.startswith("[")
        if not name or "/" in name or "*" in name or is_bare_number:
            raise ValueError(f"a list of hosts such as api.internal or *.corp.example; {host!r} is not one")
    return tuple(host.lower().removesuffix(".") for host in hosts)


def _addresses(value: object, path: Path, faults: Faults) -> tuple[str, ...]:
    addresses = _texts(value, path, faults)
    for address in addresses:
        if address.count("@") != 1 or "*" in address.replace("*@", "", 1):
            raise ValueError(f"a list of mail addresses such as *@corp.example; {address!r} is not one")
    return tuple(address.lower() for address in addresses)


def _names(value: object, path: Path, faults: Faults) -> tuple[str, ...]:
    return tuple(_tool(name) for name in _texts(value, path, faults))


def _name_set(value: object, path: Path, faults: Faults) -> frozenset[str]:
    return frozenset(_names(value, path, faults))


def _label(value: object, path: Path, faults: Faults) -> Label:
    try:
        label = read_label(_text(value, path, faults))
    except ValueError:
        raise ValueError("a label: T/ or U/ and who may read it, such as U/priv") from None
    faults.readers.append((path, label.readers or frozenset()))
    return label


def _patterns(value: object, path: Path, faults: Faults) -> tuple[str, ...]:
    from callsheet.policy.patterns import Patterns  # noqa: PLC0415 - loads RE2 only if needed

    patterns = _texts(value, path, faults)
    try:
        Patterns(patterns)
    except ValueError as error:
        raise ValueError(f"a list of RE2 patterns; {error}") from None
    return patterns


def _one_of(kind: type[StrEnum]) -> Reader:
    def read(value: object, path: Path, faults: Faults) -> StrEnum:
        words = [str(member) for member in kind]
        if value not in words:
            raise ValueError(f"one of {', '.join(words)}")
        return kind(cast("str", value))

    return read


def _word(words: Mapping[str, Any]) -> Reader:
    def read(value: object, path: Path, faults: Faults) -> object:
        if not isinstance(value, str) or value not in words:
            raise ValueError(f"one of {', '.join(words)}")
        return words[value]

    return read


def _tool(name: str) -> str:
    """The name of a tool as policies hold it; raises ValueError for one that no tool can have."""
    own = name.partition("/")[2] if name.startswith("mcp:") else name.removeprefix("@")
    if not own or not own.isascii() or not own.isprintable() or own != own.strip():
        raise ValueError(
            f"a tool's name, of ASCII characters and without blanks around it; {name!a} is not one"
        )
    return tool_key(name)


def tool_key(name: str) -> str:
    """A tool's name as policies hold it: canonical, or `mcp:SERVER/TOOL` verbatim.

    >>> tool_key("@send_email"), tool_key("mcp:fs/delete")
    ('SEND_EMAIL', 'mcp:fs/delete')
    """
    return name if name.startswith("mcp:") else canonical_tool_name(name)


# ---------------------------------------------------------------- tables


def _made(make: Callable[..., Any], keys: Mapping[str, Reader]) -> Reader:
    """A reader that passes a table's values to `make`."""

    def read(value: object, path: Path, faults: Faults) -> object:
        return make(**read_table(value, keys, path, faults))

    return read


def _section(keys: Mapping[str, Reader]) -> Reader:
    return lambda value, path, faults: read_table(value, keys, path, faults)


def _tools(value: object, path: Path, faults: Faults) -> dict[str, ToolRule]:
    if not isinstance(value, Mapping):
        raise ValueError("a table")
    rules: dict[str, ToolRule] = {}
    for name, table in cast("Mapping[str, object]", value).items():
        key_path = (*path, name)
        try:
            key = _tool(name)
            if key in rules:
                faults.add("POL003", f"two entries are for the same tool {name}", key_path)
            values = read_table(table, _TOOL, key_path, faults)
        except ValueError as error:
            faults.add("POL003", f"{_dotted(key_path)} must be {error}", key_path)
            continue
        values.pop("annotations", None)
        rules[key] = ToolRule(**values)
    return rules


def _sources(value: object, path: Path, faults: Faults) -> tuple[SourceRule, ...]:
    if not isinstance(value, Mapping):
        raise ValueError("a table")
    rules: list[SourceRule] = []
    for place, table in cast("Mapping[str, object]", value).items():
        key_path = (*path, place)
        kind, colon, pattern = place.partition(":")
        if kind not in _SOURCE_KINDS or (not pattern if kind != "memory" else bool(colon and not pattern)):
            known = "file:GLOB, url:HOST, host:GLOB, tool:@NAME and memory"
            faults.add("POL003", f"{place!r} is not a source", key_path, f"sources are {known}")
            continue
        is_tool = kind == "tool" and pattern != "*"
        try:
            name = _tool(pattern) if is_tool else pattern.lower() if kind == "url" else pattern
            values = read_table(table, _SOURCE, key_path, faults)
        except ValueError as error:
            faults.add("POL003", f"{_dotted(key_path)} must be {error}", key_path)
            continue
        label = Label(values.get("integrity", True), values.get("conf", read_readers("priv")))
        rules.append(SourceRule(kind=kind, pattern=name, label=label))
    return tuple(rules)


def _conf(value: object, path: Path, faults: Faults) -> object:
    if isinstance(value, list):
        value = "+".join(_texts(cast("object", value), path, faults))
    try:
        readers = read_readers(_text(value, path, faults))
    except ValueError:
        raise ValueError("pub, priv, secret or a list of audiences") from None
    faults.readers.append((path, readers or frozenset()))
    return readers


def _audiences(value: object, path: Path, faults: Faults) -> dict[str, Audience]:
    if not isinstance(value, Mapping):
        raise ValueError("a table")
    audiences: dict[str, Audience] = {}
    for name, table in cast("Mapping[str, object]", value).items():
        key_path = (*path, name)
        try:
            if read_readers(name) != frozenset({name}) or name in ("user", "model"):
                raise ValueError
        except ValueError:
            faults.add("POL003", f"an audience cannot be called {name!r}", key_path)
            continue
        try:
            audiences[name] = Audience(name=name, **read_table(table, _AUDIENCE, key_path, faults))
        except ValueError as error:
            faults.add("POL003", f"{_dotted(key_path)} must be {error}", key_path)
    return audiences


def _rules(value: object, path: Path, faults: Faults) -> tuple[CallRule, ...]:
    if not isinstance(value, list):
        raise ValueError("a list of tables, each [[rule]]")
    rules: list[CallRule] = []
    for number, table in enumerate(cast("list[object]", value)):
        key_path = (*path, number)
        try:
            values = read_table(table, _RULE, key_path, faults)
        except ValueError as error:
            faults.add("POL003", f"{_dotted(key_path)} must be {error}", key_path)
            continue
        missing = [key for key in _RULE if key not in cast("Mapping[str, object]", table)]
        if missing:
            faults.add("POL003", f"rule {number + 1} lacks {' and '.join(missing)}", key_path)
        if values.keys() != _RULE.keys():
            continue
        rules.append(CallRule(tool=values["tool"], when=values["when"], then=values["then"]))
    return tuple(rules)


def _agent(value: object, path: Path, faults: Faults) -> AgentRule:
    rule = AgentRule(**read_table(value, _AGENT, path, faults))
    for tool in rule.arguments:
        if tool not in rule.tools:
            key_path = (*path, "arguments", _written(value, tool))
            faults.add("POL003", f"the agent is not given @{tool}", key_path, "name it in `tools` too")
    return rule


def _written(value: object, tool: str) -> str:
    """A tool's key as it is written in the file."""
    given: Any = value
    return next((name for name in given["arguments"] if tool_key(name) == tool), tool)


def _arguments(value: object, path: Path, faults: Faults) -> dict[str, dict[str, tuple[str, ...]]]:
    if not isinstance(value, Mapping):
        raise ValueError('a table by tool, such as { "@FETCH_PAGE" = { url = ["https://docs.example/*"] } }')
    arguments: dict[str, dict[str, tuple[str, ...]]] = {}
    for written, table in cast("Mapping[str, object]", value).items():
        key_path = (*path, written)
        try:
            tool = _tool(written)
        except ValueError as error:
            faults.add("POL003", f"{_dotted(key_path)} must be {error}", key_path)
            continue
        if not isinstance(table, Mapping):
            faults.add("POL003", f"{_dotted(key_path)} must be a table of arguments", key_path)
            continue
        given = arguments.setdefault(tool, {})
        for name, patterns in cast("Mapping[str, object]", table).items():
            try:
                given[name] = _texts(patterns, (*key_path, name), faults)
                for pattern in given[name]:
                    check_pattern(tool, name, pattern)
            except ValueError as error:
                faults.add("POL003", f"{_dotted((*key_path, name))} must be {error}", (*key_path, name))
    return arguments


_TOOL: dict[str, Reader] = {
    "egress": _flag,
    "control": _texts,
    "audience_arg": _text,
    "trusted_audience": _texts,
    "destructive": _flag,
    "idempotent": _flag,
    "key_arg": _text,
    "approval": _one_of(When),
    "returns": _label,
    "no_echo": _flag,
    "pin": _text,
    "annotations": _word({"ignored": True}),
}
_SOURCE: dict[str, Reader] = {"conf": _conf, "integrity": _word({"T": False, "U": True})}
_AUDIENCE: dict[str, Reader] = {"hosts": _hosts, "mail": _addresses}
_RULE: dict[str, Reader] = {
    "tool": lambda value, path, faults: _tool(_text(value, path, faults)),
    "when": _text,
    "then": _word({"approve": "approve", "refuse": "refuse"}),
}
_AGENT: dict[str, Reader] = {
    "tools": _names,
    "max_turns": _count,
    "max_calls": _count,
    "seconds": _seconds,
    "arguments": _arguments,
}
_REPLAN: dict[str, Reader] = {"max": _count, "context": _word({"trusted": "trusted", "any": "any"})}

KEYS: dict[str, Reader] = {
    "schema": lambda value, path, faults: value,
    "name": _text,
    "extends": _text,
    "defaults": _section(
        {
            "unknown_tool": _word({"refuse": True, "ask": False}),
            "memory": _label,
            "implicit": _one_of(Implicit),
            "planner": _label,
            "inputs": _label,
            "allow": _name_set,
            "deny": _name_set,
        }
    ),
    "sources": _sources,
    "audience": _audiences,
    "network": _section({"hosts": _hosts}),
    "host": _section({"read": _texts}),
    "execution": _section({"network": _flag}),
    "tools": _tools,
    "dynamic": _section({"agent": _agent, "replan": _made(ReplanRule, _REPLAN)}),
    "secrets": _section({"patterns": _patterns}),
    "budgets": _section({"max_steps": _count, "max_calls": _count, "max_retries": _count}),
    "rule": _rules,
}
"""The top-level keys of a policy file."""
