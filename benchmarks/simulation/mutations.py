"""Planted bugs in store, driver and gateway, each with a seed that finds it.

A mutation replaces a function of callsheet while seeds run. Some are of the kind that power failures alone
show, some need two owners, some only a kill at the right point.
"""

# pyright: reportPrivateUsage=false, reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.simulation import course
from benchmarks.simulation.watching import replaced

from callsheet.ir import Effect
from callsheet.ir.labels import LITERAL
from callsheet.machine import Decided, Decision, Failed, Succeeded, TookPlace
from callsheet.machine.budget import Budget
from callsheet.ports.calls import CallContext
from callsheet.runtime import asking, doubt, driving, recording, runs
from callsheet.runtime.gateway import Gateway
from callsheet.runtime.recording import JournalRecorder
from callsheet.store import blobs, connections, inserts, ledger, mailbox, schema, tail, writer
from callsheet.store.folded import Folded
from callsheet.store.ledger import Ledger
from callsheet.store.lock import RunLock
from callsheet.store.pending import Pending
from callsheet.store.start import Start
from callsheet.store.tail import Tail
from callsheet.store.writer import RunWriter


class Mutation(NamedTuple):
    """A planted bug: what it is, the first seed that finds it, and the changes that plant it."""

    name: str
    seed: int
    changes: Callable[[], list[tuple[Any, str, Any]]]

    @contextmanager
    def planted(self) -> Generator[None]:
        """While inside, callsheet has the bug."""
        with replaced(*self.changes()):
            yield


MUTATIONS: list[Mutation] = []


def _plant(name: str, seed: int) -> Callable[[Callable[[], list[tuple[Any, str, Any]]]], object]:
    def add(changes: Callable[[], list[tuple[Any, str, Any]]]) -> object:
        MUTATIONS.append(Mutation(name, seed, changes))
        return changes

    return add


def _nothing(*_: Any, **__: Any) -> None:
    return None


# ---------------------------------------------------------------- the store: what is synced, and when


@_plant("a synced tail is not synced after an entry", 108)
def _() -> Any:
    def append(self: Any, number: int, rows: Any, lines: Any) -> bool:
        system = tail.os

        class Unsynced:
            def __getattr__(self, name: str) -> Any:
                return _nothing if name == "fdatasync" else getattr(system, name)

        with replaced((tail, "os", Unsynced())):
            return real(self, number, rows, lines)

    real = Tail.append
    return [(Tail, "append", append)]


@_plant("the zeros of a new synced tail are not synced, nor is its name", 108)
def _() -> Any:
    return [(tail, "_zeroed", lambda folder, fd: tail._write(fd, bytes(tail.SYNCED_BYTES), 0))]


@_plant("the folder of a new synced tail is not synced", 108)
def _() -> Any:
    return [(tail, "sync_folder", _nothing)]


@_plant("commits of the database are not synced", 6)
def _() -> Any:
    real = connections.connect_writing
    return [(connections, "connect_writing", lambda path, _: _unsynced(real(path, schema.Durability.NORMAL)))]


def _unsynced(connection: Any) -> Any:
    if connection.kernel is not None:
        connection.kernel.disk.commits_are_synced = False
    return connection


@_plant("a large value's file is written after the event that names it", 15)
def _() -> Any:
    def write(self: Any, dues: Any) -> Any:
        files_, late = self._files, []

        class Later:
            has = staticmethod(lambda name: True)
            write = staticmethod(lambda name, data: late.append((name, data)))

        self._files = Later()
        try:
            done = real(self, dues)
        finally:
            self._files = files_
        for name, data in late:
            files_.write(name, data)
        return done

    real = Ledger._write
    return [(Ledger, "_write", write)]


@_plant("a large value's file is not synced before it gets its name", 6)
def _() -> Any:
    real = blobs._write_all
    return [(blobs, "_write_all", lambda path, data, *, sync: real(path, data, sync=False))]


@_plant("the folder of a large value's file is not synced", 199)
def _() -> Any:
    return [(blobs, "sync_folder", _nothing)]


@_plant("a large value's file is written under its name at once", 108)
def _() -> Any:
    def write(folder: Path, name: str, data: bytes, **options: Any) -> None:
        path = blobs.blob_path(folder, name)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.exists():
            blobs._write_all(path, data, sync=options["sync"])

    return [(blobs, "write_blob_file", write)]


