"""Plans for goals and for failed graphs: one request, checked, resumed after a crash."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from tests import forked
from tests.dag_plans import step

from callsheet import Limits, Plan, PlanRequest, Runtime, tool
from callsheet.api.models import ChatModel
from callsheet.api.result import StepLog
from callsheet.diagnostics import CallsheetError
from callsheet.machine.notes import Note, NoteKind
from callsheet.ports.models.operations import ModelAnswer
from callsheet.store import EventType, Journal


@tool(effect="read")
def a() -> dict[str, str]:
    """Gives a secret."""
    return {"word": "hush-hush"}


@tool(effect="read")
def bad() -> None:
    """Fails."""
    raise RuntimeError("boom")


@tool(effect="read")
def alt(x: str) -> str:
    """Another way."""
    return f"alt {x}"


PLAN = Plan.parse(
    json.dumps(
        {
            "id": "p",
            "goal": "Say the word",
            "steps": [
                step("1", "a", var="va"),
                step("2", "bad", "1"),
                step("3", "alt", "2", x="never"),
            ],
        }
    )
)
AGAIN = {"steps": [step("1", "alt", var="w", x="${va.word}")]}
REPLAN = Limits(replans_on_failure=2)


# ---------------------------------------------------------------- for a goal


async def test_model_is_asked_once_with_tools_and_goal() -> None:
    asked: list[list[dict[str, str]]] = []

    def model(messages: list[dict[str, str]]) -> str:
        asked.append(messages)
        return f"Sure.\n```json\n{json.dumps({'title': 'One', 'steps': [step('1', 'alt', x='y')]})}\n```"

    plan = await Runtime([a, alt], model=ChatModel(model)).create_plan("Do it", "data & more")
    assert (plan.title, plan.goal, [s.id for s in plan.steps]) == ("One", "Do it", ["1"])
    assert len(asked) == 1
    assert "alt(x: string): Another way." in asked[0][0]["content"]
    told, _, goal = asked[0][1]["content"].rpartition("\n\n")
    assert goal == "Goal:\nDo it"
    assert told.endswith("<data>\ndata & more\n</data>")


async def test_planner_may_return_plan_text_or_data_and_be_async() -> None:
    data = {"steps": [step("1", "alt", x="y")]}
    text = 'alt "y" > r\nrespond r'

    async def later(request: PlanRequest) -> dict[str, Any]:
        return data

    for planner in (later, lambda request: json.dumps(data), lambda request: Plan.parse(json.dumps(data))):
        plan = await Runtime([alt], planner=planner).create_plan("g")
        assert [s.id for s in plan.steps] == ["1"]
    with pytest.raises(CallsheetError):  # Micro-CLI is not what a planner is asked for
        await Runtime([alt], planner=lambda request: text).create_plan("g")


@pytest.mark.parametrize(
    ("steps", "code"),
    [
        ([step("1", "ghost")], "CHK040"),
        ([step("1", "alt", "2", x="y"), step("2", "alt", "1", x="y")], "CHK061"),
        ([step("1", "alt", x="${nobody}")], "CHK001"),
        ([step("1", "alt", z="y")], "CHK041"),
    ],
)
async def test_plan_that_cannot_run_is_refused_with_all_errors(steps: Any, code: str) -> None:
    with pytest.raises(CallsheetError) as error:
        await Runtime([alt], planner=lambda request: {"steps": steps}).create_plan("g")
    assert [d.code for d in error.value.diagnostics][:2] == ["PLN010", code]


async def test_plan_without_steps_is_refused() -> None:
    """A planner is refused; a model is asked to repair its answer."""
    none: dict[str, Any] = {"title": "Nothing", "steps": []}
    with pytest.raises(CallsheetError, match="the plan that was made cannot run: it has no steps") as error:
        await Runtime([alt], planner=lambda request: none).create_plan("g")
    assert error.value.diagnostics[0].code == "PLN010"
    answers = [json.dumps(none), json.dumps({"steps": [step("1", "alt", x="y")]})]
    plan = await Runtime([alt], model=ChatModel(lambda messages: answers.pop(0))).create_plan("g")
    assert [s.id for s in plan.steps] == ["1"]


async def test_missing_planner_error_names_remedy() -> None:
    with pytest.raises(CallsheetError, match="there is no model or planner to make a plan"):
        await Runtime([alt]).create_plan("g")
    with pytest.raises(CallsheetError, match="there is no model or planner to make a plan"):
        await Runtime([a, bad, alt], limits=REPLAN).run(PLAN)


# ---------------------------------------------------------------- after a failure


async def test_failed_graph_continues_with_new_steps() -> None:
    asked: list[PlanRequest] = []

    def planner(request: PlanRequest) -> Any:
        asked.append(request)
        return AGAIN

    result = await Runtime([a, bad, alt], planner=planner, limits=REPLAN).run(PLAN)
    assert (result.ok, result.replanned, result.response) == (True, True, "alt hush-hush")
    assert [(s.index, s.status) for s in result.steps] == [
        ("1", "done"),
        ("2", "failed"),
        ("3", "skipped"),
        ("r1-1", "done"),
    ]
    assert (asked[0].goal, asked[0].variables) == ("Say the word", ("va",))
    told = json.dumps(asked[0].messages)
    assert "boom" in told
    assert "hush-hush" not in told  # values are not told


async def test_new_steps_are_checked_and_planner_receives_errors() -> None:
    answers = [{"steps": [step("1", "ghost")]}, AGAIN]
    asked: list[str] = []

    def planner(request: PlanRequest) -> Any:
        asked.append(request.messages[1]["content"])
        return answers[len(asked) - 1]

    result = await Runtime([a, bad, alt], planner=planner, limits=REPLAN).run(PLAN)
    assert result.ok
    assert "Your last answer was refused" in asked[1]
    assert "@GHOST" in asked[1]


async def test_planner_tokens_for_new_steps_count() -> None:
    model = ChatModel(lambda messages: ModelAnswer(json.dumps(AGAIN), 100, 7))
    result = await Runtime([a, bad, alt], model=model, limits=REPLAN).run(PLAN)
    assert (result.usage.input_tokens, result.usage.output_tokens, result.usage.model_calls) == (100, 7, 1)


async def test_events_and_handle_name_new_steps(tmp_path: Path) -> None:
    runtime = Runtime([a, bad, alt], planner=lambda r: AGAIN, limits=REPLAN, journal=tmp_path / "j.db")
    handle = runtime.start(PLAN, run_id="r")
    said = [(type(e).__name__, getattr(e, "step", ""), getattr(e, "action", "")) async for e in handle]
    assert ("Replanned", "RE-PLAN", "") in said
    assert ("StepStarted", "r1-1", "@ALT") in said
    assert handle.title("r1-1") == "Step 1"
    done = handle.step("r1-1")
    assert done is not None
    assert (done.success, done.variable, done.value) == (True, "w", "alt hush-hush")
    assert done.seconds is not None
    again = await runtime.resume("r")
    assert [(s.index, s.status, s.seconds) for s in again.steps if s.success] == [
        ("1", "done", None),
        ("r1-1", "done", None),
    ]


CRASHING = """
import os, sys, json
from pathlib import Path
from callsheet import Runtime, Limits, Plan, tool
sys.path.insert(0, {tests!r})
from tests.api.test_planning import PLAN, AGAIN, a, bad, alt

