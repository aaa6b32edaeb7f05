"""What of a server's list of tools the protocol takes: one tool that it does not take spoils no other.

In: a received message, the protocol's version. Out: the message without such tools, and why each is left out.
"""

from __future__ import annotations

from typing import Any, cast

from callsheet.ports.mcp.failures import because

_LIST = "tools/list"
_MOST_NAMED = 80


def usable_tools(message: Any, version: str) -> tuple[Any, dict[str, str]]:
    """A message, a list of tools without those that are not of the protocol; these with what is wrong."""
    result: Any = getattr(message, "result", None)
    if not isinstance(result, dict) or "content" in result:
        return message, {}
    given = cast("dict[str, Any]", result)
    tools: Any = given.get("tools")
    if not isinstance(tools, list) or _fault(given, version) is None:
        return message, {}
    kept: list[Any] = []
    left_out: dict[str, str] = {}
    for number, tool in enumerate(cast("list[Any]", tools), 1):
        fault = _fault({**given, "tools": [tool]}, version)
        if fault is None:
            kept.append(tool)
        else:
            name: Any = cast("dict[str, Any]", tool).get("name") if isinstance(tool, dict) else None
            shown = str(name)[:_MOST_NAMED] if name else f"number {number}"
            left_out[shown] = fault.removeprefix("tools.0").lstrip(".: ")
    return message.model_copy(update={"result": {**given, "tools": kept}}), left_out


def _fault(result: dict[str, Any], version: str) -> str | None:
    """What is wrong with a list of tools; None if nothing is."""
    from mcp_types.methods import parse_server_result  # noqa: PLC0415 - a session is open

    try:
        parse_server_result(_LIST, version, result)
    except KeyError:
        return None
    except ValueError as error:
        return because(error)
    return None
