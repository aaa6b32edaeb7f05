"""Crashes of random plans of version 2: what a killed process leaves at each point, and its resumption.

One run of a plan is copied at each point at which a kill would leave something else: after each commit of its
journal, and before and after the effect of each call. A copy is the folder of the journal with the effects
that the world had by then. Each copy is resumed; calls in doubt are decided as the world has it. `wrong_ends`
gives what differs from the run that was not killed.
"""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from tests.machine.test_tree_laws import INPUTS, answer_to
from tests.plans import FACTS
from tests.runtime.tools import Tools, ports_for, route_to

from callsheet.frontends.expressions import read_expression
from callsheet.frontends.structured import format_structured
from callsheet.ir import JSON, Plan
from callsheet.ir.tree import Block, Repeat, Say, Statement, Word
from callsheet.ir.tree_edits import map_blocks, plan_of_tree
from callsheet.machine import Decision, Limits, Result, TookPlace
from callsheet.machine.keys import place_of_key
from callsheet.machine.tree.compiling import OWN_FACTS
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.runtime.doubt import DoubtfulCall, RunOutcome, decide_calls
from callsheet.runtime.gateway import Ports
from callsheet.runtime.launch import Launch
from callsheet.runtime.runs import resume_run, start_run
from callsheet.store import Durability, EventType, Journal, RunWriter
from callsheet.trace.visits import account_of

LIMITS = Limits(max_steps=100_000, retry_delay=0.0, window=3)
_OUTCOMES = frozenset({EventType.OK, EventType.ERR})
_ZERO = read_expression("0").expression


def without_waits(plan: Plan) -> Plan:
    """The plan with all waits and pauses of no time."""

    def quick(block: Block) -> Block:
        return tuple(map(one_quick, block))

    def one_quick(one: Statement) -> Statement:
        if isinstance(one, Say) and one.word is Word.WAIT:
            return replace(one, values=(_ZERO,))
        if isinstance(one, Repeat) and one.every is not None:
            one = replace(one, every=_ZERO)
        return map_blocks(one, quick)

    assert plan.tree is not None
    plans = tuple(replace(one, body=quick(one.body)) for one in plan.tree.plans)
    return plan_of_tree(replace(plan.tree, body=quick(plan.tree.body), plans=plans), goal=plan.goal)


@dataclass
class World:
    """What has taken place, by the keys of the calls; `at` is told of each point at which a kill may come."""

    effects: Counter[str] = field(default_factory=Counter[str])
    at: Callable[[str], None] = lambda where: None

    @property
    def tools(self) -> Tools:
        """The tools of random programs: an outcome is a function of the arguments."""

        def tool(name: str) -> Any:
            async def call(args: dict[str, JSON], context: CallContext) -> JSON:
                await asyncio.sleep(0)
                self.at(f"before {context.key}")
                succeeds, value = answer_to(name, args)
                if not succeeds:
                    raise ToolFailed(str(value))
                self.effects[context.key] += 1
                self.at(f"after {context.key}")
                await asyncio.sleep(0)
                return value

            return call

        return {name: tool(name) for name in FACTS}


class Left(NamedTuple):
    """What a process that was killed at a point has left."""

    where: str
    folder: Path
    effects: Counter[str]


class Told(NamedTuple):
    """How a run ended and what its journal tells, without times and without what only a resume adds."""

    end: tuple[object, ...]
    outcomes: list[tuple[str, str]]
    visits: list[tuple[str, ...]]
    effects: Counter[str]
    """The effects of calls that must not be repeated."""


