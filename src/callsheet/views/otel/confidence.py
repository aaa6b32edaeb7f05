"""Computes incrementally the confidence of each value that a run writes.

In: visits as they are finished. Out: the confidence of their writes, by the rules of
`trace.projection.basis`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from callsheet.machine import ToolFacts
from callsheet.trace.lctl.confidence import band_of
from callsheet.trace.lineage.lineage import NONE, Lineage, ValueSource
from callsheet.trace.lineage.reads import Role
from callsheet.trace.projection.basis import own_basis
from callsheet.trace.projection.record import Outcome, Visit, Write
from callsheet.views.otel.model import Attributes
from callsheet.views.otel.names import CallsheetKey, Gen
from callsheet.views.otel.visits import OpenVisit

NAME = "lctl.confidence"


class FactConfidence(NamedTuple):
    """The confidence of a value, from 0 to 1, and the reason for it."""

    value: float
    why: str

    def attributes(self, write: int) -> Attributes:
        """Returns the attributes of the evaluation event of a write."""
        return {
            Gen.EVALUATION: NAME,
            Gen.SCORE: self.value,
            Gen.SCORE_LABEL: str(band_of(self.value)),
            Gen.EXPLANATION: self.why,
            CallsheetKey.FACT: f"F{write + 1}",
        }


class Confidence:
    """The confidence of the writes of one run; inputs and literals of the plan have 1."""

    def __init__(self, lineage: Lineage, facts: Mapping[str, ToolFacts]) -> None:
        self._lineage = lineage
        self._facts = facts
        self._known: dict[int, float] = {}

    def confidence_of(self, visit: OpenVisit) -> FactConfidence:
        """Returns the confidence of a visit's write: the minimum of its own basis and of its sources."""
        written = self._lineage.writes[visit.write]
        basis = own_basis(
            Visit(
                visit.label,
                visit.step,
                visit.plan,
                visit.number,
                Outcome.OK,
                wrote=(Write(visit.write, written.name, "", 0, written.made is ValueSource.ERROR),),
                failures=visit.failed_items,
                cast_failed=visit.cast_failed,
                expired=visit.expired,
            ),
            self._facts,
            {},
        )
        value = min([basis.value, *(self._known.get(parent, 1.0) for parent in self._parents(visit))])
        self._known[visit.write] = value
        return FactConfidence(value, basis.why)

    def _parents(self, visit: OpenVisit) -> set[int]:
        lineage_visit = self._lineage.visits[visit.id]
        roles = (Role.ARGUMENT, Role.SOURCE)
        uses = (use for use in self._lineage.reads_of(lineage_visit).uses if use.role in roles)
        return {write for use in uses if (write := self._lineage.version(lineage_visit, use.name)) != NONE}
