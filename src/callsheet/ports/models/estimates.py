"""Estimates the model calls and tokens of an operation without calling a model.

In: an operation with its arguments, as far as they are known. Out: the number of calls, and an estimate of
the prompt's tokens from its length.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from callsheet.ir import JSON
from callsheet.machine.agents.allowance import MAX_ROUNDS
from callsheet.machine.agents.talk import IN_ROUNDS
from callsheet.machine.forecasting import ModelUse
from callsheet.ports.calls import ToolFailed
from callsheet.ports.models.operations import rounds_of
from callsheet.ports.models.prompts import OPERATIONS, prompt_for

_CHARACTERS_A_TOKEN = 4
"""A rule of thumb for English; other languages need more tokens."""
_ASKED_TWICE = 2
"""The most requests per call: a second one follows an answer in the wrong form."""


def expected_use(
    tool: str, inputs: Sequence[JSON], arguments: Mapping[str, JSON], is_whole: bool
) -> ModelUse:
    """The calls and prompt tokens of one operation; unknown parts of its arguments are null or missing.

    An agent makes at least one call, and at most `max_turns` if that is a number.

    >>> expected_use("LLM_EVALUATE", ["It rains."], {"condition": "Is it dry?"}, True)
    ModelUse(least=1, most=2, tokens=61, is_whole=True)
    """
    if tool not in OPERATIONS:
        turns = arguments.get("max_turns")
        most = turns if isinstance(turns, int) and not isinstance(turns, bool) and turns > 0 else None
        return ModelUse(1, most, 0, False)
    rounds = (1, 1)
    args = dict(arguments)
    if tool in IN_ROUNDS:
        rounds = _rounds(tool, args)
        args.pop("rounds", None)
    prompt = prompt_for(tool, list(inputs), args)
    characters = sum(len(message["content"]) for message in prompt.messages)
    tokens = math.ceil(characters / _CHARACTERS_A_TOKEN) * rounds[0]
    return ModelUse(rounds[0], rounds[1] * _ASKED_TWICE, tokens, is_whole and rounds[1] == 1)


def _rounds(tool: str, arguments: Mapping[str, JSON]) -> tuple[int, int]:
    """The least and the most rounds of an operation; none if the given number is invalid."""
    given = arguments.get("rounds", 1)
    if given is None:
        return 1, MAX_ROUNDS
    try:
        rounds = rounds_of(tool, given)
    except ToolFailed:
        return 0, 0
    return rounds, rounds
