"""The smallest real model compiles goals to plans that can run, and counts the tokens of the card."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from benchmarks.compiling.goals import goals
from benchmarks.compiling.modes import MODES
from benchmarks.compiling.scoring import score

from callsheet.authoring.compiler.prompt import CARD, EXAMPLES
from callsheet.authoring.compiler.tool_lines import estimate_tokens
from callsheet.ports.models.local import LocalModel

pytestmark = pytest.mark.models

SOME = [goal for goal in goals() if goal.id in ("files-5/02", "office-20/01")]


@pytest.mark.parametrize("goal", SOME, ids=[goal.id for goal in SOME])
async def test_constrained_plans_run(opened: Callable[..., LocalModel], goal) -> None:
    model = opened(context=2048)
    made = await MODES["compile"](model, goal)
    truth = score(goal, made.text)
    assert (truth.parsed, truth.known, truth.valid) == (True, True, True), (truth.why, made.text)
    assert made.input_tokens > 200


async def test_card_with_longest_example_is_at_most_350_model_tokens(
    opened: Callable[..., LocalModel],
) -> None:
    model = opened(context=2048)

    async def tokens(text: str) -> int:
        said = await model.complete([{"role": "user", "content": text}], max_tokens=1)
        return said.usage.input_tokens

    frame = await tokens("x") - 1
    longest = max(EXAMPLES, key=lambda example: estimate_tokens(example.plan))
    told = f"{CARD}\n{longest.goal}\n{longest.plan}"
    counted = await tokens(told) - frame
    assert counted <= 350
    assert counted <= estimate_tokens(told)
