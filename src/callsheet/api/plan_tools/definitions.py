"""The definitions of the plan tools: names, argument schemas, and descriptions for the model."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, NamedTuple


class _Definition(NamedTuple):
    description: str
    properties: dict[str, Any]
    required: list[str]
    runs: bool


_GOAL = {
    "type": "string",
    "minLength": 1,
    "description": "The goal, with every name, path and number that the steps need.",
}
_VARIABLES = {
    "type": "object",
    "description": "Variables of the plan by name; they override its own values.",
}
_DEFINITIONS = {
    "plan_create": _Definition(
        "Create a plan for a goal that takes several coordinated tool calls: a graph of steps, saved under "
        "an id. Nothing is run. Returns the plan's id and its steps.",
        {"goal": _GOAL},
        ["goal"],
        False,
    ),
    "plan_execute": _Definition(
        "Run a plan that was created before, by its id. Steps that do not depend on one another run "
        "concurrently. Returns the outcome and the result of each step.",
        {
            "plan_id": {"type": "string", "description": "The id that plan_create returned."},
            "variables": _VARIABLES,
        },
        ["plan_id"],
        True,
    ),
    "plan_create_and_execute": _Definition(
        "Create a plan for a goal that takes several coordinated tool calls, and run it. For a single "
        "call, use the tool itself. Returns the outcome and the result of each step.",
        {"goal": _GOAL, "variables": _VARIABLES},
        ["goal"],
        True,
    ),
}
NAMES = tuple(_DEFINITIONS)
"""The names of the plan tools."""


def schema_of(name: str) -> dict[str, Any]:
    """The JSON schema of a tool's arguments."""
    definition = _DEFINITIONS[name]
    return deepcopy(
        {
            "type": "object",
            "properties": definition.properties,
            "required": definition.required,
            "additionalProperties": False,
        }
    )


def description_of(name: str) -> str:
    """The description of a tool for the model."""
    return _DEFINITIONS[name].description


def openai_tools() -> list[dict[str, Any]]:
    """The definitions in OpenAI's form.

    >>> [(tool["function"]["name"], tool["function"]["parameters"]["required"]) for tool in openai_tools()]
    [('plan_create', ['goal']), ('plan_execute', ['plan_id']), ('plan_create_and_execute', ['goal'])]
    """
    return [
        {
            "type": "function",
            "function": {"name": name, "description": found.description, "parameters": schema_of(name)},
        }
        for name, found in _DEFINITIONS.items()
    ]


def mcp_tools() -> list[dict[str, Any]]:
    """The definitions in the form of MCP's `tools/list`."""
    return [
        {
            "name": name,
            "description": found.description,
            "inputSchema": schema_of(name),
            "annotations": {
                "readOnlyHint": False,
                "destructiveHint": found.runs,
                "idempotentHint": False,
                "openWorldHint": found.runs,
            },
        }
        for name, found in _DEFINITIONS.items()
    ]
