"""Removes consecutive repetitions of the same calls, which small models produce.

Pure. In: a plan and its goal. Out: the plan with each repeated block once. Calls that are not adjacent
stay, and so does everything if the goal speaks of repeating.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from callsheet.authoring.compiler.naming import renamed
from callsheet.ir import Call, Goto, Plan, Step

_LONGEST_BLOCK = 4
_REPEATING = re.compile(
    r"\b(?:twice|thrice|again|times|repeat\w*|once more|before and after|until)\b|\b\d+ ?[x×]", re.IGNORECASE
)
_NUMBERED = re.compile(r"S\d+")


def without_stutter(plan: Plan, goal: str) -> Plan:
    """The plan without calls that repeat the block before them; reads of their results are redirected.

    >>> from callsheet.frontends.ltp import format_plan, parse
    >>> lines = [f'S{n}: @LOOK (at="{n % 2}") > $v{n}' for n in range(1, 6)]
    >>> plan = parse("\\n".join([*lines, "S6: @RESPOND ($v4, $v5)"])).require()
    >>> print(format_plan(without_stutter(plan, "Look at both")).splitlines()[4])
    S3: @RESPOND ($v2, $v1)
    """
    if _REPEATING.search(goal) or any(_jumps(step) for step in plan.steps):
        return plan
    result: list[Step] = []
    instead: dict[str, str] = {}
    at = 0
    while at < len(plan.steps):
        length = next(
            (n for n in range(1, _LONGEST_BLOCK + 1) if _repeated(plan.steps, at, result, n, instead) == n), 0
        )
        if not length:
            result.append(_reading_from(plan.steps[at], instead))
            at += 1
            continue
        while taken := _repeated(plan.steps, at, result, length, instead):
            for number in range(taken):
                again, first = plan.steps[at + number].output, result[len(result) - length + number].output
                if again is not None and first is not None:
                    instead[again.var] = first.var
            at += taken
    return plan if len(result) == len(plan.steps) else replace(plan, steps=_renumbered(result))


def _repeated(
    steps: Sequence[Step], at: int, result: Sequence[Step], length: int, instead: Mapping[str, str]
) -> int:
    """How many steps from `at` on repeat those of the last block of this length, in order."""
    if len(result) < length:
        return 0
    names = dict(instead)
    for number, before in enumerate(result[-length:]):
        if at + number >= len(steps):
            return number
        step = _reading_from(steps[at + number], names)
        if not _is_plain(step) or not _is_plain(before) or step.action != before.action:
            return number
        if (step.output is None) != (before.output is None):
            return number
        if step.output is not None and before.output is not None:
            names[step.output.var] = before.output.var
    return length


def _is_plain(step: Step) -> bool:
    """Whether a step is a call without condition, loop, failure handling or group."""
    extras = (step.condition, step.foreach, step.on_fail, step.group)
    return isinstance(step.action, Call) and all(extra is None for extra in extras)


def _reading_from(step: Step, instead: Mapping[str, str]) -> Step:
    """The step with other variables in what it reads; its own output stays."""
    if not instead:
        return step
    changed = renamed(step, lambda name: instead.get(name, name))
    return replace(changed, output=step.output)


def _jumps(step: Step) -> bool:
    return isinstance(step.action, Goto) or (step.on_fail is not None and isinstance(step.on_fail.then, Goto))


def _renumbered(steps: Sequence[Step]) -> tuple[Step, ...]:
    if not all(_NUMBERED.fullmatch(step.id) for step in steps):
        return tuple(steps)
    return tuple(replace(step, id=f"S{number}") for number, step in enumerate(steps, 1))
