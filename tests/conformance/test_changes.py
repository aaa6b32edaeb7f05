"""Meaning-preserving changes of a case, each at a place that its name chooses, preserve its outcome."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.conformance import changes, detours, ltp
from tests.conformance.form import Case, case_of, read_cases
from tests.conformance.security import SecurityCase, read_security_cases, refusals

from callsheet import compat
from callsheet.frontends.ltp import format_plan
from callsheet.ir import Plan

FOLDER = Path(__file__).with_name("cases")
SECURITY = [
    (case, plan)
    for name in ("security", "security_combined")
    for case in read_security_cases(FOLDER / f"{name}.jsonl")
    if (plan := changes.read(case.plan)) is not None
]
RUNS = [case for case in read_cases(FOLDER / "ltp.jsonl") if case.kind == "run" and changes.read(case.plan)]
OF_STEPS = {"steps_executed", "parsed_steps", "progress_min", "concurrency_min", "may_raise"}
"""What cases expect of the very steps of a plan."""


def named(cases: list[Any]) -> list[Any]:
    return [pytest.param(*case, id=case[0].id) for case in cases]


def said(case: SecurityCase, plan: Plan) -> list[str]:
    text = format_plan(plan)
    return refusals(SecurityCase(case.id, text, case.must, case.policy))


def has_room(case: SecurityCase, plan: Plan) -> bool:
    return len(plan.steps) <= case.policy.get("max_steps", 50)


@pytest.mark.parametrize(("case", "plan"), named(SECURITY))
def test_neutral_changes_keep_verdict(case: SecurityCase, plan: Plan) -> None:
    for name, change in changes.NEUTRAL.items():
        changed = change(plan, Random(f"{case.id}{name}"))
        if changed is None or not has_room(case, changed) or _is_named(case, name):
            continue
        assert bool(said(case, changed)) is (case.must == "refuse"), (name, format_plan(changed))


def _is_named(case: SecurityCase, name: str) -> bool:
    """Whether the case itself is about the change, such as an exit of a cycle."""
    return case.id == "goto-03" and name == "a condition that holds"


@pytest.mark.parametrize(("case", "plan"), named([c for c in SECURITY if c[0].must == "refuse"]))
def test_detours_do_not_make_hostile_plan_pass(case: SecurityCase, plan: Plan) -> None:
    for name, change in detours.HIDDEN.items():
        changed = change(plan, Random(f"{case.id}{name}"))
        assert changed is None or said(case, changed), (name, format_plan(changed))


@pytest.mark.parametrize("case", RUNS, ids=lambda case: case.id)
def test_equivalent_forms_have_same_outcome(case: Case) -> None:
    plan = changes.read(case.plan)
    assert plan is not None
    for name, change in changes.FORMS.items():
        changed = change(plan, Random(f"{case.id}{name}"))
        if changed is not None and not OF_STEPS & case.expect.keys():
            assert outcome(case, format_plan(changed)) == [], (name, format_plan(changed))
    for name, rewrite in changes.TEXTS.items():
        text = rewrite(case.plan)
        assert text is None or outcome(case, text) == [], (name, text)


def outcome(case: Case, text: str) -> list[str]:
    """The unmet expectations of the case with this text; each run uses up its scripts."""
    fields = {name: getattr(case, name) for name in Case.__dataclass_fields__ if name != "has_policy"}
    again = {name: value for name, value in fields.items() if value is not None}
    return ltp.differences(case_of(json.loads(json.dumps({**again, "plan": text}))), compat)