where, marker = sys.argv[2], Path(sys.argv[3])

def die(place):
    if place == where and not marker.exists():
        marker.touch()
        os.kill(os.getpid(), 9)

@tool(effect="read", name="alt")
def dying_alt(x: str) -> str:
    "Another way."
    die("new step")
    return f"alt {{x}}"

def planner(request):
    with open(marker.with_name("asked"), "a") as file:
        file.write("x")
    die("planner")
    return AGAIN

limits = Limits(replans_on_failure=1)
runtime = Runtime([a, bad, dying_alt], planner=planner, limits=limits, journal=sys.argv[1])
result = runtime.resume_sync("r") if marker.exists() else runtime.run_sync(PLAN, run_id="r")
print(json.dumps([result.ok, result.replanned, result.variables]))
"""


@pytest.mark.parametrize("where", ["planner", "new step", "nowhere"])
def test_run_killed_during_replanning_resumes(where: str, tmp_path: Path) -> None:
    root = str(Path(__file__).parents[2])
    script = tmp_path / "run.py"
    script.write_text(CRASHING.format(tests=root))
    line = [sys.executable, str(script), str(tmp_path / "j.db"), where, str(tmp_path / "died")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}
    done = forked.run(line, capture_output=True, text=True, check=False, env=env)
    if where != "nowhere":
        assert done.returncode == -9, done.stderr
        done = forked.run(line, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr
    expected = {"va": {"word": "hush-hush"}, "w": "alt hush-hush"}
    assert json.loads(done.stdout) == [True, True, expected]
    asked = len((tmp_path / "asked").read_text())
    assert asked == (
        2 if where == "planner" else 1
    )  # an answer that is in the journal is not asked for again
    with Journal.open_to_read(tmp_path / "j.db") as journal:
        assert journal.verify("r") is None
        assert sum(row.type is EventType.PLAN for row in journal.events("r")) == 1


# ---------------------------------------------------------------- steps and their times


def test_step_duration_includes_retries() -> None:
    now = iter([1.0, 4.0])
    log = StepLog(PLAN.ir, lambda: next(now))
    log.note(Note(NoteKind.STARTED, "1"))
    log.note(Note(NoteKind.RETRYING, "1", "no"))
    log.note(Note(NoteKind.FINISHED, "1", "", "va", 7))
    (done,) = log.results()
    assert (done.index, done.tool, done.value, done.variable, done.seconds) == ("1", "a", 7, "va", 3.0)


async def test_text_plan_has_no_step_list() -> None:
    result = await Runtime().run('S1: @RESPOND ("x")')
    assert (result.steps, result.replanned) == ((), False)
