"""What an agent may do: its tools and limits, the actions that it may ask for, the messages about them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from callsheet.ir import JSON, Call, ListExpr, Literal, canonical_tool_name
from callsheet.lazy import NamedTuple
from callsheet.machine.values import parse_json

if TYPE_CHECKING:
    from callsheet.policy.constraints import Arguments


DEFAULT_TURNS = 10
MAX_TURNS = 100
MAX_AT_ONCE = 16
REFINE = "SELF_REFINE"
IN_ROUNDS = frozenset({REFINE, "AGENT_CRITIQUE", "CONSENSUS"})
"""The operations that take `rounds`; each round is one question and answer."""
MAX_ROUNDS = 20
"""How often a model may be asked for one refinement, critique or consensus."""
OWN_ARGUMENTS = frozenset({"tools", "max_turns", "max_calls", "max_tokens", "max_cost", "parallel"})
"""The named arguments that say what an agent may do; they are not passed to its model."""


_FREE: Arguments = MappingProxyType({})


class Allowance(NamedTuple):
    """What one agent may do, whatever its model says.

    `tools` are canonical names; `turns` limits how often the model is asked, `calls` how many calls it makes
    in all (None: only limited by its turns) and `at_once` how many in one turn. `fault` says what is wrong
    with the step's arguments, if anything; its question then fails without asking the model. `arguments` are
    the patterns that a policy sets for the arguments of its calls. With `is_session` a client outside makes
    the calls: as many as it likes, at any time, and a call that is refused ends nothing else. `tokens` and
    `cost` limit what it spends in all attempts of its call (None: only limited by the run).
    """

    tools: tuple[str, ...] = ()
    turns: int = DEFAULT_TURNS
    calls: int | None = None
    at_once: int = 1
    fault: str = ""
    arguments: "Arguments" = _FREE  # noqa: UP037 - compiled code would read an unquoted type
    is_session: bool = False
    tokens: int | None = None
    cost: float | None = None


def read_allowance(tools: tuple[str, ...], args: Mapping[str, JSON]) -> Allowance:
    """What the arguments of a step allow its agent.

    >>> read_allowance(("SEARCH",), {"max_turns": 4})[:5]
    (('SEARCH',), 4, None, 1, '')
    >>> read_allowance((), {"max_turns": "many"}).fault
    'max_turns must be a whole number from 1 to 100'
    """
    bounds = {
        "max_turns": (1, MAX_TURNS),
        "max_calls": (0, None),
        "max_tokens": (1, None),
        "parallel": (1, MAX_AT_ONCE),
    }
    read: dict[str, int] = {}
    for name, (least, most) in bounds.items():
        if args.get(name) is None:
            continue
        number = _whole_number(args[name])
        if number is None or number < least or (most is not None and number > most):
            reach = f"of at least {least}" if most is None else f"from {least} to {most}"
            return Allowance(fault=f"{name} must be a whole number {reach}")
        read[name] = number
    cost = None if args.get("max_cost") is None else _amount(args["max_cost"])
    if cost is None and args.get("max_cost") is not None:
        return Allowance(fault="max_cost must be a number above 0")
    turns, at_once = read.get("max_turns", DEFAULT_TURNS), read.get("parallel", 1)
    return Allowance(tools, turns, read.get("max_calls"), at_once, tokens=read.get("max_tokens"), cost=cost)


def _amount(value: JSON) -> float | None:
    """The value as an amount above zero, also from a text; None if it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        amount = float(value)
    except (ValueError, OverflowError):
        return None
    return amount if 0 < amount < float("inf") else None


def _whole_number(value: JSON) -> int | None:
    """The value as a whole number, also from a text; None if it is none."""
    if isinstance(value, str) and value.strip().isascii() and value.strip().isdigit() and len(value) < 10:
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1:
        return None
    return int(value)


def names_its_tools(call: Call) -> bool:
    """Whether the step itself says which tools its agent may call."""
    return any(name == "tools" for name, _ in call.named)


def tools_named(call: Call) -> tuple[str, ...] | None:
    """The tools that a step names for its agent, each once; None if they are not literals in the plan.

    Data never chooses a tool, so only a literal text, or a list of these, names any.
    """
    value = next((value for name, value in call.named if name == "tools"), None)
    items = value.items if isinstance(value, ListExpr) else (value,)
    names = [item.value for item in items if isinstance(item, Literal) and isinstance(item.value, str)]
    if len(names) != len(items):
        return None
    return tuple(dict.fromkeys(canonical_tool_name(name.strip()) for name in names))


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
