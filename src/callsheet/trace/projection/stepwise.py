"""Writes the hand-offs after every step of a run as shared parts, whose number is linear in the run's length.

In: the record of a run. Out: the entries and facts as lines of text, and for each boundary the lines that
only its document has. The parts of a boundary make up the document that `handoff_of` returns for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from callsheet.ir import Order, Plan
from callsheet.trace.lctl.confidence import is_blocked
from callsheet.trace.lctl.model import VERSION
from callsheet.trace.lctl.write import chain_data, to_data
from callsheet.trace.lctl.yaml_text import to_yaml
from callsheet.trace.projection.project import MOST_FACTS, MOST_VISITS, Projection, live_before_each, read_by
from callsheet.trace.projection.record import Record, Visit, Write


class FactPart(NamedTuple):
    """A fact: its id, whether its confidence allows handing it on, and its lines in a document."""

    id: str
    is_fit: bool
    text: str


class Boundary(NamedTuple):
    """What only the document after a certain visit has.

    `visits` is the number of visits that it covers, `label` the last one; `entries` and `facts` are how many
    of the shared parts it has, from the first on. `head` are the lines before the trace, `tail` those after
    the lists, `warnings` those of the warnings. `live` and `dead` are the facts that have become critical,
    and that no longer are, since the previous boundary.
    """

    visits: int
    label: str
    entries: int
    facts: int
    head: str
    tail: str
    warnings: str
    live: tuple[str, ...]
    dead: tuple[str, ...]


class Stepwise(NamedTuple):
    """The shared parts of a run's documents, and the boundaries that combine them."""

    entries: tuple[str, ...]
    facts: tuple[FactPart, ...]
    boundaries: tuple[Boundary, ...]


def stepwise_of(record: Record, run_id: str, by_tool: Mapping[str, float]) -> Stepwise | None:
    """The parts of the documents after each step of a run; `by_tool` are confidences by canonical tool name.

    None for a run without visits, or one that is too long: its documents omit the earliest visits or facts,
    and so cannot share parts.
    """
    writes = len(record.given) + sum(len(visit.wrote) for visit in record.visits)
    if not record.visits or len(record.visits) > MOST_VISITS or writes > MOST_FACTS:
        return None
    projection = Projection.of(record, run_id, len(record.visits), by_tool)
    document = projection.handoff()
    data = to_data(document)
    facts = tuple(
        FactPart(name, not is_blocked(fact.confidence), _below({"facts": {name: data["facts"][name]}}))
        for name, fact in document.facts.items()
    )
    entries = tuple(_below({"trace": [row]}) for row in data["trace"])
    return Stepwise(entries, facts, tuple(_boundaries(record, projection)))


def _below(data: dict[str, Any], lines: int = 1) -> str:
    """The YAML text of data without its first `lines` lines."""
    return to_yaml(data).split("\n", lines)[lines]


def _boundaries(record: Record, projection: Projection) -> Iterator[Boundary]:
    """A boundary at the end of each batch of visits."""
    batches, needed = record.batches(), _Needed(record)
    written, together = len(record.given), False
    before: set[str] = set()
    for upto, visit in enumerate(record.visits, 1):
        written += len(visit.wrote)
        needed.settle(visit)
        is_last = upto == len(record.visits)
        if not is_last and batches[upto] == batches[upto - 1]:
            together = True
            continue
        shared = projection.together if is_last or together else frozenset[int]()
        there = replace(projection, upto=upto, together=shared)
        live = there.live() if is_last else set(projection.ids(needed.before(record.visits[upto])))
        chain = {"lctl": VERSION, "purpose": "observability", "chain": chain_data(there.chain())}
        warnings = list(there.warnings(live))
        yield Boundary(
            upto,
            visit.label,
            upto + 1,
            written,
            to_yaml(chain),
            to_yaml({"instruction": there.instruction()}),
            _below({"handoff": {"critical_facts": ["F"], "warnings": warnings}}, 2) if warnings else "",
            tuple(sorted(live - before)),
            tuple(sorted(before - live)),
        )
        before = live


class _Needed:
    """Tracks which variables are live as the visits are taken in order."""

    def __init__(self, record: Record) -> None:
        self._plans = record.plans
        self._current = {write.var: write for write in record.given}
        self._live: dict[int, Sequence[set[str] | None]] = {}
        self._left: dict[int, _Left] = {}
        for number, plan in enumerate(record.plans):
            if plan.tree is not None:
                self._live[number] = [None] * len(plan.steps)
            elif plan.order is Order.TEXT:
                self._live[number] = live_before_each(plan)
            else:
                self._left[number] = _Left(plan)

    def settle(self, visit: Visit) -> None:
        """Record that a visit has been settled."""
        self._current.update((write.var, write) for write in visit.wrote)
        if visit.plan in self._left:
            self._left[visit.plan].settle(visit.number)

    def before(self, following: Visit) -> list[Write]:
        """The writes of the variables that are live before this visit, the next one."""
        names = self._names(following)
        return [write for name, write in self._current.items() if names is None or name in names]

    def _names(self, following: Visit) -> Container[str] | None:
        if following.step is None:
            return None  # a new plan may read whatever there is
        if following.plan in self._left:
            return self._left[following.plan].names
        return self._live[following.plan][following.number]


class _Left:
    """The variables that unsettled steps of a graph read, each with the number of such steps."""

    def __init__(self, plan: Plan) -> None:
        self._reads = [read_by(plan, number) for number in range(len(plan.steps))]
        self._settled: set[int] = set()
        self.names = Counter(name for read in self._reads for name in read)

    def settle(self, number: int) -> None:
        """Record that a step has been settled; a number that is no step's changes nothing."""
        if number in self._settled or not 0 <= number < len(self._reads):
            return
        self._settled.add(number)
        self.names -= Counter(self._reads[number])
