"""Names in a plan as its goal spells them: `#team` for `team`, `*.md` for `.md`, `a/b` for `The a/b`.

Pure. In: a plan and its goal. Out: the plan with such texts put right. A text that the goal says as it is
stays, and so does one that stands for nothing in the goal.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from callsheet.ir import Call, ListExpr, Literal, Plan, Step, Value

_NAMED = re.compile(
    r"""
    \#[A-Za-z][\w-]*                                # channels
    | (?<![\w/.*~-])[\w~-]*\*[\w*.-]*               # patterns
    | (?<![\w/.~-])/?[\w~-]+(?:[/.][\w~-]+)+        # paths, files, repositories, versions
    """,
    re.VERBOSE,
)
_AROUND = re.compile(r"\A(?:the\s+|[#*<>=~\s]+)+|[\s;,]+\Z", re.IGNORECASE)
"""What small models leave out of names, or put before them."""


def as_spelled(plan: Plan, goal: str) -> Plan:
    """The plan with names in the arguments of its calls as the goal spells them.

    >>> from callsheet.frontends.ltp import format_plan, parse
    >>> plan = parse('S1: @POST (channel="team", text="hi") > $v1').require()
    >>> print(format_plan(as_spelled(plan, "Post hi to #team")).splitlines()[2])
    S1: @POST (channel="#team", text="hi") > $v1
    """
    spelled: dict[str, str] = {}
    for name in _NAMED.findall(goal):
        spelled.setdefault(_bare(name), name.rstrip("."))
    if not spelled:
        return plan
    return replace(plan, steps=tuple(_step(step, goal, spelled) for step in plan.steps))


def _step(step: Step, goal: str, spelled: Mapping[str, str]) -> Step:
    call = step.action
    if not isinstance(call, Call):
        return step
    named = tuple((name, _value(value, goal, spelled)) for name, value in call.named)
    positional = tuple(_value(value, goal, spelled) for value in call.positional)
    return replace(step, action=replace(call, named=named, positional=positional))


def _value(value: Value, goal: str, spelled: Mapping[str, str]) -> Value:
    match value:
        case Literal(value=str(text)) if not _is_said(text, goal) and _bare(text) in spelled:
            return replace(value, value=spelled[_bare(text)])
        case ListExpr(items=items):
            return replace(value, items=tuple(_value(item, goal, spelled) for item in items))
        case _:
            return value


def _is_said(text: str, goal: str) -> bool:
    """Whether the goal has the text as a word, or words, of its own."""
    return re.search(rf"(?<![\w#*./@-]){re.escape(text)}(?![\w*/@-])", goal) is not None


def _bare(name: str) -> str:
    """A name without marks, as it may be misspelled."""
    return _AROUND.sub("", name).rstrip(".").casefold()
