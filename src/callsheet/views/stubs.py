"""Tools as Python sees them: a line with the signature of each, and a package of typed stubs.

In: the declarations of tools. Out: text. A plan in Python imports the stubs for its editor and type checker.
They can be imported without callsheet, and calling one outside of a plan raises. The order is that of the
names, so that a text made of them, such as a prompt, stays the same while the tools do.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from callsheet.ir import CallKind, call_kind
from callsheet.ir.operations import ORDERED
from callsheet.ports.tools import ToolSpec
from callsheet.views.python_types import (
    ANY,
    Record,
    Types,
    class_name,
    docstring,
    is_name,
    literal,
    parts_of,
    required_of,
    table,
)

OMITTED = "OMITTED"
LOCAL = "local"
"""The module of built-in tools and Python functions."""
_WRAPPER = "result"
_LONGEST = 100


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a stub: its type, and its default as text, empty if it is required."""

    name: str
    type: str
    default: str
    about: str

    def __str__(self) -> str:
        return f"{self.name}: {self.type}" + (f" = {self.default}" if self.default else "")


@dataclass(frozen=True, slots=True)
class Stub:
    """The function that stands for a tool.

    `positional` parameters can be given by position, in the order in which a plan fills them; `named` ones
    only by name. `others` are arguments whose names Python cannot write.
    """

    name: str
    positional: tuple[Parameter, ...]
    named: tuple[Parameter, ...]
    others: tuple[Parameter, ...]
    result: str
    spec: ToolSpec

    @property
    def head(self) -> str:
        """Its definition up to the colon, on one line."""
        return f"async def {self.name}({', '.join(self._parameters())}) -> {self.result}"

    def _parameters(self) -> list[str]:
        parts = [str(parameter) for parameter in self.positional]
        if self.named:
            parts += ["*", *map(str, self.named)]
        if self.others or self.spec.parameters.get("additionalProperties") not in (None, False):
            parts.append("**others: Any")
        return parts

    def lines(self) -> Iterator[str]:
        """Its definition with documentation; the body raises."""
        head = f"{self.head}:"
        if len(head) > _LONGEST:
            parameters = self._parameters()
            head = "\n".join(
                (f"async def {self.name}(", *(f"    {each}," for each in parameters), f") -> {self.result}:")
            )
        yield head
        yield f"    {docstring(self._documentation())}"
        yield f'    raise only_in_plans("{self.name}")'

    def _documentation(self) -> str:
        text = "\n".join(line.rstrip() for line in self.spec.description.strip().splitlines())
        parameters = (*self.positional, *self.named, *self.others)
        told = [f"    {p.name}: {p.about}" for p in parameters if p.about]
        parts = [text or f"The tool {self.spec.executor}."]
        if told:
            parts.append("\n".join(("Args:", *told)))
        if self.others:
            names = ", ".join(f'"{p.name}"' for p in self.others)
            parts.append(f"Give as **{{…}}, since Python cannot write their names: {names}.")
        order = str(self.spec.independence)
        parts.append(f"Effect: {effect_text(self.spec)}{order and f'; {order}'}.")
        return "\n\n".join(parts)


def effect_text(spec: ToolSpec) -> str:
    """The effect of a tool, and who says it."""
    return f"{spec.effect} ({spec.effect_source})" if spec.effect_source else str(spec.effect)


def signature_line(name: str, spec: ToolSpec) -> str:
    """The signature of a tool on one line, as a Python plan calls it.

    An argument that may be left out and has no default is followed by `...`.

    >>> issues = {"type": "array", "items": {"title": "Issue", "properties": {"n": {"type": "integer"}}}}
    >>> properties = {"repo": {"type": "string"}, "state": {"enum": ["open", "closed"], "default": "open"}}
    >>> declared = {"properties": properties, "required": ["repo"]}
    >>> signature_line("LIST_ISSUES", ToolSpec("LIST_ISSUES", "list_issues", "", declared, result=issues))
    'async def list_issues(repo: str, state: Literal["open", "closed"] = "open") -> list[Issue]'
    """
    return stub_of(name, spec, Types()).head.replace(f" = {OMITTED}", " = ...")


