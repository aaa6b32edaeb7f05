"""Adapts whatever a user gives as a model to `LanguageModel`, which can be asked for plans.

In: `provider:model`, a LanguageModel, a function from prompt to answer, a ChatModel. Out: a LanguageModel;
None for an OperationModel, which takes no conversations.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from callsheet.api.models import ChatModel, Model, OperationModel, called, completing
from callsheet.ports.models.model import (
    Completion,
    Constraint,
    Failure,
    LanguageModel,
    ModelFailed,
    Syntax,
    Usage,
)
from callsheet.ports.models.operations import Complete, ModelAnswer
from callsheet.ports.models.prompts import Messages

AnyModel: TypeAlias = "Model | LanguageModel | str"
"""Any form in which a model may be given."""


@dataclass(frozen=True, slots=True)
class FunctionModel:
    """A function from messages to an answer as a language model; it supports no constraint."""

    complete_with: Complete = field(repr=False)
    name: str = "function"

    @property
    def accepts(self) -> Sequence[Syntax]:
        """No constraint."""
        return ()

    async def complete(
        self, messages: Messages, constraint: Constraint | None = None, *, max_tokens: int | None = None
    ) -> Completion:
        """Ask the function; raises ModelFailed for an answer that is not text, and whatever it raises."""
        del max_tokens  # a function limits its answers itself
        if constraint is not None:
            raise ValueError("a function takes no constraint")
        began = time.monotonic()
        answer = await self.complete_with(messages)
        seconds = time.monotonic() - began
        if isinstance(answer, ModelAnswer):
            usage = Usage(answer.input_tokens, answer.output_tokens, cost=answer.cost, seconds=seconds)
            return Completion(answer.text, usage, model=self.name)
        if not isinstance(answer, str):
            raise ModelFailed(Failure.MALFORMED, f"it returned {type(answer).__name__} instead of a text")
        return Completion(answer, Usage(seconds=seconds), model=self.name)


def language_model(given: AnyModel) -> LanguageModel | None:
    """The given model as a LanguageModel, None for an OperationModel.

    Raises CallsheetError (MDL001, …) for an unknown name.
    """
    if isinstance(given, str):
        from callsheet.ports.models.opening import open_model  # noqa: PLC0415 - only where a name is given

        return open_model(given)
    if isinstance(given, ChatModel):
        return FunctionModel(completing(given), _name_of(given.complete))
    if isinstance(given, OperationModel):
        return None
    if isinstance(given, LanguageModel):
        return given
    return FunctionModel(completing(given), _name_of(given))


def asking(function: Callable[[Messages], Any], name: str) -> LanguageModel:
    """A function that takes messages, as a language model."""
    return FunctionModel(lambda messages: called(function, messages), name)


def _name_of(function: object) -> str:
    name = getattr(function, "__name__", None) or type(function).__name__
    return f"function:{str(name).strip('<>')}"
