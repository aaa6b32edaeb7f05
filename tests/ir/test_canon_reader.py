"""Canonical JSON has one reading: what is never written is refused, with the place and what is expected."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterator
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.dag_plans import dag_plans
from tests.strategies import plans

from callsheet.diagnostics import CallsheetError
from callsheet.ir import Plan, plan_from_json, plan_to_json
from callsheet.ir.canon import canonical_bytes, plan_bytes

PLAN: dict[str, Any] = {
    "ir": 1,
    "steps": [
        {
            "id": "S1",
            "do": {"call": "FETCH", "args": [1, {"ref": "a"}], "named": [["to", "x"], ["cc", None]]},
            "foreach": {"var": "item", "in": {"ref": "rows", "path": ["cells", 0]}},
            "if": ["and", ["==", {"ref": "item"}, 1], ["not", ["empty", {"ref": "b"}]]],
            "out": {"var": "got", "cast": "json"},
            "fail": {"retry": {"count": 2, "delay": 1.5, "backoff": 2}, "then": {"goto": "S2"}},
            "group": 0,
            "after": [],
            "title": "Fetch",
        },
        {
            "id": "S2",
            "do": {"respond": [{"template": ["Hi ", {"ref": "got"}]}, {"dict": [["k", [1]], ["l", 2]]}]},
        },
    ],
    "order": "dag",
    "variables": [["rows", []]],
    "title": "A plan",
}
S1 = "/steps/0"
ANSWER = "/steps/1/do/respond"
NATURAL = "expected a whole number of at least 0, found"
AMOUNT = "expected a number of at least 0, found"
FILLED = "expected a field that is left out when it is empty, found an empty array"
ACTION = "expected exactly one of `call`, `respond`, `terminate`, `goto` and `replan`"
ENDING = "expected `goto` or `terminate`, the actions after a failure"
FLAT = "expected no `and` in `and`: its conditions belong to the outer one"
PAIR = "expected an array of a name and a value, found"


def changed(pointer: str, value: object) -> dict[str, Any]:
    """The plan with the data at a JSON pointer replaced or added."""
    data = copy.deepcopy(PLAN)
    *way, last = pointer.split("/")[1:]
    at: Any = data
    for key in way:
        at = at[int(key)] if isinstance(at, list) else at[key]
    if isinstance(at, list):
        at[int(last) : int(last) + 1] = [value]
    else:
        at[last] = value
    return data


def refusal(data: object) -> str:
    with pytest.raises(CallsheetError) as caught:
        plan_from_json(data)
    (found,) = caught.value.diagnostics
    assert found.code == "CFG001"
    prefix = "this is not a plan in callsheet's canonical JSON: "
    assert found.message.startswith(prefix)
    return found.message.removeprefix(prefix)


def test_plan_with_every_field_round_trips() -> None:
    assert plan_to_json(plan_from_json(PLAN)) == PLAN
    assert plan_from_json(MappingProxyType(PLAN)) == plan_from_json(PLAN)


@pytest.mark.parametrize(
    ("pointer", "value", "said"),
    [
        (f"{S1}/foreach/step", 2, f"{S1}/foreach: unknown field 'step'"),
        (f"{S1}/out/type", "int", f"{S1}/out: unknown field 'type'"),
        (f"{S1}/fail/retry/jitter", 1, f"{S1}/fail/retry: unknown field 'jitter'"),
        (f"{S1}/fail/retry/count", "3", f"{S1}/fail/retry/count: {NATURAL} the string '3'"),
        (f"{S1}/fail/retry/count", 2.7, f"{S1}/fail/retry/count: {NATURAL} the number 2.7"),
        (f"{S1}/fail/retry/count", True, f"{S1}/fail/retry/count: {NATURAL} true"),
        (f"{S1}/fail/retry/count", -1, f"{S1}/fail/retry/count: {NATURAL} the number -1"),
        (f"{S1}/fail/retry/delay", "1", f"{S1}/fail/retry/delay: {AMOUNT} the string '1'"),
        (f"{S1}/fail/retry/backoff", None, f"{S1}/fail/retry/backoff: {AMOUNT} null"),
        (f"{S1}/fail/retry/backoff", math.nan, f"{S1}/fail/retry/backoff: {AMOUNT} nan"),
        (f"{S1}/fail/then", {"replan": []}, f"{S1}/fail/then: {ENDING}"),
        (f"{S1}/group", "1", f"{S1}/group: {NATURAL} the string '1'"),
        (f"{S1}/group", False, f"{S1}/group: {NATURAL} false"),
        (f"{S1}/title", None, f"{S1}/title: expected a string, found null"),
        (f"{S1}/out/cast", None, f"{S1}/out/cast: expected int or float or bool or list or json, found null"),
        (f"{S1}/after", "S2", f"{S1}/after: expected an array, found the string 'S2'"),
        (f"{S1}/foreach/in/path/1", True, f"{S1}/foreach/in/path/1: expected a key or an index, found true"),
        (f"{S1}/foreach/in/path", [], f"{S1}/foreach/in/path: {FILLED}"),
        (f"{S1}/foreach/in/path", "ab", f"{S1}/foreach/in/path: expected an array, found the string 'ab'"),
        (f"{S1}/do/args", [], f"{S1}/do/args: {FILLED}"),
        (f"{S1}/do/args", "ab", f"{S1}/do/args: expected an array, found the string 'ab'"),
        (f"{S1}/do/args/1/x", 1, f"{S1}/do/args/1: unknown field 'x'"),
        (f"{S1}/do/args/0", math.inf, f"{S1}/do/args/0: expected a finite number, found inf"),
        (f"{S1}/do/named/1/0", "to", f"{S1}/do/named/1/0: the name 'to' is already given"),
        (f"{S1}/do/named/1", ["cc", 1, 2], f"{S1}/do/named/1: {PAIR} 3 items"),
        (f"{S1}/do/named/1", "cc", f"{S1}/do/named/1: expected an array, found the string 'cc'"),
        (f"{S1}/if/1/3", 5, f"{S1}/if/1: expected 2 operands of `==`, found 3"),
        (f"{S1}/if/2/2", ["empty", 1], f"{S1}/if/2: expected 1 operand of `not`, found 2"),
        (f"{S1}/if/2/1", ["empty", 1, 2], f"{S1}/if/2/1: expected 1 operand of `empty`, found 2"),
        (f"{S1}/if", ["and"], f"{S1}/if: expected two or more operands of `and`, found 0"),
        (f"{S1}/if", ["or", ["empty", 1]], f"{S1}/if: expected two or more operands of `or`, found 1"),
        (f"{S1}/if/2", ["and", ["empty", 1], ["empty", 2]], f"{S1}/if/2: {FLAT}"),
        (f"{S1}/if", [], f"{S1}/if: expected an array of an operator and its operands"),
        (f"{S1}/do", {"respond": [], "goto": "S2"}, f"{S1}/do: {ACTION}"),
        (f"{ANSWER}/0/template", [{"ref": "a"}], f"{ANSWER}/0/template: expected two or more parts, found 1"),
        (f"{ANSWER}/0/template/0", "", f"{ANSWER}/0/template/0: expected a string that is not empty"),
        (f"{ANSWER}/0/template/1", "b", f"{ANSWER}/0/template/1: expected a reference after a string"),
        (f"{ANSWER}/1/dict/1/0", "k", f"{ANSWER}/1/dict/1/0: the name 'k' is already given"),
        (f"{ANSWER}/1", {}, f"{ANSWER}/1: expected one of `ref`, `template` and `dict`"),
        ("/ir", True, "/ir: expected 1, the version of the form, found true"),
        ("/ir", 1.0, "/ir: expected 1, the version of the form, found the number 1.0"),
        ("/order", "text", "/order: expected dag, found the string 'text'"),
        ("/variables", [], f"/variables: {FILLED}"),
        ("/goal", None, "/goal: expected a string, found null"),
        ("/a~b", 1, "unknown field 'a~b'"),
        ("/steps", None, "/steps: expected an array, found null"),
    ],
)  # fmt: skip
def test_noncanonical_input_is_refused_with_its_position(pointer: str, value: object, said: str) -> None:
    assert refusal(changed(pointer, value)) == said


@pytest.mark.parametrize("data", [None, [], "{}", 1])
def test_non_object_document_is_refused(data: object) -> None:
    assert refusal(data).startswith("expected an object, found ")


def test_missing_field_is_named() -> None:
    data = copy.deepcopy(PLAN)
    del data["steps"][0]["foreach"]["in"]
    assert refusal(data) == f"{S1}/foreach/in: the field is missing"


def test_nesting_beyond_stack_is_refused() -> None:
    value: Any = 1
    for _ in range(100_000):
        value = [value]
    assert refusal(changed(f"{S1}/do/args/0", value)) == "it is nested too deep"


# ------------------------------------------------------------ the law

OTHER = st.sampled_from(
    [None, True, False, 0, 1, -1, 2.5, math.nan, "", "1", "and", "text", [], ["x", 1], {}, {"ref": "a"}]
)
NAMES = st.sampled_from(
    ["ir", "id", "do", "if", "in", "var", "cast", "args", "named", "path", "ref", "dict", "template", "order",
     "title", "group", "after", "count", "delay", "retry", "then", "goto", "respond", "variables", "other"]
)  # fmt: skip


def containers(data: Any) -> Iterator[Any]:
    """All objects and arrays in JSON data, including itself."""
    if isinstance(data, dict | list):
        yield data
        for item in data.values() if isinstance(data, dict) else data:
            yield from containers(item)


@st.composite
def mutated(draw: st.DrawFn) -> Any:
    """The canonical JSON of a plan with one field or item dropped, added or replaced."""
    data = json.loads(plan_bytes(draw(plans(2) | dag_plans(2))))
    found = list(containers(data))
    at = found[draw(st.integers(0, len(found) - 1))]
    if not at or draw(st.integers(0, 3)) == 0:
        if isinstance(at, dict):
            at[draw(NAMES)] = draw(OTHER)
        else:
            at.insert(draw(st.integers(0, len(at))), draw(OTHER))
        return data
    key = draw(st.sampled_from(list(at))) if isinstance(at, dict) else draw(st.integers(0, len(at) - 1))
    if draw(st.booleans()):
        del at[key]
    else:
        at[key] = draw(OTHER)
    return data


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(mutated())
def test_modified_form_is_refused_or_canonical(data: Any) -> None:
    """read(data) is refused with CFG001, or write(read(data)) == data, to the byte."""
    try:
        plan = plan_from_json(data)
    except CallsheetError:
        refusal(data)
    else:
        assert plan_bytes(plan) == canonical_bytes(data)


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(plans() | dag_plans())
def test_written_forms_are_readable(plan: Plan) -> None:
    """read(write(plan)) == plan."""
    assert plan_from_json(json.loads(plan_bytes(plan))) == plan
