"""The size of the language card, with the tokenizer of a real model."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from callsheet.authoring.compiler.prompt import CARD, EXAMPLES
from callsheet.authoring.compiler.tool_lines import estimate_tokens
from callsheet.ports.models.local import LocalModel

pytestmark = pytest.mark.models


async def test_card_with_longest_example_is_at_most_350_model_tokens(
    opened: Callable[..., LocalModel],
) -> None:
    model = opened(context=1024)

    async def tokens(text: str) -> int:
        said = await model.complete([{"role": "user", "content": text}], max_tokens=1)
        return said.usage.input_tokens

    frame = await tokens("x") - 1
    longest = max(EXAMPLES, key=lambda example: estimate_tokens(example.plan))
    told = f"{CARD}\n{longest.goal}\n{longest.plan}"
    counted = await tokens(told) - frame
    assert counted <= 350
    assert counted <= estimate_tokens(told)
