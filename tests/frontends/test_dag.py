"""JSON plans: what is accepted, what is refused, and the position of errors."""

from __future__ import annotations

import json
from typing import Any

import pytest

from callsheet.diagnostics import CallsheetError, render_all
from callsheet.frontends.dag import format_dag, parse_dag, to_dag, to_text_order
from callsheet.frontends.ltp import format_plan, parse
from callsheet.ir import (
    Call,
    Literal,
    OnFail,
    Order,
    Output,
    Plan,
    Ref,
    Respond,
    Retry,
    Step,
    Template,
    Terminate,
)

STEP: dict[str, Any] = {"index": "1", "title": "Read", "tool": "read_file", "args": {}, "depends_on": []}


def plan_text(*steps: dict[str, Any], **fields: Any) -> str:
    return json.dumps({**fields, "steps": [{**STEP, **step} for step in steps or ({},)]}, ensure_ascii=False)


def step_of(**fields: Any) -> Step:
    return parse_dag(plan_text(fields)).require().steps[0]


def argument(text: str) -> Any:
    action = step_of(args={"x": text}).action
    assert isinstance(action, Call)
    return action.named[0][1]


def codes(text: str, *, is_yaml: bool = False) -> list[str]:
    return [d.code for d in parse_dag(text, is_yaml=is_yaml).diagnostics]


def marked(text: str) -> list[tuple[str, str]]:
    """The code of each error with the text that it marks."""
    result = parse_dag(text)
    return [(d.code, text[d.span.start : d.span.end]) for d in result.diagnostics if d.span and d.is_error]


# ---------------------------------------------------------------- what is read


def test_plan_has_dependency_order_and_literal_variables() -> None:
    plan = parse_dag(plan_text(id="a-1", title="T", goal="G", variables={"n": "${x}"})).require()
    assert (plan.order, plan.id, plan.title, plan.goal) == (Order.DAG, "a-1", "T", "G")
    assert plan.variables == (("n", Literal("${x}")),)


def test_numeric_index_is_read_as_text_and_duplicates_count_once() -> None:
    plan = parse_dag(plan_text({"index": 1}, {"index": 2, "depends_on": [1, "1"]})).require()
    assert [(step.id, step.depends_on) for step in plan.steps] == [("1", ()), ("2", ("1",))]


def test_stored_form_with_tool_calls_is_same_call() -> None:
    stored = {k: v for k, v in STEP.items() if k not in ("tool", "args")}
    stored["tool_calls"] = [{"id": "c", "name": "real_tool", "args": {"a": 1}}]
    plan = parse_dag(json.dumps({"steps": [stored]})).require()
    assert plan.steps[0].action == Call("REAL_TOOL", (), (("a", Literal(1)),))


def test_when_result_and_failure() -> None:
    step = step_of(
        result_variable="r",
        when="${a.b} == 'x' OR NOT_EMPTY($c)",
        on_fail={"retry": 2, "delay": 0.5, "terminate": "no ${r}"},
    )
    assert step.output == Output("r")
    assert (
        step.condition
        == parse('S1: ?IF ($a.b == "x" OR NOT_EMPTY($c)) THEN @A ()').require().steps[0].condition
    )
    assert step.on_fail == OnFail(Retry(2, 0.5), Terminate((Template(("no ", Ref("r"))),)))


def test_respond_takes_values() -> None:
    assert step_of(tool="respond", args={"values": ["a", "${b}"]}).action == Respond((Literal("a"), Ref("b")))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${a}", Ref("a")),
        ("${a.b.0}", Ref("a", ("b", 0))),
        ("${my-var.x-rate}", Ref("my-var", ("x-rate",))),
        ("${a['odd } key'][-1]}", Ref("a", ("odd } key", -1))),
        ("x ${a} y", Template(("x ", Ref("a"), " y"))),
        ("$a $5 $( $$", Literal("$a $5 $( $$")),
        ("$${a}", Template(("$", Ref("a")))),
        (r"\${a}", Literal("${a}")),
        (r"\\${a}", Template(("\\", Ref("a")))),
        (r"\\\${a} \ \\", Literal("\\${a} \\ \\\\")),
    ],
)
def test_references_in_texts(text: str, value: object) -> None:
    assert argument(text) == value


