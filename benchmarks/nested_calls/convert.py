"""Converts a gold sequence of calls to a plan: one step per call, and the last result as the answer.

In: rows of a JSON Lines file, with the catalogue beside it. Out: rows, and the plan of each.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from callsheet.frontends.export import ToolShape
from callsheet.ir import (
    Call,
    DictExpr,
    ListExpr,
    Literal,
    Output,
    PathPart,
    Plan,
    Ref,
    Respond,
    Step,
    Value,
    canonical_tool_name,
)
from callsheet.ir.expr import template

_REFERENCE = re.compile(r"\$([A-Za-z_]\w*)((?:[.\[][^$]*)?)\$")
_PART = re.compile(r"\[(\d+)\]|\.?([^.\[\]]+)")


@dataclass(frozen=True, slots=True)
class GoldCall:
    """One call: a tool, its arguments, in which `$label.field$` refers to a result, and its own label."""

    tool: str
    args: Mapping[str, Any]
    label: str

    @property
    def reads(self) -> frozenset[str]:
        """The labels whose results it takes."""
        return frozenset(match[1] for match in _REFERENCE.finditer(json.dumps(self.args)))


@dataclass(frozen=True, slots=True)
class Row:
    """A goal, its tools, the gold calls, and the answer if the calls can be run."""

    id: str
    goal: str
    tools: tuple[Mapping[str, Any], ...]
    calls: tuple[GoldCall, ...]
    answer: float | None
    is_executable: bool

    def shapes(self) -> list[ToolShape]:
        """The tools, and the called ones that are missing among them."""
        known = {canonical_tool_name(tool["name"]): tool for tool in self.tools}
        shapes = [ToolShape(tool["name"], tool.get("input_schema", {})) for tool in known.values()]
        missing = dict.fromkeys(c.tool for c in self.calls if canonical_tool_name(c.tool) not in known)
        return [*shapes, *(ToolShape(name, {}) for name in missing)]


@dataclass(frozen=True, slots=True)
class BadRow:
    """A line that is no row, and why."""

    id: str
    why: str


def rows_of(path: Path) -> list[Row | BadRow]:
    """The rows of a file; tools that are told by name alone stand in `nested_calls_catalogue.json` beside it.

    A line of another shape is a `BadRow`. Raises OSError for files that cannot be read.
    """
    beside = path.with_name("nested_calls_catalogue.json")
    catalogue: dict[str, Any] = json.loads(beside.read_text(encoding="utf-8")) if beside.exists() else {}
    known = {name: tool for group in catalogue.values() for name, tool in group.items()}
    lines = path.read_text(encoding="utf-8").splitlines()
    return [_row_of(number, line, known) for number, line in enumerate(lines, 1) if line.strip()]


def _row_of(number: int, line: str, known: Mapping[str, Any]) -> Row | BadRow:
    try:
        return _row(json.loads(line), known)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        return BadRow(f"line {number}", f"it is no row: {type(error).__name__}: {error}")


def _row(said: Mapping[str, Any], known: Mapping[str, Any]) -> Row:
    tools = (known.get(tool, {"name": tool}) if isinstance(tool, str) else tool for tool in said["tools"])
    calls = tuple(GoldCall(call["tool"], call["args"], call["label"]) for call in said["calls"])
    is_executable = said["run"] == "nestful_functions"
    answer = said["gold_answer"]
    return Row(
        said["id"], said["goal"], tuple(tools), calls, answer if is_executable else None, is_executable
    )


def plan_of(row: Row) -> Plan:
    """The plan that makes the calls of a row in order and answers with the last result."""
    steps = [
        Step(
            f"S{number}",
            Call(canonical_tool_name(call.tool), (), tuple((k, value_of(v)) for k, v in call.args.items())),
            output=Output(call.label),
        )
        for number, call in enumerate(row.calls, 1)
    ]
    path: tuple[PathPart, ...] = ("result",) if row.is_executable else ()
    steps.append(Step(f"S{len(steps) + 1}", Respond((Ref(row.calls[-1].label, path),))))
    return Plan(tuple(steps), goal=row.goal)


def value_of(said: object) -> Value:
    """A value of the data: `$label.field$` is a reference, and inside a text an interpolation.

    >>> value_of("2 * $var1.Exchange Rate$")
    Template(parts=('2 * ', Ref(name='var1', path=('Exchange Rate',))))
    """
    match said:
        case str():
            return _text(said)
        case list():
            return ListExpr(tuple(value_of(item) for item in cast("Sequence[object]", said)))
        case dict():
            pairs = cast("Mapping[str, object]", said).items()
            return DictExpr(tuple((key, value_of(item)) for key, item in pairs))
        case bool() | int() | float() | None:
            return Literal(said)
        case _:
            raise ValueError(f"{said!r} is no value of JSON")


def _text(said: str) -> Value:
    parts: list[str | Ref] = []
    at = 0
    for match in _REFERENCE.finditer(said):
        parts += [said[at : match.start()], Ref(match[1], tuple(_path(match[2])))]
        at = match.end()
    return template([*parts, said[at:]])


def _path(said: str) -> Iterable[PathPart]:
    for index, name in _PART.findall(said):
        yield int(index) if index or name.isdigit() else name
