"""Plans printed as Python: the same calls with the same results, or the user is told."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.frontends.python.generator import Generator, SharingGenerator
from tests.frontends.python.office import SIGNATURES, interpreted
from tests.frontends.python.test_programs import PROGRAMS
from tests.machine.test_tree_laws import by_the_reference
from tests.structured_plans import programs, trees

from callsheet.diagnostics import CallsheetError, Diagnostic
from callsheet.frontends.python import read_python
from callsheet.frontends.python.printer import print_python
from callsheet.frontends.structured import format_structured, read_structured
from callsheet.ir import Plan

NOT_PRINTED = {
    "task group": "of a failure",
    "helper changes a parameter": "may share",
}


def plan_of(text: str) -> Plan:
    return read_python(text, tools=SIGNATURES).require()


def printed_or_refused(plan: Plan) -> tuple[str | None, tuple[Diagnostic, ...]]:
    """The text and its remarks; None for a plan that is refused, after a look at the error."""
    try:
        return print_python(plan)
    except CallsheetError as error:
        (only,) = error.diagnostics
    assert only.code == "PYT070"
    assert only.help or "a Python plan may not say this" in only.message
    return None, ()


def same_calls(first: str, second: str) -> bool:
    (ended, calls), (also, made) = interpreted(first, {}), interpreted(second, {})
    if "gather" in second:  # what starts together has no order
        calls, made = sorted(map(repr, calls)), sorted(map(repr, made))
    return (ended, calls) == (also, made)


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_of_every_construct_returns_as_python(name: str) -> None:
    source = PROGRAMS[name]
    if name in NOT_PRINTED:
        with pytest.raises(CallsheetError, match=NOT_PRINTED[name]):
            print_python(plan_of(source))
        return
    plan = plan_of(source)
    printed, _ = print_python(plan)
    assert same_calls(source, printed)
    from_text = read_structured(format_structured(plan), "plan.ltp").require()
    assert print_python(from_text)[0] == printed  # by way of LTP text, too


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([Generator, SharingGenerator]))
def test_random_program_returns_as_python(seed: int, kind: type[Generator]) -> None:
    source = kind(Random(seed)).program()
    plan = read_python(source, tools=SIGNATURES).plan
    if plan is None:
        return
    try:
        printed, _ = print_python(plan)
    except CallsheetError as error:
        refused = str(error)
    else:
        with suppress(RecursionError):  # a list that is in itself
            assert same_calls(source, printed)
        return
    assert "while a loop goes through it" in refused


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(programs())
def test_ltp_text_as_python_does_the_same_unless_a_remark_says_otherwise(plan: Plan) -> None:
    printed, remarks = printed_or_refused(plan)
    if printed is None:
        return
    again = read_python(printed).require()
    if not remarks:
        assert by_the_reference(again) == by_the_reference(plan)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(trees())
def test_any_tree_is_python_or_an_error_with_a_way_out(plan: Plan) -> None:
    printed, _ = printed_or_refused(plan)
    assert printed is None or read_python(printed).plan is not None


EXPECTED = '''from callsheet import ToolError, gather, llm_classify, note


async def main(repo: str, limit: int = 50) -> str:
    """Label the open issues."""
    issues = await list_issues(repo=repo, limit=limit)
    kinds = await gather(*[llm_classify(i['body'], categories=['bug', 'other']) for i in issues])
    for pair in zip(issues, kinds):
        if pair[1] == 'bug':
            try:
                await add_label(number=pair[0]['number'])
            except ToolError as error:
                note(f'failed: {error}')
    return f'{len(issues)} issues'
'''


def test_printed_text_is_the_one_that_a_person_would_write() -> None:
    plan = read_python(EXPECTED).require()
    printed, remarks = print_python(plan)
    assert not remarks
    assert printed == EXPECTED


def test_inputs_with_defaults_stand_last_and_a_goal_may_end_in_quotes() -> None:
    text = '# ltp: 2\n# goal: Say "hi"\nINPUT $a: int = 1\nINPUT $b: str\n'
    text += "PLAN p ($c: int = 2, $d: int) -> int {\n  RETURN ($c + $d)\n}\n"
    text += "CALL p (d=$a) > $e\n@RESPOND ([$b, $e])\n"
    printed, _ = print_python(read_structured(text).require())
    assert "async def main(b: str, a: int = 1):" in printed
    again = plan_of(printed)
    assert again.goal == 'Say "hi"'
    assert [one.name for one in again.tree.inputs] == ["b", "a"]  # pyright: ignore[reportOptionalMemberAccess]


def test_what_differs_is_said_once_with_its_place() -> None:
    text = (
        '# ltp: 2\nINPUT $a: json\nINPUT $b: json\n?IF ($a == $b) THEN NOTE ("${a}")\n@RESPOND ($a == $b)\n'
    )
    printed, remarks = print_python(read_structured(text, "plan.ltp").require())
    assert "if a == b:" in printed
    assert [(one.code, one.message.split()[0]) for one in remarks] == [
        ("PYT071", "values"),
        ("PYT071", "Python"),
    ]
    assert remarks[0].span is not None