@_plant("the tail is cleared before its entries are in the database", 2)
def _() -> Any:
    def fold(self: Any) -> None:
        if self._tail is not None:
            self._tail.clear()
        real(self)

    real = Ledger._fold
    return [(Ledger, "_fold", fold)]


@_plant("a dead process's tail is removed without its entries being moved", 2)
def _() -> Any:
    return [(ledger, "insert_left", _nothing)]


@_plant("whoever takes over a run reads no tails", 2)
def _() -> Any:
    return [(Ledger, "_bring_in_left", _nothing), (Ledger, "_waiting_elsewhere", lambda *_: [])]


@_plant("whoever takes over a run does not read the tails of living processes", 301)
def _() -> Any:
    return [(Ledger, "_waiting_elsewhere", lambda *_: [])]


@_plant("entries of a tail are taken without a look at their hashes", 437)
def _() -> Any:
    return [(inserts, "fits", lambda run_id, prev, expected, row: row[0] == expected)]


@_plant("entries of a tail are taken in any epoch", 298)
def _() -> Any:
    def insert_left(cursor: Any, entries: Any) -> None:
        kept = []
        for entry in entries:
            row = cursor.execute("SELECT epoch FROM runs WHERE number = ?", (entry.number,)).fetchone()
            kept.append(entry._replace(row=(entry.row[0], row[0] if row else 0, *entry.row[2:])))
        real(cursor, kept)

    real = inserts.insert_left
    return [(ledger, "insert_left", insert_left), (inserts, "fits", lambda run_id, prev, expected, row: True)]


@_plant("an owner does not notice that its lock file is gone", 100)
def _() -> Any:
    return [(RunLock, "is_named", lambda self: True)]


@_plant("an owner looks for its lock file before it writes to its tail, not after", 258)
def _() -> Any:
    def write_own(self: Any, pending: Any, lock: Any) -> bool:
        named = real_named(lock)
        with replaced((RunLock, "is_named", lambda _: named)):
            return real(self, pending, lock)

    real, real_named = Ledger.write_own, RunLock.is_named
    return [(Ledger, "write_own", write_own)]


@_plant("a process whose lock file is gone takes over a run nevertheless", 157)
def _() -> Any:
    return [(RunLock, "require_name", _nothing)]


@_plant("the owner's epoch is not checked, and rows of another owner are overwritten", 3)
def _() -> Any:
    def plain_insert(number: int, epoch: int, rows: Any) -> Any:
        statement, values = real(number, epoch, rows)
        statement = statement.replace("INSERT INTO", "INSERT OR REPLACE INTO")
        return statement.replace(
            "WHERE (SELECT epoch FROM runs WHERE number = ?) = ?", "WHERE ? IS NOT ?"
        ), values

    def update_run(cursor: Any, number: int, epoch: int, portion: Any, now: float) -> bool:
        (found,) = cursor.execute("SELECT epoch FROM runs WHERE number = ?", (number,)).fetchone()
        return update(cursor, number, found, portion, now)

    real, update = inserts.plain_insert, inserts._update_run
    return [
        (ledger, "plain_insert", plain_insert),
        (inserts, "_is_ours", lambda *_: True),
        (inserts, "_update_run", update_run),
        (inserts, "_INSERT_EVENT", inserts._INSERT_EVENT.replace("INSERT INTO", "INSERT OR REPLACE INTO")),
    ]


@_plant("taking over a run does not raise its epoch", 161)
def _() -> Any:
    class Same:
        def __init__(self, cursor: Any) -> None:
            self._cursor = cursor

        def __getattr__(self, name: str) -> Any:
            return getattr(self._cursor, name)

        def execute(self, statement: str, values: Any = ()) -> Any:
            return self._cursor.execute(statement.replace("epoch = epoch + 1", "epoch = epoch"), values)

    def transact(self: Any, work: Any) -> Any:
        return real(self, lambda cursor: work(Same(cursor)))

    real = connections.WriteConnection.transact
    return [(connections.WriteConnection, "transact", transact)]


@_plant("a run is taken over without its lock", 5)
def _() -> Any:
    def take(self: Any, run_id: str) -> int:
        return tail.os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    return [(RunLock, "_take", take)]


