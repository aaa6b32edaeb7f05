"""The goals and catalogues of this folder's data files, read once.

`goals.jsonl` has one goal per line: its kind, its catalogue, the tools that a plan for it calls in order, and
the plans that reach it. In these plans `…` stands for any text, and `any_order` names steps that may swap
places. `tools.jsonl` declares the tools; `catalogues.json` lists the tools of each catalogue. `further/` and
`held_out/` have the same three files with other tools. The compiler is tuned on the goals of this folder and
of `further/`, and never on those of `held_out/`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from callsheet.ir import canonical_tool_name
from callsheet.passes import ToolSignature

HERE = Path(__file__).parent
_FURTHER = HERE / "further"
_HELD_OUT = HERE / "held_out"


@dataclass(frozen=True, slots=True)
class ToolText:
    """A tool as its server declares it."""

    name: str
    description: str
    parameters: Mapping[str, Any]

    @property
    def signature(self) -> ToolSignature:
        return ToolSignature.from_schema(self.parameters)

    @property
    def line(self) -> str:
        """The tool in one line, as prompts show it: optional arguments with a question mark.

        >>> tools_of("files-5")[0].line
        '@read_file (path) - Read a text file. Gives its content.'
        """
        required = self.parameters.get("required", [])
        names = (n if n in required else f"{n}?" for n in self.parameters["properties"])
        return f"@{self.name} ({', '.join(names)}) - {self.description}"


@dataclass(frozen=True, slots=True)
class Gold:
    """A plan that reaches a goal; the steps of `any_order` may swap places."""

    text: str
    any_order: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Goal:
    """A goal, and the plans that it is scored by."""

    id: str
    kind: str
    catalogue: str
    goal: str
    expected: tuple[str, ...]
    plans: tuple[Gold, ...]

    @property
    def tools(self) -> tuple[ToolText, ...]:
        return tools_of(self.catalogue)


@cache
def goals() -> tuple[Goal, ...]:
    """Every goal, those of one catalogue next to each other."""
    return _goals_in(HERE)


@cache
def further() -> tuple[Goal, ...]:
    """Thirty more with tools of two other domains, a fleet of vehicles and a library."""
    return _goals_in(_FURTHER)


@cache
def held_out() -> tuple[Goal, ...]:
    """Goals of other domains with other tools, on which nothing is tuned."""
    return _goals_in(_HELD_OUT)


def _goals_in(folder: Path) -> tuple[Goal, ...]:
    lines = (folder / "goals.jsonl").read_text(encoding="utf-8").splitlines()
    return tuple(_goal(json.loads(line)) for line in lines)


def _goal(data: dict[str, Any]) -> Goal:
    plans = tuple(Gold(p["text"], tuple(p.get("any_order", ()))) for p in data["plans"])
    return Goal(data["id"], data["kind"], data["catalogue"], data["goal"], tuple(data["expected"]), plans)


@cache
def tools_of(catalogue: str) -> tuple[ToolText, ...]:
    """The tools of a catalogue, in its order."""
    folder, names = _catalogues()[catalogue]
    declared = {
        tool["name"]: ToolText(tool["name"], tool["description"], tool["parameters"])
        for tool in map(json.loads, (folder / "tools.jsonl").read_text(encoding="utf-8").splitlines())
    }
    return tuple(declared[name] for name in names)


@cache
def _catalogues() -> dict[str, tuple[Path, list[str]]]:
    """Every catalogue's folder, and the names of its tools."""
    return {
        name: (folder, names)
        for folder in (HERE, _FURTHER, _HELD_OUT)
        for name, names in json.loads((folder / "catalogues.json").read_text(encoding="utf-8")).items()
    }


@cache
def signatures_of(catalogue: str) -> Mapping[str, ToolSignature]:
    """The tools of a catalogue as the checks know them, by canonical name."""
    return {canonical_tool_name(tool.name): tool.signature for tool in tools_of(catalogue)}
