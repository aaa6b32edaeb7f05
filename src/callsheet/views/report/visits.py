"""Builds the rows of visits and calls of a run, with their times and the critical path.

In: a lineage, a record of the same run, its events. Out: rows. The record has the outcomes of visits, the
lineage their reads; both have the visits of a step in the same order.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from callsheet.ir import JSON
from callsheet.machine import AgentTurn, Ask, CallModel, CallTool, Compile, Probe, RunAgent, Sleep
from callsheet.machine.commands import Awaited
from callsheet.machine.events import QUEUED
from callsheet.machine.keys import parse_key
from callsheet.ports.models.prompts import MAX_CHARACTERS, OPERATIONS, PROMPT_VERSION, prompt_for
from callsheet.store.events import Event, EventType
from callsheet.store.runs import RunInfo
from callsheet.trace.lineage.blocks import TreeLineage
from callsheet.trace.lineage.lineage import NONE, Lineage
from callsheet.trace.lineage.lineage import Visit as Begun
from callsheet.trace.projection.record import Record, Visit, Write, fact_id, made_of, worth_of
from callsheet.trace.visits import SteadyTime, arguments_of
from callsheet.views.report.document import CallRow, FactRow, VisitRow
from callsheet.views.report.values import NO_VALUE, Values


def prompt_of(command: Awaited, remarks: Sequence[Mapping[str, Any]]) -> tuple[str, JSON]:
    """Returns the name of the prompt ("" if unknown) and its messages.

    The messages are None if this version does not have the prompt any more, or if the journal does not
    contain all of its parts, as for the turns of an agent.
    """
    name = next((str(each.get("text", "")) for each in remarks if each.get("fact") == "prompt"), "")
    if not isinstance(command, CallModel) or command.tool not in OPERATIONS:
        return name, None
    if name != f"{command.tool}/{PROMPT_VERSION}":
        return name, None
    most = min((int(each["kept"]) for each in remarks if "cut" in each), default=MAX_CHARACTERS)
    messages = prompt_for(command.tool, command.inputs, command.args, most).messages
    return name, [dict(message) for message in messages]


_SECONDS = re.compile(r"([0-9]{1,9}\.[0-9]{1,9}) s")
_TOLERANCE = 0.002
"""The tolerance, in seconds, within which an end and a beginning count as simultaneous."""


class Times(NamedTuple):
    """The time of each event, from 1, in seconds since the run was created, and the epoch of its process.

    For a fork, the axis begins with the first event from the original run; the time between the last of those
    and the creation of the fork is left out. `inherited` is the duration of the events of the original run,
    `began` the time of the first event of the axis in seconds since 1970.
    """

    at: Sequence[float]
    epochs: Sequence[int] = ()
    inherited: float = 0.0
    began: float = 0.0

    def of(self, seq: int) -> float:
        """Returns the time of an event; a number past the end has the time of the last one."""
        return self.at[min(seq, len(self.at) - 1)]

    def begun(self, turn: int, left: int) -> int:
        """Returns the event with which a visit began: that of its turn, or the issue of its first call.

        It is the latter if that was in a later process, since no process ran in between. `left` is 0 for no
        call.
        """
        return left if left > turn and self.epochs[left] > self.epochs[turn] else turn


class Answer(NamedTuple):
    """The event that closed a call, its type, the usage that it reports, and its remarks."""

    seq: int
    type: str
    spent: Sequence[float]
    remarks: Sequence[Mapping[str, Any]]


def times_of(rows: Sequence[Event], info: RunInfo) -> Times:
    """Computes the times of the events of a run."""
    created = info.created
    steady = SteadyTime()
    times = [steady.of(row) for row in rows]
    older = [time for time in times if time < created] if info.parent_run else []
    began = min(older, default=created)
    inherited = max(older, default=began) - began
    at = (time - began if older and time < created else time - created + inherited for time in times)
    return Times(
        [0.0, *(round(t, 6) for t in at)], [0, *(row.epoch for row in rows)], round(inherited, 6), began
    )


def answers_of(rows: Iterable[Event]) -> tuple[dict[str, int], dict[str, Answer]]:
    """Returns by key the event at which each call was first issued, and the answers that closed calls."""
    sent_at: dict[str, int] = {}
    closed: dict[str, Answer] = {}
    for row in rows:
        if row.key is None:
            continue
        if row.type.opens:
            sent_at.setdefault(row.key, row.seq)
        elif row.type.answers or row.type is EventType.FIRED:
            body = row.body or {}
            closed[row.key] = Answer(row.seq, str(row.type), body.get("spent", ()), body.get("remarks", ()))
    return sent_at, closed


def visits_and_calls(
    lineage: Lineage, record: Record, rows: Sequence[Event], times: Times, values: Values
) -> tuple[list[VisitRow], list[CallRow]]:
    """Returns the visits in the order of their beginning, and their calls, those of one visit together."""
    recorded = {visit.begun: visit for visit in (*record.visits, *record.under_way)}
    sent_at, closed = answers_of(rows)
    visits: list[VisitRow] = []
    calls: list[CallRow] = []
    for visit in lineage.visits:
        first = len(calls)
        for key in lineage.keys_of(visit):
            calls.append(_call(visit.id, key, lineage.commands[key], sent_at, closed, times, values))
        visits.append(_visit(lineage, visit, recorded.get(visit.id), calls[first:], first, times, values))
    if isinstance(lineage, TreeLineage):
        _stretch(lineage, visits)
    return _mark_critical_path(visits), calls


def _stretch(lineage: TreeLineage, visits: list[VisitRow]) -> None:
    """Let the loops and sub-plans, which make no calls themselves, last as long as what is inside of them."""
    for visit in reversed(lineage.visits):
        around = lineage.around(visit)
        if around is not None:
            own, outer = visits[visit.id], visits[around.id]
            end = max(outer.end, own.end) if outer.end else 0
            visits[around.id] = outer._replace(until=max(outer.until, own.until), end=end)


def _call(
    visit: int,
    key: str,
    command: Awaited,
    sent_at: dict[str, int],
    closed: dict[str, Answer],
    times: Times,
    values: Values,
) -> CallRow:
    parts = parse_key(key)
    answer = closed.get(key)
    issued = sent_at.get(key, 0)
    spent = () if answer is None else answer.spent
    until = times.of(answer.seq) if answer is not None else times.at[-1] if issued else 0.0
    remarks = () if answer is None else answer.remarks
    asked, prompt = prompt_of(command, remarks)
    return CallRow(
        visit,
        key,
        parts.index,
        parts.attempt,
        parts.turn,
        parts.call,
        _tool_of(command),
        issued,
        0 if answer is None else answer.seq,
        "" if answer is None else answer.type,
        min(times.of(issued) + _queued(remarks), until) if issued else until,
        until,
        values.add(_arguments(command)) if _arguments(command) is not None else NO_VALUE,
        _usage_at(spent, 6),
        int(_usage_at(spent, 0)),
        int(_usage_at(spent, 1)),
        _usage_at(spent, 2),
        asked,
        NO_VALUE if prompt is None else values.add(prompt),
    )


def _queued(remarks: Iterable[Mapping[str, Any]]) -> float:
    """The seconds that a call waited for others, after its intent was recorded, before it was sent."""
    texts = (str(each.get("text")) for each in remarks if each.get("fact") == QUEUED)
    found = next(filter(None, map(_SECONDS.fullmatch, texts)), None)
    return 0.0 if found is None else float(found[1])


def _usage_at(spent: Sequence[float], place: int) -> float:
    return spent[place] if len(spent) > place else 0


def _tool_of(command: Awaited) -> str:
    match command:
        case CallTool(tool=tool) | CallModel(tool=tool) | RunAgent(tool=tool) | AgentTurn(tool=tool):
            return tool
        case Sleep():
            return "wait"
        case Ask():
            return "ask"
        case Compile():
            return "RE-PLAN"
        case Probe(call=call):
            return call.tool


def _arguments(command: Awaited) -> JSON:
    return {"seconds": command.seconds} if isinstance(command, Sleep) else arguments_of(command)


def _visit(
    lineage: Lineage,
    visit: Begun,
    recorded: Visit | None,
    calls: Sequence[CallRow],
    first: int,
    times: Times,
    values: Values,
) -> VisitRow:
    write = lineage.write_of.get(visit.id, NONE)
    written = [] if write == NONE else [lineage.writes[write].seq]
    end = max([visit.seq, *(call.answered for call in calls), *written])
    outcome = "skipped" if visit.skipped else str(recorded.outcome) if recorded is not None else "ok"
    issued = [times.of(c.left) for c in calls if c.left]
    turn = times.of(times.begun(visit.seq, min((c.left for c in calls if c.left), default=0)))
    is_open = outcome == "open" or (outcome == "stopped" and write == NONE)
    until = times.at[-1] if is_open else max([turn, *(c.until for c in calls)])
    detail = visit.skipped or ("" if recorded is None else recorded.detail)
    return VisitRow(
        visit.program,
        visit.number,
        visit.visit,
        visit.seq,
        0 if is_open else end,
        outcome,
        values.add_text(detail),
        write,
        list(visit.versions),
        turn,
        min([turn, *issued]),
        until,
        [first, len(calls)],
        0,
        lineage.label(visit) if isinstance(lineage, TreeLineage) else "",
        0 if recorded is None else recorded.items,
    )


def _mark_critical_path(visits: list[VisitRow]) -> list[VisitRow]:
    """Marks the visits on the critical path: from the last one back, each began when the one before ended."""
    done = sorted((v.until, n) for n, v in enumerate(visits) if v.outcome != "skipped")
    ends = [until for until, _ in done]
    place = len(done) - 1
    while place >= 0:
        number = done[place][1]
        visits[number] = visits[number]._replace(critical=1)
        place = min(place, bisect_right(ends, visits[number].start + _TOLERANCE)) - 1
    return visits


def facts_of(record: Record, by_tool: Mapping[str, float]) -> list[FactRow]:
    """Returns a fact for each write of the record, in order; `write` is its number in the lineage, or -1."""
    worth = worth_of(record, by_tool)
    rows: list[FactRow] = []
    for write in record.given:
        rows.append(_fact(write, record.numbers, worth[write.number].basis, worth[write.number].value, ()))
    for visit in record.visits:
        parents = tuple(dict.fromkeys(made_of(visit)))
        for write in visit.wrote:
            fact_worth = worth[write.number]
            rows.append(_fact(write, record.numbers, fact_worth.basis, fact_worth.value, parents))
    return rows


def _fact(
    write: Write,
    writes: Mapping[int, int],
    basis: tuple[float, str],
    value: float,
    parents: tuple[Write, ...],
) -> FactRow:
    own, why = basis
    ids = [fact_id(parent) for parent in parents]
    return FactRow(fact_id(write), writes.get(write.number, NONE), own, value, why, ids)
