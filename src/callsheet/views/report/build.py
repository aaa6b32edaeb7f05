"""Builds the viewer document of a run from its journal.

In: the events of a run with its plans, and what the caller knows besides (its status, whether its hash chain
is intact). Out: a `Document`. Linear in the number of events. Sealed values stay sealed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from callsheet.ir import JSON, Plan
from callsheet.machine import Result
from callsheet.sealing.sealer import shown
from callsheet.store.chain import BadEvent
from callsheet.store.events import Entry, Event, EventType
from callsheet.store.runs import RunInfo
from callsheet.trace.blame import blame_of
from callsheet.trace.lctl.model import DebugDocument, Handoff
from callsheet.trace.lctl.write import write
from callsheet.trace.lineage.lineage import NONE, Lineage, ValueSource
from callsheet.trace.lineage.record import lineage_of
from callsheet.trace.projection.post_mortem import debug_document_of, has_failed
from callsheet.trace.projection.project import handoff_of
from callsheet.trace.projection.record import Record
from callsheet.trace.projection.recording import record_of
from callsheet.trace.projection.stepwise import stepwise_of
from callsheet.views.report.diffing import diff_part, seconds_of, times_part
from callsheet.views.report.document import Document, EventRow, FactRow, PlanPart, VisitRow, WriteRow
from callsheet.views.report.facts import facts_of
from callsheet.views.report.findings import findings_of
from callsheet.views.report.hops import hops_of
from callsheet.views.report.plans import plan_part
from callsheet.views.report.spans import spans_of
from callsheet.views.report.steps import stepwise_part
from callsheet.views.report.values import MOST_BYTES, NO_VALUE, Numbers, Values
from callsheet.views.report.visits import Times, times_of, visits_and_calls

_HASH = 12
_PLAIN = frozenset({EventType.INTENT, EventType.TIMER, EventType.LIMITS, EventType.TIME_UP})
"""The types of events whose bodies contain no values of the run."""


class Waits(NamedTuple):
    """What a run waits for: a question or approval, or the decision about a call in doubt.

    `since` and `until` are seconds since 1970, `given` are the call's arguments or the question's context.
    """

    key: str
    step: str
    kind: str
    tool: str
    since: float
    until: float | None
    text: str
    given: JSON
    options: tuple[JSON, ...] = ()
    """The allowed answers to a question; empty if any answer is allowed."""
    why: tuple[str, ...] = ()
    """The policy's reasons for an approval."""
    digest: str = ""
    """The digest of the question, to which an answer is bound."""
    is_answered: bool = False
    answer: tuple[JSON, ...] = ()
    """The result to be approved of a call that was already made; empty if the call is to be approved."""
    labels: tuple[str, ...] = ()
    """Remarks on the arguments: their labels under a policy, the steps that made them, misleading letters."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """A run from its journal. `plans` has its plans by hash, with their source texts."""

    info: RunInfo
    name: str
    """The name of the run: its plan's title or file."""
    status: str
    events: Sequence[Event]
    entries: Sequence[Entry]
    plans: Mapping[str, tuple[Plan, str]]
    bad: BadEvent | None
    asks: Sequence[Waits] = ()
    doubts: Sequence[Waits] = ()

    def plan_of(self, name: str) -> Plan:
        """Returns the plan with a hash."""
        return self.plans[name][0]

    def lineage(self) -> Lineage:
        """Computes the lineage of the run."""
        return lineage_of(self.plan_of(self.info.plan_hash), self.entries, self.plan_of, len(self.events))


@dataclass(frozen=True, slots=True)
class Showing:
    """The options of a report. `most` is the maximum size of a value in bytes, `redacts` omits all values.

    `by_tool` is the confidence of the results of tools, by canonical name.
    """

    most: int = MOST_BYTES
    redacts: bool = False
    by_tool: Mapping[str, float] = field(default_factory=dict[str, float])
    has_spans: bool = True
    """Whether the document contains the run's spans; a server sends them on request instead."""
    whole: str = ""
    """The digest of a value that is not shortened."""
    numbers: Numbers | None = None
    """The numbers of values in earlier documents of the run, which are extended: so few rows change."""


