"""Parameters of @SELECT: values that never become text of a query, in every spelling."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callsheet.frontends.dag import parse_dag
from callsheet.frontends.structured import format_structured, read_structured
from callsheet.frontends.structured.json_printer import format_structured_json
from callsheet.ir import JSON, Plan
from callsheet.ir.expr import Literal
from callsheet.ir.tree import Act
from callsheet.passes.structured import check_tree
from callsheet.ports.transforms.query import search
from callsheet.ports.transforms.work import Fault, Work

HEAD = "# ltp: 2\nINPUT $rows: list[json]\nINPUT $who: str\n"


def _plan(call: str) -> Plan:
    return read_structured(f"{HEAD}{call}\n").require()


def _query(plan: Plan) -> object:
    assert plan.tree is not None
    (act,) = plan.tree.body
    assert isinstance(act, Act)
    return dict(act.named).get("query") or act.positional[1]


@pytest.mark.parametrize(
    ("call", "query"),
    [
        ('@SELECT ($rows, query="[?name == $n]", n=$who)', "[?name == $n]"),
        ('@SELECT ($rows, "[?name == ${n}].id", n=$who)', "[?name == $n].id"),
        ('@SELECT ($rows, query="[?id == $w.id]", w={"id": 1})', "[?id == $w.id]"),
        (
            '@SELECT ($rows, query="[?name == $who]", who=$who)  # the parameter, not the input',
            "[?name == $who]",
        ),
        ('@SELECT ($rows, query="[?name == $n]", n=$who) > $x ON_FAIL CONTINUE', "[?name == $n]"),
    ],
)
def test_parameter_stays_in_the_text_of_the_query(call: str, query: str) -> None:
    plan = _plan(call)
    assert _query(plan) == Literal(query)
    text = format_structured(plan)
    assert "$" + query.partition("$")[2].partition("]")[0] in text
    assert read_structured(text).require() == plan
    assert parse_dag(format_structured_json(plan)).require() == plan
    assert plan.tree is not None
    assert [one.code for one in check_tree(plan.tree)] == []


@pytest.mark.parametrize(
    ("call", "repaired"),
    [
        (
            "@SELECT ($rows, query=\"[?name == '$who']\")",
            '@SELECT ($rows, query="[?name == $who]", who=$who)',
        ),
        ('@SELECT ($rows, "[?id > ${who}]")', '@SELECT ($rows, "[?id > $who]", who=$who)'),
        ('@CALC ("$who * 2")', "@CALC ($who * 2)"),
    ],
)
def test_value_in_the_text_of_a_query_is_an_error_with_a_fix(call: str, repaired: str) -> None:
    text = f"{HEAD}{call}\n"
    plan = read_structured(text).require()
    assert plan.tree is not None
    (found,) = check_tree(plan.tree)
    assert found.code == "CHK124"
    assert found.fix is not None
    for edit in sorted(found.fix.edits, key=lambda one: one.span, reverse=True):
        text = text[: edit.span.start] + edit.text + text[edit.span.end :]
    assert read_structured(text).require() == _plan(repaired)


@settings(max_examples=60)
@given(st.text() | st.sampled_from(["Chez L'Ami Jean", "' || '1' == '1", "`]", "$n", '"', "\\'"]))
def test_no_value_of_a_parameter_rewrites_a_query(name: str) -> None:
    rows: list[JSON] = [{"name": name, "id": 1}, {"name": name + "x", "id": 2}]
    found = search(rows, "[?name == $n && '$n' != 'x'].{id: id, name: $n}", Work(), {"n": name})
    assert found == [{"id": 1, "name": name}]


@pytest.mark.parametrize(
    ("query", "bound", "message"),
    [
        ("[?a == $n]", {}, "reads $n, which is not given"),
        ("[?a == $name]", {"name": 1, "nam": 2}, "nam is not a parameter of the query; did you mean name?"),
        ("[?a == '$n']", {"n": 1}, "the query has no $n"),
        ("[?a == $]", {}, "cannot be read"),
        ("a.$n", {"n": 1}, "out of place"),
    ],
)
def test_parameters_and_query_must_agree(query: str, bound: dict[str, int], message: str) -> None:
    with pytest.raises(Fault) as caught:
        search([], query, Work(), dict(bound))
    assert message in caught.value.message
