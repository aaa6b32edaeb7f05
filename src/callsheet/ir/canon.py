"""The canonical JSON form of plans, its bytes and their hash, which identifies a plan."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from typing import Any, assert_never

from callsheet.ir.expr import (
    And,
    Compare,
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
from callsheet.ir.gc_pause import gc_paused
from callsheet.ir.plan import Order, Plan
from callsheet.ir.step import (
    Action,
    Call,
    Goto,
    OnFail,
    Replan,
    Respond,
    Step,
    Terminate,
)

IR_VERSION = 1
TREE_VERSION = 2
"""The version of the form of plans that are trees."""

Json = Any

LARGE = 1_000
"""From this many steps on the cyclic garbage collector is paused."""


_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode


def canonical_bytes(value: object) -> bytes:
    """JSON in UTF-8 with sorted keys and no white space, so that the key order of dicts does not matter.

    Raises ValueError for NaN and infinities, which JSON cannot represent.
    """
    return _encode(value).encode("utf-8", "surrogatepass")


def plan_to_json(plan: Plan, *, with_steps: bool = True) -> dict[str, Json]:
    """The plan as JSON data, which `plan_from_json` converts back to an equal plan.

    Without `with_steps` the steps are left out.
    """
    if plan.tree is not None:
        from callsheet.ir.tree_codec import tree_to_json  # noqa: PLC0415 - only for a plan of version 2

        out: dict[str, Json] = {"ir": TREE_VERSION, "tree": tree_to_json(plan.tree)}
        _put(out, id=plan.id, title=plan.title, goal=plan.goal)
        return out
    out = {"ir": IR_VERSION}
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


_STEPS = "steps"
_quote = json.encoder.encode_basestring
_encoder = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False, check_circular=False
)


def _encode_by() -> Callable[[Any], str]:
    """A function that encodes JSON data; it creates the C encoder once, `JSONEncoder.encode` on each call."""
    make: Any = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return _encoder.encode
    chunks: Callable[[Any, int], Iterable[str]] = make(
        None, _encoder.default, _quote, None, ":", ",", True, False, False
    )
    return lambda tree: "".join(chunks(tree, 0))


_encode_bytes = _encode_by()


def plan_bytes(plan: Plan) -> bytes:
    """The canonical form of a plan in UTF-8, cached in the plan.

    Raises ValueError for NaN and infinities, which JSON cannot represent.
    """
    if plan.canonical is None:
        with gc_paused(len(plan.steps) >= LARGE):
            object.__setattr__(plan, "canonical", _plan_text(plan).encode("utf-8", "surrogatepass"))
    assert plan.canonical is not None
    return plan.canonical


def plan_hash(plan: Plan) -> str:
    """The SHA-256 of the canonical form, in hexadecimal digits."""
    return hashlib.sha256(plan_bytes(plan)).hexdigest()


def _plan_text(plan: Plan) -> str:
    if plan.tree is not None:
        return _encode_bytes(plan_to_json(plan))
    rest = plan_to_json(plan, with_steps=False)
    before = _encode_bytes({name: value for name, value in rest.items() if name < _STEPS})
    after = _encode_bytes({name: value for name, value in rest.items() if name > _STEPS})
    steps = f'"{_STEPS}":[{",".join(map(_step_text, plan.steps))}]'
    return "{" + ",".join([part for part in (before[1:-1], steps, after[1:-1]) if part]) + "}"


def _step_text(step: Step) -> str:
    action = step.action
    if step.foreach is not None or step.condition is not None or step.on_fail is not None:
        return _encode_bytes(step_to_json(step))
    text = "{"
    if step.depends_on is not None:
        text += f'"after":[{",".join(map(_quote, step.depends_on))}],'
    text += (
        f'"do":{_call_text(action) if isinstance(action, Call) else _encode_bytes(action_to_json(action))}'
    )
    if step.group is not None:
        text += f',"group":{step.group:d}'
    text += f',"id":{_quote(step.id)}'
    if step.output is not None:
        cast = f'"cast":{_quote(str(step.output.cast))},' if step.output.cast else ""
        text += f',"out":{{{cast}"var":{_quote(step.output.var)}}}'
    if step.title is not None:
        text += f',"title":{_quote(step.title)}'
    return text + "}"


def _call_text(call: Call) -> str:
    args = f'"args":[{_values_text(call.positional)}],' if call.positional else ""
    named = ""
    if call.named:
        pairs = [f"[{_quote(name)},{_value_text(value)}]" for name, value in call.named]
        named = f',"named":[{",".join(pairs)}]'
    return f'{{{args}"call":{_quote(call.tool)}{named}}}'


def _values_text(values: Iterable[Value]) -> str:
    return ",".join(map(_value_text, values))


def _value_text(value: Value) -> str:
    if isinstance(value, Literal):
        scalar = value.value
        if isinstance(scalar, str):
            return _quote(scalar)
        return str(scalar) if type(scalar) is int else _encode_bytes(scalar)
    if isinstance(value, Ref):
        if not value.path:
            return f'{{"ref":{_quote(value.name)}}}'
        path = ",".join([_quote(part) if isinstance(part, str) else str(part) for part in value.path])
        return f'{{"path":[{path}],"ref":{_quote(value.name)}}}'
    return _encode_bytes(value_to_json(value))
