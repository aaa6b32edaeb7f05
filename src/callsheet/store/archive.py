"""Exports runs to one file and imports them: the file has all that is needed to show, verify or resume them.

The file is JSON Lines. Each run starts with `{"callsheet": "run", "version": 1, "run": {…}}`, its row, and
ends with `{"end": {"entries": n, "sha256": …}}`, the digest of the lines before it. Between them are its
plans, large values and entries as they are stored, plans and large values before the entries that refer to
them. Bytes are text if they are UTF-8, else `{"base64": …}`. A run that left labelled files or facts is
followed by `{"callsheet": "labels", "run": id, "labels": [[root, name, label], …]}`.

An import verifies digests, plans, values and the whole chain before it commits anything.
"""

from __future__ import annotations

import json
import sqlite3
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from itertools import chain
from math import isfinite
from typing import Any, NamedTuple, TypeAlias, cast

from callsheet.machine.keys import MACHINE_VERSION, parse_key
from callsheet.store.blobs import CODEC, DROPPED, ROW_LIMIT, BlobDropped, read_blob, write_blob_file
from callsheet.store.chain import verify
from callsheet.store.errors import JournalError
from callsheet.store.events import GENESIS, Event, EventType, decode_body, decode_intents
from callsheet.store.journal import Parts
from callsheet.store.journal_paths import check_run_id, may_begin_run_id
from callsheet.store.label_transfer import KIND, lines_of_labels, read_labels, take_labels
from callsheet.store.labels import Noted
from callsheet.store.reader import Reader
from callsheet.store.records import PlanOf, recorded_event
from callsheet.store.schema import SEQ_BITS
from callsheet.store.writer import RunStatus

_LATEST = 253_402_300_799.0
"""The last second of the year 9999, since 1970."""
_MOST = 2**53
_TIMES = frozenset({"created", "updated", "ts", "wake_at"})
_NUMBERS = frozenset({"epoch", "covers", "ir_version", "forked_at", "idx", "attempt"})
_TEXTS = frozenset({"status", "type", "plan_hash", "core_version", "key", "step", "id", "title", "blob"})
_BYTES = frozenset({"body", "source", "intents", "hash"})
_NULLABLE = frozenset(
    {"wake_at", "forked_at", "idx", "attempt", "key", "step", "id", "title", "blob", "body", "intents"}
)


def check_row(row: Mapping[str, Any]) -> None:
    """Check the columns of a run, a plan or an entry; those that are not known here are left alone."""
    for name, value in row.items():
        if value is None and name in _NULLABLE:
            continue
        if not _fits(name, value):
            raise TypeError(f"{name} has the wrong type")


def _fits(name: str, value: Any) -> bool:
    """Whether a value is allowed in a column."""
    if name in _BYTES:
        return isinstance(value, bytes)
    if name in _TEXTS:
        return isinstance(value, str)
    if name in _NUMBERS:
        return type(value) is int and 0 <= value <= _MOST
    if name in _TIMES:
        return type(value) in (int, float) and 0 <= value <= _LATEST
    if name == "parent_run":
        return value is None or (isinstance(value, str) and may_begin_run_id(value))
    return name != "mono" or (type(value) in (int, float) and isfinite(value))


def check_events(events: Iterable[Event], plan_of: PlanOf, *, is_of_this_version: bool) -> None:
    """Check that each event can be read, and that the plans that events name are there.

    Bodies that were dropped are not looked at; of runs of another version of the machine only the start is.
    """
    for event in events:
        body = cast("object", event.body)
        if body is not None and not isinstance(body, dict):
            raise TypeError(f"the body of event {event.seq} is not an object")
        if event.type.is_of_call:
            parse_key(event.key or "")
        if event.type is EventType.START:
            _check_start(event)
        if is_of_this_version and not _is_dropped(event):
            recorded_event(event, plan_of)
        elif event.type is EventType.PLAN and not _is_dropped(event):
            plan_of((event.body or {})["plan"])


def _is_dropped(event: Event) -> bool:
    """Whether the body of an event was dropped to save space."""
    return event.body is not None and event.body.keys() == {"dropped"}


