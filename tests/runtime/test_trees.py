"""Runs of plans with blocks: recorded, broken off at each call, and resumed to the same end."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from tests.runtime.tools import FACTS, ports_for, route_to

from callsheet.frontends.structured import read_structured
from callsheet.ir import JSON, plan_hash
from callsheet.ir.labels import read_label
from callsheet.machine import Decision, Limits, Result, Status
from callsheet.machine.tree.compiling import OWN_FACTS
from callsheet.policy.model import Policy, ToolRule
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.ports.timeouts import within
from callsheet.runtime.gateway import Ports
from callsheet.runtime.launch import Launch
from callsheet.runtime.runs import Amendments, resume_run, start_run
from callsheet.store import EventType, Journal
from callsheet.trace.visits import account_of

TEXT = """# ltp: 2
INPUT $names: list[str]

PLAN twice ($x: str) -> str {
  S1: @READ (x=$x) > $a ON_FAIL @RETRY(2, delay=0)
  RETURN ("${a}${a}")
}

S2: ?FOREACH ($n IN $names) {
  S3: CALL twice (x=$n) > $both
  TRY {
    S4: @WRITE (x=$both) > $w
  } ON_FAIL TOOL {
    LET $w = "not written: ${$error.message}"
  } FINALLY {
    S5: @WRITE (x="end of ${n}")
  }
  YIELD ({"n": $n, "w": $w})
} > $rows
LET $since = now()
S6: ?REPEAT (max=5) {
  S7: @READ (x="poll") > $state
} UNTIL ($state == "READY")
S8: COMPUTE (reads=[$rows]) > $count \"\"\"
print("counting")
count = len([r for r in rows if r["w"].startswith("n")])
\"\"\"
@RESPOND ({"rows": $rows, "count": $count, "ago": now() >= $since})
"""
PLAN = read_structured(TEXT).require()
LAUNCH = Launch(
    facts={**FACTS, **OWN_FACTS}, inputs={"names": ["a", "b"]}, limits=Limits(retry_delay=0.0), source=TEXT
)


@dataclass
class World:
    """What the tools have done; `break_at` is the number of the call at which the process stops."""

    break_at: int = -1
    begun: int = 0
    made: Counter[str] = field(default_factory=Counter[str])
    polls: int = 0

    async def call(self, args: dict[str, JSON], context: CallContext) -> JSON:
        self.begun += 1
        if self.begun == self.break_at:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.sleep(1)
        self.made[context.key] += 1
        x = str(args["x"])
        if context.key in ("S2[0]/S3/S1.1", "S2[1]/S4.1"):
            raise ToolFailed(f"no {x}")
        return {"poll": "READY" if context.key.startswith("S6[#3]") else "waiting"}.get(x, x.upper())


def _tools(world: World) -> dict[str, object]:
    async def call(args: dict[str, JSON], context: CallContext) -> JSON:
        return await world.call(args, context)

    return {"READ": call, "WRITE": call}


async def _started(path: Path, world: World, launch: Launch = LAUNCH) -> Result | None:
    plan = PLAN if launch.source == TEXT else read_structured(launch.source).require()
    launch = launch if launch.policy is None else replace(launch, verified=plan_hash(plan))
    with Journal.open(path) as journal:
        return (await start_run(plan, Ports(route_to(_tools(world))), launch, journal, "run")).result


async def _resumed(path: Path, world: World) -> Result | None:
    with Journal.open(path) as journal:
        retry = Amendments(in_doubt=Decision.RETRY)
        return (await resume_run(journal, "run", ports_for(_tools(world)), retry)).result


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, World]:
    world = World()
    result = asyncio.run(_started(tmp_path_factory.mktemp("whole") / "journal.db", world))
    assert result is not None
    return result, world


def test_answer_and_calls_of_a_whole_run(whole: tuple[Result, World]) -> None:
    result, world = whole
    assert result.status is Status.DONE
    assert result.answer == {
        "rows": [{"n": "a", "w": "AA"}, {"n": "b", "w": "not written: no BB"}],
        "count": 1,
        "ago": True,
    }
    assert max(world.made.values()) == 1


def _policy(read: str) -> Policy:
    """A policy under which what @READ gives has a label, and @WRITE tells nobody."""
    rule = ToolRule(egress=False, destructive=False, idempotent=True)
    return Policy(tools={"READ": replace(rule, returns=read_label(read)), "WRITE": rule})


@pytest.mark.parametrize("policy", [None, _policy("U/pub")], ids=["free", "under a policy"])
def test_a_run_that_is_broken_off_at_any_call_comes_to_the_same_end(
    whole: tuple[Result, World], tmp_path: Path, policy: Policy | None
) -> None:
    result, unbroken = whole
    launch = replace(LAUNCH, policy=policy)
    for number in range(1, unbroken.begun + 1):
        path = tmp_path / str(number) / "journal.db"
        path.parent.mkdir()
        world = World(break_at=number)
        with pytest.raises(asyncio.CancelledError):
            asyncio.run(_started(path, world, launch))
        ended = asyncio.run(_resumed(path, world))
        assert ended is not None
        assert (ended.status, ended.answer) == (result.status, result.answer)
        assert ended.variables | {"since": ""} == result.variables | {"since": ""}
        assert world.made == unbroken.made


CANARY = "CANARY-4711"
OF_SECRETS = """# ltp: 2
S1: @READ (x="canary-4711") > $key
S2: ?FOREACH ($n IN [1, 2]) {
  TRY {
    S3: @WRITE (x={"k": $key, "n": $n}) > $w
    REQUIRE ($w == "") "the answer is ${json($w)}"
  } ON_FAIL {
    NOTE ("not so: ${$error.message}")
  }
}
COMPUTE (reads=[$key]) > $parts \"\"\"
parts = key.split("-")
print("it has", parts)
\"\"\"
@RESPOND ("ready")
"""


def test_secrets_in_a_tree_are_in_no_file_and_known_again_after_a_stop(tmp_path: Path) -> None:
    launch = Launch(
        facts={**FACTS, **OWN_FACTS}, source=OF_SECRETS, limits=LAUNCH.limits, policy=_policy("T/secret")
    )
    for number in range(1, 5):
        path = tmp_path / str(number) / "journal.db"
        path.parent.mkdir()
        world = World(break_at=number)
        if number < 4:
            with pytest.raises(asyncio.CancelledError):
                asyncio.run(_started(path, world, launch))
            ended = asyncio.run(_resumed(path, world))
        else:
            ended = asyncio.run(_started(path, world, launch))
        assert ended is not None
        assert (ended.status, ended.answer) == (Status.DONE, "ready")
        assert [*world.made.values()] == [1, 1, 1]
        files = [file.read_bytes() for file in path.parent.rglob("*") if file.is_file()]
        assert files
        assert not any(
            CANARY.encode() in content or b"4711" in content.replace(b"canary-4711", b"") for content in files
        )
        with Journal.open(path) as journal:
            plan = read_structured(OF_SECRETS).require()
            account = account_of(plan, journal.events("run"), journal.plan_of)
        said = [visit.detail for visit in account.steps if "withheld" in visit.detail]
        assert [text.partition(":")[0] for text in said] == ["POL180"] * 2


def test_the_record_tells_of_each_place_and_of_what_was_printed(tmp_path: Path) -> None:
    asyncio.run(_started(tmp_path / "journal.db", World()))
    with Journal.open(tmp_path / "journal.db") as journal:
        account = account_of(PLAN, journal.events("run"), journal.plan_of)
        keys = [event.key for event in journal.events("run") if event.type is EventType.INTENT]
    assert "S2[1]/S3/S1.1" in keys
    assert "S6[#2]/S7.1" in keys
    steps = {visit.step: visit for visit in account.steps}
    assert steps["S2[1]/S4"].outcome == "failed"
    assert steps["S2[0]/S3"].value == "AA"
    assert "counting" in [visit.detail for visit in account.steps]


async def test_an_answer_that_comes_too_late_is_a_failure_of_its_own_kind(tmp_path: Path) -> None:
    async def slow(args: dict[str, JSON], context: CallContext) -> JSON:
        return await within(0.01, asyncio.sleep(5))

    text = """# ltp: 2
S1: @READ (x=1) > $a ON_FAIL TOOL {
  LET $a = "broken"
} ON_FAIL TIMEOUT {
  LET $a = $error.kind
}
@RESPOND ($a)
"""
    with Journal.open(tmp_path / "journal.db") as journal:
        launch = Launch(facts={**FACTS, **OWN_FACTS}, source=text)
        ports = Ports(route_to({"READ": slow}))
        ended = await start_run(read_structured(text).require(), ports, launch, journal, "run")
        assert ended.result is not None
        assert ended.result.answer == "TIMEOUT"
        kinds = [
            (event.body or {}).get("kind") for event in journal.events("run") if event.type is EventType.ERR
        ]
        assert kinds == ["TIMEOUT"]
