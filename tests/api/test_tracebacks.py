"""Where a tool's own code raised is kept beside the outcome and in the log, and never in the variable."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from tests.dag_plans import step

from callsheet import CallContext, Runtime, tool
from callsheet.apps.operations.run_text import run_detail_lines
from callsheet.apps.operations.runs import run_details
from callsheet.compat import LTPParser, LTPRuntime
from callsheet.planning import PlanningContext, PlanRunner
from callsheet.ports.calls import ToolFailed
from callsheet.store import Journal

SECRET = "sk-abc-7391-very-private"


def reach(depth: int, message: str) -> None:
    if depth:
        reach(depth - 1, message)
    raise ValueError(message)


@tool(effect="read")
def broken(text: str) -> str:
    reach(1, text)
    return text


@tool(effect="read", inline=True)
def at_once(text: str) -> str:
    reach(0, text)
    return text


@tool(effect="read")
async def awaited(text: str, context: CallContext) -> str:
    try:
        reach(0, "first")
    except ValueError as error:
        raise LookupError(text) from error
    return text


@tool(effect="read")
def on_purpose(text: str) -> str:
    raise ToolFailed(text)


def tracebacks(journal: Path, run_id: str) -> list[str]:
    """The tracebacks among the remarks of a run's journal."""
    with Journal.open(journal) as opened:
        rows = [row.body or {} for row in opened.events(run_id)]
    remarks = [remark for body in rows for remark in body.get("remarks", ())]
    return [remark["text"] for remark in remarks if remark.get("fact") == "traceback"]


def all_bytes(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize(("function", "calls"), [(broken, 2), (at_once, 1), (awaited, 1)])
async def test_traceback_of_tool_is_in_journal_log_and_show_but_not_in_the_variable(
    function: Any, calls: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "callsheet.tools")
    name = function.__name__
    async with Runtime([function], journal=tmp_path / "j.db") as runtime:
        result = await runtime.run(f'S1: @{name} (text="no way") > $a\nS2: @RESPOND ($a)')
    (text,) = tracebacks(tmp_path / "j.db", result.run_id)
    assert text.startswith("Traceback (most recent call last):\n")
    assert text.endswith("Error: no way")
    assert text.count(", in reach\n") == calls
    assert f", in {name}\n" in text
    assert "callsheet/" not in text.replace(str(Path(__file__).parent), "")
    assert "asyncio" not in text
    assert "concurrent" not in text
    assert ("direct cause" in text) == (function is awaited)
    assert text in caplog.text
    assert "Traceback" not in str(result.variables)
    with Journal.open(tmp_path / "j.db") as journal:
        lines = list(run_detail_lines(run_details(journal, journal.find_run(result.run_id), None)))
    assert "S1: traceback: Traceback (most recent call last):" in lines


async def test_failure_on_purpose_has_no_traceback(tmp_path: Path) -> None:
    async with Runtime([on_purpose], journal=tmp_path / "j.db") as runtime:
        result = await runtime.run('S1: @ON_PURPOSE (text="no") > $a\nS2: @RESPOND ($a)')
    assert result.response == "no"
    assert tracebacks(tmp_path / "j.db", result.run_id) == []


async def test_same_place_is_told_once_and_long_tracebacks_are_cut(tmp_path: Path) -> None:
    @tool(effect="read")
    def wide(n: int) -> str:
        raise ValueError("x" * 20_000)

    async with Runtime([wide], journal=tmp_path / "j.db") as runtime:
        result = await runtime.run("S1: ?FOREACH ($n IN [1, 2, 3]) THEN @WIDE (n=$n) > $a\nS2: @RESPOND ($n)")
    first, *others = tracebacks(tmp_path / "j.db", result.run_id)
    assert len(first) < 6_200
    assert first.startswith("… (")
    assert [*{*others}] in ([f"at the same place as S1.{n}.1"] for n in range(3))
    assert len(others) == 2


async def test_secrets_are_neither_in_the_journal_nor_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "callsheet.tools")
    async with Runtime([broken], journal=tmp_path / "j.db") as runtime:
        result = await runtime.run("S1: @BROKEN (text=$key) > $a\nS2: @RESPOND ($a)", secrets={"key": SECRET})
    assert "Traceback" in caplog.text
    assert SECRET not in caplog.text
    (text,) = tracebacks(tmp_path / "j.db", result.run_id)
    assert SECRET not in str(text)
    assert SECRET.encode() not in all_bytes(tmp_path)


async def test_exception_of_an_executor_or_manager_keeps_its_traceback(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "callsheet.tools")

    def manager(name: str, arguments: dict[str, Any]) -> Any:
        reach(1, f"{name} is broken")

    plan = {"id": "p", "title": "P", "steps": [step("1", "look", path="x")]}
    result = await PlanRunner(PlanningContext(manager, plans_dir=tmp_path)).execute_plan(plan)
    assert result.error == "step 1 failed: ValueError: look is broken"
    assert result.run_id is not None
    (text,) = tracebacks(tmp_path / "journal.db", result.run_id)
    assert text.count(", in reach\n") == 2
    assert "callsheet/planning" not in text

    async def executor(name: str, arguments: dict[str, Any], namespace: str) -> Any:
        reach(0, "from the executor")

    caplog.clear()
    parsed = LTPParser.parse('PLAN_START\nS1: @LOOK (path="x") > $a\nS2: @RESPOND ($a)\nPLAN_END')
    assert parsed is not None
    ran = await LTPRuntime().execute(parsed, executor, executor)
    assert ran["response"] == "ValueError: from the executor"
    assert "in reach" in caplog.text
