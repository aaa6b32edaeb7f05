"""Carries out the model operations of a plan over a function that completes a conversation.

In: a CallModel command. Out: the checked answer as a value, or ToolFailed.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from callsheet.ir import JSON
from callsheet.machine import CallModel, to_text
from callsheet.ports.models.prompts import Messages, messages_for
from callsheet.ports.tools import ToolFailed

Complete: TypeAlias = "Callable[[Messages], Awaitable[object]]"
"""Asks a model to go on with a conversation and gives its text."""

MAX_ROUNDS = 20
_TRUE = ("TRUE", "YES")
_VERDICT = re.compile(
    r"\W*(TRUE|FALSE|YES|NO)(?:\W*$|\W*[\n.,;:!*)(\u2013\u2014]| - )", re.IGNORECASE | re.ASCII
)
"""The first word of an answer, alone or with a stop behind it: `True, because …`, but not `No data`."""


class ModelOperations:
    """The model port of a run.

    `strict` holds answers to what the operation promises (a category of the list, TRUE or
    FALSE): an answer that is not is asked for once more, then the step fails. Without it each
    operation is one call, and an answer stands as it came.
    """

    def __init__(self, complete: Complete, *, strict: bool = True) -> None:
        self._complete = complete
        self._strict = strict

    async def __call__(self, command: CallModel) -> JSON:
        """Carry out one operation; raises ToolFailed for an answer that is none."""
        if command.tool == "SELF_REFINE":
            return await self._refine(command)
        messages = messages_for(command.tool, command.inputs, command.args)
        answer = await self._ask(messages)
        checked = _checked(command, answer)
        if checked is not None or not self._strict:
            return answer if checked is None else checked
        again = [*messages, {"role": "assistant", "content": answer}, _reminder(command)]
        checked = _checked(command, await self._ask(again))
        if checked is None:
            raise ToolFailed(
                f"@{command.tool}: the model's answer is not one of those asked for: {answer[:200]!r}"
            )
        return checked

    async def _refine(self, command: CallModel) -> JSON:
        args = dict(command.args)
        rounds = _rounds(args.pop("rounds", 1))
        inputs = list(command.inputs)
        for _ in range(rounds):
            answer = await self._ask(messages_for("SELF_REFINE", inputs, args))
            inputs = [answer, *inputs[1:]]
        return inputs[0] if inputs else ""

    async def _ask(self, messages: Messages) -> str:
        answer = await self._complete(messages)
        if not isinstance(answer, str):
            raise ToolFailed(f"the model answered with {type(answer).__name__} instead of text")
        return answer.strip()


def _rounds(value: Any) -> int:
    """How often a text is refined: once at least; a number out of reach is refused, not cut."""
    try:
        rounds = max(1, int(float(value)))
    except (TypeError, ValueError, OverflowError):
        raise ToolFailed(f"@SELF_REFINE: rounds is {value!r}, not a number") from None
    if rounds > MAX_ROUNDS:
        raise ToolFailed(f"@SELF_REFINE: rounds is {rounds}; at most {MAX_ROUNDS} are made")
    return rounds


def _categories(command: CallModel) -> list[str]:
    """The categories as texts; a text of them is separated by commas."""
    given = command.args.get("categories")
    if isinstance(given, str):
        given = given.split(",")
    return [to_text(c).strip() for c in given] if isinstance(given, list) else []  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


def _checked(command: CallModel, answer: str) -> str | None:
    """The answer in its promised form; None if it does not have it."""
    if command.tool == "LLM_EVALUATE":
        said = _VERDICT.match(answer)
        return None if said is None else "TRUE" if said[1].upper() in _TRUE else "FALSE"
    if command.tool == "LLM_CLASSIFY":
        categories = _categories(command)
        if not categories:
            return answer
        said = answer.strip(" .!*`\"'\n").casefold()
        return next((c for c in categories if c.casefold() == said), None)
    return answer


def _reminder(command: CallModel) -> dict[str, str]:
    wanted = "TRUE or FALSE" if command.tool == "LLM_EVALUATE" else ", ".join(_categories(command))
    return {"role": "user", "content": f"Answer with exactly one of: {wanted}"}