def wrong_ends(
    plan: Plan, folder: Path, schedule: str, points: Callable[[list[Left]], list[Left]]
) -> list[str]:
    """What differs after a kill from the run without one, for each of the points that are chosen."""
    plan = without_waits(plan)
    world = World()
    left: list[Left] = []

    def copy(where: str) -> None:
        into = folder / f"left{len(left)}"
        shutil.copytree(folder / "whole", into)
        left.append(Left(where, into, world.effects.copy()))

    (folder / "whole").mkdir()
    with Journal.open(folder / "whole" / "journal.db", Durability.NORMAL) as journal, _committing(copy):
        world.at = copy
        limits = replace(LIMITS, schedule=schedule)
        launch = Launch({**FACTS, **OWN_FACTS}, inputs=INPUTS, limits=limits, source=format_structured(plan))
        ended = asyncio.run(start_run(plan, Ports(route_to(world.tools)), launch, journal, "run")).result
        assert ended is not None
        expected = _told(journal, plan, ended, world)
    wrong: list[str] = []
    for point in points(left):
        try:
            told = _taken_up(plan, point)
        except Exception as error:  # which is a finding, too
            wrong.append(f"{point.where}: {type(error).__name__}: {error}")
            continue
        wrong += [
            f"{point.where}: {name} {was} instead of {wanted}"
            for name, was, wanted in zip(Told._fields, told, expected, strict=True)
            if was != wanted
        ]
    return wrong


def _taken_up(plan: Plan, left: Left) -> Told:
    """What is told of a run that goes on from what is left of it."""
    world = World(left.effects.copy())
    with Journal.open(left.folder / "journal.db", Durability.NORMAL) as journal:
        if not journal.runs():
            raise LookupError("the run is not there")
        for _ in range(100):
            outcome: RunOutcome = asyncio.run(resume_run(journal, "run", ports_for(world.tools)))
            if outcome.result is not None:
                return _told(journal, plan, outcome.result, world)
            assert outcome.in_doubt
            for call in outcome.in_doubt:
                decide_calls(journal, "run", [call.key], _as_it_was(call, left))
    raise TimeoutError("the run does not end")


def _as_it_was(call: DoubtfulCall, left: Left) -> Decision | TookPlace:
    """What a person decides who sees whether a call took place."""
    return TookPlace(answer_to(call.tool, call.args)[1]) if left.effects[call.key] else Decision.RETRY


def _told(journal: Journal, plan: Plan, ended: Result, world: World) -> Told:
    events = list(journal.events("run"))
    outcomes: dict[str, str] = {}
    for event in events:
        body = event.body or {}
        if event.key is None:
            continue
        if event.type in _OUTCOMES:
            outcomes[event.key] = f"{event.type} {body.get('value', body.get('error'))}"
        elif event.type is EventType.DECIDED and "value" in body:
            outcomes[event.key] = f"{EventType.OK} {body['value']}"
    account = account_of(plan, events, journal.plan_of)
    visits = sorted(
        (one.step, one.outcome, str(one.value), one.detail, str(one.failed_items), one.var or "")
        for one in account.steps
    )
    assert journal.verify("run") is None
    unsafe = {key for key in world.effects if _tool_of(plan, key) == "WRITE"}
    return Told(
        (ended.status, ended.answer, ended.error, ended.variables, ended.outcome),
        sorted(outcomes.items()),
        visits,
        Counter({key: count for key, count in world.effects.items() if key in unsafe}),
    )


def _tool_of(plan: Plan, key: str) -> str:
    """The tool of the call with a key."""
    place, _, _ = place_of_key(key)
    calls = {step.id: step.call for step in plan.steps}
    call = calls[place.rpartition("/")[2]]
    return "" if call is None else call.tool


@contextmanager
def _committing(copy: Callable[[str], None]) -> Generator[None]:
    """Tells of each commit of a journal when it is durable."""
    commit, flush = RunWriter.commit, RunWriter.flush

    def committed(self: RunWriter) -> bool:
        result = commit(self)
        copy(f"commit {self.last_seq}")
        return result

    async def flushed(self: RunWriter) -> None:
        await flush(self)
        copy(f"commit {self.last_seq}")

    RunWriter.commit, RunWriter.flush = committed, flushed  # pyright: ignore[reportAttributeAccessIssue]
    try:
        yield
    finally:
        RunWriter.commit, RunWriter.flush = commit, flush  # pyright: ignore[reportAttributeAccessIssue]
