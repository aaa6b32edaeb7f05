"""The history of a conversation, and the plan that answers the next message.

In: exchanges, tools. Out: texts. Each message is answered by a run with one step: an agent, or a model call
if there are no tools. So budgets, policies, the journal and `show` apply to it as to any run.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import NamedTuple

MAX_TURNS = 12
"""The maximum number of model calls for one message."""
MAX_SAID = 8_000
"""The maximum length of the history in a prompt, in characters; the oldest exchanges are dropped."""


class Exchange(NamedTuple):
    """A message and its answer."""

    message: str
    answer: str
    saw_data: bool = False
    """Whether tools were called for the answer."""


def transcript(exchanges: Sequence[Exchange], most: int = MAX_SAID) -> str:
    """The history as one text: the newest exchanges that fit in `most` characters.

    Further lines of a message or an answer are indented, so that none reads as the beginning of another.

    >>> print(transcript([Exchange("a" * 90, "b"), Exchange("who?", "Ada")], most=40))
    User: who?
    You: Ada
    """
    newest: list[str] = []
    room = most
    for exchange in reversed(exchanges):
        text = f"User: {_indented(exchange.message)}\nYou: {_indented(exchange.answer)}"
        if len(text) > room:
            break
        newest.append(text)
        room -= len(text)
    return "\n".join(reversed(newest))


def _indented(text: str) -> str:
    return "\n  ".join(text.splitlines())


def answering_plan(tools: Iterable[str], turns: int = MAX_TURNS, *, has_past: bool) -> str:
    """The text of the plan that answers `$message`; with `has_past`, `$said` is the history.

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
        f"# goal: Answer a message in a conversation\nPLAN_START\n{step}\nS2: @RESPOND ($answer)\nPLAN_END\n"
    )
