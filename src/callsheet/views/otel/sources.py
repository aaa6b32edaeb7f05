"""Builds span links from a visit to the visits that it read from or waited for."""

from __future__ import annotations

from callsheet.machine.trace_ids import trace_id
from callsheet.trace.lineage.lineage import NONE, Lineage
from callsheet.trace.lineage.reads import Role
from callsheet.views.otel.model import Link, Span
from callsheet.views.otel.names import CallsheetKey, LinkType
from callsheet.views.otel.visits import OpenVisit, Producer


class Sources:
    """The exported visits of one run, as targets of links from later visits."""

    def __init__(self, lineage: Lineage, run_id: str) -> None:
        self._lineage = lineage
        self._trace = trace_id(run_id)
        self._producers: dict[int, Producer] = {}
        self._last_of: dict[tuple[int, str], int] = {}
        """The last exported visit, by the number of the plan and the id of the step."""

    def exported(self, visit: OpenVisit, own: Span) -> None:
        """Record that a visit was exported with this span."""
        self._producers[visit.id] = Producer(visit.label, own.span_id, own.end)
        self._last_of[visit.plan, visit.step.id] = visit.id

    def of(self, visit: OpenVisit) -> tuple[tuple[Producer, ...], tuple[Link, ...]]:
        """Returns the visits that this one read from or waited for, and the links of its span.

        If an earlier process had begun the visit, a link leads to its span there.
        """
        names = self._read(visit)
        for step in visit.step.depends_on or ():
            maker = self._last_of.get((visit.plan, step))
            if maker is not None:
                names.setdefault(maker, [])
        known = [
            (self._producers[maker], names[maker]) for maker in sorted(names) if maker in self._producers
        ]
        links = [
            Link(
                self._trace,
                producer.span_id,
                {
                    CallsheetKey.LINK: LinkType.DEPENDS_ON,
                    **({CallsheetKey.LINK_VARIABLES: tuple(read)} if read else {}),
                },
            )
            for producer, read in known
        ]
        if visit.previous_span_id:
            links.append(
                Link(self._trace, visit.previous_span_id, {CallsheetKey.LINK: LinkType.RESUMED_FROM})
            )
        return tuple(producer for producer, _ in known), tuple(links)

    def _read(self, visit: OpenVisit) -> dict[int, list[str]]:
        """Returns the names that a visit has read, by the visit that wrote them."""
        lineage = self._lineage
        names: dict[int, list[str]] = {}
        if visit.status == "skipped" and visit.step.condition is None:
            return names
        lineage_visit = lineage.visits[visit.id]
        for use in lineage.reads_of(lineage_visit).uses:
            if use.role is Role.MESSAGE:
                continue
            write = lineage.version(lineage_visit, use.name)
            maker = NONE if write == NONE else lineage.writes[write].visit
            if maker != NONE and use.name not in names.setdefault(maker, []):
                names[maker].append(use.name)
        return names
