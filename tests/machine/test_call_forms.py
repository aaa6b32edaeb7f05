"""Calls that differ only in texts and in the names of their variables have one form."""

from __future__ import annotations

import pytest

from callsheet.frontends.ltp import parse
from callsheet.machine import Program, compile_plan


def compiled(*calls: str) -> Program:
    steps = [f"S{number}: {call}" for number, call in enumerate(calls, 1)]
    return compile_plan(parse("\n".join(["PLAN_START", *steps, "PLAN_END"])).require())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('@SEND (to="ada", body=$a)', '@SEND (to="eve", body=$b)'),
        ('@SEND (body="Dear $a: $b")', '@SEND (body="$b, $c")'),
        ('@SEND (body=["x", $a])', '@SEND (body=[$b, "y", "z"])'),
        ("@SEND (body=$a.name)", "@SEND (body=$a.0)"),
        ('@LLM_SUMMARIZE ($a, focus="x")', '@LLM_SUMMARIZE ($b, focus="y")'),
    ],
)
def test_texts_and_names_of_variables_are_no_part_of_a_form(one: str, other: str) -> None:
    first, second = compiled(one, other).steps
    assert first.form == second.form


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("@SEND (body=$a)", "@MAIL (body=$a)"),
        ("@SEND (body=$a)", "@SEND (text=$a)"),
        ("@SEND (body=$a)", '@SEND (body="x")'),
        ("@SEND (body=$a)", "@SEND (body=[$a])"),
        ("@SEND (body=$a)", '@SEND (body="x $a")'),
        ('@SEND (body="$a$b")', '@SEND (body="$a $b")'),
        ("@SEND (to=$a, body=$a)", "@SEND (to=$a, body=$b)"),
        ("@SEND (to=$a, body=$b)", "@SEND (body=$b, to=$a)"),
        ("@SEND (body=$a)", "@SEND (body=$a) ON_FAIL @RETRY(1)"),
    ],
)
def test_all_else_is_part_of_a_form(one: str, other: str) -> None:
    first, second = compiled(one, other).steps
    assert first.form != second.form


def test_read_slots_are_in_order_of_use() -> None:
    program = compiled('@READ ("q") > $a', '@READ ("q") > $b', '@SEND (to=$b, body="$a and $b")')
    assert program.steps[2].read_slots == (program.slot_of["b"], program.slot_of["a"])
