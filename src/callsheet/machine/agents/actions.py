"""The actions that an agent may ask for, and the messages of its conversation."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple, TypeAlias, cast

from callsheet.ir import JSON, canonical_tool_name
from callsheet.machine.values import parse_json

_LONGEST_NAME = 200


class Action(NamedTuple):
    """One call that an answer asks for, by the canonical name of its tool."""

    tool: str
    args: dict[str, Any]


class Finish(NamedTuple):
    """The agent is done: this is the value of its step."""

    value: JSON


class Unreadable(NamedTuple):
    """The answer is no action; `why` says so to the model."""

    why: str


Decided: TypeAlias = "tuple[Action, ...] | Finish | Unreadable"


def read_action(answer: JSON, at_once: int = 1) -> Decided:
    """What an answer asks for, with at most so many calls in one turn.

    >>> read_action('{"thought": "look", "tool": "web_search", "args": {"query": "x"}}')
    (Action(tool='WEB_SEARCH', args={'query': 'x'}),)
    >>> read_action({"finish": 42})
    Finish(value=42)
    >>> read_action("I would search.")
    Unreadable(why='it is not a JSON object')
    """
    parsed: Any = answer
    if isinstance(parsed, str):
        _, parsed = parse_json(parsed.strip())
    if not isinstance(parsed, dict):
        return Unreadable("it is not a JSON object")
    fields = cast("dict[str, Any]", parsed)
    asked = [name for name in ("tool", "calls") if fields.get(name) is not None]
    if "finish" in fields and not asked:
        return Finish(fields["finish"])
    if fields.get("finish") is not None or len(asked) > 1:
        return Unreadable("it asks for more than one thing: it cannot call and finish at once")
    if not asked:
        return Unreadable("it has neither `tool` nor `finish`")
    given: Any = [fields] if asked == ["tool"] else fields["calls"]
    if not isinstance(given, list) or not given:
        return Unreadable("`calls` must be a list of calls")
    calls = cast("list[Any]", given)
    if len(calls) > at_once:
        return Unreadable(f"it asks for {len(calls)} calls; one turn may have {at_once}")
    actions: list[Action] = []
    for item in calls:
        action = _read_call(item)
        if isinstance(action, Unreadable):
            return action
        actions.append(action)
    return tuple(actions)


def _read_call(item: Any) -> Action | Unreadable:
    if not isinstance(item, dict):
        return Unreadable("a call must be an object with `tool` and `args`")
    call = cast("dict[str, Any]", item)
    tool, args = call.get("tool"), call.get("args")
    if not isinstance(tool, str) or not tool.strip() or len(tool) > _LONGEST_NAME:
        return Unreadable("`tool` must be the name of a tool")
    if isinstance(args, str):
        _, args = parse_json(args)
    if args is None and call.get("args") is None:
        args = {}
    if not isinstance(args, dict):
        return Unreadable("`args` must be an object with the arguments by name")
    return Action(canonical_tool_name(tool.strip()), cast("dict[str, Any]", args))


class CallOutcome(StrEnum):
    """The outcome of a call that an answer asked for."""

    OK = "ok"
    FAILED = "failed"
    LOST = "lost"
    """It failed but may have had its effect: the same call again is another delivery of it."""
    REFUSED = "refused"
    """It was not made, because it is not allowed or a person denied it."""


class ObservedCall(NamedTuple):
    """A call that an answer asked for, and what the model sees of it: the result, or why there is none.

    `key` is that of the call, or of its first delivery; "" if no call was made.
    """

    tool: str
    args: Mapping[str, JSON]
    value: JSON
    outcome: CallOutcome = CallOutcome.OK
    key: str = ""


class Turn(NamedTuple):
    """One turn: the model's answer, and what it led to; `fault` says why it was no action."""

    answer: JSON
    seen: tuple[ObservedCall, ...] = ()
    fault: str = ""
