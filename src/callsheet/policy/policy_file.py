"""Reads a policy file: versioned TOML in which every key is known and typed.

In: the text of a file, and a lookup for the files it extends. Out: a Policy, or CallsheetError with all
errors and their spans (POL001 to POL005). Nothing is ignored silently.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import PurePath
from typing import Any, cast

from callsheet.diagnostics import CallsheetError, Diagnostic, Severity, Source, Span, did_you_mean
from callsheet.ir.labels import LINKS, MODEL, TRUSTED, USER
from callsheet.ir.strict_toml import TomlError, read_toml
from callsheet.policy.file_values import Faults, Table, read_table
from callsheet.policy.model import Audience, Policy
from callsheet.policy.tables import KEYS

SCHEMA = 1
"""The version of the file format."""

Find = Callable[[str], Source | None]
"""Looks up the text of an extended policy by the name used in the file; None if there is none."""

_MOST_EXTENDED = 8
_SHIPPED = ("strict", "workspace", "open")
_LEVELS = ("pub", "priv", "secret")
_LONG_NAMES = {"public": "pub", "private": "priv", "secrets": "secret"}
_IN_QUOTES = {
    "Invalid value": 'a string needs quotes: name = "ours"; truth values are true and false',
    "Invalid initial character for a key part": 'a name with @, : or * needs quotes: "@SEND_MAIL"',
}
"""Hints on missing quotes, by the TOML parser's message."""


def read_policy(source: Source, find: Find | None = None) -> Policy:
    """Read a policy; extended policies are looked up with `find`.

    Raises CallsheetError with all errors of the first file that has any.

    >>> read_policy(Source("policy.toml", "schema = 1\\n[budgets]\\nmax_steps = 9")).max_steps
    9
    """
    return _read(source, find or (lambda name: None), ())


def _read(source: Source, find: Find, above: tuple[str, ...]) -> Policy:
    data = _parsed(source)
    faults = Faults(source)
    table = read_table(data, KEYS, (), faults)
    _check_schema(data, faults, source.name)
    base = Policy()
    extended = table.get("extends")
    if isinstance(extended, str):
        file_source = None if len(above) >= _MOST_EXTENDED or extended in above else find(extended)
        if file_source is None:
            why = f"it extends {extended!r}, which extends it" if extended in above else _no_policy(extended)
            suggestions = did_you_mean(extended, _SHIPPED)
            others = "the shipped ones are strict, workspace and open"
            faults.add(
                "POL005",
                why,
                ("extends",),
                f"did you mean {suggestions[0]}? {others}" if suggestions else others,
            )
        else:
            base = _read(file_source, find, (*above, extended))
    table.setdefault("name", PurePath(source.name).stem)
    policy = _merged(base, table, faults)
    faults.raise_if_any()
    return policy


def _no_policy(name: str) -> str:
    return f"there is no policy {name!r} to extend"


def _parsed(source: Source) -> dict[str, Any]:
    try:
        return read_toml(source.text)
    except TomlError as error:
        message, start = str(error), error.offset
        diagnostic = Diagnostic(
            "POL001",
            Severity.ERROR,
            f"the policy is not TOML: {message}",
            Span(start, start + 1),
            _IN_QUOTES.get(message, "a policy is a TOML file; `callsheet policy init` writes one"),
        )
        raise CallsheetError([diagnostic], source) from None


def _check_schema(data: Mapping[str, Any], faults: Faults, name: str) -> None:
    given: object = data.get("schema")
    if given is None:
        message = f"the policy {name} has no schema version"
        faults.add("POL004", message, (), f"write `schema = {SCHEMA}` at its top")
    elif type(given) is not int or given != SCHEMA:
        message = f"the policy has schema version {given!r}; this version of callsheet reads version {SCHEMA}"
        faults.add("POL004", message, ("schema",), f"write `schema = {SCHEMA}`")


def _merged(base: Policy, table: Table, faults: Faults) -> Policy:
    """The base policy overridden by the table, whose sources and rules come before those of the base."""
    changes: dict[str, Any] = {}
    for (*sections, key), name in _FIELDS.items():
        inner: Any = table
        for section in sections:
            inner = inner.get(section, {})
        if key in inner:
            changes[name] = inner[key]
    changes["sources"] = (*cast("tuple[Any, ...]", table.get("sources", ())), *base.sources)
    tools: Any = table.get("tools", {})
    changes["tools"] = {**base.tools, **tools}
    changes["rules"] = (*cast("tuple[Any, ...]", table.get("rule", ())), *base.rules)
    audiences: Any = table.get("audience", {})
    changes["audiences"] = _audiences(base.audiences, audiences)
    changes["forbidden"] = tuple(dict.fromkeys((*base.forbidden, *changes.get("forbidden", ()))))
    policy = replace(base, **changes)
    _check_audiences(policy, faults)
    return policy


_FIELDS: dict[tuple[str, ...], str] = {
    ("name",): "name",
    ("defaults", "unknown_tool"): "refuse_unknown_tools",
    ("defaults", "memory"): "memory",
    ("defaults", "implicit"): "implicit",
    ("defaults", "planner"): "planner",
    ("defaults", "inputs"): "inputs",
    ("defaults", "allow"): "allowed_tools",
    ("defaults", "deny"): "denied_tools",
    ("network", "hosts"): "egress_hosts",
    ("host", "read"): "host_read",
    ("execution", "network"): "exec_network",
    ("dynamic", "agent"): "agent",
    ("dynamic", "replan"): "replan",
    ("secrets", "patterns"): "forbidden",
    ("budgets", "max_steps"): "max_steps",
    ("budgets", "max_calls"): "max_calls",
    ("budgets", "max_retries"): "max_retries",
}
"""Maps keys of the file to fields of the policy."""


def _audiences(base: tuple[Audience, ...], given: Mapping[str, Audience]) -> tuple[Audience, ...]:
    named = {audience.name: audience for audience in base} | dict(given)
    named.setdefault(TRUSTED, Audience(name=TRUSTED))
    return tuple(named.values())


def _check_audiences(policy: Policy, faults: Faults) -> None:
    """Record POL003 for readers that no audience describes."""
    known = {audience.name for audience in policy.audiences} | {USER, MODEL, LINKS}
    for path, readers in faults.readers:
        for name in sorted(readers - known):
            message = f"{name!r} is not an audience of this policy"
            faults.add("POL003", message, path, _readers_hint(name, known))


def _readers_hint(name: str, known: set[str]) -> str:
    """The suggested fix for an undescribed reader, which may be a misspelt audience or level."""
    meant = _LONG_NAMES.get(name)
    suggestions = (meant,) if meant else did_you_mean(name, sorted({*known, *_LEVELS}))
    described = f"[audience.{name}] with its hosts or mail addresses"
    return (
        f"did you mean {' or '.join(suggestions)}? else write {described}"
        if suggestions
        else f"write {described}"
    )
