"""Checks of a plan without running it: problems, verdicts, diagrams."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tests.conformance.findings import difference, parts_differences
from tests.conformance.form import Case

COMMON = frozenset({"may_be_none", "may_raise", "parsed_steps"})
EXPECTATIONS = {
    "validate": COMMON | {"clean", "not_clean", "problems", "no_problems"},
    "verify": COMMON | {"ok", "violations", "violating_steps"},
    "mermaid": COMMON | {"empty_plan", "contains", "not_contains", "regex", "not_regex"},
}
_SETS = ("allowed_tools", "denied_tools")


def validate_differences(plan: Any, expect: Mapping[str, Any], product: Any) -> list[str]:
    """The unmet expectations of the messages of `validate_plan`."""
    messages = product.validate_plan(plan)
    if not isinstance(messages, list) or not all(isinstance(message, str) for message in messages):
        return [difference("validate_plan", "a list of texts", messages)]
    out: list[str] = []
    if expect.get("clean") and messages:
        out.append(difference("problems", [], messages))
    if expect.get("not_clean") and not messages:
        out.append(difference("problems", "at least one", messages))
    for problem in expect.get("problems", ()):
        if not any(_tells(message, problem) for message in messages):
            out.append(difference("problems", problem, messages))
    for words in expect.get("no_problems", ()):
        told = [message for message in messages if _holds_all(message, words)]
        if told:
            out.append(difference("problems", f"none with {words}", told))
    return out


def _tells(message: str, problem: Mapping[str, Any]) -> bool:
    step, any_of = problem.get("step"), problem.get("words_any")
    return (
        (step is None or f"[{step}]" in message)
        and _holds_all(message, problem.get("words", ()))
        and (not any_of or _holds_any(message, any_of))
    )


def _holds_all(text: str, words: Any) -> bool:
    return all(word.lower() in text.lower() for word in words)


def _holds_any(text: str, words: Any) -> bool:
    return any(word.lower() in text.lower() for word in words)


def verify_differences(plan: Any, case: Case, product: Any) -> list[str]:
    """The unmet expectations of the verdict of `verify_plan`."""
    expect = case.expect
    arguments = (policy_of(case.policy, product),) if case.has_policy else ()
    verdict = product.verify_plan(plan, *arguments)
    violations = list(verdict.violations)
    out: list[str] = []
    if verdict.ok is not expect["ok"]:
        out.append(difference("ok", expect["ok"], verdict.reason() or verdict.ok))
    if bool(verdict) is not verdict.ok or bool(violations) is verdict.ok:
        found = (bool(verdict), verdict.ok, len(violations))
        out.append(difference("verdict", "truth, ok and violations that agree", found))
    for wanted in expect.get("violations", ()):
        if not any(_is_violation(violation, wanted) for violation in violations):
            out.append(difference("violations", wanted, [(v.step_id, v.rule) for v in violations]))
    steps = sorted({violation.step_id for violation in violations})
    if "violating_steps" in expect and steps != sorted(expect["violating_steps"]):
        out.append(difference("violating steps", sorted(expect["violating_steps"]), steps))
    if not verdict.ok:
        reason = verdict.reason()
        told = isinstance(reason, str) and all(v.rule in reason or v.detail in reason for v in violations)
        if not told or not reason:
            out.append(difference("reason", "a text with every violation", reason))
    return out


def _is_violation(violation: Any, wanted: Mapping[str, Any]) -> bool:
    step, any_of = wanted.get("step"), wanted.get("words_any")
    if step is not None and violation.step_id != step:
        return False
    return not any_of or _holds_any(f"{violation.rule} {violation.detail}", any_of)


def policy_of(fields: Mapping[str, Any] | None, product: Any) -> Any:
    """The policy that a case names; JSON lists become the documented sets and tuples."""
    if fields is None:
        return None
    made = dict(fields)
    for name in _SETS:
        if isinstance(made.get(name), list):
            made[name] = set(made[name])
    if isinstance(made.get("forbidden_arg_patterns"), list):
        made["forbidden_arg_patterns"] = tuple(made["forbidden_arg_patterns"])
    return product.PlanPolicy(**made)


def mermaid_differences(plan: Any, expect: Mapping[str, Any], product: Any) -> list[str]:
    """The unmet expectations of the diagram of a plan; `empty_plan` removes its steps first."""
    if expect.get("empty_plan"):
        plan.steps = []
    picture = product.plan_to_mermaid(plan)
    if not isinstance(picture, str):
        return [difference("picture", "a text", picture)]
    out: list[str] = []
    body = picture.strip()
    if not (body.startswith("```mermaid") and body.endswith("```") and "graph TD" in body):
        out.append(difference("picture", "a fenced mermaid block with graph TD", picture))
    out += parts_differences("picture", picture, expect.get("contains", ()))
    for part in expect.get("not_contains", ()):
        if part in picture:
            out.append(difference("picture", f"no {part}", picture))
    for pattern in expect.get("regex", ()):
        if re.search(pattern, picture, re.MULTILINE) is None:
            out.append(difference("picture", f"a match of /{pattern}/", picture))
    for pattern in expect.get("not_regex", ()):
        match = re.search(pattern, picture, re.MULTILINE)
        if match is not None:
            out.append(difference("picture", f"no match of /{pattern}/", match.group(0)))
    return out
