"""Collects findings about a run from plan passes, hand-off rules and its journal."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from callsheet.diagnostics import Severity
from callsheet.ir import Plan
from callsheet.passes import check as check_plan
from callsheet.store.chain import BadEvent
from callsheet.store.events import Event, EventType
from callsheet.trace.lctl.check import check as check_documents
from callsheet.trace.lctl.model import Document
from callsheet.trace.lctl.rules.table import RULES, Level
from callsheet.trace.lineage.lineage import NONE, Lineage
from callsheet.views.report.document import FindingRow

_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.HINT: "hint"}
_LCTL_LEVELS = {Level.ERROR: "error", Level.WARN: "warning", Level.INFO: "hint"}
_MOST = 500
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
    plans = [program.plan for program in lineage.programs]
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
        for finding in check_plan(plan, inputs=names)[:_MOST]:
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
    for write in misfits[:_MOST]:
        visit = lineage.visits[write.visit] if write.visit != NONE else None
        step = "" if visit is None else lineage.code(visit).id
        plan = 0 if visit is None else visit.program
        text = f"${write.name} does not fit its cast and was stored unchanged"
        yield FindingRow("run", "", "warning", text, "", plan, step, "", write.seq)


def _late_findings(rows: Sequence[Event]) -> Iterator[FindingRow]:
    late = [row for row in rows if row.type is EventType.LATE]
    for row in late[:_MOST]:
        text = f"the call {row.key} was answered after it had been closed; the answer was ignored"
        yield FindingRow("run", "", "hint", text, "", 0, row.step or "", "", row.seq)


def _document_findings(document: Document, *, redacts: bool) -> Iterator[FindingRow]:
    for finding in check_documents((document,)).findings[:_MOST]:
        rule = RULES[finding.rule]
        text = rule.title if redacts else finding.message
        fact = finding.fact or _fact_in(finding.path)
        level = _LCTL_LEVELS[rule.level]
        yield FindingRow("lctl", finding.rule, level, text, rule.repair, 0, "", fact, 0)


def _fact_in(path: tuple[str | int, ...]) -> str:
    return str(path[1]) if len(path) > 1 and path[0] == "facts" else ""