def document_of(run: Recorded, showing: Showing, made_by: str, other: Recorded | None = None) -> Document:
    """Builds the document of a run; `made_by` names the program, `other` is a run to compare it with.

    Raises JournalError (JRN020) if the events cannot be read.
    """
    numbers = {} if showing.numbers is None else showing.numbers
    values = Values(showing.most, showing.redacts, whole=showing.whole, numbers=numbers)
    lineage = run.lineage()
    record = record_of(run.plan_of(run.info.plan_hash), run.events, run.plan_of)
    times = times_of(run.events, run.info)
    lctl = _lctl(run, record, showing)
    facts = facts_of(lineage, record, showing.by_tool)
    visits, calls = visits_and_calls(lineage, record, run.events, times, values)
    given = {w.name for w in lineage.writes if w.made is ValueSource.INPUT}
    findings = findings_of(lineage, run.events, lctl, run.bad, given, redacts=showing.redacts)
    blame = _blame(lineage, values)
    return Document(
        _run(run, lineage, times, values, blame, made_by),
        _plans(run, lineage, values),
        [_event(row, times, values) for row in run.events],
        visits,
        calls,
        _writes(lineage, facts, values),
        facts,
        findings,
        blame,
        _lctl_part(run, record, lctl, visits, showing),
        hops_of(lineage, run.events, visits, calls, values),
        _spans(run, lineage, made_by) if showing.has_spans else {},
        [_waits(ask, run, values) for ask in run.asks],
        [_waits(doubt, run, values) for doubt in run.doubts],
        lineage.machine.usage().to_json(),
        values.rows,
        None if other is None else _diff(run, lineage, visits, other, values),
        {
            "redacted": showing.redacts,
            "sealed": values.sealed,
            "shortened": values.shortened,
            "most": showing.most,
        },
    )


def _diff(
    run: Recorded, lineage: Lineage, visits: Sequence[VisitRow], other: Recorded, values: Values
) -> dict[str, Any]:
    theirs = other.lineage()
    record = record_of(other.plan_of(other.info.plan_hash), other.events, other.plan_of)
    rows, _ = visits_and_calls(theirs, record, other.events, times_of(other.events, other.info), Values())
    took = seconds_of(run.plan_of(run.info.plan_hash), visits), seconds_of(theirs.programs[0].plan, rows)
    return {**diff_part(lineage, theirs, other.info, values), "times": times_part(*took)}


def _lctl(run: Recorded, record: Record, showing: Showing) -> Handoff | DebugDocument:
    make = debug_document_of if has_failed(record) else handoff_of
    return make(record, run.info.run_id, by_tool=showing.by_tool)


def _spans(run: Recorded, lineage: Lineage, made_by: str) -> dict[str, Any]:
    version = made_by.removeprefix("callsheet ")
    return spans_of(run.info, run.plan_of, run.entries, version, lineage, goes_on=run.status == "running")


def _lctl_part(
    run: Recorded,
    record: Record,
    lctl: Handoff | DebugDocument,
    visits: Sequence[VisitRow],
    showing: Showing,
) -> dict[str, Any]:
    """Returns the LCTL document and the parts of those after each step; if redacted, only its kind."""
    kind = "debug" if isinstance(lctl, DebugDocument) else "handoff"
    if showing.redacts:
        return {"kind": kind}
    parts = stepwise_of(record, run.info.run_id, showing.by_tool)
    steps = {} if parts is None else {"steps": stepwise_part(parts, record, visits)}
    return {"kind": kind, "text": write(lctl), **steps}


# ---------------------------------------------------------------- the head


def _run(
    run: Recorded,
    lineage: Lineage,
    times: Times,
    values: Values,
    blame: dict[str, Any] | None,
    made_by: str,
) -> dict[str, Any]:
    info, result = run.info, lineage.machine.result
    head = "" if info.head_hash is None else info.head_hash.hex()
    return {
        "id": info.run_id,
        "name": run.name,
        "goal": run.plan_of(info.plan_hash).goal or "",
        "status": run.status,
        "outcome": run.status if result is None or result.status != run.status else str(result.outcome),
        "words": _status_text(run, lineage, result, blame),
        "plan_hash": info.plan_hash,
        "created": info.created,
        "seconds": round(times.at[-1] - times.inherited, 6),
        "inherited": times.inherited,
        "began": times.began,
        "events": len(run.events),
        "head": head,
        "chain": {"ok": True} if run.bad is None else {"ok": False, "seq": run.bad.seq, "why": run.bad.why},
        "parent": info.parent_run or "",
        "response": NO_VALUE if result is None or not result.response else values.add(result.response),
        "error": NO_VALUE if result is None or not result.error else values.add(result.error),
        "answer": lineage.answer,
        "terminated": result is not None and result.terminated,
        "made_by": made_by,
        "version": info.core_version,
    }


_MOST_FAILED = 5
"""How many failed steps the phrase on a run's outcome names."""
_STATUS_TEXTS = {
    "done": "Done",
    "failed": "Failed",
    "refused": "Refused by the policy",
    "cancelled": "Cancelled",
    "waiting": "Waiting for a person",
    "in_doubt": "In doubt",
    "interrupted": "Interrupted",
    "running": "Running",
    "corrupt": "Journal damaged",
}


