"""One process at a time writes a run, and a forked child cannot write."""

from __future__ import annotations

import asyncio
import os
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from callsheet.ir import Plan
from callsheet.store import (
    Durability,
    EventType,
    Fenced,
    Journal,
    JournalError,
    JournalWriteFailed,
    RunStatus,
    WrongProcess,
)
from callsheet.store.journal_paths import place_of

Spawn = Callable[[str], "subprocess.Popen[str]"]


def _begin(journal: Journal, plan: Plan) -> None:
    with journal.create_run("r", plan, "", {}) as writer:
        writer.commit()


def test_claim_starts_next_epoch_at_end_of_chain(journal: Journal, plan: Plan) -> None:
    _begin(journal, plan)
    for epoch in (2, 3):
        with journal.claim("r") as writer:
            assert writer.epoch == epoch
            assert writer.append(EventType.INTENT, key="S1.0.1") == epoch
            writer.commit()
    assert [event.epoch for event in journal.events("r")] == [1, 2, 3]
    assert journal.verify("r") is None


def test_owned_run_cannot_be_claimed(journal: Journal, plan: Plan) -> None:
    with journal.create_run("r", plan, "", {}) as writer:
        writer.commit()
        with pytest.raises(
            JournalError,
            match=rf"JRN004: run r is owned by process {os.getpid()} since \d\d\d\d-.*, which is this one",
        ):
            journal.claim("r")
        with Journal.open(journal.path) as other, pytest.raises(JournalError, match="JRN004"):
            other.claim("r")
    journal.claim("r").close()


def test_lock_files_are_reused_and_removed(journal: Journal, plan: Plan) -> None:
    locks, files = place_of(journal.path).run_locks, set[int]()
    for name in ("a", "b", "c"):
        with journal.create_run(name, plan, "", {}) as writer:
            writer.commit()
            files.add((locks / f"{name}.lock").stat().st_ino)
            assert [path.name for path in locks.glob("*.lock")] == [f"{name}.lock"]
            with Journal.open(journal.path) as other, pytest.raises(JournalError, match="JRN004"):
                other.claim(name)
        with Journal.open(journal.path) as other:
            other.claim(name).close()
    assert len(files) == 1
    journal.close()
    assert list(locks.iterdir()) == []


def test_lock_has_ownership_start_of_each_run(tmp_path: Path, plan: Plan) -> None:
    moments = {"a": 0.0, "b": 0.9, "c": 61.5, "d": 0.0}
    now = 0.0
    with Journal.open(tmp_path / "journal.db", clock=lambda: now) as journal:
        said = list[str]()
        for name, moment in moments.items():
            now = moment
            with journal.create_run(name, plan, "", {}):
                said.append((place_of(journal.path).run_locks / f"{name}.lock").read_text())
    lines = ["00:00:00", "00:00:00", "00:01:01", "00:00:00"]
    assert said == [f"process {os.getpid()} since 1970-01-01 {line} UTC\n" for line in lines]


def test_runs_owned_together_have_separate_locks(journal: Journal, plan: Plan) -> None:
    writers = [journal.create_run(f"r{n}", plan, "", {}) for n in range(8)]
    locks = place_of(journal.path).run_locks
    assert len({path.stat().st_ino for path in locks.glob("*.lock")}) == 8
    for writer in writers:
        writer.close()
    assert list(locks.glob("*.lock")) == []


@pytest.mark.crash
def test_lock_of_killed_owner_is_released_and_cleaned_up(journal: Journal, plan: Plan, spawn: Spawn) -> None:
    child = spawn("""
journal = Journal.open(PATH)
with journal.create_run("a", PLAN, "", {}) as writer:
    writer.commit()
writer = journal.create_run("r", PLAN, "", {})
writer.commit()
os.kill(os.getpid(), signal.SIGKILL)
""")
    assert child.wait(timeout=60) == -9
    locks = place_of(journal.path).run_locks
    assert len(list(locks.glob("*.spare"))) == 1
    with journal.claim("r") as writer:
        assert writer.epoch == 2
    with journal.create_run("s", plan, "", {}) as writer:
        writer.commit()
        (spare,) = locks.glob("*.spare")
        assert spare.name.startswith(f"{os.getpid()}-")


