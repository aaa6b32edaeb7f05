"""Hands LCTL blocks to a run's agents and checks the blocks that they return.

In: a run's ports, its journal, a rule. Out: ports whose agents receive a block that states how certain their
inputs are. The content of a returned block is noted beside the answer in the journal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import TypeVar

from callsheet.diagnostics import CallsheetError
from callsheet.ir import JSON
from callsheet.machine import AgentTurn, Fact, RunAgent, to_text
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.runtime.gateway import Ports
from callsheet.store.journal import Journal
from callsheet.trace.lctl.ids import shown_ids
from callsheet.trace.lctl.model import Handoff
from callsheet.trace.lctl.receive import Reply, reply_to
from callsheet.trace.lctl.write import write
from callsheet.trace.projection.briefing import briefing_of
from callsheet.trace.projection.recording import STATED, record_of

_C = TypeVar("_C", RunAgent, AgentTurn)
_LONGEST = 4_000
"""Maximum length in characters of a goal in a block."""
_MOST_NAMED = 8
"""Maximum number of facts that a message names."""


class BlockRule(StrEnum):
    """What happens to an answer whose LCTL block expresses doubts."""

    FLAG = "flag"
    """They are noted beside the answer."""
    BLOCK = "block"
    """A fact below 0.40, or a block that breaks a rule, fails the step."""
    REVIEW = "review"
    """For those, and for a fact below 0.60, a person must approve the answer."""


def with_blocks(ports: Ports, journal: Journal) -> Ports:
    """The ports, wrapped to hand out blocks if they have a rule for them."""
    if ports.blocks is None:
        return ports
    briefings = _Briefings(journal, BlockRule(ports.blocks))
    return replace(
        ports,
        agent=None if ports.agent is None else briefings.briefed(ports.agent),
        turn=None if ports.turn is None else briefings.briefed(ports.turn),
    )


class _Briefings:
    """Writes blocks for agents and checks theirs; the block is built once per visit of a step."""

    def __init__(self, journal: Journal, rule: BlockRule) -> None:
        self._journal = journal
        self._rule = rule
        self._handoffs: dict[str, Handoff | None] = {}

    def briefed(
        self, port: Callable[[_C, CallContext], Awaitable[JSON]]
    ) -> Callable[[_C, CallContext], Awaitable[JSON]]:
        """Wrap a port for agents: as a whole, or turn by turn, where the last turn may return a block."""

        async def solve(command: _C, context: CallContext) -> JSON:
            handed = await self._hand_off(context, command)
            value = await port(command, context)
            self._receive(handed, context)
            return value

        return solve

    async def _hand_off(self, context: CallContext, command: RunAgent | AgentTurn) -> Handoff | None:
        label = context.key.rsplit(".", 2)[0]
        if label not in self._handoffs:
            self._handoffs[label] = await asyncio.to_thread(self._briefing, context.run_id, label)
        handoff = self._handoffs[label]
        if handoff is None:
            return None
        goal = command.args.get("goal") or next(iter(command.inputs), "")
        handed = replace(handoff, instruction=to_text(goal)[:_LONGEST] or "Solve the step.")
        context.handed = write(handed)
        return handed

    def _briefing(self, run_id: str, label: str) -> Handoff | None:
        try:
            plan = self._journal.plan(self._journal.find_run(run_id).plan_hash)[0]
            record = record_of(plan, self._journal.events(run_id), self._journal.plan_of)
        except CallsheetError:
            return None
        return briefing_of(record, run_id, label)

    def _receive(self, handed: Handoff | None, context: CallContext) -> None:
        if not context.returned.strip():
            return
        reply = reply_to(handed, context.returned)
        context.remark(Fact("lctl", reply.describe()))
        if reply.confidence is not None:
            context.remark(Fact(STATED, f"{reply.confidence:g}"))
        why = self._objection(reply)
        if why and self._rule is BlockRule.REVIEW:
            context.review = why
        elif why:
            raise ToolFailed(why)

    def _objection(self, reply: Reply) -> str:
        if self._rule is BlockRule.FLAG:
            return ""
        if reply.errors:
            return f"the agent's LCTL block breaks rules: {reply.errors[0].rule} {reply.errors[0].message}"
        if reply.blocked:
            return f"the agent's answer rests on uncertain facts: {_some(reply.blocked)} below 0.40"
        if reply.review and self._rule is BlockRule.REVIEW:
            return f"the agent is not sure enough of its answer: {_some(reply.review)} below 0.60"
        return ""


def _some(facts: Sequence[str]) -> str:
    """The first of these ids, which the agent has chosen."""
    more = len(facts) - _MOST_NAMED
    return shown_ids(facts[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
