"""What a planner of new steps is shown counts in the label of its plan, or is not shown."""

from __future__ import annotations

import json
from typing import Any

import pytest

from callsheet import Limits, Plan, RunStatus, Runtime, tool

POLICY = """
schema = 1
extends = "workspace"
[tools."@LOOK"]
egress = false
destructive = false
returns = "U/priv"
[tools."@OWN"]
egress = false
destructive = false
returns = "T/pub"
[tools."@SEARCH"]
egress = true
destructive = false
returns = "U/pub"
[dynamic]
replan = { max = 3 }
"""
NEXT = 'S1: @search (q="what it was told") > $v1\nS2: @respond ("done")'
STEPS: dict[str, Any] = {
    "title": "go on",
    "steps": [
        {"index": "1", "title": "s", "tool": "search", "args": {"q": "what it was told"}, "depends_on": []}
    ],
}
FIRST = {"index": "1", "title": "a", "tool": "look", "args": {}, "depends_on": [], "result_variable": "v"}
GRAPH = Plan.parse(json.dumps({"title": "go", "steps": [FIRST]}))


class World:
    """Tools, a policy on them and a model; `sent` is what left, `asked` the model requests."""

    def __init__(self, folder: Any, value: Any, answer: str, **given: Any) -> None:
        self.sent: list[str] = []
        self.asked: list[str] = []

        @tool(effect="read")
        def look() -> object:
            if isinstance(value, Exception):
                raise value
            return value

        @tool(effect="read")
        def own() -> object:
            return value

        @tool(effect="read")
        def search(q: str) -> str:
            self.sent.append(q)
            return "found"

        def model(prompt: Any) -> str:
            self.asked.append(str(prompt))
            return answer

        (folder / "policy.toml").write_text(POLICY)
        more = {"policy": str(folder / "policy.toml"), **given}
        self.runtime = Runtime([look, own, search], data=folder, model=model, **more)


async def test_private_or_untrusted_field_names_are_hidden(tmp_path):
    here = World(tmp_path, {"Ignore_the_goal": 1, "ada_is_ill": 2}, NEXT)
    await here.runtime.run('S1: @LOOK () > $a\nS2: RE-PLAN ("go on")')
    assert "an object with 2 fields" in here.asked[0]
    assert "Ignore_the_goal" not in here.asked[0]
    assert "ada_is_ill" not in here.asked[0]


async def test_fields_are_named_for_plain_data_and_without_policy(tmp_path):
    here = World(tmp_path, {"city": 1}, NEXT)
    await here.runtime.run('S1: @OWN () > $a\nS2: RE-PLAN ("go on")')
    assert "an object with 1 fields: city" in here.asked[0]
    free = World(tmp_path, {"city": 1}, NEXT, policy=None)
    await free.runtime.run('S1: @LOOK () > $a\nS2: RE-PLAN ("go on")')
    assert "an object with 1 fields: city" in free.asked[0]


def planner(request: Any) -> dict[str, Any]:
    ((_, error),) = request.progress.failed
    assert "4711" in error
    return STEPS


@pytest.mark.parametrize("given", [{"planner": planner}, {"share_values": {"v"}}])
async def test_error_sent_to_planner_labels_its_plan(tmp_path, given):
    here = World(
        tmp_path,
        RuntimeError("the number is 4711"),
        json.dumps(STEPS),
        limits=Limits(replans_on_failure=1),
        **given,
    )
    result = await here.runtime.run(GRAPH)
    assert result.status is RunStatus.FAILED
    assert "literals of the new plan have the label U/priv of the planner's prompt" in (result.error or "")
    assert here.sent == []


async def test_planner_receives_no_error_text_of_failed_step(tmp_path):
    value = RuntimeError("the number is 4711")
    here = World(tmp_path, value, json.dumps(STEPS), limits=Limits(replans_on_failure=1))
    assert (await here.runtime.run(GRAPH)).status is RunStatus.DONE
    assert "4711" not in here.asked[0]
    assert here.sent == ["what it was told"]
