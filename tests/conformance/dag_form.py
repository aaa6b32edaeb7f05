"""The form of a case of the area `dag`: a plan, scripted tools, how it is run, what is expected."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.conformance.form import BadCase

from callsheet.ir import canonical_tool_name

MODES = ("run", "dry_run", "render", "stages", "plan_tool", "tool_schemas", "save_load")
_NEEDED = ("id", "area", "plan", "run", "expect")


@dataclass(frozen=True, slots=True)
class DagCase:
    """One case. `run` and `expect` stay dicts: those that carry out a mode know their keys."""

    id: str
    area: str
    plan: Any
    run: Mapping[str, Any]
    expect: Mapping[str, Any]
    tools: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def mode(self) -> str:
        """How the plan is used."""
        return self.run.get("mode", "run")

    @property
    def inputs(self) -> dict[str, Any]:
        """The inputs of the run, over all its stages."""
        given = dict(self.run.get("variables") or {})
        for stage in self.run.get("stages", ()):
            given.update(stage.get("variables") or {})
        return given

    @property
    def catalogue(self) -> frozenset[str] | None:
        """The available tools; None if every tool that is called exists."""
        return frozenset(self.tools) if self.run.get("catalog") == "strict" else None


def spellings(steps: Iterable[Any], tools: Iterable[str] = ()) -> dict[str, str]:
    """What a case calls the tools of steps, by their one name: as its scripts do, else as the plan does.

    >>> spellings([{"tool": "READ"}, {"tool_calls": [{"name": "b", "args": {}}]}], ["read"])
    {'READ': 'read', 'B': 'b'}
    """
    called = [name for step in steps for name in _called(step)]
    return {canonical_tool_name(name): name for name in (*called, *tools)}


def script_of(case: DagCase, tool: str, call: int) -> Mapping[str, Any]:
    """The script entry for one call of a tool, counted from 1; the last entry of a script repeats."""
    script = case.tools.get(tool, {})
    entries = script.get("script")
    return entries[min(call, len(entries)) - 1] if entries else script


def said_of(script: Mapping[str, Any], word: str) -> str:
    """The text of a scripted failure; that of an exception may be in a `message`, next to its name."""
    return ": ".join(str(script[key]) for key in (word, "message") if key in script)


def _called(step: Any) -> Iterator[str]:
    """The tool of a step, in either position where a plan may name it."""
    for entry in (step, *(step.get("tool_calls") or ())):
        name = entry.get("tool", entry.get("name")) if isinstance(entry, dict) else None
        if isinstance(name, str):
            yield name


def read_dag_cases(path: Path) -> list[DagCase]:
    """All cases of a file; raises BadCase, or OSError for a file that cannot be read."""
    cases: list[DagCase] = []
    for number, line in enumerate(path.read_text("utf-8").split("\n"), 1):
        if line.strip():
            try:
                cases.append(dag_case_of(json.loads(line)))
            except (ValueError, BadCase) as error:
                raise BadCase(f"{path}, line {number}: {error}") from None
    return cases


def dag_case_of(data: Any) -> DagCase:
    """The case that an object of the file describes."""
    if not isinstance(data, dict):
        raise BadCase("a case is a JSON object")
    missing = [name for name in _NEEDED if name not in data]
    if missing:
        raise BadCase(f"a case has {', '.join(missing)}")
    mode = data["run"].get("mode", "run")
    if mode not in MODES:
        raise BadCase(f"case {data['id']} is of mode {mode!r}; the modes are {', '.join(MODES)}")
    known = {name: data[name] for name in DagCase.__dataclass_fields__ if name in data}
    return DagCase(**known)
