"""Flat JSON plans, for providers that constrain answers by a JSON schema: the schema, and the parser."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from callsheet.diagnostics import Source, Span
from callsheet.frontends.dag.json_tree import Report, Unreadable, read_json
from callsheet.frontends.dag.texts import Texts, read_when
from callsheet.frontends.export.operations import OPERATIONS
from callsheet.frontends.export.scope import item_name, output_names
from callsheet.frontends.export.shapes import ExportOptions, ToolShape
from callsheet.frontends.export.values import kinds, properties
from callsheet.frontends.tree import Mapping as Object
from callsheet.frontends.tree import Node, Scalar, kind_of
from callsheet.frontends.tree import Sequence as Items
from callsheet.frontends.values.reader import NAME, ParseResult
from callsheet.frontends.values.strings import PATH, path_of
from callsheet.ir import (
    Action,
    Call,
    Condition,
    DictExpr,
    Foreach,
    Goto,
    ListExpr,
    Literal,
    OnFail,
    Output,
    Plan,
    Ref,
    Replan,
    Respond,
    Retry,
    Step,
    Terminate,
    Value,
    canonical_tool_name,
)
from callsheet.ir.expr import template

ENDS = ("respond", "terminate")
"""The values of `tool` for steps that end the plan."""
REPLAN = "replan"
GOTO, TARGET = "goto", "step"
"""The value of `tool` for a jump, and the name of its argument, the id of a step."""
DATA = "data"
"""The name of positional arguments of an operation."""
POSITIONAL = {"SELECT": (DATA,), "CALC": ("expression",), "FORMAT": ("text",)}
_MOST_NAMES = 200
"""A schema lists the names of arguments only up to this number."""


def plan_schema(tools: Sequence[ToolShape], options: ExportOptions | None = None) -> dict[str, Any]:
    """The JSON schema of plans with these tools, in the part of JSON Schema that providers support.

    >>> plan_schema([])["properties"]["steps"]["items"]["properties"]["tool"]["enum"]
    ['respond', 'terminate']
    """
    options = options or ExportOptions()
    names = [tool.canonical.lower() for tool in tools] + sorted(name.lower() for name in options.operations)
    control_tools = [*ENDS, *([REPLAN] if options.replans else ()), *([GOTO] if options.jumps else ())]
    step: dict[str, Any] = {}
    if options.loops:
        step["each"] = _text("runs once for each item of this list, such as v1.items; empty for once")
    if options.conditions:
        step["when"] = _text('runs only if this holds, such as $v1 contains "x"; empty for always')
    step["tool"] = {"type": "string", "enum": [*names, *control_tools]}
    step["args"] = {"type": "array", "items": _argument(_argument_names(tools, options))}
    step["out"] = {"type": "string", "enum": [*output_names(options), ""]}
    if options.failures:
        step["retries"] = {
            "type": "integer",
            "description": "how often it is tried again if it fails; else 0",
        }
        step["on_fail"] = _text("ends the plan with this message if it fails; empty to go on")
    return _object({"steps": {"type": "array", "items": _object(step)}})


def _argument(names: list[str]) -> dict[str, Any]:
    name = {"type": "string", "enum": names} if 0 < len(names) <= _MOST_NAMES else {"type": "string"}
    value = {
        "anyOf": [
            {"type": "string"},
            {"type": "number"},
            {"type": "boolean"},
            {"type": "array", "items": {"type": "string"}},
        ]
    }
    reference = _text("a variable that is set, with the way into it, such as v1.items.0")
    return {"anyOf": [_object({"name": name, "value": value}), _object({"name": name, "ref": reference})]}


def _argument_names(tools: Sequence[ToolShape], options: ExportOptions) -> list[str]:
    return list(dict.fromkeys(_names(tools, options)))


def _names(tools: Sequence[ToolShape], options: ExportOptions) -> Iterable[str]:
    for tool in tools:
        yield from properties(tool.parameters)
    for name in sorted(options.operations):
        if name in OPERATIONS:
            yield from (argument for argument, _ in OPERATIONS[name].named)
            yield DATA
        else:
            yield from POSITIONAL.get(name, ())
            yield from ("query",) if name == "SELECT" else ()
    yield "text"
    if options.jumps:
        yield TARGET


def _object(fields: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": fields,
        "required": list(fields),
        "additionalProperties": False,
    }


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


_REFERENCE = re.compile(rf"\$?({NAME})({PATH})")
_WITHIN = re.compile(rf"\$\{{({NAME})({PATH})\}}|\$({NAME})((?:\.\w+)*)")
_OUTPUT = re.compile(rf"\$?({NAME})")
_TARGET = re.compile(r"[Ss]?(\d{1,9})(?:\.0)?")
_GOTO, _REPLAN = GOTO.upper(), REPLAN.upper()
_ENDS = frozenset({_REPLAN, *(end.upper() for end in ENDS)})
_STEP_FIELDS = frozenset({"tool", "args", "out", "when", "each", "retries", "on_fail"})


def read_flat(
    text: str, tools: Sequence[ToolShape], name: str = "<plan>", options: ExportOptions | None = None
) -> ParseResult:
    """Parse a flat plan; `options` are those of the schema, `name` is the name of the text in diagnostics.

    A string for an argument that is a list or an object in the tool's schema is parsed as JSON.

    >>> flat = '{"steps": [{"tool": "respond", "args": [{"name": "text", "value": "Hi"}], "out": ""}]}'
    >>> read_flat(flat, []).require().steps[0].action
    Respond(values=(Literal(value='Hi'),))
    """
    report = Report()
    steps: list[Step] = []
    try:
        root = read_json(text, report)
        _Reader(text, report, tools, options or ExportOptions()).read(root, steps)
    except Unreadable:
        pass
    partial = Plan(tuple(steps))
    diagnostics = sorted(report.diagnostics, key=lambda d: d.span.start if d.span else -1)
    return ParseResult(None if report.errors else partial, partial, tuple(diagnostics), Source(name, text))


class _Reader:
    """Parses the steps in order, and records the variables that they set."""

    def __init__(self, text: str, report: Report, tools: Sequence[ToolShape], options: ExportOptions) -> None:
        self._report = report
        self._texts = Texts(text, report)
        self._schemas = {tool.canonical: properties(tool.parameters) for tool in tools}
        self._set = set(options.given)
        self._item = item_name(options)

    def read(self, root: Node, steps: list[Step]) -> None:
        steps_node = root.get("steps") if isinstance(root, Object) else None
        if steps_node is None or not isinstance(steps_node.value, Items) or not steps_node.value.items:
            raise self._wrong('a flat plan is {"steps": […]} with at least one step', root)
        for number, item in enumerate(steps_node.value.items, 1):
            try:
                steps.append(self._step(item, f"S{number}"))
            except Unreadable:
                continue

    def _wrong(self, message: str, node: Node, code: str = "GRM001", step: str | None = None) -> Unreadable:
        span = node.span if isinstance(node, Scalar) else Span(node.span.start, node.span.start + 1)
        return self._report.error(code, message, span, step=step)

    # ------------------------------------------------------------ steps

    def _step(self, node: Node, id_: str) -> Step:
        if not isinstance(node, Object):
            raise self._wrong(f"{id_} is {kind_of(node)}, but should be an object", node, step=id_)
        for entry in node.entries:
            if entry.key not in _STEP_FIELDS:
                self._report.error(
                    "GRM001", f"{id_} has no field {entry.key[:40]!r}", entry.key_span, step=id_
                )
        tool, out = self._text(node, "tool", id_), self._text(node, "out", id_)
        foreach = self._each(node, id_)
        seen = self._set if foreach is None else {*self._set, self._item}
        condition = self._when(node, id_)
        action = self._action(tool, node, seen, id_)
        on_fail = self._on_fail(node, seen, id_)
        output = self._output(out, id_)
        if output is not None:
            self._set.add(output.var)
        return Step(id_, action, foreach, condition, output, on_fail, span=node.span)

    def _text(self, node: Object, key: str, id_: str, *, must: bool = True) -> Scalar | None:
        """The string of a field; unless it `must` be there, None if it is missing or blank."""
        entry = node.get(key)
        if entry is None:
            if must:
                raise self._wrong(f"{id_} has no {key}", node, step=id_)
            return None
        value = entry.value
        if isinstance(value, Scalar) and isinstance(value.value, str):
            return value if must or value.value.strip() else None
        if isinstance(value, Scalar) and value.value is None and key != "tool":
            return Scalar("", value.span) if must else None
        raise self._wrong(f"{key} of {id_} is {kind_of(value)}, but should be a text", value, step=id_)

    def _each(self, node: Object, id_: str) -> Foreach | None:
        text = self._text(node, "each", id_, must=False)
        return None if text is None else Foreach(self._item, self._reference(text, id_), text.span)

    def _when(self, node: Object, id_: str) -> Condition | None:
        text = self._text(node, "when", id_, must=False)
        return None if text is None else read_when(text, self._texts, self._report, id_)

    def _on_fail(self, node: Object, seen: Collection[str], id_: str) -> OnFail | None:
        """What a failure of the step does: retries, and then the end of the plan with a message."""
        entry = node.get("retries")
        count = 0 if entry is None else self._count(entry.value, id_)
        retry = Retry(count, span=entry.value.span) if entry is not None and count else None
        text = self._text(node, "on_fail", id_, must=False)
        then = None if text is None else Terminate((_filled(str(text.value), seen, text.span),), text.span)
        return None if retry is None and then is None else OnFail(retry, then, node.span)

    def _count(self, node: Node, id_: str) -> int:
        """A number of retries; null counts as none."""
        value = node.value if isinstance(node, Scalar) else node
        if value is None:
            return 0
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise self._wrong(f"retries of {id_} should be a number of further tries, or 0", node, step=id_)
        return value

    def _output(self, out: Scalar | None, id_: str) -> Output | None:
        name = "" if out is None else str(out.value).strip()
        if out is None or not name:
            return None
        match = _OUTPUT.fullmatch(name)
        if match is None:
            raise self._wrong(f"{name[:40]!r} is not a valid name of a variable", out, step=id_)
        return Output(match[1], None, out.span)

    # ------------------------------------------------------------ calls

    def _action(self, tool: Scalar | None, node: Object, seen: Collection[str], id_: str) -> Action:
        entry = node.get("args")
        if entry is None or not isinstance(entry.value, Items):
            where = node if entry is None else entry.value
            raise self._wrong(f"args of {id_} should be a list", where, step=id_)
        name = canonical_tool_name("" if tool is None else str(tool.value))
        if not name and tool is not None:
            raise self._wrong(f"the tool of {id_} has no name", tool, step=id_)
        if name == _GOTO:
            return self._goto(entry.value, id_)
        is_end = name in _ENDS
        schemas = self._schemas.get(name, {})
        by_position = POSITIONAL.get(name, (DATA,))
        positional: list[Value] = []
        named: dict[str, Value] = {}
        for item in entry.value.items:
            key, value = self._argument(item, schemas, seen, id_)
            if is_end or (key in by_position and name not in self._schemas):
                positional.append(value)
            elif key in named:
                raise self._wrong(f"{id_} has two arguments {key}", item, "GRM002", id_)
            else:
                named[key] = value
        if name == "RESPOND":
            return Respond(tuple(positional), node.span)
        if name == "TERMINATE":
            return Terminate(tuple(positional), node.span)
        if name == _REPLAN:
            return Replan(tuple(positional), node.span)
        return Call(name, tuple(positional), tuple(named.items()), node.span)

    def _goto(self, args: Items, id_: str) -> Goto:
        """A jump, whose only argument is the id of a step, or its number."""
        objects = [item for item in args.items if isinstance(item, Object)]
        target = objects[0].get("value") if len(objects) == len(args.items) == 1 else None
        step_id = target.value.value if target is not None and isinstance(target.value, Scalar) else None
        match = _TARGET.fullmatch(str(step_id).strip()) if isinstance(step_id, str | int | float) else None
        if match is None:
            raise self._wrong(f"{id_} should name the step that it goes to, such as S4", args, "GRM010", id_)
        return Goto(f"S{int(match[1])}", args.span)

    def _argument(
        self, node: Node, schemas: Mapping[str, Mapping[str, Any]], seen: Collection[str], id_: str
    ) -> tuple[str, Value]:
        given = {entry.key: entry.value for entry in node.entries} if isinstance(node, Object) else {}
        name = given.get("name")
        if set(given) not in ({"name", "value"}, {"name", "ref"}) or not isinstance(name, Scalar):
            message = f"an argument of {id_} should have a name, and a value or a ref"
            raise self._wrong(message, node, "GRM002", id_)
        key = str(name.value)
        if "ref" in given:
            return key, self._reference(given["ref"], id_)
        return key, self._value(self._of_kind(given["value"], schemas.get(key, {})), seen)

    def _of_kind(self, node: Node, schema: Mapping[str, Any]) -> Node:
        """The node; a string is parsed as JSON if the schema requires a list or an object."""
        wanted = kinds(schema)
        if not isinstance(node, Scalar) or not isinstance(node.value, str):
            return node
        if "string" in wanted or not {"array", "object"} & {*wanted}:
            return node
        try:
            return _at(read_json(node.value, Report()), node.span)
        except Unreadable:
            return node

    def _reference(self, node: Node, id_: str) -> Ref:
        text = node.value if isinstance(node, Scalar) else None
        match = _REFERENCE.fullmatch(text.strip()) if isinstance(text, str) else None
        if match is None:
            message = f"a reference of {id_} should be a variable with a path into it, such as v1.items.0"
            raise self._wrong(message, node, "GRM002", id_)
        return Ref(match[1], path_of(match.string, *match.span(2)), node.span)

    def _value(self, node: Node, seen: Collection[str]) -> Value:
        match node:
            case Scalar(value=str(text), span=span):
                return _filled(text, seen, span)
            case Scalar(value=value, span=span):
                return Literal(value, span)
            case Items(items=items, span=span):
                return ListExpr(tuple(self._value(item, seen) for item in items), span)
            case Object(entries=entries, span=span):
                return DictExpr(tuple((e.key, self._value(e.value, seen)) for e in entries), span)


def _filled(text: str, seen: Collection[str], span: Span) -> Value:
    """A string with its references to variables in `seen`; every other `$` is literal."""
    parts: list[str | Ref] = []
    at = 0
    for match in _WITHIN.finditer(text):
        name, path = (1, 2) if match[1] is not None else (3, 4)
        if match[name] in seen:
            parts += [text[at : match.start()], Ref(match[name], path_of(text, *match.span(path)), span)]
            at = match.end()
    return template([*parts, text[at:]], span)


def _at(node: Node, span: Span) -> Node:
    """The node with all spans replaced by that of the string that it was parsed from."""
    match node:
        case Scalar():
            return replace(node, span=span)
        case Items(items=items):
            return Items([_at(item, span) for item in items], span)
        case Object(entries=entries):
            return Object([e._replace(key_span=span, value=_at(e.value, span)) for e in entries], span)
