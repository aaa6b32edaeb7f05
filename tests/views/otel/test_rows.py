"""The rows of the table in `docs/otel.md`, each from a real run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.scripted_models import Scripted
from tests.views.otel.telling import STATUS, below, is_well_formed, one, root, steps, tell, tell_run

from callsheet import Answer, Limits, Runtime, tool
from callsheet.machine.keys import span_id, trace_id
from callsheet.store import Journal
from callsheet.views.otel.model import Span, SpanKind, Telemetry

KIND = "openinference.span.kind"
ERROR = "error.type"


@tool(effect="read")
def orders(customer: str) -> list[dict[str, object]]:
    return [{"total": 40, "of": customer}, {"total": 80, "of": customer}]


@tool(effect="read")
def fail(text: str) -> str:
    raise ValueError(text)


@tool(effect="unsafe")
def send(to: str) -> str:
    return f"sent to {to}"


class Flaky:
    """Fails this many times."""

    def __init__(self, times: int) -> None:
        self.left = times

    def tool(self) -> Any:
        @tool(effect="read")
        def flaky(n: int) -> int:
            self.left -= 1
            if self.left >= 0:
                raise ValueError("not yet")
            return n

        return flaky


class World:
    def __init__(self, path: Path) -> None:
        self.journal = path / "runs.db"

    def run(self, text: str, inputs: dict[str, object] | None = None, **options: Any) -> Telemetry:
        content = options.pop("content", False)
        tools = [orders, fail, send, *options.pop("tools", ())]
        Runtime(tools, journal=self.journal, **options).run_sync(text, inputs, run_id="r")
        return self.told(content=content)

    def told(self, **how: bool) -> Telemetry:
        told = tell_run(self.journal, "r", **how)
        is_well_formed(told)
        return told


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def names(spans: list[Span]) -> list[str]:
    return [span.name for span in spans]


def test_run_is_workflow_with_steps_below(world: World) -> None:
    told = world.run('S1: @ORDERS (customer="a") > $o\nS2: @RESPOND ("$o")')
    top = root(told)
    assert (top.name, top.kind, top.span_id) == ("invoke_workflow plan", SpanKind.INTERNAL, span_id("r", 1))
    assert top.trace_id == trace_id("r")
    said = top.attributes
    assert said["gen_ai.operation.name"] == "invoke_workflow"
    assert said["gen_ai.workflow.name"] == said["gen_ai.agent.name"] == "plan"
    assert (said["callsheet.run.status"], said["callsheet.segment"], said[KIND]) == ("done", 1, "CHAIN")
    assert names(below(told, top)) == ["execute_tool ORDERS", "respond"]
    call = one(told, "S1")
    assert call.span_id == span_id("r", "S1.0.1")
    assert {
        k: call.attributes[k] for k in ("gen_ai.tool.name", "gen_ai.tool.type", "gen_ai.tool.call.id")
    } == {
        "gen_ai.tool.name": "ORDERS",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": "S1.0.1",
    }
    assert call.attributes["callsheet.step.output_var"] == "o"
    assert call.attributes[KIND] == "TOOL"


def test_arguments_results_and_errors_are_exported_only_if_allowed(world: World) -> None:
    text = 'S1: @ORDERS (customer="secret-in") > $o\nS2: @FAIL (text="secret-out")'
    quiet, loud = world.run(text, {"who": "secret-who"}), world.told(content=True)
    assert "secret" not in repr(quiet)
    assert one(quiet, "S2").error == ""
    said = one(loud, "S1").attributes
    assert said["gen_ai.tool.call.arguments"] == said["input.value"] == '{"customer": "secret-in"}'
    assert json.loads(str(said["gen_ai.tool.call.result"]))[0]["of"] == "secret-in"
    assert one(loud, "S2").error == "ValueError: secret-out"
    assert root(loud).attributes["input.value"] == '{"who": "secret-who"}'


def test_failure_has_kind(world: World) -> None:
    told = world.run('S1: @FAIL (text="no") > $a ON_FAIL TERMINATE ("ended")')
    failed = one(told, "S1")
    assert (failed.attributes[ERROR], failed.attributes[STATUS]) == ("tool_error", "failed")
    (event,) = failed.events
    assert event.name == "callsheet.goto"
    assert list(event.attributes.values()) == ["S1", "end", "on_fail"]
    assert root(told).attributes[ERROR] == "step_failed"
    spent = world_of(world, 2).run('S1: @ORDERS ("a")\nS2: @ORDERS ("b")', limits=Limits(max_calls=1))
    assert root(spent).attributes[ERROR] == "budget_exceeded"


def test_loop_ended_by_item_is_failed(world: World) -> None:
    text = 'S1: ?FOREACH ($i IN ["a", "b"]) THEN @FAIL (text=$i) > $a ON_FAIL TERMINATE ("ended")'
    told = world.run(text)
    loop = one(told, "S1")
    assert loop.attributes[STATUS] == "failed"
    assert list(loop.events[-1].attributes.values()) == ["S1", "end", "on_fail"]


def world_of(world: World, number: int) -> World:
    folder = world.journal.parent / str(number)
    folder.mkdir()
    return World(folder)


def test_condition_is_event_and_skipped_step_takes_no_time(world: World) -> None:
    text = 'S1: ?IF ($n > 1) THEN @ORDERS ("a") > $a\nS2: ?IF ($n > 5) THEN @ORDERS ("b") > $b'
    told = world.run(text, {"n": 3})
    done, skipped = one(told, "S1"), one(told, "S2")
    assert [list(e.attributes.values()) for e in done.events] == [["$n > 1", True]]
    assert [list(e.attributes.values()) for e in skipped.events] == [["$n > 5", False]]
    assert (skipped.attributes[STATUS], skipped.end - skipped.start) == ("skipped", 0)


def test_loop_has_span_per_item_and_attempt(world: World) -> None:
    text = (
        'S1: @ORDERS ("a") > $o\n'
        "S2: ?FOREACH ($i IN $o) THEN @FLAKY ($i.total) > $f ON_FAIL @RETRY(2, delay=0)"
    )
    told = world.run(text, tools=[Flaky(1).tool()])
    loop = one(told, "S2")
    assert (loop.name, loop.attributes["callsheet.foreach.count"], loop.attributes[KIND]) == (
        "foreach FLAKY",
        2,
        "CHAIN",
    )
    items = below(told, loop)
    assert sorted(span.attributes["callsheet.foreach.index"] for span in items) == [0, 1]
    (again,) = [span for span in items if below(told, span)]
    tries = below(told, again)
    assert [span.attributes["callsheet.attempt"] for span in tries] == [1, 2]
    assert [span.attributes.get(ERROR) for span in tries] == ["tool_error", None]
    assert again.error is None
    assert {span.span_id for span in (*tries, *items)} >= {span_id("r", f"S2.{n}.1") for n in (0, 1)}


def test_retried_step_has_status_of_last_attempt(world: World) -> None:
    told = world.run("S1: @FLAKY (1) > $f ON_FAIL @RETRY(3, delay=0)", tools=[Flaky(2).tool()])
    step = one(told, "S1")
    assert (step.name, step.error, step.attributes[STATUS]) == ("execute_tool FLAKY", None, "ok")
    assert [span.attributes.get(ERROR) for span in below(told, step)] == ["tool_error", "tool_error", None]
    calls = [m for m in told.metrics if m.name == "gen_ai.execute_tool.duration"]
    assert sum(sum(m.counts) for m in calls) == 3  # the step that holds them is no call


def test_steps_are_linked_to_read_steps(world: World) -> None:
    text = (
        "PARALLEL {\n  S1: @ORDERS ($who) > $a\n  S2: @ORDERS ($who) > $b\n}\n"
        'S3: @SEND (to="$a $b") > $s\nS4: @RESPOND ("$s")'
    )
    told = world.run(text, {"who": "x"})
    joined = one(told, "S3")
    assert [(k.span_id, *k.attributes.values()) for k in joined.links] == [
        (one(told, "S1").span_id, "depends_on", ("a",)),
        (one(told, "S2").span_id, "depends_on", ("b",)),
    ]
    assert joined.attributes["callsheet.step.depends_on"] == ("S1", "S2")
    later = max((one(told, name) for name in ("S1", "S2")), key=lambda span: span.end)
    assert one(told, str(joined.attributes["graph.node.parent_id"])).end == later.end
    assert one(told, "S1").links == ()


def test_graph_step_is_linked_to_unread_dependencies(world: World) -> None:
    steps_of: list[dict[str, object]] = [
        {"index": 1, "title": "one", "tool": "ORDERS", "args": {"customer": "a"}, "depends_on": []},
        {"index": 2, "title": "two", "tool": "SEND", "args": {"to": "b"}, "depends_on": [1]},
    ]
    told = world.run(json.dumps({"goal": "g", "steps": steps_of}))
    first, second = steps(told)
    assert [k.span_id for k in second.links] == [first.span_id]


def test_jump_is_event_of_its_step(world: World) -> None:
    text = (
        'S1: @FAIL ("no") > $x ON_FAIL GOTO S3\nS2: @SEND ("never")\nS3: ?IF ($n == 1) THEN GOTO S5\n'
        'S4: @SEND ("never")\nS5: @TERMINATE ("enough")'
    )
    told = world.run(text, {"n": 1})
    went = [list(e.attributes.values()) for s in steps(told) for e in s.events if e.name == "callsheet.goto"]
    assert went == [["S1", "S3", "on_fail"], ["S3", "S5", "goto"], ["S5", "end", "terminate"]]


def test_repeated_visit_is_separate_span(world: World) -> None:
    text = 'S1: @CALC ("$n + 1") > $n\nS2: ?IF ($n < 3) THEN GOTO S1\nS3: @RESPOND ($n)'
    told = world.run(text, {"n": 0})
    assert [s.attributes["graph.node.id"] for s in steps(told)] == [
        "S1",
        "S2",
        "S1@2",
        "S2@2",
        "S1@3",
        "S2@3",
        "S3",
    ]
    assert one(told, "S1@2").links[0].span_id == one(told, "S1").span_id


def test_model_operation_has_model_span_below(world: World) -> None:
    told = world.run('S1: @LLM_SUMMARIZE ("text") > $s', model=Scripted(["short"]))
    step = one(told, "S1")
    assert (step.name, step.attributes[KIND]) == ("execute_tool LLM_SUMMARIZE", "TOOL")
    (chat,) = below(told, step)
    assert (chat.name, chat.kind, chat.attributes[KIND]) == ("chat scripted:model", SpanKind.CLIENT, "LLM")
    assert chat.attributes["gen_ai.response.model"] == "scripted:model"
    assert chat.attributes["gen_ai.usage.input_tokens"] == chat.attributes["llm.token_count.prompt"] == 100
    assert chat.attributes["gen_ai.usage.output_tokens"] == 10
    tokens = {str(m.attributes["gen_ai.token.type"]): m.total for m in told.metrics if "token" in m.name}
    assert tokens == {"input": 100.0, "output": 10.0}


def test_agent_has_turns_and_calls_below(world: World) -> None:
    turns = ['{"tool": "orders", "args": {"customer": "a"}}', '{"finish": "done"}']
    text = 'S1: @AGENT_SOLVE (goal="g", tools=["orders"]) > $a'
    told = world.run(text, model=Scripted(turns))
    agent = one(told, "S1")
    assert (agent.name, agent.attributes[KIND]) == ("invoke_agent AGENT_SOLVE", "AGENT")
    assert agent.attributes["gen_ai.usage.input_tokens"] == 200
    children = sorted(below(told, agent), key=lambda span: span.start)
    assert names(children) == ["chat scripted:model", "execute_tool ORDERS", "chat scripted:model"]
    assert [span.attributes["callsheet.agent.turn"] for span in children] == [1, 1, 2]
    assert children[1].span_id == span_id("r", "S1.0.1/t1c1")


def test_original_model_is_named_in_spans(world: World) -> None:
    world.run('S1: @AGENT_SOLVE (goal="g") > $a', model=Scripted(['{"finish": "done"}']))
    with Journal.open_to_read(world.journal) as opened:
        plan = opened.plan(opened.find_run("r").plan_hash)[0]
        first, *rest = opened.entries("r")
        body = first.body | {"launch": {"setup": {"model": "google:gemini-9"}}}
        told = tell(plan, [first._replace(body=body), *rest], opened.plan_of)
    agent = one(told, "S1")
    (chat,) = below(told, agent)
    assert chat.name == "chat gemini-9"
    assert chat.attributes["gen_ai.request.model"] == "gemini-9"
    providers = [span.attributes["gen_ai.provider.name"] for span in (agent, chat)]
    assert providers == ["gcp.gemini", "gcp.gemini"]


def test_new_plan_is_span_beside_steps(world: World) -> None:
    text = 'S1: @ORDERS ("a") > $o\nS2: RE-PLAN ("more")\nS3: @SEND ("never")'
    told = world.run(text, model=Scripted(['S1: @SEND ("b") > $s\nS2: @RESPOND ($s)']))
    planned = one(told, "S2")
    assert (planned.name, planned.attributes[KIND]) == ("plan compiler", "CHAIN")
    assert planned.attributes["gen_ai.operation.name"] == "plan"
    assert planned.parent_id == root(told).span_id
    assert names(below(told, planned)) == ["chat"]
    assert [e.name for e in planned.events] == ["callsheet.replanned"]
    after = one(told, "r1/S1")
    assert after.attributes["callsheet.plan.version"] == 1
    assert after.parent_id == root(told).span_id


async def test_pause_ends_a_root_span_that_says_so(world: World) -> None:
    runtime = Runtime([orders, send], journal=world.journal, approve=["send"])
    await runtime.run('S1: @SEND ("b") > $s', run_id="r")
    await runtime.pause("r", by="Bo")
    roots = [span for span in world.told().spans if not span.parent_id]
    assert [span.attributes["callsheet.segment.status"] for span in roots] == ["waiting", "paused"]


async def test_question_ends_root_span_and_answer_starts_another(world: World) -> None:
    runtime = Runtime([orders, send], journal=world.journal, approve=["send"])
    await runtime.run('S1: @ORDERS ("a") > $o\nS2: @SEND ("b") > $s\nS3: @RESPOND ($s)', run_id="r")
    waiting = world.told()
    assert one(waiting, "S2").attributes[STATUS] == "waiting"
    assert root(waiting).attributes["callsheet.segment.status"] == "waiting"
    await runtime.answer("r", "S2", Answer.approve(by="Bo"))
    await runtime.resume("r")
    told = world.told()
    assert told.spans[: len(waiting.spans)] == waiting.spans  # what was told stays what it was
    first, second = [span for span in told.spans if not span.parent_id]
    assert [(k.span_id, *k.attributes.values()) for k in second.links] == [(first.span_id, "resumed_from")]
    asked, made = [span for span in steps(told) if span.attributes["graph.node.id"] == "S2"]
    assert [e.name for e in asked.events] == ["callsheet.asked"]
    assert [e.name for e in made.events] == ["callsheet.answered"]
    assert made.links[-1].span_id == asked.span_id
    assert made.span_id == span_id("r", "S2.0.1")
    assert "Bo" not in repr(told)


def test_confidence_is_event_of_step(world: World) -> None:
    told = world.run('S1: @ORDERS ("a") > $o\nS2: @LLM_SUMMARIZE ("$o") > $s', model=Scripted(["s"]))
    said = {record.span_id: record.attributes for record in told.logs}
    assert {record.name for record in told.logs} == {"gen_ai.evaluation.result"}
    of_read, of_model = said[one(told, "S1").span_id], said[one(told, "S2").span_id]
    assert (of_read["gen_ai.evaluation.score.value"], of_model["gen_ai.evaluation.score.value"]) == (
        0.95,
        0.7,
    )
    labels = [said["gen_ai.evaluation.score.label"] for said in (of_read, of_model)]
    assert labels == ["verified", "moderate"]
    assert of_model["gen_ai.evaluation.explanation"] == "a model said so; assumed"
    assert one(told, "S2").attributes["callsheet.confidence.effective"] == 0.7
