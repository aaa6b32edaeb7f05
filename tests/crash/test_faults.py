"""Disk faults: torn, truncated and flipped files, full disks, operations killed half-way.

The oracle: a run that can be resumed reaches the end that it would have had, no finished call is repeated,
and no write is repeated without a decision. A run that cannot be resumed is refused, and never silently
wrong.
"""

from __future__ import annotations

import asyncio
import random
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from tests import forked
from tests.crash.worlds import ROOT, WRITES, World, judge
from tests.runtime import crashing

from callsheet.diagnostics import CallsheetError
from callsheet.machine import Decision, Result
from callsheet.machine.keys import parse_key
from callsheet.runtime import driving, runs
from callsheet.runtime.recording import JournalRecorder
from callsheet.store import EventType, Journal, JournalError, JournalWriteFailed
from callsheet.store.backup import run_ids, salvage

pytestmark = pytest.mark.crash
_FRAME = 1024 + 24
_WAL_HEADER = 32


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Result:
    world = World(tmp_path_factory.mktemp("whole") / "world")
    result = crashing.start(world.journal, world.log, lambda place: None).result
    assert result is not None
    return result


@pytest.fixture(scope="module")
def late(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A run killed near its end; all of it is in the write-ahead log."""
    world = World(tmp_path_factory.mktemp("late") / "world").killed("after:16")
    assert world.wal.stat().st_size > 20 * _FRAME
    return world


@contextmanager
def no_file_larger_than(size: int) -> Iterator[None]:
    """The system refuses to write any file beyond this size, as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


# ---------------------------------------------------------------- row 8 and 9: torn logs, lost tails


def test_log_truncated_at_any_frame_leads_to_same_end(late: World, expected: Result) -> None:
    """What a loss of power leaves with `normal`, too: the last transitions are gone.

    Their calls had left, so nobody can hold them against the journal: a write among them is made
    twice. That is what `full` is for; all else is as it must be.
    """
    frames = (late.wal.stat().st_size - _WAL_HEADER) // _FRAME
    cuts = [_WAL_HEADER + n * _FRAME + extra for n in range(0, frames + 1, 2) for extra in (0, 500)]
    lengths: set[int] = set()
    for cut in cuts:
        world = late.copy(f"cut-{cut}")
        with world.wal.open("r+b") as file:
            file.truncate(cut)
        with Journal.open(world.journal) as journal:
            if not journal.runs():
                continue
            assert journal.verify("run") is None
            lengths.add(journal.find_run("run").events)
        settled, before = world.settled(), world.effects
        assert repr(world.finish()) == repr(expected)
        assert all(world.effects[key] == before[key] for key in settled)
    assert len(lengths) > 5


@pytest.mark.parametrize("seed", range(4))
def test_log_with_flipped_bytes_leads_to_same_end_or_is_refused(
    late: World, expected: Result, seed: int
) -> None:
    """SQLite ends the log at the damaged frame: earlier commits count."""
    chance = random.Random(seed)
    for number in range(8):
        world = late.copy(f"flip-{seed}-{number}")
        data = bytearray(world.wal.read_bytes())
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        world.wal.write_bytes(data)
        with Journal.open(world.journal) as journal:
            if not journal.runs():
                continue
        settled, before = world.settled(), world.effects
        assert repr(world.finish()) == repr(expected)
        assert all(world.effects[key] == before[key] for key in settled)


def test_flipped_database_bytes_are_detected(late: World, expected: Result) -> None:
    """Either nothing of the run is affected, or it is refused and its intact part can be salvaged."""
    whole = late.copy("whole")
    with Journal.open(whole.journal) as journal:
        journal.claim("run").close()  # a writer that closes writes the log into the database
    size = whole.journal.stat().st_size
    assert not whole.wal.exists()
    refused, codes = 0, set[str]()
    for at in range(100, size, size // 60):
        world = whole.copy(f"db-{at}")
        data = bytearray(world.journal.read_bytes())
        data[at : at + 2] = bytes(byte ^ 0xFF for byte in data[at : at + 2])
        world.journal.write_bytes(data)
        try:
            result = world.finish()
        except CallsheetError as error:
            codes.add(error.diagnostics[0].code)
            refused += 1
            save(world)
        else:
            assert repr(result) == repr(expected)
    assert refused > 15
    known = {"JRN002", "JRN006", "JRN008", "JRN010", "JRN012", "JRN014", "JRN020", "JRN025", "CFG001"}
    assert codes <= known


def save(world: World) -> None:
    """Salvaging returns the intact events or a reason why there are none."""
    try:
        with Journal.open_to_read(world.journal) as journal:
            for run_id in run_ids(journal.parts.reader):
                saved = salvage(journal.parts, run_id)
                assert saved.lines or saved.lost
    except JournalError:
        pass


# ---------------------------------------------------------------- row 6: full disks


def test_disk_full_from_kth_write_stops_run_without_loss(
    tmp_path: Path, expected: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Full at the k-th frame, for every k; resumed while full, which makes no calls; resumed after."""
    for module in (runs, driving):
        monkeypatch.setattr(module, "JournalRecorder", partial(JournalRecorder, patience=0.0))
    stopped = 0
    for frames in range(400):
        world = World(tmp_path / f"full-{frames}")
        result, made = None, Counter[str]()
        with (
            Journal.open(world.journal) as other,
            other.create_run("other", crashing.plan_of(crashing.PLAN), "", {}) as writer,
        ):
            writer.append(EventType.OK, body={"value": "x" * 50_000})  # the log is longer than its index
            writer.commit()
            with no_file_larger_than(world.wal.stat().st_size + frames * _FRAME + 100):
                try:
                    result = crashing.start(world.journal, world.log, lambda place: None).result
                except JournalWriteFailed:
                    stopped += 1
                    made = world.effects
                    with pytest.raises(JournalError, match=r"JRN006|JRN002"):
                        world.resume(Decision.RETRY)
                    assert world.effects == made
            if result is not None:
                assert repr(result) == repr(expected)
                break
            if len(other.runs()) == 1:
                assert made == Counter()
            else:
                judge(world, expected)
    assert stopped > 20


# ---------------------------------------------------------------- row 5: killed in the middle of upkeep


def killed_after(code: str, path: Path, seconds: float) -> None:
    """Run Python until it reports that it is ready, and kill it after this many seconds."""
    prelude = "import sys\nfrom pathlib import Path\nPATH = Path(sys.argv[1])\n"
    with forked.Popen(
        [sys.executable, "-c", prelude + code, str(path)], stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        time.sleep(seconds)
        child.kill()


_CHECKPOINTS = """
from callsheet.store import schema
schema._CHECKPOINT_PAGES = 4
from callsheet.ir import Plan, Respond, Step
from callsheet.store import *
journal = Journal.open(PATH)
writer = journal.create_run("r", Plan((Step("S1", Respond(())),)), "", {})
writer.commit()
print("ready", flush=True)
while True:
    writer.append(EventType.OK, key=f"S1.{writer.last_seq}.1", body={"value": "x" * 3000})
    writer.commit()
"""
_COMPACTING = """
from callsheet.store import *
journal = Journal.open(PATH)
print("ready", flush=True)
while True:
    journal.parts.ledger.compact()
"""
_BLOBS = """
from callsheet.ir import Plan, Respond, Step
from callsheet.store import *
journal = Journal.open(PATH)
writer = journal.create_run("r", Plan((Step("S1", Respond(())),)), "", {})
writer.commit()
print("ready", flush=True)
while True:
    writer.append(EventType.OK, key=f"S1.{writer.last_seq}.1", body={"value": str(writer.last_seq) * 600_000})
    writer.commit()
"""


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("code", [_CHECKPOINTS, _BLOBS], ids=["checkpoint", "blob"])
def test_kill_in_checkpoint_or_beside_large_value_loses_nothing(tmp_path: Path, code: str, seed: int) -> None:
    """It opens without errors, no missing file is named, and leftovers are removed."""
    path = tmp_path / "journal.db"
    killed_after(code, path, random.Random(seed).uniform(0.0, 0.15))
    with Journal.open(path, clock=lambda: time.time() + 7_200) as journal:
        assert journal.verify("r") is None
        with journal.claim("r") as writer:
            writer.append(EventType.END)
            writer.commit()
        from callsheet.store.retention import due_now, prune

        prune(journal.parts, due_now(journal.parts))
        assert journal.verify("r") is None
        named = {name for (name,) in journal.parts.reader.select("SELECT hash FROM blobs WHERE data IS NULL")}
        files = {p.parent.name + p.name for p in Path(f"{path}.blobs").rglob("*") if p.is_file()}
        assert files == named


@pytest.mark.parametrize("seed", range(3))
def test_kill_during_compaction_loses_nothing(late: World, expected: Result, seed: int) -> None:
    world = late.copy(f"compact-{seed}")
    killed_after(_COMPACTING, world.journal, random.Random(seed).uniform(0.0, 0.05))
    judge(world, expected)


# ---------------------------------------------------------------- row 22: many runs at once

_HUNDRED = """
import asyncio
from tests.crash.worlds import ROOT, WRITES, World, judge
from tests.runtime import crashing
from callsheet.runtime.gateway import Ports
from callsheet.runtime.runs import start_run
from callsheet.store import Journal
LOG = PATH.with_name("effects")
async def main():
    with Journal.open(PATH) as journal:
        def go(n):
            log = PATH.with_name(f"effects-{n}")
            log.touch()
            ports = Ports(crashing.route_to(crashing.tools(log, lambda place: None)))
            return start_run(crashing.plan_of(crashing.PLAN), ports, crashing.LAUNCH, journal, f"run-{n}")
        async def tell():
            while len(journal.runs()) < 80:
                await asyncio.sleep(0.01)
            print("ready", flush=True)
        await asyncio.gather(tell(), *(go(n) for n in range(100)))
asyncio.run(main())
"""


def test_kill_of_process_with_hundred_runs_loses_nothing(tmp_path: Path, expected: Result) -> None:
    path = tmp_path / "journal.db"
    killed_after(_HUNDRED, path, 0.1)
    with Journal.open(path) as journal:
        ids = [info.run_id for info in journal.runs()]
        assert len(ids) > 50
        assert [run_id for run_id in ids if journal.verify(run_id) is not None] == []
        kinds = Counter(info.status for info in journal.runs())
        assert len(kinds) >= 1
        asyncio.run(resume_all(journal, ids, tmp_path, expected))


async def resume_all(journal: Journal, ids: list[str], folder: Path, expected: Result) -> None:
    await asyncio.gather(*(resume_one(journal, run_id, folder, expected) for run_id in ids))


async def resume_one(journal: Journal, run_id: str, folder: Path, expected: Result) -> None:
    log = folder / f"effects-{run_id.removeprefix('run-')}"
    ports = crashing.ports_for(crashing.tools(log, lambda place: None))
    settled = {e.key for e in journal.events(run_id) if e.type in (EventType.OK, EventType.ERR)}
    before = Counter(log.read_text().split())
    outcome = await runs.resume_run(journal, run_id, ports)
    doubtful = {call.key for call in outcome.in_doubt}
    if outcome.result is None:
        outcome = await runs.resume_run(journal, run_id, ports, runs.Amendments(in_doubt=Decision.RETRY))
    assert repr(outcome.result) == repr(expected)
    for key, times in Counter(log.read_text().split()).items():
        assert key not in settled or times == before[key]
        assert times == 1 or key in doubtful or parse_key(key).step not in WRITES
