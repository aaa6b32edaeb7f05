"""Plan trees: ids, the canonical form, and what is inside a statement."""

import json
from dataclasses import replace

import pytest

from callsheet.diagnostics import CallsheetError
from callsheet.frontends.expressions import read_expression
from callsheet.ir import plan_from_json, plan_hash, plan_to_json
from callsheet.ir.expression import Expression
from callsheet.ir.statement_ids import with_ids
from callsheet.ir.tree import (
    Act,
    Again,
    Branch,
    Foreach,
    Handler,
    If,
    Input,
    Into,
    Let,
    Recovery,
    Say,
    SubPlan,
    Tree,
    Word,
    all_statements,
)
from callsheet.ir.tree_edits import plan_of_tree
from callsheet.ir.types import Basic, ListOf, Maybe, Record


def _e(text: str) -> Expression:
    return read_expression(text).expression


TREE = with_ids(
    Tree(
        body=(
            Act(
                "S1",
                "LIST",
                named=(("box", _e("1 + $box.size")),),
                into=Into("rows", Maybe(ListOf(Basic.INT))),
                recovery=Recovery(
                    Again(3, 0.5), handlers=(Handler(("denied",), (Say("", Word.NOTE, (_e("'no'"),)),)),)
                ),
            ),
            If("S2", (Branch(_e("$rows and len($rows) == 2"), (Let("", "z", _e('"${$box:.2f}"')),)),)),
            Foreach(
                "S3",
                "m",
                _e("[r.id for r in $rows if r.kind]"),
                (Let("", "a", _e("1")), Let("", "b", _e("2")), Say("", Word.YIELD, (_e('{"a": $m.id}'),))),
                together=True,
                most=3,
                into=Into("found"),
            ),
        ),
        inputs=(Input("box", Basic.JSON, {"is": [1]}, is_required=False),),
        types=(("Ticket", Record((("id", Basic.INT),))),),
        plans=(SubPlan("triage", (), (Say("", Word.RETURN, (_e("1"),)),)),),
    )
)


def test_each_statement_has_an_id_of_its_place() -> None:
    ids = [one.id for one in all_statements(TREE)]
    assert ids == [
        "triage.return1", "S1", "S1.note1", "S2", "S2.let1", "S3", "S3.let1", "S3.let2", "S3.yield1",
    ]  # fmt: skip


def test_the_canonical_form_is_read_back() -> None:
    plan = plan_of_tree(TREE, goal="Answer")
    data = json.loads(json.dumps(plan_to_json(plan)))
    assert data["ir"] == 2
    read = plan_from_json(data)
    assert read == plan
    assert plan_hash(read) == plan_hash(plan)
    assert [step.id for step in read.steps] == ["S1"]


def test_a_number_and_a_truth_are_different_plans() -> None:
    one, true = (plan_of_tree(replace(TREE, body=(Let("l", "x", _e(text)),))) for text in ("1", "True"))
    assert plan_hash(one) != plan_hash(true)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("body", 0, "tool"), 3, "/tree/body/0/tool: expected a value of another type, found the number 3"),
        (("body", 1, "is"), "Iff", "/tree/body/1: unknown or misplaced the string 'Iff'"),
        (("body", 2, "body", 0, "extra"), 1, "/tree/body/2/body/0: unknown field 'extra'"),
        (
            ("inputs", 0, "type"),
            "text",
            "/tree/inputs/0/type: expected a value of another type",
        ),
    ],
)
def test_other_data_is_refused_with_its_place(
    path: tuple[str | int, ...], value: object, message: str
) -> None:
    data = json.loads(json.dumps(plan_to_json(plan_of_tree(TREE))))
    place = data["tree"]
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = value
    with pytest.raises(CallsheetError, match="canonical JSON") as caught:
        plan_from_json(data)
    assert message in str(caught.value)
