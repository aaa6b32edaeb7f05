"""The parts of a report beside its visits: findings, hand-offs, the plan, spans, LCTL documents."""

from __future__ import annotations

import json
import zlib
from base64 import b64encode
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import pairwise
from typing import Any

from callsheet.diagnostics import Severity
from callsheet.frontends.spelling import read_plan_text
from callsheet.ir import CallKind, ListExpr, Plan, Ref, Step, word_of
from callsheet.machine import Verdict
from callsheet.passes import check as check_plan
from callsheet.store.chain import BadEvent
from callsheet.store.events import Entry, Event, EventType
from callsheet.store.runs import RunInfo
from callsheet.trace.lctl.check import check as check_documents
from callsheet.trace.lctl.model import Document
from callsheet.trace.lctl.rules.table import RULES, Level
from callsheet.trace.lineage.blocks import TreeLineage
from callsheet.trace.lineage.lineage import NONE, Lineage
from callsheet.trace.lineage.reads import Reads, Role, element
from callsheet.trace.projection.record import CALLER, Record
from callsheet.trace.projection.stepwise import Stepwise
from callsheet.views.columns import printable
from callsheet.views.describe import describe_action, describe_output
from callsheet.views.lanes import NO_GROUP, foreach_of, guard_of, layout_json, on_fail_of
from callsheet.views.lineage import prov_of
from callsheet.views.otel.model import Telemetry
from callsheet.views.otel.otlp import documents
from callsheet.views.otel.tracing import Tracer
from callsheet.views.report.document import CallRow, FindingRow, HopRow, PlanPart, StepRow, VisitRow
from callsheet.views.report.values import NO_VALUE, Values

_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.HINT: "hint"}
_LCTL_LEVELS = {Level.ERROR: "error", Level.WARN: "warning", Level.INFO: "hint"}
_MOST_FINDINGS = 500
"""The maximum number of findings of one source."""


def findings_of(
    lineage: Lineage,
    rows: Sequence[Event],
    document: Document,
    bad: BadEvent | None,
    given: Collection[str],
    *,
    redacts: bool,
) -> list[FindingRow]:
    """Returns all findings, errors first; if `redacts`, hand-off rules are shown by title, without values.

    `given` are the names of the run's inputs.
    """
    is_tree = isinstance(lineage, TreeLineage)
    plans = [lineage.machine.program.plan] if is_tree else [program.plan for program in lineage.programs]
    finding_rows = [
        *_chain_findings(bad),
        *_plan_findings(plans, given),
        *_value_findings(lineage),
        *_late_findings(rows),
        *_document_findings(document, redacts=redacts),
    ]
    order = ("error", "warning", "hint")
    return sorted(finding_rows, key=lambda row: order.index(row.level))


def _chain_findings(bad: BadEvent | None) -> Iterator[FindingRow]:
    if bad is not None:
        text = f"the chain is broken at event {bad.seq}: {bad.why}"
        yield FindingRow("run", "JRN012", "error", text, "do not rely on later events", 0, "", "", bad.seq)


def _plan_findings(plans: Sequence[Plan], given: Collection[str]) -> Iterator[FindingRow]:
    for number, plan in enumerate(plans):
        names = given if number == 0 else {*given, *_set_by(plans[:number])}
        for finding in check_plan(plan, inputs=names)[:_MOST_FINDINGS]:
            level = _LEVELS[finding.severity]
            yield FindingRow(
                "plan",
                finding.code,
                level,
                finding.message,
                finding.help or "",
                number,
                finding.step or "",
                "",
                0,
            )


def _set_by(plans: Sequence[Plan]) -> set[str]:
    names = {step.output.var for plan in plans for step in plan.steps if step.output is not None}
    return names | {name for plan in plans for name, _ in plan.variables}


def _value_findings(lineage: Lineage) -> Iterator[FindingRow]:
    misfits = [write for write in lineage.writes if write.is_odd]
    for write in misfits[:_MOST_FINDINGS]:
        visit = lineage.visits[write.visit] if write.visit != NONE else None
        step = "" if visit is None else lineage.code(visit).id
        plan = 0 if visit is None else visit.program
        text = f"${write.name} does not fit its cast and was stored unchanged"
        yield FindingRow("run", "", "warning", text, "", plan, step, "", write.seq)


