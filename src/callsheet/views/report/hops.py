"""Finds the hand-offs of a run to agents, people, processes and the caller, and whether they were accepted.

In: the lineage of a run, its events, its visits and calls. Out: rows, in the order of their events.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from callsheet.ir import Call, CallKind
from callsheet.machine import Verdict
from callsheet.store.events import Event, EventType
from callsheet.trace.lineage.lineage import Lineage
from callsheet.trace.projection.wording import CALLER
from callsheet.views.report.document import CallRow, HopRow, VisitRow
from callsheet.views.report.values import NO_VALUE, Values

_RUN = "run"
_PERSON = "a person"
_MOST = 2_000
_BLOCK = "lctl"
"""The name of an answer's remark about the LCTL block that it contained."""
_NOT_TAKEN = "its block is rejected"
_DOUBTS = ("flagged", "to review", "blocked")
_VERDICTS = {str(Verdict.DENY): "refused", str(Verdict.EXPIRE): "unsaid"}
_NO_VISIT = -1
"""The visit of a hand-off without one."""


def hops_of(
    lineage: Lineage,
    rows: Sequence[Event],
    visits: Sequence[VisitRow],
    calls: Sequence[CallRow],
    values: Values,
) -> list[HopRow]:
    """Returns the hand-offs of a run: to agents, to people, between processes, to the caller at its end."""
    hop_rows = [
        *_agent_hops(lineage, rows, visits, calls, values),
        *_person_hops(rows, values),
        *_process_hops(rows),
        *_end_hops(rows, values),
    ]
    return sorted(hop_rows, key=lambda hop: hop.seq)[:_MOST]


def _agent_hops(
    lineage: Lineage,
    rows: Sequence[Event],
    visits: Sequence[VisitRow],
    calls: Sequence[CallRow],
    values: Values,
) -> Iterator[HopRow]:
    for number, (begun, visit) in enumerate(zip(lineage.visits, visits, strict=True)):
        action = lineage.step(begun).action
        if not isinstance(action, Call) or action.kind is not CallKind.AGENT or visit.outcome == "skipped":
            continue
        first, count = visit.calls
        answers = [rows[call.answered - 1] for call in calls[first : first + count] if call.answered]
        remarks = [text for row in answers for text in _remarks(row)]
        state, text = _state_of_agent(visit.outcome, remarks)
        target = f"{lineage.label(begun)}:@{action.tool}"
        yield HopRow(
            "agent",
            visit.seq,
            visit.end,
            _RUN,
            target,
            state,
            values.add_text(text or "; ".join(remarks)),
            number,
        )


def _state_of_agent(outcome: str, remarks: Sequence[str]) -> tuple[str, str]:
    """Returns the state of a hand-off to an agent, and a text if the remarks do not explain it."""
    if any(text.startswith(_NOT_TAKEN) for text in remarks):
        return "refused", ""
    if outcome == "open":
        return "waits", ""
    if remarks:
        return "concerns" if any(word in text for text in remarks for word in _DOUBTS) else "taken", ""
    if outcome in ("failed", "stopped"):
        return "refused", "no answer"
    return "unsaid", "answered without an LCTL block"


def _remarks(row: Event) -> Iterator[str]:
    for remark in (row.body or {}).get("remarks", ()):
        if remark.get("fact") == _BLOCK:
            yield str(remark["text"])


def _person_hops(rows: Sequence[Event], values: Values) -> Iterator[HopRow]:
    answered = {row.key: row for row in rows if row.type is EventType.SIGNAL}
    last: dict[str | None, Event] = {row.key: row for row in rows if row.type is EventType.ASK}
    for key, row in last.items():
        answer = answered.get(key)
        if answer is None or answer.seq < row.seq:
            yield HopRow("person", row.seq, 0, _RUN, _PERSON, "waits", NO_VALUE, _NO_VISIT, key or "")
            continue
        body = answer.body or {}
        by = str(body.get("by") or "") or _PERSON
        verdict = str(body.get("verdict") or "")
        state = _VERDICTS.get(verdict, "taken")
        yield HopRow(
            "person", row.seq, answer.seq, _RUN, by, state, values.add_text(verdict), _NO_VISIT, key or ""
        )


def _process_hops(rows: Sequence[Event]) -> Iterator[HopRow]:
    for before, after in pairwise(rows):
        if before.epoch != after.epoch:
            names = f"process {before.epoch}", f"process {after.epoch}"
            yield HopRow("process", before.seq, after.seq, *names, "taken", NO_VALUE, _NO_VISIT)


def _end_hops(rows: Sequence[Event], values: Values) -> Iterator[HopRow]:
    for row in rows:
        if row.type is EventType.END:
            status = str((row.body or {}).get("status", ""))
            yield HopRow("end", row.seq, row.seq, _RUN, CALLER, "given", values.add_text(status), _NO_VISIT)
