"""Plans with blocks on a real Temporal server end as on the local engine, even if their worker dies."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType
from tests.runtime.engines.temporal.conftest import World

from callsheet.frontends.structured import read_structured
from callsheet.ir import JSON, Effect, Plan
from callsheet.ir.labels import LITERAL, read_label
from callsheet.machine import Compile, Status, ToolFacts
from callsheet.machine.tree.apart import Evaluation
from callsheet.machine.tree.compiling import OWN_FACTS
from callsheet.policy.model import Policy, ReplanRule, ToolRule
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.runtime.answers import Answer
from callsheet.runtime.engines.temporal import client, worker
from callsheet.runtime.engines.temporal.flow import Evaluations
from callsheet.runtime.engines.temporal.payloads import ClaimCheck
from callsheet.runtime.gateway import Ports, Route
from callsheet.runtime.launch import Launch
from callsheet.runtime.runs import start_run

TEXT = '''# ltp: 2
INPUT $names: list[str]
PLAN twice ($x: str) -> str {
  A1: @READ (x=$x) > $a ON_FAIL @RETRY(2, delay=0.01)
  RETURN ("${a}${a}")
}
S1: ?FOREACH ($n IN $names) TOGETHER MAX 3 {
  S2: CALL twice (x=$n) > $both
  TRY {
    S3: @WRITE (x=$both) > $w
  } ON_FAIL TOOL {
    LET $w = "not written: ${$error.message}"
  } FINALLY {
    S4: @WRITE (x="end of ${n}")
  }
  YIELD ($w)
} > $rows
@PARALLEL {
  S5: @READ (x="left") > $left
  S6: ?REPEAT (max=4, every="0.01s") {
    S7: @READ (x="poll") > $state
  } UNTIL ($state == "READY")
}
TRY {
  S9: @WRITE (x="booked")
  FAIL ("full")
} ON_FAIL UNDO (write="write(x=call.x)") ON_FAIL {
  LET $full = $error.message
}
LET $since = now()
S8: COMPUTE (reads=[$rows]) > $count """
count = len([r for r in rows if r.startswith("not")])
"""
@RESPOND ({"rows": $rows, "left": $left, "full": $full, "count": $count, "ago": now() >= $since})
'''
FACTS = {"READ": ToolFacts(Effect.READ, ("x",)), "WRITE": ToolFacts(Effect.IDEMPOTENT, ("x",)), **OWN_FACTS}
NAMES: list[JSON] = ["a", "b", "c", "d"]
ANSWER = {
    "rows": ["AA", "not written: no BB", "CC", "DD"],
    "left": "LEFT",
    "full": "full",
    "count": 1,
    "ago": True,
}


class Tools:
    """Tools whose answers follow from their arguments and keys; `hang_at` is a call that never answers."""

    def __init__(self, hang_at: str = "") -> None:
        self.hang_at = hang_at
        self.calls: Counter[str] = Counter()
        self.hangs = asyncio.Event()

    async def call(self, args: dict[str, Any], context: CallContext) -> Any:
        key, x = context.key, str(args["x"])
        if key == self.hang_at:
            self.hangs.set()
            await asyncio.sleep(60)
        self.calls[key] += 1
        if key.startswith("S1[0]/S2/A1.1") or x == "BB":
            raise ToolFailed(f"no {x}")
        return {"poll": "READY" if key.startswith("S6[#3]") else "waiting"}.get(x, x.upper())

    def ports(self) -> Ports:
        return Ports({"READ": Route(self.call), "WRITE": Route(self.call)}.get)


def plan_of(text: str) -> Plan:
    return read_structured(text).require()


async def test_tree_ends_as_on_local_engine_with_the_same_calls(world: World) -> None:
    here, there = Tools(), Tools()
    launch = Launch(facts=FACTS, inputs={"names": NAMES}, source=TEXT)
    local = (await start_run(plan_of(TEXT), here.ports(), launch, world.journal, "here")).result
    async with world.worker(there.ports()):
        outcome = await world.run(plan_of(TEXT), {"names": NAMES}, FACTS)
    assert local is not None
    assert outcome.result is not None
    assert (outcome.result.answer, local.answer) == (ANSWER, ANSWER)
    assert there.calls == here.calls
    assert world.journal.verify(outcome.run_id) is None
    assert [e.key for e in world.journal.events(outcome.run_id) if e.type == "ok"]


async def test_tree_goes_on_after_the_death_of_its_worker_in_an_item(world: World) -> None:
    first = Tools(hang_at="S1[2]/S3.1")
    async with world.worker(first.ports()):
        run_id = await world.start(plan_of(TEXT), {"names": NAMES}, FACTS)
        async with asyncio.timeout(30):
            await first.hangs.wait()
    second = Tools()
    async with world.worker(second.ports()):
        outcome = await world.wait(run_id)
    assert outcome.result is not None
    assert outcome.result.answer == ANSWER
    assert not first.calls.keys() & second.calls.keys()


async def test_questions_of_items_are_answered_by_their_places(world: World) -> None:
    asking = plan_of("""# ltp: 2
