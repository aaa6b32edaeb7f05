"""The ways of compiling that are measured beside each other, each a function from a goal to an answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple, TypeAlias

from benchmarks.compiling.goals import Goal
from benchmarks.compiling.prompts import BARE, DOCUMENTED, conversation

from callsheet.ports.models.model import LanguageModel, ModelFailed

MAX_TOKENS = 400


class Made(NamedTuple):
    """An answer and what it took: tokens read, of them not from the cache, tokens written, calls."""

    text: str
    input_tokens: int = 0
    fresh_tokens: int = 0
    output_tokens: int = 0
    calls: int = 1
    failed: str = ""


Mode: TypeAlias = Callable[[LanguageModel, Goal], Awaitable[Made]]


async def free(model: LanguageModel, goal: Goal) -> Made:
    """The language in words, no example, nothing that holds the answer to it."""
    return await _asked(model, conversation(BARE, goal.tools, goal.goal))


async def documented(model: LanguageModel, goal: Goal) -> Made:
    """Worked examples as the language documents them; nothing holds the answer to it."""
    return await _asked(model, conversation(DOCUMENTED, goal.tools, goal.goal))


async def _asked(model: LanguageModel, messages: list[dict[str, str]]) -> Made:
    try:
        answer = await model.complete(messages, max_tokens=MAX_TOKENS)
    except ModelFailed as error:
        return Made("", failed=f"{error.kind}: {error}")
    usage = answer.usage
    fresh = usage.input_tokens - usage.cached_tokens
    return Made(answer.text, usage.input_tokens, fresh, usage.output_tokens)


MODES: Mapping[str, Mode] = {"free": free, "documented": documented}
