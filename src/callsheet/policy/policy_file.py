"""Reads a policy file: versioned TOML in which every key is known and typed.

In: the text of a file, and a lookup for the files it extends. Out: a Policy, or CallsheetError with all
errors and their spans (POL001 to POL005). Nothing is ignored silently.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Any, NamedTuple, cast

from callsheet.diagnostics import CallsheetError, Diagnostic, Severity, Source, Span, did_you_mean
from callsheet.ir.labels import LINKS, MODEL, TRUSTED, USER, Label, read_readers
from callsheet.ir.operations import ToolClass
from callsheet.ir.strict_toml import TomlError, read_toml
from callsheet.policy.builtins import BUILTINS, fold
from callsheet.policy.classes import EVERY, matching, pattern_of
from callsheet.policy.constraints import check_pattern
from callsheet.policy.field_labels import ITEM
from callsheet.policy.file_values import (
    Faults,
    Path,
    Reader,
    Table,
    address_values,
    count_value,
    dotted,
    flag_value,
    host_values,
    label_value,
    limit_values,
    made_by,
    one_of,
    pattern_values,
    read_table,
    seconds_value,
    section,
    text_value,
    text_values,
    tool_key,
    tool_named,
    tool_pattern,
    tool_patterns,
    tool_set,
    tool_values,
    word,
)
from callsheet.policy.model import (
    AgentRule,
    Audience,
    CallRule,
    Implicit,
    Policy,
    ReplanRule,
    SourceRule,
    ToolEntry,
    ToolRule,
    When,
)
from callsheet.policy.paths import PathRefused
from callsheet.policy.programs import normal_paths


class ToolTable(NamedTuple):
    """A table below `[tools]`: its name as policies hold it, its class if it names one, and its settings."""

    key: str
    does: ToolClass | None
    settings: Table


def tool_tables(value: object, path: Path, faults: Faults) -> tuple[ToolTable, ...]:
    """The tables below `[tools]`; raises ValueError for what is none."""
    if not isinstance(value, Mapping):
        raise ValueError("a table")
    tables: dict[str, ToolTable] = {}
    for name, table in cast("Mapping[str, object]", value).items():
        key_path = (*path, name)
        try:
            key = pattern_of(tool_pattern(name)) if EVERY in name else tool_named(name)
            if key in tables:
                faults.add("POL003", f"two entries are for the same tool {name}", key_path)
            values = read_table(table, _TOOL, key_path, faults)
        except ValueError as error:
            faults.add("POL003", f"{dotted(key_path)} must be {error}", key_path)
            continue
        values.pop("annotations", None)
        does = values.pop("class", None)
        if EVERY in name and values.pop("pin", None) is not None:
            faults.add("POL003", "a pin is the hash of one tool's declaration", (*key_path, "pin"))
        if does is not None and fold(key) in BUILTINS:
            hint = "leave out `class`: what a built-in tool does is known"
            faults.add("POL003", f"{name} is a built-in tool", (*key_path, "class"), hint)
        if "fields" in values and fold(key) in BUILTINS:
            hint = "say it with [sources]: what a built-in tool gives depends on where it reads"
            faults.add("POL003", f"{name} is a built-in tool", (*key_path, "fields"), hint)
        tables[key] = ToolTable(key, does, values)
    return tuple(tables.values())


def class_tables(value: object, path: Path, faults: Faults) -> dict[ToolClass, Table]:
    """The tables below `[class]` by class, with the patterns of tools under `tools`."""
    if not isinstance(value, Mapping):
        raise ValueError("a table")
    classes: dict[ToolClass, Table] = {}
    for name, given in cast("Mapping[str, object]", value).items():
        key_path = (*path, name)
        if name not in _CLASS_NAMES:
            suggestions = did_you_mean(name, _CLASS_NAMES) or _CLASS_NAMES
            faults.add("POL003", f"there is no class {name!r}", key_path, f"did you mean {_or(suggestions)}?")
            continue
        try:
            table = {"tools": cast("object", given)} if isinstance(given, list) else given
            classes[ToolClass(name)] = read_table(table, _CLASS, key_path, faults)
        except ValueError as error:
            what = f"a list of tools, or {error}"
            faults.add("POL003", f"{dotted(key_path)} must be {what}", key_path)
    return classes


def _or(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _paths(value: object, path: Path, faults: Faults) -> tuple[str, ...]:
    """Paths inside the workspace, in normal form."""
    try:
        return normal_paths(text_values(value, path, faults))
    except PathRefused as error:
        raise ValueError(f"a list of paths inside the workspace: {error}") from None


def _fields(value: object, path: Path, faults: Faults) -> dict[str, Label]:
    """The labels of fields of a tool's result, by their keys."""
    if not isinstance(value, Mapping):
        raise ValueError('a table of labels by field, such as { sender = "T/priv", "place.city" = "T/pub" }')
    labels: dict[str, Label] = {}
    for name, text in cast("Mapping[str, object]", value).items():
        key_path = (*path, name)
        if name != ITEM and (not all(name.split(".")) or set(name) & set("[]*")):
            hint = 'name the keys that lead to it, "place.city"; "[]" is an item of a list of texts'
            faults.add("POL003", f"{name!r} is no field", key_path, hint)
            continue
        try:
            labels[name] = label_value(text, key_path, faults)
        except ValueError as error:
            faults.add("POL003", f"{dotted(key_path)} must be {error}", key_path)
    return labels


