"""Events for listeners of a run: one dict for each thing that happens to a step."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.compat.worlds import Callbacks

from callsheet.ports.models.prompts import PROMPT_VERSION


class Listener:
    """Collects events."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    async def __call__(self, event: dict[str, Any]) -> None:
        self.events.append(event)

    def story(self) -> list[tuple[str, str]]:
        return [(event["event"], event["step"]) for event in self.events]


async def heard(plan: str, world: Callbacks) -> Listener:
    listener = Listener()
    await world.run(plan, progress_callback=listener)
    return listener


async def test_step_is_reported_from_start_to_result() -> None:
    listener = await heard('S1: @GET_V () > $v\nS2: @RESPOND ("It is $v")', Callbacks())
    assert listener.events[:2] == [
        {"event": "started", "step": "S1", "tool": "@GET_V", "detail": "", "variable": None, "value": None},
        {
            "event": "finished",
            "step": "S1",
            "tool": "@GET_V",
            "detail": "",
            "variable": "$v",
            "value": "out of get_v",
        },
    ]
    last = listener.events[-1]
    assert (last["event"], last["step"], last["tool"], last["detail"]) == ("ended", "S2", "@RESPOND", "done")


@pytest.mark.parametrize(
    ("plan", "told"),
    [
        ('S1: ?IF ($n == 1) THEN @GET_V ()\nS2: @RESPOND ("x")', ("skipped", "S1", "@GET_V")),
        ("S1: @RESPOND ($n)\nS2: TERMINATE ()", ("skipped", "S1", "@RESPOND")),
        ("S1: @BAD () ON_FAIL @RETRY(1, delay=0)", ("retrying", "S1", "@BAD")),
        ("S1: @BAD () > $v", ("failed", "S1", "@BAD")),
        ('S1: GOTO S2\nS2: @RESPOND ("x")', ("jumped", "S1", "GOTO")),
        ('S1: @BAD () ON_FAIL GOTO S2\nS2: @RESPOND ("x")', ("jumped", "S1", "@BAD")),
        ("S1: @GET_V () > $v:int", ("cast_failed", "S1", "@GET_V")),
        ('S1: RE-PLAN ("why")', ("replanned", "S1", "RE-PLAN")),
    ],
)
async def test_every_outcome_of_step_is_event(plan: str, told: tuple[str, str, str]) -> None:
    world = Callbacks({"bad": {"success": False, "error": "down"}}, ('S1: @RESPOND ("new")',))
    listener = await heard(plan, world)
    assert told in [(e["event"], e["step"], e["tool"]) for e in listener.events]
    assert all(e.keys() == listener.events[0].keys() for e in listener.events)


async def test_steps_of_new_plan_are_reported() -> None:
    world = Callbacks(model=("S1: @GET_NEW () > $n\nS2: @RESPOND ($n)",))
    listener = await heard('S1: @GET_OLD () > $o\nS2: RE-PLAN ("why")', world)
    assert [(e["step"], e["tool"]) for e in listener.events if e["event"] == "started"] == [
        ("S1", "@GET_OLD"),
        ("S2", "RE-PLAN"),
        ("S1", "@GET_NEW"),
        ("S2", "@RESPOND"),
    ]


async def test_error_is_in_detail() -> None:
    world = Callbacks({"bad": {"success": False, "error": "down"}})
    listener = await heard("S1: @BAD () ON_FAIL @RETRY(1, delay=0)", world)
    assert [(e["event"], e["detail"]) for e in listener.events] == [
        ("started", ""),
        ("retrying", "down"),
        ("failed", "down"),
        ("ended", "done"),
    ]


async def test_audit_and_progress_receive_same_events() -> None:
    audit, progress = Listener(), Listener()
    await Callbacks().run("S1: @GET_V () > $v\nS2: @RESPOND ($v)", audit, progress_callback=progress)
    assert audit.events == progress.events
    assert len(audit.events) >= 4


async def test_events_arrive_during_run() -> None:
    listener = Listener()

    def heard_so_far(args: dict[str, Any]) -> dict[str, Any]:
        return {"success": True, "output": [f"{kind} {step}" for kind, step in listener.story()]}

    world = Callbacks({"get_b": heard_so_far})
    result = await world.run("S1: @GET_A () > $a\nS2: @GET_B () > $b", progress_callback=listener)
    assert result["variables"]["b"] == ["started S1", "finished S1", "started S2"]


async def test_sync_function_is_listener() -> None:
    events: list[dict[str, Any]] = []
    await Callbacks().run('S1: @RESPOND ("x")', events.append)
    assert [e["event"] for e in events][-1] == "ended"


async def test_failing_listener_does_not_stop_run(caplog: pytest.LogCaptureFixture) -> None:
    calls: list[object] = []

    def fail(event: object) -> None:
        calls.append(event)
        raise ValueError("no disk")

    progress = Listener()
    result = await Callbacks().run('S1: @RESPOND ("x")', fail, progress_callback=progress)
    assert result["response"] == "x"
    assert len(calls) == 1
    assert progress.story()[-1] == ("ended", "S1")
    assert "a listener failed" in caplog.text


async def test_listener_cannot_modify_run() -> None:
    def spoil(event: dict[str, Any]) -> None:
        if isinstance(event["value"], list):
            event["value"].append("spoilt")

    world = Callbacks({"get_v": {"success": True, "output": [1]}})
    assert (await world.run("S1: @GET_V () > $v\nS2: @RESPOND ($v)", spoil))["response"] == "[1]"


async def test_truncations_are_events() -> None:
    world = Callbacks({"get_v": {"success": True, "output": "x" * 3_000}}, ('S1: @RESPOND ("new")',))
    listener = await heard('S1: @GET_V () > $v\nS2: RE-PLAN ("why")', world)
    told = [(e["step"], e["tool"], e["detail"]) for e in listener.events if e["event"] == "cut"]
    assert told == [("S2", "RE-PLAN", "$v in the prompt cut to 2,000 of 3,002 characters")]


async def test_answered_prompt_is_reported() -> None:
    listener = await heard('S1: @LLM_EXTRACT ("d", target="t") > $v', Callbacks(model=("x",)))
    (fact,) = [e for e in listener.events if e["event"] == "fact"]
    assert (fact["step"], fact["detail"]) == ("S1", f"prompt: LLM_EXTRACT/{PROMPT_VERSION}")


async def test_flood_of_events_does_not_starve_event_loop() -> None:
    """Ten thousand jumps are reported in one slice to a listener that never waits."""
    told = turns = 0

    async def listen(event: dict[str, Any]) -> None:
        nonlocal told
        told += 1

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(count_turns())
    await Callbacks().run("S1: GOTO S1", progress_callback=listen)
    other.cancel()
    assert told > 20_000
    assert turns > 100
