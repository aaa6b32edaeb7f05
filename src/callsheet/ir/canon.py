"""Converts plans to and from their canonical JSON form.

Plans that differ only in spans and comments have the same form. Keys are sorted, white space is left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, assert_never, cast

from callsheet.diagnostics import CallsheetError
from callsheet.ir.collecting import collector_rests
from callsheet.ir.expr import (
    And,
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
    Ref,
    Template,
    Value,
)
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
from callsheet.ir.types import Cast

IR_VERSION = 1

Json = Any


_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode


def canonical_bytes(value: object) -> bytes:
    """JSON in UTF-8 with sorted keys and no white space, so that the key order of dicts does not matter.

    Raises ValueError for NaN and infinities, which JSON cannot represent.
    """
    return _encode(value).encode("utf-8", "surrogatepass")


# ---------------------------------------------------------------- writing


def plan_to_json(plan: Plan, *, with_steps: bool = True) -> dict[str, Json]:
    """The plan as JSON data, which `plan_from_json` converts back to an equal plan.

    Without `with_steps` the steps are left out.
    """
    out: dict[str, Json] = {"ir": IR_VERSION}
    if with_steps:
        out["steps"] = [step_to_json(s) for s in plan.steps]
    if plan.order is not Order.TEXT:
        out["order"] = str(plan.order)
    if plan.variables:
        out["variables"] = [[name, value_to_json(value)] for name, value in plan.variables]
    _put(out, id=plan.id, title=plan.title, goal=plan.goal)
    return out


def _put(out: dict[str, Json], **fields: Json) -> None:
    out.update((name, value) for name, value in fields.items() if value is not None)


def step_to_json(step: Step) -> dict[str, Json]:
    """A step as JSON data, spans and comments left out."""
    out: dict[str, Json] = {"id": step.id, "do": action_to_json(step.action)}
    if step.foreach is not None:
        out["foreach"] = {"var": step.foreach.var, "in": value_to_json(step.foreach.source)}
    if step.condition is not None:
        out["if"] = condition_to_json(step.condition)
    if step.output is not None:
        out["out"] = {"var": step.output.var}
        if step.output.cast:
            out["out"]["cast"] = str(step.output.cast)
    if step.on_fail is not None:
        out["fail"] = on_fail_to_json(step.on_fail)
    if step.group is not None:
        out["group"] = step.group
    if step.depends_on is not None:
        out["after"] = list(step.depends_on)
    if step.title is not None:
        out["title"] = step.title
    return out


def on_fail_to_json(on_fail: OnFail) -> dict[str, Json]:
    """Failure handling as JSON data."""
    out: dict[str, Json] = {}
    if on_fail.retry is not None:
        out["retry"] = {"count": on_fail.retry.count}
        _put(out["retry"], delay=on_fail.retry.delay, backoff=on_fail.retry.backoff)
    if on_fail.then is not None:
        out["then"] = action_to_json(on_fail.then)
    return out


def action_to_json(action: Action) -> dict[str, Json]:
    """An action as JSON data."""
    if isinstance(action, Call):  # the most frequent action, hence before the slower `match`
        out: dict[str, Json] = {"call": action.tool}
        if action.positional:
            out["args"] = [value_to_json(v) for v in action.positional]
        if action.named:
            out["named"] = [[name, value_to_json(v)] for name, v in action.named]
        return out
    match action:
        case Respond(values=values):
            return {"respond": [value_to_json(v) for v in values]}
        case Terminate(values=values):
            return {"terminate": [value_to_json(v) for v in values]}
        case Goto(target=target):
            return {"goto": target}
        case Replan(values=values):
            return {"replan": [value_to_json(v) for v in values]}
    assert_never(action)


def value_to_json(value: Value) -> Json:
    """A value as JSON data."""
    if isinstance(value, Literal):
        return value.value
    if isinstance(value, Ref):
        return _ref(value)
    match value:
        case Template(parts=parts):
            return {"template": [p if isinstance(p, str) else _ref(p) for p in parts]}
        case ListExpr(items=items):
            return [value_to_json(v) for v in items]
        case DictExpr(items=pairs):
            return {"dict": [[key, value_to_json(v)] for key, v in pairs]}
    assert_never(value)


def _ref(ref: Ref) -> dict[str, Json]:
    return {"ref": ref.name, "path": list(ref.path)} if ref.path else {"ref": ref.name}


def condition_to_json(condition: Condition) -> list[Json]:
    """A condition as JSON data."""
    match condition:
        case Compare(op=op, left=left, right=right):
            return [str(op), value_to_json(left), value_to_json(right)]
        case IsEmpty(value=value):
            return ["empty", value_to_json(value)]
        case NotEmpty(value=value):
            return ["notempty", value_to_json(value)]
        case Not(condition=inner):
            return ["not", condition_to_json(inner)]
        case And(conditions=inner):
            return ["and", *(condition_to_json(c) for c in inner)]
        case Or(conditions=inner):
            return ["or", *(condition_to_json(c) for c in inner)]
    assert_never(condition)


# ---------------------------------------------------------------- reading


def plan_from_json(data: object) -> Plan:
    """The plan that JSON data represents.

    Raises CallsheetError (CFG001) for data of another version or structure.
    """
    try:
        return _read_plan(_mapping(data))
    except (KeyError, TypeError, ValueError, IndexError, RecursionError, AttributeError) as error:
        raise CallsheetError.single(
            "CFG001",
            f"this is not a plan in callsheet's canonical JSON ({type(error).__name__}: {error})",
            help="a plan is written by `callsheet fmt`; its canonical JSON by this version of callsheet",
        ) from error


_PLAN = frozenset({"ir", "steps", "order", "variables", "id", "title", "goal"})
_STEP = frozenset({"id", "do", "foreach", "if", "out", "fail", "group", "after", "title"})
_CALL = frozenset({"call", "args", "named"})
_ENDS = frozenset({"respond", "terminate", "goto", "replan"})
_FAIL = frozenset({"retry", "then"})
_REF = frozenset({"ref", "path"})
_TEMPLATE = frozenset({"template"})
_DICT = frozenset({"dict"})
LARGE = 1_000
"""From this many steps on the cyclic garbage collector is paused."""


def _mapping(data: object) -> Mapping[str, Json]:
    if type(data) is not dict and not isinstance(data, Mapping):
        raise TypeError(f"expected an object, found {type(data).__name__}")
    return cast("Mapping[str, Json]", data)


def _known(data: Mapping[str, Json], names: frozenset[str]) -> None:
    if not data.keys() <= names:
        raise ValueError(f"unknown field {min(data.keys() - names)!r}")


def _text(data: object) -> str:
    if not isinstance(data, str):
        raise TypeError(f"expected a text, found {type(data).__name__}")
    return data


def _maybe(read: Callable[[Any], Any], data: object) -> Any:
    return None if data is None else read(data)


def _read_plan(data: Mapping[str, Json]) -> Plan:
    _known(data, _PLAN)
    if data["ir"] != IR_VERSION:
        raise ValueError(f"version {data['ir']!r}, this callsheet reads {IR_VERSION}")
    steps = data["steps"]
    with collector_rests(len(steps) >= LARGE):
        return Plan(
            steps=tuple([_read_step(_mapping(step)) for step in steps]),
            order=Order(data.get("order", "text")),
            variables=tuple([(_text(name), _read_value(value)) for name, value in data.get("variables", ())]),
            id=_maybe(_text, data.get("id")),
            title=_maybe(_text, data.get("title")),
            goal=_maybe(_text, data.get("goal")),
        )


def _read_step(data: Mapping[str, Json]) -> Step:
    _known(data, _STEP)
    get = data.get
    foreach, condition, output = get("foreach"), get("if"), get("out")
    on_fail, group, after, title = get("fail"), get("group"), get("after"), get("title")
    return Step(
        _text(data["id"]),
        _read_action(_mapping(data["do"])),
        None if foreach is None else Foreach(_text(foreach["var"]), _read_value(foreach["in"])),
        None if condition is None else _read_condition(condition),
        None if output is None else Output(_text(output["var"]), _maybe(Cast, output.get("cast"))),
        None if on_fail is None else _read_on_fail(on_fail),
        None if group is None else int(group),
        None if after is None else tuple([_text(name) for name in after]),
        None if title is None else _text(title),
    )


def _read_on_fail(data: Mapping[str, Json]) -> OnFail:
    _known(data, _FAIL)
    retry = data.get("retry")
    then = _maybe(_read_action, data.get("then"))
    if then is not None and not isinstance(then, Goto | Terminate):
        raise ValueError("a failure leads to a goto or to an end")
    return OnFail(
        retry=None if retry is None else Retry(int(retry["count"]), retry.get("delay"), retry.get("backoff")),
        then=then,
    )


def _read_action(data: Mapping[str, Json]) -> Action:
    if "call" in data:
        _known(data, _CALL)
        return Call(
            _text(data["call"]),
            _read_values(data.get("args", ())),
            tuple([(_text(name), _read_value(value)) for name, value in data.get("named", ())]),
        )
    _known(data, _ENDS)
    (kind,) = data
    if kind == "goto":
        return Goto(_text(data[kind]))
    return {"respond": Respond, "terminate": Terminate, "replan": Replan}[kind](_read_values(data[kind]))


def _read_values(data: Sequence[Json]) -> tuple[Value, ...]:
    return tuple([_read_value(value) for value in data])


def _read_ref(data: Mapping[str, Json]) -> Ref:
    if len(data) == 1:
        return Ref(_text(data["ref"]))
    _known(data, _REF)
    path = tuple(data.get("path", ()))
    if not all(isinstance(p, str | int) for p in path):
        raise TypeError("a path is made of keys and indexes")
    return Ref(_text(data["ref"]), path)


def _read_value(data: Json) -> Value:
    if data is None or isinstance(data, str | int | float):
        return Literal(data)
    if isinstance(data, list):
        return ListExpr(_read_values(cast("list[Json]", data)))
    node = _mapping(data)
    if "ref" in node:
        return _read_ref(node)
    if "template" in node:
        _known(node, _TEMPLATE)
        return Template(
            tuple([p if isinstance(p, str) else _read_ref(_mapping(p)) for p in node["template"]])
        )
    _known(node, _DICT)
    return DictExpr(tuple([(_text(key), _read_value(v)) for key, v in node["dict"]]))


def _read_condition(data: Sequence[Json]) -> Condition:
    op, *rest = data
    match op:
        case "empty":
            return IsEmpty(_read_value(rest[0]))
        case "notempty":
            return NotEmpty(_read_value(rest[0]))
        case "not":
            return Not(_read_condition(rest[0]))
        case "and":
            return And(tuple(_read_condition(c) for c in rest))
        case "or":
            return Or(tuple(_read_condition(c) for c in rest))
        case _:
            return Compare(CompareOp(op), _read_value(rest[0]), _read_value(rest[1]))