_TOOL: dict[str, Reader] = {
    "egress": flag_value,
    "control": text_values,
    "audience_arg": text_value,
    "trusted_audience": text_values,
    "private_without_audience": flag_value,
    "private_to_named": flag_value,
    "destructive": flag_value,
    "idempotent": flag_value,
    "key_arg": text_value,
    "approval": one_of(When),
    "approver": text_value,
    "returns": label_value,
    "fields": _fields,
    "links_known": flag_value,
    "no_echo": flag_value,
    "reads": _paths,
    "pin": text_value,
    "annotations": word({"ignored": True}),
    "class": one_of(ToolClass),
}
_OF_ONE = ("pin", "annotations", "class", "reads", "fields")
"""The settings of single tools."""
_CLASS: dict[str, Reader] = {
    "tools": tool_patterns,
    **{key: reader for key, reader in _TOOL.items() if key not in _OF_ONE},
}
_CLASS_NAMES = [str(each) for each in ToolClass]


def described(base: Policy, table: Table) -> dict[str, Any]:
    """The fields that describe tools: those of the base, and what the table says of classes and tools.

    A table of a single tool adds to what its class and its patterns say; without any of them it stands alone.
    """
    given = cast("tuple[ToolTable, ...]", table.get("tools", ()))
    of_classes = cast("dict[ToolClass, Table]", table.get("class", {}))
    listed = [
        ToolEntry(pattern=pattern, does=does)
        for does, own in of_classes.items()
        for pattern in own.get("tools", ())
    ]
    named = {pattern_of(each.key): each for each in given}
    above = [each for each in base.entries if each.pattern not in named]
    shared = [*(_entry_of(each) for each in given if EVERY in each.key), *listed, *above]
    single, entries = dict(base.tools), list[ToolEntry]()
    for each in given:
        single.pop(each.key, None)
        if EVERY in each.key:
            continue
        is_built_in = fold(each.key) in BUILTINS
        if not is_built_in and (each.does is not None or matching(shared, [pattern_of(each.key)])):
            entries.append(_entry_of(each))
        else:
            single[each.key] = ToolRule(**each.settings)
    classes = {does: dict(own) for does, own in base.classes.items()}
    for does, own in of_classes.items():
        settings = {name: value for name, value in own.items() if name != "tools"}
        classes[does] = {**classes.get(does, {}), **settings}
    classes = {does: own for does, own in classes.items() if own}
    return {"tools": single, "entries": (*entries, *shared), "classes": classes}


def _entry_of(table: ToolTable) -> ToolEntry:
    return ToolEntry(pattern=pattern_of(table.key), does=table.does, settings=table.settings)


