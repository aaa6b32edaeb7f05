"""Calls compared with signatures: names, arguments, types, and data that becomes code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from callsheet.diagnostics import Diagnostic
from callsheet.frontends.ltp import parse
from callsheet.ir import DictExpr, ListExpr, Literal, Ref, Template
from callsheet.passes import OPERATIONS, ToolSignature, check
from callsheet.passes.schema import Fit, fit

CLOSED = ToolSignature.from_schema(
    {
        "properties": {
            "url": {"type": "string"},
            "limit": {"type": "integer"},
            "kind": {"enum": ["page", "raw"]},
            "tags": {"type": "array", "items": {"type": "string"}},
            "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "size": {"type": "integer", "minimum": 1, "maximum": 9},
            "where": {"$ref": "#/$defs/Where"},
            "sort": {"allOf": [{"$ref": "#/$defs/Sort"}]},
        },
        "$defs": {
            "Sort": {"enum": ["up", "down"]},
            "Where": {
                "type": "object",
                "properties": {
                    "field": {"type": "string"},
                    "terms": {"type": "array", "items": {"type": "string"}, "minItems": 1},
                    "sort": {"$ref": "#/$defs/Sort"},
                    "not": {"$ref": "#/$defs/Where"},
                },
                "required": ["field"],
                "additionalProperties": False,
            },
        },
        "required": ["url"],
        "additionalProperties": False,
    }
)
OPEN = ToolSignature.from_schema({"properties": {"url": {}}})
UNKNOWN = ToolSignature()


def found(call: str, tools: Mapping[str, ToolSignature] | None = None) -> list[Diagnostic]:
    plan = parse(f"S1: {call} > $r\nS2: @RESPOND ($r)").plan
    assert plan is not None
    known = {"FETCH": CLOSED, "OPEN": OPEN, "ANY": UNKNOWN} if tools is None else tools
    return list(check(plan, tools=known, inputs={"x"}))


def codes(call: str) -> list[tuple[str, str]]:
    return [(d.code, str(d.severity)) for d in found(call)]


@pytest.mark.parametrize(
    "call",
    [
        '@FETCH ("u")',
        '@FETCH (url="u", limit=3, kind="raw", tags=["a", $x], maybe=null)',
        '@FETCH ("u", 3, "page", ["a"], 4)',
        "@FETCH ($x, limit=$x)",
        '@FETCH (3.0, url="u")',
        "@ANY (1, 2, 3, a=4)",
        '@FETCH ("u", size=9, sort="down", where={"field": "a", "terms": ["b"], "not": {"field": $x}})',
        '@FETCH ("u", size=$x, sort=$x, where=$x)',
        '@FETCH ("u", where={"field": $x.name, "terms": $x, "sort": "$x", "not": $x.y})',
        '@FETCH ("u", sort="d$x", tags=["a $x"])',
    ],
)
def test_valid_calls_are_not_reported(call: str) -> None:
    assert [c for c in codes(call) if c[1] == "error"] == []


@pytest.mark.parametrize(
    ("call", "code", "severity"),
    [
        ("@FETSH ($x)", "CHK040", "error"),
        ('@FETCH (url="u", lmit=3)', "CHK041", "error"),
        ('@OPEN (url="u", other=3)', "CHK041", "warning"),
        ("@FETCH ()", "CHK042", "error"),
        ('@FETCH ("u", 3, "page", [], null, 6, $x, "up", 7)', "CHK043", "error"),
        ('@FETCH ("u", "many")', "CHK044", "error"),
        ('@FETCH ("u", "3")', "CHK044", "warning"),
        ('@FETCH ("u", kind="odd")', "CHK044", "error"),
        ('@FETCH ("u", tags=[{}])', "CHK044", "error"),
        ('@FETCH ("u", tags="a $x")', "CHK044", "error"),
        ('@FETCH ("u", maybe=[])', "CHK044", "error"),
        ("@FETCH (5)", "CHK044", "warning"),
        ('@FETCH ("u", size=0)', "CHK044", "error"),
        ('@FETCH ("u", size=10)', "CHK044", "error"),
        ('@FETCH ("u", sort="sideways")', "CHK044", "error"),
        ('@FETCH ("u", where="name")', "CHK044", "error"),
        ('@FETCH ("u", where={})', "CHK042", "error"),
        ('@FETCH ("u", where={"field": "a", "terms": []})', "CHK044", "error"),
        ('@FETCH ("u", where={"field": "a", "fild": $x})', "CHK041", "error"),
        ('@FETCH ("u", where={"field": "a", "not": {"field": "b", "not": {}}})', "CHK042", "error"),
    ],
)
def test_calls_violating_declaration_are_reported(call: str, code: str, severity: str) -> None:
    assert codes(call) == [(code, severity)]


def test_unknown_names_suggest_nearest() -> None:
    assert found("@FETSH ($x)")[0].help == "did you mean @FETCH?"
    assert found('@FETCH (url="u", lmit=3)')[0].help == "did you mean limit?"


@pytest.mark.parametrize(
    ("call", "message", "help_"),
    [
        (
            '@FETCH ("u", tags=["a", {}])',
            "the argument tags[1] of @FETCH should be string",
            None,
        ),
        (
            '@FETCH ("u", where={"field": "a", "not": {"fild": "b", "field": 7}})',
            "@FETCH has no argument where.not.fild",
            "did you mean field?",
        ),
        (
            '@FETCH ("u", where={"terms": ["b"]})',
            "@FETCH lacks its argument where.field",
            'add "field": … to it',
        ),
        (
            '@FETCH ("u", size=0)',
            "the argument size of @FETCH should be integer (minimum 1, maximum 9)",
            None,
        ),
        ('@FETCH ("u", maybe="x")', "the argument maybe of @FETCH should be integer or null", None),
    ],
)
def test_position_within_argument_is_named(call: str, message: str, help_: str | None) -> None:
    assert (message, help_) in [(d.message, d.help) for d in found(call)]


def test_error_within_argument_has_position() -> None:
    text = 'S1: @FETCH ("u", tags=["a", {}]) > $r\nS2: @RESPOND ($r)'
    (finding,) = check(parse(text).require(), tools={"FETCH": CLOSED})
    assert finding.span is not None
    assert text[finding.span.start : finding.span.end] == "{}"


def test_tools_are_not_unknown_without_catalogue() -> None:
    plan = parse("S1: @WHATEVER (a=1) > $r\nS2: @RESPOND ($r)").plan
    assert plan is not None
    assert check(plan) == ()


def test_tool_may_check_its_literals_beyond_schema() -> None:
    tools = {"Q": ToolSignature(("query",), check_literal=lambda name, said: f"{name} {said!r} is odd")}

    (finding,) = found('@Q ("a[")', tools)
    assert (finding.code, finding.message) == (
        "CHK045",
        "the argument query of @Q is not valid: query 'a[' is odd",
    )
    assert found("@Q ($x)", tools) == []


def test_classify_needs_its_categories() -> None:
    assert codes("@LLM_CLASSIFY ($x)") == [("CHK042", "error")]


def test_extra_arguments_are_accepted_and_misspelled_one_is_warning() -> None:
    assert codes('@LLM_CLASSIFY ($x, categories=["a"], tone="warm")') == [("CHK041", "hint")]
    assert codes('@LLM_EXTRACT ($x, targte="name", target="t")') == [("CHK041", "warning")]


@pytest.mark.parametrize("tool", sorted(OPERATIONS))
def test_operation_with_data_and_required_arguments_is_valid(tool: str) -> None:
    operation = OPERATIONS[tool]
    given = ", ".join(["$x", *(f'{name}=["a"]' for name in operation.required + operation.expected)])
    assert codes(f"@{tool} ({given})") == []


@pytest.mark.parametrize(
    ("reads", "reported"),
    [
        ('["data/in.csv", "./src/**", "."]', False),
        ('["../x"]', True),
        ('["docs", "/etc/passwd"]', True),
        ('["~/x"]', True),
        ('["$x"]', False),
        ("$x", False),
    ],
)
def test_declared_files_are_in_the_workspace(reads: str, reported: bool) -> None:
    plan = parse(f'S1: @EXEC_CODE (code="f()", reads={reads})\nS2: @RESPOND ("x")').plan
    assert plan is not None
    assert ("CHK045" in [d.code for d in check(plan, inputs={"x"})]) is reported


@pytest.mark.parametrize(
    ("call", "reported"),
    [
        ('@EXEC_CODE (code="print($x)")', True),
        ("@EXEC_CODE ($x)", True),
        ("@HOST_EXEC (command=$x)", True),
        ('@EXEC_CODE (code="print(1)", note=$x)', False),
        ("@READ_FILE (path=$x)", False),
    ],
)
def test_data_in_code_is_warning(call: str, reported: bool) -> None:
    plan = parse(f'S1: {call}\nS2: @RESPOND ("x")').plan
    assert plan is not None
    assert ("CHK050" in [d.code for d in check(plan, inputs={"x"})]) is reported


@pytest.mark.parametrize(
    ("value", "schema", "expected"),
    [
        (Ref("x"), {"type": "integer"}, Fit.YES),
        (Literal(2.0), {"type": "integer"}, Fit.YES),
        (Literal(2.5), {"type": "integer"}, Fit.NO),
        (Literal(2), {"type": "number"}, Fit.YES),
        (Literal(True), {"type": "integer"}, Fit.NO),
        (Literal(True), {"enum": [1]}, Fit.NO),
        (Literal("a"), {"const": "b"}, Fit.NO),
        (Template(("a", Ref("x"))), {"type": "object"}, Fit.NO),
        (Template(("1", Ref("x"))), {"type": "number"}, Fit.LOOSELY),
        (ListExpr((Literal(1),)), {"type": "array", "items": {"type": "string"}}, Fit.LOOSELY),
        (Literal("a"), {"type": ["string", "null"]}, Fit.YES),
        (Literal("a"), {"oneOf": [{"type": "integer"}, {"type": "string"}]}, Fit.YES),
        (Literal("a"), {"type": 7, "enum": 5, "anyOf": 3}, Fit.YES),
        (Literal("a"), {"$ref": "#/nowhere"}, Fit.YES),
        (Literal("a"), {"$ref": "#"}, Fit.YES),
        (Literal("a"), {"$ref": "https://elsewhere.test/schema"}, Fit.YES),
        (Literal("abc"), {"maxLength": 2}, Fit.NO),
        (Literal(True), {"minimum": 7}, Fit.YES),
        (Literal("x"), {"minimum": 7}, Fit.YES),
        (DictExpr((("a", Literal(1)),)), {"required": ["a"]}, Fit.YES),
        (DictExpr((("a", Literal(1)),)), {"additionalProperties": {"type": "boolean"}}, Fit.NO),
    ],
)
def test_values_are_checked_against_schemas(value: Any, schema: dict[str, Any], expected: Fit) -> None:
    assert fit(value, schema) is expected


LISTING = ToolSignature.from_schema({"properties": {}}, gives_list=True)
TAKES = ToolSignature.from_schema(
    {
        "properties": {
            "text": {"type": "string"},
            "tags": {"$ref": "#/$defs/Tags"},
            "any": {},
            "both": {"anyOf": [{"type": "string"}, {"type": "array"}]},
            "neither": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "all": {"allOf": [{"type": ["string", "object"]}]},
        },
        "$defs": {"Tags": {"type": "array"}},
    }
)


@pytest.mark.parametrize(
    ("before", "argument", "is_told"),
    [
        ("@ANY () > $l:list", "text=$l", True),
        ("@ANY () > $l:list", "$l", True),
        ("@ANY () > $l:list", 'text="$l"', True),
        ("@ANY () > $l:list", "neither=$l", True),
        ("@ANY () > $l:list", "all=$l", True),
        ("@LIST () > $l", "text=$l", True),
        ("?FOREACH ($i IN [1]) THEN @ANY ($i) > $l", "text=$l", True),
        ("@ANY () > $l:list", 'text="all: $l"', False),
        ("@ANY () > $l:list", "text=$l.0", False),
        ("@ANY () > $l:list", "tags=$l", False),
        ("@ANY () > $l:list", "any=$l", False),
        ("@ANY () > $l:list", "both=$l", False),
        ("@ANY () > $l", "text=$l", False),
        ("@LIST () > $l:json", "text=$l", False),
        ("@ANY () > $x:list", "text=$x", False),
    ],
)
def test_list_where_no_list_is_allowed_is_reported(before: str, argument: str, is_told: bool) -> None:
    plan = parse(f"S1: {before}\nS2: @TAKES ({argument}) > $r\nS3: @RESPOND ($r)").plan
    assert plan is not None
    tools = {"ANY": UNKNOWN, "LIST": LISTING, "TAKES": TAKES}
    said = [d for d in check(plan, tools=tools, inputs={"x"}) if d.code == "CHK044"]
    assert bool(said) is is_told
    assert all(str(d.severity) == "warning" and "is a list, and the argument" in d.message for d in said)


def test_argument_matching_pattern_properties_is_known() -> None:
    closed = {"properties": {"url": {}}, "additionalProperties": False}
    tools = {"CLOSED": ToolSignature.from_schema(closed)}
    tools["PATTERN"] = ToolSignature.from_schema({**closed, "patternProperties": {"^x_": {}}})
    assert [d.code for d in found("@CLOSED (x_a=1)", tools)] == ["CHK041"]
    assert found("@PATTERN (x_a=1)", tools) == []


def test_undeclared_argument_has_additional_properties_schema() -> None:
    tools = {"T": ToolSignature.from_schema({"additionalProperties": {"type": "integer"}})}
    assert found("@T (any=5)", tools) == []
    assert [d.code for d in found('@T (any="five")', tools)] == ["CHK044"]


def test_argument_without_matching_pattern_is_unknown() -> None:
    schema = {"patternProperties": {"^x_": {"type": "integer"}}, "additionalProperties": False}
    tools = {"LOAD": ToolSignature.from_schema(schema)}
    plan = parse('S1: @LOAD (x_a=1, y="b") > $b\nS2: @LOAD (x_a="t") > $c\nS3: @RESPOND ($b, $c)').require()
    assert [(d.step, d.code, d.message) for d in check(plan, tools=tools) if d.is_error] == [
        ("S1", "CHK041", "@LOAD has no argument y"),
        (
            "S2",
            "CHK044",
            "the argument x_a of @LOAD should be integer",
        ),
    ]


RANGE = {
    "type": "object",
    "properties": {"from": {"type": "integer"}, "to": {"type": "integer"}, "day": {"type": "string"}},
    "oneOf": [{"required": ["from", "to"]}, {"required": ["day"]}],
}


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ("from=1, to=2", None),
        ("from=$a, to=2", None),
        ('day="x"', None),
        ("from=1", "object with from and to or object with day"),
        ("from=$a", "object with from and to or object with day"),
        ('from=1, to=2, day="x"', "valid by `oneOf` of its schema: "),
    ],
)
def test_arguments_have_to_fit_together(arguments: str, wanted: str | None) -> None:
    plan = parse(f"S1: @LOAD ({arguments}) > $b\nS2: @RESPOND ($b)").require()
    found = check(plan, inputs=["a"], tools={"LOAD": ToolSignature.from_schema(RANGE)})
    told = [(d.code, d.message) for d in found if d.is_error]
    assert len(told) == (wanted is not None), told
    for code, message in told:
        assert code == "CHK044"
        assert message.startswith(f"the arguments of @LOAD should be {wanted}")
