"""Converts a policy to canonical JSON and back, and hashes it, so that a journal can identify it.

Equal policies have equal bytes. Reading refuses unknown parts, so that a policy of a newer version is never
read as a weaker one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from enum import StrEnum
from hashlib import sha256
from typing import Any, NamedTuple, TypeVar, cast

from callsheet.ir.canon import canonical_bytes
from callsheet.ir.labels import Label, read_label
from callsheet.ir.operations import ToolClass
from callsheet.policy.model import (
    AgentRule,
    Audience,
    CallRule,
    Implicit,
    Limit,
    Per,
    Policy,
    ReplanRule,
    SourceRule,
    ToolEntry,
    ToolRule,
    When,
)

_VERSION = 1
_T = TypeVar("_T")
_Readers = Mapping[str, "Callable[[Any], Any]"]


def policy_to_json(policy: Policy) -> dict[str, Any]:
    """The policy as JSON data; `policy_from_json` reads it back to an equal policy."""
    return {"policy": _VERSION, **_plain(policy)}


def policy_from_json(data: Mapping[str, Any]) -> Policy:
    """The policy that JSON data describes; raises ValueError for invalid data or unknown parts."""
    given = dict(data)
    if given.pop("policy", None) != _VERSION:
        raise ValueError("it is not a policy, or has another version")
    return _made(Policy, given, _OF_POLICY)


def policy_hash(policy: Policy) -> str:
    """The SHA-256 of the canonical form, in hexadecimal digits.

    >>> policy_hash(Policy()) == policy_hash(policy_from_json(policy_to_json(Policy())))
    True
    """
    return sha256(canonical_bytes(policy_to_json(policy))).hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, Label):
        return str(value)
    if isinstance(value, StrEnum):
        return str(value)
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, frozenset):
        return sorted(_plain(item) for item in value)  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, Mapping):
        return {f"{name}": _plain(item) for name, item in value.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, tuple):
        return [_plain(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    data = {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    return {
        name: part for name, part in data.items() if part or name not in _YOUNGER or (name, part) == _NO_FILE
    }


def _made(kind: type[_T], data: Any, readers: _Readers) -> _T:
    if not isinstance(data, Mapping):
        raise ValueError(f"{kind.__name__} must be an object")
    given: Mapping[str, Any] = data  # pyright: ignore[reportUnknownVariableType]
    known = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    unknown = sorted(given.keys() - known)
    if unknown:
        raise ValueError(f"a policy has no {unknown[0]}")
    try:
        return kind(**{name: readers.get(name, _same)(value) for name, value in given.items()})
    except (TypeError, AttributeError, KeyError) as error:
        raise ValueError(f"{kind.__name__} cannot be read: {error!r}") from error


def _same(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


def _each(read: Callable[[Any], _T]) -> Callable[[Sequence[Any]], tuple[_T, ...]]:
    return lambda values: tuple(read(value) for value in values)


def _perhaps(read: Callable[[Any], _T]) -> Callable[[Any], _T | None]:
    return lambda value: None if value is None else read(value)


_YOUNGER = frozenset(
    {
        "approver",
        "arguments",
        "classes",
        "does",
        "entries",
        "fields",
        "files",
        "harmless",
        "limits",
        "links_known",
        "no_echo",
        "observes",
        "place_arg",
        "private_without_audience",
        "private_to_named",
        "reads",
        "server_labels",
        "written",
    }
)
"""Fields added after version 1, left out when empty so that the hashes of older policies stay the same."""
_NO_FILE: tuple[str, list[str]] = ("reads", [])
"""Unlike None, the empty list says something: that programs see no file."""
_OF_AGENT: _Readers = {
    "arguments": lambda data: {
        tool: {name: tuple(patterns) for name, patterns in given.items()} for tool, given in data.items()
    }
}
_OF_TOOL: _Readers = {
    "approval": When,
    "returns": read_label,
    "fields": lambda data: {path: read_label(label) for path, label in data.items()},
    "reads": _perhaps(tuple),
    "does": _perhaps(ToolClass),
}


def _settings(data: Mapping[str, Any]) -> dict[str, Any]:
    """Some fields of a `ToolRule`; raises ValueError for unknown ones."""
    rule = _made(ToolRule, data, _OF_TOOL)
    return {name: getattr(rule, name) for name in data}


_OF_ENTRY: _Readers = {"does": _perhaps(ToolClass), "settings": _settings}
_OF_SOURCE: _Readers = {"label": read_label}
_OF_POLICY: _Readers = {
    "audiences": _each(lambda data: _made(Audience, data, {})),
    "sources": _each(lambda data: _made(SourceRule, data, _OF_SOURCE)),
    "tools": lambda data: {name: _made(ToolRule, rule, _OF_TOOL) for name, rule in data.items()},
    "entries": _each(lambda data: _made(ToolEntry, data, _OF_ENTRY)),
    "classes": lambda data: {ToolClass(name): _settings(given) for name, given in data.items()},
    "allowed_tools": _perhaps(frozenset),
    "denied_tools": frozenset,
    "implicit": Implicit,
    "memory": read_label,
    "planner": read_label,
    "inputs": read_label,
    "agent": _perhaps(lambda data: _made(AgentRule, data, _OF_AGENT)),
    "replan": _perhaps(lambda data: _made(ReplanRule, data, {})),
    "approved": frozenset,
    "declassify": frozenset,
    "rules": _each(lambda data: _made(CallRule, data, {})),
    "limits": _each(lambda data: _made(Limit, data, {"per": Per})),
    "server_labels": lambda data: {name: read_label(label) for name, label in data.items()},
}


_LONGEST = 80


class Difference(NamedTuple):
    """A part that differs; `before` and `now` are JSON data, None if the part is absent."""

    part: str
    before: Any
    now: Any

    def __str__(self) -> str:
        return f"{self.part}: {_shown(self.before)} → {_shown(self.now)}"


def differences(before: Policy, now: Policy) -> tuple[Difference, ...]:
    """All differences except in the protected files, by the path of the part; empty for equal policies.

    >>> [str(d) for d in differences(Policy(), Policy(exec_network=True, max_steps=5))]
    ['exec_network: false → true', 'max_steps: none → 5']
    """
    data = policy_to_json(replace(before, files=())), policy_to_json(replace(now, files=()))
    return tuple(_between("", *data))


def is_of(bound: Policy, policy: Policy) -> bool:
    """Whether a policy that was bound to tools is `policy`, whatever steps are approved and files protected.

    Binding replaces the names of servers' tools, so the parts of the policy are compared without these names.

    >>> is_of(Policy(approved=frozenset({"S1"})), Policy()), is_of(Policy(exec_network=True), Policy())
    (True, False)
    """
    written = [rule for rule in bound.tools.values() if rule.does is None and rule.place_arg is None]
    if not all(rule in policy.tools.values() for rule in written):
        return False
    if not _plain_names(policy.denied_tools) <= bound.denied_tools or bound.declassify - policy.declassify:
        return False
    if policy.planner.flows_to(bound.planner) and policy.inputs.flows_to(bound.inputs):
        policy = replace(policy, planner=bound.planner, inputs=bound.inputs)  # as for a session's programs
    return _without_names(bound) == _without_names(policy)


def _plain_names(names: Iterable[str]) -> frozenset[str]:
    """The names that binding keeps."""
    return frozenset(name for name in names if not name.startswith("mcp:"))


def _without_names(policy: Policy) -> Policy:
    agent = policy.agent
    return replace(
        policy,
        tools={},
        denied_tools=frozenset(),
        allowed_tools=None if policy.allowed_tools is None else frozenset(),
        agent=None if agent is None else replace(agent, tools=(), arguments={}),
        rules=tuple(dict.fromkeys(replace(rule, tool="") for rule in policy.rules)),
        limits=tuple(replace(limit, tools=(), after=(), needs=(), written=()) for limit in policy.limits),
        approved=frozenset(),
        declassify=frozenset(),
        files=(),
        server_labels={},
    )


def _between(part: str, before: Any, now: Any) -> Iterator[Difference]:
    if before == now:
        return
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        old, new = cast("Mapping[str, Any]", before), cast("Mapping[str, Any]", now)
        for name in (*old, *(name for name in new if name not in old)):
            yield from _between(f"{part}.{name}" if part else name, old.get(name), new.get(name))
        return
    old_rows, new_rows = _by_name(before), _by_name(now)
    if old_rows is not None and new_rows is not None:
        yield from _between(part, old_rows, new_rows)
        return
    yield Difference(part, before, now)


def _by_name(value: Any) -> Mapping[str, Any] | None:
    """The members of a list of audiences, sources or rules by name; None for any other value."""
    if not isinstance(value, Sequence) or isinstance(value, str):
        return None
    rows = [
        cast("Mapping[str, Any]", row) for row in cast("Sequence[Any]", value) if isinstance(row, Mapping)
    ]
    if len(rows) != len(cast("Sequence[Any]", value)) or not rows:
        return None
    named = {
        str(row["name"])
        if "name" in row
        else f"{row.get('kind', row.get('tool'))}:{row.get('pattern', '')}": row
        for row in rows
    }
    return named if len(named) == len(rows) else None


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
