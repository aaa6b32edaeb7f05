"""The tools that plans can call and the servers they come from, as a JSON object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypedDict

from callsheet.apps.operations.schema import Count, DiagnosticRow, Object, diagnostic_rows
from callsheet.views.stubs import signature_line

if TYPE_CHECKING:
    from callsheet.apps.toolbox import Toolbox
    from callsheet.ports.tools import ToolSpec


class ToolRow(TypedDict):
    """A tool that plans can call."""

    name: str
    executor: str
    origin: str
    effect: str
    description: str
    signature: Annotated[str, "how a plan in Python calls it, with types"]
    arguments: list[str]
    parameters: Object
    result: Annotated[Object, "the JSON Schema of its results; empty if none is declared"]
    effect_source: Annotated[str, "who says its effect; empty for callsheet and authors of functions"]
    independence: Annotated[str, "what is declared of the order of its calls in loops; empty for nothing"]
    hint: Annotated[str | None, "the effect that its server claims"]
    pin: str | None
    refusal: str | None


class ServerRow(TypedDict):
    """A server that offers tools."""

    name: str
    protocol: str | None
    tools: Count


class ToolList(TypedDict):
    """The tools that plans can call, and the servers they come from."""

    tools: list[ToolRow]
    servers: list[ServerRow]
    configs: list[str]
    diagnostics: list[DiagnosticRow]


def specs_of(toolbox: Toolbox) -> dict[str, ToolSpec]:
    """The declarations by the names under which plans call them."""
    return {name: tool.spec for name, tool in zip(toolbox.registry.names(), toolbox.registry, strict=True)}


def first_line(spec: ToolSpec) -> str:
    """The first line of a tool's description."""
    return spec.description.strip().partition("\n")[0]


def tools_json(toolbox: Toolbox) -> ToolList:
    """The tools, the servers and the diagnostics about them, as data."""
    return {
        "tools": [
            {
                "name": name,
                "executor": spec.executor,
                "origin": spec.origin,
                "effect": str(spec.effect),
                "description": first_line(spec),
                "signature": signature_line(name, spec),
                "arguments": list(spec.parameter_names),
                "parameters": dict(spec.parameters),
                "result": dict(spec.result),
                "effect_source": spec.effect_source,
                "independence": str(spec.independence),
                "hint": None if spec.hint is None else str(spec.hint),
                "pin": spec.pin,
                "refusal": None if spec.refusal is None else spec.refusal.code,
            }
            for name, spec in specs_of(toolbox).items()
        ],
        "servers": [{"name": s.name, "protocol": s.protocol, "tools": s.tools} for s in toolbox.servers],
        "configs": [str(path) for path in toolbox.configs],
        "diagnostics": diagnostic_rows(toolbox.diagnostics),
    }
