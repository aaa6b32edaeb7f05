"""Builds the viewer document of a run from its journal.

In: the events of a run with its plans, and what the caller knows besides (its status, whether its hash chain
is intact). Out: a `Document`. Linear in the number of events. Sealed values stay sealed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from callsheet.ir import JSON, Plan
from callsheet.machine import Result
from callsheet.sealing.sealer import shown
from callsheet.store.chain import BadEvent
from callsheet.store.events import Entry, Event, EventType
from callsheet.store.pauses import RunPause
from callsheet.store.runs import RunInfo
from callsheet.trace.alignment import Pair, diff_runs
from callsheet.trace.blame import blame_of
from callsheet.trace.comparing import slower
from callsheet.trace.lctl.model import DebugDocument, Handoff
from callsheet.trace.lctl.write import write
from callsheet.trace.lineage.blocks import TreeLineage
from callsheet.trace.lineage.lineage import NONE, Lineage, ValueSource, Visit
from callsheet.trace.lineage.record import lineage_of
from callsheet.trace.projection.post_mortem import debug_document_of, has_failed
from callsheet.trace.projection.project import handoff_of
from callsheet.trace.projection.record import Record
from callsheet.trace.projection.recording import record_of
from callsheet.trace.projection.stepwise import stepwise_of
from callsheet.views.call_site import CallSite
from callsheet.views.columns import cut, pad, printable
from callsheet.views.describe import LTP
from callsheet.views.lineage import UNNAMED, words_of
from callsheet.views.report.document import Document, EventRow, FactRow, PlanPart, VisitRow, WriteRow
from callsheet.views.report.parts import findings_of, hops_of, plan_part, spans_of, stepwise_part
from callsheet.views.report.values import MOST_BYTES, NO_VALUE, SEALED, Numbers, Shown, Values
from callsheet.views.report.visits import Times, facts_of, times_of, visits_and_calls

_MOST_COMPARED = 2_000
"""The maximum number of pairs; `left_out` counts the others."""


def diff_part(mine: Lineage, other: Lineage, info: RunInfo, values: Values) -> dict[str, Any]:
    """Returns the differences between the run of the report, A, and another, B."""
    diff = diff_runs(mine, other)
    first = diff.first
    return {
        "other": {"id": info.run_id, "status": str(info.status), "plan_hash": info.plan_hash},
        "alike": diff.alike,
        "inputs": [[name, values.add(a), values.add(b)] for name, (a, b) in diff.inputs.items()],
        "first": -1 if first is None else diff.differing.index(first),
        "pairs": [_pair(mine, other, pair, values) for pair in diff.differing[:_MOST_COMPARED]],
        "left_out": max(0, len(diff.differing) - _MOST_COMPARED),
    }


def seconds_of(plan: Plan, visits: Sequence[VisitRow]) -> dict[tuple[str, int], float]:
    """Returns the durations of finished visits with calls in the first plan, by step id and visit number."""
    return {
        (row.label, 1) if row.label else (plan.steps[row.step].id, row.nth): row.until - row.start
        for row in visits
        if row.plan == 0 and row.calls[1] and row.end
    }


def times_part(
    mine: Mapping[tuple[str, int], float], other: Mapping[tuple[str, int], float]
) -> list[list[str | int | float]]:
    """Returns the visits with different durations, largest difference first: step, visit, seconds in A, in B.

    There is no threshold for noise; the viewer sets it.
    """
    return [[one.step, one.visit, round(one.old, 6), round(one.new, 6)] for one in slower(mine, other, 0.0)][
        :_MOST_COMPARED
    ]


def _pair(mine: Lineage, other: Lineage, pair: Pair, values: Values) -> dict[str, Any]:
    return {
        "what": list(pair.what),
        "follows": pair.follows,
        "a": _side(mine, pair.old, values),
        "b": _side(other, pair.new, values),
    }


def _side(lineage: Lineage, visit: Visit | None, values: Values) -> dict[str, Any] | None:
    if visit is None:
        return None
    written = lineage.write_of.get(visit.id, NONE)
    keys = lineage.last_keys(visit)
    failure = next((f.error for f in lineage.failures if f.visit == visit.id), "")
    return {
        "visit": visit.id,
        "label": lineage.label(visit),
        "seq": visit.seq,
        "tool": lineage.code(visit).tool or "",
        "skipped": visit.skipped,
        "args": _arguments(lineage, keys[0], values) if len(keys) == 1 else NO_VALUE,
        "value": NO_VALUE if written == NONE else values.add(lineage.writes[written].value),
        "error": values.add_text(failure),
    }


def _arguments(lineage: Lineage, key: str, values: Values) -> int:
    args = getattr(lineage.commands.get(key), "args", None)
    return NO_VALUE if args is None else values.add(args)


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
    role: str = ""
    """The role that whoever answers must have; empty if anybody may."""
    site: CallSite | None = None
    """Where a call that asks stands in the text of its plan."""


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
    pause: RunPause | None = None
    """Who has paused the run, if it is paused."""

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
    facts = facts_of(record, showing.by_tool)
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
        _writes(lineage, facts, values, redacts=showing.redacts),
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
        **_names(lineage),
        "terminated": result is not None and result.terminated,
        "made_by": made_by,
        "version": info.core_version,
    }


def _names(lineage: Lineage) -> dict[str, Any]:
    """How the plan writes variables and tools: what stands before a name, and what is written otherwise."""
    words = words_of(lineage)
    if words is LTP:
        return {"sigil": "$", "names": {}, "tools": {}}
    written = {
        write.name: words.result(write.name) if write.made in UNNAMED else words.variable(write.name)
        for write in lineage.writes
    }
    called = {str(getattr(command, "tool", "")) for command in lineage.commands.values()} - {""}
    return {
        "sigil": "",
        "names": {name: text for name, text in written.items() if text != name},
        "tools": {tool: words.tool(tool) for tool in sorted(called)},
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
    if run.pause is not None:
        return f"{run.pause.words[:1].upper()}{run.pause.words[1:]}"
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


def _writes(lineage: Lineage, facts: Sequence[FactRow], values: Values, *, redacts: bool) -> list[WriteRow]:
    fact_of = {fact.write: fact.id for fact in facts}
    rows = [
        WriteRow(
            w.name, values.add(w.value), w.seq, str(w.made), w.visit, int(w.is_odd), fact_of.get(w.id, "")
        )
        for w in lineage.writes
    ]
    if not isinstance(lineage, TreeLineage):
        return rows
    from callsheet.views.report.blocks import parts_row  # noqa: PLC0415 - only for version 2

    words = words_of(lineage)
    return [
        row._replace(parts=parts_row(lineage, number, words, redacts=redacts))
        for number, row in enumerate(rows)
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
        "role": waits.role,
        "written": f"@{waits.tool}" if waits.site is None else waits.site.tool,
        "lines": [[number, values.add_text(text)] for number, text in waits.site.lines] if waits.site else [],
    }


_MOST_PREVIEWED = 40
_TEXT = 60
_NAME = 28


class Row(NamedTuple):
    """Something with a value: a variable, the arguments of a call, the body of an event.

    `how` is `shown`, `shortened`, `sealed` (in part or whole) or `left out`; `bytes` is the size of its JSON.
    """

    what: str
    name: str
    how: str
    bytes: int
    text: str


@dataclass(frozen=True, slots=True)
class Preview:
    """The values that a report discloses."""

    rows: tuple[Row, ...]
    values: int
    redacted: bool
    sealed: int
    shortened: int

    def line(self) -> str:
        """Returns the counts as a phrase."""
        if self.redacted:
            return f"{self.values:,} values left out"
        parts = [f"{self.values:,} values"]
        parts += [f"{self.shortened:,} shortened"] if self.shortened else []
        parts += [f"{self.sealed:,} with sealed parts"] if self.sealed else []
        return ", ".join(parts)

    def lines(self) -> Iterator[str]:
        """Yields the preview as text, largest values first, those of events last."""
        yield f"this report discloses: {self.line()}"
        for row in self.rows[:_MOST_PREVIEWED]:
            name = pad(cut(printable(row.name), _NAME), _NAME)
            yield f"  {row.how:9} {row.what:9} {name} {row.bytes:>10,} B  {row.text}".rstrip()
        if len(self.rows) > _MOST_PREVIEWED:
            yield f"  and {len(self.rows) - _MOST_PREVIEWED:,} more (--json has them all)"
        yield "names, the text of the plan and its literals, times, sizes and hashes are always included"

    def to_json(self) -> dict[str, Any]:
        """Returns the preview as JSON data."""
        return {
            "values": self.values,
            "redacted": self.redacted,
            "shortened": self.shortened,
            "sealed": self.sealed,
            "rows": [row._asdict() for row in self.rows],
        }


def preview_of(document: Document) -> Preview:
    """Lists the values in a document, each once, under the first name that has it."""
    notes = document.notes
    occurrences: dict[tuple[str, str, int], None] = {}
    for set_there in document.writes:
        occurrences["variable", f"${set_there.name}", set_there.value] = None
    for call in document.calls:
        if call.args >= 0:
            occurrences["arguments", f"@{call.tool}", call.args] = None
    for event in document.events:
        if event.type in _PLAIN:
            continue
        for number in (event.value, event.more):
            if number >= 0:
                occurrences["event", event.type, number] = None
    for pair in () if document.diff is None else document.diff["pairs"]:
        for side in filter(None, (pair["b"],)):
            occurrences["other run", side["label"], side["args"]] = None
            occurrences["other run", side["label"], side["value"]] = None
    seen = {NO_VALUE}
    rows: list[Row] = []
    for what, name, number in occurrences:
        if number not in seen:
            seen.add(number)
            rows.append(_row(what, name, document.values[number]))
    rows.sort(key=lambda row: (row.what == "event", -row.bytes))
    return Preview(tuple(rows), len(document.values), notes["redacted"], notes["sealed"], notes["shortened"])


def _row(what: str, name: str, shown: Shown) -> Row:
    if isinstance(shown, str):
        how = "sealed" if SEALED in shown else "shown"
        return Row(what, name, how, len(shown.encode()), cut(printable(shown[: 4 * _TEXT]), _TEXT))
    text, size = shown[0], shown[1]
    assert isinstance(size, int)
    if text is None:
        return Row(what, name, "left out", size, "")
    return Row(what, name, "shortened", size, cut(printable(str(text)[: 4 * _TEXT]), _TEXT))
