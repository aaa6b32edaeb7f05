"""A model that says what it was told to: for tests of what asks models.

In: answers, one after another or as a function of the conversation. Out: Completions; what was asked is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from callsheet.diagnostics.wanted import wanted_list
from callsheet.ports.models.model import Completion, Constraint, Failure, ModelFailed, Syntax, Usage
from callsheet.ports.models.prompts import Messages

Said: TypeAlias = "str | Completion | ModelFailed"
"""An answer, or the failure to give one."""
_CHARACTERS_A_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Request:
    """What a scripted model was asked."""

    messages: Messages
    constraint: Constraint | None
    max_tokens: int | None


class ScriptedModel:
    """A model that gives these answers, one a call, or what a function makes of each conversation.

    A text is an answer whose tokens are counted by its length. A ModelFailed is raised. `asked` has the
    requests in their order. When no answer is left, it fails as one that gives an empty answer.

    >>> import asyncio
    >>> model = ScriptedModel(["Paris"])
    >>> asyncio.run(model.complete([{"role": "user", "content": "The capital of France?"}])).text
    'Paris'
    """

    def __init__(
        self,
        answers: Iterable[Said] | Callable[[Messages], Said],
        *,
        accepts: Sequence[Syntax] = (),
        name: str = "scripted",
    ) -> None:
        self._function = answers if callable(answers) else None
        if not callable(answers):
            wanted_list("answers", answers, "answers, or a function")
        self._answers = [] if callable(answers) else list(answers)
        self._accepts = tuple(accepts)
        self._name = name
        self.asked: list[Request] = []

    @property
    def name(self) -> str:
        """What the model was called."""
        return self._name

    @property
    def accepts(self) -> Sequence[Syntax]:
        """The constraints that it says to take; its answers are not held to them."""
        return self._accepts

    async def complete(
        self, messages: Messages, constraint: Constraint | None = None, *, max_tokens: int | None = None
    ) -> Completion:
        """The next answer; raises ModelFailed where that is what the script says."""
        if constraint is not None and constraint.syntax not in self._accepts:
            raise ValueError(f"{self.name} takes no {constraint.syntax}")
        self.asked.append(Request([dict(message) for message in messages], constraint, max_tokens))
        said = self._next(messages)
        if isinstance(said, ModelFailed):
            raise said
        if isinstance(said, Completion):
            return said
        read = sum(len(message["content"]) for message in messages)
        usage = Usage(read // _CHARACTERS_A_TOKEN + 1, len(said) // _CHARACTERS_A_TOKEN + 1, cost=0.0)
        return Completion(said, usage, model=self.name, constrained=constraint is not None)

    def _next(self, messages: Messages) -> Said:
        if self._function is not None:
            return self._function(messages)
        if not self._answers:
            return ModelFailed(Failure.EMPTY, "the script has no further answer", model=self.name)
        return self._answers.pop(0)
