"""Snapshots: the state of a run as one event, so that a long journal need not be folded from its start.

In: a machine, and the `SideRecord` of its run. Out: the body of a `snapshot` event, and from such a body the
same state again. A value that an earlier event has is not written again: the body refers to the event, and
one digest covers all bodies referred to. A body that cannot be used raises UnusableSnapshot; the run is then
folded from its start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from hashlib import sha256
from itertools import accumulate, pairwise
from typing import Any, TypeAlias, cast

from callsheet.ir import JSON, Plan
from callsheet.lazy import NamedTuple, dataclass
from callsheet.machine import Decision, Machine, TookPlace, ToolFacts
from callsheet.machine.keys import item_of
from callsheet.machine.run import Run
from callsheet.machine.snapshots import state_to_json
from callsheet.store.events import EventType, Stored, decode_body, encode_body
from callsheet.store.records import PlanOf
from callsheet.store.start import facts_from_json, facts_to_json

FORMAT = 2
_TOOK_PLACE = "value"
_SHORT = 64
"""A string of at most this many characters is written again rather than referred to."""
_NUMBERS = frozenset({int, float, bool, type(None)})
"""The types of values that are written again however many there are."""
_PRUNE_BYTES = 16 * 1024 * 1024


class UnusableSnapshot(Exception):
    """A snapshot that cannot be used; the run can still be folded from its start."""


class SnapshotIntervals(NamedTuple):
    """When snapshots are taken: the first at event `first`, then after `every` or more events.

    The interval grows with the size of the last snapshot, so that all snapshots together stay a fraction
    of the journal.
    """

    first: int = 8_000
    every: int = 1_000
    event_bytes: int = 25

    def next_after(self, seq: int, size: int) -> int:
        """The event after which the next snapshot is due, after one of `size` bytes at event `seq`."""
        return max(self.first, seq + max(self.every, size // self.event_bytes))


Fetch: TypeAlias = "Callable[[Iterable[int]], Iterable[Stored]]"
"""Fetches the bodies of events by number, in order; missing ones are left out."""


Read: TypeAlias = "Callable[[str, bytes, int], Any]"
"""Decodes the body of an event, given its type, bytes and number."""


def read_plainly(kind: str, data: bytes, seq: int) -> Any:
    """Decode a body as stored."""
    return decode_body(data)


class StoredParts(NamedTuple):
    """How a snapshot's references are resolved: bodies of events by number, plans by hash.

    `read` decodes the bytes of a body.
    """

    fetch: Fetch
    plan_of: PlanOf
    read: Read = read_plainly


class _Known(NamedTuple):
    """A value in an event; `body` is the event's body, or its digest."""

    value: JSON
    seq: int
    body: Mapping[str, JSON] | bytes


class Values:
    """The values of a run that its journal already has, by identity, so that snapshots can refer to them.

    Values that the run no longer uses are dropped from time to time.
    """

    __slots__ = ("_bytes", "_inputs", "_known", "_most")

    def __init__(self, inputs: Mapping[str, JSON]) -> None:
        self._known: dict[int, _Known] = {}
        self._inputs = {id(value): (name, value) for name, value in inputs.items() if _is_long(value)}
        self._bytes = 0
        self._most = _PRUNE_BYTES

    def saw(self, value: JSON, seq: int, body: Mapping[str, JSON] | bytes, size: int) -> bool:
        """Record a value of event `seq`, with its body or the body's digest; whether to `prune` now."""
        if type(value) is int or not _is_long(value):
            return False
        self._known[id(value)] = _Known(value, seq, body)
        self._bytes += size
        return self._bytes > self._most

    def prune(self, machine: Machine) -> None:
        """Drop the values that are not part of the machine's state."""
        state = machine.state()
        used = _Encoder(self)
        if machine.result is None and (state is None or state_to_json(state, used.keep) is None):
            return
        self.keep_only(used.seqs)

    def keep_only(self, seqs: Iterable[int]) -> None:
        """Drop the values of all other events."""
        wanted = frozenset(seqs)
        before = len(self._known)
        self._known = {i: known for i, known in self._known.items() if known.seq in wanted}
        if before:
            self._bytes = self._bytes * len(self._known) // before
        self._most = max(_PRUNE_BYTES, 2 * self._bytes)

    def place_of(self, value: JSON) -> int | str | None:
        """The number of the event with the value, or the name of the input with it, or None."""
        known = self._known.get(id(value))
        if known is not None:
            return known.seq
        given = self._inputs.get(id(value))
        return None if given is None else given[0]

    def holder_of(self, text: str) -> int | None:
        """The number of the event whose body is only a value, with this JSON text; None if there is none."""
        digest = sha256(b'{"value":%b}' % text.encode("utf-8", "surrogatepass")).digest()
        return next((known.seq for known in self._known.values() if known.body == digest), None)

    def digest(self, seqs: Iterable[int]) -> str:
        """The joint digest of the bodies of recorded events, in the given order."""
        by_seq = {known.seq: known for known in self._known.values()}
        return _digest_of(_body_digest(by_seq[seq].body) for seq in seqs)


