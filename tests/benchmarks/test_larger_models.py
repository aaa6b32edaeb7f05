"""On request: models of half a billion parameters and more compile goals to the right calls.

They take minutes and hundreds of megabytes, so they run only with `-m large_models`, or where
CALLSHEET_TEST_LARGE_MODELS is set, on what `callsheet models get` has fetched.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from benchmarks.compiling.goals import Goal, goals
from benchmarks.compiling.modes import MODES
from benchmarks.compiling.scoring import score

import callsheet
from callsheet.diagnostics import CallsheetError
from callsheet.ports.models.local import LocalModel, LocalSettings, open_local
from callsheet.ports.models.local.server import close_all

pytestmark = pytest.mark.large_models

OPT_IN = "CALLSHEET_TEST_LARGE_MODELS"
NAMES = ("qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b")
SOME = [
    goal
    for goal in goals()
    if goal.id in ("files-5/04", "web-10/08", "office-20/09", "work-40/12", "all-60/04")
]
"""A chain, a condition, a loop, a way out of a failure and an operation, over each of the catalogues."""
CATEGORIES = ("praise", "complaint")


@pytest.fixture(scope="module", params=NAMES)
def larger(request: pytest.FixtureRequest) -> Iterator[LocalModel]:
    if not os.environ.get(OPT_IN) and "large_models" not in request.config.option.markexpr:
        pytest.skip(f"only where it is asked for: -m large_models, or {OPT_IN}=1")
    try:
        model = open_local(request.param, LocalSettings(threads=1, timeout=600))
    except CallsheetError as error:
        pytest.skip(f"{error}: {error.diagnostics[0].help}")
    yield model
    close_all()


@pytest.mark.parametrize("goal", SOME, ids=[goal.id for goal in SOME])
async def test_plan_for_goal_of_each_kind_runs_and_calls_tools_in_order(
    larger: LocalModel, goal: Goal
) -> None:
    made = await MODES["compile"](larger, goal)
    truth = score(goal, made.text)
    assert (truth.parsed, truth.known, truth.valid) == (True, True, True), (truth.why, made.text)
    assert truth.in_order, (truth.why, made.text)


async def test_goal_is_compiled_run_and_answered_from_tool_result(larger: LocalModel) -> None:
    def count_visitors(city: str) -> int:
        """How many visitors a city had last year."""
        return {"Oslo": 4_217}[city]

    made = await callsheet.compile(
        "How many visitors had Oslo last year?", tools=[count_visitors], model=larger
    )
    assert isinstance(made, callsheet.Compiled), made
    result = await callsheet.arun(made.plan, tools=[count_visitors])
    assert "4217" in result.response


async def test_operation_answers_with_category(larger: LocalModel) -> None:
    plan = f'S1: @LLM_CLASSIFY ("It broke on the first day.", categories={list(CATEGORIES)}) > $kind'.replace(
        "'", '"'
    )
    result = await callsheet.arun(f"{plan}\nS2: @RESPOND ($kind)", model=larger)
    assert result.response in CATEGORIES
