"""An event of a run, its bytes, and the hash chain through a run's events.

Each event's hash covers the one before it and everything the event says; a large body is
covered through its own hash, so that it can be dropped and the chain still be checked.
Pure: no database, no clock.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from struct import Struct
from typing import Any, TypeAlias, cast

from callsheet.store.errors import NotStorable

GENESIS = bytes(32)
"""What the first event of a run follows."""

_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode
_quote = json.encoder.encode_basestring
_LARGE = 1 << 62

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
    IN_DOUBT = "in_doubt"
    DECIDED = "decided"
    TIMER = "timer"
    FIRED = "fired"
    SIGNAL = "signal"
    PLAN = "plan"
    CANCEL = "cancel"
    SNAPSHOT = "snapshot"
    END = "end"


@dataclass(frozen=True, slots=True)
class Event:
    """One event as it stands in the journal.

    `seq` counts from 1 without gaps and alone decides the order; `ts` is wall time in seconds
    since 1970, `mono` the writing process's monotonic clock. `body` is the event's data, large
    ones included. `epoch` says which owner of the run wrote it.
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


def encode_body(what: str, body: Mapping[str, Any]) -> bytes:
    """The bytes of a body; raises NotStorable for what JSON cannot say.

    Keys keep their order: the text of a dict inside a plan's texts is the same after a crash.
    """
    if len(body) == 1:
        ((name, value),) = body.items()
        kind = cast("type[Any]", type(value))
        if kind is str:  # most bodies are one name with a text or a number: written by hand
            return f"{{{_quote(name)}:{_quote(value)}}}".encode("utf-8", "surrogatepass")
        if kind is int and -_LARGE < value < _LARGE:
            return f"{{{_quote(name)}:{value}}}".encode("utf-8", "surrogatepass")
    try:
        return _encode(body if isinstance(body, dict) else dict(body)).encode("utf-8", "surrogatepass")
    except (ValueError, TypeError, RecursionError) as error:
        raise NotStorable(what, str(error)) from error


def decode_body(data: bytes) -> Any:
    """The data of a body's bytes; raises ValueError if they are not JSON."""
    return json.loads(data.decode("utf-8", "surrogatepass"))


_pack = Struct(">qqdd").pack


def link(prev: bytes, run_id: str, head: Head, digest: bytes) -> bytes:
    """The hash of an event: SHA-256 over the hash before it, its fields, its body's digest.

    The fields are four big-endian numbers (seq, epoch, ts, mono) and a line of text, in which
    the free texts carry their lengths: no two events have the same fields.
    """
    seq, epoch, kind, key, step, index, attempt, ts, mono = head
    line = (
        f"{run_id} {kind} {index} {attempt}"
        f" {-1 if key is None else len(key)} {-1 if step is None else len(step)} {key}{step}"
    )
    return sha256(b"%b%b%b%b" % (prev, _pack(seq, epoch, ts, mono), digest, line.encode())).digest()