def test_run_being_started_cannot_be_started(journal: Journal, plan: Plan) -> None:
    with journal.create_run("r", plan, "", {}), pytest.raises(JournalError, match="JRN004"):
        journal.create_run("r", plan, "", {})


def test_run_has_one_owner_until_process_dies(journal: Journal, plan: Plan, spawn: Spawn) -> None:
    _begin(journal, plan)
    child = spawn("""
writer = Journal.open(PATH).claim("r")
print("claimed")
sys.stdin.read()
""")
    assert child.stdout is not None
    assert child.stdout.readline() == "claimed\n"
    with pytest.raises(JournalError, match=f"owned by process {child.pid} since"):
        journal.claim("r")
    child.kill()
    child.wait()
    with journal.claim("r") as writer:
        assert writer.epoch == 3


def test_one_of_concurrent_claims_succeeds(journal: Journal, plan: Plan, spawn: Spawn) -> None:
    _begin(journal, plan)
    children = [
        spawn("""
journal = Journal.open(PATH)
print("ready")
sys.stdin.readline()
try:
    writer = journal.claim("r")
    print("won")
except JournalError as error:
    print(error.diagnostics[0].code)
sys.stdin.readline()
""")
        for _ in range(3)
    ]
    answers: list[str] = []
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    for child in children:
        assert child.stdout is not None
        answers.append(child.stdout.readline().strip())
    assert sorted(answers) == ["JRN004", "JRN004", "won"]


def test_superseded_owner_is_fenced(journal: Journal, plan: Plan) -> None:
    _begin(journal, plan)
    stale = journal.claim("r")
    (place_of(journal.path).run_locks / "r.lock").unlink()  # somebody tidied up
    with Journal.open(journal.path, Durability.NORMAL) as other, other.claim("r") as owner:
        stale.append(EventType.INTENT, key="S1.0.1")
        with pytest.raises(Fenced, match=r"JRN005: run r .* epoch 2; its epoch is 3"):
            stale.commit()
        stale.append(EventType.INTENT, key="S1.0.1")
        with pytest.raises(Fenced):
            stale.commit()
        owner.append(EventType.INTENT, key="S2.0.1")
        owner.commit()
    stale.close()
    assert [event.key for event in journal.events("r")] == [None, "S2.0.1"]
    assert journal.verify("r") is None


def test_superseded_owner_ends_no_run(journal: Journal, plan: Plan) -> None:
    _begin(journal, plan)
    stale = journal.claim("r")
    (place_of(journal.path).run_locks / "r.lock").unlink()
    with Journal.open(journal.path) as other, other.claim("r"):
        stale.append(EventType.END, body={"status": "done"})
        stale.set_status(RunStatus.DONE)
        with pytest.raises(Fenced, match=r"epoch 2; its epoch is 3"):
            stale.commit()
    stale.close()
    run = journal.find_run("r")
    assert (run.status, run.events, run.epoch) == (RunStatus.RUNNING, 1, 3)


async def test_flush_of_superseded_owner_is_fenced_and_others_succeed(journal: Journal, plan: Plan) -> None:
    _begin(journal, plan)
    stale = journal.claim("r")
    (place_of(journal.path).run_locks / "r.lock").unlink()
    with (
        Journal.open(journal.path, Durability.NORMAL) as other,
        other.claim("r"),
        journal.create_run("s", plan, "", {}) as healthy,
    ):
        stale.append(EventType.INTENT, key="S1.0.1")
        outcomes = await asyncio.gather(stale.flush(), healthy.flush(), return_exceptions=True)
        with pytest.raises(Fenced):
            await stale.flush()
    stale.close()
    assert [type(outcome) for outcome in outcomes] == [Fenced, type(None)]
    assert journal.find_run("s").events == 1
    assert journal.find_run("r").events == 1


def test_closing_removes_no_lock_of_other_owner(journal: Journal, plan: Plan) -> None:
    _begin(journal, plan)
    stale = journal.claim("r")
    (place_of(journal.path).run_locks / "r.lock").unlink()
    with journal.claim("r"):
        stale.close()
        with pytest.raises(JournalError, match="JRN004"):
            journal.claim("r")


