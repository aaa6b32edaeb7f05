"""Carries out the model operations of a plan with a function that completes conversations.

In: a CallModel command. Out: the checked answer as a value, or ToolFailed; and remarks on the prompt's
version, what was cut, and whether the model was asked again.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from callsheet import lazy
from callsheet.ir import JSON
from callsheet.machine import CallModel, Fact, to_text
from callsheet.machine.agents.actions import IN_ROUNDS, MAX_ROUNDS
from callsheet.machine.agents.talk import next_round
from callsheet.machine.forecasting import ModelUse
from callsheet.machine.values import parse_json
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.ports.models.model import Completion, Stop
from callsheet.ports.models.prompts import (
    MAX_CHARACTERS,
    NOT_FOUND,
    OPERATIONS,
    Messages,
    Prompt,
    asked_again,
    asks_for_json,
    prompt_for,
)

_AROUND = " \t\r\n.!*`\"'“”‘’[]()<>"
_LABEL = lazy.pattern(
    r"(?:the\s+)?(?:answer|result|category|condition|verdict)\s*(?:is\b|[:=])\s*", re.IGNORECASE
)
_TRUE = frozenset({"true", "yes"})
_FALSE = frozenset({"false", "no"})
_VERDICT = lazy.pattern(r"\W*(true|false|yes|no)(?:\W*[.,;:!(\n–—]|\W*\s-)", re.IGNORECASE)
_FENCED = lazy.pattern(r"```[^\n`]{0,40}\n(.*?)\n?[ \t]*```", re.DOTALL)
_MOST_STARTS = 100
"""The most places in an answer at which JSON is searched for, which bounds the time for "[[[[…"."""


def checked(command: CallModel, answer: str) -> str | None:
    """The answer in the form that its operation promises; None if it does not have it."""
    match command.tool:
        case "LLM_EVALUATE":
            return _verdict(answer)
        case "LLM_CLASSIFY":
            categories = categories_of(command)
            return (answer or None) if categories is None else _category(answer, categories)
        case "LLM_EXTRACT" if _folded(answer) in ("", _folded(NOT_FOUND)):
            return ""
        case _:
            return json_text(answer) if asks_for_json(command.args) else answer or None


def reminder(command: CallModel) -> str:
    """The instruction for a second attempt, after an answer in the wrong form."""
    if command.tool == "LLM_EVALUATE":
        return "Answer with exactly one of: TRUE, FALSE"
    categories = categories_of(command) if command.tool == "LLM_CLASSIFY" else None
    if categories:
        return f"Answer with exactly one of: {', '.join(categories)}"
    return "Answer with JSON alone." if asks_for_json(command.args) else "The answer must not be empty."


def categories_of(command: CallModel) -> tuple[str, ...] | None:
    """The categories as texts, without duplicates; None if the step gives none.

    A string may be a JSON list or separated by commas; the keys of a dict count.
    """
    if "categories" not in command.args:
        return None
    given: Any = command.args["categories"]
    if isinstance(given, str):
        is_json, parsed = parse_json(given)
        given = parsed if is_json and isinstance(parsed, list | dict) else given.split(",")
    items = list(cast("list[Any]", given)) if isinstance(given, list | dict) else [given]
    texts = (to_text(category).strip() for category in items)
    return tuple(dict.fromkeys(text for text in texts if text))


def _category(answer: str, categories: tuple[str, ...]) -> str | None:
    """The category that an answer names: as a whole, or in its first or last line."""
    text = answer.strip()
    if text in categories:
        return text
    by_fold: dict[str, str] = {}
    for category in categories:
        by_fold.setdefault(_folded(category), category)
    return next((by_fold[fold] for fold in _readings(text) if fold in by_fold), None)


def _verdict(answer: str) -> str | None:
    """TRUE or FALSE, as the answer says; None if it says neither or both."""
    for fold in _readings(answer):
        if fold in _TRUE or fold in _FALSE:
            return "TRUE" if fold in _TRUE else "FALSE"
    begins = _VERDICT.match(answer)
    if begins is None:
        return None
    word = "TRUE" if begins.group(1).casefold() in _TRUE else "FALSE"
    other = "FALSE" if word == "TRUE" else "TRUE"
    return None if re.search(rf"\b{other}\b", answer, re.IGNORECASE) else word


def _readings(answer: str) -> list[str]:
    """The answer, its first and its last line, without a label and surrounding punctuation."""
    lines = [line for line in answer.splitlines() if line.strip()]
    texts = [answer, *lines[:1], *lines[-1:]]
    return [_folded(_LABEL.sub("", text.strip(_AROUND), count=1)) for text in texts]


def _folded(text: str) -> str:
    """A text for comparison: without case, surrounding punctuation, and differences of white space."""
    return " ".join(text.strip(_AROUND).casefold().replace("_", " ").replace("-", " ").split())


def json_text(answer: str) -> str | None:
    """The JSON text in an answer: all of it, that in a fence, or the longest list or object in prose.

    >>> json_text('Here:\\n```json\\n{"a": 1}\\n```'), json_text("[1, 2] are the numbers"), json_text("no")
    ('{"a": 1}', '[1, 2]', None)
    """
    stripped = answer.strip()
    if parse_json(stripped)[0]:
        return stripped
    for fenced in _FENCED.findall(answer):
        if parse_json(fenced.strip())[0]:
            return fenced.strip()
    return max(_values_in(answer), key=len, default=None)


def _values_in(text: str) -> list[str]:
    """The outermost JSON lists and objects in a text."""
    decoder, values, at = json.JSONDecoder(), list[str](), 0
    for _ in range(_MOST_STARTS):
        start = min((n for n in (text.find("{", at), text.find("[", at)) if n >= 0), default=-1)
        if start < 0:
            break
        try:
            _, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            at = start + 1
            continue
        if parse_json(text[start:end])[0]:
            values.append(text[start:end])
        at = end
    return values


def without_marks(answer: str, mark: str) -> str:
    """An answer without the marks of the prompt, which some models repeat."""
    for name in (mark, f"{mark} 1"):
        if answer.startswith(f"<{name}>") and answer.endswith(f"</{name}>"):
            return answer[len(name) + 2 : -len(name) - 3].strip()
    return answer


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """An answer with its usage: tokens, and the cost in the unit of `Limits(max_cost=…)`."""

    text: str
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0


Complete: TypeAlias = "Callable[[Messages], Awaitable[object]]"
"""Asks a model to continue a conversation; returns its text, a ModelAnswer or a Completion."""

MAX_ANSWER = 2_000_000
"""The most characters of an answer; a longer one is a failure, since a part of it would be no answer."""
_EXCERPT = 200


class ModelOperations:
    """The model port of a run.

    With `strict`, an answer must have the form that its operation promises (a category of the list, TRUE or
    FALSE, JSON, not empty): otherwise the model is asked once more, and then the step fails. Without it, each
    operation is one request and its answer is accepted as it is. `max_characters` limits each input or
    argument in a prompt.
    """

    def __init__(
        self, complete: Complete, *, strict: bool = True, max_characters: int = MAX_CHARACTERS
    ) -> None:
        if max_characters < 1:
            raise ValueError("max_characters must be at least 1")
        self._complete = complete
        self._strict = strict
        self._most = max_characters

    async def __call__(self, command: CallModel, context: CallContext) -> JSON:
        """Carry out one operation; raises ToolFailed if there is no acceptable answer."""
        if self._strict and command.tool == "LLM_CLASSIFY" and categories_of(command) == ():
            raise ToolFailed("@LLM_CLASSIFY: categories is empty, so no answer can be one of them")
        if command.tool not in IN_ROUNDS:
            return await self._carry_out(command, context)
        args = dict(command.args)
        rounds = rounds_of(command.tool, args.pop("rounds", 1))
        model_command = command._replace(args=args)
        value: JSON = await self._carry_out(model_command, context)
        for _ in range(rounds - 1):
            inputs, extra = next_round(model_command.tool, model_command.inputs, args, value)
            model_command = model_command._replace(inputs=inputs, args=extra)
            value = await self._carry_out(model_command, context)
        return value

    async def _carry_out(self, command: CallModel, context: CallContext) -> str:
        """Send the prompt, and once more if the answer does not have the promised form."""
        prompt = prompt_for(command.tool, command.inputs, command.args, self._most)
        context.remark(*(remark for remark in prompt.remarks if remark not in context.remarks))
        answer = await self._ask(prompt, prompt.messages, context)
        value = checked(command, answer)
        if value is not None or not self._strict:
            return answer if value is None else value
        context.remark(Fact("asked again", f"the first answer was {_excerpt(answer)}"))
        answer = await self._ask(prompt, asked_again(prompt, answer, reminder(command)), context)
        value = checked(command, answer)
        if value is None:
            raise ToolFailed(
                f"@{command.tool}: the model's answer does not have the requested form: {_excerpt(answer)}"
            )
        return value

    async def _ask(self, prompt: Prompt, messages: Messages, context: CallContext) -> str:
        answer = text_of(await self._complete(messages), context)
        if not isinstance(answer, str):
            raise ToolFailed(f"the model answered with {type(answer).__name__} instead of text")
        if len(answer) > MAX_ANSWER:
            raise ToolFailed(f"the model's answer is longer than {MAX_ANSWER:,} characters")
        return without_marks(answer.strip(), prompt.mark)


def text_of(answer: object, context: CallContext) -> object:
    """The text of an answer; its usage and model are reported to the call's context."""
    if isinstance(answer, Completion):
        report(answer, context)
        return answer.text
    if not isinstance(answer, ModelAnswer):
        return answer
    context.spend(input_tokens=answer.input_tokens, output_tokens=answer.output_tokens, cost=answer.cost)
    return answer.text


