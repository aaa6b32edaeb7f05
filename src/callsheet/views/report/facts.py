"""Joins the LCTL facts of a run to its writes: the confidence of each value and its sources."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from callsheet.trace.lineage.lineage import NONE, Lineage, ValueSource
from callsheet.trace.projection.basis import made_of, worth_of
from callsheet.trace.projection.record import BEFORE_ALL, Record, Write
from callsheet.trace.projection.wording import fact_id
from callsheet.views.report.document import FactRow


def facts_of(lineage: Lineage, record: Record, by_tool: Mapping[str, float]) -> list[FactRow]:
    """Returns a fact for each write of the record, in order; `write` is its number in the lineage, or -1."""
    worth = worth_of(record, by_tool)
    writes = _writes_by_record(lineage, record)
    rows: list[FactRow] = []
    for write in record.given:
        rows.append(_fact(write, writes, worth[write.number].basis, worth[write.number].value, ()))
    for visit in record.visits:
        parents = tuple(dict.fromkeys(made_of(visit)))
        for write in visit.wrote:
            fact_worth = worth[write.number]
            rows.append(_fact(write, writes, fact_worth.basis, fact_worth.value, parents))
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


def _writes_by_record(lineage: Lineage, record: Record) -> dict[int, int]:
    """Returns the number in the lineage of each write of the record, by its number there."""
    given = {w.name: w.id for w in lineage.writes if w.made is ValueSource.INPUT}
    own: dict[tuple[str, int], int] = {}
    for write in lineage.writes:
        if write.made is ValueSource.PLAN:
            own.setdefault((write.name, sum(seq <= write.seq for seq in lineage.planned) - 1), write.id)
    begun: dict[tuple[int, int, int], int] = {}
    nth: defaultdict[tuple[int, int], int] = defaultdict(int)
    for visit in lineage.visits:
        place = visit.program, visit.number
        begun[*place, nth[place]] = visit.id
        nth[place] += 1
    writes = {
        w.number: given.get(w.var, own.get((w.var, 0), NONE)) for w in record.given if w.visit == BEFORE_ALL
    }
    nth.clear()
    edits = iter([w.id for w in lineage.writes if w.made is ValueSource.EDIT])
    for visit in record.visits:
        if visit.is_edit:
            writes.update((w.number, next(edits, NONE)) for w in visit.wrote)
            continue
        if visit.step is None:
            writes.update((w.number, own.get((w.var, visit.plan), NONE)) for w in visit.wrote)
            continue
        place = visit.plan, visit.number
        written = lineage.write_of.get(begun.get((*place, nth[place]), NONE), NONE)
        nth[place] += 1
        writes.update((w.number, written) for w in visit.wrote)
    return writes
