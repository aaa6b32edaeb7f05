"""`Plan`: parsed from every syntax, equal by meaning, all errors at once."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given

from callsheet import CallsheetError, Findings, Plan, PlanError, parse, tool
from strategies import plans

LTP = """\
# ltp: 1
PLAN_START
S1: @WEB_SEARCH (query="tea") > $hits
S2: @RESPOND ($hits)
PLAN_END
"""
MICRO = 'search "tea" > hits\nrespond $hits\n'


@tool(effect="read")
def web_search(query: str) -> list[str]:
    return [query]


# ------------------------------------------------------------ reading and writing


def test_same_plan_in_every_syntax_has_one_hash() -> None:
    ltp, micro = Plan.parse(LTP), Plan.parse(MICRO)
    data = Plan.from_json(ltp.to_json())
    text = Plan.from_json(json.dumps(ltp.to_json()))
    assert ltp == micro == data == text == parse(LTP)
    assert {ltp.hash, micro.hash, data.hash, text.hash} == {ltp.hash}
    assert len({ltp, micro, data, text}) == 1


def test_different_plans_differ() -> None:
    assert Plan.parse(LTP) != Plan.parse(LTP.replace("tea", "coffee"))


def test_plan_is_written_in_every_syntax() -> None:
    plan = Plan.parse(MICRO)
    assert plan.to_ltp() == str(plan) == LTP
    assert plan.to_micro() == MICRO
    assert plan.to_mermaid().startswith("graph TD")


def test_json_plan_round_trips(tmp_path: Path) -> None:
    graph = Plan.parse(LTP).to_dag()
    plan = Plan.parse(graph)
    assert plan == Plan.parse(graph, syntax="dag") == Plan.parse(str(plan))
    assert [step.depends_on for step in plan.steps] == [(), ("S1",)]
    assert plan.to_dag() == graph
    assert Plan.parse(plan.to_ltp()).step("S1").action == Plan.parse(LTP).step("S1").action  # type: ignore[union-attr]
    assert "search" in plan.to_micro()
    for name in ("p.yaml", "p.yml"):
        (tmp_path / name).write_text(
            'steps:\n- {index: 1, title: "", tool: web_search, args: {query: tea}, depends_on: []}\n'
        )
        (step,) = Plan.load(tmp_path / name).steps
        assert step.id == "1"


def test_positional_arguments_get_parameter_names_of_tools() -> None:
    plan = Plan.parse('S1: @WEB_SEARCH ("tea")')
    assert '"args": {"query": "tea"}' in plan.to_dag(tools=[web_search])
    with pytest.raises(CallsheetError, match="DAG070"):
        plan.to_dag()


@given(plans())
def test_written_plan_parses_to_same_plan(ir: object) -> None:
    plan = Plan(ir)  # type: ignore[arg-type]
    assert Plan.from_json(json.loads(json.dumps(plan.to_json(), ensure_ascii=False))) == plan
    assert Plan.parse(plan.to_ltp(), syntax="ltp") == plan


def test_named_syntax_is_not_guessed() -> None:
    with pytest.raises(PlanError, match="LTP002"):
        Plan.parse(MICRO, syntax="ltp")
    with pytest.raises(ValueError, match="'auto', 'ltp', 'micro', 'dag'"):
        Plan.parse(MICRO, syntax="yaml")  # type: ignore[arg-type]


def test_bare_word_may_name_input() -> None:
    (step,) = Plan.parse("respond city", inputs={"city"}).steps
    assert step == Plan.parse("respond $city").steps[0]


@pytest.mark.parametrize(
    ("name", "text"),
    [("p.ltp", LTP), ("p.micro", MICRO), ("p.txt", MICRO), ("p", LTP), ("p.ltp", "\ufeff" + LTP)],
)
def test_file_is_read_by_path_or_from_text(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    plan = Plan.load(tmp_path / name)
    assert plan == Plan.parse(LTP)
    assert plan.source is not None
    assert plan.source.name == str(tmp_path / name)


def test_file_of_canonical_json_is_read(tmp_path: Path) -> None:
    (tmp_path / "p.json").write_text(json.dumps(Plan.parse(LTP).to_json()))
    assert Plan.load(str(tmp_path / "p.json")) == Plan.parse(LTP)


def test_loose_spellings_are_in_notes() -> None:
    plan = Plan.parse("S1: @RESPOND ('x')")
    assert {d.code for d in plan.notes} == {"LTP101", "LTP108"}
    assert not Plan.parse(LTP).notes


def test_plan_is_immutable_and_has_repr() -> None:
    plan = Plan.parse(LTP, name="tea.ltp")
    with pytest.raises(AttributeError):
        plan.ir = plan.ir  # type: ignore[misc]
    assert repr(plan) == f"<Plan tea.ltp, 2 steps, {plan.hash[:12]}>"
    assert [step.id for step in plan.steps] == ["S1", "S2"]
    assert plan.step("S2") is plan.steps[1]
    assert plan.step("S9") is None


def test_inexpressible_plan_is_refused_with_code() -> None:
    plan = Plan.parse('S1: @NOTIFY (channel="#eng", text="hi")\nS3: @RESPOND ("x")')
    with pytest.raises(CallsheetError) as caught:
        plan.to_micro()
    assert caught.value.diagnostics[0].code == "MIC070"


# ------------------------------------------------------------ what is wrong


def test_error_has_every_diagnostic_with_position() -> None:
    with pytest.raises(PlanError) as caught:
        Plan.parse('S1: @READ_FILE (path=)\nS2: @RESPOND ("ok")\nS3: ?IF ($x >> 1) THEN @A ()', name="p.ltp")
    error = caught.value
    assert [d.code for d in error.diagnostics if d.is_error] == ["LTP022", "LTP041"]
    assert error.source is not None
    rows = [
        (row["source"], row["line"], row["column"]) for row in error.to_json() if row["severity"] == "error"
    ]
    assert rows == [("p.ltp", 1, 22), ("p.ltp", 3, 13)]
    shown = str(error).splitlines()
    assert shown[0].startswith("p.ltp:1:22: error LTP022: ")
    assert shown[1:3] == ["  1 | S1: @READ_FILE (path=)", "    |                      ^"]


def test_ltp_steps_cause_ltp_errors() -> None:
    with pytest.raises(PlanError) as caught:
        Plan.parse("S1: @READ (\nS2: @X (a=)\nhello")
    assert {d.code[:3] for d in caught.value.diagnostics if d.is_error} == {"LTP"}
    (hint,) = [d for d in caught.value.diagnostics if d.code == "CFG020"]
    assert hint.help == 'syntax="micro" reads it as Micro-CLI'


def test_shorthand_causes_shorthand_errors() -> None:
    with pytest.raises(PlanError) as caught:
        Plan.parse('serch "tea"\nrespond 1')
    (wrong,) = [d for d in caught.value.diagnostics if d.is_error]
    assert (wrong.code, wrong.help) == ("MIC012", "did you mean search?")


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda p: None, "CFG012"),
        (lambda p: p.mkdir(), "CFG012"),
        (lambda p: p.write_bytes(b"\xff\xfe"), "CFG012"),
        (lambda p: p.write_text(""), "LTP001"),
    ],
)
def test_file_without_plan_raises_plan_error(
    tmp_path: Path, make: Callable[[Path], object], code: str
) -> None:
    make(tmp_path / "p.ltp")
    with pytest.raises(PlanError) as caught:
        Plan.load(tmp_path / "p.ltp")
    assert [d.code for d in caught.value.diagnostics] == [code]


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"ir": 99, "steps": []}', "[" * 100_000])
def test_json_without_plan_is_reported(text: str) -> None:
    with pytest.raises(PlanError, match="CFG001"):
        Plan.from_json(text)


# ------------------------------------------------------------ checking


def test_valid_plan_has_no_findings() -> None:
    found = Plan.parse(LTP).check(tools=[web_search])
    assert found == Findings((), found.source)
    assert found.ok
    assert not found
    assert str(found) == ""
    found.raise_for_errors()


def test_findings_support_queries() -> None:
    plan = Plan.parse('S1: @WEB_SEARCH (qery="tea", n=$n) > $hits\nS2: GOTO S9', name="p.ltp")
    found = plan.check(tools=[web_search])
    assert not found.ok
    assert {d.code for d in found.errors} >= {"CHK041", "CHK012"}
    assert "CHK001" in {d.code for d in found.warnings}
    assert len(found) == len(found.errors) + len(found.warnings) + len(found.hints)
    assert found[0] in list(found)
    assert "p.ltp:2:5: error CHK012" in str(found)
    assert {row["code"] for row in found.to_json()} == {d.code for d in found}
    with pytest.raises(PlanError) as caught:
        found.raise_for_errors()
    shown = str(caught.value)
    assert shown.index("error CHK012") < shown.index("warning CHK015") < shown.index("warning CHK001")


def test_tools_are_unknown_only_when_tools_are_given() -> None:
    plan = Plan.parse(LTP)
    assert plan.check().ok
    (unknown,) = plan.check(tools=[]).errors
    assert (unknown.code, unknown.help) == ("CHK040", "it is a built-in tool: Runtime(builtins=True)")


def test_inputs_count_as_set_and_hint_is_for_programs() -> None:
    plan = Plan.parse('S1: @RESPOND ("Hello", $name)')
    assert not plan.check(inputs={"name"})
    (unset,) = plan.check()
    assert unset.help == "it is null here; give it with inputs={'name': …} or set it with a step"
