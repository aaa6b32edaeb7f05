"""The operations that a model may be asked in rounds, and what a round is asked beside the one before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from callsheet.ir import JSON

REFINE = "SELF_REFINE"
IN_ROUNDS = frozenset({REFINE, "AGENT_CRITIQUE", "CONSENSUS"})
"""Those that take `rounds`; each round is a question and an answer of its own."""
EARLIER = "earlier"
"""The argument that tells a round of a critique or a consensus what the round before came to."""


def next_round(
    tool: str, inputs: list[JSON], args: Mapping[str, Any], answer: JSON
) -> tuple[list[JSON], dict[str, Any]]:
    """What the next round is asked: inputs and arguments, after this answer of the one before.

    A refinement goes on with the text that it has; a critique and a consensus are held against the texts.

    >>> next_round("SELF_REFINE", ["a", "b"], {"rounds": 2}, "better")
    (['better', 'b'], {})
    >>> next_round("CONSENSUS", ["a", "b"], {"rounds": 2}, "both")
    (['a', 'b'], {'earlier': 'both'})
    """
    plain = {name: value for name, value in args.items() if name != "rounds"}
    if tool == REFINE:
        return [answer, *inputs[1:]], plain
    return inputs, {**plain, EARLIER: answer}
