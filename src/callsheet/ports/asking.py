"""`@ASK_HUMAN` as a tool: its declaration, and a handler for questions with invalid arguments.

Valid questions never reach the handler: the machine asks the person itself. Calls that do reach it have
invalid arguments and fail with the reason.
"""

from __future__ import annotations

from typing import Any

from callsheet.ir import JSON, Effect, executor_name
from callsheet.machine.questions import ASK, read_question, wrong_argument
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.ports.tools import Tool, ToolSpec

ORIGIN = "people"
"""The origin in the tool's declaration."""
_PARAMETERS: dict[str, Any] = {
    "prompt": {"description": "the question"},
    "options": {"type": "array", "description": "the allowed answers"},
    "schema": {"type": "object", "description": "JSON Schema of the answer"},
    "timeout": {
        "type": ["string", "number"],
        "description": "how long to wait: seconds, or 45m, 12h, 3d; default: no limit",
    },
    "default": {"description": "the answer after the timeout; without it the step fails"},
}


def asking_tool() -> Tool:
    """The tool `@ASK_HUMAN`. Its effect is `read`, so that the items of a FOREACH are asked concurrently."""
    spec = ToolSpec(
        name=ASK,
        executor=executor_name(ASK),
        description="Ask a person and wait for the answer, for days if necessary.",
        parameters={
            "type": "object",
            "properties": _PARAMETERS,
            "required": ["prompt"],
            "additionalProperties": False,
        },
        effect=Effect.READ,
        origin=ORIGIN,
    )
    return Tool(spec, _refuse)


async def _refuse(arguments: dict[str, Any], _context: CallContext) -> JSON:
    read = read_question(arguments)
    raise ToolFailed(read if isinstance(read, str) else "nobody can be asked here")


def check_literal(name: str, literal: JSON) -> str | None:
    """A `LiteralCheck`: what is wrong with a literal argument, or None."""
    return wrong_argument(name, literal)
