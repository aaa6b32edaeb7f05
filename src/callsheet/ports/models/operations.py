"""Carries out the model operations of a plan with a function that completes conversations.

In: a CallModel command. Out: the checked answer as a value, or ToolFailed; and remarks on the prompt's
version, what was cut, and whether the model was asked again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from callsheet.ir import JSON
from callsheet.machine import CallModel, Fact
from callsheet.machine.agents.allowance import MAX_ROUNDS
from callsheet.machine.agents.talk import IN_ROUNDS, next_round
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.ports.models.checks import categories_of, checked, reminder, without_marks
from callsheet.ports.models.model import Completion, Stop
from callsheet.ports.models.prompts import MAX_CHARACTERS, Messages, Prompt, asked_again, prompt_for


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