_SOURCE_KINDS = ("file", "url", "host", "tool", "memory")


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
            name = tool_named(pattern) if is_tool else pattern.lower() if kind == "url" else pattern
            values = read_table(table, _SOURCE, key_path, faults)
        except ValueError as error:
            faults.add("POL003", f"{dotted(key_path)} must be {error}", key_path)
            continue
        label = Label(values.get("integrity", True), values.get("conf", read_readers("priv")))
        rules.append(SourceRule(kind=kind, pattern=name, label=label))
    return tuple(rules)


def _conf(value: object, path: Path, faults: Faults) -> object:
    if isinstance(value, list):
        value = "+".join(text_values(cast("object", value), path, faults))
    try:
        readers = read_readers(text_value(value, path, faults))
    except ValueError:
        raise ValueError("pub, priv, secret or a list of audiences") from None
    faults.readers.append((path, readers or frozenset()))
    return readers


def _audiences_table(value: object, path: Path, faults: Faults) -> dict[str, Audience]:
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
            faults.add("POL003", f"{dotted(key_path)} must be {error}", key_path)
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
            faults.add("POL003", f"{dotted(key_path)} must be {error}", key_path)
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
            tool = tool_named(written)
        except ValueError as error:
            faults.add("POL003", f"{dotted(key_path)} must be {error}", key_path)
            continue
        if not isinstance(table, Mapping):
            faults.add("POL003", f"{dotted(key_path)} must be a table of arguments", key_path)
            continue
        given = arguments.setdefault(tool, {})
        for name, patterns in cast("Mapping[str, object]", table).items():
            try:
                given[name] = text_values(patterns, (*key_path, name), faults)
                for pattern in given[name]:
                    check_pattern(tool, name, pattern)
            except ValueError as error:
                faults.add("POL003", f"{dotted((*key_path, name))} must be {error}", (*key_path, name))
    return arguments


_SOURCE: dict[str, Reader] = {"conf": _conf, "integrity": word({"T": False, "U": True})}
_AUDIENCE: dict[str, Reader] = {"hosts": host_values, "mail": address_values}
_RULE: dict[str, Reader] = {
    "tool": lambda value, path, faults: tool_named(text_value(value, path, faults)),
    "when": text_value,
    "then": word({"approve": "approve", "refuse": "refuse"}),
}
_AGENT: dict[str, Reader] = {
    "tools": tool_values,
    "max_turns": count_value,
    "max_calls": count_value,
    "seconds": seconds_value,
    "arguments": _arguments,
}
_REPLAN: dict[str, Reader] = {"max": count_value, "context": word({"trusted": "trusted", "any": "any"})}

KEYS: dict[str, Reader] = {
    "schema": lambda value, path, faults: value,
    "name": text_value,
    "extends": text_value,
    "defaults": section(
        {
            "unknown_tool": word({"refuse": True, "ask": False}),
            "memory": label_value,
            "implicit": one_of(Implicit),
            "planner": label_value,
            "inputs": label_value,
            "harmless": text_values,
            "allow": tool_set,
            "deny": tool_set,
        }
    ),
    "sources": _sources,
    "audience": _audiences_table,
    "network": section({"hosts": host_values}),
    "host": section({"read": text_values}),
    "execution": section({"network": flag_value}),
    "class": class_tables,
    "tools": tool_tables,
    "dynamic": section({"agent": _agent, "replan": made_by(ReplanRule, _REPLAN)}),
    "secrets": section({"patterns": pattern_values}),
    "budgets": section({"max_steps": count_value, "max_calls": count_value, "max_retries": count_value}),
    "rule": _rules,
    "limit": limit_values,
}
"""The top-level keys of a policy file."""


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


_USUAL = "a policy is a TOML file; `callsheet policy init` writes one"
_TWICE = 'write the tools of a class with settings as tools = ["…"] in its table, and not below [class]'


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
            _TWICE if "('class', " in message else _IN_QUOTES.get(message, _USUAL),
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
        for part in sections:
            inner = inner.get(part, {})
        if key in inner:
            changes[name] = inner[key]
    changes["sources"] = (*cast("tuple[Any, ...]", table.get("sources", ())), *base.sources)
    changes |= described(base, table)
    changes["limits"] = (*cast("tuple[Any, ...]", table.get("limit", ())), *base.limits)
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
    ("defaults", "harmless"): "harmless",
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