def test_references_are_read_in_lists_and_objects() -> None:
    assert (
        argument({"k": ["${n}", {"z": "id-${n}"}]})
        == parse(  # type: ignore[arg-type]
            'S1: @A (x={"k": [$n, {"z": "id-$n"}]})'
        )
        .require()
        .steps[0]
        .action.named[0][1]
    )  # type: ignore[union-attr]


# ---------------------------------------------------------------- what is refused, and where


@pytest.mark.parametrize(
    ("field", "value", "code", "mark"),
    [
        ("args", None, "DAG011", "null"),
        ("args", [1], "DAG011", "[1]"),
        ("args", '{"a":1}', "DAG011", r'"{\"a\":1}"'),
        ("depends_on", "12", "DAG011", '"12"'),
        ("depends_on", [True], "DAG011", "true"),
        ("index", 1.0, "DAG011", "1.0"),
        ("index", "a\nb", "DAG014", r'"a\nb"'),
        ("index", " a", "DAG014", '" a"'),
        ("title", 7, "DAG011", "7"),
        ("tool", "", "DAG015", '""'),
        ("tool", "日本", "DAG015", '"日本"'),
        ("tool", "goto", "DAG015", '"goto"'),
        ("result_variable", "a b", "DAG017", '"a b"'),
        ("when", True, "DAG011", "true"),
        ("when", "日本 = 1", "LTP023", "日本 = 1"),
        ("when", "$a", "LTP042", "$a"),
        ("on_fail", {"goto": "2"}, "DAG018", '"goto"'),
        ("on_fail", {"retry": 1.5}, "DAG018", "1.5"),
        ("on_fail", {"delay": 1}, "DAG018", '"delay"'),
        ("on_fail", {}, "DAG018", "{}"),
        ("args", {"x": 'a "\\é ${b c}'}, "DAG020", "${b c}"),
        ("args", {"x": "${b"}, "DAG020", "${b"),
        ("args", {"${b}": 1}, "DAG020", '"${b}"'),
        ("resultvariable", "x", "DAG012", '"resultvariable"'),
    ],
)
def test_step_error_is_marked(field: str, value: Any, code: str, mark: str) -> None:
    assert (code, mark) in marked(plan_text({field: value}))


def test_missing_fields_are_all_named() -> None:
    (said,) = parse_dag('{"steps": [{"index": "7"}]}').diagnostics
    assert said.message == "step 7 has no title, tool, args and depends_on"


def test_all_errors_are_reported_together() -> None:
    text = plan_text(
        {"args": None}, {"index": "2", "depends_on": None, "tool": 3}, id="../x", variables=[1], steps_=1
    )
    assert sorted(codes(text)) == ["DAG011", "DAG011", "DAG011", "DAG011", "DAG012", "DAG013"]


def test_unknown_field_that_is_no_misspelling_is_warning() -> None:
    result = parse_dag(plan_text(metadata={}))
    assert [(d.code, d.is_error) for d in result.diagnostics] == [("DAG012", False)]
    assert result.plan is not None


def test_repeated_name_reports_both_positions() -> None:
    (said,) = parse_dag('{"id": "a",\n "id": "b", "steps": [1]}').diagnostics[:1]
    assert said.message == "the name 'id' occurs twice in this object: first at line 1, column 2"
    assert said.span == (13, 17)


