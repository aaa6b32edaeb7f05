"""LTP text is the normal form of a Python plan: the same plan, with the same check and the same proof."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.frontends.python.generator import Generator, SharingGenerator
from tests.frontends.python.office import read
from tests.frontends.python.test_programs import PROGRAMS

from callsheet import Plan, Runtime, tool
from callsheet.passes.verify.verdict import Verdict


@tool(effect="read")
def list_items(kind: str = "a", limit: int = 4) -> list[dict[str, Any]]: ...


@tool(effect="read")
def page(number: int, size: int = 2) -> dict[str, Any]: ...


@tool(effect="read")
def get(key: str) -> Any: ...


@tool(effect="idempotent")
def put(key: str, value: Any) -> Any: ...


@tool(effect="pure")
def score(n: int) -> int: ...


@tool(effect="read")
def poll(job: str) -> Any: ...


@tool(effect="pure")
def word(text: str, times: int = 1) -> str: ...


@tool(effect="unsafe", does="sends")
def note_it(text: str) -> None: ...


TOOLS = [list_items, page, get, put, score, poll, word, note_it]
WORKSPACE, STRICT = (Runtime(TOOLS, policy=name) for name in ("workspace", "strict"))


def judged(verdict: Verdict) -> object:
    violations = [(one.step, one.flow, one.rule, one.message) for one in verdict.violations]
    return violations, [(one.step, one.kind, one.detail) for one in verdict.obligations]


def both_forms(source: str) -> tuple[Plan, Plan] | None:
    result = read(source)
    if result.plan is None:
        return None
    plan = Plan(result.plan, result.source)
    return plan, Plan.parse(plan.to_ltp())


def compare(plan: Plan, normal: Plan) -> None:
    assert normal == plan
    found, again = (
        [(one.code, one.message) for one in each.check().diagnostics if one.is_error]
        for each in (plan, normal)
    )
    assert found == again
    for runtime in (WORKSPACE, STRICT):
        assert judged(runtime.verify_sync(plan).verdict) == judged(runtime.verify_sync(normal).verdict)


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_passes_check_and_its_text_has_the_same_verdict(name: str) -> None:
    forms = both_forms(PROGRAMS[name])
    assert forms is not None
    compare(*forms)
    errors = {one.code for one in forms[0].check().errors}
    assert errors == set()


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([Generator, SharingGenerator]))
def test_random_program_and_its_text_have_the_same_verdict(seed: int, kind: type[Generator]) -> None:
    forms = both_forms(kind(Random(seed)).program())
    if forms is not None:
        compare(*forms)
