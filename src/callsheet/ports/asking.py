"""`@ASK_HUMAN` as a tool: its declaration, and what is wrong with arguments that cannot be asked.

A question that can be asked never comes here: the run waits for a person. What comes are the
arguments of one that cannot, and the answer is a failure that says why.
"""

from __future__ import annotations

from typing import Any

from callsheet.ir import JSON, Effect, executor_name
from callsheet.machine.questions import ASK, read_question, wrong_argument
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.ports.tools import Tool, ToolSpec

ORIGIN = "people"
"""Where the operation comes from, as its declaration says."""
_PARAMETERS: dict[str, Any] = {
    "prompt": {"description": "what the person is asked"},
    "options": {"type": "array", "description": "the only answers there are"},
    "schema": {"type": "object", "description": "JSON schema of the answer"},
    "timeout": {
        "type": ["string", "number"],
        "description": "how long to wait: seconds, or a text such as 45m, 12h, 3d; default: for ever",
    },
    "default": {"description": "the answer when the time is over; without it the step fails"},
}


def asking_tool() -> Tool:
    """`@ASK_HUMAN`; it only reads, so the items of a FOREACH are asked side by side."""
    spec = ToolSpec(
        name=ASK,
        executor=executor_name(ASK),
        description="Ask a person and wait for the answer, for days if need be.",
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


def check_literal(name: str, said: JSON) -> str | None:
    """What is wrong with a literal argument, as the checks of a plan ask; None if nothing is."""
    return wrong_argument(name, said)
