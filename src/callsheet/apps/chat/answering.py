"""The history of a conversation, and the plan that answers the next message.

In: exchanges, a message. Out: texts. A message is answered by a run of its own, whose one step is an agent,
or a question to the model where nothing can be called: so it is counted, judged, recorded and explained.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import NamedTuple

MAX_TURNS = 12
"""How often a model is asked about one message, at most."""
MAX_SAID = 8_000
"""Characters of what was said before that a model is told; the oldest goes first."""


class Exchange(NamedTuple):
    """A message and what was answered."""

    message: str
    answer: str
    saw_data: bool = False
    """Whether tools were called for the answer."""


def transcript(exchanges: Sequence[Exchange], most: int = MAX_SAID) -> str:
    """What was said before as one text, the newest exchanges that fit.

    >>> print(transcript([Exchange("a" * 90, "b"), Exchange("who?", "Ada")], most=40))
    User: who?
    You: Ada
    """
    kept: list[str] = []
    room = most
    for exchange in reversed(exchanges):
        text = f"User: {exchange.message}\nYou: {exchange.answer}"
        if len(text) > room:
            break
        kept.append(text)
        room -= len(text)
    return "\n".join(reversed(kept))


def answering_plan(tools: Iterable[str], turns: int = MAX_TURNS, *, has_past: bool) -> str:
    """The plan that answers `$message`, with what `$said` tells of before where there is any.

    >>> print(answering_plan(["READ_FILE"], has_past=False).splitlines()[2])
    S1: @AGENT_SOLVE (goal=$message, tools=["read_file"], max_turns=12) > $answer
    >>> print(answering_plan([], has_past=False).splitlines()[2])
    S1: @LLM_GENERATE (format=$message) > $answer
    """
    names = json.dumps([name.lower() for name in tools])
    prefix = "$said, " if has_past else ""
    if names == "[]":
        return _plan(f"S1: @LLM_GENERATE ({prefix}format=$message) > $answer")
    return _plan(f"S1: @AGENT_SOLVE ({prefix}goal=$message, tools={names}, max_turns={turns}) > $answer")


def _plan(step: str) -> str:
    return (
        "# goal: Answer what is said in a conversation\n"
        "PLAN_START\n"
        f"{step}\n"
        "S2: @RESPOND ($answer)\n"
        "PLAN_END\n"
    )
