"""Comparison keys of steps: exact texts of their parts, which distinguish 1, 1.0 and true.

In: a step. Out: its content without ids, and the features that its similarity to others is measured by. Ids
that the step refers to are left out of both, so that a renaming changes neither.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from callsheet.ir.canon import Json, action_to_json, condition_to_json, step_to_json, value_to_json
from callsheet.ir.expr import Condition, Value
from callsheet.ir.step import Call, Goto, Step

encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode


def value_key(value: Value) -> str:
    """A text that is the same for identical values only."""
    return encode(value_to_json(value))


def condition_key(condition: Condition | None) -> str:
    """A text that is the same for identical conditions only; empty for None."""
    return "" if condition is None else encode(condition_to_json(condition))


@dataclass(frozen=True, slots=True)
class StepKey:
    """The key of a step: `content` is everything but its id, its group and the ids it refers to.

    `kind` is the tool that it calls, or the class name of another action.
    """

    content: str
    kind: str


def key_of(step: Step) -> StepKey:
    """The key of a step.

    >>> key_of(Step("S1", Goto("S2"))) == key_of(Step("S8", Goto("S9")))
    True
    """
    data: dict[str, Json] = step_to_json(step)
    for name in ("id", "group", "after"):
        data.pop(name, None)
    if "goto" in data["do"]:
        data["do"] = "goto"
    if "goto" in data.get("fail", {}).get("then", {}):
        data["fail"]["then"] = "goto"
    action = step.action
    kind = f"@{action.tool}" if isinstance(action, Call) else type(action).__name__
    return StepKey(encode(data), kind)


def features_of(step: Step) -> frozenset[str]:
    """The parts of a step, one text each; steps that share many are similar."""
    return frozenset(_features(step))


def _features(step: Step) -> Iterator[str]:
    action = step.action
    yield "do " + key_of(step).kind
    if isinstance(action, Call):
        yield from (f"arg {name} {value_key(value)}" for name, value in action.named)
        yield from (f"arg {value_key(value)}" for value in action.positional)
    elif not isinstance(action, Goto):
        yield "values " + encode(action_to_json(action))
    if step.output is not None:
        yield "out " + step.output.var
    if step.condition is not None:
        yield "if " + condition_key(step.condition)
    if step.foreach is not None:
        yield "each " + value_key(step.foreach.source)
    if step.title is not None:
        yield "title " + step.title
