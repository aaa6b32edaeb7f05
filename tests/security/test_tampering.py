"""A journal that is changed later: `runs verify` names the first changed event.

Whoever can write the file can make a new valid chain; a head that was stored elsewhere reveals that.
"""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

BASE = "(SELECT number << 32 FROM runs WHERE run_id = 'one')"
OTHER = "(SELECT number << 32 FROM runs WHERE run_id = 'two')"


@pytest.fixture
def recorded(user: Any) -> Any:
    """Two ended runs whose heads are recorded in `heads.jsonl`."""
    plan = user.plan('S1: @LOOK (thing="x") > $a', "S2: @RESPOND ($a)")
    for run_id in ("one", "two"):
        assert user("run", plan, "--run-id", run_id, "--journal", "journal.db").exit_code == 0
    assert user("runs", "heads", "--anchor", "heads.jsonl", "--journal", "journal.db").exit_code == 0
    return user


def change(*statements: str) -> None:
    """Change the file like a person with write access."""
    database = sqlite3.connect("journal.db")
    for statement in statements:
        assert database.execute(statement.format(base=BASE, other=OTHER)).rowcount > 0
    database.commit()
    database.close()


def verified(user: Any) -> Any:
    """The output of `runs verify` for the runs and the recorded heads."""
    return user.json("runs", "verify", "--anchor", "heads.jsonl", "--journal", "journal.db")


def bad_events(said: Any) -> dict[str, int]:
    return {run["run_id"]: run["event"] for run in said["runs"] if not run["ok"]}


def test_unmodified_journal_is_intact(recorded: Any) -> None:
    said = verified(recorded)
    assert (said["ok"], bad_events(said), [anchor["ok"] for anchor in said["anchors"]]) == (
        True,
        {},
        [True] * 2,
    )


@pytest.mark.parametrize(
    ("statements", "event"),
    [
        (["UPDATE events SET body = CAST('{{\"value\":3}}' AS BLOB) WHERE id = {base} + 3"], 3),
        (["UPDATE events SET ts = ts + 1 WHERE id = {base} + 3"], 3),
        (["DELETE FROM events WHERE id = {base} + 3"], 3),
        (
            [
                "UPDATE events SET id = {base} + 99 WHERE id = {base} + 3",
                "UPDATE events SET id = {base} + 3 WHERE id = {base} + 4",
                "UPDATE events SET id = {base} + 4 WHERE id = {base} + 99",
            ],
            3,
        ),
        (
            [
                "DELETE FROM events WHERE id = {base} + 3",
                "UPDATE events SET id = {base} + 3 WHERE id = {other} + 3",
            ],
            3,
        ),
    ],
    ids=["edited", "another time", "deleted", "swapped", "from another run"],
)
def test_first_bad_event_is_named(recorded: Any, statements: list[str], event: int) -> None:
    change(*statements)
    said = verified(recorded)
    assert said["ok"] is False
    assert bad_events(said)["one"] == event


def test_carefully_truncated_tail_is_detected_by_head(recorded: Any) -> None:
    """The row of the run is changed too: the rest is a valid chain of an unended run."""
    last = "WHERE id >> 32 = {base} >> 32 ORDER BY id DESC LIMIT 1"
    change(
        f"DELETE FROM events WHERE id = (SELECT id FROM events {last})",
        f"UPDATE runs SET status = 'running', head_seq = (SELECT id & 4294967295 FROM events {last}),"
        f" head_hash = (SELECT hash FROM events {last}) WHERE run_id = 'one'",
    )
    assert recorded("runs", "verify", "one", "--journal", "journal.db").exit_code == 0
    said = verified(recorded)
    assert [anchor["ok"] for anchor in said["anchors"]] == [False, True]


def test_modified_plan_is_detected_and_not_shown(recorded: Any) -> None:
    change("UPDATE plans SET body = CAST(replace(CAST(body AS TEXT), '\"x\"', '\"y\"') AS BLOB)")
    assert bad_events(verified(recorded)) == {"one": 1, "two": 1}
    shown = recorded("show", "one", "--journal", "journal.db")
    assert (shown.exit_code, "is not what was written" in shown.stderr) == (1, True)


def test_rewritten_history_is_detected_by_head(recorded: Any) -> None:
    for file in Path().glob("journal.db*"):
        if file.is_file():
            file.unlink()
    plan = recorded.plan('S1: @LOOK (thing="y") > $a', "S2: @RESPOND ($a)")
    recorded("run", plan, "--run-id", "one", "--journal", "journal.db")
    assert recorded("runs", "verify", "--journal", "journal.db").exit_code == 0
    noted = [json.loads(line)["run"] for line in Path("heads.jsonl").read_text().splitlines()]
    said = verified(recorded)
    assert (sorted(noted), [anchor["ok"] for anchor in said["anchors"]]) == (["one", "two"], [False] * 2)
