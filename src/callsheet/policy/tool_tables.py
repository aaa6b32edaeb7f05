"""Reads the tables of a policy file about tools: `[tools]` and `[class]`, and what both say of a tool.

In: parsed TOML, its path in the file. Out: tables by tool and by class, and the fields of the policy that
they make together; what is wrong with one is recorded with how to write it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from callsheet.diagnostics import did_you_mean
from callsheet.ir.labels import Label
from callsheet.ir.operations import ToolClass
from callsheet.policy.builtins import BUILTINS, fold
from callsheet.policy.classes import EVERY, matching, pattern_of
from callsheet.policy.field_labels import ITEM
from callsheet.policy.file_values import (
    Faults,
    Path,
    Reader,
    Table,
    dotted,
    flag_value,
    label_value,
    one_of,
    read_table,
    text_value,
    text_values,
    tool_named,
    tool_pattern,
    tool_patterns,
    word,
)
from callsheet.policy.model import Policy, ToolEntry, ToolRule, When
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
