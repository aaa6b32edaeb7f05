"""Concurrent flushes share transactions; each run keeps its order and waits for its own events."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from callsheet.ir import Plan
from callsheet.store import EventType, Journal, JournalWriteFailed, RunStatus, RunWriter
from callsheet.store.connections import WriteConnection
from callsheet.store.ledger import Ledger


@pytest.fixture
def transactions(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Grows by the thread's name with each transaction."""
    made: list[str] = []
    transact: Callable[..., Any] = WriteConnection.transact

    def counting(connection: WriteConnection, work: Callable[..., Any]) -> object:
        made.append(threading.current_thread().name)
        return transact(connection, work)

    monkeypatch.setattr(WriteConnection, "transact", counting)
    return made


async def test_fan_out_of_1000_results_needs_few_syncs(
    path: Path, plan: Plan, transactions: list[str]
) -> None:
    with Journal.open(path) as journal, journal.create_run("r", plan, "", {}) as writer:
        writer.commit()
        transactions.clear()

        async def result(n: int) -> None:
            await asyncio.sleep(n % 7 / 5000)
            seq = writer.append(EventType.OK, key=f"S1.{n}.1", body={"n": n})
            await writer.flush()
            assert writer.durable_seq >= seq

        await asyncio.gather(*(result(n) for n in range(1000)))
        assert len(transactions) <= 10
        assert set(transactions) == {"callsheet-journal"}
        assert journal.find_run("r").events == 1001
        assert journal.verify("r") is None


async def test_runs_share_transactions_and_keep_order(
    path: Path, plan: Plan, transactions: list[str]
) -> None:
    async def run(writer: RunWriter, seed: int) -> None:
        chance = random.Random(seed)
        for n in range(20):
            writer.append(EventType.OK, key=f"S1.{n}.1")
            if chance.random() < 0.2:
                writer.commit()
            elif chance.random() < 0.9:
                await writer.flush()
        writer.append(EventType.END)
        writer.set_status(RunStatus.DONE)
        await writer.flush()

    with Journal.open(path) as journal:
        writers = [journal.create_run(f"r{n}", plan, "", {}) for n in range(20)]
        await asyncio.gather(*(run(writer, n) for n, writer in enumerate(writers)))
        for writer in writers:
            writer.close()
            keys = [event.key for event in journal.events(writer.run_id)]
            assert keys == [None, *(f"S1.{n}.1" for n in range(20)), None]
            assert journal.verify(writer.run_id) is None
            assert journal.find_run(writer.run_id).status is RunStatus.DONE
    assert transactions.count("callsheet-journal") < 20 * 20 / 2


async def test_status_is_written_after_earlier_events(
    path: Path, plan: Plan, transactions: list[str]
) -> None:
    with Journal.open(path) as journal, journal.create_run("r", plan, "", {}) as writer:
        first = asyncio.ensure_future(writer.flush())
        await asyncio.sleep(0)  # the flush asked for event 1 alone
        writer.append(EventType.END)
        writer.set_status(RunStatus.DONE)
        await first
        info = journal.find_run("r")
        assert (info.status, info.events) == (RunStatus.RUNNING, 1)
        await writer.flush()
        assert journal.find_run("r").status is RunStatus.DONE
        assert journal.verify("r") is None


async def test_empty_flush_returns_at_once(journal: Journal, plan: Plan, transactions: list[str]) -> None:
    with journal.create_run("r", plan, "", {}) as writer:
        await writer.flush()
        transactions.clear()
        await writer.flush()
        assert transactions == []


async def test_cancelled_flush_leaves_nothing_partial(journal: Journal, plan: Plan) -> None:
    with journal.create_run("r", plan, "", {}) as writer:
        task = asyncio.ensure_future(writer.flush())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        writer.append(EventType.END)
        await writer.flush()
        assert [event.seq for event in journal.events("r")] == [1, 2]


async def test_every_failure_reaches_waiters(
    journal: Journal, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(*_: object) -> None:
        raise MemoryError("none left")

    with journal.create_run("r", plan, "", {}) as writer:
        with monkeypatch.context() as patch:
            patch.setattr(Ledger, "write", breaks)
            with pytest.raises(MemoryError):
                await writer.flush()
        await writer.flush()
        assert writer.durable_seq == 1


def test_several_event_loops_may_flush(journal: Journal, plan: Plan) -> None:
    async def run(run_id: str) -> None:
        with journal.create_run(run_id, plan, "", {}) as writer:
            for n in range(20):
                writer.append(EventType.OK, key=f"S1.{n}.1")
                await writer.flush()

    threads = [threading.Thread(target=lambda n=n: asyncio.run(run(f"r{n}"))) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [info.events for info in journal.runs()] == [21, 21, 21]


def test_closed_loop_blocks_no_other(journal: Journal, plan: Plan) -> None:
    with journal.create_run("r", plan, "", {}) as writer:
        loop = asyncio.new_event_loop()
        held = threading.Event()
        journal._ledger._mutex.acquire()  # pyright: ignore[reportPrivateUsage]
        flush = loop.create_task(writer.flush())
        for _ in range(3):
            loop.run_until_complete(asyncio.sleep(0))
        flush.cancel()
        loop.run_until_complete(asyncio.gather(flush, return_exceptions=True))
        loop.close()
        journal._ledger._mutex.release()  # pyright: ignore[reportPrivateUsage]
        held.wait(0.05)
        asyncio.run(writer.flush())
        assert writer.durable_seq == 1


async def test_commit_may_overtake_flush(journal: Journal, plan: Plan) -> None:
    with journal.create_run("r", plan, "", {}) as writer:
        writer.append(EventType.OK, key="S1.0.1")
        flush = asyncio.ensure_future(writer.flush())
        await asyncio.sleep(0)  # asked for 2 events
        for n in range(8):
            writer.append(EventType.OK, key=f"S1.{n}.1")
        with journal._ledger._mutex:  # pyright: ignore[reportPrivateUsage]
            await asyncio.sleep(0.01)  # the writer thread has the flush in hand and waits
        writer.commit()
        for n in range(8, 40):
            writer.append(EventType.OK, key=f"S1.{n}.1")
        await flush
        assert journal.find_run("r").events == writer.durable_seq == 10
        await writer.flush()
    assert [event.key for event in journal.events("r", after=2)] == [f"S1.{n}.1" for n in range(40)]
    assert journal.verify("r") is None


async def test_closed_journal_leaves_no_waiter(path: Path, plan: Plan) -> None:
    journal = Journal.open(path)
    with journal.create_run("r", plan, "", {}) as writer:
        await writer.flush()
        writer.append(EventType.END)
        flush = asyncio.ensure_future(writer.flush())
        journal.close()
        with pytest.raises(ValueError, match="closed"):
            await flush
        with pytest.raises(ValueError, match="closed"):
            await writer.flush()
        with pytest.raises(JournalWriteFailed, match="closed"):
            writer.commit()


def test_flush_of_durable_events_writes_nothing(journal: Journal, plan: Plan) -> None:
    with journal.create_run("r", plan, "", {}) as writer:
        for _ in range(9):
            writer.append(EventType.OK)
        writer.commit()
        for _ in range(9):
            writer.append(EventType.OK)
        portion = writer._pending.take(5)  # pyright: ignore[reportPrivateUsage]
        assert (portion.upto, portion.rows) == (10, [])
