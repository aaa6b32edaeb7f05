"""Plans printed as Python: the same calls with the same results, or the user is told."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.frontends.python.generator import Generator, SharingGenerator
from tests.frontends.python.office import interpreted, read
from tests.frontends.python.test_programs import PROGRAMS
from tests.machine.test_tree_laws import by_the_machine, by_the_reference
from tests.structured_plans import programs, trees

from callsheet.diagnostics import CallsheetError, Diagnostic
from callsheet.frontends.python import read_python
from callsheet.frontends.python.printing.printer import print_python
from callsheet.frontends.structured import format_structured, read_structured
from callsheet.ir import Plan

NOT_PRINTED = {
    "calls side by side that change their own items": "run side by side",
    "calls side by side that change the items of a field": "run side by side",
    "helper changes a parameter": "may be the same object",
    "argument that a helper puts into another one and changes then": "may be the same object",
    "items of a list that is read after an async helper changed them": "may be the same object",
    "items of a list of the caller, changed until one fails": "belongs to the caller",
    "items of a list of the file, changed by an async helper": "may share",
    "an async helper changes what has more than one name": "may share",
    "parts of what an async helper changes": "may share",
}


def plan_of(text: str) -> Plan:
    return read(text).require()


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
    plan = read(source).plan
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
    assert any(
        text in refused
        for text in ("while a loop goes through it", "more than once", "may share", "may be the same object")
    )


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(programs(stops=True))
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


BOOKING = """from callsheet import replan, undo


async def main(day: str) -> str:
    async with undo(create_event='delete_event(event_id=result.id)'):
        event = await create_event(day=day)
        await invite(event=event['id'])
    return await replan(f'what follows on {day}')
