"""An event of a run, its bytes, and the hash chain through a run's events.

An entry is what the journal keeps as one row: an event, and the intents that left right after
it. Each entry's hash covers the one before it and everything the entry says; a large body is
covered through its own hash, so that it can be dropped and the chain still be checked.
Pure: no database, no clock.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from struct import Struct
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from callsheet.store.errors import NotStorable

if TYPE_CHECKING:
    from callsheet.machine.course import Way

GENESIS = bytes(32)
"""What the first event of a run follows."""

_encoder = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False, check_circular=False)
_quote = json.encoder.encode_basestring


def _encode_by() -> Callable[[Any], str]:
    """What makes the text of JSON data; the encoder in C is made once and not, as by `encode`, each time.

    Data that contains itself is not looked for: it is nested deeper than can be written.
    """
    make: Any = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return _encoder.encode
    chunks: Callable[[Any, int], Iterable[str]] = make(
        None, _encoder.default, _quote, None, ":", ",", False, False, False
    )
    return lambda data: "".join(chunks(data, 0))


_encode = _encode_by()
_LARGE = 1 << 62
_TEXT = b'{"value":"'
_QUOTES = 4
"""Of a body that is one text without anything that is escaped."""

NO_BODY = sha256(b"").digest()
"""The digest of an event without a body (no JSON text is empty)."""

Head: TypeAlias = "tuple[int, int, str, str | None, str | None, int | None, int | None, float, float]"
"""An event but for its body: seq, epoch, type, key, step, index, attempt, ts, mono."""


class EventType(StrEnum):
    """What kind of thing an event says happened."""

    START = "start"
    INTENT = "intent"
    OK = "ok"
    ERR = "err"
    LATE = "late"
    """An outcome that came when its call was closed; it changes nothing."""
    IN_DOUBT = "in_doubt"
    DECIDED = "decided"
    TIMER = "timer"
    FIRED = "fired"
    ASK = "ask"
    SIGNAL = "signal"
    PLAN = "plan"
    CANCEL = "cancel"
    REOPEN = "reopen"
    TIME_UP = "time_up"
    LIMITS = "limits"
    POLICY = "policy"
    EDIT = "edit"
    """Variables that were set in a fork; they hold from the next event on, or at once."""
    SNAPSHOT = "snapshot"
    END = "end"


class Guidance(Protocol):
    """Tells the way of a run of which something is sealed."""

    def way(self, seq: int) -> Way | None:
        """What was decided at an event; None where nobody can tell."""
        ...

    def strayed(self, why: str = "") -> None:
        """Warn that the run is not told as it went."""
        ...


@dataclass(frozen=True, slots=True)
class Event:
    """One event as it stands in the journal.

    `seq` counts from 1 without gaps and alone decides the order; `ts` is wall time in seconds
    since 1970, `mono` the writing process's monotonic clock. `body` is the event's data, large
    ones included. `epoch` says which owner of the run wrote it, `hash` is that of the entry
    that the event stands in. `size` is how many bytes its body has, `digest` the SHA-256 of these bytes
    where what was sealed in it has been opened.
    """

    run_id: str
    seq: int
    epoch: int
    type: EventType
    key: str | None
    step: str | None
    index: int | None
    attempt: int | None
    ts: float
    mono: float
    body: dict[str, Any] | None
    hash: bytes
    size: int = 0
    digest: bytes | None = None
    guide: Guidance | None = field(default=None, compare=False, repr=False)
    """Of a run with secrets, for who looks at it: what tells which way it went."""


class Entry(NamedTuple):
    """An entry for those who go through a whole run: an event, and the intents that left right after it.

    `intents` are read by `decode_intents`; they have the numbers after `seq`, up to `last`. The body of a
    snapshot is left out.
    """

    seq: int
    type: str
    key: str | None
    ts: float
    body: Any
    last: int
    intents: bytes | None
    epoch: int = 0
    """Which owner of the run wrote it."""
    guide: Guidance | None = None
    """As that of an Event."""


class Stored(NamedTuple):
    """The body of an event as it stands in the journal."""

    seq: int
    type: str
    data: bytes


def encode_body(what: str, body: Mapping[str, Any]) -> bytes:
    """The bytes of a body; raises NotStorable for what JSON cannot say.

    Keys keep their order: the text of a dict inside a plan's texts is the same after a crash.
    """
    if len(body) == 1 and "value" in body:  # most bodies: written by hand where that is easy
        value = body["value"]
        if type(value) is int and -_LARGE < value < _LARGE:
            return b'{"value":%d}' % value
        if type(value) is str:
            return f'{{"value":{_quote(value)}}}'.encode("utf-8", "surrogatepass")
    try:
        return _encode(body if isinstance(body, dict) else dict(body)).encode("utf-8", "surrogatepass")
    except RecursionError as error:
        raise NotStorable(what, "it is nested too deep, or contains itself") from error
    except (ValueError, TypeError) as error:
        raise NotStorable(what, str(error)) from error


def decode_body(data: bytes) -> Any:
    """The data of a body's bytes; raises ValueError if they are not JSON."""
    if data.startswith(_TEXT) and data.count(b'"') == _QUOTES and b"\\" not in data and data.endswith(b'"}'):
        return {"value": data[len(_TEXT) : -2].decode("utf-8", "surrogatepass")}  # a long text: read by hand
    return json.loads(data.decode("utf-8", "surrogatepass"))


