"""A run on Temporal that follows another one keeps its finished calls, as on the local engine."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tests.runtime.engines.temporal.conftest import World

from callsheet.frontends.structured import read_structured
from callsheet.ir import Effect, Plan
from callsheet.machine import ToolFacts
from callsheet.machine.tree.compiling import OWN_FACTS
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.runtime.doubt import RunOutcome
from callsheet.runtime.engines.temporal import client
from callsheet.runtime.forking import Revision
from callsheet.runtime.gateway import Ports, Route
from callsheet.runtime.kept_outcomes import keep_calls

TEXT = """# ltp: 2
S1: ?FOREACH ($n IN range(8)) TOGETHER MAX 3 {
  S2: @PUT (x=$n) > $done
  YIELD ($done)
} > $rows ON_FAIL SKIP
@RESPOND ($rows)
"""
EDITED = TEXT.replace("S1:", "Items:").replace("@RESPOND", 'S3: @PUT (x="end")\n@RESPOND')
FACTS = {"PUT": ToolFacts(Effect.UNSAFE, ("x",)), **OWN_FACTS}


class Tools:
    """A tool that fails for some arguments; `large` results do not fit into a history."""

    def __init__(self) -> None:
        self.broken: set[object] = set()
        self.calls: Counter[object] = Counter()

    async def put(self, args: dict[str, Any], context: CallContext) -> str:
        self.calls[args["x"]] += 1
        if args["x"] in self.broken:
            raise ToolFailed("broken")
        return str(args["x"]) * (100_000 if args["x"] == 7 else 1)

    def taken(self) -> Counter[object]:
        """The calls since the last time."""
        taken, self.calls = self.calls, Counter()
        return taken


def plan_of(text: str) -> Plan:
    return read_structured(text).require()


async def test_failed_items_and_an_edited_plan_run_again_on_the_server(world: World) -> None:
    tools = Tools()

    async def follow(parent: str, new_id: str, text: str, *, failed_items: bool) -> RunOutcome:
        plan = plan_of(text)
        made = keep_calls(
            world.journal, parent, plan, Revision(plan, FACTS, {}, None), text=text, failed_items=failed_items
        )
        made.write(world.journal, new_id)
        return await client.resume_and_wait(world.temporal_run(new_id), None)

    async with world.worker(Ports({"PUT": Route(tools.put)}.get)):
        tools.broken = {2, 5}
        first = await world.run(plan_of(TEXT), {}, FACTS, note={"engine": {"name": "temporal"}})
        assert tools.taken().total() == 8
        tools.broken = {5}
        again = await follow(first.run_id, "again", TEXT, failed_items=True)
        assert tools.taken() == {2: 1, 5: 1}
        tools.broken = set()
        last = await follow("again", "last", EDITED, failed_items=False)
        assert tools.taken() == {5: 1, "end": 1}
    assert again.result is not None
    assert last.result is not None
    assert last.result.answer == [*"0123456", "7" * 100_000]
    assert sum(event.type == "ok" for event in world.journal.events("last")) == 9
    assert world.journal.find_run("last").parent_run == "again"
    assert world.journal.verify("last") is None
