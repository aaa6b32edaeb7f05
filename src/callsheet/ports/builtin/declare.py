"""Helpers to declare a built-in tool, to read its arguments with clear errors, and to run it in a thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from callsheet.ir import Effect, executor_name
from callsheet.ports.calls import ToolFailed
from callsheet.ports.tools import Handler, Tool, ToolSpec

_T = TypeVar("_T")


async def in_thread(function: Callable[..., _T], *arguments: object) -> _T:
    """The result of `function(*arguments)`, run in a thread so that the event loop is not blocked."""
    import asyncio  # noqa: PLC0415 - declarations are read where nothing runs; asyncio costs them double

    return await asyncio.to_thread(function, *arguments)


TEXT: dict[str, Any] = {"type": "string"}
"""The JSON schema of a string argument."""


def declare(
    name: str,
    description: str,
    properties: Mapping[str, Any],
    handler: Handler,
    *,
    effect: Effect,
    required: Sequence[str] | None = None,
    result: Mapping[str, Any] | None = None,
) -> Tool:
    """A built-in tool; all properties are required unless `required` says which; no others are accepted.

    `result` is the schema of its results, if they are always of one type.
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
        is_declared=True,
        result=result or {},
    )
    return Tool(spec, handler)


def text_argument(arguments: Mapping[str, Any], name: str, default: str | None = None) -> str:
    """A string argument; raises ToolFailed if it is missing without a default, or is not text.

    Numbers are accepted and converted.
    """
    value = arguments.get(name)
    if value is None:
        if default is None:
            raise ToolFailed(f"the argument {name} is missing")
        return default
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise ToolFailed(f"the argument {name} must be text, not {type(value).__name__}")
    return str(value)


def number_argument(arguments: Mapping[str, Any], name: str, default: float) -> float:
    """A numeric argument, also given as a string; raises ToolFailed if it is not a number."""
    value = arguments.get(name, default)
    try:
        if isinstance(value, (str, int, float)) and not isinstance(value, bool):
            return float(value)
    except (ValueError, OverflowError):
        pass
    raise ToolFailed(f"the argument {name} must be a number")