def _late_findings(rows: Sequence[Event]) -> Iterator[FindingRow]:
    late = [row for row in rows if row.type is EventType.LATE]
    for row in late[:_MOST_FINDINGS]:
        text = f"the call {row.key} was answered after it had been closed; the answer was ignored"
        yield FindingRow("run", "", "hint", text, "", 0, row.step or "", "", row.seq)


def _document_findings(document: Document, *, redacts: bool) -> Iterator[FindingRow]:
    for finding in check_documents((document,)).findings[:_MOST_FINDINGS]:
        rule = RULES[finding.rule]
        text = rule.title if redacts else finding.message
        fact = finding.fact or _fact_in(finding.path)
        level = _LCTL_LEVELS[rule.level]
        yield FindingRow("lctl", finding.rule, level, text, rule.repair, 0, "", fact, 0)


def _fact_in(path: tuple[str | int, ...]) -> str:
    return str(path[1]) if len(path) > 1 and path[0] == "facts" else ""


_RUN = "run"
_PERSON = "a person"
_MOST_HOPS = 2_000
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
    return sorted(hop_rows, key=lambda hop: hop.seq)[:_MOST_HOPS]


def _agent_hops(
    lineage: Lineage,
    rows: Sequence[Event],
    visits: Sequence[VisitRow],
    calls: Sequence[CallRow],
    values: Values,
) -> Iterator[HopRow]:
    for number, (begun, visit) in enumerate(zip(lineage.visits, visits, strict=True)):
        action = lineage.step(begun).call
        if action is None or action.kind is not CallKind.AGENT or visit.outcome == "skipped":
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


_ANY = -1
_MOST_TEXT = 200_000
"""The maximum number of characters of a plan's text."""


def plan_part(lineage: Lineage, number: int, source: str, hash_: str, seq: int, values: Values) -> PlanPart:
    """Returns the data of the plan with this number in a run.

    `source` is its text, `hash_` its hash, `seq` the event that compiled it.
    """
    if isinstance(lineage, TreeLineage):
        from callsheet.views.report.blocks import plan_part_of_blocks  # noqa: PLC0415 - only for version 2

        return plan_part_of_blocks(lineage, source, hash_, seq, values)
    plan = lineage.programs[number].plan
    lines = _lines(plan, source)
    steps = tuple(
        _step(step, lineage.reads_at(number, place), lines[place], values)
        for place, step in enumerate(plan.steps)
    )
    title = plan.title or plan.id or ""
    text = source[:_MOST_TEXT]
    layout = layout_json(plan)
    return PlanPart(hash_, title, plan.goal or "", str(plan.order), text, seq, steps, layout)


def _step(step: Step, reads: Reads, lines: list[int], values: Values) -> StepRow:
    return StepRow(
        step.id,
        printable(step.title or ""),
        word_of(step.action),
        str(step.call.kind) if step.call is not None else "plan",
        describe_action(step.action),
        guard_of(step),
        describe_output(step).removeprefix("> "),
        on_fail_of(step),
        NO_GROUP if step.group is None else step.group,
        foreach_of(step),
        lines,
        list(reads.names),
        list(_uses(reads)),
        [[name, values.add(value)] for name, value in reads.literals],
    )


def _uses(reads: Reads) -> list[list[Any]]:
    """Returns what a step reads; a read of a loop variable becomes a read of the list's item."""
    rows: list[list[Any]] = []
    for use in reads.uses:
        if use.role is Role.MESSAGE:
            continue
        if use.name != reads.loop or use.role is Role.SOURCE:
            rows.append([str(use.role), use.argument, use.name, list(use.path), _ANY, _ANY])
        elif isinstance(reads.source, Ref):
            path = [*reads.source.path, None, *use.path]
            rows.append([str(use.role), use.argument, reads.source.name, path, len(reads.source.path), _ANY])
        elif isinstance(reads.source, ListExpr):
            for item in range(len(reads.source.items)):
                places = dict.fromkeys(element(reads.source, item, use.path, has_members=True))
                rows += [[str(use.role), use.argument, name, list(path), _ANY, item] for name, path in places]
        elif reads.source is not None:
            places = dict.fromkeys(element(reads.source, 0, use.path, has_members=True))
            rows += [[str(use.role), use.argument, name, list(path), _ANY, _ANY] for name, path in places]
    return rows