def tool_details(name: str, spec: ToolSpec) -> Iterator[str]:
    """What is known of a tool, in lines: its signature, the records in it, its effect, and who says each."""
    types = Types()
    stub = stub_of(name, spec, types)
    yield stub.head.replace(f" = {OMITTED}", " = ...")
    known: list[str] = []
    for record in types.records.values():
        yield from (f"    {line}" for line in record.lines(tuple(known)))
        known.append(record.name)
    yield ""
    yield from (line.rstrip() for line in spec.description.strip().splitlines())
    for parameter in (*stub.positional, *stub.named, *stub.others):
        yield f"- {parameter.name}: {parameter.about or 'not described'}"
    claims = ""
    if spec.hint is not None and spec.hint is not spec.effect:
        server = spec.origin.partition(":")[2]
        claims = (
            f"; the server says {spec.hint}: `callsheet lock --accept {server}/{spec.executor}` accepts it"
        )
    yield ""
    yield f"effect: {effect_text(spec)}{claims}"
    if spec.undo is not None:
        yield f"undone by: {spec.undo}"
    if spec.independence != ORDERED:
        yield f"in loops: {spec.independence}"
    kind, _, where = spec.origin.partition(":")
    yield f"result: {'declared' if spec.result else 'not declared, so of any type'}"
    yield f"from: {_PROVIDERS.get(kind, kind)}{f' {where}' if where else ''}"
    if spec.refusal is not None:
        yield f"not trusted: {spec.refusal.message} ({spec.refusal.code})"


_PROVIDERS = {
    "mcp": "the MCP server",
    "python": "the Python file",
    "builtin": "callsheet",
    "transform": "callsheet",
}


def stub_of(name: str, spec: ToolSpec, types: Types) -> Stub:
    """The stub of a tool that plans call by `name`; `types` gets the records that its signature needs."""
    function = function_name(name)
    schema = spec.parameters
    given = table(schema.get("properties"))
    required = required_of(schema)
    definitions = {key: schema[key] for key in ("$defs", "definitions") if key in schema}
    ordered = [
        _parameter(key, each, function, key in required, types, definitions) for key, each in given.items()
    ]
    plain = [p for p in ordered if is_name(p.name)]
    others = tuple(p for p in ordered if not is_name(p.name))
    positional = _by_position(plain, ordered)
    rest = [p for p in plain if p not in positional]
    named = (*(p for p in rest if not p.default), *(p for p in rest if p.default))
    return Stub(function, positional, named, others, result_type(function, spec, types), spec)


def _fits(default: str, value: object, kind: str) -> bool:
    """Whether a default may stand beside the type of its parameter: servers declare others, too.

    >>> _fits('"no"', "no", "int"), _fits("1", 1, "float | None"), _fits('"a"', "a", 'Literal["a", "b"]')
    (False, True, True)
    """
    own = {type(value).__name__, *(("int", "float") if isinstance(value, int) else ())}
    parts = parts_of(kind)
    chosen = any(part.startswith("Literal[") and default in part for part in parts)
    return value is None or ANY in parts or chosen or not own.isdisjoint(parts)


def _by_position(plain: list[Parameter], ordered: list[Parameter]) -> tuple[Parameter, ...]:
    """The parameters whose order in Python, required ones first, is that in which plans fill them."""
    if plain != ordered:
        return ()
    first = [p for p in plain if not p.default]
    return tuple(plain) if plain[: len(first)] == first else tuple(_leading(plain))


def _leading(parameters: list[Parameter]) -> Iterator[Parameter]:
    for parameter in parameters:
        if parameter.default:
            return
        yield parameter


def _parameter(
    key: str, schema: object, function: str, is_required: bool, types: Types, definitions: Mapping[str, Any]
) -> Parameter:
    given = table(schema)
    kind = types.of({**definitions, **given}, class_name(function, str(key)))
    about = given.get("description")
    text = " ".join(about.split()) if isinstance(about, str) else ""
    if is_required:
        return Parameter(key, kind, "", text)
    default = literal(given["default"]) if "default" in given else None
    if default is not None and not _fits(default, given["default"], kind):
        default = None
    if default == "None" and kind != ANY and "None" not in kind.split(" | "):
        kind = f"{kind} | None"
    if default is None and "default" in given:
        text = f"{text} Default: {given['default']!r}." if text else f"Default: {given['default']!r}."
    return Parameter(key, kind, default or OMITTED, text)


