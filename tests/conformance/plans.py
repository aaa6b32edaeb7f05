"""Checks of a plan in the form of the documented classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.conformance.findings import MISSING, difference, is_same

EXPECTATIONS = frozenset(
    {
        "none", "may_be_none", "may_raise", "steps", "step_count", "groups", "not_silent", "raw_tools_absent",
    }
)  # fmt: skip
_FLAGS = ("is_llm_op", "is_agent", "is_respond")
_STEP_EXPECTATIONS = frozenset(
    {"id", "tool", "output", "args", "condition", "parallel_group", "evaluate", *_FLAGS}
)
_TELLING = ("errors", "warnings", "diagnostics", "problems", "issues")
"""Attributes of a plan under which a step that is not there may be spoken of."""


def plan_differences(plan: Any, expect: Mapping[str, Any], product: Any) -> list[str]:
    """The unmet expectations of a plan or of its absence."""
    if expect.get("none"):
        found = [] if plan is None else [(step.id, step.tool) for step in plan.steps]
        return [difference("plan", "none", found)] if found else []
    if plan is None:
        return [] if expect.get("may_be_none") else [difference("plan", "a plan", None)]
    steps = list(plan.steps)
    out: list[str] = []
    if "step_count" in expect and len(steps) != expect["step_count"]:
        out.append(difference("number of steps", expect["step_count"], len(steps)))
    if "steps" in expect:
        out += _steps_differences(steps, expect["steps"])
    if "groups" in expect:
        out += _group_differences(steps, expect["groups"])
    for step_id in expect.get("not_silent", ()):
        if not _is_told(step_id, plan, product):
            out.append(difference(f"step {step_id}", "a step or a word about it", [s.id for s in steps]))
    for tool in expect.get("raw_tools_absent", ()):
        if any(step.tool == tool for step in steps):
            out.append(difference("tools", f"no {tool}", [step.tool for step in steps]))
    return out


def _steps_differences(steps: list[Any], wanted: list[Mapping[str, Any]]) -> list[str]:
    if len(steps) != len(wanted):
        return [difference("number of steps", len(wanted), [(step.id, step.tool) for step in steps])]
    out: list[str] = []
    for step, want in zip(steps, wanted, strict=True):
        out += _step_differences(step, want)
    return out


def _step_differences(step: Any, want: Mapping[str, Any]) -> list[str]:
    name = want.get("id", step.id)
    found = {
        "id": (want.get("id"), step.id),
        "tool": (_tool(want.get("tool", "")), _tool(step.tool)),
        "output": (_variable(want.get("output")), _variable(step.output_var)),
        "condition": (want.get("condition"), bool(step.condition)),
        "parallel_group": (want.get("parallel_group"), step.parallel_group or ""),
        **{flag: (want.get(flag), bool(getattr(step, flag))) for flag in _FLAGS},
    }
    out = [
        difference(f"{key} of {name}", expected, value)
        for key, (expected, value) in found.items()
        if key in want and expected != value
    ]
    out += [f"the expectation {key!r} of a step is unknown" for key in want.keys() - _STEP_EXPECTATIONS]
    args = step.args if isinstance(step.args, dict) else {}
    for key, value in want.get("args", {}).items():
        if not is_same(args.get(key, MISSING), value):
            out.append(difference(f"argument {key} of {name}", value, args.get(key, MISSING)))
    return out + _condition_differences(step, name, want.get("evaluate", ()))


def _condition_differences(step: Any, name: str, table: Any) -> list[str]:
    """The rows of a truth table, each variables and a truth value, that the condition does not satisfy."""
    if table and step.condition is None:
        return [difference(f"condition of {name}", "one to evaluate", None)]
    out: list[str] = []
    for variables, truth in table:
        both = {sign + key.lstrip("$"): value for key, value in variables.items() for sign in ("$", "")}
        found = bool(step.condition.evaluate(both))
        if found != truth:
            out.append(difference(f"condition of {name} with {variables}", truth, found))
    return out


def _group_differences(steps: list[Any], wanted: list[list[str]]) -> list[str]:
    groups: dict[str, list[str]] = {}
    for step in steps:
        if step.parallel_group:
            groups.setdefault(step.parallel_group, []).append(step.id)
    found = sorted(groups.values())
    return [] if found == sorted(wanted) else [difference("groups", sorted(wanted), found)]


def _is_told(step_id: str, plan: Any, product: Any) -> bool:
    """Whether a step exists, or a diagnostic reports that it does not."""
    if any(step.id == step_id for step in plan.steps):
        return True
    if any(getattr(plan, name, None) for name in _TELLING):
        return True
    return any(step_id in message for message in product.validate_plan(plan))


def _tool(name: str) -> str:
    return name.removeprefix("@").upper()


def _variable(name: str | None) -> str:
    return (name or "").removeprefix("$")
