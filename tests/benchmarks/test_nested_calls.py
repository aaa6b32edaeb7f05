"""Gold sequences of nested calls become plans that make the same calls."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from benchmarks.nested_calls.__main__ import converted, executed, main
from benchmarks.nested_calls.convert import Row, plan_of, rows_of, value_of
from benchmarks.nested_calls.functions import function_tools, worked_out
from benchmarks.nested_calls.tokens import compiled, lean_text, react

from callsheet import Runtime
from callsheet.ir import Literal, Ref


def call(tool: str, label: str, *args: Any) -> dict[str, Any]:
    return {"tool": tool, "label": label, "args": {f"arg_{n}": value for n, value in enumerate(args)}}


MATH = {
    "id": "own-1",
    "goal": "A square has the area of a rectangle of 8 by 18. How long is half of its edge?",
    "tools": ["multiply", "sqrt", "divide", "add"],
    "calls": [
        call("multiply", "var_1", 8, 18),
        call("sqrt", "var_2", "$var_1.result$"),
        call("divide", "var_3", "$var_2.result$", 2),
        call("add", "var_4", "$var_3.result$", 0.5),
    ],
    "gold_answer": 6.5,
    "run": "nestful_functions",
}
TOOLS = [
    {
        "name": name,
        "description": f"Works out {name}.",
        "input_schema": {
            "type": "object",
            "properties": {f"arg_{n}": {"type": "number"} for n in range(1 if name == "sqrt" else 2)},
        },
    }
    for name in ("multiply", "sqrt", "divide", "add")
]
MAIL = {
    "id": "own-2",
    "goal": "Tell Ada what the newest ticket is about.",
    "tools": [{"name": "Tickets.Newest", "input_schema": {"type": "object", "properties": {}}}],
    "calls": [
        {"tool": "Tickets.Newest", "label": "var1", "args": {}},
        {
            "tool": "send_mail",
            "label": "var2",
            "args": {"to": ["ada"], "text": "About: $var1.rows[0].short text$"},
        },
    ],
    "gold_answer": None,
    "run": "expressible-only",
}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, (MATH, MAIL))) + "\n", encoding="utf-8")
    known = {"math": {tool["name"]: tool for tool in TOOLS}}
    (tmp_path / "nested_calls_catalogue.json").write_text(json.dumps(known), encoding="utf-8")
    return path


@pytest.fixture
def rows(data: Path) -> list[Row]:
    return [row for row in rows_of(data) if isinstance(row, Row)]


def test_references_in_data_become_plan_references() -> None:
    assert value_of("$var_1.result$") == Ref("var_1", ("result",))
    assert value_of("$5 and $6") == Literal("$5 and $6")
    assert value_of({"a": ["$x.rows[2].name$"]}).items[0][1].items[0] == Ref("x", ("rows", 2, "name"))  # type: ignore[union-attr]


def test_sequence_runs_to_gold_answer(rows: list[Row]) -> None:
    outcome = executed(rows[0], Runtime(tools=function_tools(), builtins=False))
    assert (outcome.is_right, outcome.wrong) == (True, "")
    assert outcome.results["var_2"] == {"result": 12}


def test_different_answer_is_reported(rows: list[Row]) -> None:
    wrong = {**MATH, "gold_answer": 7.5}
    row = Row("own", wrong["goal"], rows[0].tools, rows[0].calls, 7.5, True)  # type: ignore[arg-type]
    outcome = executed(row, Runtime(tools=function_tools(), builtins=False))
    assert (outcome.is_right, outcome.wrong) == (False, "6.5 is not 7.5")


def test_every_row_parses_and_validates(rows: list[Row]) -> None:
    assert [converted(row).wrong for row in rows] == ["", ""]
    assert plan_of(rows[1]).steps[0].action.tool == "TICKETS_NEWEST"  # type: ignore[union-attr]


def test_every_function_has_tool_and_sqrt_is_integer() -> None:
    assert len(function_tools()) == 40
    assert worked_out("sqrt", [10]) == 3
    assert worked_out("reminder", [17, 5]) == 2


def test_bad_rows_are_reported_and_the_others_measured(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = [
        "{not json",
        json.dumps({"id": "no-calls"}),
        json.dumps({**MATH, "id": "text", "gold_answer": "many"}),
        json.dumps({**MATH, "id": "unset", "calls": [call("add", "v", 1, "$gone.result$")]}),
        json.dumps({**MATH, "id": "unknown", "calls": [call("no such tool", "v", 1)]}),
    ]
    good = data.read_text(encoding="utf-8")
    data.write_text("\n".join(bad) + "\n" + good, encoding="utf-8")
    assert main([str(data)]) == 1
    printed = capsys.readouterr()
    assert "1 of 4 executable sequences give the gold answer" in printed.out
    for name in ("line 1", "line 2", "text", "unset", "unknown"):
        assert f"  {name}: " in printed.err


def test_command_prints_figures(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(data)]) == 0
    printed = capsys.readouterr().out
    assert "1 of 1 executable sequences give the gold answer" in printed
    assert "2 of 2 convert" in printed


def test_loop_resends_history_and_plan_does_not(rows: list[Row]) -> None:
    row = rows[0]
    results = executed(row, Runtime(tools=function_tools(), builtins=False)).results
    plan, loop, wide = compiled(row), *(react(row, results, side_by_side=wide) for wide in (False, True))
    assert (plan.calls, loop.calls, wide.calls) == (1, 5, 5)
    assert plan.cold < loop.cold
    assert plan.fresh < plan.read
    assert lean_text(row).splitlines()[1] == "S2: @sqrt (arg_0=$v1.result) > $v2"
