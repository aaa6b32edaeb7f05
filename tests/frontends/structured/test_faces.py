"""Texts of version 2 in the faces: they are read by their header, and what knows no blocks refuses them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from callsheet import Plan
from callsheet.apps.operations.reading import plan_text
from callsheet.apps.operations.texts import format_text
from callsheet.diagnostics import CallsheetError
from callsheet.frontends.dag import format_dag, parse_dag, to_dag
from callsheet.frontends.ltp import format_plan, parse
from callsheet.frontends.spelling import Syntax, read_plan_text
from callsheet.frontends.structured import format_structured, read_structured
from callsheet.frontends.structured.json_form import structured_schema
from callsheet.frontends.structured.lines import REMEDIES, WORDS
from callsheet.ir import Plan as IrPlan
from callsheet.ir.diff import diff_plans
from callsheet.ir.flow import flow_of
from callsheet.views.lanes import layout_of

TEXT = """# ltp: 2
S1: @READ_FILE (path="a.txt") > $a
?IF ($a) {
  S2: @WRITE_FILE (path="b.txt", content=$a)
  NOTE ("written")
}
S3: @RESPOND ($a)
"""


def test_a_text_is_read_and_printed_by_its_header(tmp_path: Path) -> None:
    path = tmp_path / "plan.ltp"
    path.write_text(TEXT, encoding="utf-8")
    plan = Plan.load(path)
    assert plan == Plan.parse(TEXT) == Plan.parse(TEXT, syntax="ltp")
    assert str(plan) == plan.to_ltp() == TEXT
    assert Plan.from_json(plan.to_json()) == plan
    assert format_text(plan_text(TEXT.replace("    ", " "))).formatted == TEXT


@pytest.mark.parametrize("before", ["\ufeff", "\n\n# about\n", "Here is the plan:\n\n```ltp\n"])
def test_the_header_may_follow_comments_and_prose(before: str) -> None:
    reading = read_plan_text(f"{before}{TEXT}")
    assert reading.syntax is Syntax.LTP
    assert reading.result.require().tree is not None


def test_fences_and_prose_around_a_plan_are_left_out_with_a_hint() -> None:
    reading = read_plan_text(f"Here is the plan:\n```ltp\n{TEXT}```\nIt reads a file.\n")
    assert str(Plan(reading.result.require())) == TEXT
    assert [d.code for d in reading.result.diagnostics] == ["LTP103", "LTP103"]
    assert read_plan_text("# LTP: 2\nLET $x = 1\n@RESPOND ($x)\n").result.require().tree is not None
    early = read_plan_text('@PAY (to="a")\n# ltp: 2\n@RESPOND (1)\n').result
    assert [d.code for d in early.diagnostics if d.is_error] == ["LTP003"]  # it is not left out in silence


@pytest.mark.parametrize(
    "text", ['# ltp: 1\nS1: @RESPOND ("a")', 'S1: @RESPOND ("a")\n# ltp: 2', 'respond "# ltp: 2"']
)
def test_a_text_without_the_header_is_version_1(text: str) -> None:
    plan = read_plan_text(text).result.require()
    assert plan.tree is None


def test_the_reader_of_version_1_names_the_versions() -> None:
    (error,) = [d for d in parse("# ltp: 3\nS1: @RESPOND").diagnostics if d.is_error]
    assert (error.code, error.help) == ("LTP003", "the versions are 1 and 2: # ltp: 2")


_USES: list[Callable[[IrPlan], object]] = [
    flow_of, layout_of, to_dag, format_dag,
    format_plan,
    lambda plan: diff_plans(plan, parse("S1: @RESPOND (1)").require()),
]  # fmt: skip


@pytest.mark.parametrize("use", _USES)
def test_what_knows_no_blocks_says_so(use: Callable[[IrPlan], object]) -> None:
    with pytest.raises(CallsheetError) as caught:
        use(Plan.parse(TEXT).ir)
    assert [d.code for d in caught.value.diagnostics] == ["CFG023"]


def test_plans_convert_between_text_and_json() -> None:
    plan = Plan.parse(TEXT)
    data = plan.to_dag()
    assert json.loads(data)["ltp"] == 2
    again = Plan.parse(data)
    assert again == plan
    assert again.to_ltp() == TEXT
    assert Plan.parse(data, syntax="dag") == plan
    assert format_text(plan_text(data.replace("  ", " "))).formatted == data


NESTED = """# ltp: 2
TRY {
  @A
} ON_FAIL {
  TRY {
    @B
  } ON_FAIL%s {
    @C (t=$%s)
  }
  @D (t=$error)
}
"""


@pytest.mark.parametrize(
    ("bound", "printed"),
    [
        (("", "error"), ("", "error")),
        ((" AS $error_2", "error_2"), ("", "error")),
        ((" AS $error_2", "error"), (" AS $error_2", "error")),
        ((" AS $other", "other"), (" AS $other", "other")),
    ],
)
def test_a_nested_handler_is_printed_as_people_write_it(bound: tuple[str], printed: tuple[str]) -> None:
    plan = Plan.parse(NESTED % bound)
    assert str(plan) == NESTED % printed
    assert Plan.parse(str(plan)) == Plan.parse(plan.to_dag()) == plan
    assert ('"as"' in plan.to_dag()) == bool(printed[0])


def test_titles_of_json_plans_are_comments_in_text() -> None:
    step = {"id": "S1", "tool": "a", "title": "Read it"}
    data = json.dumps({"ltp": 2, "steps": [{"if": "1 < 2", "then": [step, {"break": True}]}]})
    assert Plan.parse(data).to_ltp() == "# ltp: 2\n?IF (1 < 2) {\n  # Read it\n  S1: @A\n  BREAK\n}\n"


def test_the_page_on_json_plans_has_a_good_example() -> None:
    page = (Path(__file__).parents[3] / "docs" / "dag.md").read_text("utf-8").split("## Version 2")[1]
    (text,) = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    plan = Plan.parse(text)
    assert not plan.notes
    assert str(plan).splitlines()[6] == '  ?IF ($m.kind == "urgent") {'


def test_the_published_schema_is_that_of_the_table() -> None:
    page = Path(__file__).parents[3] / "docs" / "plan.schema.json"
    assert json.loads(page.read_text("utf-8")) == structured_schema()
    Draft202012Validator.check_schema(structured_schema())


@pytest.mark.parametrize(
    ("steps", "code", "marked"),
    [
        ('{"let": "n", "value": {"=": "len($r"}}', "DAG021", '"'),
        ('{"note": "\\u00e9 ${a +}"}', "DAG021", "}"),
        ('{"if": "$x = 3", "then": []}', "DAG021", "="),
        ('{"tool": "a", "depends_on": ["S1"]}', "DAG023", '"depends_on"'),
        ('{"tool": "a", "type": "number", "result": "x"}', "DAG022", '"number"'),
        ('{"foo": 1}', "DAG016", "{"),
        ('{"if": "1", "then": [], "els": []}', "DAG012", '"els"'),
        ('{"tool": "pay", "when": "$x > 1"}', "DAG012", '"when"'),
        ('{"tool": "pay", "respond": 1}', "DAG012", '"respond"'),
        ('{"repeat": 3, "do": []}', "DAG010", "{"),
        ('{"tool": "a", "on_fail": {"use": 1, "skip": true}}', "DAG018", '{"use": 1, "skip": true}'),
        ('{"let": "1x", "value": 1}', "DAG017", '"1x"'),
        ('{"id": "S1", "tool": "a"}, {"id": "S1", "tool": "b"}', "DAG024", '{"id": "S1", "tool": "b"}'),
        ('3', "DAG011", "3"),
    ],
)  # fmt: skip
def test_errors_in_json_have_their_place(steps: str, code: str, marked: str) -> None:
    text = f'{{"ltp": 2, "steps": [{steps}]}}'
    (error,) = [d for d in parse_dag(text).diagnostics if d.is_error]
    assert error.code == code
    assert error.span is not None
    assert text[slice(*error.span)] == marked
    if error.fix is not None and code == "DAG023":
        (edit,) = error.fix.edits
        assert parse_dag(text[: edit.span.start] + edit.text + text[edit.span.end :]).plan is not None


VERSION_2 = (Path(__file__).parents[3] / "docs" / "version2.md").read_text("utf-8")


@pytest.mark.parametrize("text", re.findall(r"^```ltp\n(.*?)^```", VERSION_2, re.MULTILINE | re.DOTALL))
def test_the_page_on_version_2_has_canonical_plans(text: str) -> None:
    result = read_plan_text(text).result
    assert not result.diagnostics
    assert str(Plan(result.require())) == text
    assert not Plan(result.require()).check().errors


def test_the_page_on_version_2_names_every_word() -> None:
    words = {*WORDS, *REMEDIES} - {"GOTO"}
    assert {word for word in words if word not in VERSION_2} == set()


@pytest.mark.parametrize(
    ("said", "helps"),
    [
        ('"$who"', ['{"=": "$who"} is its value, in a text it is ${who}']),
        ('"for $who.name"', ["in a text it is ${who}"]),
        ('"${who} has $5 and $other"', []),
    ],
)
def test_literal_reference_in_json_is_told_where_a_variable_has_that_name(
    said: str, helps: list[str]
) -> None:
    text = f'{{"ltp": 2, "inputs": [{{"name": "who", "type": "json"}}], "steps": [{{"respond": [{said}]}}]}}'
    found = [each for each in parse_dag(text).diagnostics if each.code == "DAG025"]
    assert [each.help for each in found] == helps
    assert not any(each.is_error for each in found)


def test_long_calls_have_a_line_for_each_argument_and_sub_plans_stand_apart() -> None:
    long = "a" * 60
    text = f"""# ltp: 2
INPUT $x: str

PLAN twice ($a: str, $b: str) -> str {{
  RETURN ($a + $b)
}}

S1: @PUT (
  path="{long}",
  content="${{x}} {long}"
) > $put ON_FAIL CONTINUE  # kept
?IF ($x == "a") {{
  CALL twice (
    a="{long}",
    b="{long}"
  )
}}
S2: @PUT (path="{long}", content=$x)
"""
    plan = read_structured(text).require()
    assert format_structured(plan) == text
    on_one_line = re.sub(r",\n +", ", ", re.sub(r"\(\n +", "(", re.sub(r"\n *\)", ")", text)))
    assert read_structured(on_one_line).require() == plan
    assert format_structured(read_structured(on_one_line).require()) == text