def _check_start(event: Event) -> None:
    """Check the tables of a start, which other commands read without the rest."""
    body = event.body or {}
    if event.seq != 1:
        raise ValueError("a run has one start")
    for name in ("inputs", "facts", "limits", "pins", "launch"):
        if not isinstance(body[name], dict):
            raise TypeError(f"{name} of the start is not an object")


VERSION = 1
_RUN = ("run_id", "parent_run", "forked_at", "plan_hash", "core_version", "status", "epoch", "wake_at",
        "created", "updated")  # fmt: skip
_ENTRY = ("epoch", "type", "key", "step", "idx", "attempt", "ts", "mono", "body", "blob", "covers", "intents",
          "hash")  # fmt: skip
_PLAN = ("plan_hash", "ir_version", "id", "title", "body", "source", "created")

Row: TypeAlias = "tuple[Any, ...]"


class Imported(NamedTuple):
    """A run that was imported; `events` is its number of events."""

    run_id: str
    status: RunStatus
    events: int


# ---------------------------------------------------------------- export


class Source(NamedTuple):
    """A run to export: its row by column name, and its entries with their sequence numbers."""

    run: Mapping[str, Any]
    entries: Iterable[tuple[int, Row]]


def export_run(parts: Parts, run_id: str) -> Iterator[bytes]:
    """The lines of a run whose chain is intact, each with its line feed.

    Raises JournalError: JRN002 for an unknown run, JRN012 for a damaged one.
    """
    reader = parts.reader
    bad = verify(reader, run_id)
    if bad is not None:
        raise JournalError(
            "JRN012",
            f"run {run_id} is damaged at event {bad.seq}: {bad.why}",
            hint=f"`callsheet runs salvage {run_id}` exports the events before it",
        )
    number, run = run_row(reader, run_id)
    lines = lines_of(parts, Source(run, entries_of(reader, number)))
    return chain(lines, lines_of_labels(parts.place.database, run_id))


def run_row(reader: Reader, run_id: str) -> tuple[int, dict[str, Any]]:
    """The number of a run and its row by column name; raises JournalError (JRN002)."""
    rows = reader.select(f"SELECT number, {', '.join(_RUN)} FROM runs WHERE run_id = ?", (run_id,))
    if not rows:
        raise reader.runs.unknown(run_id)
    ((number, *values),) = rows
    return number, dict(zip(_RUN, values, strict=True))


def entries_of(reader: Reader, number: int, page: int = 500) -> Iterator[tuple[int, Row]]:
    """The stored entries of a run with their sequence numbers, read `page` rows at a time."""
    base = number << SEQ_BITS
    after, end = base, base + (1 << SEQ_BITS)
    columns = ", ".join(_ENTRY)
    while rows := reader.select(
        f"SELECT id, {columns} FROM events WHERE id > ? AND id < ? ORDER BY id LIMIT ?", (after, end, page)
    ):
        for row_id, *values in rows:
            yield row_id - base, tuple(values)
        after = rows[-1][0]


def lines_of(parts: Parts, source: Source) -> Iterator[bytes]:
    """The lines of a run with these entries; large values come before the entries that refer to them."""
    digest, entries = sha256(), 0
    written, plans = set[str](), {source.run["plan_hash"]}

    def line(**fields: Any) -> bytes:
        data = json.dumps(fields, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"
        digest.update(data)
        return data

    yield line(callsheet="run", version=VERSION, run=dict(source.run))
    yield line(plan=_plan_row(parts.reader, source.run["plan_hash"]))
    for seq, row in source.entries:
        entry = dict(zip(_ENTRY, row, strict=True))
        name = entry["blob"]
        if name is not None and name not in written:
            written.add(name)
            yield line(value=_value_row(parts, name))
        if entry["type"] == EventType.PLAN and entry["body"] is not None:
            plan = decode_body(entry["body"])["plan"]
            if plan not in plans:
                plans.add(plan)
                yield line(plan=_plan_row(parts.reader, plan))
        entry |= {
            "body": _to_json(entry["body"]),
            "intents": _to_json(entry["intents"]),
            "hash": entry["hash"].hex(),
        }
        yield line(seq=seq, entry=entry)
        entries += 1
    yield json.dumps({"end": {"entries": entries, "sha256": digest.hexdigest()}}).encode() + b"\n"


def _plan_row(reader: Reader, name: str) -> dict[str, Any]:
    rows = reader.select(f"SELECT {', '.join(_PLAN)} FROM plans WHERE plan_hash = ?", (name,))
    if not rows:
        raise JournalError("JRN014", f"there is no plan {name[:12]} in this journal")
    row = dict(zip(_PLAN, rows[0], strict=True))
    return row | {"body": _to_json(row["body"]), "source": _to_json(row["source"])}


def _value_row(parts: Parts, name: str) -> dict[str, Any]:
    try:
        with parts.reader.reading() as connection:
            data = read_blob(connection, parts.place.blobs, name)
    except BlobDropped as dropped:
        return {"sha256": name, "size": dropped.size, "dropped": True}
    return {"sha256": name, "size": len(data), "data": _to_json(data)}


def _to_json(data: bytes | None) -> Any:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode()}


