"""Completes the answer of a plan, so that no looked-up result is lost.

Pure. In: a plan. Out: the plan with a complete answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from callsheet.authoring.compiler.naming import READING
from callsheet.ir import Call, CallKind, Literal, Plan, Ref, Respond, Step, Terminate
from callsheet.ir.expr import refs_of


def with_whole_answer(plan: Plan) -> Plan:
    """The plan with an answer at its end that includes the results which would otherwise be lost.

    A plan without an answer gets one with the result of its last call. A result is lost if no later step
    reads it: small models look up two things and answer with one. Only results of reading tools are added,
    and only those of unconditional steps.

    >>> from callsheet.frontends.ltp import format_plan, parse
    >>> plan = parse('S1: @READ_FILE (path="a") > $a\\nS2: @READ_FILE (path="b") > $b').require()
    >>> print(format_plan(with_whole_answer(plan)).splitlines()[4])
    S3: @RESPOND ($a, $b)
    """
    return _with_lost(_with_answer(plan))


def _with_answer(plan: Plan) -> Plan:
    if any(isinstance(step.action, Respond | Terminate) and step.condition is None for step in plan.steps):
        return plan
    outputs = [step.output.var for step in plan.steps if step.output is not None]
    ids = {step.id for step in plan.steps}
    number = next(n for n in range(len(ids) + 1, 2 * len(ids) + 3) if f"S{n}" not in ids)
    answer = Ref(outputs[-1]) if outputs else Literal("Done.")
    return replace(plan, steps=(*plan.steps, Step(f"S{number}", Respond((answer,)))))


def _with_lost(plan: Plan) -> Plan:
    last = plan.steps[-1]
    if not isinstance(last.action, Respond) or last.condition is not None:
        return plan
    read = {name for step in plan.steps for name in _reads(step)}
    lost = [step.output.var for step in plan.steps if step.output is not None and _looks_up(step)]
    missing = [name for name in dict.fromkeys(lost) if name not in read]
    if not missing:
        return plan
    names = [step.output.var for step in plan.steps if step.output is not None]
    values = [*last.action.values, *map(Ref, missing)]
    if all(isinstance(value, Ref) for value in values):  # in the order of the lookups
        values.sort(
            key=lambda value: (
                names.index(value.name) if isinstance(value, Ref) and value.name in names else -1
            )
        )
    return replace(
        plan, steps=(*plan.steps[:-1], replace(last, action=replace(last.action, values=tuple(values))))
    )


def _looks_up(step: Step) -> bool:
    """Whether a step always runs and looks something up."""
    if not isinstance(step.action, Call) or step.condition is not None:
        return False
    words = step.action.tool.rpartition("__")[2].lower().split("_")
    return step.action.kind is not CallKind.TOOL or words[0] in READING


def _reads(step: Step) -> Iterator[str]:
    """The names of the variables that a step reads."""
    if step.foreach is not None:
        yield from (ref.name for ref in refs_of(step.foreach.source))
    if step.condition is not None:
        yield from (ref.name for ref in refs_of(step.condition))
    for value in (*step.values(), *step.failure_values()):
        yield from (ref.name for ref in refs_of(value))
