"""Scopes of version 2: which variables live where, and what makes a loop run in order."""

import pytest

from callsheet.frontends.expressions import read_expression
from callsheet.ir.expression import Expression
from callsheet.ir.scopes import Scope, scopes_of
from callsheet.ir.statement_ids import with_ids
from callsheet.ir.tree import (
    Act,
    Assign,
    Block,
    Foreach,
    Handler,
    Input,
    Into,
    Invoke,
    Leave,
    Let,
    Recovery,
    Repeat,
    Say,
    Statement,
    SubPlan,
    Tree,
    Try,
    Word,
)
from callsheet.ir.types import Basic


def _e(text: str) -> Expression:
    return read_expression(text).expression


def _loop(*body: object, id: str = "S1", var: str = "m", source: str = "$rows") -> Foreach:  # noqa: A002
    return Foreach(id, var, _e(source), body)  # type: ignore[arg-type]


def _item(*body: object) -> Scope:
    before = (Let("", "n", _e("0")), Let("", "rows", _e("[]")))
    return scopes_of(with_ids(Tree((*before, _loop(*body))))).items["S1"]


def test_variables_belong_to_the_place_where_they_are_made() -> None:
    repeat = Repeat("S2", _e("3"), (Let("", "r", _e("1")),), until=_e("$r == 1"))
    call = Act(
        "S3", "T", into=Into("x"), recovery=Recovery(handlers=(Handler((), (Let("", "h", _e("1")),)),))
    )
    body: Block = (_loop(Let("", "a", _e("$m"))), repeat, call)
    found = scopes_of(with_ids(Tree(body, inputs=(Input("rows", Basic.JSON),))))
    assert list(found.main.names) == ["rows", "r", "x", "h"]
    assert list(found.main.bound) == ["error"]
    assert list(found.items["S1"].names) == ["m", "a"]
    assert found.places["S1"] is found.main
    assert found.places["S1.let1"] is found.items["S1"]


def test_free_variables_pass_through_inner_loops() -> None:
    inner = _loop(Let("", "b", _e("$n + $a + $k")), id="S2", var="k", source="$m")
    found = scopes_of(
        with_ids(
            Tree((Let("", "n", _e("0")), Let("", "rows", _e("[]")), _loop(Let("", "a", _e("1")), inner)))
        )
    )
    assert list(found.items["S2"].reads) == ["n", "a"]
    assert list(found.items["S1"].reads) == ["n"]
    assert not found.main.reads


def test_a_failure_of_a_handler_is_read_in_a_loop_inside_it() -> None:
    handler = Handler((), (_loop(Let("", "a", _e("[$error.message, $nothing]"))),))
    found = scopes_of(with_ids(Tree((Try("S2", (), Recovery(handlers=(handler,))),))))
    assert list(found.items["S1"].reads) == ["error"]


def test_what_makes_a_loop_run_in_order() -> None:
    assert not _item(Let("", "a", _e("$n"))).sets
    assert not _item(Assign("", "m", _e("1"))).sets, "the item's own variable"
    assert list(_item(Assign("", "n", _e("$n + 1"))).sets) == ["n"]
    assert _item(Say("", Word.RESPOND)).leaves
    assert _item(Act("S9", "T", recovery=Recovery(remedy=Leave(())))).leaves
    assert _item(Say("", Word.BREAK)).leaves
    assert not _item(Say("", Word.CONTINUE)).leaves
    assert not _item(Repeat("S2", _e("3"), (Say("", Word.BREAK),), until=_e("True"))).leaves


def test_only_what_ends_the_plan_leaves_the_loops_around() -> None:
    for word, leaves in ((Word.BREAK, False), (Word.TERMINATE, True)):
        assert _item(_loop(Say("", word), id="S2", var="k")).leaves is leaves


@pytest.mark.parametrize("inner", ["loop", "rounds"])
def test_break_in_a_handler_of_a_loop_leaves_the_loop_around(inner: str) -> None:
    recovery = Recovery(handlers=(Handler((), (Say("", Word.BREAK),)),))
    body: Block = (Act("S2", "READ"),)
    loop: Statement = Foreach("S3", "k", _e("$m"), body, recovery=recovery)
    rounds: Statement = Repeat("S3", _e("3"), body, until=_e("True"), recovery=recovery)
    assert _item(loop if inner == "loop" else rounds).leaves


def test_return_ends_its_sub_plan_alone() -> None:
    plans = (SubPlan("one", (), (Say("", Word.RETURN),)),)
    found = scopes_of(with_ids(Tree((_loop(Invoke("S2", "one"), source="[]"),), plans=plans)))
    assert not found.items["S1"].leaves