def _status_text(run: Recorded, lineage: Lineage, result: Result | None, blame: dict[str, Any] | None) -> str:
    """Returns the outcome or status of the run as a phrase."""
    words = _STATUS_TEXTS.get(run.status, run.status)
    if run.status == "done" and result is not None and result.terminated:
        words = "Terminated by the plan"
    if run.status == "done" and result is not None and result.failed_steps:
        named = ", ".join(result.failed_steps[:_MOST_FAILED])
        more = len(result.failed_steps) - _MOST_FAILED
        return f"{words} with failures: {named}" + (f" and {more} more" if more > 0 else "")
    failed = NONE if blame is None else int(blame["visit"])
    if run.status in ("failed", "refused") and failed != NONE:
        words += f" at {lineage.label(lineage.visits[failed])}"
    if run.status == "done" and failed != NONE:
        words += f", but {lineage.label(lineage.visits[failed])} failed"
    if run.status == "in_doubt" and run.doubts:
        calls = len(run.doubts)
        words += f": {calls} call{'' if calls == 1 else 's'} may have taken place"
    return words


def _blame(lineage: Lineage, values: Values) -> dict[str, Any] | None:
    blame = blame_of(lineage)
    if blame is None:
        return None
    return {
        "visit": blame.visit,
        "seq": blame.seq,
        "error": values.add_text(blame.error),
        "suspects": [
            {
                "odd": str(suspect.odd),
                "name": suspect.name,
                "write": suspect.node.write,
                "path": list(suspect.node.path),
                "seq": suspect.seq,
                "key": suspect.key,
                "way": [
                    [f.name, list(f.node.path), f.node.write, str(f.role), f.argument] for f in suspect.path
                ],
            }
            for suspect in blame.suspects[:50]
        ],
    }


# ---------------------------------------------------------------- the parts


def _plans(run: Recorded, lineage: Lineage, values: Values) -> tuple[PlanPart, ...]:
    hashes = [run.info.plan_hash]
    hashes += [str((row.body or {}).get("plan", "")) for row in run.events if row.type is EventType.PLAN]
    by_plan = {id(plan): (name, text) for name, (plan, text) in run.plans.items()}
    parts: list[PlanPart] = []
    for number, program in enumerate(lineage.programs):
        name, text = by_plan.get(id(program.plan), ("", ""))
        if not name and number < len(hashes):
            name, text = hashes[number], run.plans.get(hashes[number], (program.plan, ""))[1]
        parts.append(plan_part(lineage, number, text, name, lineage.planned[number], values))
    return tuple(parts)


def _writes(lineage: Lineage, facts: Sequence[FactRow], values: Values) -> list[WriteRow]:
    fact_of = {fact.write: fact.id for fact in facts}
    return [
        WriteRow(
            w.name, values.add(w.value), w.seq, str(w.made), w.visit, int(w.is_odd), fact_of.get(w.id, "")
        )
        for w in lineage.writes
    ]


def _event(row: Event, times: Times, values: Values) -> EventRow:
    value, more, body = NO_VALUE, NO_VALUE, shown(row.body)
    if row.type is EventType.SNAPSHOT:
        body = None  # a snapshot repeats data of earlier events
    elif body is not None and "value" in body:
        value = values.add(body["value"])
        body = {name: part for name, part in body.items() if name != "value"} if len(body) > 1 else None
    if body is not None:
        more = values.add_plain(body) if row.type in _PLAIN else values.add(body)
    return EventRow(
        row.seq,
        times.of(row.seq),
        str(row.type),
        row.key or "",
        row.step or "",
        row.epoch,
        row.hash.hex()[:_HASH],
        value,
        more,
    )


def _waits(waits: Waits, run: Recorded, values: Values) -> dict[str, Any]:
    return {
        "key": waits.key,
        "step": waits.step,
        "kind": waits.kind,
        "tool": waits.tool,
        "since": round(waits.since - run.info.created, 3),
        "until": None if waits.until is None else round(waits.until - run.info.created, 3),
        "text": values.add_asked(waits.text) if waits.text else NO_VALUE,
        "given": NO_VALUE if waits.given is None else values.add_asked(waits.given),
        "result": values.add_asked(waits.answer[0]) if waits.answer else NO_VALUE,
        "options": [values.add_asked(option) for option in waits.options],
        "why": [values.add_text(reason) for reason in waits.why],
        "labels": [values.add_text(line) for line in waits.labels],
        "digest": waits.digest,
        "answered": waits.is_answered,
    }
