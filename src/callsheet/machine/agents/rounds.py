"""The model operations that take rounds, and how the question of a round follows from the previous answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from callsheet.ir import JSON

REFINE = "SELF_REFINE"
IN_ROUNDS = frozenset({REFINE, "AGENT_CRITIQUE", "CONSENSUS"})
"""The operations that take `rounds`; each round is one question and answer."""
EARLIER = "earlier"
"""The argument that gives a round of a critique or consensus the answer of the round before."""


def next_round(
    tool: str, inputs: list[JSON], args: Mapping[str, Any], answer: JSON
) -> tuple[list[JSON], dict[str, Any]]:
    """The inputs and arguments of the next round, after this answer of the round before.

    A refinement continues with the answer as its text; a critique or consensus gets the same texts again.

    >>> next_round("SELF_REFINE", ["a", "b"], {"rounds": 2}, "better")
    (['better', 'b'], {})
    >>> next_round("CONSENSUS", ["a", "b"], {"rounds": 2}, "both")
    (['a', 'b'], {'earlier': 'both'})
    """
    plain = {name: value for name, value in args.items() if name != "rounds"}
    if tool == REFINE:
        return [answer, *inputs[1:]], plain
    return inputs, {**plain, EARLIER: answer}