def _from_json(data: Any) -> bytes | None:
    if data is None:
        return None
    return data.encode() if isinstance(data, str) else b64decode(data["base64"], validate=True)


# ---------------------------------------------------------------- import


def import_runs(parts: Parts, lines: Iterable[bytes]) -> list[Imported]:
    """Import the runs of a file into the journal, all of them or none.

    Raises JournalError: JRN016 if the file is damaged or not an export, JRN003 if a run exists already,
    JRN017 if the journal cannot be written.
    """

    def work(cursor: sqlite3.Cursor) -> list[Imported]:
        taken: list[Imported] = []
        labels: list[tuple[str, list[Noted]]] = []
        intake: _Intake | None = None
        for number, data in enumerate(lines, 1):
            try:
                if intake is None and taken and (head := _object(data)).get("callsheet") == KIND:
                    labels.append(read_labels(head))
                elif intake is None:
                    intake = _Intake(parts, cursor, data)
                elif intake.add_line(data):
                    taken.append(intake.end())
                    intake = None
            except (KeyError, TypeError, ValueError, AttributeError, OverflowError, sqlite3.Error) as error:
                raise _damaged(f"line {number} cannot be read: {_reason(error)}"[:300]) from error
        if intake is not None:
            raise _damaged("it ends in the middle of a run")
        if not taken:
            raise _damaged("it contains no run")
        take_labels(parts.place.database, labels)  # before the runs are committed
        return taken

    return parts.ledger.maintain(work)


