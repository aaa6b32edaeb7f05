"""A call whose answer is lost in a living process is shown and decided like one after a crash."""

from __future__ import annotations

from callsheet import Runtime

TOOLS = '''
import asyncio
from pathlib import Path
from callsheet import tool

@tool(effect="unsafe", timeout=0.2)
async def pay(log: str) -> str:
    """Pay, and never answer the first time."""
    first = not Path(log).exists()
    with open(log, "a") as file:
        file.write("paid\\n")
    if first:
        await asyncio.sleep(30)
    return "receipt"
'''


def test_timed_out_unsafe_call_is_not_retried(machine, tmp_path):
    (tmp_path / "tools.py").write_text(TOOLS)
    log, journal = tmp_path / "log", str(tmp_path / "journal.db")
    (tmp_path / "plan.ltp").write_text(
        'S1: @PAY (log=$log) > $a ON_FAIL @RETRY(3)\nS2: @RESPOND ("done", $a)\n'
    )
    plan, tools = str(tmp_path / "plan.ltp"), str(tmp_path / "tools.py")
    record = ("--journal", journal)
    done = machine("run", plan, "--tools", tools, "--var", f"log={log}", "--run-id", "r1", *record)
    assert done.exit_code == 4
    assert "1 call was sent without an answer" in done.stderr
    assert "callsheet resume r1" in done.stderr
    assert log.read_text() == "paid\n"
    (listed,) = machine.json("inbox", *record)
    assert (listed["run_id"], listed["kind"], listed["key"]) == ("r1", "doubt", "S1.0.1")
    assert "callsheet decide r1 S1.0.1 retry" in machine("inbox", *record).stdout
    assert [call.key for call in Runtime(journal=journal).calls_in_doubt_sync()["r1"]] == ["S1.0.1"]
    decided = machine("resume", "r1", "--in-doubt", "retry", *record)
    assert decided.exit_code == 0, decided.stderr
    assert decided.stdout.strip() == "done receipt"
    assert machine.json("inbox", *record) == []
    assert log.read_text() == "paid\npaid\n"
