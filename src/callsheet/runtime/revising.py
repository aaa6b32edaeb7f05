"""Edits steps and arguments of a plan for a run that branches off.

In: a plan and the edits. Out: the new plan, with all other steps unchanged. A step keeps its id and its place
in a block, since the keys of the run's calls depend on them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, cast

from callsheet.diagnostics import CallsheetError, Diagnostic, Severity, Source, did_you_mean
from callsheet.frontends.dag import format_dag, parse_dag
from callsheet.frontends.ltp import parse
from callsheet.ir import JSON, Call, DictExpr, ListExpr, Literal, Order, Plan, Step, Value
from callsheet.ir.strict_json import NotJson, read_json
from callsheet.store import JournalError


def with_arguments(plan: Plan, given: Mapping[tuple[str, str], JSON]) -> Plan:
    """The plan with these arguments, by step and name; a text is a literal, in which `$` has no meaning.

    A positional argument is named by its index, from 0. Raises JournalError (JRN084) for an unknown step, or
    one that calls no tool; an unknown name adds an argument.
    """
    for (step, name), value in given.items():
        plan = _with_step(plan, step, lambda old, n=name, v=value: _with_argument(old, n, v))
    return plan


def with_steps(plan: Plan, given: Mapping[str, str]) -> Plan:
    """The plan with these steps, each given as a line of plan, or in a graph as a JSON object.

    Raises JournalError (JRN084) for an unknown step, CallsheetError for a text that is not a step.
    """
    for step, text in given.items():
        read = _read_object if plan.order is Order.DAG else _read_line
        plan = _with_step(plan, step, lambda old, t=text, p=plan, r=read: r(p, old, t))
    return plan


def _with_step(plan: Plan, name: str, change: Callable[[Step], Step]) -> Plan:
    at = next((n for n, step in enumerate(plan.steps) if step.id == name), None)
    if at is None:
        names = [step.id for step in plan.steps]
        suggestions = did_you_mean(name, names)
        listed = ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
        hint = f"did you mean {' or '.join(suggestions)}?" if suggestions else f"its steps are {listed}"
        raise JournalError("JRN084", f"the plan of the run has no step {name[:80]}", hint)
    return replace(plan, steps=(*plan.steps[:at], change(plan.steps[at]), *plan.steps[at + 1 :]))


def _with_argument(step: Step, name: str, value: JSON) -> Step:
    action = step.action
    if not isinstance(action, Call):
        raise JournalError("JRN084", f"step {step.id} calls no tool", "edit the step: --replace")
    new_value = _value_of(value)
    if name.isascii() and name.isdigit() and int(name) < len(action.positional):
        at = int(name)
        given = (*action.positional[:at], new_value, *action.positional[at + 1 :])
        return replace(step, action=replace(action, positional=given))
    names = [known for known, _ in action.named]
    if name in names:
        named = tuple((known, new_value if known == name else old) for known, old in action.named)
    else:
        named = (*action.named, (name, new_value))
    return replace(step, action=replace(action, named=named))


def _value_of(data: JSON) -> Value:
    if isinstance(data, dict):
        return DictExpr(tuple((key, _value_of(value)) for key, value in data.items()))
    if isinstance(data, list):
        return ListExpr(tuple(_value_of(value) for value in data))
    return Literal(data)


def _read_line(_plan: Plan, old: Step, text: str) -> Step:
    """Parse a step from a line of plan."""
    has_id = text.lstrip().startswith(f"{old.id}:")
    read = parse(text if has_id else f"{old.id}: {text}", "--replace")
    if read.plan is None:
        raise CallsheetError(read.diagnostics, read.source)
    if len(read.plan.steps) != 1:
        raise _wrong(f"this must be one line of a plan, but has {len(read.plan.steps)}", read.source)
    step = read.plan.steps[0]
    if step.group is not None:
        raise _wrong("a block is not a step", read.source)
    return replace(step, id=old.id, group=old.group, depends_on=old.depends_on)


def _read_object(plan: Plan, old: Step, text: str) -> Step:
    """Parse a step of a plan of dependencies from a JSON object."""
    source = Source("--replace", text)
    try:
        given: Any = read_json(text)
    except NotJson as error:
        raise _wrong(f"a step of this plan is a JSON object, but this is not one: {error}", source) from error
    if not isinstance(given, dict):
        raise _wrong("a step of this plan is a JSON object", source)
    tree = json.loads(format_dag(plan))
    steps = cast("list[dict[str, Any]]", tree["steps"])
    at = next(n for n, step in enumerate(plan.steps) if step.id == old.id)
    steps[at] = {**cast("dict[str, Any]", given), "index": steps[at]["index"]}
    read = parse_dag(json.dumps(tree), "--replace")
    if read.plan is None:
        raise CallsheetError(read.diagnostics, read.source)
    return read.plan.steps[at]


def _wrong(message: str, source: Source) -> CallsheetError:
    return CallsheetError([Diagnostic("JRN084", Severity.ERROR, message)], source)
