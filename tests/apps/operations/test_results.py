"""The JSON form of every result matches its schema, for valid and invalid texts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from callsheet.api.policies import load_policy
from callsheet.api.proving import Assumptions
from callsheet.apps.operations.checking import CheckResult, check_text
from callsheet.apps.operations.lctl import LctlResult, check_blocks
from callsheet.apps.operations.proofs import ProofResult, prove_text
from callsheet.apps.operations.reading import plan_text
from callsheet.apps.operations.schema import schema_of
from callsheet.apps.operations.texts import (
    CodePage,
    DrawingFormat,
    DrawingResult,
    FormatResult,
    ParseResult,
    convert_text,
    draw,
    explain_code,
    format_text,
    parse_text,
)
from callsheet.apps.setup import Setup
from callsheet.apps.toolbox import DeclaredTools
from callsheet.diagnostics import CallsheetError
from callsheet.frontends.spelling import Syntax
from json_forms import holds
from plans import plan_texts

GOOD = (
    'S1: @READ_FILE (path="a.txt") > $text ON_FAIL @RETRY(2)\n'
    'S2: ?IF (NOT_EMPTY($text)) THEN @RESPOND ($text)\nS3: @RESPOND ("nothing")'
)
MICRO = 'read "a.txt" > text\nrespond text'
STEP = {"index": "1", "title": "Read", "tool": "read_file", "args": {"path": "a.txt"}, "depends_on": []}
DAG = json.dumps({"steps": [STEP]})
BAD = "S1: @READ_FILE (path=)\nS2: GOTO S9"
PROSE = "Here is the plan:\n\nPLAN_START\nS1: @RESPOND ($gone)\nPLAN_END\nI hope it helps."
TEXTS = (GOOD, MICRO, DAG, BAD, PROSE, "", "nothing at all", '{"ir": 1}', "{")


@pytest.fixture
def shelf(tmp_path: Path) -> DeclaredTools:
    return DeclaredTools(Setup(workspace=tmp_path, data=tmp_path / "data", discovers=False))


@pytest.mark.parametrize("text", TEXTS)
def test_results_for_any_text_match_their_schemas(text: str, shelf: DeclaredTools) -> None:
    read = plan_text(text)
    holds(parse_text(read).to_json(), schema_of(ParseResult))
    for tools in (None, shelf):
        holds(check_text(read, tools).to_json(), schema_of(CheckResult))
    holds(prove_text(read, load_policy("strict"), shelf).to_json(), schema_of(ProofResult))
    for target in Syntax:
        holds(convert_text(read, target).to_json(), schema_of(FormatResult))
    if not read.is_json:
        holds(format_text(read).to_json(), schema_of(FormatResult))
    if read.plan is not None:
        for shape in DrawingFormat:
            holds(draw(read, shape).to_json(), schema_of(DrawingResult))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(plan_texts())
def test_printed_plan_is_equal(text: str) -> None:
    """parse(format(text)) and parse(text) have one hash."""
    read = plan_text(text)
    made = format_text(read)
    assert made.formatted is not None
    again = parse_text(plan_text(made.formatted))
    assert again.to_json()["plan_hash"] == parse_text(read).to_json()["plan_hash"]
    assert not format_text(plan_text(made.formatted)).is_changed


def test_step_records_are_complete() -> None:
    first, second, _ = parse_text(plan_text(GOOD)).to_json()["steps"]
    assert (first["does"], first["sets"], first["on_fail"]) == (
        '@READ_FILE (path="a.txt")',
        "text",
        "retry 2",
    )
    assert second["when"] == "IF NOT_EMPTY($text)"


def test_errors_have_positions(shelf: DeclaredTools) -> None:
    rows = check_text(plan_text(BAD), shelf).to_json()["diagnostics"]
    assert [(row["severity"], row["line"]) for row in rows if row["severity"] == "error"] == [
        ("error", 1),
        ("error", 2),
    ]


def test_problems_use_documented_messages() -> None:
    checked = check_text(plan_text("S3: @RESPOND ($foo)"), None)
    assert checked.problems == ["[S3] Undefined variable $foo in @RESPOND args"]


def test_unknown_tools_are_reported_only_when_tools_are_checked(shelf: DeclaredTools) -> None:
    text = plan_text('S1: @NO_SUCH (x="1") > $a\nS2: @RESPOND ($a)')
    assert check_text(text, None).ok
    assert "CHK040" in {d.code for d in check_text(text, shelf).diagnostics}


def test_prose_is_dropped_with_note_and_kept_when_result_replaces_text() -> None:
    read = plan_text(PROSE)
    made = format_text(read)
    assert made.formatted is not None
    assert "hope" not in made.formatted
    assert made.diagnostics
    kept = format_text(read, keeps_all=True)
    assert kept.formatted is None
    assert all(d.is_error for d in kept.diagnostics)


def test_canonical_json_plan_is_only_converted() -> None:
    data = json.dumps(parse_text(plan_text(GOOD)).to_json()["plan"])
    read = plan_text(data)
    assert parse_text(read).to_json()["syntax"] == "json"
    with pytest.raises(CallsheetError, match="fmt does not format"):
        format_text(read)
    assert parse_text(plan_text(convert_text(read, Syntax.LTP).formatted or "")).text.plan == read.plan


def test_text_without_plan_is_not_drawn() -> None:
    with pytest.raises(CallsheetError):
        draw(plan_text(BAD))


def test_diagram_is_fenced_for_markdown() -> None:
    fenced = draw(plan_text("respond 1")).fenced
    assert fenced.startswith("```mermaid\ngraph TD\n")
    assert fenced.endswith("\n```")


def test_approval_of_missing_step_proves_nothing(shelf: DeclaredTools) -> None:
    proved = prove_text(plan_text(MICRO), load_policy("strict"), shelf, Assumptions(approved=["S7"]))
    assert proved.proof is None
    assert not proved.ok
    assert "'S7'" in proved.diagnostics[0].message


def test_policy_refusal_has_position(shelf: DeclaredTools) -> None:
    text = 'S1: @FETCH_PAGE (url="https://a.test/") > $page\nS2: @EXEC_CODE (code=$page, language="python")'
    proved = prove_text(plan_text(text), load_policy("strict"), shelf)
    assert not proved.ok
    assert proved.to_json()["violations"]


@pytest.mark.parametrize("code", ["LTP012", "chk001", "P01"])
def test_code_is_explained(code: str) -> None:
    found = explain_code(code)
    holds(found, schema_of(CodePage))
    assert found["code"] == code.upper()


def test_unknown_code_is_refused_with_nearest() -> None:
    with pytest.raises(CallsheetError) as caught:
        explain_code("LTP01")
    assert "did you mean" in (caught.value.diagnostics[0].help or "")


@pytest.mark.parametrize("blocks", [["no block"], [""], ["lctl: 1\nkind: handoff\n"]])
def test_invalid_blocks_break_rules(blocks: list[str]) -> None:
    checked = check_blocks(blocks)
    holds(checked.to_json(), schema_of(LctlResult))
    assert not checked.ok
    assert checked.lines()
