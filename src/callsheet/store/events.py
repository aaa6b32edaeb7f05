"""The events of a run, their encoding, and the hash chain through them.

An entry is one row of the journal: an event, and the intents that follow from it. Each entry's hash covers
the entry's content and the hash of the one before; a large body is covered by its own hash, so that it can be
dropped and the chain still be verified. Pure: no database, no clock.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from hashlib import sha256
from struct import Struct
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from callsheet.lazy import NamedTuple, dataclass
from callsheet.store.errors import NotStorable

if TYPE_CHECKING:
    from callsheet.machine.decision_log import Decisions

GENESIS = bytes(32)
"""The hash that a run's first entry is chained to."""

_encoder = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False, check_circular=False)
_quote = json.encoder.encode_basestring


def _encode_by() -> Callable[[Any], str]:
    """A function that encodes JSON data with a C encoder made once; `encode` would make one for each call.

    It does not check for data that contains itself, which ends in a RecursionError.
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
"""The quotes in a body whose value is one text without escapes."""

NO_BODY = sha256(b"").digest()
"""The digest of an event without a body (no JSON text is empty)."""

Head: TypeAlias = "tuple[int, int, str, str | None, str | None, int | None, int | None, float, float]"
"""An event without its body: seq, epoch, type, key, step, index, attempt, ts, mono."""


class CallPart(StrEnum):
    """What an event is to the call that it has the key of."""

    NONE = "none"
    """It is about the run, not about a call."""
    OPENS = "opens"
    ANSWERS = "answers"
    """It closes the call with an outcome."""
    FIRES = "fires"
    """It ends a wait."""
    DOUBTS = "doubts"
    """The call stays open: it may or may not have had its effect."""
    TOO_LATE = "too late"
    """The call was closed before."""
    BESIDE = "beside"
    """The call goes on, whatever it says."""


class EventType(StrEnum):
    """The types of journal events; the table below says of each what readers need to know.

    Bodies and the machine's events are in `store.records`, which has a row for each type that the machine
    takes.
    """

    word: str
    """What its body contains, for people; "" for a body without data of the run."""
    part: CallPart
    is_of_one_run: bool
    """Whether it is about this journal alone, so that no fork takes it over."""

    START = "start"
    INTENT = "intent"
    OK = "ok"
    ERR = "err"
    LATE = "late"
    """An outcome that came after its call was closed; it changes nothing."""
    IN_DOUBT = "in_doubt"
    DECIDED = "decided"
    TIMER = "timer"
    FIRED = "fired"
    ASK = "ask"
    SIGNAL = "signal"
    SERVER_ASKS = "server_asks"
    """A server asks something while a call of one of its tools is under way; the machine does not see it."""
    SERVER_TOLD = "server_told"
    """What it was answered."""
    SERVER_TASK = "server_task"
    """A call has become a task of its server, whose result can be had later."""
    PLAN = "plan"
    CANCEL = "cancel"
    PAUSE = "pause"
    """A person has stopped new calls of the run; the machine does not see it."""
    UNPAUSE = "unpause"
    """A person lets it go on."""
    REOPEN = "reopen"
    TIME_UP = "time_up"
    LIMITS = "limits"
    POLICY = "policy"
    EDIT = "edit"
    """Variables that were set in a fork; they take effect at once, or with the next event (`holds`)."""
    MOVED = "moved"
    """The tools of the run are at other places from here on."""
    SNAPSHOT = "snapshot"
    END = "end"

    @property
    def opens(self) -> bool:
        """Whether a call, a wait or a question begins with it."""
        return self.part is CallPart.OPENS

    @property
    def answers(self) -> bool:
        """Whether it closes a call with an outcome."""
        return self.part is CallPart.ANSWERS

    @property
    def is_of_call(self) -> bool:
        """Whether it is about a call, whose key it has."""
        return self.part is not CallPart.NONE


def _describe(
    kind: EventType, word: str = "", part: CallPart = CallPart.NONE, *, is_of_one_run: bool = False
) -> None:
    kind.word, kind.part, kind.is_of_one_run = word, part, is_of_one_run


_describe(EventType.START, "given")
_describe(EventType.INTENT, "", CallPart.OPENS)
_describe(EventType.OK, "result", CallPart.ANSWERS)
_describe(EventType.ERR, "error", CallPart.ANSWERS)
_describe(EventType.LATE, "late answer", CallPart.TOO_LATE)
_describe(EventType.IN_DOUBT, "doubt", CallPart.DOUBTS)
_describe(EventType.DECIDED, "decision", CallPart.ANSWERS)
_describe(EventType.TIMER, "", CallPart.OPENS)
_describe(EventType.FIRED, "", CallPart.FIRES)
_describe(EventType.ASK, "question", CallPart.OPENS)
_describe(EventType.SIGNAL, "answer", CallPart.ANSWERS)
_describe(EventType.SERVER_ASKS, "question", CallPart.BESIDE)
_describe(EventType.SERVER_TOLD, "answer", CallPart.BESIDE)
_describe(EventType.SERVER_TASK, "", CallPart.BESIDE)
_describe(EventType.PLAN, "", CallPart.ANSWERS)
_describe(EventType.CANCEL, "cancel")
_describe(EventType.PAUSE, "pause")
_describe(EventType.UNPAUSE, "pause")
_describe(EventType.REOPEN)
_describe(EventType.TIME_UP)
_describe(EventType.LIMITS)
_describe(EventType.POLICY)
_describe(EventType.EDIT, "edit")
_describe(EventType.MOVED, is_of_one_run=True)
_describe(EventType.SNAPSHOT, is_of_one_run=True)
_describe(EventType.END, "end")


class Guidance(Protocol):
    """The decisions of a run with sealed data, for folding it without the secrets."""

    def decisions(self, seq: int) -> Decisions | None:
        """The decisions made at an event; None if they are not known."""
        ...

    def warn_diverged(self, why: str = "") -> None:
        """Warn that the fold does not take the path that the run took."""
        ...


@dataclass(frozen=True, slots=True)
class Event:
    """One event as stored in the journal.

    `seq` counts from 1 without gaps and alone decides the order; `ts` is wall time in seconds since 1970,
    `mono` the writing process's monotonic clock in seconds. `body` is the event's data, also if it is large.
    `epoch` says which owner of the run wrote it, `hash` is that of its entry. `size` is the size of its body
    in bytes, `digest` the SHA-256 of the stored bytes if the body was unsealed.
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
    """For a reader of a run with secrets: gives the decisions that the run took."""