def test_parsing_continues_after_syntax_errors() -> None:
    text = '{"steps": [ // one\n'
    text += ' {index: "1", "title": \'Read\' "tool": "t", "args": {"x": None,}, "depends_on": [],}]}'
    result = parse_dag(text)
    assert [d.code for d in result.diagnostics] == ["DAG001"] * 7
    assert [step.id for step in result.partial.steps] == ["1"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"a": [1, 2', "the [ of line 1 is not closed: ] is missing"),
        ('{"a": "b\nc"}', "this string contains a line end or another control character"),
        ('{"a": "b', "this text is not closed: its closing quote is missing"),
        (r'{"a": "\x"}', "this is not a JSON escape"),
        ('{"a" 1}', "expected : and a value after the name"),
        ('{"a": }', "a value is missing here"),
        ("{} {}", "text follows after the end of the plan"),
        ("", "this text is empty"),
        ("[" * 65 + "]" * 65, "lists and objects are nested more than 64 deep"),
        ("[" + "9" * 5_000 + "]", "this number is too large"),
        ("[1e999]", "this number is too large"),
        ("[NaN]", "NaN is not a JSON number"),
    ],
)
def test_malformed_documents_have_specific_messages(text: str, said: str) -> None:
    assert said in [d.message for d in parse_dag(text).diagnostics]


def test_diagnostic_shows_position_caret_and_hint() -> None:
    text = '{"steps": [\n  {"index": "1", "title": "日本", "tool": "t", "arg": {}, "depends_on": []}]}'
    result = parse_dag(text, "p.json")
    assert render_all([result.diagnostics[1]], result.source).splitlines() == [
        "p.json:2:46: error DAG012: step 1 has no field 'arg'",
        '  2 |   {"index": "1", "title": "日本", "tool": "t", "arg": {}, "depends_on": []}]}',
        "    |                                                ^^^^^",
        "  help: did you mean args?",
    ]


# ---------------------------------------------------------------- YAML

YAML = """\
title: Two
steps:
  - index: 1
    title: read
    tool: read_file
    args: {path: a.md, n: 1e5, t: 2026-01-02}
    depends_on: []
    result_variable: text
  - {index: 2, title: write, tool: write_file, args: {content: "é ${text}"}, depends_on: [1]}
"""


def test_yaml_is_equivalent_to_json() -> None:
    plan = parse_dag(YAML, is_yaml=True).require()
    first, second = (step.action for step in plan.steps)
    assert first == Call(
        "READ_FILE", (), (("path", Literal("a.md")), ("n", Literal(100000.0)), ("t", Literal("2026-01-02")))
    )
    assert second == Call("WRITE_FILE", (), (("content", Template(("é ", Ref("text")))),))


def test_yaml_positions_count_characters() -> None:
    text = YAML.replace("${text}", "${te xt}")
    (said,) = parse_dag(text, is_yaml=True).diagnostics
    assert said.span is not None
    assert text[said.span.start : said.span.end] == "${te xt}"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("a: &x 1\nb: *x", "DAG007"),
        ("a: !!python/object:os.system x", "DAG007"),
        ("<<: {a: 1}", "DAG007"),
        ("a: 1\n---\nb: 2", "DAG007"),
        ("a: 1\na: 2", "DAG002"),
        ("a: [1, 2", "DAG005"),
        ("steps: [${x}]", "DAG005"),
        ("a: \x07", "DAG005"),
        ("id: yes", "DAG008"),
        ("variables: {a: 012}", "DAG008"),
        ("[" * 70 + "]" * 70, "DAG003"),
        ("1: 2", "DAG011"),
        ("", "DAG005"),
    ],
)
def test_yaml_outside_json_is_refused(text: str, code: str) -> None:
    assert code in codes(text, is_yaml=True)


def test_alias_bomb_is_refused_at_first_anchor() -> None:
    bomb = "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 30))
    assert codes(bomb, is_yaml=True) == ["DAG007"]