def report(answer: Completion, context: CallContext) -> None:
    """Report the usage and the model of an answer to the call's context, and whether it may be truncated."""
    used = answer.usage
    context.spend(
        input_tokens=used.input_tokens,
        output_tokens=used.output_tokens,
        cost=used.cost,
        cached_tokens=used.cached_tokens,
        requests=used.tries,
        seconds=used.seconds,
    )
    facts = [Fact("model", answer.model)] if answer.model else []
    if answer.stop is Stop.LENGTH:
        facts.append(
            Fact("answer", f"it reached its limit of {used.output_tokens:,} tokens and may be truncated")
        )
    context.remark(*(fact for fact in facts if fact not in context.remarks))


def _excerpt(answer: str) -> str:
    return repr(answer) if len(answer) <= _EXCERPT else f"{answer[:_EXCERPT]!r}…"


def rounds_of(tool: str, value: Any) -> int:
    """The number of rounds of an operation, at least 1; raises ToolFailed if it is invalid or too large."""
    try:
        rounds = max(1, int(float(value)))
    except (TypeError, ValueError, OverflowError):
        raise ToolFailed(f"@{tool}: rounds is {value!r}, not a number") from None
    if rounds > MAX_ROUNDS:
        raise ToolFailed(f"@{tool}: rounds is {rounds}; at most {MAX_ROUNDS} are allowed")
    return rounds


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
