"""Corrects arguments that repeat a name: `plate="B 12"` instead of the result of the call given that plate.

Pure. In: a plan and the tools' lines. Out: the plan with such arguments corrected.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from callsheet.ir import Call, Literal, Plan, Ref, Step, Value

_MATERIAL = re.compile(
    r"(?:.*_)?(?:text|content|contents|body|message|data|value|query|prompt|input|description|summary|title"
    r"|subject|code|expression|sql|amount|time|date|context|note|reason|comment|caption)",
    re.IGNORECASE,
)
"""Arguments for content, which a call may well return in another form."""
_GIVES = re.compile(r"\b(?:gives?|returns?|yields?|each with)\b", re.IGNORECASE)


def with_same_names(plan: Plan, lines: Mapping[str, str]) -> Plan:
    """The plan in which a later call gets the same name as an earlier one, under the same argument.

    Small models pass the whole result of the earlier call instead. The argument stays if the earlier tool
    says that it gives such a value, or if only a part of its result is passed.

    >>> from callsheet.frontends.ltp import format_plan, parse
    >>> plan = parse('S1: @BOOK (plate="B 12") > $v1\\nS2: @LOCK (plate=$v1) > $v2').require()
    >>> print(format_plan(with_same_names(plan, {})).splitlines()[3])
    S2: @LOCK (plate="B 12") > $v2
    """
    given: dict[str, dict[str, str]] = {}
    steps: list[Step] = []
    for step in plan.steps:
        call = step.action
        if not isinstance(call, Call):
            steps.append(step)
            continue
        named = tuple((name, _same(name, value, given)) for name, value in call.named)
        steps.append(step if named == call.named else replace(step, action=replace(call, named=named)))
        if step.output is not None:
            line = lines.get(call.tool, "")
            given[step.output.var] = {
                name: value.value
                for name, value in named
                if isinstance(value, Literal)
                and isinstance(value.value, str)
                and not _MATERIAL.fullmatch(name)
                and not _gives(line, name)
            }
    return replace(plan, steps=tuple(steps))


def _same(name: str, value: Value, given: Mapping[str, Mapping[str, str]]) -> Value:
    if not isinstance(value, Ref) or value.path:
        return value
    text = given.get(value.name, {}).get(name)
    return value if text is None else Literal(text, span=value.span)


def _gives(line: str, name: str) -> bool:
    begins = _GIVES.search(line)
    return begins is not None and re.search(rf"\b{re.escape(name)}\b", line[begins.start() :]) is not None
