"""Computes the canonical bytes of a plan and their hash, which identifies it in journals and approvals.

In: a plan. Out: the bytes that `canonical_bytes(plan_to_json(plan))` gives. Most of them are written directly
as text, without building JSON data, which halves the time.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from typing import Any

from callsheet.ir.canon import LARGE, action_to_json, plan_to_json, step_to_json, value_to_json
from callsheet.ir.expr import Literal, Ref, Value
from callsheet.ir.gc_pause import gc_paused
from callsheet.ir.plan import Plan
from callsheet.ir.step import Call, Step

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


_encode = _encode_by()


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
    rest = plan_to_json(plan, with_steps=False)
    before = _encode({name: value for name, value in rest.items() if name < _STEPS})
    after = _encode({name: value for name, value in rest.items() if name > _STEPS})
    steps = f'"{_STEPS}":[{",".join(map(_step_text, plan.steps))}]'
    return "{" + ",".join([part for part in (before[1:-1], steps, after[1:-1]) if part]) + "}"


def _step_text(step: Step) -> str:
    action = step.action
    if step.foreach is not None or step.condition is not None or step.on_fail is not None:
        return _encode(step_to_json(step))
    text = "{"
    if step.depends_on is not None:
        text += f'"after":[{",".join(map(_quote, step.depends_on))}],'
    text += f'"do":{_call_text(action) if isinstance(action, Call) else _encode(action_to_json(action))}'
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
        return str(scalar) if type(scalar) is int else _encode(scalar)
    if isinstance(value, Ref):
        if not value.path:
            return f'{{"ref":{_quote(value.name)}}}'
        path = ",".join([_quote(part) if isinstance(part, str) else str(part) for part in value.path])
        return f'{{"path":[{path}],"ref":{_quote(value.name)}}}'
    return _encode(value_to_json(value))