def _is_long(value: JSON) -> bool:
    return len(value) > _SHORT if isinstance(value, str) else isinstance(value, list | dict) and bool(value)


def _body_digest(body: Mapping[str, JSON] | bytes) -> bytes:
    return body if isinstance(body, bytes) else sha256(encode_body("ok", body)).digest()


def _digest_of(digests: Iterable[bytes]) -> str:
    whole = sha256()
    for digest in digests:
        whole.update(digest)
    return whole.hexdigest()


class AskTimes(NamedTuple):
    """The wall times at which a person was asked, and until which they can answer (None: no limit)."""

    since: float
    due: float | None


_FIRST_TURN = "/t1"


@dataclass(slots=True)
class SideRecord:
    """Data from the events of a run that its machine does not need.

    `launched` has the wall times at which calls were issued, `due` those of timers, `asked` the reasons why
    calls are in doubt according to the journal; all by key. `plans` are the plans of re-plans,
    each with its hash and the facts it was compiled with.
    """

    facts: dict[str, ToolFacts]
    values: Values
    launched: dict[str, float] = field(default_factory=dict[str, float])
    due: dict[str, float] = field(default_factory=dict[str, float])
    asked: dict[str, str] = field(default_factory=dict[str, str])
    decided: dict[str, Decision | TookPlace] = field(default_factory=dict[str, "Decision | TookPlace"])
    """The last decision on each call that was in doubt; without the value if it is from a snapshot."""
    posed: dict[str, AskTimes] = field(default_factory=dict[str, AskTimes])
    """The open questions, by digest."""
    posed_before: dict[str, AskTimes] = field(default_factory=dict[str, AskTimes])
    """Questions from before the policy or variables were changed; those still open are journaled again."""
    began: dict[str, float] = field(default_factory=dict[str, float])
    """The wall time at which each agent was first asked, by the key of its call."""
    plans: list[tuple[Plan, str, Mapping[str, Any]]] = field(
        default_factory=list[tuple[Plan, str, Mapping[str, Any]]]
    )

    moved: dict[str, JSON] = field(default_factory=dict[str, JSON])
    tasks: dict[str, str] = field(default_factory=dict[str, str])
    """The tasks of servers that open calls have become, by the keys of the calls."""
    """Where the tools are that are no longer at the places of the start."""

    def unsay(self) -> None:
        """Require open questions to be journaled again, since the policy or variables were changed."""
        self.posed_before |= self.posed
        self.posed.clear()

    def call_issued(self, key: str, moment: float) -> None:
        """Record that a call was issued at this wall time."""
        self.launched[key] = moment
        if key.endswith(_FIRST_TURN):
            self.began.setdefault(key.removesuffix(_FIRST_TURN), moment)

    def withhold(self, keys: Iterable[str]) -> None:
        """Record that these calls have not left, although their intents are recorded."""
        for key in keys:
            self.launched.pop(key, None)

    def first_asked(self, talk: str) -> float | None:
        """The wall time at which an agent was first asked, in this or an earlier attempt of its call."""
        item, _, attempt = talk.rpartition(".")
        times = [self.began.get(f"{item}.{number}") for number in range(1, int(attempt) + 1)]
        return next((time for time in times if time is not None), None)

    def close(self, key: str) -> None:
        """Remove a call, which has its outcome."""
        self.launched.pop(key, None)
        if self.due:
            self.due.pop(key, None)
        if self.asked:
            self.asked.pop(key, None)
        if self.tasks:
            self.tasks.pop(key, None)


class _Encoder:
    """Encodes values in a body, and collects the events that it refers to.

    A value is encoded as the number of an event with it, as `{"in": name}` for an input, as
    `{"list": […]}` for a list of encoded values, or as `[value]`.
    """

    def __init__(self, values: Values) -> None:
        self._place_of = values.place_of
        self.seqs: set[int] = set()

    def keep(self, value: JSON) -> JSON:
        if type(value) is int or not _is_long(value):
            return [value]
        place = self._place_of(value)
        if isinstance(place, int):
            self.seqs.add(place)
            return place
        if place is not None:
            return {"in": place}
        if isinstance(value, list) and not _NUMBERS.issuperset(map(type, value)):
            return {"list": [self.keep(item) for item in value]}
        return [value]