def decode_bodies(bodies: Sequence[bytes]) -> Iterator[Any] | None:
    """The data of many bodies, read at once; None where one of them has to be looked at by itself.

    >>> list(decode_bodies([b'{"value":1}', b'{"value":"a"}']) or ())
    [{'value': 1}, {'value': 'a'}]
    """
    try:
        data = json.loads((b"[" + b",".join(bodies) + b"]").decode("utf-8", "surrogatepass"))
    except (ValueError, TypeError, RecursionError):
        return None
    return iter(data) if len(data) == len(bodies) else None


def encode_intent(key: str, tool: str | None) -> bytes:
    """The bytes of an intent in an entry: the call's key and its tool, null for a model's call.

    Raises UnicodeEncodeError for what is not Unicode text.
    """
    return f"{_quote(key)},{'null' if tool is None else _quote(tool)}".encode()


def decode_intents(data: bytes) -> list[tuple[str, str | None]]:
    """The intents that an entry's bytes tell of; raises ValueError if they are not such."""
    items: list[Any] = json.loads(data)
    return list(zip(items[::2], items[1::2], strict=True))


def decode_many_intents(of_entries: Sequence[bytes]) -> list[list[tuple[str, str | None]]]:
    """The intents of many entries, read at once; raises ValueError as `decode_intents` does.

    >>> decode_many_intents([b'["a.0.1","T"]', b'["b.0.1",null,"c.0.1","T"]'])
    [[('a.0.1', 'T')], [('b.0.1', None), ('c.0.1', 'T')]]
    """
    found: list[list[Any]] = json.loads(b"[" + b",".join(of_entries) + b"]")
    if len(found) != len(of_entries):
        raise ValueError("intents are a list of their own for each entry")
    return [list(zip(items[::2], items[1::2], strict=True)) for items in found]


pack_numbers = Struct(">qqdd").pack
"""Seq, epoch, ts and mono of an event as bytes."""


def identify(run_id: str, head: Head) -> bytes:
    """The part of an entry that says whose event of which kind it is: a line of text.

    The free texts carry their lengths: no two events have the same line. Raises
    UnicodeEncodeError for what is not Unicode text.
    """
    _, _, kind, key, step, index, attempt, _, _ = head
    if key is not None and step is not None:
        return f"{run_id} {kind} {index} {attempt} {len(key)} {len(step)} {key}{step}".encode()
    return (
        f"{run_id} {kind} {index} {attempt}"
        f" {-1 if key is None else len(key)} {-1 if step is None else len(step)} {key}{step}"
    ).encode()


def link(prev: bytes, head: Head, digest: bytes, line: bytes, intents: bytes | None) -> bytes:
    """The hash of an entry: SHA-256 over the hash before it, its event, its intents.

    Of the event: four big-endian numbers (seq, epoch, ts, mono), its body's digest, and the
    line that identifies it.
    """
    return chained(prev, pack_numbers(head[0], head[1], head[7], head[8]), digest, line, intents)


def chained(prev: bytes, numbers: bytes, digest: bytes, line: bytes, intents: bytes | None) -> bytes:
    """As `link`, with the numbers as `pack_numbers` gives them."""
    if intents is None:
        return sha256(b"".join((prev, numbers, digest, line))).digest()
    return sha256(b"".join((prev, numbers, digest, line, b"\n", intents))).digest()
