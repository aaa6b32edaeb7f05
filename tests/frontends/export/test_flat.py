"""Flat JSON plans: the schema is within providers' limits, and valid answers parse as plans."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
from benchmarks.grammars.catalogue import OPERATIONS, TOOLS, signatures
from benchmarks.grammars.matching import Matcher

from callsheet.diagnostics import CODES, explain
from callsheet.frontends.export import ExportOptions, ToolShape, plan_schema, read_flat
from callsheet.frontends.ltp import format_plan
from callsheet.passes import check

OPTIONS = ExportOptions(max_steps=6, operations=OPERATIONS)
READ = ToolShape(
    "read_file",
    {
        "type": "object",
        "properties": {"path": {"type": "string"}, "rows": {"type": "array", "items": {"type": "integer"}}},
        "required": ["path"],
    },
)


def flat(*steps: dict[str, Any]) -> str:
    return json.dumps(
        {"steps": [{"args": [], "out": "", "retries": 0, "on_fail": "", **step} for step in steps]}
    )


def said(name: str, value: Any) -> dict[str, Any]:
    return {"name": name, "value": value}


def ref(name: str, to: str) -> dict[str, Any]:
    return {"name": name, "ref": to}


WHOLE = flat(
    {"tool": "read_file", "args": [said("path", "notes.md")], "out": "v1"},
    {"each": "v1.rows", "when": "", "tool": "llm_extract", "out": "v2",
     "args": [ref("data", "item"), said("target", "the day")]},
    {"each": "", "when": 'NOT_EMPTY($v2) AND $v1.n == "x"', "tool": "respond",
     "args": [said("text", "$v1.title, for $5 and $nobody:"), ref("text", "v2")]},
    {"tool": "calc", "args": [said("expression", "$v1.n * 2")], "out": "v3", "retries": 2,
     "on_fail": "no sum of $v1.n"},
    {"tool": "terminate", "args": [said("text", "None: ${v3.sum}x")]},
)  # fmt: skip


def test_flat_plan_parses_to_its_plan() -> None:
    plan = read_flat(WHOLE, [READ], options=OPTIONS).require()
    assert format_plan(plan).splitlines()[2:-1] == [
        'S1: @READ_FILE (path="notes.md") > $v1',
        'S2: ?FOREACH ($item IN $v1.rows) THEN @LLM_EXTRACT ($item, target="the day") > $v2',
        'S3: ?IF (NOT_EMPTY($v2) AND $v1.n == "x") THEN @RESPOND ("$v1.title, for $5 and \\$nobody:", $v2)',
        'S4: @CALC ("$v1.n * 2") > $v3 ON_FAIL @RETRY(2) TERMINATE ("no sum of $v1.n")',
        'S5: TERMINATE ("None: ${v3.sum}x")',
    ]


def test_jumps_and_replans_are_flat_steps_on_request() -> None:
    options = ExportOptions(jumps=True, replans=True)
    text = flat(
        {"each": "", "when": "", "tool": "read_file", "args": [said("path", "a")], "out": "v1"},
        {"each": "", "when": "IS_EMPTY($v1)", "tool": "goto", "args": [said("step", "S1")]},
        {"each": "", "when": "$v1 == 1", "tool": "goto", "args": [said("step", 5)]},
        {"each": "", "when": "", "tool": "respond", "args": [ref("text", "v1")]},
        {"each": "", "when": "", "tool": "replan", "args": [said("text", "no $v1")]},
    )
    jsonschema.validate(json.loads(text), plan_schema([READ], options))
    plan = read_flat(text, [READ], options=options).require()
    assert format_plan(plan).splitlines()[3:-1] == [
        "S2: ?IF (IS_EMPTY($v1)) THEN GOTO S1",
        "S3: ?IF ($v1 == 1) THEN GOTO S5",
        "S4: @RESPOND ($v1)",
        'S5: RE-PLAN ("no $v1")',
    ]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(json.loads(text), plan_schema([READ]))


def test_jump_to_missing_step_is_left_to_checks() -> None:
    text = flat({"tool": "goto", "args": [said("step", "S9")]}, {"tool": "respond", "args": []})
    assert "CHK012" in {d.code for d in check(read_flat(text, []).require()) if d.is_error}


def test_text_plan_converts_to_flat_list() -> None:
    text = flat(
        {"tool": "read_file", "args": [said("path", "[1]"), said("rows", "[1, 2]")], "out": "v1"},
        {"tool": "respond", "args": [ref("text", "$v1")]},
    )
    plan = read_flat(text, [READ]).require()
    assert format_plan(plan).splitlines()[2] == 'S1: @READ_FILE (path="[1]", rows=[1, 2]) > $v1'


def test_valid_documents_match_schema_and_llguidance() -> None:
    schema = plan_schema([READ], OPTIONS)
    whole = json.loads(WHOLE)
    for step in whole["steps"]:
        step.setdefault("each", "")
        step.setdefault("when", "")
    jsonschema.validate(whole, schema)
    order = ("each", "when", "tool", "args", "out", "retries", "on_fail")
    steps = [{key: step[key] for key in order} for step in whole["steps"]]
    text = json.dumps({"steps": steps}, separators=(", ", ": "))
    assert Matcher.of_schema(schema).takes(text)


@pytest.mark.parametrize(
    "step",
    [
        {"tool": "write_file"},
        {"tool": "respond", "args": [{"name": "text", "value": "a", "ref": "v1"}]},
        {"tool": "respond", "args": [{"name": "text"}]},
        {"tool": "respond", "args": [], "out": "page"},
        {"tool": "respond", "note": "why"},
        {"tool": "respond", "retries": "2"},
    ],
)
def test_invalid_documents_do_not_match_schema(step: dict[str, Any]) -> None:
    schema = plan_schema([READ], OPTIONS)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(
            {"steps": [{"each": "", "when": "", "args": [], "out": "", "retries": 0, "on_fail": "", **step}]},
            schema,
        )


@pytest.mark.parametrize(
    ("fields", "printed"),
    [
        ({"retries": None, "on_fail": None}, ""),
        ({"retries": 3.0, "on_fail": " "}, " ON_FAIL @RETRY(3)"),
        ({"on_fail": "gone"}, ' ON_FAIL TERMINATE ("gone")'),
    ],
)
def test_failures_of_flat_steps_are_handled(fields: dict[str, Any], printed: str) -> None:
    text = flat({"tool": "read_file", "args": [said("path", "a")], "out": "v1", **fields})
    line = format_plan(read_flat(text, [READ]).require()).splitlines()[2]
    assert line == f'S1: @READ_FILE (path="a") > $v1{printed}'


@pytest.mark.parametrize("retries", [-1, 0.5, "2", True, []])
def test_number_of_retries_must_be_count(retries: Any) -> None:
    result = read_flat(flat({"tool": "read_file", "args": [], "retries": retries}), [READ])
    assert [d.code for d in result.diagnostics] == ["GRM001"]


# ---------------------------------------------------------------- the limits of providers


def _schemas(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        yield schema
        for part in schema.values():
            yield from _schemas(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from _schemas(part)


@pytest.mark.parametrize("count", [1, 7, 60])
def test_schema_stays_within_provider_limits_for_any_tools(count: int) -> None:
    """Anthropic: 20 strict tools, 24 optional and 16 union parameters. OpenAI: all required, 1,000 names."""
    tools = [ToolShape(f"{tool.name}_{n}", tool.parameters) for n in range(count) for tool in TOOLS][:count]
    every = list(_schemas(plan_schema(tools, OPTIONS)))
    objects = [schema for schema in every if schema.get("type") == "object"]
    assert all(schema["required"] == list(schema["properties"]) for schema in objects)
    assert all(schema["additionalProperties"] is False for schema in objects)
    assert sum("anyOf" in schema or isinstance(schema.get("type"), list) for schema in every) <= 16
    assert sum(len(schema.get("enum", [])) for schema in every) < 1_000
    words = {word for schema in every for word in schema if isinstance(schema.get("type"), str)}
    assert words <= {"type", "properties", "required", "additionalProperties", "items", "enum", "description"}


def test_operations_and_tools_are_named_once() -> None:
    names = plan_schema(TOOLS, OPTIONS)["properties"]["steps"]["items"]["properties"]["tool"]["enum"]
    assert len(names) == len(set(names)) == len(TOOLS) + len(OPERATIONS) + 2


# ---------------------------------------------------------------- answers that are no plan


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "DAG001"),
        ("Here is the plan:", "DAG001"),
        ("[]", "GRM001"),
        ('{"steps": []}', "GRM001"),
        ('{"steps": ["respond"]}', "GRM001"),
        ('{"steps": [{"tool": 3, "args": [], "out": ""}]}', "GRM001"),
        ('{"steps": [{"tool": "respond", "args": {}, "out": ""}]}', "GRM001"),
        ('{"steps": [{"tool": "x", "args": [], "out": "a b"}]}', "GRM001"),
        ('{"steps": [{"tool": "x", "args": [], "out": "", "why": ""}]}', "GRM001"),
        (flat({"tool": "x", "args": ["a"]}), "GRM002"),
        (flat({"tool": "x", "args": [{"name": "a"}]}), "GRM002"),
        (flat({"tool": "x", "args": [ref("a", "v1 + v2")]}), "GRM002"),
        (flat({"tool": "x", "args": [said("a", 1), said("a", 2)]}), "GRM002"),
        (flat({"tool": "x", "each": "all of them"}), "GRM002"),
        (flat({"tool": "x", "when": "$v1 is nice"}), "LTP041"),
        (flat({"tool": "goto", "args": [said("step", "the end")]}), "GRM010"),
        (flat({"tool": "goto", "args": [ref("step", "v1")]}), "GRM010"),
        (flat({"tool": "goto"}), "GRM010"),
    ],
)
def test_invalid_flat_plan_is_reported_with_position(text: str, code: str) -> None:
    result = read_flat(text, [READ])
    assert result.plan is None
    assert code in {d.code for d in result.diagnostics}
    assert all(d.span is not None for d in result.diagnostics)


def test_unset_variable_and_unknown_tool_are_left_to_checks() -> None:
    text = flat(
        {"tool": "read_page", "args": [ref("url", "v3")], "out": "v1"}, {"tool": "respond", "args": []}
    )
    found = {d.code for d in check(read_flat(text, TOOLS).require(), tools=signatures())}
    assert {"CHK001", "CHK040"} <= found


@pytest.mark.parametrize("code", [code for code in CODES if code.startswith("GRM")])
def test_page_examples_are_correct(code: str) -> None:
    page = explain(code) or ""
    bad, good = (re.findall(rf"^```json {kind}\n(.*?)^```", page, re.M | re.S) for kind in ("bad", "good"))
    assert bad
    assert good
    assert all(code in {d.code for d in read_flat(text, []).diagnostics} for text in bad)
    assert all(read_flat(text, []).diagnostics == () for text in good)