@_plant("a failed write is taken for a success", 29)
def _() -> Any:
    def write(self: Any, dues: Any) -> Any:
        errors = real(self, dues)
        for pending, portion in dues:
            if pending.rows[: len(portion.rows)] == portion.rows and portion.rows:
                pending.written(portion, pending.number)
        return [None for _ in errors]

    real = Ledger._write
    return [(Ledger, "_write", write)]


@_plant("a group commit answers before it has written", 13)
def _() -> Any:
    def _write(self: Any, turns: Any) -> None:
        for turn in turns:
            turn.loop.call_soon(writer._answer, [(request.done, None) for request in turn.requests])
        turns[0].loop.call_later(0.02, lambda: real(self, turns))

    real = writer.GroupWriter._write
    return [(writer.GroupWriter, "_write", _write)]


@_plant("an answer is not taken from the inbox in the transaction of its event", 1)
def _() -> Any:
    return [(mailbox, "TAKE", "UPDATE inbox SET payload = payload WHERE run_id = ? AND msg_id = ?")]


@_plant("an answer is taken from the inbox when it is read", 1)
def _() -> Any:
    def find(ask: Any, posed: Any, messages: Any, now: float) -> Any:
        found = real(ask, posed, messages, now)
        return found if found is None or len(messages) != 1 else None

    real = asking.find_answer
    return [(asking, "find_answer", find)]


# ---------------------------------------------------------------- the driver


@_plant("calls leave before their intent is durable", 2)
def _() -> Any:
    def commit(self: Any, is_idle: bool = True) -> Any:
        loop = asyncio.get_running_loop()
        loop.call_later(0.01, _quietly(lambda: real(self, True)))

    real = JournalRecorder.commit
    return [(JournalRecorder, "commit", commit)]


def _quietly(work: Callable[[], Any]) -> Callable[[], None]:
    kept: list[Any] = []

    def call() -> None:
        try:
            done = work()
        except (ValueError, OSError):
            return
        if done is not None:
            kept.append(asyncio.ensure_future(done))

    return call


@_plant("the intent of a call is not recorded", 2)
def _() -> Any:
    def intend(self: Any, key: str, tool: str | None) -> int:
        return self.last_seq if tool == "WRITE" else real(self, key, tool)

    real = RunWriter.intend
    return [(RunWriter, "intend", intend)]


@_plant("an outcome is recorded only with the event after it", 2)
def _() -> Any:
    held: dict[int, Any] = {}

    def event(self: Any, one: Any) -> Any:
        before = held.pop(id(self), None)
        if before is not None:
            real(self, before)
        if isinstance(one, Succeeded):
            held[id(self)] = one
            return one
        return real(self, one)

    real = JournalRecorder.event
    return [(JournalRecorder, "event", event)]


@_plant("a failure is recorded as a success without a value", 2)
def _() -> Any:
    def note(self: Any, one: Any) -> None:
        real(self, Succeeded(one.key, None) if type(one) is Failed else one)

    real = JournalRecorder._note
    return [(JournalRecorder, "_note", note)]


@_plant("calls in doubt are made again on resumption", 31)
def _() -> Any:
    return [(Folded, "in_doubt", lambda self: {})]


@_plant("calls in doubt count as failed on resumption", 14)
def _() -> Any:
    def settle(folded_: Any, recorder: Any, verdict: Any) -> None:
        for key in [*folded_.in_doubt()]:
            folded_.feed(recorder.event(Decided(key, Decision.FAIL)))

    return [(runs, "settle_doubts", settle)]


@_plant("a probe that says no counts as a yes", 31)
def _() -> Any:
    async def probed(self: Any, route: Any, args: Any, context: Any) -> Any:
        found = await real(self, route, args, context)
        return TookPlace(None) if found is False else found

    real = Gateway._probed
    return [(Gateway, "_probed", probed)]


@_plant("a probe is not asked: the call is made again", 31)
def _() -> Any:
    async def probed(self: Any, route: Any, args: Any, context: Any) -> Any:
        return False

    return [(Gateway, "_probed", probed)]


