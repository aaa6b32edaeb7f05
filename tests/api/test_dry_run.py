"""`Runtime.dry_run`: what a plan would do on a runtime, which stays as it was."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from callsheet import CallsheetError, PlanError, Runtime, tool
from callsheet.machine.forecasting import Times
from callsheet.policy.model import Policy, ToolRule, When

PLAN = 'S1: @MARK ("a") > $r\nS2: @LLM_EXTRACT ($r, target="n") > $n\nS3: @RESPOND ($n)'


@tool(effect="unsafe")
def mark(name: str) -> str:
    """Leaves a mark."""
    Path(name).touch()
    return name


def test_dry_run_makes_no_call_record_or_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    server = {"x": {"command": sys.executable, "args": ["-c", "open('started', 'w')"]}}
    plan = PLAN + "\nS4: @ELSEWHERE (1)"

    with Runtime([mark], mcp=server, journal=tmp_path / "j.db", model=lambda prompt: "never") as runtime:
        told = runtime.dry_run_sync(plan)

    assert [call.tool for call in told.calls] == ["MARK", "LLM_EXTRACT", "ELSEWHERE"]
    assert list(tmp_path.iterdir()) == []


def test_needs_approval_takes_names_or_function() -> None:
    runtime = Runtime([mark], model=lambda prompt: "x")

    assert runtime.dry_run_sync(PLAN, needs_approval=["mark"]).totals.to_approve == ("S1",)
    assert runtime.dry_run_sync(PLAN, needs_approval=["S1"]).totals.to_approve == ("S1",)
    assert runtime.dry_run_sync(PLAN, needs_approval=lambda name: name == "MARK").totals.to_approve == ("S1",)
    assert runtime.dry_run_sync(PLAN).totals.to_approve == ()


def test_model_calls_are_counted_and_priced() -> None:
    told = Runtime([mark]).dry_run_sync(PLAN, assume={"S1": "n is 3 " * 1_000}, price=10.0)

    assert told.totals.model_calls == Times(1, 2)
    assert 1_750 < told.totals.prompt_tokens < 1_900
    assert told.to_json()["totals"]["prompt_cost"] == pytest.approx(told.totals.prompt_tokens / 100_000)
    assert "model calls: 1 to 2" in str(told)


def test_plan_errors_and_wrong_assumption_are_refused() -> None:
    runtime = Runtime([mark])

    with pytest.raises(PlanError):
        runtime.dry_run_sync("S1: @MARKS (1)\nS2: GOTO S8")
    with pytest.raises(CallsheetError, match="there is no step S11"):
        runtime.dry_run_sync(PLAN, assume={"S11": 1})
    with pytest.raises(CallsheetError, match="cannot be assumed"):
        runtime.dry_run_sync(PLAN, assume={"S1": object()})


def test_dry_run_of_blocks_says_what_a_policy_asks_and_enforces() -> None:
    text = '# ltp: 2\nS1: ?FOREACH ($n IN ["a", "b"]) {\n  S2: @MARK (name=$n)\n}\nS3: @RESPOND ("done")\n'
    policy = Policy(tools={"MARK": ToolRule(egress=False, destructive=True, approval=When.ALWAYS)})
    told = Runtime([mark], policy=policy).dry_run_sync(text)

    assert told.totals.to_approve == ("S2",)
    assert "needs approval" in str(told)