class Entry(NamedTuple):
    """An entry, for reading a whole run quickly: an event, and the intents that follow from it.

    `intents` can be read with `decode_intents`; they have the numbers after `seq`, up to `last`. The body of
    a snapshot is left out.
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
    """As in Event."""


class Stored(NamedTuple):
    """The body of an event, as the stored bytes."""

    seq: int
    type: str
    data: bytes


def encode_body(what: str, body: Mapping[str, Any]) -> bytes:
    """The bytes of a body; raises NotStorable for data that JSON cannot express.

    Keys keep their order, so that a dict written into a plan's text is the same after a crash.
    """
    if len(body) == 1 and "value" in body:  # most bodies; encoded by hand for speed
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
    """The data from a body's bytes; raises ValueError if they are not JSON."""
    if data.startswith(_TEXT) and data.count(b'"') == _QUOTES and b"\\" not in data and data.endswith(b'"}'):
        return {"value": data[len(_TEXT) : -2].decode("utf-8", "surrogatepass")}  # one text: fast path
    return json.loads(data.decode("utf-8", "surrogatepass"))


def decode_bodies(bodies: Sequence[bytes]) -> Iterator[Any] | None:
    """The data of many bodies, decoded at once; None if one of them is invalid.

    >>> list(decode_bodies([b'{"value":1}', b'{"value":"a"}']) or ())
    [{'value': 1}, {'value': 'a'}]
    """
    try:
        data = json.loads((b"[" + b",".join(bodies) + b"]").decode("utf-8", "surrogatepass"))
    except (ValueError, TypeError, RecursionError):
        return None
    return iter(data) if len(data) == len(bodies) else None


def encode_intent(key: str, tool: str | None) -> bytes:
    """The bytes of an intent in an entry: the call's key, and its tool, or null for a model's call.

    Raises UnicodeEncodeError for text that is not valid Unicode.
    """
    return f"{_quote(key)},{'null' if tool is None else _quote(tool)}".encode()


def decode_intents(data: bytes) -> list[tuple[str, str | None]]:
    """The intents from an entry's bytes; raises ValueError if they are malformed."""
    items: list[Any] = json.loads(data)
    return list(zip(items[::2], items[1::2], strict=True))


def decode_many_intents(of_entries: Sequence[bytes]) -> list[list[tuple[str, str | None]]]:
    """The intents of many entries, decoded at once; raises ValueError as `decode_intents` does.

    >>> decode_many_intents([b'["a.0.1","T"]', b'["b.0.1",null,"c.0.1","T"]'])
    [[('a.0.1', 'T')], [('b.0.1', None), ('c.0.1', 'T')]]
    """
    intents: list[list[Any]] = json.loads(b"[" + b",".join(of_entries) + b"]")
    if len(intents) != len(of_entries):
        raise ValueError("intents are a list of their own for each entry")
    return [list(zip(items[::2], items[1::2], strict=True)) for items in intents]


pack_numbers = Struct(">qqdd").pack
"""Seq, epoch, ts and mono of an event as bytes."""


def identify(run_id: str, head: Head) -> bytes:
    """The line of text that identifies an entry's event: run, type, item, attempt, key and step.

    Key and step are preceded by their lengths, so that the line is unambiguous. Raises UnicodeEncodeError for
    text that is not valid Unicode.
    """
    _, _, kind, key, step, index, attempt, _, _ = head
    if key is not None and step is not None:
        return f"{run_id} {kind} {index} {attempt} {len(key)} {len(step)} {key}{step}".encode()
    return (
        f"{run_id} {kind} {index} {attempt}"
        f" {-1 if key is None else len(key)} {-1 if step is None else len(step)} {key}{step}"
    ).encode()


def link(prev: bytes, head: Head, digest: bytes, line: bytes, intents: bytes | None) -> bytes:
    """The hash of an entry: SHA-256 over the previous hash, the event and the intents.

    The event contributes four big-endian numbers (seq, epoch, ts, mono), its body's digest, and the line that
    identifies it.
    """
    return chained(prev, pack_numbers(head[0], head[1], head[7], head[8]), digest, line, intents)


def chained(prev: bytes, numbers: bytes, digest: bytes, line: bytes, intents: bytes | None) -> bytes:
    """As `link`, with the numbers as `pack_numbers` gives them."""
    if intents is None:
        return sha256(b"".join((prev, numbers, digest, line))).digest()
    return sha256(b"".join((prev, numbers, digest, line, b"\n", intents))).digest()