@_plant("a decision of a person is not committed before the run goes on", 2)
def _() -> Any:
    def decide(journal: Any, run_id: str, names: Any, verdict: Any, **options: Any) -> Any:
        with replaced((RunWriter, "commit", lambda self: False)):
            return real(journal, run_id, names, verdict, **options)

    real = doubt.decide_calls
    return [(course, "decide_calls", decide), (course, "_MOST_ROUNDS", 300)]  # it would not end


@_plant("the end of a run is not recorded, only its status", 1)
def _() -> Any:
    def append(self: Any, kind: Any, *rest: Any) -> int:
        return self.last_seq if kind == "end" else real(self, kind, *rest)

    real = Pending.append
    return [(Pending, "append", append)]


@_plant("a snapshot says that all calls under way have not left", 504)
def _() -> Any:
    def body_of(machine: Any, side_record: Any, seconds: float) -> Any:
        launched = dict(side_record.launched)
        side_record.launched.clear()
        try:
            return real(machine, side_record, seconds)
        finally:
            side_record.launched.update(launched)

    real = recording.body_of
    return [(recording, "body_of", body_of)]


@_plant("a snapshot forgets what the run has used", 20)
def _() -> Any:
    real = Budget.counts
    return [(Budget, "counts", lambda self: {**real(self), "calls": {}})]


@_plant("a resumed run has its budget again", 20)
def _() -> Any:
    def state(*given: Any, **options: Any) -> Any:
        made = real(*given, **options)
        made.machine.budget.calls.clear()
        made.machine.budget.ahead = 1_000
        return made

    real = runs.verified_state
    return [(runs, "verified_state", state)]


@_plant("the remaining commands of a resumed run are sent twice", 3)
def _() -> Any:
    async def drive(options: Any, folded_: Any, commands: Any, *rest: Any) -> Any:
        return await real(options, folded_, [*commands, *commands[:1]], *rest)

    real = driving.drive
    return [(runs, "drive", drive)]


@_plant("a resumed run is under no policy", 13)
def _() -> Any:
    real = Start.from_json
    return [(Start, "from_json", classmethod(lambda _, body: real(body)._replace(policy=None)))]


@_plant("results of a resumed run are trusted and public", 233)
def _() -> Any:
    def from_json(_: Any, body: Any) -> Start:
        found = start_from(body)
        if found.policy is None:
            return found
        tools = {name: replace(rule, returns=LITERAL) for name, rule in found.policy.tools.items()}
        return found._replace(policy=replace(found.policy, tools=tools))

    start_from = Start.from_json
    return [(Start, "from_json", classmethod(from_json))]


# ---------------------------------------------------------------- the gateway


@_plant("the idempotency key differs with each delivery", 2)
def _() -> Any:
    def key(self: Any) -> str:
        count[0] += 1
        return sha256(f"{self.run_id}/{self.key}/{count[0]}".encode()).hexdigest()

    count = [0]
    return [(CallContext, "idempotency_key", property(key))]


@_plant("the idempotency key of a call that is made again has the attempt in it", 435)
def _() -> Any:
    def key(self: Any) -> str:
        return sha256(f"{self.run_id}/{self.key}".encode()).hexdigest()

    return [(CallContext, "idempotency_key", property(key))]


@_plant("the idempotency key is the same for all items of a loop", 2)
def _() -> Any:
    def key(self: Any) -> str:
        command = self._command
        delivery = getattr(command, "delivery", "") or self.key
        return sha256(f"{self.run_id}/{delivery.split('[')[0].split('.')[0]}".encode()).hexdigest()

    return [(CallContext, "idempotency_key", property(key))]


@_plant("unsafe tools count as idempotent", 36)
def _() -> Any:
    def effect_of(self: Any, command: Any) -> Effect:
        found = real(self, command)
        return Effect.IDEMPOTENT if found is Effect.UNSAFE else found

    real = Folded.effect_of
    return [(Folded, "effect_of", effect_of)]


@_plant("a call is sent twice when its answer takes long", 10)
def _() -> Any:
    async def carry_out(self: Any, command: Any) -> Any:
        if type(command).__name__ != "CallTool":
            return await real(self, command)
        first = asyncio.ensure_future(real(self, command))
        await asyncio.wait({first}, timeout=1.0)
        return await (first if first.done() else real(self, command))

    real = Gateway.carry_out
    return [(Gateway, "carry_out", carry_out)]
