"""The data model of the viewer, embedded in a page or served by a server.

Rows are named tuples; a table tells the names of its columns once. Times are seconds since the run was
created, `seq` are numbers of events, `value` are places in the table of values (-1 for none).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from callsheet.views.report.values import Shown

FORMAT = 2
"""Of the document; a viewer shows only the one that it knows."""


class EventRow(NamedTuple):
    """An event of the journal. `value` is what an outcome gave, `more` the rest of its body."""

    seq: int
    t: float
    type: str
    key: str
    step: str
    epoch: int
    hash: str
    value: int
    more: int


class StepRow(NamedTuple):
    """A step of a plan. `span` are its first and last line in the plan's text, if it stands there.

    `uses` are `[role, argument, name, path, each, only]`: `each` is the place in the path that the item of a
    FOREACH takes, `only` the one item that it is read for, or -1; `literals` are `[argument, value]`.
    """

    id: str
    title: str
    tool: str
    kind: str
    """Who carries it out: tool, transform, model, agent, human; or plan."""
    action: str
    guard: str
    output: str
    on_fail: str
    group: int
    foreach: str
    span: list[int]
    names: list[str]
    uses: list[Any]
    literals: list[Any]


class VisitRow(NamedTuple):
    """A visit of a step: the `nth` of it. `turn` is when its turn came, `start` when its first call left.

    `versions` are the writes that its variables stood at. `critical` says that it is on the longest way.
    """

    plan: int
    step: int
    nth: int
    seq: int
    end: int
    outcome: str
    detail: int
    write: int
    versions: list[int]
    turn: float
    start: float
    until: float
    calls: list[int]
    """The first of its calls, and how many there are."""
    critical: int


class CallRow(NamedTuple):
    """A call of a visit: `left` and `answered` are events, `start` and `until` the times; 0 for none.

    `model` is how many seconds of it a model took, `tokens` in and out, `cost` in the user's own unit.
    `asked` names the prompt that was answered, `prompt` is its text.
    """

    visit: int
    key: str
    item: int
    attempt: int
    turn: int
    call: int
    tool: str
    left: int
    answered: int
    outcome: str
    start: float
    until: float
    args: int
    model: float
    tokens_in: int
    tokens_out: int
    cost: float
    asked: str
    prompt: int


class WriteRow(NamedTuple):
    """That a variable was set, by a visit or, with -1, by none. `fact` is its fact's id, if it has one."""

    name: str
    value: int
    seq: int
    made: str
    visit: int
    odd: int
    fact: str


class FactRow(NamedTuple):
    """A fact: what a write is worth by itself, and never more than what it was made of."""

    id: str
    write: int
    own: float
    value: float
    basis: str
    parents: list[str]


class FindingRow(NamedTuple):
    """Something that a rule says. `source` tells which rules: `plan`, `lctl`, `run`."""

    source: str
    code: str
    level: str
    text: str
    help: str
    plan: int
    step: str
    fact: str
    seq: int


class HopRow(NamedTuple):
    """A hand-off: at which event, and at which it was answered (0: it was not), from whom, to whom.

    `kind` is `agent`, `person`, `process` or `end`. `state` tells what came of it: `taken` up, with
    `concerns`, `refused`, `unsaid` (there was no ack), `waits`, or `given` (to the caller, who gives none).
    `text` is what was said, `visit` the one that an agent stands for, `key` the question.
    """

    kind: str
    seq: int
    until: int
    source: str
    target: str
    state: str
    text: int
    visit: int
    key: str = ""


@dataclass(frozen=True, slots=True)
class PlanPart:
    """A plan of the run: the first, or one that was made for a RE-PLAN at the event `seq`."""

    hash: str
    title: str
    goal: str
    order: str
    source: str
    seq: int
    steps: tuple[StepRow, ...]
    layout: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Document:
    """A run, with all that the viewer shows of it."""

    run: dict[str, Any]
    plans: tuple[PlanPart, ...]
    events: Sequence[EventRow]
    visits: Sequence[VisitRow]
    calls: Sequence[CallRow]
    writes: Sequence[WriteRow]
    facts: Sequence[FactRow]
    findings: Sequence[FindingRow]
    blame: dict[str, Any] | None
    lctl: dict[str, Any]
    """The document that is handed on; under `steps`, where there are any, the parts of those after each."""
    hops: Sequence[HopRow]
    otel: dict[str, Any]
    """The spans as OTLP: how many, and the requests as compressed JSON, where there are not too many."""
    asks: Sequence[dict[str, Any]]
    doubts: Sequence[dict[str, Any]]
    usage: dict[str, Any]
    values: Sequence[Shown]
    diff: dict[str, Any] | None = None
    notes: dict[str, Any] = field(default_factory=dict[str, Any])

    def to_json(self) -> dict[str, Any]:
        """The document as JSON data."""
        return {
            "format": FORMAT,
            "run": self.run,
            "plans": [
                {
                    "hash": plan.hash,
                    "title": plan.title,
                    "goal": plan.goal,
                    "order": plan.order,
                    "source": plan.source,
                    "seq": plan.seq,
                    "steps": _table(StepRow, plan.steps),
                    "layout": plan.layout,
                }
                for plan in self.plans
            ],
            "events": _table(EventRow, self.events),
            "visits": _table(VisitRow, self.visits),
            "calls": _table(CallRow, self.calls),
            "writes": _table(WriteRow, self.writes),
            "facts": _table(FactRow, self.facts),
            "findings": _table(FindingRow, self.findings),
            "blame": self.blame,
            "lctl": self.lctl,
            "hops": _table(HopRow, self.hops),
            "otel": self.otel,
            "asks": list(self.asks),
            "doubts": list(self.doubts),
            "usage": self.usage,
            "values": list(self.values),
            "diff": self.diff,
            "notes": self.notes,
        }


def _table(row: Any, rows: Sequence[Any]) -> dict[str, Any]:
    return {"columns": list(row._fields), "rows": list(rows)}