def _lines(plan: Plan, source: str) -> list[list[int]]:
    """Returns first and last line of each step in the text, from 0; empty if the text is not this plan."""
    read = read_plan_text(source).result.plan if source else None
    if read is None or [s.id for s in read.steps] != [s.id for s in plan.steps]:
        return [[] for _ in plan.steps]
    breaks = [n for n, char in enumerate(source) if char == "\n"]
    return [
        []
        if step.span is None
        else [
            bisect_right(breaks, step.span.start - 1),
            bisect_right(breaks, max(step.span.start, step.span.end - 1) - 1),
        ]
        for step in read.steps
    ]


MOST_EVENTS = 25_000
"""For a run with more events there are no spans; `callsheet trace export` has no limit."""


def spans_of(
    info: RunInfo,
    plan_of: Callable[[str], Plan],
    entries: Sequence[Entry],
    version: str,
    lineage: Lineage,
    *,
    goes_on: bool,
) -> dict[str, Any]:
    """Returns the counts of spans, log records and metrics, and the OTLP requests.

    The requests are JSON lines, compressed with zlib and encoded in base64; so is `prov`, the PROV-JSON. If
    the run `goes_on` in a process, running steps are left out, as by `callsheet trace export`. The result is
    empty for a run with too many events.
    """
    if not entries or info.events > MOST_EVENTS:
        return {}
    plan = plan_of(info.plan_hash)
    tracer = Tracer(info.run_id, plan, info.plan_hash, info.parent_run, entries[0])
    for entry in entries[1:]:
        tracer.take(entry, plan_of)
    if not goes_on:
        tracer.close()
    times = {entry.seq: entry.ts for entry in entries}
    prov = prov_of(info.run_id, info.plan_hash, lineage, times)
    return packed(tracer.drain(), version, info.run_id) | {"prov": _deflated(json.dumps(prov))}


def packed(telemetry: Telemetry, version: str, run_id: str) -> dict[str, Any]:
    """Returns telemetry in the form that the viewer reads."""
    lines = (
        json.dumps(each, ensure_ascii=False, separators=(",", ":"))
        for each in documents(telemetry, version, run_id)
    )
    text = "".join(f"{line}\n" for line in lines)
    return {
        "spans": len(telemetry.spans),
        "logs": len(telemetry.logs),
        "metrics": len(telemetry.metrics),
        "bytes": len(_bytes(text)),
        "packed": _deflated(text),
    }


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")


def _deflated(text: str) -> str:
    return b64encode(zlib.compress(_bytes(text), 6)).decode()


def stepwise_part(parts: Stepwise, record: Record, visits: Sequence[VisitRow]) -> dict[str, Any]:
    """Returns the entries and facts once, and the boundaries, each with the event after which it is valid."""
    return {
        "entries": parts.entries,
        "facts": [[fact.id, int(fact.is_fit), fact.text] for fact in parts.facts],
        "at": [
            [seq, *boundary[1:]]
            for seq, boundary in zip(_events(parts, record, visits), parts.boundaries, strict=True)
        ],
    }


def _events(parts: Stepwise, record: Record, visits: Sequence[VisitRow]) -> list[int]:
    """Returns for each boundary the event by which all of its visits had finished."""
    ends = {(visit.plan, visit.step, visit.nth): visit.end or visit.seq for visit in visits}
    by_label = {visit.label: visit.end or visit.seq for visit in visits if visit.label}
    seen: dict[tuple[int, int], int] = {}
    last, upto, numbers = 0, 0, list[int]()
    for boundary in parts.boundaries:
        for visit in record.visits[upto : boundary.visits]:
            place = visit.plan, visit.number
            if visit.word:
                last = max(last, by_label.get(visit.label, last))
            elif visit.step is not None:
                seen[place] = seen.get(place, 0) + 1
                last = max(last, ends.get((*place, seen[place]), last))
        upto = boundary.visits
        numbers.append(max(last, 1))
    return numbers