S1: ?FOREACH ($i IN [1, 2]) {
  S2: @ASK_HUMAN ("which of ${i}?", options=["a", "b"]) > $y
  YIELD ($y)
} > $all
@RESPOND ($all)
""")
    async with world.worker(Tools().ports()):
        outcome = await world.run(asking, {}, FACTS)
        assert sorted(ask.key for ask in outcome.waiting) == ["S1[0]/S2.1", "S1[1]/S2.1"]
        for key, answer in (("S1[1]/S2.1", "b"), ("S1[0]/S2.1", "a")):
            await client.answer(world.temporal_run(outcome.run_id), Answer.of(answer), key)
        outcome = await world.wait(outcome.run_id)
    assert outcome.result is not None
    assert outcome.result.answer == ["a", "b"]


PRIVATE = Policy(
    tools={
        "READ": ToolRule(egress=False, destructive=False, idempotent=True, returns=read_label("T/priv")),
        "WRITE": ToolRule(egress=True, destructive=False, idempotent=True, returns=read_label("T/pub")),
    }
)


async def test_monitor_judges_the_calls_of_a_tree(world: World) -> None:
    text = """# ltp: 2
INPUT $names: list[str]
S1: ?FOREACH ($n IN $names) {
  S2: @READ (x=$n) > $a
  ?IF ($n == "b") {
    S3: @WRITE (x=$a)
  }
}
"""
    plan, tools = plan_of(text), Tools()
    async with world.worker(tools.ports()):
        harmless = await world.run(plan, {"names": ["a"]}, FACTS, policy=PRIVATE)
        leaking = await world.run(plan, {"names": ["a", "b"]}, FACTS, policy=PRIVATE)
    assert harmless.result is not None
    assert leaking.result is not None
    assert (harmless.result.status, leaking.result.status) == (Status.DONE, Status.REFUSED)
    assert not [key for key in tools.calls if key.endswith("S3.1")]


@pytest.mark.parametrize("to", ["public", "private"])
async def test_next_part_is_planned_proved_and_goes_on(world: World, to: str) -> None:
    planned: list[str] = []

    async def plan_next(command: Compile, context: CallContext) -> tuple[Plan, Mapping[str, ToolFacts]]:
        planned.append(command.reason)
        context.shown = LITERAL
        what = '"x"' if to == "public" else "$a"
        return plan_of(f"# ltp: 2\nINPUT $a: str\nS1: @WRITE (x={what}) > $w\n@RESPOND ($w)\n"), FACTS

    tools = Tools()
    ports = replace(tools.ports(), compiler=plan_next)
    text = '# ltp: 2\nS1: @READ (x="a") > $a\nS2: RE-PLAN ("write it")\n'
    policy = replace(PRIVATE, replan=ReplanRule())
    async with world.worker(ports):
        outcome = await world.run(plan_of(text), {}, FACTS, policy=policy)
    assert outcome.result is not None
    assert planned == ["write it"] * (1 if to == "public" else 2)  # it is told once why it may not
    if to == "public":
        assert outcome.result.answer == "X"
        assert [*tools.calls] == ["S1.1", "r1//S1.1"]
    else:
        assert "private data in x ($a) of @WRITE would reach outside" in (outcome.result.error or "")
        assert [*tools.calls] == ["S1.1"]
    assert world.journal.verify(outcome.run_id) is None


async def test_tree_whose_history_grows_long_goes_on_in_a_new_one(world: World) -> None:
    here, there = Tools(), Tools()
    launch = Launch(facts=FACTS, inputs={"names": NAMES}, source=TEXT)
    local = (await start_run(plan_of(TEXT), here.ports(), launch, world.journal, "here")).result
    async with world.worker(there.ports()):
        run_id = await world.start(plan_of(TEXT), {"names": NAMES}, FACTS, turn_over=20)
        outcome = await world.wait(run_id)
    assert local is not None
    assert outcome.result is not None
    assert outcome.result.answer == ANSWER
    assert there.calls == here.calls
    first = (await world.temporal_run(run_id).handle.fetch_history()).events[0]
    assert first.workflow_execution_started_event_attributes.continued_execution_run_id


LARGE = """# ltp: 2
INPUT $count: int
LET $rows = [{"n": i, "odd": i % 2 == 1, "twice": i * 2} for i in range($count)]
S1: @READ (x="a") > $a
LET $days = {(r.n % 7, date("2026-01-01") + r.n % 7 * duration("1d")) for r in $rows if r.odd}
S2: ?FOREACH ($n IN [r.n for r in $rows if r.n % 10000 == 0 and r.twice == r.n * 2]) {
  S3: @READ (x="${$n}") > $x
  YIELD ([$x, len([r for r in $rows if r.n > $n and r.twice > 2 * $n])])
} > $above
TRY {
  LET $bad = [1 // (r.n + r.twice - 3 * 29000) for r in $rows]
} ON_FAIL {
  LET $bad = $error.kind
}
@RESPOND ([len($days), max([d[1] for d in $days]), $above, $bad])
"""
LARGE_ANSWER = [7, "2026-01-07", [["0", 29_999], ["10000", 19_999], ["20000", 9_999]], "ZERO"]


class Watched(Evaluations):
    """The evaluations of the worker that was started last."""

    last: Watched | None = None

    def __init__(self, claims: ClaimCheck) -> None:
        super().__init__(claims)
        Watched.last = self


async def test_large_expressions_are_evaluated_once_beside_their_workflow(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluated = Counter[str]()
    made = Evaluation.made

    def counted(evaluation: Evaluation) -> dict[str, JSON]:
        evaluated["all"] += 1
        return made(evaluation)

    monkeypatch.setattr(Evaluation, "made", counted)
    monkeypatch.setattr(worker, "Evaluations", Watched)
    first = Tools(hang_at="S2[2]/S3.1")
    async with world.worker(first.ports()):
        run_id = await world.start(plan_of(LARGE), {"count": 30_000}, FACTS)
        async with asyncio.timeout(60):
            await first.hangs.wait()
    second = Tools()
    async with world.worker(second.ports()):
        outcome = await world.wait(run_id)
        assert Watched.last is not None
        assert not Watched.last.handed  # what the replay has handed over is no longer held
    assert outcome.result is not None
    assert outcome.result.answer == LARGE_ANSWER
    history = await world.temporal_run(run_id).handle.fetch_history()
    kinds = Counter(EventType.Name(event.event_type) for event in history.events)
    assert kinds["EVENT_TYPE_MARKER_RECORDED"] == evaluated["all"] == 7
    assert not kinds["EVENT_TYPE_WORKFLOW_TASK_FAILED"]
    assert kinds["EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT"] <= 1  # the one that the first worker died in
    assert world.journal.verify(run_id) is None


async def test_large_value_that_no_history_can_have_is_made_in_the_workflow(world: World) -> None:
    text = """# ltp: 2
LET $rows = [i for i in range(300000)] + [10 ** 5000]
@RESPOND (len($rows))
"""
    async with world.worker(Tools().ports()):
        outcome = await world.run(plan_of(text), {}, FACTS)
    assert outcome.result is not None
    assert outcome.result.answer == 300_001


async def test_fault_of_a_worker_that_evaluates_ends_the_run_and_is_not_tried_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = Counter[str]()

    def faulty(_: Evaluation) -> dict[str, JSON]:
        tried["all"] += 1
        raise AssertionError("no such thing")

    monkeypatch.setattr(Evaluation, "made", faulty)
    async with world.worker(Tools().ports()):
        outcome = await world.run(plan_of(LARGE), {"count": 30_000}, FACTS)
    assert outcome.result is not None
    assert outcome.result.status is Status.CANCELLED
    assert "could not be evaluated: AssertionError: no such thing" in str(outcome.result.error)
    assert tried["all"] == 1
    assert world.journal.verify(outcome.run_id) is None
