"""The tools that plans can call and the servers they come from, as a JSON object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from callsheet.diagnostics import to_json

if TYPE_CHECKING:
    from callsheet.apps.toolbox import Toolbox
    from callsheet.ports.tools import ToolSpec


def specs_of(toolbox: Toolbox) -> dict[str, ToolSpec]:
    """The declarations by the names under which plans call them."""
    return {name: tool.spec for name, tool in zip(toolbox.registry.names(), toolbox.registry, strict=True)}


def first_line(spec: ToolSpec) -> str:
    """The first line of a tool's description."""
    return spec.description.strip().partition("\n")[0]


def tools_json(toolbox: Toolbox) -> dict[str, Any]:
    """The tools, the servers and the diagnostics about them, as data."""
    return {
        "tools": [
            {
                "name": name,
                "executor": spec.executor,
                "origin": spec.origin,
                "effect": str(spec.effect),
                "description": first_line(spec),
                "arguments": list(spec.parameter_names),
                "parameters": dict(spec.parameters),
                "pin": spec.pin,
                "refusal": None if spec.refusal is None else spec.refusal.code,
            }
            for name, spec in specs_of(toolbox).items()
        ],
        "servers": [{"name": s.name, "protocol": s.protocol, "tools": s.tools} for s in toolbox.servers],
        "configs": [str(path) for path in toolbox.configs],
        "diagnostics": to_json(toolbox.diagnostics),
    }
