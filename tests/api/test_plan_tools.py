"""The plan tools: definitions, bounded replies, confirmation, shared budgets, errors as data."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.dag_plans import step

from callsheet import Limits, Runtime, tool
from callsheet.api.budget import SharedBudget
from callsheet.api.models import ChatModel
from callsheet.api.plan_tools import NAMES, PlanProposal, PlanTools, mcp_tools, openai_tools, reply_text
from callsheet.machine import Usage
from callsheet.ports.models.operations import ModelAnswer
from callsheet.store.library import PlanLibrary

CALLS: list[str] = []
WAITING = asyncio.Event()


@tool(effect="read")
def note(text: str) -> str:
    """Notes a text."""
    CALLS.append(text)
    return text * 2


@tool(effect="read")
async def wait() -> None:
    """Takes a long time."""
    WAITING.set()
    await asyncio.sleep(60)


@tool(effect="read")
def fail(text: str) -> str:
    """Fails."""
    raise RuntimeError(text)


GOOD = {
    "title": "Two notes",
    "steps": [step("1", "note", var="x", text="a"), step("2", "note", "1", text="${x}")],
}
BAD = {
    "title": "Fails",
    "steps": [step("1", "fail", text="down"), step("2", "note", "1", text="never")],
}


class Desk:
    """The plan tools on a runtime whose planner gives one plan."""

    def __init__(self, folder: Path, plan: Any = GOOD, **options: Any) -> None:
        CALLS.clear()
        self.library = PlanLibrary(folder)
        self.tools = PlanTools(
            Runtime([note, fail, wait], planner=lambda request: plan), self.library, **options
        )

    async def __call__(self, name: str, **arguments: Any) -> Any:
        return json.loads(await self.tools.handle(name, arguments))


def test_both_forms_define_same_three_tools() -> None:
    openai = {t["function"]["name"]: t["function"] for t in openai_tools()}
    mcp = {t["name"]: t for t in mcp_tools()}
    assert tuple(openai) == tuple(mcp) == NAMES
    for name in NAMES:
        assert openai[name]["parameters"] == mcp[name]["inputSchema"]
        assert openai[name]["description"] == mcp[name]["description"]
        assert openai[name]["parameters"]["additionalProperties"] is False
    assert not mcp["plan_create"]["annotations"]["destructiveHint"]
    assert mcp["plan_execute"]["annotations"]["destructiveHint"]


def test_definitions_are_independent_copies() -> None:
    openai_tools()[0]["function"]["parameters"]["properties"].clear()
    assert "goal" in openai_tools()[0]["function"]["parameters"]["properties"]


async def test_plan_is_made_and_run_by_id(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    made = await desk("plan_create", goal="note it")
    assert (made["success"], made["plan_id"], made["steps_total"], CALLS) == (True, "two-notes", 2, [])
    assert made["steps"][1] == {"index": "2", "title": "Step 2", "tool": "note", "depends_on": ["1"]}
    done = await desk("plan_execute", plan_id="two-notes")
    assert (done["success"], done["steps_completed"], done["response"]) == (True, 2, "")
    assert (CALLS, done["variables"]) == (["a", "aa"], {"x": "aa"})
    assert done["steps"][1]["result"] == "aaaa"


async def test_arguments_may_be_json_text_and_replies_mcp_results(tmp_path: Path) -> None:
    tools = Desk(tmp_path).tools
    assert json.loads(await tools.handle("plan_create", '{"goal": "g"}'))["success"]
    assert "must be an object" in json.loads(await tools.handle("plan_create", '{"goal'))["error"]
    assert "must be an object" in json.loads(await tools.handle("plan_create", '["g"]'))["error"]
    good = await tools.handle_mcp("plan_execute", {"plan_id": "two-notes"})
    assert (good["isError"], json.loads(good["content"][0]["text"])["success"]) == (False, True)
    assert (await tools.handle_mcp("plan_create"))["isError"]


async def test_call_variables_override_plan_variables(tmp_path: Path) -> None:
    plan = {"title": "t", "variables": {"v": "own"}, "steps": [step("1", "note", text="${v}")]}
    desk = Desk(tmp_path, plan)
    await desk("plan_create_and_execute", goal="g", variables={"v": "given"})
    assert CALLS == ["given"]


async def test_failed_plan_reports_its_steps_and_stays_saved(tmp_path: Path) -> None:
    desk = Desk(tmp_path, BAD)
    done = await desk("plan_create_and_execute", goal="g")
    assert (done["success"], done["steps_total"], done["steps_completed"]) == (False, 2, 0)
    assert "down" in done["error"]
    assert [(s["index"], s["status"]) for s in done["steps"]] == [("1", "failed"), ("2", "skipped")]
    assert desk.library.ids() == ("fails",)


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("plan_delete", {}, "there is no tool plan_delete"),
        ("plan_create", {}, "needs goal"),
        ("plan_create", {"goal": 3}, "needs goal"),
        ("plan_create", {"goal": "  "}, "needs goal"),
        ("plan_create", {"goal": "g", "variables": {}}, "no argument variables; give them to plan_execute"),
        ("plan_execute", {"goal": "g"}, "needs plan_id"),
        ("plan_execute", {"plan_id": "x", "variables": []}, "must be an object"),
        ("plan_execute", {"plan_id": "x", "dry": 1}, "no argument dry"),
        ("plan_execute", {"plan_id": "none"}, "there is no plan none"),
        ("plan_execute", {"plan_id": "../../etc/passwd"}, "is not a plan id"),
        ("plan_execute", {"plan_id": "x\0y"}, "is not a plan id"),
    ],
)
async def test_errors_are_returned_as_data(tmp_path: Path, name: str, arguments: Any, said: str) -> None:
    reply = await Desk(tmp_path)(name, **arguments)
    assert reply["success"] is False
    assert said in reply["error"]
    assert CALLS == []


async def test_planner_exception_is_reported_and_saves_nothing(tmp_path: Path) -> None:
    def planner(request: object) -> Any:
        raise KeyError("no key")

    tools = PlanTools(Runtime([note], planner=planner), PlanLibrary(tmp_path))
    reply = json.loads(await tools.handle("plan_create_and_execute", {"goal": "g"}))
    assert reply == {"success": False, "error": "KeyError: 'no key'"}
    assert tools.library.ids() == ()


# ---------------------------------------------------------------- confirmation


async def test_unconfirmed_plan_does_not_run(tmp_path: Path) -> None:
    seen: list[PlanProposal] = []

    async def confirm(proposal: PlanProposal) -> bool:
        seen.append(proposal)
        return len(seen) > 1

    desk = Desk(tmp_path, confirm=confirm)
    refused = await desk("plan_create_and_execute", goal="g", variables={"k": 1})
    assert (refused["success"], refused["plan_id"], CALLS) == (False, "two-notes", [])
    assert "not confirmed" in refused["error"]
    assert (seen[0].plan_id, seen[0].variables, len(seen[0].plan.steps)) == ("two-notes", {"k": 1}, 2)
    assert (await desk("plan_execute", plan_id="two-notes"))["success"]
    assert CALLS == ["a", "aa"]


async def test_making_plan_needs_no_confirmation(tmp_path: Path) -> None:
    assert (await Desk(tmp_path, confirm=lambda proposal: False)("plan_create", goal="g"))["success"]


# ---------------------------------------------------------------- budgets


async def test_plans_and_conversation_share_budget(tmp_path: Path) -> None:
    budget = SharedBudget(Limits(max_calls=4, max_calls_by_tool={"note": 3}))
    desk = Desk(tmp_path, budget=budget)
    budget.count_call("search")
    assert (await desk("plan_create_and_execute", goal="g"))["success"]
    assert (budget.used.calls, budget.used.calls_by_tool) == (3, {"SEARCH": 1, "NOTE": 2})
    assert budget.refusal("note") is None
    over = await desk("plan_execute", plan_id="two-notes")
    assert (over["success"], over["steps_completed"]) == (False, 1)
    assert "max_calls" in over["error"]
    assert budget.refusal("search") is not None


async def test_concurrent_plans_cannot_overspend(tmp_path: Path) -> None:
    desk = Desk(tmp_path, budget=SharedBudget(Limits(max_calls=5)))
    await desk("plan_create", goal="g")
    await asyncio.gather(*(desk("plan_execute", plan_id="two-notes") for _ in range(6)))
    assert len(CALLS) == 5


async def test_tools_sharing_budget_are_serialized(tmp_path: Path) -> None:
    budget = SharedBudget(Limits(max_calls=5))
    desks = [Desk(tmp_path / str(n), budget=budget) for n in range(3)]
    await asyncio.gather(*(desk("plan_create_and_execute", goal="g") for desk in desks for _ in range(2)))
    assert len(CALLS) == budget.used.calls == 5


async def test_abandoned_plan_counts_its_calls(tmp_path: Path) -> None:
    desk = Desk(tmp_path, {"title": "t", "steps": [step("1", "note", text="a"), step("2", "wait", "1")]})
    task = asyncio.ensure_future(desk("plan_create_and_execute", goal="g"))
    await WAITING.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert desk.tools.budget.used.calls_by_tool == {"NOTE": 1, "WAIT": 1}
    assert not (await desk("plan_execute", plan_id="none"))["success"]  # the turn is free again


async def test_nested_plan_tools_are_refused_on_same_budget(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    await desk("plan_create", goal="g")
    inner = desk.tools.tools()
    plan = {"title": "nest", "steps": [step("1", "plan_execute", plan_id="two-notes")]}
    outer = PlanTools(Runtime(inner, planner=lambda r: plan), PlanLibrary(tmp_path), budget=desk.tools.budget)
    reply = json.loads(await asyncio.wait_for(outer.handle("plan_create_and_execute", {"goal": "g"}), 10))
    assert (reply["success"], CALLS) == (False, [])
    assert "PLN020" in reply["error"]


async def test_planning_model_calls_count(tmp_path: Path) -> None:
    model = ChatModel(lambda messages: ModelAnswer(json.dumps(GOOD), 60, 5))
    tools = PlanTools(
        Runtime([note], model=model), PlanLibrary(tmp_path), budget=SharedBudget(Limits(max_tokens=100))
    )
    for _ in range(2):
        assert json.loads(await tools.handle("plan_create", {"goal": "g"}))["success"]
    assert (tools.budget.used.model_calls, tools.budget.used.input_tokens) == (2, 120)
    assert "max_tokens is 100" in json.loads(await tools.handle("plan_create", {"goal": "g"}))["error"]


@given(st.integers(0, 20), st.integers(0, 20), st.integers(0, 20))
def test_remaining_budget_is_never_negative(most: int, first: int, second: int) -> None:
    budget = SharedBudget(Limits(max_calls=most))
    for used in (first, second):
        budget.add(Usage(calls=used))
    assert budget.left().max_calls == max(0, most - first - second)
    assert budget.left() == budget.left()


async def test_plan_tools_serve_as_tools_of_another_runtime(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    outer = Runtime(desk.tools.tools())
    done = await outer.run('S1: @PLAN_CREATE_AND_EXECUTE (goal="g") > $r\nS2: @RESPOND ($r.plan_id)')
    assert (done.response, CALLS) == ("two-notes", ["a", "aa"])
    failed = await outer.run('S1: @PLAN_EXECUTE (plan_id="none") > $r ON_FAIL TERMINATE ("no: ", $r)')
    assert "there is no plan none" in failed.response


# ---------------------------------------------------------------- replies


async def test_huge_result_is_truncated_with_mark(tmp_path: Path) -> None:
    plan = {"title": "t", "steps": [step("1", "note", var="x", text="z" * 100_000)]}
    text = await Desk(tmp_path, plan).tools.handle("plan_create_and_execute", {"goal": "g"})
    assert len(text) <= 20_000
    reply = json.loads(text)
    assert (reply["success"], reply["shortened"]) == (True, True)
    assert reply["variables"]["x"].endswith("… (shortened: 200000 characters in all)")


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=300),
    lambda inside: st.lists(inside, max_size=4) | st.dictionaries(st.text(max_size=9), inside, max_size=4),
    max_leaves=12,
)


@given(
    st.booleans(),
    st.text(max_size=3_000),
    st.lists(st.fixed_dictionaries({"index": st.text(max_size=9), "result": _JSON}), max_size=30),
    st.dictionaries(st.text(max_size=20), _JSON, max_size=30),
    st.integers(100, 3_000),
)
def test_replies_are_bounded_and_contain_status(
    success: bool, error: str, steps: list[Any], variables: dict[str, Any], most: int
) -> None:
    reply = {"success": success, "error": error, "steps": steps, "variables": variables, "plan_id": "p"}
    text = reply_text(reply, most)
    assert len(text) <= most
    assert json.loads(text)["success"] is success
    assert json.loads(text) == reply or json.loads(text)["shortened"] is True
