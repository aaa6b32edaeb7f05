"""The journal of all runs: open it, begin or take over a run, read its events.

One SQLite file on a local disk. A process has one connection that writes, made with the first run that it
owns, and one that reads.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from callsheet.diagnostics.wrong_type import wanted_path
from callsheet.ir import JSON, Plan
from callsheet.machine import Outcome
from callsheet.sealing.credentials import Shapes
from callsheet.sealing.keys import NotOpened
from callsheet.sealing.known import Known
from callsheet.sealing.masking import Finder
from callsheet.sealing.sealer import Path as Part
from callsheet.sealing.sealer import Sealer, WrongKey, is_sealed, names_in, rebound
from callsheet.store.chain import BadEvent, verify
from callsheet.store.connections import connect_to_look
from callsheet.store.decision_guides import DecisionGuides
from callsheet.store.errors import JournalError, closed, run_exists
from callsheet.store.events import GENESIS, Entry, Event, EventType, Stored
from callsheet.store.journal_paths import JournalPaths, check_run_id, place_of
from callsheet.store.ledger import Ledger
from callsheet.store.lock import RunLock, Spares
from callsheet.store.mailbox import Mailbox
from callsheet.store.pending import Pending, PlanRow, RunRow, plan_row
from callsheet.store.reader import Reader, Told, step_seconds
from callsheet.store.run_index import RunNames, names_of, no_secret_in
from callsheet.store.runs import RunInfo
from callsheet.store.schema import Durability, prepare
from callsheet.store.seal_keys import KeyStore, Unsealer, not_opened
from callsheet.store.writer import RunStatus, RunWriter

if TYPE_CHECKING:
    from callsheet.store.writer import GroupWriter


def _warn(text: str) -> None:
    import logging  # noqa: PLC0415 - not to read a journal

    logging.getLogger("callsheet").warning(text)


class Parts(NamedTuple):
    """The parts of a journal that maintenance works on: its files, and how to write and read it."""

    place: JournalPaths
    ledger: Ledger
    reader: Reader
    clock: Callable[[], float]


class Journal:
    """An open journal; made by `Journal.open`, used by the process that opened it."""

    def __init__(
        self,
        place: JournalPaths,
        durability: Durability,
        clock: Callable[[], float],
        monotonic: Callable[[], float],
        connection: sqlite3.Connection | None = None,
        keys: KeyStore | None = None,
        finder: Finder | None = None,
    ) -> None:
        self._keys = keys or KeyStore()
        self._finder = finder or Finder(shapes=Shapes())
        self._place = place
        self._durability = durability
        self._clock = clock
        self._monotonic = monotonic
        self._pid = os.getpid()
        self._owner = f"process {self._pid} on {os.uname().nodename}"
        self._ledger = Ledger(place, durability, clock, monotonic)
        self._names: dict[tuple[str, float], RunNames] = {}
        self._reader = Reader(place, connection, self._ledger.settle)
        self._spares = Spares(place.run_locks)
        self._owned: set[str] = set()
        self._last_plan: tuple[Plan, str, PlanRow] | None = None
        self._guides = DecisionGuides(self._reader, self.opener, lambda text: self.warn(text))  # noqa: PLW0108 - `warn` may be replaced
        self.warn: Callable[[str], None] = _warn
        """Called with one-line warnings for the user."""
        self.mailbox = Mailbox(self._ledger, self._reader, self._keys, self._sealer_of_messages)
        """Messages to its runs, such as answers from other processes."""
        self._group: GroupWriter | None = None
        self._group_mutex = threading.Lock()
        self._is_closed = False

    @classmethod
    def open(
        cls,
        path: Path,
        durability: Durability = Durability.FULL,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        keys: KeyStore | None = None,
        finder: Finder | None = None,
    ) -> Journal:
        """Open the journal at `path`; it and its folder are created if they do not exist.

        `clock` and `monotonic` give the times of events, in seconds; `keys` has those that secrets are
        sealed with, by default the user's; `finder` detects secrets in all runs, by default what looks like a
        credential. Raises JournalError JRN008 (another program's file), JRN009 (a newer format), JRN010 (the
        path cannot be written), JRN011 (a network file system) or JRN025 (another program has altered it);
        ValueError for a durability that there is not.
        """
        place, durability = place_of(wanted_path("path", path)), Durability(durability)
        return cls(place, durability, clock, monotonic, prepare(place), keys, finder)

    @classmethod
    def open_to_read(cls, path: Path) -> Journal:
        """Open the journal at `path` only to read it; the file may be read-only.

        Nothing is created. Raises JournalError JRN008 (another program's file), JRN009 (a newer format) or
        JRN010 (no file, or one that cannot be read).
        """
        place = place_of(wanted_path("path", path))
        connection = connect_to_look(place)
        return cls(place, Durability.FULL, time.time, time.monotonic, connection)

    @property
    def parts(self) -> Parts:
        """The parts of the journal, for maintenance."""
        return Parts(self._place, self._ledger, self._reader, self._clock)

    @property
    def path(self) -> Path:
        """The database file."""
        return self._place.database

    @property
    def durability(self) -> Durability:
        """Which failures a committed event survives."""
        return self._durability

    def create_run(
        self,
        run_id: str,
        plan: Plan,
        source: str,
        start: Mapping[str, Any],
        *,
        core_version: str = "",
        known: Known | None = None,
        secret: Mapping[Part, str] | None = None,
        at: float | None = None,
    ) -> RunWriter:
        """Begin a run and own it; it appears in the journal, with its `start` event, at the first commit.

        `source` is the text the plan was written as, `core_version` the version of the machine that runs it.
        `known` are secrets that are sealed wherever they occur in its events; `secret` are the parts of
        `start` that are secret as a whole, by path, each with the reason. `at` is the wall time at which the
        run began, if elsewhere. Raises JournalError: JRN001 for an invalid id, JRN003 if the run exists,
        JRN004 if another process is beginning it, SEC003 if something is secret and no key is available, or
        a tag contains a secret;
        NotStorable if `start` is not JSON data.
        """
        check_run_id(run_id)
        self._ledger.check_process()
        pending = Pending(run_id, number=0, epoch=1, last_seq=0, last_hash=GENESIS)
        pending.sealer = self._sealer(run_id, lambda: source)
        if known is not None:
            pending.sealer.know(known)
        row = self._plan_row(plan, source)
        names = names_of(plan, start, row.plan_hash)
        no_secret_in(names.tags, pending.sealer.finder)
        pending.plans.append(row)
        pending.run = RunRow(
            row.plan_hash,
            core_version,
            self._owner,
            self._clock() if at is None else at,
            *names,
            names.searched(run_id),
        )
        writer = self._writer(pending, self._lock(run_id))
        if at is not None:
            writer.date(at)
        try:
            if self._has_run(run_id):
                raise run_exists(run_id)
            writer.append(EventType.START, body=start, secret=secret)
        except BaseException:
            writer.close()
            raise
        return writer

    def claim(self, run_id: str) -> RunWriter:
        """Take over a run that no process owns, to continue it; the new epoch fences off its former owner.

        Raises JournalError: JRN001 for an invalid id, JRN002 if there is no such run, JRN004 if a process
        owns it; JournalWriteFailed if the journal cannot be written, or its disk is nearly full: calls whose
        outcome cannot be written would be made again.
        """
        check_run_id(run_id)
        self._ledger.check_process()
        if self._reader.runs.get(run_id) is None:
            raise self._reader.runs.unknown(run_id)
        lock = self._lock(run_id)
        try:
            self._ledger.require_room(run_id)
            pending = self._ledger.claim(run_id, self._owner, lock)
            if pending is None:
                raise self._reader.runs.unknown(run_id)
            pending.sealer = self._sealer(run_id, lambda: self.plan(self.find_run(run_id).plan_hash)[1])
        except BaseException:
            lock.close()
            raise
        return self._writer(pending, lock)

    def events(self, run_id: str, after: int = 0, *, lenient: bool = False) -> Iterator[Event]:
        """The durable events of a run after sequence number `after`, in order, with their whole bodies.

        With `lenient`, a body that was dropped is `{"dropped": bytes}`. Raises JournalError: JRN002 for an
        unknown run, JRN012 at an event that cannot be read, JRN015 at one that was dropped. From the first
        event with sealed parts on, events carry a guide, so that folding them takes the decisions that the
        run took although the secret values are missing.
        """
        return self._guides.events(run_id, self._reader.events(run_id, after, lenient=lenient))

    def declared(self, run_id: str) -> Known:
        """The secrets that a run was given, as far as they can be unsealed here."""
        opener = self.opener(run_id)
        try:
            next(opener.events(self._reader.events(run_id)), None)
        except JournalError:
            return Known()  # they cannot be known without the key; parts sealed as a whole stay sealed
        return opener.declared

    def question_events(self, run_id: str) -> list[Event]:
        """The events of a run about questions to people: `ask`, `signal`, and what ends or changes a run."""
        return self._reader.question_events(run_id)

    def runs(self, limit: int | None = None, status: RunStatus | Outcome | None = None) -> list[RunInfo]:
        """The runs, newest first, at most `limit`, only those of `status` if given: see `Runs.newest`."""
        return self._reader.runs.newest(limit, status)

    def runs_older(self, before: str | None = None) -> Iterator[RunInfo]:
        """The runs, newest first, from the one after the run `before` on if given; read as they are wanted.

        Raises JournalError (JRN002) for an unknown run.
        """
        return self._reader.runs.older(before)

    def names(self, run: RunInfo) -> RunNames:
        """What a run is called. Of runs that were stored without it, the first event is read, once.

        Raises JournalError (JRN012) if that or the plan cannot be read.
        """
        if run.name is not None:
            return RunNames(run.name, run.goal)
        key = run.run_id, run.created
        if key not in self._names:
            start = next(iter(self.events(run.run_id, lenient=True)), None)
            body = None if start is None else start.body
            self._names[key] = names_of(self.plan_of(run.plan_hash), body, run.plan_hash)
        return self._names[key]

    def infos(self, run_ids: Sequence[str]) -> list[RunInfo]:
        """The runs with these ids, in this order, without those that do not exist."""
        return self._reader.runs.infos(run_ids)

    def children(self, run_id: str) -> list[RunInfo]:
        """The runs that were forked from a run, oldest first."""
        return self._reader.runs.children_of(run_id)

    def runs_of_plan(self, limit: int, *, plan_hash: str = "", plan_id: str = "") -> list[RunInfo]:
        """The newest runs of the plan with this hash, or of all versions of the one with this id."""
        return self._reader.runs.of_plan(limit, plan_hash=plan_hash, plan_id=plan_id)

    def find_run(self, text: str) -> RunInfo:
        """The run with this id or unambiguous prefix of an id; for `last`, the newest run.

        Raises JournalError (JRN002), with the nearest ids, if there is none or more than one.
        """
        return self._reader.runs.find(text)

    def plan(self, plan_hash: str) -> tuple[Plan, str]:
        """A stored plan and the text it was written as.

        Raises JournalError: JRN014 if there is none, JRN012 if it is not what was written.
        """
        return self._reader.plan(plan_hash)

    def plan_of(self, plan_hash: str) -> Plan:
        """A stored plan by its hash; raises as `plan` does."""
        return self._reader.plan_of(plan_hash)

    def step_seconds(self, plan_hash: str) -> dict[str, float]:
        """How many seconds the steps of a plan took in its last run that is done; empty if there is none."""
        return step_seconds(self._reader, plan_hash)

    def verify(self, run_id: str, start: int = 1) -> BadEvent | None:
        """The first event of a run that is missing or changed, or None if its hash chain is intact.

        Of the events before `start` only the first is checked. Raises JournalError (JRN002) for an unknown
        run.
        """
        return verify(self._reader, run_id, start)

    def entries(self, run_id: str, after: int = 0) -> Iterator[Entry]:
        """The entries of a run after sequence number `after`, in order, guided as `events` are.

        An entry is an event with the intents committed with it. Raises as `events` does.
        """
        return self._guides.entries(run_id, self._reader.entries(run_id, after))

    def external_events(self, run_id: str) -> tuple[list[int], list[Told]]:
        """What came into a run from outside after its start, as stored, and the numbers of those events."""
        return self._reader.external_events(run_id)

    def last_snapshot(self, run_id: str, upto: int | None = None) -> int | None:
        """The number of the run's last snapshot, of those up to event `upto` if given.

        Raises JournalError (JRN002) for an unknown run.
        """
        return self._reader.last_snapshot(run_id, upto)

    def last_outcome(self, run_id: str, steps: Sequence[str]) -> int | None:
        """The number of the last event with an outcome for one of these steps, by id.

        Raises JournalError (JRN002) for an unknown run.
        """
        return self._reader.last_outcome(run_id, steps)

    def has_any(self, run_id: str, *types: EventType) -> bool:
        """Whether a run has an event of one of these types; raises JournalError (JRN002)."""
        return self._reader.has_any(run_id, *types)

    def places(self, run_id: str) -> dict[str, JSON]:
        """Where the tools of a run are that are no longer at the places of its start.

        Raises JournalError: JRN002 for an unknown run, JRN012 for an event that cannot be read.
        """
        if not self.has_any(run_id, EventType.MOVED):
            return {}
        places: dict[str, JSON] = {}
        for event in self.events(run_id, lenient=True):
            if event.type is EventType.MOVED:
                places.update(event.body or {})
        return places

    def bodies(self, run_id: str, seqs: Iterable[int]) -> Iterator[Stored]:
        """The bodies of the events with these numbers, in order, as bytes.

        Raises JournalError: JRN002 for an unknown run, JRN012 if a large body is missing.
        """
        return self._reader.bodies(run_id, seqs)

    def opener(self, run_id: str, on_declared: Callable[[Known], None] | None = None) -> Unsealer:
        """Unseals the secrets of a run, for a process that continues it.

        `on_declared` is called with the secrets that the run was given as soon as they are known.
        """
        return Unsealer(self._keys, run_id, on_declared)

    def sealer(self, run_id: str, plan: str) -> Sealer:
        """Seals secrets in the bodies of a run; `plan` is the text of its plan."""
        return self._sealer(run_id, lambda: plan)

    def rebinder(self, run_id: str, new_run_id: str) -> Callable[[Any], Any]:
        """Binds the sealed bodies of a run to another one that copies them.

        The function raises JournalError: SEC001 to SEC004.
        """

        def rebind(body: Any) -> Any:
            if not is_sealed(body):
                return body
            try:
                return rebound(body, self._keys.opening(), run_id, new_run_id)
            except (WrongKey, NotOpened) as error:
                raise not_opened(run_id, 0, error) from error

        return rebind

    def _sealer_of_messages(self, run_id: str) -> Sealer:
        """Seals secrets in messages to a run, including those that the run was given."""
        sealer = self.sealer(run_id, "")
        sealer.know(self.declared(run_id))
        return sealer

    def _sealer(self, run_id: str, plan: Callable[[], str]) -> Sealer:
        return Sealer(self._keys.sealing, self._finder, lambda: names_in(plan()), run_id=run_id)

    def close(self) -> None:
        """End the writer thread and close the connections; writers of this journal cannot be used then."""
        if os.getpid() != self._pid:
            return
        with self._group_mutex:
            self._is_closed = True
            group, self._group = self._group, None
        if group is not None:
            group.close()
        self._spares.close()
        self._reader.close()  # first: the last connection checkpoints, and a reader cannot
        self._ledger.close()

    def _has_run(self, run_id: str) -> bool:
        """Whether there is a run with this id; asks the write connection if possible, which is faster."""
        known = self._ledger.has_run(run_id)
        return self._reader.runs.has(run_id) if known is None else known

    def forget_plan(self) -> None:
        """Let go of the plan of the last run, which is kept because the same plan is often run again."""
        self._last_plan = None

    def _plan_row(self, plan: Plan, source: str) -> PlanRow:
        """The plan's row; remembered, as the same plan is often run repeatedly."""
        last_plan = self._last_plan
        if last_plan is None or last_plan[0] is not plan or last_plan[1] != source:
            last_plan = self._last_plan = plan, source, plan_row(plan, source)
        return last_plan[2]

    def _lock(self, run_id: str) -> RunLock:
        try:
            return RunLock(self._place.run_locks, run_id, self._clock(), self._spares)
        except OSError as error:
            is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            raise JournalError(
                "JRN010",
                f"the lock of run {run_id} in {self._place.run_locks} cannot be taken: {error.strerror}",
                hint="free space on its disk; what was written to the journal is kept"
                if is_full
                else "name a journal in a folder that you can write: set CALLSHEET_JOURNAL or --journal",
            ) from error

    def _writer(self, pending: Pending, lock: RunLock) -> RunWriter:
        return RunWriter(
            pending, lock, self._ledger, self._group_writer, self._clock, self._monotonic, self._owned
        )

    def _group_writer(self) -> GroupWriter:
        with self._group_mutex:
            if self._is_closed:
                raise closed(self._place.database)
            if self._group is None:
                from callsheet.store.writer import GroupWriter  # noqa: PLC0415 - brings asyncio

                self._group = GroupWriter(self._ledger)
            return self._group

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