# ---------------------------------------------------------------- writing and converting


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("S1: @A ($x)", "arguments without a name"),
        ("S1: @A () > $x:int", "the cast :int"),
        ("S1: ?FOREACH ($x IN $y) THEN @A (a=$x)", "?FOREACH"),
        ("S1: GOTO S1", "GOTO"),
        ("S1: @A () ON_FAIL GOTO S1", "ON_FAIL GOTO S1"),
        ('S1: RE-PLAN ("x")', "RE-PLAN"),
        ('S1: TERMINATE ("x")', "TERMINATE"),
        ('S1: @RESPOND ("x")\nS2: @A ()', "an answer before the last step"),
    ],
)
def test_plans_that_graph_cannot_express_are_refused_with_position(text: str, said: str) -> None:
    with pytest.raises(CallsheetError) as caught:
        to_dag(parse(text).require())
    (first, *_) = caught.value.diagnostics
    assert first.message == f"a JSON plan cannot express {said} (step S1)"
    assert first.span is not None


def test_text_plan_becomes_chain_with_concurrent_groups() -> None:
    text = "# Look\nS1: @A () > $a\n@PARALLEL {\nS2: @B (x=$a)\nS3: @C ()\n}\nS4: @RESPOND ($a, 1)"
    made = to_dag(parse(text).require())
    assert [(s.id, s.depends_on, s.title) for s in made.plan.steps] == [
        ("S1", (), "Look"),
        ("S2", ("S1",), None),
        ("S3", ("S1",), None),
        ("S4", ("S2", "S3"), None),
    ]
    assert [d.code for d in made.notes] == ["DAG071"]
    assert parse_dag(format_dag(made.plan)).require() == made.plan


def test_graph_becomes_text_by_level_with_variables_inlined() -> None:
    text = plan_text(
        {"index": "3", "tool": "c", "args": {"v": "${r}"}, "depends_on": ["1", "2"]},
        {"index": "1", "tool": "a", "args": {"u": "https://${api.host}:${api.port}/${l.0}", "o": "${api}"}},
        {"index": "2", "tool": "b", "result_variable": "r", "when": "${api.port} > 1"},
        variables={"api": {"host": "h.test", "port": 80}, "l": [True]},
    )
    made = to_text_order(parse_dag(text).require())
    assert format_plan(made.plan).splitlines()[2:-1] == [
        "@PARALLEL {",
        "  # Read",
        '  S1: @A (u="https://h.test:80/true", o={"host": "h.test", "port": 80}) ON_FAIL TERMINATE ("step 1 failed")',  # noqa: E501 - a line of the text
        "  # Read",
        '  S2: ?IF (80 > 1) THEN @B > $r ON_FAIL TERMINATE ("step 2 failed: $r")',
        "}",
        "# Read",
        '  S3: @C (v=$r) ON_FAIL TERMINATE ("step 3 failed")'.strip(),
    ]


@pytest.mark.parametrize(
    ("step", "variables", "said"),
    [
        ({"depends_on": ["1"]}, {}, "steps that wait for one another"),
        ({"args": {"x": "a ${v}"}}, {"v": {}}, "${v} inside a text, where it is neither a text nor a number"),
        ({"args": {"x": "${v.b}"}}, {"v": {}}, "a path that does not exist in ${v}"),
        ({"result_variable": "v"}, {"v": 1}, "an initial value of v, which the step overwrites"),
        ({"result_variable": "a-b"}, {}, "the variable name a-b"),
    ],
)
def test_graphs_that_text_cannot_express_are_refused_with_position(
    step: Any, variables: Any, said: str
) -> None:
    with pytest.raises(CallsheetError) as caught:
        to_text_order(parse_dag(plan_text(step, variables=variables)).require())
    assert caught.value.diagnostics[0].message == f"LTP text cannot express {said} (step 1)"


def test_long_argument_is_on_separate_lines() -> None:
    step = Step("1", Call("T", (), (("text", Literal("x" * 100)), ("n", Literal(1)))), depends_on=())
    assert format_dag(Plan((step,), Order.DAG)).splitlines()[6:10] == [
        '      "args": {',
        f'        "text": "{"x" * 100}",',
        '        "n": 1',
        "      },",
    ]
