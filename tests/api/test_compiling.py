"""Goals compiled by a runtime, and the plans of RE-PLANs: checked, repaired, accounted for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import callsheet
from callsheet import ChatModel, Compiled, CompileFailed, Limits, ModelAnswer, PlanError, Runtime, tool
from callsheet.diagnostics import CallsheetError, Diagnostic, Severity
from callsheet.ports.models.model import Failure, ModelFailed
from scripted_models import Scripted


@tool(effect="read")
def find(name: str) -> dict[str, str]:
    """Find a person."""
    return {"mail": f"{name}@example.com", "secret": "hush-hush"}


@tool(effect="unsafe")
def send(to: str, text: str = "") -> str:
    """Send a mail."""
    return f"sent to {to}"


GOAL = "Find ada and send her a mail"
GOOD = 'S1: @find (name="ada") > $v1\nS2: @send (to=$v1.mail, text="Hi") > $v2\nS3: @respond ($v2)'
WRONG = GOOD.replace("@send", "@mail")


async def test_goal_is_compiled_run_and_accounted_for() -> None:
    model = Scripted([WRONG, GOOD])
    async with Runtime([find, send], model=model) as runtime:
        made = await runtime.compile(GOAL)
        assert isinstance(made, Compiled)
        assert made.ok
        assert (made.accounting.calls, made.accounting.usage.input_tokens, made.accounting.repaired) == (
            2,
            200,
            True,
        )
        assert made.plan.goal == GOAL
        assert str(made.plan) == made.text
        result = await runtime.run(made.require())
    assert result.response == "sent to ada@example.com"


async def test_failed_compilation_returns_plan_text_and_diagnostics() -> None:
    made = await callsheet.compile(GOAL, tools=[find, send], model=Scripted([WRONG]))
    assert isinstance(made, CompileFailed)
    assert not made.ok
    assert made.text == WRONG
    assert "no tool is called @MAIL" in str(made.findings)
    with pytest.raises(PlanError, match="@MAIL"):
        made.require()


def test_compile_works_without_event_loop() -> None:
    made = Runtime([find, send], model=lambda prompt: GOOD).compile_sync(GOAL)
    assert made.ok


async def test_functions_and_chat_functions_are_models_and_their_tokens_count() -> None:
    prompts: list[str] = []

    def ask(prompt: str) -> str:
        prompts.append(prompt)
        return GOOD

    async def chat(messages: list[dict[str, str]]) -> ModelAnswer:
        return ModelAnswer(GOOD, 70, 7, 0.25)

    assert (await callsheet.compile(GOAL, tools=[find, send], model=ask)).ok
    assert GOAL in prompts[0]
    made = await callsheet.compile(GOAL, tools=[find, send], model=ChatModel(chat))
    usage = made.accounting.usage
    assert (usage.input_tokens, usage.output_tokens, usage.cost) == (70, 7, 0.25)


async def test_missing_model_error_names_remedy() -> None:
    with pytest.raises(CallsheetError, match="CMP001"):
        await Runtime([find]).compile(GOAL)


async def test_policy_is_checked_last_and_its_objections_are_repaired() -> None:
    def verify(plan: callsheet.Plan) -> list[Diagnostic]:
        calls = [step for step in plan.steps if "SEND" in str(step.action)]
        return [Diagnostic("CHK050", Severity.ERROR, "nothing may be sent", step=s.id) for s in calls]

    model = Scripted([GOOD, 'S1: @find (name="ada") > $v1\nS2: @respond ($v1.mail)'])
    made = await Runtime([find, send], model=model).compile(GOAL, verify=verify)
    assert made.ok
    assert "S2: nothing may be sent" in model.asked[1][-1]["content"]


async def test_labels_from_earlier_runs_apply_to_compiled_plan(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "notes.txt").write_text("private")
    sends = (
        'S1: @read_file (path="docs/new.md") > $v1\n'
        'S2: @fetch_page (url="https://x.example/$v1") > $v2\nS3: @respond ($v2)'
    )
    runtime = Runtime(
        model=Scripted([sends]),
        builtins=True,
        workspace=tmp_path,
        data=tmp_path / "data",
        journal=tmp_path / "journal.db",
        policy="workspace",
    )
    assert (await runtime.compile("Fetch what the file names")).ok
    keeps = 'S1: @READ_FILE (path="notes.txt") > $a\nS2: @WRITE_FILE (path="docs/new.md", content=$a)'
    assert (await runtime.run(keeps)).ok
    made = await runtime.compile("Fetch what the file names")
    assert not made.ok
    assert "POL103" in [d.code for d in made.findings]


async def test_inputs_may_be_read_and_their_values_are_not_sent() -> None:
    model = Scripted(["S1: @send (to=$who) > $v1\nS2: @respond ($v1)"])
    made = await Runtime([find, send], model=model).compile(
        "Mail to $who", inputs={"who": "hush@example.com"}
    )
    assert made.ok
    assert "who: a text of 16 characters" in model.asked[0][-1]["content"]
    assert "hush@" not in json.dumps(model.asked)


async def test_compiling_without_tools_is_reported_as_cmp004() -> None:
    made = await callsheet.compile("Say hello", model=Scripted(['S1: @respond ("Hello")']))
    assert made.ok
    assert [d.code for d in made.findings] == ["CMP004"]


# ---------------------------------------------------------------- RE-PLAN

REPLANNING = (
    'S1: @find (name="ada") > $person\nS2: RE-PLAN ("the address has changed")\nS3: @respond ("never")'
)
AGAIN = "S1: @send (to=$person.mail) > $v1\nS2: @respond ($v1)"


async def test_new_plan_is_repaired_and_model_sees_shapes_only(tmp_path: Path) -> None:
    model = Scripted([AGAIN.replace("@send", "@mail"), AGAIN])
    runtime = Runtime([find, send], model=model, journal=tmp_path / "j.db")
    result = await runtime.run(REPLANNING, run_id="r")
    assert result.response == "sent to ada@example.com"
    told = json.dumps(model.asked)
    assert "the address has changed" in told
    assert "$person: an object with 2 fields: mail, secret" in told
    assert "hush-hush" not in told
    assert "@send (to, text?) Send a mail" in told
    assert (result.usage.input_tokens, result.usage.output_tokens) == (200, 20)
    assert (result.usage.model_calls, result.usage.calls_by_tool["RE-PLAN"]) == (2, 2)
    told = (await Runtime([find, send], journal=tmp_path / "j.db").resume("r")).usage
    assert (told.model_calls, told.model_requests) == (2, 2)


async def test_new_plan_is_not_repaired_with_one_model_call_left() -> None:
    model = Scripted([AGAIN.replace("@send", "@mail"), AGAIN])
    result = await Runtime([find, send], model=model, limits=Limits(max_model_calls=1)).run(REPLANNING)
    assert (result.ok, len(model.asked), result.usage.model_calls) == (False, 1, 1)


async def test_new_plan_request_contains_original_goal() -> None:
    again = 'S1: RE-PLAN ("and again")'
    model = Scripted([again, AGAIN])
    result = await Runtime([find, send], model=model).run(f"# goal: Write to Ada\n{REPLANNING}")
    assert result.ok
    for asked in model.asked:
        assert "was for this goal:\nWrite to Ada\n" in asked[-1]["content"]


@pytest.mark.parametrize("shared", [["person"], lambda name: name == "person"])
async def test_values_are_sent_to_model_where_allowed(shared: Any) -> None:
    model = Scripted([AGAIN])
    result = await Runtime([find, send], model=model, share_values=shared).run(REPLANNING)
    assert result.ok
    assert "hush-hush" in json.dumps(model.asked)


async def test_new_plan_invalid_after_repair_fails_run_with_its_errors() -> None:
    result = await Runtime([find, send], model=Scripted([AGAIN.replace("@send", "@mail")])).run(REPLANNING)
    assert not result.ok
    error = result.error or ""
    assert "CMP007: the plan is wrong, even after one repair: CHK040: no tool is called @MAIL" in error
    assert error.count("no tool is called @MAIL") == 1


async def test_new_graph_steps_are_repaired_within_one_request() -> None:
    @tool(effect="read")
    def bad() -> None:
        """Fails."""
        raise RuntimeError("boom")

    step = {"index": "1", "title": "Try", "tool": "bad", "args": {}, "depends_on": []}
    plan = json.dumps({"goal": "Find Ada", "steps": [step]})
    good = {"steps": [{**step, "tool": "find", "args": {"name": "ada"}, "result_variable": "ada"}]}
    model = Scripted([json.dumps({"steps": [{**step, "tool": "ghost"}]}), json.dumps(good)])
    result = await Runtime([find, bad], model=model, limits=Limits(replans_on_failure=1)).run(plan)
    assert result.ok
    assert len(model.asked) == result.usage.model_calls == 2
    assert "no tool is called @GHOST" in model.asked[1][-1]["content"]
    assert "boom" not in json.dumps(model.asked)


async def test_unavailable_model_leaves_run_resumable(tmp_path: Any) -> None:
    model = Scripted([ModelFailed(Failure.UNREACHABLE, "nobody listens"), AGAIN])
    runtime = Runtime([find, send], model=model, journal=tmp_path / "j.db")
    first = await runtime.run(REPLANNING, run_id="r")
    assert not first.ok
    again = await runtime.resume("r")
    assert again.response == "sent to ada@example.com"
