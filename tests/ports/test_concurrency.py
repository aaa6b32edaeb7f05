"""At most N calls run concurrently; waiting ones start in the order of arrival."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from callsheet import Limits, Plan, Runtime, tool
from callsheet.diagnostics import CallsheetError, Source
from callsheet.ir import JSON, Call, Literal, Order, Step
from callsheet.ir import Plan as Steps
from callsheet.ir.operations import Independence
from callsheet.ports.calls import CallContext
from callsheet.ports.mcp.config import parse_config
from callsheet.ports.python_tools.declare import tool_of
from callsheet.ports.timeouts import Slots
from callsheet.store import EventType, Journal
from callsheet.views.stubs import tool_details


class Counter:
    """A handler that counts its concurrent calls and records their order."""

    def __init__(self) -> None:
        self.now = self.most = 0
        self.order: list[int] = []

    async def __call__(self, args: dict[str, Any], context: CallContext) -> JSON:
        self.now += 1
        self.most = max(self.most, self.now)
        self.order.append(args["x"])
        await asyncio.sleep(0.002)
        self.now -= 1
        return args["x"]


async def test_calls_share_slots_in_arrival_order() -> None:
    counter = Counter()
    handler = Slots(3).sharing(counter)
    calls = [handler({"x": n}, CallContext("r", "S1.0.1")) for n in range(20)]
    assert await asyncio.gather(*calls) == list(range(20))
    assert (counter.most, counter.order) == (3, list(range(20)))


def test_slots_apply_per_event_loop() -> None:
    slots = Slots(1)
    for _ in range(2):
        counter = Counter()
        handler = slots.sharing(counter)

        async def both(handler: Any = handler) -> None:
            await asyncio.gather(*(handler({"x": n}, CallContext("r", "k")) for n in range(3)))

        asyncio.run(both())
        assert counter.most == 1


async def test_cancelled_call_frees_its_slot() -> None:
    handler = Slots(1).sharing(Counter())
    waiting = [asyncio.create_task(handler({"x": n}, CallContext("r", "k"))) for n in range(3)]  # type: ignore[arg-type]
    await asyncio.sleep(0)
    waiting[0].cancel()
    waiting[1].cancel()
    assert await waiting[2] == 2


LOOP = "S1: ?FOREACH ($i IN [1, 2, 3, 4, 5, 6]) THEN @LOOK ($i) > $all"
EARLY = "\n".join(f"S{n}: @LOOK ({n})" for n in range(1, 7))


async def test_call_that_is_cancelled_at_its_turn_passes_it_on() -> None:
    slots, may_end = Slots(1), asyncio.Event()

    async def wait(args: dict[str, Any], context: CallContext) -> JSON:
        await may_end.wait()
        return args["x"]

    handler = slots.sharing(wait)
    first, second, third = (
        asyncio.ensure_future(handler({"x": n}, CallContext("r", str(n)))) for n in range(3)
    )
    await asyncio.sleep(0)
    may_end.set()
    await asyncio.sleep(0)
    assert first.done()
    second.cancel()  # which would leave in the next turn
    async with asyncio.timeout(10):
        assert await third == 2
    assert second.cancelled()


def graph(*calls: tuple[str, int]) -> Plan:
    """A plan of independent steps."""
    steps = [Step(str(x), Call(name, (), (("x", Literal(x)),)), depends_on=()) for name, x in calls]
    return Plan(Steps(tuple(steps), Order.DAG))


GRAPH = graph(*(("LOOK", n) for n in range(1, 7)))


@pytest.mark.parametrize("plan", [LOOP, EARLY, GRAPH])
@pytest.mark.parametrize("declared", [True, False])
async def test_tool_limit_applies_under_every_name(plan: Any, declared: bool) -> None:
    now = most = 0

    @tool(effect="read", max_concurrent=2 if declared else None)
    async def look(x: int) -> int:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.005)
        now -= 1
        return x

    caps = {} if declared else {"look": 2}
    limits = Limits(schedule="auto", max_concurrency=6, max_concurrency_by_tool=caps)
    result = await Runtime([look], limits=limits).run(plan)
    assert (result.status, most) == ("done", 2)


async def test_steps_waiting_for_tool_block_no_other_tool() -> None:
    """In a graph with two concurrent steps, a tool limited to one call leaves the other slot to others."""
    order: list[str] = []
    quick_ones = asyncio.Event()

    @tool(effect="read")
    async def slow(x: int) -> int:
        await asyncio.wait_for(quick_ones.wait(), 60)
        order.append(f"slow{x}")
        return x

    @tool(effect="read")
    async def quick(x: int) -> int:
        order.append(f"quick{x}")
        if x == 4:
            quick_ones.set()
        return x

    plan = graph(("SLOW", 1), ("SLOW", 2), ("QUICK", 3), ("QUICK", 4))
    limits = Limits(max_concurrency=2, max_concurrency_by_tool={"SLOW": 1})
    result = await Runtime([slow, quick], limits=limits).run(plan)
    assert (result.status, order) == ("done", ["quick3", "quick4", "slow1", "slow2"])


async def test_items_of_a_loop_call_side_by_side_what_is_declared_to_touch_another_thing() -> None:
    now, most, texts = 0, 0, dict[str, list[str]]()

    @tool(resource="page")
    async def append(page: str, text: str) -> None:
        nonlocal now, most
        now, most = now + 1, max(most, now + 1)
        await asyncio.sleep(0.005)
        texts.setdefault(page, []).append(text)
        now -= 1

    plan = "# ltp: 2\nINPUT $pages: json\n?FOREACH ($p IN $pages) {{\n@APPEND ({}, str($p))\n}}\n@RESPOND (1)"
    runtime = Runtime([append])
    for pages, touched, expected in (
        (["a", "b", "c"], "$p", 3),
        (["a", "b", "a"], "$p", 1),
        (["c", "b", "a"], '"one"', 1),
    ):
        now, most = 0, 0
        texts.clear()
        result = await runtime.run(plan.format(touched), {"pages": pages})
        assert (result.status, most) == ("done", expected)
    assert texts == {"one": ["c", "b", "a"]}


def test_what_is_declared_of_the_order_of_calls_fits_the_function() -> None:
    def move(page: str) -> None: ...

    assert tool_of(tool(resource=["page"])(move)).spec.independence == Independence(resource=("page",))
    with pytest.raises(CallsheetError, match="it has no parameter 'pag', which `resource` names"):
        tool_of(tool(resource="pag")(move))
    with pytest.raises(CallsheetError, match="it commutes, so that no resource sets its calls apart"):
        tool(commutes=True, resource="page")(move)
    with pytest.raises(TypeError, match="resource must be a list of parameters, not int"):
        tool(resource=5)(move)  # type: ignore[call-overload]
    details = [*tool_details("MOVE", tool_of(tool(resource="page")(move)).spec)]
    assert "in loops: calls for another page do not touch each other" in details


def test_limit_of_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Slots(0)
    with pytest.raises(ValueError, match="max_concurrency_by_tool must be at least 1: for LOOK it is 0"):
        Limits(max_concurrency_by_tool={"look": 0})
    with pytest.raises(CallsheetError, match="max_concurrent is 0"):

        @tool(max_concurrent=0)
        def look() -> None: ...


def config(extension: str) -> Any:
    text = f'{{"mcpServers": {{"s": {{"command": "x", "callsheet": {extension}}}}}}}'
    return parse_config(Source("mcp.json", text), Path(), {}).servers[0]


def test_configuration_sets_limits_of_server_and_tools() -> None:
    server = config('{"max_concurrent": 4, "effects": {"draw": {"effect": "read", "max_concurrent": 1}}}')
    assert server.max_concurrent == 4
    assert server.rules["draw"].max_concurrent == 1


@pytest.mark.parametrize("wrong", ["0", "true", '"two"', "1.5"])
def test_invalid_limit_has_position(wrong: str) -> None:
    with pytest.raises(CallsheetError, match='"max_concurrent" must be a whole number of at least 1'):
        config(f'{{"max_concurrent": {wrong}}}')


# ---------------------------------------------------------------- calls that are not wanted any more

GROUPS = {
    "TRY WITHIN": """TRY WITHIN (0.3) {
  S1: ?FOREACH ($x IN range(6)) TOGETHER {
    S2: @CALL (x=$x) > $z
  }
} ON_FAIL TIMEOUT {
  NOTE ("late")
}""",
    "TOGETHER STOP": """S1: ?FOREACH ($x IN range(6)) TOGETHER STOP {
  S2: @CALL (x=$x) > $z
} ON_FAIL {
  NOTE ("one has failed")
}""",
    "TOGETHER FIRST": """S1: ?FOREACH ($x IN range(6)) TOGETHER FIRST {
  S2: @CALL (x=$x) > $z
}""",
}


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("is_declared", [True, False])
async def test_calls_that_wait_when_their_group_ends_never_leave(
    tmp_path: Path, group: str, is_declared: bool
) -> None:
    made, first = list[int](), 0.6 if group == "TRY WITHIN" else 0.05

    @tool(effect="unsafe", max_concurrent=2 if is_declared else None)
    async def call(x: int) -> int:
        made.append(x)
        await asyncio.sleep(0.6 if x else first)
        if not x and group == "TOGETHER STOP":
            raise ValueError("no")
        return x

    limits = None if is_declared else Limits(max_concurrency_by_tool={"CALL": 2})
    runtime = Runtime([call], journal=tmp_path / "j.db", limits=limits)
    text = f"# ltp: 2\n{GROUPS[group]}\nS3: @CALL (x=9) > $y\n@RESPOND ($y)"
    result = await runtime.run(text, run_id="r")
    sent = [0, 1] if group == "TRY WITHIN" else [0, 1, 2]  # the slot of 0 is passed on before it has failed
    assert (result.response, made) == ("9", [*sent, 9])
    with Journal.open(tmp_path / "j.db") as journal:
        failed = [event.body for event in journal.events("r") if event.type is EventType.ERR]
        assert journal.verify("r") is None
    unsent = [body["error"] for body in failed if body and body.get("kind") == "CANCELLED"]
    assert len(unsent) == 6 - len(sent)
    assert all(one.startswith("it was not sent: ") for one in unsent)


async def test_calls_that_wait_for_those_of_another_run_end_with_their_time(tmp_path: Path) -> None:
    made, may_end, is_busy = list[int](), asyncio.Event(), asyncio.Event()

    @tool(effect="unsafe", max_concurrent=1)
    async def call(x: int) -> int:
        made.append(x)
        is_busy.set()
        await may_end.wait()
        return x

    runtime = Runtime([call], journal=tmp_path / "j.db")
    other = asyncio.create_task(runtime.run("# ltp: 2\n@CALL (x=1) > $x\n@RESPOND ($x)"))
    await is_busy.wait()
    async with asyncio.timeout(30):
        text = '# ltp: 2\nTRY WITHIN (0.1) {\n@CALL (x=2) > $x\n} ON_FAIL TIMEOUT {\n@RESPOND ("late")\n}'
        late = await runtime.run(text)
    assert late.response == "late"
    may_end.set()
    assert (await other).response == "1"
    assert made == [1]
