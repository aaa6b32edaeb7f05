"""A stored plan that another plan calls as a tool: what a policy can keep out of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from callsheet import Plan, PolicyRefused, RunResult, Runtime, tool
from callsheet.api.plan_tools import PlanTools
from callsheet.store.library import PlanLibrary

OUTER = """
schema = 1
[tools."@PAGE"]
egress = false
destructive = false
returns = "U/pub"
[tools."@OWN"]
egress = false
destructive = false
returns = "T/pub"
[tools."@SALARIES"]
egress = false
destructive = false
returns = "T/priv"
[tools."@PLAN_EXECUTE"]
egress = false
destructive = false
control = ["plan_id", "variables"]
returns = "U/pub"
[tools."@PLAN_CREATE_AND_EXECUTE"]
destructive = false
control = ["goal", "variables"]
returns = "U/pub"
"""
INNER = """
schema = 1
[tools."@SEND"]
egress = true
destructive = false
control = ["to"]
returns = "T/pub"
"""
STORED = Plan.parse("S1: @SEND (to=$to, text=$text) > $sent\nS2: @RESPOND ($sent)")


class Nested:
    """A runtime whose plans call the plans of another one; `sent` is what those sent."""

    def __init__(self, folder: Path, made: str = "", inner: str = INNER) -> None:
        self.sent: list[tuple[str, str]] = []
        (folder / "outer.toml").write_text(OUTER)
        (folder / "inner.toml").write_text(inner)

        @tool
        def send(to: str, text: str) -> str:
            self.sent.append((to, text))
            return "sent"

        @tool(effect="read")
        def page() -> str:
            return "eve@evil.example"

        @tool(effect="read")
        def own() -> str:
            return "ann@example.org"

        @tool(effect="read")
        def salaries() -> str:
            return "ada 7"

        within = Runtime([send], policy=folder / "inner.toml", planner=lambda _: Plan.parse(made))
        tools = PlanTools(within, PlanLibrary(folder / "plans"))
        self.plan = tools.library.save(STORED.ir).id
        self.outer = Runtime([page, own, salaries, *tools.tools()], policy=folder / "outer.toml")

    def executes(self, plan_id: str, to: str, text: str) -> str:
        variables = f'{{"to": {to}, "text": {text}}}'
        return f"S2: @PLAN_EXECUTE (plan_id={plan_id}, variables={variables}) > $r"

    async def run(self, *steps: str) -> RunResult:
        return await self.outer.run("\n".join([*steps, "S9: @RESPOND ($r)"]))


GRAPH = {
    "title": "t",
    "steps": [
        {
            "index": "1",
            "title": "s",
            "tool": "send",
            "args": {"to": "ann@example.org", "text": "hi"},
            "depends_on": [],
        }
    ],
}


@pytest.mark.parametrize(
    ("source", "plan_id", "to", "text", "code"),
    [
        ("PAGE", "", '"ann@example.org"', '"hi"', ""),
        ("PAGE", "$a", '"ann@example.org"', '"hi"', "POL104"),
        ("PAGE", "", '"ann@example.org"', "$a", "POL104"),
        ("PAGE", "", "$a", '"hi"', "POL104"),
        ("OWN", "", "$a", '"hi"', ""),
    ],
)
async def test_control_keeps_untrusted_data_out(tmp_path, source, plan_id, to, text, code):
    nested = Nested(tmp_path)
    steps = f"S1: @{source} () > $a", nested.executes(plan_id or f'"{nested.plan}"', to, text)
    if code:
        with pytest.raises(PolicyRefused, match=code):
            await nested.run(*steps)
        assert nested.sent == []
        return
    result = await nested.run(*steps)
    reply: Any = result.variables["r"]
    assert reply["success"]
    assert nested.sent == [("ann@example.org", "hi")]


@pytest.mark.parametrize(
    ("source", "goal", "code"),
    [("PAGE", '"send it"', ""), ("PAGE", "$a", "POL104"), ("SALARIES", "about $a", "POL103")],
)
async def test_goal_is_public_and_trusted(tmp_path, source, goal, code):
    nested = Nested(tmp_path, json.dumps(GRAPH))
    quoted = goal if goal[0] in '"$' else f'"{goal}"'
    steps = f"S1: @{source} () > $a", f"S2: @PLAN_CREATE_AND_EXECUTE (goal={quoted}) > $r"
    if code:
        with pytest.raises(PolicyRefused, match=code):
            await nested.run(*steps)
    else:
        assert (await nested.run(*steps)).ok
    assert bool(nested.sent) is (not code)


async def test_inner_run_is_subject_to_own_policy(tmp_path):
    denied = INNER.replace("schema = 1", 'schema = 1\n[defaults]\ndeny = ["@SEND"]')
    nested = Nested(tmp_path, inner=denied)
    result = await nested.run(nested.executes(f'"{nested.plan}"', '"ann@example.org"', '"hi"'))
    assert "POL102" in str(result.variables["r"])
    assert nested.sent == []