def body_of(machine: Machine, side_record: SideRecord, seconds: float) -> dict[str, Any] | None:
    """The body of a snapshot of the current state of a run; None if its state cannot be stored now.

    `seconds` is the time that processes have worked on the run.
    """
    state = machine.state()
    if state is None:
        return None
    plan = _plan_of(state, side_record)
    encoder = _Encoder(side_record.values)
    data = state_to_json(state, encoder.keep)
    if data is None or (plan is None and state.generation):
        return None
    open_keys = machine.open_keys()
    seqs = sorted(encoder.seqs)
    side_record.values.keep_only(seqs)
    return {
        "format": FORMAT,
        "state": data,
        "seconds": seconds,
        "launched": {key: side_record.launched[key] for key in open_keys if key in side_record.launched},
        "due": {key: side_record.due[key] for key in open_keys if key in side_record.due},
        "asked": {key: side_record.asked[key] for key in open_keys if key in side_record.asked},
        "began": _still_open(side_record.began, open_keys),
        "decided": {key: _decision_name(decision) for key, decision in side_record.decided.items()},
        "posed": [
            [asked.digest, *side_record.posed[asked.digest]]
            for _, asked in state.asking.open()
            if asked.digest in side_record.posed
        ],
        **({"moved": side_record.moved} if side_record.moved else {}),
        **({"tasks": side_record.tasks} if side_record.tasks else {}),
        "plan": plan,
        "facts": facts_to_json(side_record.facts) if plan else None,
        "seqs": [b - a for a, b in pairwise((0, *seqs))],
        "values": side_record.values.digest(seqs),
    }


def _plan_of(state: Run, side_record: SideRecord) -> list[Any] | None:
    """The hash and facts of the state's plan, if it is from a re-plan."""
    for plan, name, facts in reversed(side_record.plans):
        if state.program.plan is plan:
            return [name, facts]
    return None


def _decision_name(decision: Decision | TookPlace) -> str:
    """A decision as a string; the value of a `TookPlace` is omitted, since it is in the state of the call."""
    return _TOOK_PLACE if isinstance(decision, TookPlace) else str(decision)


def _decision(word: str) -> Decision | TookPlace:
    return TookPlace(None) if word == _TOOK_PLACE else Decision(word)


class Given:
    """Decodes the values of a body; `decode` is the `give` of `state_from_json`.

    Raises UnusableSnapshot if the events that the body refers to are not those at the time of the snapshot.
    """

    def __init__(
        self, body: Mapping[str, Any], inputs: Mapping[str, JSON], fetch: Fetch, read: Read = read_plainly
    ) -> None:
        self._inputs = inputs
        self._by_seq: dict[int, JSON] = {}
        self.values = Values(inputs)
        self._load(list(accumulate(body["seqs"])), body["values"], fetch, read)

    def _load(self, seqs: list[int], expected: str, fetch: Fetch, read: Read) -> None:
        digests: list[bytes] = []
        for seq, kind, data in fetch(seqs):
            digest = sha256(data).digest()
            digests.append(digest)
            body = read(kind, data, seq)
            self._by_seq[seq] = value = body["value" if kind == EventType.OK else "error"]
            self.values.saw(value, seq, digest, len(data))
        if _digest_of(digests) != expected:
            raise UnusableSnapshot("the values that it names are not what they were")

    def decode(self, stored: Any) -> JSON:
        """The value of an encoded part of the state."""
        if isinstance(stored, int):
            return self._by_seq[stored]
        if isinstance(stored, list):
            (value,) = cast("list[JSON]", stored)
            return value
        ((kind, content),) = stored.items()
        return self._inputs[content] if kind == "in" else [self.decode(item) for item in content]


def _still_open(began: Mapping[str, float], open_keys: Iterable[str]) -> dict[str, float]:
    """The start times of agents that are running or wait for their next attempt."""
    if not began:
        return {}
    items = {item_of(key) for key in open_keys}
    return {talk: moment for talk, moment in began.items() if item_of(talk) in items}


def side_record_from_json(
    body: Mapping[str, Any], start_facts: Mapping[str, ToolFacts], values: Values, plan_of: PlanOf
) -> SideRecord:
    """The side record in the body of a snapshot."""
    side_record = SideRecord(
        dict(start_facts), values, dict(body["launched"]), dict(body["due"]), dict(body["asked"])
    )
    side_record.decided = {key: _decision(word) for key, word in body["decided"].items()}
    side_record.posed = {digest: AskTimes(since, due) for digest, since, due in body["posed"]}
    side_record.began = dict(body.get("began", {}))
    side_record.moved = dict(body.get("moved", {}))
    side_record.tasks = dict(body.get("tasks", {}))
    if body["plan"] is not None:
        name, facts = body["plan"]
        side_record.plans.append((plan_of(name), name, facts))
        side_record.facts = facts_from_json(body["facts"])
    return side_record
