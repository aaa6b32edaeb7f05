"""A writer killed at any point leaves an intact chain with every event reported as durable."""

from __future__ import annotations

import random
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from callsheet.store import EventType, Journal, RunStatus

pytestmark = pytest.mark.crash

Spawn = Callable[[str], "subprocess.Popen[str]"]


def _check(path: Path, told: int) -> None:
    """The chain is intact, without gaps, has at least the `told` events, and can be continued."""
    with Journal.open(path) as journal:
        seqs = [event.seq for event in journal.events("r")] if journal.runs() else []
        assert seqs == list(range(1, len(seqs) + 1))
        assert len(seqs) >= told
        if not seqs:
            return
        assert journal.verify("r") is None
        with journal.claim("r") as writer:
            assert writer.last_seq == len(seqs)
            writer.append(EventType.END)
            writer.set_status(RunStatus.DONE)
            writer.commit()
        assert journal.verify("r") is None


def _told(lines: list[str]) -> int:
    """The highest number on a line that ends with a full stop; the last line may be truncated."""
    return max(int(line.strip()[:-1]) for line in lines if line.strip().endswith("."))


@pytest.mark.parametrize("last", [1, 2, 3, 7])
def test_kill_right_after_commit_loses_nothing(path: Path, spawn: Spawn, last: int) -> None:
    child = spawn(f"""
writer = Journal.open(PATH, Durability.OFF).create_run("r", PLAN, "", {{}})
for n in range({last}):
    if n:
        writer.append(EventType.OK, key=f"S1.{{n}}.1", body={{"v": "x" * (100_000 if n % 3 == 0 else 10)}})
    writer.commit()
writer.append(EventType.OK, key="S1.0.1")
os.kill(os.getpid(), signal.SIGKILL)
""")
    child.wait(timeout=60)
    with Journal.open(path) as journal:
        assert journal.find_run("r").events == last
    _check(path, last)


@pytest.mark.parametrize("seed", range(6))
def test_kill_at_any_moment_loses_nothing_durable(path: Path, spawn: Spawn, seed: int) -> None:
    child = spawn("""
journal = Journal.open(PATH, Durability.NORMAL)
writer = journal.create_run("r", PLAN, "", {})
writer.commit()
while True:
    size = (10, 10, 70_000, 10, 10, 1_100_000)[writer.last_seq % 6]
    writer.append(EventType.INTENT, key=f"S1.{writer.last_seq}.1")
    writer.append(EventType.OK, key=f"S1.{writer.last_seq}.1", body={"v": str(writer.last_seq) * size})
    writer.commit()
    print(f"{writer.durable_seq}.")
""")
    assert child.stdout is not None
    lines = [child.stdout.readline()]
    time.sleep(random.Random(seed).random() * 0.1)
    child.kill()
    lines += child.stdout.read().split("\n")
    child.wait()
    _check(path, _told(lines))


@pytest.mark.parametrize("seed", range(3))
def test_kill_during_concurrent_flushes_loses_nothing_durable(path: Path, spawn: Spawn, seed: int) -> None:
    child = spawn("""
import asyncio
async def main():
    journal = Journal.open(PATH)
    writer = journal.create_run("r", PLAN, "", {})
    async def step(n):
        while True:
            seq = writer.append(EventType.OK, key=f"S1.{n}.1", body={"n": n})
            await writer.flush()
            print(f"{seq}.")
    await asyncio.gather(*(step(n) for n in range(16)))
asyncio.run(main())
""")
    assert child.stdout is not None
    lines = [child.stdout.readline()]
    time.sleep(random.Random(seed).random() * 0.1)
    child.kill()
    lines += child.stdout.read().split("\n")
    child.wait()
    _check(path, _told(lines))


def test_kill_during_creation_leaves_usable_journal(path: Path, spawn: Spawn) -> None:
    for delay in (0.0, 0.002, 0.004, 0.008):
        child = spawn("""
print("ready")
for n in range(1000):
    where = PATH.with_name(f"{PATH.name}-{n}")
    Journal.open(where).close()
""")
        assert child.stdout is not None
        child.stdout.readline()
        time.sleep(0.02 + delay)
        child.kill()
        child.wait()
        for n in range(1000):
            where = path.with_name(f"{path.name}-{n}")
            Journal.open(where).close()
            if not path.with_name(f"{path.name}-{n + 1}.write-lock").exists():
                break


def test_reading_after_kill_writes_nothing(path: Path, spawn: Spawn) -> None:
    child = spawn("""
writer = Journal.open(PATH, Durability.NORMAL).create_run("r", PLAN, "", {})
writer.commit()
os.kill(os.getpid(), signal.SIGKILL)
""")
    child.wait(timeout=60)
    wal = path.with_name("journal.db-wal")
    before = (path.read_bytes(), wal.read_bytes())
    with Journal.open(path) as journal:
        assert journal.find_run("r").events == 1
    assert (path.read_bytes(), wal.read_bytes()) == before
    assert before[1]
