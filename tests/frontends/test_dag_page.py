"""The documentation of JSON plans and the published schema, compared with the parser."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from jsonschema import Draft202012Validator
from tests.dag_plans import dag_plans

from callsheet.frontends.dag import format_dag, json_schema, parse_dag
from callsheet.ir import Plan
from callsheet.passes import check
from callsheet.views.terminal import terminal_graph

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "dag.md").read_text("utf-8")
STEP: dict[str, Any] = {"index": "1", "title": "Read", "tool": "read_file", "args": {}, "depends_on": []}
VALIDATOR = Draft202012Validator(json_schema())


def test_page_example_is_valid_canonical_and_drawn_as_shown() -> None:
    (text,) = re.findall(r"```json plan\n(.*?)```", PAGE, re.DOTALL)
    (picture,) = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
    plan = parse_dag(text).require()
    assert check(plan) == ()
    assert format_dag(plan) == text
    assert terminal_graph(plan) == picture.rstrip("\n")


def test_published_schema_is_that_of_parser() -> None:
    assert json.loads((DOCS / "dag.schema.json").read_text("utf-8")) == json_schema()
    Draft202012Validator.check_schema(json_schema())


@given(dag_plans())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_printed_plans_match_schema(plan: Plan) -> None:
    VALIDATOR.validate(json.loads(format_dag(plan)))


@pytest.mark.parametrize(
    "step",
    [
        *({name: None} for name in ("index", "title", "tool", "args", "depends_on")),
        {"args": []},
        {"args": "{}"},
        {"depends_on": "1"},
        {"depends_on": [1.5]},
        {"depends_on": [True]},
        {"index": ""},
        {"index": "a\nb"},
        {"index": " a"},
        {"index": 1.5},
        {"title": 1},
        {"tool": "日本"},
        {"tool_calls": [{"name": "t", "args": {}}]},
        {"tool": None, "args": None, "tool_calls": []},
        {"tool": None, "args": None, "tool_calls": [{"name": "t", "args": {}}, {"name": "u", "args": {}}]},
        {"tool": None, "args": None, "tool_calls": [{"name": "t"}]},
        {"result_variable": "a b"},
        {"when": 1},
        {"on_fail": {}},
        {"on_fail": {"retry": -1}},
        {"on_fail": {"retry": True}},
        {"on_fail": {"delay": 1}},
        {"on_fail": {"goto": "2"}},
        {"on_fail": "retry"},
        {"result_varible": "a"},
    ],
)
def test_plans_that_parser_refuses_do_not_match_schema(step: dict[str, Any]) -> None:
    made = {name: value for name, value in {**STEP, **step}.items() if value is not None}
    plan = {"steps": [made]}
    assert parse_dag(json.dumps(plan)).plan is None
    assert not VALIDATOR.is_valid(plan)


@pytest.mark.parametrize(
    "step",
    [
        {},
        {"index": 7, "depends_on": []},
        {"title": ""},
        {
            "result_variable": "a-b",
            "when": "$a == 1",
            "on_fail": {"retry": 0, "backoff": 1.5, "terminate": ""},
        },
        {"tool": "server.tool-name", "args": {"x": {"y": [None, "${z}"]}}},
        {"tool": "respond", "args": {"values": []}},
        {"tool": None, "args": None, "tool_calls": [{"id": "c", "name": "t", "args": {}}]},
    ],
)
def test_plans_that_parser_accepts_match_schema(step: dict[str, Any]) -> None:
    made = {name: value for name, value in {**STEP, **step}.items() if value is not None}
    plan = {"id": "p", "variables": {"v": [1]}, "steps": [made]}
    assert parse_dag(json.dumps(plan)).plan is not None
    VALIDATOR.validate(plan)
    null = {**plan, "steps": [{"result_variable": None, "when": None, "on_fail": None, **made}]}
    assert parse_dag(json.dumps(null)).plan is not None
    VALIDATOR.validate(null)


@pytest.mark.parametrize(
    "plan", [[], {}, {"steps": {}}, {"steps": [], "id": "A"}, {"steps": [], "variables": [1]}]
)
def test_other_documents_are_refused_by_parser_and_schema(plan: Any) -> None:
    assert parse_dag(json.dumps(plan)).plan is None
    assert not VALIDATOR.is_valid(plan)
