"""A program that compiles steps on demand equals one that is compiled at once."""

from __future__ import annotations

from inspect import isdatadescriptor
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.plans import FACTS, plan_of, plan_texts

from callsheet.machine import Program, compile_plan, compiling
from callsheet.machine.compiling import program_on_demand
from callsheet.machine.program import StepCode

_MADE = ("arguments", "condition", "inputs", "source", "fail_values", "loop", "texts")
"""Functions, which are compared by what they give. Forms are numbered in the order of compiling."""
_COMPARED: list[str] = sorted(
    name
    for kind in StepCode.__mro__
    for name, found in vars(kind).items()
    if isdatadescriptor(found) and not name.startswith("_") and name not in (*_MADE, "form")
)


@pytest.fixture(autouse=True)
def for_short_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "_WORTH", 0)


def told(program: Program, number: int) -> Any:
    code = program.steps[number]
    slots: list[Any] = [[f"value {n}", n] for n in range(len(program.names))]
    gives: list[Any] = [make(slots) for make in (*code.inputs, *code.fail_values)]
    source = None if code.source is None else code.source(slots)
    holds = None if code.condition is None else code.condition(slots)
    gives += [(name, make(slots)) for name, make in code.texts]
    return [getattr(code, name) for name in _COMPARED], code.arguments(slots), gives, source, holds


@given(plan_texts(), st.randoms())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_compiled_steps_are_same_in_any_order(text: str, chance: Any) -> None:
    plan = plan_of(text)
    whole, part = compile_plan(plan, FACTS), program_on_demand(plan, FACTS)
    assert part.names == whole.names
    assert (part.slot_of, part.number_of, part.graph) == (whole.slot_of, whole.number_of, None)
    assert len(part.steps) == len(whole.steps)
    numbers = list(range(-len(plan.steps), len(plan.steps)))
    chance.shuffle(numbers)
    for number in numbers:
        assert told(part, number) == told(whole, number)
    forms = {(one.form, other.form) for one, other in zip(whole.steps, part.steps, strict=True)}
    assert len(forms) == len({one for one, _ in forms}) == len({other for _, other in forms})
    assert part.steps[0] is part.steps[-len(plan.steps)]
    assert [code.number for code in part.steps[1:]] == list(range(1, len(plan.steps)))


WAYS = """PLAN_START
S1: ?FOREACH ($i IN [$z, {"k": "$y ${i}"}]) THEN @READ ($i, more=[$w, {"a": $v.0}]) > $r
S2: ?IF ($q > "1" AND NOT_EMPTY($s)) THEN @AGENT_SOLVE ($t, tools=["read"]) > $u ON_FAIL TERMINATE ($e)
S3: @RESPOND ($u, "$r and $m")
PLAN_END"""


def test_variable_slots_equal_those_of_full_compilation() -> None:
    plan = plan_of(WAYS)
    assert program_on_demand(plan, FACTS).names == compile_plan(plan, FACTS).names