"""


@pytest.mark.parametrize("text", [EXPECTED, BOOKING])
def test_printed_text_is_the_one_that_a_person_would_write(text: str) -> None:
    plan = read_python(text).require()
    printed, remarks = print_python(plan)
    assert not remarks
    assert printed == text


def test_tool_that_is_called_as_a_keyword_has_its_name_with_a_line_behind_it() -> None:
    text = "async def main(path: str):\n    found = await import_(path=path)\n    return found\n"
    plan = read_python(text).require()
    assert [step.call.tool for step in plan.steps if step.call] == ["IMPORT"]
    assert print_python(plan)[0] == text


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


@pytest.mark.parametrize(
    ("body", "printed"),
    [
        ('@RESPOND ([$r.a.b ?? "none", $r.k.m ?? 1])', "(r.get('a') or {}).get('b')"),
        ("@RESPOND ([$r.zip?, $r.k?.m, $r.zip?.a.b])", "r.k.m if r.get('k') is not None else None"),
        ("@RESPOND ([$r.l[0]?, $r.l[7]? ?? 3, $r.l[-1]?, $r.l[-9]?])", "if len(r.l) >= 9 else None"),
        (
            "?FOREACH ($i IN range(30)) {\n@READ ($i) > $x\nYIELD ($x)\n} > $found ON_FAIL SKIP\n"
            "@RESPOND ($found)",
            "        except Exception:\n            pass",
        ),
        (
            "?FOREACH ($i IN range(30)) {\n@READ ($i) > $x ON_FAIL CONTINUE\n"
            "YIELD (None if FAILED($x) else $x)\n} > $found\n@RESPOND ($found)",
            "None if isinstance(x, Exception) else x",
        ),
        (
            "?FOREACH ($i IN [10, 16, 0]) {\n@READ ($i) > $x ON_FAIL CONTINUE\n?IF (FAILED($x)) {\n"
            "YIELD ($x.error)\nCONTINUE\n}\nYIELD ($x.kind ?? $x.k)\n"
            "} > $found\n@RESPOND ($found)",
            "x.get('kind')",
        ),
        (
            "TRY {\n?REPEAT (max=2) {\nLET $x = 1\n} UNTIL ($x > 1)\n} ON_FAIL ROUNDS {\n"
            '@RESPOND ("too many")\n}\n@RESPOND ("done")',
            "    except AssertionError:",
        ),
        ('?IF (True) {\nTERMINATE ("early")\n}\n@RESPOND (1)', "return 'early'"),
        (
            'TRY {\n@KEEP (1) > $x\n} ON_FAIL UNDO (keep="read(x=call.x)")\n@RESPOND ($x)',
            "    async with undo(keep='read(x=call.x)'):\n        x = await keep(1)",
        ),
        (
            '@RESPOND ([find_all("[a-z]", "a1b"), v1.text({"a": None}, "a"), str($r.k)])',
            "ltp.find_all('[a-z]', 'a1b'), ltp.v1.text({'a': None}, 'a'), ltp.str(r.k)",
        ),
        (
            "TRY {\n@READ (1) > $x\n@KEEP ($x) > $y\n} ON_FAIL @RETRY(2, delay=0)\n@RESPOND ($y)",
            "        if attempt > 2:\n                raise",
        ),
        (
            "?FOREACH ($i IN [1]) {\n@READ ($i) > $x\nYIELD ($x.none)\n} > $all ON_FAIL USE ([])\n"
            "@RESPOND ($all)",
            "    except Exception:\n        all_ = []",
        ),
        (
            "LET $n = 0\n?REPEAT (max=5) {\nSET $n = $n + 1\n?IF ($n < 3) {\nCONTINUE\n}\n@READ ($n)\n"
            "} UNTIL ($n > 3)\n@RESPOND ($n)",
            "            if n > 3:\n                break\n            continue",
        ),
        ("""@RESPOND ("${'\\n'.join(['a', 'b'])}!")""", "return "),
        ('@READ ("in-order"=1) > $x\n@RESPOND (1)', "await read(**{'in-order': 1})"),
    ],
)
def test_what_python_has_no_word_for_is_said_in_others(body: str, printed: str) -> None:
    text = f'# ltp: 2\nLET $r = {{"k": {{"m": 3}}, "l": [1, 2]}}\n{body}\n'
    plan = read_structured(text, "plan.ltp").require()
    python, _ = print_python(plan)
    assert printed in python
    ended, answer, calls = by_the_machine(plan)
    assert ended == "done"
    assert by_the_reference(read_python(python).require()) == (ended, answer, calls)


def test_format_is_a_text_in_python() -> None:
    text = '# ltp: 2\nINPUT $n: int\n@FORMAT ("a ${n}") > $f\n@RESPOND ($f)\n'
    assert "f = f'a {n}'" in print_python(read_structured(text).require())[0]


def test_inputs_and_waits_about_time_are_values_of_their_types() -> None:
    text = (
        '# ltp: 2\nINPUT $day: date = "2026-11-29"\nINPUT $at: datetime? = None\n'
        'INPUT $most: duration = "1h30m"\nWAIT ($most)\nWAIT ("2m")\n'
        '?REPEAT (max=3, every="1s") {\nNOTE ("x")\n} UNTIL (True)\n@RESPOND ($day)\n'
    )
    plan = read_structured(text).require()
    printed, _ = print_python(plan)
    assert "day: date = date(2026, 11, 29), at: datetime | None = None" in printed
    assert "most: timedelta = timedelta(hours=1, minutes=30)" in printed
    assert [line.strip() for line in printed.splitlines() if "sleep" in line] == [
        "await asyncio.sleep(most.total_seconds())", "await asyncio.sleep(120)", "await asyncio.sleep(1)",
    ]  # fmt: skip
    again = read_python(printed).require()
    assert again.tree is not None
    assert plan.tree is not None
    assert again.tree.inputs == plan.tree.inputs


def test_records_and_secret_inputs_return() -> None:
    text = (
        "# ltp: 2\nTYPE Person = {name: str, mail: str?}\nTYPE Ticket = {id: int, by: Person?}\n"
        "INPUT SECRET $token: str\nINPUT $tickets: list[Ticket]\n@RESPOND ([$token, $tickets])\n"
    )
    plan = read_structured(text).require()
    printed, remarks = print_python(plan)
    assert "class Ticket(TypedDict):\n    id: int\n    by: NotRequired[Person | None]" in printed
    assert "token: Secret[str], tickets: list[Ticket]" in printed
    assert not remarks
    again = read_python(printed).require()
    assert again.tree == plan.tree


def test_functions_of_ltp_text_stand_in_expressions_alone() -> None:
    head = "from callsheet import ltp\nasync def main(x: str):\n    return "
    for code, line in (("PYT008", "ltp.findall('a', x)"), ("PYT026", "ltp.match('a', x) % '%s' % x")):
        assert [one.code for one in read_python(f"{head}{line}\n").diagnostics] == [code]


def test_a_failure_that_ends_the_run_is_raised_where_nothing_else_catches_it() -> None:
    text = '# ltp: 2\n@FAULTY (1) > $x ON_FAIL TERMINATE ("no")\n@RESPOND ($x)\n'
    printed, remarks = print_python(read_structured(text).require())
    assert "    except Exception:\n        raise Exception('no')" in printed
    assert [one.code for one in remarks] == ["PYT071"]
    inside = '# ltp: 2\nTRY {\n@FAULTY (1) ON_FAIL TERMINATE ("no")\n} ON_FAIL {\nNOTE ("x")\n}\n'
    printed, _ = print_python(read_structured(inside).require())
    assert "        except Exception:\n            return 'no'" in printed