def _in_fork(act: Callable[[], object]) -> str:
    """The class name of the exception that `act` raises in a forked child."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        said = "nothing"
        try:
            act()
        except BaseException as error:
            said = type(error).__name__
        os.write(write, said.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        said = pipe.read()
    os.waitpid(pid, 0)
    return said


def test_forked_process_cannot_write(journal: Journal, plan: Plan) -> None:
    with journal.create_run("r", plan, "", {}) as writer:
        writer.commit()
        for act in (
            writer.commit,
            lambda: asyncio.run(writer.flush()),
            lambda: writer.append(EventType.END),
            lambda: journal.claim("r"),
            lambda: journal.create_run("s", plan, "", {}),
        ):
            assert _in_fork(act) == WrongProcess.__name__
        assert _in_fork(journal.close) == _in_fork(writer.close) == "nothing"
        with pytest.raises(JournalError, match="JRN004"):
            journal.claim("r")
        writer.append(EventType.END)
        writer.commit()
    assert journal.verify("r") is None


def test_forked_process_keeps_no_lock(journal: Journal, plan: Plan, spawn: Spawn) -> None:
    _begin(journal, plan)
    child = spawn("""
writer = Journal.open(PATH).claim("r")
grandchild = os.fork()
if grandchild == 0:
    os.close(1)
    sys.stdin.read()
    os._exit(0)
print("claimed")
signal.pause()
""")
    assert child.stdout is not None
    assert child.stdout.readline() == "claimed\n"
    time.sleep(0.05)
    child.kill()
    child.wait()
    journal.claim("r").close()


def test_processes_alternate_writes(journal: Journal, plan: Plan, spawn: Spawn) -> None:
    children = [
        spawn(f"""
journal = Journal.open(PATH, Durability.NORMAL)
with journal.create_run("child-{n}", PLAN, "", {{}}) as writer:
    for i in range(150):
        writer.append(EventType.OK, key=f"S1.{{i}}.1", body={{"v": "x" * 500}})
        writer.commit()
journal.close()
print("done")
""")
        for n in range(2)
    ]
    with journal.create_run("parent", plan, "", {}) as writer:
        for i in range(150):
            writer.append(EventType.OK, key=f"S1.{i}.1")
            writer.commit()
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "done\n"
    for info in journal.runs():
        assert info.events == 151
        assert journal.verify(info.run_id) is None


def test_wait_for_stuck_writer_is_bounded(
    journal: Journal, plan: Plan, monkeypatch: pytest.MonkeyPatch, spawn: Spawn
) -> None:
    monkeypatch.setattr("callsheet.store.lock._WAIT_SECONDS", 0.05)
    with journal.create_run("r", plan, "", {}) as writer:
        writer.commit()
        child = spawn("""
import fcntl
fd = os.open(f"{PATH}.write-lock", os.O_RDWR)
fcntl.flock(fd, fcntl.LOCK_EX)
print("locked")
sys.stdin.read()
""")
        assert child.stdout is not None
        assert child.stdout.readline() == "locked\n"
        writer.append(EventType.OK, key="S1.0.1", body={"v": "x" * 2_000})
        with pytest.raises(JournalWriteFailed, match="another process has been writing"):
            writer.commit()
        child.kill()
        child.wait()
        writer.commit()
    assert [event.key for event in journal.events("r")] == [None, "S1.0.1"]


def test_writer_waits_for_lock(journal: Journal, plan: Plan) -> None:
    import fcntl

    with journal.create_run("r", plan, "", {}) as writer:
        writer.commit()
        fd = os.open(place_of(journal.path).write_lock, os.O_RDWR)
        fcntl.flock(fd, fcntl.LOCK_EX)
        release = threading.Timer(0.05, os.close, (fd,))
        release.start()
        writer.append(EventType.OK, key="S1.0.1")
        writer.commit()
        release.join()
    assert journal.find_run("r").events == 2


def test_uncreatable_lock_is_refused(journal: Journal, plan: Plan) -> None:
    place_of(journal.path).run_locks.write_text("in the way")
    with pytest.raises(JournalError, match="JRN010"):
        journal.create_run("r", plan, "", {})
    assert Path(journal.path).exists()