class _Intake:
    """Imports one run within a transaction, which is rolled back if anything is wrong."""

    def __init__(self, parts: Parts, cursor: sqlite3.Cursor, data: bytes) -> None:
        head = _object(data)
        if head.get("callsheet") != "run" or head.get("version") != VERSION:
            raise ValueError(f"it is not an export of a run in version {VERSION}")
        self._parts, self._cursor = parts, cursor
        self._digest = sha256(data)
        self._entries = self._last = 0
        self._hash = GENESIS
        run = {name: head["run"][name] for name in _RUN}
        check_row(run)
        RunStatus(run["status"])
        self._run_id: str = check_run_id(run["run_id"])
        if cursor.execute("SELECT 1 FROM runs WHERE run_id = ?", (self._run_id,)).fetchone():
            raise JournalError(
                "JRN003",
                f"this journal already has a run {self._run_id}",
                hint="import the file into another journal: --journal PATH",
            )
        self._run = run
        self._base = 0

    def add_line(self, data: bytes) -> bool:
        """Take a line; returns whether it was the last of the run."""
        row = _object(data)
        if "end" in row:
            if row["end"] != {"entries": self._entries, "sha256": self._digest.hexdigest()}:
                raise _damaged(f"run {self._run_id} is not what was exported")
            return True
        self._digest.update(data)
        if "plan" in row:
            self._take_plan(row["plan"])
        elif "value" in row:
            self._take_value(row["value"])
        else:
            self._take_entry(row["seq"], row["entry"])
        return False

    def end(self) -> Imported:
        """Verify the run as it is in the database now."""
        if not self._base:
            raise ValueError("a run without a plan")
        self._cursor.execute(
            "UPDATE runs SET head_seq = ?, head_hash = ? WHERE run_id = ?",
            (self._last, self._hash, self._run_id),
        )
        reader = Reader(self._parts.place, self._cursor.connection)
        bad = verify(reader, self._run_id)
        if bad is not None:
            raise _damaged(f"run {self._run_id} is damaged at event {bad.seq}: {bad.why}")
        reader.plan(self._run["plan_hash"])
        is_ours = self._run["core_version"] in ("", MACHINE_VERSION)
        check_events(reader.events(self._run_id, lenient=True), reader.plan_of, is_of_this_version=is_ours)
        return Imported(self._run_id, RunStatus(self._run["status"]), self._last)

    def _take_plan(self, data: dict[str, Any]) -> None:
        row = {name: data[name] for name in _PLAN}
        row |= {"body": _from_json(row["body"]), "source": _from_json(row["source"])}
        check_row(row)
        if sha256(row["body"]).hexdigest() != row["plan_hash"]:
            raise ValueError("a plan does not match its hash")
        self._cursor.execute(
            f"INSERT OR IGNORE INTO plans ({', '.join(_PLAN)}) VALUES (?, ?, ?, ?, ?, ?, ?)",
            tuple(row.values()),
        )
        if row["plan_hash"] == self._run["plan_hash"] and not self._base:
            marks = ", ".join("?" * len(_RUN))
            self._cursor.execute(
                f"INSERT INTO runs ({', '.join(_RUN)}) VALUES ({marks})", tuple(self._run.values())
            )
            assert self._cursor.lastrowid is not None, "an INSERT gives a row id"
            self._base = self._cursor.lastrowid << SEQ_BITS

    def _take_value(self, row: dict[str, Any]) -> None:
        name, size = str(row["sha256"]), int(row["size"])
        if row.get("dropped") is True:
            if len(bytes.fromhex(name)) != len(GENESIS):
                raise ValueError("a large value without a hash")
            codec, data = DROPPED, None
        else:
            codec, data = CODEC, _from_json(row["data"])
            if data is None or sha256(data).hexdigest() != name or len(data) != size:
                raise ValueError("a large value does not match its hash")
            if len(data) > ROW_LIMIT:
                write_blob_file(self._parts.place.blobs, name, data, sync=True)
                data = None
        self._cursor.execute(
            "INSERT INTO blobs (hash, size, codec, data, created) VALUES (?, ?, ?, ?, ?)"
            " ON CONFLICT (hash) DO UPDATE SET codec = excluded.codec, data = excluded.data"
            f" WHERE codec = '{DROPPED}'",
            (name, size, codec, data, self._parts.clock()),
        )

    def _take_entry(self, seq: int, data: dict[str, Any]) -> None:
        row = {name: data[name] for name in _ENTRY}
        row |= {
            "body": _from_json(row["body"]),
            "intents": _from_json(row["intents"]),
            "hash": bytes.fromhex(row["hash"]),
        }
        check_row(row)
        if not self._base or seq != self._last + 1 or not 0 < seq < 1 << SEQ_BITS:
            raise ValueError(f"event {seq} follows event {self._last}")
        if row["intents"] is not None:
            decode_intents(row["intents"])
        self._cursor.execute(
            f"INSERT INTO events (id, {', '.join(_ENTRY)}) VALUES ({', '.join('?' * (len(_ENTRY) + 1))})",
            (self._base + seq, *row.values()),
        )
        self._entries += 1
        self._last, self._hash = seq + row["covers"] - 1, row["hash"]


def _object(data: bytes) -> dict[str, Any]:
    try:
        parsed: Any = json.loads(data)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    if not isinstance(parsed, dict):
        raise TypeError("it is not an object")
    return cast("dict[str, Any]", parsed)


def _reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return "it is not JSON"
    if isinstance(error, KeyError):
        return f"it has no {error}"
    return str(error) or type(error).__name__


def _damaged(why: str) -> JournalError:
    return JournalError(
        "JRN016",
        f"this is not a complete export of runs: {why}",
        hint="export the runs again; nothing was imported",
    )
