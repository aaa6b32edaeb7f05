"""Texts of version 2 in the faces: they are read by their header, and what knows no blocks refuses them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from callsheet import Plan
from callsheet.apps.operations.reading import plan_text
from callsheet.apps.operations.texts import format_text
from callsheet.diagnostics import CallsheetError
from callsheet.frontends.dag import format_dag, to_dag
from callsheet.frontends.ltp import format_plan, parse
from callsheet.frontends.micro import format_micro
from callsheet.frontends.spelling import Syntax, read_plan_text
from callsheet.ir.diff import diff_plans
from callsheet.ir.flow import flow_of
from callsheet.machine.forecasting import foresee
from callsheet.runtime.edits import with_arguments, with_steps
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


@pytest.mark.parametrize(
    "text", ['# ltp: 1\nS1: @RESPOND ("a")', 'S1: @RESPOND ("a")\n# ltp: 2', 'respond "# ltp: 2"']
)
def test_a_text_without_the_header_is_version_1(text: str) -> None:
    plan = read_plan_text(text).result.require()
    assert plan.tree is None


def test_the_reader_of_version_1_names_the_versions() -> None:
    (error,) = [d for d in parse("# ltp: 3\nS1: @RESPOND").diagnostics if d.is_error]
    assert (error.code, error.help) == ("LTP003", "the versions are 1 and 2: # ltp: 2")


@pytest.mark.parametrize(
    "use",
    [
        flow_of, foresee, layout_of, to_dag, format_dag, format_micro,
        format_plan,
        lambda plan: diff_plans(plan, plan),
        lambda plan: with_steps(plan, {}),
        lambda plan: with_arguments(plan, {}),
        lambda plan: Plan(plan).to_micro(),
    ],
)  # fmt: skip
def test_what_knows_no_blocks_says_so(use: Callable[[object], object]) -> None:
    with pytest.raises(CallsheetError) as caught:
        use(Plan.parse(TEXT).ir)
    assert [d.code for d in caught.value.diagnostics] == ["CFG023"]
