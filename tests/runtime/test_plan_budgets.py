"""What a sub-plan that is called may spend: past it the CALL fails, alone, and is caught by name."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from tests.runtime.test_agent_budgets import CAUGHT, TURNS, note, talkers

from callsheet import Journal, Plan, RunResult, RunStatus, Runtime, tool
from callsheet.diagnostics import CallsheetError
from callsheet.frontends.python.printing.printer import print_python
from callsheet.runtime.doubt import fold_run
from callsheet.store.folded import Folded
from callsheet.store.replay import current_state


def loop(budget: str, handler: str = "", body: str = "", mode: str = " TOGETHER MAX 2") -> str:
    """A loop over a sub-plan of two agents of the same item."""
    return f"""# ltp: 2
PLAN solve ($n: int) -> int {{
  A1: @AGENT_SOLVE (goal="item <$n>", tools=["note"]) > $r
  A2: @AGENT_SOLVE (goal="item <$n>", tools=["note"]) > $q
  {body}
  RETURN ($r)
}}
S1: ?FOREACH ($n IN range(3)){mode} {{
  S2: CALL solve (n=$n, {budget}) > $r {handler}
  YIELD ($r)
}} > $rows
@RESPOND ($rows)
"""


async def outcome(text: str, **tools: object) -> tuple[RunResult, Counter[int]]:
    asked = Counter[int]()
    runtime = Runtime([note, *tools.values()], model=talkers(TURNS, asked))  # pyright: ignore[reportArgumentType]
    return await runtime.run(text), asked


@pytest.mark.parametrize("mode", ["", " TOGETHER MAX 2"])
@pytest.mark.parametrize("budget", ["max_tokens=600", "max_cost=3", "max_cost=3.0, max_tokens=9000"])
async def test_all_that_is_spent_inside_of_an_item_counts(budget: str, mode: str) -> None:
    """Those of item 1 need 1,200 tokens; those of item 2 just 600, which is not too much."""
    result, asked = await outcome(loop(budget, CAUGHT, mode=mode))
    assert (result.status, result.answer) == (RunStatus.DONE, [0, -1, 2])
    assert asked == {0: 2, 1: 6, 2: 6}


async def test_agent_stops_in_the_turn_that_spends_the_last() -> None:
    result, asked = await outcome(loop("max_tokens=200", CAUGHT))
    assert (result.answer, asked) == ([0, -1, -1], {0: 2, 1: 2, 2: 2})


async def test_failure_names_the_plan_and_what_was_spent() -> None:
    result, _ = await outcome(loop("max_tokens=600", mode=""))
    assert result.status is RunStatus.FAILED
    assert "BUDGET" in result.response
    assert "the budget of solve is spent: 600 of 600 tokens" in result.response


@pytest.mark.parametrize(("body", "item"), [("", 1), ("LET $x: json = [$n]\n  RETURN ($x)", 0)])
async def test_all_attempts_share_it(body: str, item: int) -> None:
    """Whether they fail inside or by what they give; all four attempts at item 0 would ask eight times."""
    result, asked = await outcome(loop("max_tokens=600", "ON_FAIL @RETRY(3, delay=0)", body, mode=""))
    assert (result.status, asked[item]) == (RunStatus.FAILED, 6)


async def test_budget_of_a_plan_around_counts_what_is_spent_in_those_that_it_calls() -> None:
    text = """# ltp: 2
PLAN inner ($n: int) -> int {
  A1: @AGENT_SOLVE (goal="item <$n>", tools=["note"]) > $r
  RETURN ($r)
}
PLAN outer ($n: int) -> int {
  S3: CALL inner (n=$n, max_tokens=9000) > $r
  S4: CALL inner (n=$n) > $r
  RETURN ($r)
}
S1: CALL outer (n=2, max_tokens=500) > $r ON_FAIL BUDGET {
  LET $r = $error.message
}
@RESPOND ($r)
"""
    result, asked = await outcome(text)
    assert (result.response, asked) == ("the budget of outer is spent: 500 of 500 tokens", {2: 5})


async def test_no_tool_is_called_any_more_but_what_cleans_up() -> None:
    called = list[str]()

    @tool(effect="unsafe", undo="take_back(what=call.what)")
    def put(what: str) -> str:
        called.append(f"put {what}")
        return what

    @tool(effect="unsafe")
    def take_back(what: str) -> str:
        called.append(f"take back {what}")
        return what

    text = """# ltp: 2
