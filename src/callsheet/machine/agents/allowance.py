"""The permissions of an agent: its tools, and its limits on turns and calls."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from callsheet.ir import JSON, Call, ListExpr, Literal, canonical_tool_name

if TYPE_CHECKING:
    from callsheet.policy.constraints import Arguments

DEFAULT_TURNS = 10
MAX_TURNS = 100
MAX_AT_ONCE = 16
MAX_ROUNDS = 20
"""How often a model may be asked for one refinement, critique or consensus."""
OWN_ARGUMENTS = frozenset({"tools", "max_turns", "max_calls", "parallel"})
"""The named arguments that say what an agent may do; they are not passed to its model."""


_FREE: Arguments = MappingProxyType({})


class Allowance(NamedTuple):
    """What one agent may do, whatever its model says.

    `tools` are canonical names; `turns` limits how often the model is asked, `calls` how many calls it makes
    in all (None: only limited by its turns) and `at_once` how many in one turn. `fault` says what is wrong
    with the step's arguments, if anything; its question then fails without asking the model. `arguments` are
    the patterns that a policy sets for the arguments of its calls. With `is_session` a client outside makes
    the calls: as many as it likes, at any time, and a call that is refused ends nothing else.
    """

    tools: tuple[str, ...] = ()
    turns: int = DEFAULT_TURNS
    calls: int | None = None
    at_once: int = 1
    fault: str = ""
    arguments: "Arguments" = _FREE  # noqa: UP037 - compiled code would read an unquoted type
    is_session: bool = False


def read_allowance(tools: tuple[str, ...], args: Mapping[str, JSON]) -> Allowance:
    """What the arguments of a step allow its agent.

    >>> read_allowance(("SEARCH",), {"max_turns": 4})[:5]
    (('SEARCH',), 4, None, 1, '')
    >>> read_allowance((), {"max_turns": "many"}).fault
    'max_turns must be a whole number from 1 to 100'
    """
    bounds = {"max_turns": (1, MAX_TURNS), "max_calls": (0, None), "parallel": (1, MAX_AT_ONCE)}
    read: dict[str, int] = {}
    for name, (least, most) in bounds.items():
        if args.get(name) is None:
            continue
        number = _whole_number(args[name])
        if number is None or number < least or (most is not None and number > most):
            reach = f"of at least {least}" if most is None else f"from {least} to {most}"
            return Allowance(fault=f"{name} must be a whole number {reach}")
        read[name] = number
    return Allowance(
        tools, read.get("max_turns", DEFAULT_TURNS), read.get("max_calls"), read.get("parallel", 1)
    )


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
