"""Several processes on one run, and many calls in flight when its process dies."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.crash.conftest import Spawn, crash_tools

from callsheet.store import EventType, Journal

pytestmark = pytest.mark.crash

_READS = '# ltp: 1\nS1: ?FOREACH ($n IN $numbers) THEN @LOOK (n=$n) > $all\nS2: @RESPOND ("$all")\n'
_WRITES = '# ltp: 1\nS1: ?FOREACH ($n IN $texts) THEN @APPEND (text=$n) > $all\nS2: @RESPOND ("$all")\n'


@pytest.fixture
def calls(tmp_path: Path) -> Callable[[], Counter[str]]:
    """The number of times each call took place, by its line in the log."""

    def read() -> Counter[str]:
        log = tmp_path / "calls.log"
        return Counter(log.read_text().splitlines()) if log.exists() else Counter()

    return read


def _wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it did not come to this"
        time.sleep(0.005)


def _start(tmp_path: Path, spawn: Spawn, text: str, var: str, pause: float) -> None:
    """Start a run of a plan and kill it in the middle."""
    (tmp_path / "plan.ltp").write_text(text)
    run = spawn(
        *("run", "plan.ltp", "--tools", str(crash_tools()), "--run-id", "r", "--var", var), pause=pause
    )
    log = tmp_path / "calls.log"
    _wait(lambda: log.exists() and len(log.read_text().splitlines()) > 20)
    run.kill()
    run.wait()


def _events(path: Path) -> list[tuple[EventType, str]]:
    with Journal.open(path) as journal:
        assert journal.verify("r") is None
        return [(event.type, event.key or "") for event in journal.events("r")]


def test_no_more_calls_are_repeated_than_were_in_flight(
    tmp_path: Path, spawn: Spawn, calls: Callable[[], Counter[str]]
) -> None:
    numbers = list(range(200))
    _start(tmp_path, spawn, _READS, f"numbers={numbers}", 0.005)
    events = _events(tmp_path / "journal.db")
    made = {key for kind, key in events if kind is EventType.INTENT}
    in_flight = made - {key for kind, key in events if kind is EventType.OK}
    assert 0 < len(in_flight) <= 16
    resumed = spawn("resume", "r")
    out, err = resumed.communicate(timeout=60)
    assert resumed.returncode == 0, err
    assert json.loads(out)["variables"]["all"] == [2 * n for n in numbers]
    times = calls()
    assert len(times) == 200
    assert {line.partition(" ")[0] for line, n in times.items() if n > 1} <= in_flight
    assert max(times.values()) <= 2


def test_concurrent_resumes_of_run_have_one_winner(
    tmp_path: Path, spawn: Spawn, calls: Callable[[], Counter[str]]
) -> None:
    texts = json.dumps([f"t{n}" for n in range(60)])
    _start(tmp_path, spawn, _WRITES, f"texts={texts}", 0.005)
    children = [spawn("resume", "r", "--in-doubt", "skip", pause=0.01) for _ in range(3)]
    ended = [(*child.communicate(timeout=60), child.returncode) for child in children]
    assert sorted(status for *_, status in ended) == [0, 1, 1], ended
    for out, err, status in ended:
        assert status == 0 or "JRN004" in out + err
    assert max(calls().values()) == 1
    kinds = Counter(kind for kind, _ in _events(tmp_path / "journal.db"))
    assert (kinds[EventType.END], kinds[EventType.INTENT]) == (1, 60)


def test_owner_whose_lock_file_was_deleted_is_fenced(
    tmp_path: Path, spawn: Spawn, calls: Callable[[], Counter[str]]
) -> None:
    """The second owner takes over in the next epoch; the first can no longer write."""
    texts = json.dumps([f"t{n}" for n in range(200)])
    _start(tmp_path, spawn, _WRITES, f"texts={texts}", 0.005)
    before = len(calls())
    first = spawn("resume", "r", "--in-doubt", "skip", pause=0.01)
    _wait(lambda: len(calls()) > before + 3)
    (tmp_path / "journal.db.runs" / "r.lock").unlink()
    second = spawn("resume", "r")
    _, err = second.communicate(timeout=60)
    assert second.returncode == 4, err
    out, err = first.communicate(timeout=60)
    assert first.returncode == 1
    assert "JRN" in out + err
    third = spawn("resume", "r", "--in-doubt", "skip")
    out, err = third.communicate(timeout=60)
    assert third.returncode == 0, err
    assert len(json.loads(out)["variables"]["all"]) == 200
    events = _events(tmp_path / "journal.db")
    skipped = Counter(kind for kind, _ in events)[EventType.DECIDED]  # some had left and not arrived yet
    assert max(calls().values()) == 1
    assert 200 - skipped <= len(calls()) <= 200
    assert Counter(kind for kind, _ in events)[EventType.END] == 1
