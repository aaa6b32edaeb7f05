"""Reads plans from their canonical JSON form, and nothing else.

The hash of the form identifies a plan, so the form has exactly one reading: whatever `canon` never writes is
refused with the place and what is expected there. Every plan that is read is written back as the same data.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar, cast

from callsheet.diagnostics import CallsheetError
from callsheet.ir.canon import IR_VERSION, LARGE, TREE_VERSION, Json
from callsheet.ir.expr import (
    And,
    Cast,
    Compare,
    CompareOp,
    Condition,
    DictExpr,
    IsEmpty,
    ListExpr,
    Literal,
    Not,
    NotEmpty,
    Or,
    PathPart,
    Ref,
    Template,
    Value,
)
from callsheet.ir.gc_pause import gc_paused
from callsheet.ir.plan import Order, Plan
from callsheet.ir.step import (
    Action,
    Call,
    Foreach,
    Goto,
    OnFail,
    Output,
    Replan,
    Respond,
    Retry,
    Step,
    Terminate,
)
from callsheet.ir.strict_json import (
    SHOWN,
    Refused,
    described,
    read_amount,
    read_array,
    read_each,
    read_field,
    read_filled,
    read_natural,
    read_object,
    read_one_of,
    read_optional,
    read_text,
    refuse_unknown,
)

_PLAN = frozenset({"ir", "steps", "order", "variables", "id", "title", "goal"})
_TREE_PLAN = frozenset({"ir", "tree", "id", "title", "goal"})
_STEP = frozenset({"id", "do", "foreach", "if", "out", "fail", "group", "after", "title"})
_CALL = frozenset({"call", "args", "named"})
_FOREACH = frozenset({"var", "in"})
_OUT = frozenset({"var", "cast"})
_FAIL = frozenset({"retry", "then"})
_RETRY = frozenset({"count", "delay", "backoff"})
_REF = frozenset({"ref", "path"})
_TEMPLATE = frozenset({"template"})
_DICT = frozenset({"dict"})
_ENDS: dict[str, type[Respond | Terminate | Replan]] = {
    "respond": Respond,
    "terminate": Terminate,
    "replan": Replan,
}
_T = TypeVar("_T")
_ORDERS = {str(Order.DAG): Order.DAG}  # the order of the text is left out
_CASTS = {str(known): known for known in Cast}
_COMPARISONS = {str(op): op for op in CompareOp}


def plan_from_json(data: object) -> Plan:
    """The plan that canonical JSON data represents; `plan_to_json` converts it back to equal data.

    Raises CallsheetError (CFG001) for data of another version or structure, with the place as a JSON pointer.
    """
    try:
        return _read_plan(data)
    except Refused as refused:
        place = refused.pointer()
        reason = f"{place}: {refused.reason}" if place else refused.reason
        error = refused
    except RecursionError as too_deep:
        reason, error = "it is nested too deep", too_deep
    raise CallsheetError.single(
        "CFG001",
        f"this is not a plan in callsheet's canonical JSON: {reason}",
        help="write the plan as LTP text, or canonical JSON with `Plan.to_json` of this version of callsheet",
    ) from error


# ------------------------------------------------------------ plan and steps


def _read_plan(data: object) -> Plan:
    version = read_object(data).get("ir")
    if type(version) is int and version == TREE_VERSION:
        return _read_tree_plan(data)
    fields = read_object(data, _PLAN)
    read_field(_refuse_other_version, fields, "ir")
    return Plan(
        read_field(_read_steps, fields, "steps"),
        read_optional(_read_order, fields, "order") or Order.TEXT,
        read_optional(_read_named, fields, "variables") or (),
        read_optional(read_text, fields, "id"),
        read_optional(read_text, fields, "title"),
        read_optional(read_text, fields, "goal"),
    )


def _read_tree_plan(data: object) -> Plan:
    from callsheet.ir.tree_codec import tree_from_json  # noqa: PLC0415 - only for a plan of version 2
    from callsheet.ir.tree_edits import plan_of_tree  # noqa: PLC0415 - as above

    fields = read_object(data, _TREE_PLAN)
    tree = read_field(tree_from_json, fields, "tree")
    return plan_of_tree(
        tree,
        id=read_optional(read_text, fields, "id"),
        title=read_optional(read_text, fields, "title"),
        goal=read_optional(read_text, fields, "goal"),
    )


def _refuse_other_version(data: object) -> None:
    if type(data) is not int or data != IR_VERSION:
        raise Refused(f"expected {IR_VERSION}, the version of the form, found {described(data)}")


def _read_steps(data: object) -> tuple[Step, ...]:
    steps = read_array(data)
    with gc_paused(len(steps) >= LARGE):
        return read_each(_read_step, steps)


def _read_order(data: object) -> Order:
    return read_one_of(_ORDERS, data)


def _read_step(data: object) -> Step:
    fields = read_object(data, _STEP)
    return Step(
        read_field(read_text, fields, "id"),
        read_field(_read_action, fields, "do"),
        read_optional(_read_foreach, fields, "foreach"),
        read_optional(_read_condition, fields, "if"),
        read_optional(_read_output, fields, "out"),
        read_optional(_read_on_fail, fields, "fail"),
        read_optional(read_natural, fields, "group"),
        read_optional(_read_texts, fields, "after"),
        read_optional(read_text, fields, "title"),
    )


def _read_texts(data: object) -> tuple[str, ...]:
    return read_each(read_text, read_array(data))


def _read_foreach(data: object) -> Foreach:
    fields = read_object(data, _FOREACH)
    return Foreach(read_field(read_text, fields, "var"), read_field(_read_value, fields, "in"))


def _read_output(data: object) -> Output:
    fields = read_object(data, _OUT)
    return Output(read_field(read_text, fields, "var"), read_optional(_read_cast, fields, "cast"))


def _read_cast(data: object) -> Cast:
    return read_one_of(_CASTS, data)


def _read_on_fail(data: object) -> OnFail:
    fields = read_object(data, _FAIL)
    return OnFail(
        read_optional(_read_retry, fields, "retry"),
        read_optional(_read_failure_action, fields, "then"),
    )


def _read_retry(data: object) -> Retry:
    fields = read_object(data, _RETRY)
    return Retry(
        read_field(read_natural, fields, "count"),
        read_optional(read_amount, fields, "delay"),
        read_optional(read_amount, fields, "backoff"),
    )


def _read_failure_action(data: object) -> Goto | Terminate:
    action = _read_action(data)
    if not isinstance(action, Goto | Terminate):
        raise Refused("expected `goto` or `terminate`, the actions after a failure")
    return action


def _read_action(data: object) -> Action:
    fields = read_object(data)
    if "call" in fields:
        refuse_unknown(fields, _CALL)
        return Call(
            read_field(read_text, fields, "call"),
            read_optional(_read_some_values, fields, "args") or (),
            read_optional(_read_named, fields, "named") or (),
        )
    kind = next(iter(fields)) if len(fields) == 1 else None
    if kind == "goto":
        return Goto(read_field(read_text, fields, "goto"))
    if kind not in _ENDS:
        raise Refused("expected exactly one of `call`, `respond`, `terminate`, `goto` and `replan`")
    return _ENDS[kind](read_field(_read_values, fields, kind))


def _read_named(data: object) -> tuple[tuple[str, Value], ...]:
    return _read_pairs(read_filled(data))


# ------------------------------------------------------------ values and conditions


def _read_values(data: object) -> tuple[Value, ...]:
    return read_each(_read_value, read_array(data))


def _read_some_values(data: object) -> tuple[Value, ...]:
    return read_each(_read_value, read_filled(data))


def _read_pairs(items: list[Json]) -> tuple[tuple[str, Value], ...]:
    pairs = read_each(_read_pair, items)
    if len({name for name, _ in pairs}) < len(pairs):
        _refuse_duplicate(pairs)
    return pairs


def _refuse_duplicate(pairs: tuple[tuple[str, Value], ...]) -> NoReturn:
    seen = set[str]()
    index = next(i for i, (name, _) in enumerate(pairs) if name in seen or seen.add(name))
    raise Refused(f"the name {pairs[index][0][:SHOWN]!r} is already given").within(0).within(index)


def _read_pair(data: object) -> tuple[str, Value]:
    pair = read_array(data)
    if len(pair) != 2:
        raise Refused(f"expected an array of a name and a value, found {_counted(len(pair), 'item')}")
    (name,) = read_each(read_text, pair[:1])
    (value,) = read_each(_read_value, pair[1:], first=1)
    return name, value


def _read_value(data: Json) -> Value:
    if data is None or isinstance(data, str | int):
        return Literal(data)
    if isinstance(data, float):
        if not math.isfinite(data):
            raise Refused(f"expected a finite number, found {data}")
        return Literal(data)
    if isinstance(data, list):
        return ListExpr(read_each(_read_value, cast("list[Json]", data)))
    fields = read_object(data)
    if "ref" in fields:
        return _read_ref(fields)
    if "template" in fields:
        refuse_unknown(fields, _TEMPLATE)
        return read_field(_read_template, fields, "template")
    if "dict" in fields:
        refuse_unknown(fields, _DICT)
        return DictExpr(read_field(_read_items, fields, "dict"))
    raise Refused("expected one of `ref`, `template` and `dict`")


def _read_items(data: object) -> tuple[tuple[str, Value], ...]:
    return _read_pairs(read_array(data))


def _read_ref(data: object) -> Ref:
    fields = read_object(data, _REF)
    if len(fields) == 1:
        return Ref(read_field(read_text, fields, "ref"))
    return Ref(read_field(read_text, fields, "ref"), read_field(_read_path, fields, "path"))


def _read_path(data: object) -> tuple[PathPart, ...]:
    return read_each(_path_part, read_filled(data))


def _path_part(data: object) -> PathPart:
    if isinstance(data, str) or type(data) is int:
        return data
    raise Refused(f"expected a key or an index, found {described(data)}")


def _read_template(data: object) -> Template:
    """Only the normal form that `expr.template` makes."""
    parts = read_each(_read_part, read_array(data))
    for index, part in enumerate(parts):
        if isinstance(part, str) and (not part or (index > 0 and isinstance(parts[index - 1], str))):
            wanted = "a reference after a string" if part else "a string that is not empty"
            raise Refused(f"expected {wanted}").within(index)
    if len(parts) < 2:
        raise Refused(f"expected two or more parts, found {len(parts)}")
    return Template(parts)


def _read_part(data: object) -> str | Ref:
    return data if isinstance(data, str) else _read_ref(data)


def _read_condition(data: object) -> Condition:
    items = read_array(data)
    op = items[0] if items else None
    match op:
        case "empty" | "notempty":
            (value,) = _operands(_read_value, items, 1)
            return IsEmpty(value) if op == "empty" else NotEmpty(value)
        case "not":
            (inner,) = _operands(_read_condition, items, 1)
            return Not(inner)
        case "and":
            return And(_junction(items, And))
        case "or":
            return Or(_junction(items, Or))
        case str() if op in _COMPARISONS:
            left, right = _operands(_read_value, items, 2)
            return Compare(_COMPARISONS[op], left, right)
        case _:
            raise Refused("expected an array of an operator and its operands")


def _operands(read: Callable[[Any], _T], items: list[Json], count: int) -> tuple[_T, ...]:
    if len(items) != count + 1:
        raise Refused(f"expected {_counted(count, 'operand')} of `{items[0]}`, found {len(items) - 1}")
    return read_each(read, items[1:], first=1)


def _junction(items: list[Json], kind: type[And | Or]) -> tuple[Condition, ...]:
    if len(items) < 3:
        raise Refused(f"expected two or more operands of `{items[0]}`, found {len(items) - 1}")
    conditions = read_each(_read_condition, items[1:], first=1)
    for index, condition in enumerate(conditions, 1):
        if isinstance(condition, kind):
            reason = f"expected no `{items[0]}` in `{items[0]}`: its conditions belong to the outer one"
            raise Refused(reason).within(index)
    return conditions


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
