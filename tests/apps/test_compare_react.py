"""`compare-react`: one goal as a plan and as a loop, with the same model, tools and checks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from callsheet.apps.cli.main import main

TOOLS = '''
from callsheet import tool

@tool(effect="read")
def price(item: str) -> int:
    """The price of an item in euros."""
    return {"pen": 2, "ink": 5}[item]
'''
MODEL = '''
import json

def answer(messages):
    """Compile the goal to two calls, or make them one after another, or together where that is offered."""
    rules = messages[0]["content"]
    if "You reach a goal with tools" not in rules:
        return 'S1: @price (item="pen") > $v1\\nS2: @price (item="ink") > $v2\\nS3: @respond ("$v1 and $v2")'
    said = sum(m["role"] == "assistant" for m in messages)
    calls = [{"tool": "price", "args": {"item": item}} for item in ("pen", "ink")]
    if '"calls"' in rules:
        return json.dumps({"calls": calls} if said == 0 else {"finish": "2 and 5"})
    return json.dumps(calls[said] if said < 2 else {"finish": "2 and 5"})

def is_right(text):
    return text == "2 and 5"
'''


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    (tmp_path / "tools.py").write_text(TOOLS)
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "empty.json").write_text('{"mcpServers": {}}')
    (tmp_path / "config.toml").write_text("")
    monkeypatch.setenv("CALLSHEET_CONFIG", str(tmp_path / "config.toml"))
    model, tools, servers = (str(tmp_path / name) for name in ("model.py", "tools.py", "empty.json"))
    return ["--tools", tools, "--mcp-config", servers, "--model", f"{model}:answer"]


def test_three_approaches_are_reported_with_costs(sources: list[str]) -> None:
    said = CliRunner().invoke(
        main, ["compare-react", "What do they cost?", *sources, "--expect", "2 and 5", "--json"]
    )
    assert said.exit_code == 0, said.output
    plan, loop, parallel = json.loads(said.stdout)["ways"]
    assert [way["solved"] for way in (plan, loop, parallel)] == [1, 1, 1]
    assert [way["calls"] for way in (plan, loop, parallel)] == [2, 2, 2]
    assert [way["model_calls"] for way in (plan, loop, parallel)] == [1, 3, 2]
    assert (plan["compiling"], plan["repairs"], plan["replans"]) == (1, 0, 0)


def test_attempts_are_averaged_over_solved_ones(sources: list[str]) -> None:
    line = ["compare-react", "What?", *sources, "--times", "3", "--expect", "2 and 5", "--json"]
    plan, loop, _ = json.loads(CliRunner().invoke(main, line).stdout)["ways"]
    assert (plan["solved"], plan["model_calls"], plan["calls"]) == (3, 3, 6)
    assert (plan["per_solved"]["model_calls"], loop["per_solved"]["model_calls"]) == (1, 3)
    assert [attempt["calls"] for attempt in plan["attempts"]] == [2, 2, 2]


ROUNDABOUT = '''
from callsheet import ModelAnswer

def answer(messages):
    """A plan with a fault, its repair which plans anew, the new plan; as a loop nothing but wrong answers."""
    if "You reach a goal with tools" in messages[0]["content"]:
        return ModelAnswer("I would look it up.", 10, 5)
    if "look closer" in messages[-1]["content"]:
        return ModelAnswer('S1: @price (item="pen") > $v1\\nS2: @respond ($v1)', 100, 20)
    if "cannot be used" in messages[-1]["content"]:
        return ModelAnswer('S1: RE-PLAN ("look closer")', 100, 20)
    return ModelAnswer('S1: @cost (item="pen") > $v1\\nS2: @respond ($v1)', 100, 20)
'''


def test_repairs_and_new_plans_count_for_plan(sources: list[str], tmp_path: Path) -> None:
    (tmp_path / "roundabout.py").write_text(ROUNDABOUT)
    line = ["compare-react", "What is a pen?", *sources[:-1], f"{tmp_path / 'roundabout.py'}:answer"]
    said = CliRunner().invoke(main, [*line, "--expect", "2", "--json"])
    plan, loop, _ = json.loads(said.stdout)["ways"]
    assert (plan["solved"], plan["compiling"], plan["repairs"], plan["replans"]) == (1, 2, 1, 1)
    assert (plan["model_calls"], plan["per_solved"]["tokens_cold"]) == (3, 360)
    assert (loop["solved"], loop["per_solved"], loop["model_calls"]) == (0, None, 2)
    assert "no action, twice" in loop["error"]


def test_judge_function_decides_and_its_reason_is_shown(sources: list[str]) -> None:
    check = sources[-1].replace(":answer", ":is_right")
    said = CliRunner().invoke(main, ["compare-react", "What?", *sources, "--check", check])
    assert said.exit_code == 0, said.output
    assert said.stdout.count(": solved") == 3
    wrong = CliRunner().invoke(main, ["compare-react", "What?", *sources, "--expect", "9 and 9"])
    assert wrong.stdout.count("NOT solved") == 3