PLAN part ($n: int) -> int {
  TRY {
    TRY {
      S3: @PUT (what="first")
      A1: @AGENT_SOLVE (goal="item <$n>", tools=["note"], max_turns=9) > $r
      S4: @PUT (what="second") ON_FAIL CONTINUE
      S5: @PUT (what="third")
    } ON_FAIL UNDO
  } FINALLY {
    S6: @PUT (what="at last")
  }
  RETURN ($r)
}
S1: CALL part (n=2, max_tokens=300) > $r ON_FAIL BUDGET {
  S2: @PUT (what="outside")
  LET $r = -1
}
@RESPOND ($r)
"""
    result, _ = await outcome(text, put=put, take_back=take_back)
    assert (result.status, result.answer) == (RunStatus.DONE, -1)
    assert called == ["put first", "take back first", "put at last", "put outside"]


async def test_resumed_and_replayed_runs_count_the_same(tmp_path: Path) -> None:
    """A snapshot and a fold from the start have spent the same; a resume goes on from there."""
    asked = Counter[int]()
    runtime = Runtime([note], model=talkers(TURNS, asked), journal=tmp_path / "j.db")
    handle = runtime.start(loop("max_tokens=600", CAUGHT), run_id="r")
    async for _ in handle:
        if asked[1] == 4:
            await handle.interrupt()
            break
    result = await runtime.resume("r")
    assert result.answer == [0, -1, 2]
    assert asked[1] <= 7  # at most the question that was under way is asked again
    with Journal.open(tmp_path / "j.db") as journal:
        plan = journal.plan_of(journal.find_run("r").plan_hash)
        folded, restored = fold_run(journal, "r", plan), current_state(journal, "r", plan)
        assert isinstance(restored, Folded)
        assert restored.machine.usage().tokens == folded.machine.usage().tokens


@pytest.mark.parametrize(
    ("budget", "told"),
    [
        ("max_tokens=0", "max_tokens of CALL solve is a whole number above 0, and constant"),
        ("max_tokens=2.5", "max_tokens of CALL solve is a whole number above 0, and constant"),
        ("max_cost=$n", "max_cost of CALL solve is a number above 0, and constant"),
        (f"max_cost={10**400}", "max_cost of CALL solve is a number above 0, and constant"),
        ("max_calls=3", "solve has no input max_calls"),
    ],
)
def test_budget_is_a_constant_amount(budget: str, told: str) -> None:
    found = Runtime([note]).check_sync(loop(budget))
    assert [told in str(one) for one in found if one.severity == "error"] == [True], found


def test_input_of_that_name_is_no_budget() -> None:
    text = """# ltp: 2
PLAN part ($max_tokens: int) -> int {
  RETURN ($max_tokens + 1)
}
S1: CALL part (max_tokens=1) > $r
@RESPOND ($r)
"""
    assert Runtime().run_sync(text).answer == 2


@pytest.mark.parametrize("name", ["max_tokens", "max_cost"])
def test_function_of_a_python_plan_has_none_and_says_who_has(name: str) -> None:
    text = "async def f(n: int):\n    return await agent_solve(n)\n"
    with pytest.raises(CallsheetError, match=rf"(?s)PYT009.*f has no .*agent_solve\(…, {name}=…\)"):
        Plan.parse(f"{text}async def main():\n    return await f(1, {name}=5)\n", syntax="python")


def test_json_says_it_and_python_refuses_to() -> None:
    plan = Plan.parse(loop("max_tokens=600"))
    assert "CALL solve (n=$n, max_tokens=600)" in Plan.parse(plan.to_dag()).to_ltp()
    with pytest.raises(CallsheetError, match=r"PYT070.*max_tokens"):
        print_python(plan.ir)