def result_type(function: str, spec: ToolSpec, types: Types) -> str:
    """The type of what a tool gives a plan; Any if its server does not declare it."""
    schema = spec.result
    properties = table(schema.get("properties"))
    hint = class_name(function, "result")
    if list(properties) != [_WRAPPER]:
        return types.of(schema, hint) if schema else ANY
    definitions = {key: schema[key] for key in ("$defs", "definitions") if key in schema}
    inner: object = properties[_WRAPPER]
    return types.of({**definitions, **table(inner)}, hint) if inner else ANY


def function_name(name: str) -> str:
    """The name of a tool in Python, from that in plans.

    >>> function_name("LIST_ISSUES"), function_name("IMPORT")
    ('list_issues', 'import_')
    """
    lower = name.lower()
    return lower if is_name(lower) else f"{lower}_"


def stub_package(specs: Mapping[str, ToolSpec]) -> dict[str, str]:
    """The files of a package of stubs by name, for tools by the names under which plans call them."""
    modules: dict[str, list[str]] = {}
    for name in sorted(specs):
        if call_kind(name) is CallKind.TOOL:
            modules.setdefault(_module_of(specs[name]), []).append(name)
    chosen = _module_names(modules)
    files = {f"{chosen[module]}.py": _module(module, names, specs) for module, names in modules.items()}
    return {"__init__.py": _package(chosen, modules), "py.typed": "", **dict(sorted(files.items()))}


def _module_of(spec: ToolSpec) -> str:
    kind, _, server = spec.origin.partition(":")
    return f"mcp:{server}" if kind == "mcp" else LOCAL


def _module_names(modules: Iterable[str]) -> dict[str, str]:
    """A name of a Python module for each module."""
    chosen = {LOCAL: LOCAL}
    for module in sorted(modules):
        letters = "".join(
            c if c.isascii() and c.isalnum() else "_" for c in module.removeprefix("mcp:")
        ).lower()
        wanted = letters.strip("_") or "server"
        wanted = wanted if is_name(wanted) else f"server_{wanted}"
        name, number = wanted, 2
        while module != LOCAL and name in chosen.values():
            name, number = f"{wanted}_{number}", number + 1
        chosen.setdefault(module, name)
    return chosen


HEAD = "# Written by `callsheet stubs`; changes are lost when it is run again."


def _module(module: str, names: list[str], specs: Mapping[str, ToolSpec]) -> str:
    types = Types()
    for name in (OMITTED, "only_in_plans", *(function_name(name) for name in names)):
        types.reserve(name)
    body: list[str] = []

    def defined(record: Record) -> tuple[str, ...]:
        known = tuple(types.records)
        return known[: known.index(record.name)]

    for name in names:
        body += ["", "", *stub_of(name, specs[name], types).lines()]
    records = [line for record in types.records.values() for line in ("", "", *record.lines(defined(record)))]
    text = "\n".join((*records, *body)) + "\n"
    words = [word for word in ("Any", "Literal", "NotRequired", "TypedDict") if _uses(text, word)]
    where = (
        "Built-in tools and Python functions" if module == LOCAL else f"Tools of the MCP server {module[4:]}"
    )
    imported = [OMITTED, "only_in_plans"] if _uses(text, OMITTED) else ["only_in_plans"]
    return "\n".join(
        (
            docstring(f"{where}.", ""),
            "",
            HEAD,
            "",
            "from __future__ import annotations",
            "",
            *([f"from typing import {', '.join(words)}", ""] if words else []),
            f"from . import {', '.join(imported)}",
            text,
        )
    )


def _uses(text: str, word: str) -> bool:
    return re.search(rf"\b{word}\b", text) is not None


def _package(chosen: Mapping[str, str], modules: Mapping[str, list[str]]) -> str:
    listed = "\n".join(
        f"- `{chosen[module]}`: {len(names)} tool{'' if len(names) == 1 else 's'}"
        for module, names in sorted(modules.items())
    )
    about = docstring(f"The tools of callsheet as typed functions, for plans in Python.\n\n{listed}", "")
    return f'''{about}

{HEAD}

from __future__ import annotations

from typing import Any

OMITTED: Any = ...
"""The default of an argument that is not sent if it is left out."""


def only_in_plans(name: str) -> RuntimeError:
    """The error of a stub that is called outside of a plan."""
    return RuntimeError(f"{{name}} is a tool: it can be called in a plan, which `callsheet run` runs")
'''
