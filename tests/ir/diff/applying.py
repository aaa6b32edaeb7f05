"""Applies a difference to the old plan, using only what the difference contains of the new one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from callsheet.ir import (
    Call,
    Cast,
    Foreach,
    Goto,
    OnFail,
    Order,
    Output,
    Plan,
    Replan,
    Respond,
    Retry,
    Step,
    Terminate,
    Value,
)
from callsheet.ir.diff import Change, Part, PlanDiff, StepDiff


def applied(diff: PlanDiff) -> Plan:
    """The old plan with the difference applied; the caller numbers groups again."""
    rows = {d.new_index: d for d in diff.steps if not d.is_removed}
    new_ids = {d.old.id: d.new.id for d in reversed(diff.steps) if d.old is not None and d.new is not None}
    steps = tuple(_step(rows[place], new_ids) for place in range(len(rows)))
    return _head(replace(diff.old, steps=steps), diff.head)


def _head(plan: Plan, changes: tuple[Change, ...]) -> Plan:
    fields: dict[str, Any] = {}
    variables = _named(plan.variables, changes, Part.VARIABLE, Part.VARIABLE_ORDER)
    for change in changes:
        match change.part:
            case Part.ID | Part.TITLE | Part.GOAL:
                fields[str(change.part)] = change.new
            case Part.ORDER:
                fields["order"] = Order(str(change.new))
            case _:
                pass
    return replace(plan, variables=variables, **fields)


def _named(old: tuple[tuple[str, Value], ...], changes: tuple[Change, ...], part: Part, order: Part) -> Any:
    out = dict(old)
    for change in changes:
        if change.part is part and isinstance(change.name, str):
            if change.new is None:
                del out[change.name]
            else:
                out[change.name] = change.new  # type: ignore[assignment]
    for change in changes:
        if change.part is order:
            assert isinstance(change.new, tuple)
            out = {name: out[name] for name in change.new}
    return tuple(out.items())


def _listed(old: tuple[Value, ...], changes: tuple[Change, ...]) -> tuple[Value, ...]:
    numbered = [c for c in changes if c.part is Part.ARGUMENT and isinstance(c.name, int)]
    gone = {c.name for c in numbered if c.new is None}
    out = list(old)
    for c in numbered:
        if c.old is not None and c.new is not None:
            out[c.name - 1] = c.new  # type: ignore[assignment,operator]
    out = [value for number, value in enumerate(out, 1) if number not in gone]
    for c in numbered:
        if c.old is None:
            out.insert(c.name - 1, c.new)  # type: ignore[arg-type,operator]
    return tuple(out)


def _step(row: StepDiff, new_ids: dict[str, str]) -> Step:
    if row.old is None:
        assert row.new is not None
        return row.new
    assert row.new is not None
    step, changes = replace(row.old, id=row.new.id), row.changes
    parts = {c.part: c for c in changes}

    def follow(target: str) -> str:
        return new_ids.get(target, target)

    action = step.action
    if Part.ACTION in parts:
        action = parts[Part.ACTION].new
    elif isinstance(action, Call):
        tool = parts[Part.TOOL].new if Part.TOOL in parts else action.tool
        named = _named(action.named, changes, Part.ARGUMENT, Part.ARGUMENT_ORDER)
        action = Call(tool, _listed(action.positional, changes), named)  # type: ignore[arg-type]
    elif isinstance(action, Respond | Terminate | Replan):
        action = replace(action, values=_listed(action.values, changes))
    else:
        action = Goto(str(parts[Part.TARGET].new) if Part.TARGET in parts else follow(action.target))
    fields: dict[str, Any] = {"action": action, "foreach": _loop(step, parts)}
    for part, name in ((Part.CONDITION, "condition"), (Part.GROUP, "group"), (Part.TITLE, "title")):
        if part in parts:
            fields[name] = parts[part].new
    if Part.AFTER in parts:
        fields["depends_on"] = parts[Part.AFTER].new
    elif step.depends_on is not None:
        fields["depends_on"] = tuple(map(follow, step.depends_on))
    fields["output"] = _output(step, parts)
    fields["on_fail"] = _failure(step, parts, follow)
    return replace(step, **fields)


def _loop(step: Step, parts: dict[Part, Change]) -> Any:
    if Part.FOREACH in parts:
        return parts[Part.FOREACH].new
    if step.foreach is None:
        return None
    var = parts[Part.LOOP_VARIABLE].new if Part.LOOP_VARIABLE in parts else step.foreach.var
    source = parts[Part.LOOP_SOURCE].new if Part.LOOP_SOURCE in parts else step.foreach.source
    return Foreach(var, source)  # type: ignore[arg-type]


def _output(step: Step, parts: dict[Part, Change]) -> Output | None:
    var = step.output.var if step.output else None
    cast = step.output.cast if step.output else None
    if Part.OUTPUT in parts:
        var = parts[Part.OUTPUT].new  # type: ignore[assignment]
    if Part.CAST in parts:
        cast = None if parts[Part.CAST].new is None else Cast(str(parts[Part.CAST].new))
    return None if var is None else Output(var, cast)


def _failure(step: Step, parts: dict[Part, Change], follow: Any) -> OnFail | None:
    retry = step.on_fail.retry if step.on_fail else None
    then = step.on_fail.then if step.on_fail else None
    if Part.RETRY in parts:
        retry = parts[Part.RETRY].new  # type: ignore[assignment]
    if Part.ON_FAIL in parts:
        then = parts[Part.ON_FAIL].new  # type: ignore[assignment]
    elif isinstance(then, Goto):
        then = Goto(follow(then.target))
    assert retry is None or isinstance(retry, Retry)
    return OnFail(retry, then) if retry is not None or then is not None else None
