"""What a gate shows of the tools behind it: their declarations as they were sent, and stubs of one line.

In: the open toolbox and the declarations of its servers. Out: the tools by the names that the client uses,
and those that fit a query, best first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from callsheet.apps.rendering.values import preview
from callsheet.lazy import deferred
from callsheet.ports.mcp.trust import SeenServer
from callsheet.ports.tools import Registry, ToolSpec

if TYPE_CHECKING:
    from callsheet.authoring.compiler import goal_parts
    from callsheet.authoring.compiler.goal_parts import Fields
    from callsheet.views import stubs
else:
    goal_parts = deferred("callsheet.authoring.compiler.goal_parts")  # only for programs, as the other
    stubs = deferred("callsheet.views.stubs")

_LONGEST = 110
"""The most characters of a description in a stub."""


@dataclass(frozen=True, slots=True)
class GateTool:
    """A tool behind the gate: the client's name for it, the run's name, its declaration as it was sent."""

    name: str
    canonical: str
    spec: ToolSpec
    declaration: Mapping[str, Any]


def tools_behind(
    registry: Registry, seen: Sequence[SeenServer], taken: frozenset[str]
) -> dict[str, GateTool]:
    """The tools of all servers by the names that the client uses.

    That is the server's own name, unless several servers or the gate itself (`taken`) use it: then
    `server__tool`. Tools that are refused by their pins are left out, as everywhere.
    """
    declared = {
        (f"mcp:{server.identity.name}", name): declaration
        for server in seen
        for name, declaration in server.declarations.items()
    }
    found: dict[str, GateTool] = {}
    for canonical, tool in zip(registry.names(), registry, strict=True):
        spec = tool.spec
        declaration = declared.get((spec.origin, spec.executor))
        if declaration is None or spec.refusal is not None:
            continue
        is_unique = canonical == spec.name and spec.executor not in taken
        server = spec.origin.removeprefix("mcp:")
        name = spec.executor if is_unique else f"{server}__{spec.executor}"
        found[name] = GateTool(name, canonical, spec, {**declaration, "name": name})
    return found


def tools_of_programs(
    registry: Registry, seen: Sequence[SeenServer], taken: frozenset[str]
) -> list[GateTool]:
    """All tools that a program may call: those of servers, Python functions, built-in ones."""
    behind = tools_behind(registry, seen, taken)
    known = {tool.canonical for tool in behind.values()}
    others: list[GateTool] = []
    for canonical, tool in zip(registry.names(), registry, strict=True):
        spec = tool.spec
        if canonical in known or spec.refusal is not None:
            continue
        about = {"name": canonical.lower(), "description": spec.description, "inputSchema": spec.parameters}
        others.append(GateTool(canonical.lower(), canonical, spec, about))
    return [*behind.values(), *others]


class ToolIndex:
    """Tools by the words of their names, descriptions and parameters."""

    def __init__(self, tools: Sequence[GateTool]) -> None:
        self.tools = tuple(tools)
        self._words = goal_parts.WordIndex([_fields(tool.spec, tool.name) for tool in tools])

    def found_for(self, query: str, most: int) -> list[GateTool]:
        """The tools that fit a query, best first; all without a word to search for."""
        wanted = [{word: 1.0} for word in dict.fromkeys(goal_parts.words_of(query))]
        if not wanted:
            return [*self.tools[:most]]
        scored = [sum(each) for each in self._words.worths(wanted)]
        ranked = sorted(range(len(scored)), key=lambda place: (-scored[place], place))
        return [self.tools[place] for place in ranked[:most] if scored[place] > 0]


def _fields(spec: ToolSpec, name: str) -> Fields:
    """The texts of a tool with their weights; what is said of parameters is long, and counts little."""
    given = spec.parameters.get("properties")
    shapes = cast("Mapping[str, object]", given).values() if isinstance(given, Mapping) else ()
    about = [str(value) for shape in shapes for value in _said_of(shape)]
    names = " ".join(spec.parameter_names)
    return [(name, 3.0), (spec.description, 1.0), (names, 1.0), (" ".join(about), 0.3)]


def _said_of(shape: object) -> list[object]:
    if not isinstance(shape, Mapping):
        return []
    fields = cast("Mapping[str, object]", shape)
    choices = fields.get("enum")
    return [
        fields.get("description", ""),
        *(cast("list[object]", choices) if isinstance(choices, list) else []),
    ]


def stub_of(tool: GateTool) -> str:
    """A tool as one line of typed Python, as a program calls it, with the effect that its calls have.

    >>> spec = ToolSpec("ADD", "add", "Adds.", {"properties": {"a": {"type": "integer"}}, "required": ["a"]})
    >>> stub_of(GateTool("add", "ADD", spec, {}))
    'async def add(a: int) -> Any  # unsafe: Adds.'
    """
    about = preview(tool.spec.description, _LONGEST)
    line = f"{stubs.signature_line(tool.canonical, tool.spec)}  # {tool.spec.effect}"
    return f"{line}: {about}" if about else line
