"""`runs cancel`, `pause`, `rerun` …: a preview and consent first, then the deed to each run it showed."""

from __future__ import annotations

import json

import pytest

TOOLS = """
from pathlib import Path
from callsheet import tool

@tool(effect="read")
def mends(n: int) -> int:
    "Fails for 2 until a file says otherwise."
    if n == 2 and not Path("mended").exists():
        raise ValueError("broken")
    return n
"""
INNER = """# ltp: 2
PLAN one ($n: int) -> int {
  A1: @MENDS (n=$n) > $x
  RETURN ($x)
}
S1: ?FOREACH ($n IN [1, 2]) {
  S2: CALL one (n=$n) > $y
}
@RESPOND ("all done")
"""
WITHOUT_CALLS = "# ltp: 2\nLET $a = [1]\nLET $x = $a[5]\n@RESPOND ($x)\n"


@pytest.fixture
def failed(machine):
    """Two runs that have failed, one that waits."""
    machine.write("mends.py", TOOLS)
    for name, text in (
        ("inner", INNER),
        ("pure", WITHOUT_CALLS),
        ("asks", '# ltp: 2\n@ASK_HUMAN ("?") > $x\n'),
    ):
        machine.write(f"{name}.ltp", text)
        machine("run", f"{name}.ltp", "--tools", "mends.py", "--run-id", name, "--tag", "team=a")
    return machine


def test_nothing_is_done_without_consent_or_condition(failed):
    asked = failed("runs", "delete", "--status", "failed")
    assert (asked.exit_code, "2 runs to delete: 2 failed" in asked.stderr) == (4, True)
    preview = failed.json("runs", "delete", "--tag", "team=a")
    assert (preview["needs"], preview["done"]) == ("--yes", 0)
    assert preview["skipped"] == [{"run_id": "asks", "why": "it has not ended"}]
    assert failed("runs", "delete", "--yes").exit_code == 2
    assert len(failed.json("runs")) == 3


def test_runs_are_run_again_from_where_they_failed(failed):
    preview = failed.json("runs", "rerun", "--status", "failed")
    assert {row["run_id"]: row["step"] for row in preview["runs"]} == {"inner": "S1[1]/S2/A1", "pure": "let2"}
    failed.write("mended", "")
    done = failed("runs", "rerun", "--status", "failed", "--yes")
    assert done.exit_code == 1, "the plan without calls fails again"
    assert "run again: 1 of 2 runs" in done.stderr
    assert done.stdout.splitlines()[-1] == "all done"
    assert failed("runs", "rerun", "--status", "done", "--yes", "--json").exit_code == 0


def test_rerun_prints_one_json_document(failed):
    failed.write("mended", "")
    done = failed.json("runs", "rerun", "--text", "inner", "--yes")
    assert (done["done"], len(done["new_runs"])) == (1, 1)
    shown = failed.json("show", done["new_runs"][0])
    assert shown["response"] == "all done"


def test_runs_are_paused_and_go_on_together(failed):
    for name in ("more", "most"):
        failed("run", "asks.ltp", "--run-id", name, "--tag", "team=a")
    pause = ("runs", "pause", "--tag", "team=a", "--by", "ada", "--reason", "prices", "--yes")
    paused = failed.json(*pause)
    assert (paused["action"], paused["done"]) == ("pause", 3)
    assert {each["why"] for each in paused["skipped"]} == {"it has ended"}
    listed = failed.json("runs", "--status", "paused")
    assert {(each["run_id"], each["pause"]["by"], each["pause"]["reason"]) for each in listed} == {
        (name, "ada", "prices") for name in ("asks", "more", "most")
    }
    again = failed(*pause)
    assert (again.exit_code, "3 that fit are left out: it is paused already" in again.stderr) == (0, True)
    gone_on = failed("runs", "resume", "--status", "paused", "--yes")
    assert (gone_on.exit_code, "resumed: 3 of 3 runs" in gone_on.stderr) == (0, True), gone_on.stderr
    assert len(failed.json("runs", "--status", "waiting")) == 3
    skipped = failed.json("runs", "resume", "--tag", "team=a", "--yes")["skipped"]
    assert {each["why"] for each in skipped} == {"it is not paused"}


def test_json_says_why_a_run_that_went_on_has_failed(machine):
    machine.write(
        "asks.ltp", '# ltp: 2\n@ASK_HUMAN ("?") > $x\nLET $a = [1]\nLET $y = $a[5]\n@RESPOND ($y)\n'
    )
    machine("run", "asks.ltp", "--run-id", "asks")
    machine("pause", "asks")
    machine("approve", "asks", "call1.1", "--answer", "yes")
    (skipped,) = machine.json("runs", "resume", "--status", "paused", "--yes")["skipped"]
    assert skipped["why"].startswith("it ended with exit status 1: ")
    assert "there is no item 5" in skipped["why"]


def test_runs_are_cancelled_and_deleted(failed):
    assert failed.json("runs", "cancel", "--tag", "team=a", "--yes")["done"] == 1
    assert failed.json("runs", "--status", "cancelled")[0]["run_id"] == "asks"
    assert failed("runs", "delete", "--tag", "team", "--yes").exit_code == 0
    assert json.loads(failed("runs", "--json").stdout) == []
