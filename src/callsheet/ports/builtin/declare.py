"""How a built-in tool is declared, and how its handler reads arguments with clear complaints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from callsheet.ir import Effect, executor_name
from callsheet.ports.calls import ToolFailed
from callsheet.ports.tools import Handler, Tool, ToolSpec

TEXT: dict[str, Any] = {"type": "string"}
"""The schema of a text argument."""


def declare(
    name: str,
    description: str,
    properties: Mapping[str, Any],
    handler: Handler,
    *,
    effect: Effect,
    required: Sequence[str] | None = None,
    timeout: float | None = None,
) -> Tool:
    """A built-in tool; without `required` every property is, and no other is taken.

    A call that takes longer than `timeout` seconds fails; None lets it take as long as it likes.
    """
    parameters = {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties if required is None else required),
        "additionalProperties": False,
    }
    spec = ToolSpec(
        name=name,
        executor=executor_name(name),
        description=description,
        parameters=parameters,
        effect=effect,
        timeout=timeout,
        is_declared=True,
    )
    return Tool(spec, handler)


def text_argument(arguments: Mapping[str, Any], name: str, default: str | None = None) -> str:
    """The text of an argument; raises ToolFailed if it is absent without a default, or no text."""
    value = arguments.get(name)
    if value is None:
        if default is None:
            raise ToolFailed(f"the argument {name} is missing")
        return default
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise ToolFailed(f"the argument {name} must be text, not {type(value).__name__}")
    return str(value)


def number_argument(arguments: Mapping[str, Any], name: str, default: float) -> float:
    """The number of an argument, also where it came as text; raises ToolFailed if it is none."""
    value = arguments.get(name, default)
    try:
        if isinstance(value, (str, int, float)) and not isinstance(value, bool):
            return float(value)
    except (ValueError, OverflowError):
        pass
    raise ToolFailed(f"the argument {name} must be a number")
