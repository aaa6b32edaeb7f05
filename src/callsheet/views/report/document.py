"""The data model of the viewer, embedded in a page or served by a server.

Rows are named tuples; a table contains the names of its columns once. Times are seconds since the run was
created, `seq` are numbers of events, `value` are indexes into the table of values (-1 for none).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, NamedTuple, TypeAlias, cast

from callsheet.views.report.values import Shown

FORMAT = 2
"""The version of the format; a viewer supports exactly one."""


class EventRow(NamedTuple):
    """An event of the journal. `value` is the value of an outcome, `more` the rest of the body."""

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
    """A step of a plan. `span` has its first and last line in the plan's text, from 0, or is empty.

    `uses` are `[role, argument, name, path, each, only]`: `each` is the index in the path where the number of
    a FOREACH item is inserted, `only` the only item that reads it, or -1. `literals` are `[argument, value]`.
    """

    id: str
    title: str
    tool: str
    kind: str
    """The kind of the call (tool, transform, model, agent, human), or `plan` for a control action."""
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
    """A visit of a step: the `nth` of that step. `turn` is when the step began; `start` may be earlier.

    `start` is the issue of the first call, which may be ahead of the turn; without such a call it is `turn`.
    `versions` are the current writes of its variables. `critical` is 1 on the critical path.
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
    """The index of its first call, and the number of its calls."""
    critical: int
    label: str = ""
    """Its path in a plan with blocks, such as `S2[4]/S5`; "" in other plans, where step and `nth` name it."""
    items: int = 0
    """How many items its loop goes through; 0 for what is no FOREACH."""


class CallRow(NamedTuple):
    """A call of a visit. `left` (issued) and `answered` are events, 0 for none; `start`, `until` are times.

    `model` is the time of the model in seconds, `cost` is in the user's own unit. `asked` is the name of the
    prompt, `prompt` its messages.
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
    """A write of a variable, by a visit (-1 for none). `fact` is the id of its fact, or empty.

    In a run of a plan with blocks, `parts` are what it is made of, as `report.blocks.parts_row` has it.
    """

    name: str
    value: int
    seq: int
    made: str
    visit: int
    odd: int
    fact: str
    parts: list[list[Any]] | None = None


class FactRow(NamedTuple):
    """A fact: the confidence of a write by itself (`own`), and limited by its sources (`value`)."""

    id: str
    write: int
    own: float
    value: float
    basis: str
    parents: list[str]


class FindingRow(NamedTuple):
    """A finding of a rule. `source` is the set of rules: `plan`, `lctl`, `run`."""

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
    """A hand-off: its event, the event of the answer (0 for none), its source and target.

    `kind` is `agent`, `person`, `process` or `end`. `state` is its outcome: `taken` (accepted), `concerns`
    (accepted with concerns), `refused`, `unsaid` (no acknowledgement), `waits` (pending), or `given` (to the
    caller, who does not acknowledge). `text` is the answer, `visit` that of an agent's step, `key` that of a
    question.
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
    """A plan of the run: the first, or one that was compiled for a RE-PLAN at the event `seq`."""

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
    """A run, with everything that the viewer shows."""

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
    """The LCTL document; `steps` has the parts of the documents after each step, if there are any."""
    hops: Sequence[HopRow]
    otel: dict[str, Any]
    """The spans as OTLP: counts, and the requests as compressed JSON; empty if there are too many."""
    asks: Sequence[dict[str, Any]]
    doubts: Sequence[dict[str, Any]]
    usage: dict[str, Any]
    values: Sequence[Shown]
    diff: dict[str, Any] | None = None
    notes: dict[str, Any] = field(default_factory=dict[str, Any])

    def to_json(self) -> dict[str, Any]:
        """Returns the document as JSON data."""
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


Path: TypeAlias = "tuple[str, ...]"
Print: TypeAlias = "Mapping[Path, bytes | tuple[bytes, ...]]"
"""A fingerprint: by path the hash of a part, the hashes of a list's rows, or of a long text's lines."""

_BYTES = 8
_LONG = 1_000
"""A text of more characters is compared line by line."""
_TEXT = b"a text"
"""The first entry of a text's hashes; shorter than the hash of a row, so that it cannot be one."""
_DEEPEST = 3
"""The maximum depth at which objects are compared by parts; deeper ones are compared as a whole."""


def print_of(document: Mapping[str, Any]) -> Print:
    """Returns the fingerprint of a document."""
    digests: dict[Path, bytes | tuple[bytes, ...]] = {}
    _collect((), document, digests)
    return digests


def name_of(of: Print) -> str:
    """Returns a name for a fingerprint, which differs for different documents."""
    encoded = blake2b(digest_size=16)
    for path, hashes in sorted(of.items()):
        encoded.update("\0".join(path).encode())
        encoded.update(hashes if isinstance(hashes, bytes) else b"".join(hashes))
    return encoded.hexdigest()


def changes(before: Print, after: Print, document: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the changes from the document of `before` to `document`, whose fingerprint is `after`."""
    put: list[tuple[Path, Any]] = []
    rows: list[Any] = []
    texts: list[Any] = []
    for path, hashes in after.items():
        if before.get(path) == hashes or any(path[: len(above)] == above for above, _ in put):
            continue
        old, new = before.get(path), _at(document, path)
        if isinstance(hashes, bytes) or not isinstance(old, tuple) or _is_text(old) != _is_text(hashes):
            put.append((path, new))
            continue
        if _is_text(hashes):
            texts.append([list(path), *_changed_lines(old[1:], hashes[1:], new)])
            continue
        same = min(len(old), len(hashes))
        others = [n for n in range(len(hashes)) if n >= same or old[n] != hashes[n]]
        rows.append([list(path), len(hashes), [[n, new[n]] for n in others]])
    return {"set": [[list(path), value] for path, value in put], "rows": rows, "texts": texts}


def _is_text(hashes: tuple[bytes, ...]) -> bool:
    return hashes[:1] == (_TEXT,)


def _changed_lines(old: tuple[bytes, ...], new: tuple[bytes, ...], text: str) -> tuple[int, int, list[str]]:
    """Returns the first changed line, the number of lines to remove, and the lines that replace them."""
    most, begins, ends = min(len(old), len(new)), 0, 0
    while begins < most and old[begins] == new[begins]:
        begins += 1
    while ends < most - begins and old[-1 - ends] == new[-1 - ends]:
        ends += 1
    lines = text.split("\n")
    return begins, len(old) - begins - ends, lines[begins : len(lines) - ends]


def _collect(path: Path, value: Any, digests: dict[Path, bytes | tuple[bytes, ...]]) -> None:
    if isinstance(value, list | tuple):
        digests[path] = tuple(map(_hash, cast("Sequence[Any]", value)))
    elif isinstance(value, str) and len(value) > _LONG:
        digests[path] = (_TEXT, *map(_hash, value.split("\n")))
    elif isinstance(value, dict) and len(path) < _DEEPEST:
        table = cast("dict[str, Any]", value)
        digests[path] = _hash(sorted(table))
        for key, part in table.items():
            _collect((*path, key), part, digests)
    else:
        digests[path] = _hash(value)


def _hash(value: Any) -> bytes:
    encoded = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return blake2b(encoded.encode("utf-8", "surrogatepass"), digest_size=_BYTES).digest()


def _at(document: Mapping[str, Any], path: Path) -> Any:
    value: Any = document
    for key in path:
        value = value[key]
    return value
