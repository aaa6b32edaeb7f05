"""The operator's approval rules: which tools need an approval before each call, and how long to wait for it.

In: the tool names and times that an operator gives. Out: whether a tool is covered, and the seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from callsheet.diagnostics import CallsheetError
from callsheet.diagnostics.wrong_type import wanted_names
from callsheet.ir import canonical_tool_name, executor_name
from callsheet.ir.operations import pattern_fault
from callsheet.machine.questions import MAX_TIMEOUT, read_duration

ApprovalTimeout: TypeAlias = "float | str | Mapping[str, float | str]"
"""How long a call waits for an approval: seconds or a text such as `3d`, or these by tool ("" for others)."""


def approval_rules(names: Iterable[str]) -> tuple[str, ...]:
    """The canonical names of tools whose calls need approval, each once.

    Raises CallsheetError (RUN034) for a pattern, which would silently cover nothing.
    """
    rules = tuple(names)
    for name in rules:
        fault = pattern_fault(name)
        if fault is not None:
            raise CallsheetError.single("RUN034", fault, help="`callsheet tools` lists them")
    return tuple(dict.fromkeys(map(canonical_tool_name, rules)))


def covers(rules: Iterable[str], tool: str) -> bool:
    """Whether one of the rules names this tool, under any of its names.

    A name without a server stands for the tool on every server, and a tool that is called without a server
    may be that of any server.

    >>> covers(["SEND"], "MAIL__SEND"), covers(["MAIL__SEND"], "SEND"), covers(["MAIL__SEND"], "X__SEND")
    (True, True, False)
    >>> covers(["EXEC_CODE"], "SHELL_EXEC")
    True
    """
    return any(_is_same(rule, tool) for rule in rules)


def timeout_of(timeouts: Mapping[str, float], tool: str) -> float | None:
    """The seconds to wait for an approval of this tool's calls, the shortest that applies; None: for ever.

    >>> timeout_of({"": 60.0, "SEND": 5.0}, "MAIL__SEND"), timeout_of({"": 60.0}, "PAY")
    (5.0, 60.0)
    """
    named = [seconds for rule, seconds in timeouts.items() if rule and _is_same(rule, tool)]
    return min(named) if named else timeouts.get("")


def _is_same(rule: str, tool: str) -> bool:
    if executor_name(rule) == executor_name(tool):
        return True
    if ("__" in rule) == ("__" in tool):
        return False
    return rule.endswith(f"__{tool}") or tool.endswith(f"__{rule}")


def approval_timeouts(given: ApprovalTimeout | None) -> dict[str, float]:
    """The seconds to wait for an approval, by tool ("" for all others).

    Raises ValueError for a time that is invalid, not positive, or longer than a year.

    >>> approval_timeouts("3d"), approval_timeouts({"send mail": 60, "": "1h"})
    ({'': 259200.0}, {'SEND_MAIL': 60.0, '': 3600.0})
    """
    if given is None:
        return {}
    by_tool: Mapping[str, float | str] = (
        wanted_names("approval_timeout", given) if isinstance(given, Mapping) else {"": given}
    )
    timeouts: dict[str, float] = {}
    for tool, limit in by_tool.items():
        fault = pattern_fault(tool)
        if fault is not None:
            raise ValueError(fault)
        seconds = read_duration(limit)
        if seconds is None or not 0 < seconds <= MAX_TIMEOUT:
            message = 'seconds or a text such as "45m", "12h" or "3d", at most a year'
            raise ValueError(f"the time for an approval must be {message}, and not {limit!r}")
        timeouts[canonical_tool_name(tool) if tool else ""] = seconds
    return timeouts
