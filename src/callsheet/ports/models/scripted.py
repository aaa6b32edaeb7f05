"""A model with predefined answers, for tests.

In: answers, as a list or as a function of the conversation. Out: Completions; the requests are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from callsheet.diagnostics.wrong_type import wanted_list
from callsheet.ports.models.model import Completion, Constraint, Failure, ModelFailed, Strength, Syntax, Usage
from callsheet.ports.models.prompts import Messages

Said: TypeAlias = "str | Completion | ModelFailed"
"""An answer, or the failure to give one."""
_CHARACTERS_A_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Request:
    """A request to a scripted model."""

    messages: Messages
    constraint: Constraint | None
    max_tokens: int | None


class ScriptedModel:
    """A model that gives these answers, one per call, or those of a function of the conversation.

    A text becomes an answer whose tokens are estimated by its length; a ModelFailed is raised. `asked` has
    the requests in order. Without a further answer, it fails as if the answer were empty.

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
        strength: Strength = Strength.STRONG,
    ) -> None:
        self._function = answers if callable(answers) else None
        if not callable(answers):
            wanted_list("answers", answers, "answers, or a function")
        self._answers = [] if callable(answers) else list(answers)
        self._accepts = tuple(accepts)
        self._name = name
        self._strength = strength
        self.asked: list[Request] = []

    @property
    def name(self) -> str:
        """The name given to the model."""
        return self._name

    @property
    def accepts(self) -> Sequence[Syntax]:
        """The constraint syntaxes that it claims to support; its answers are not checked against them."""
        return self._accepts

    @property
    def strength(self) -> Strength:
        """The strength that it claims to have."""
        return self._strength

    async def complete(
        self, messages: Messages, constraint: Constraint | None = None, *, max_tokens: int | None = None
    ) -> Completion:
        """The next answer; raises ModelFailed if the script says so or has no further answer."""
        if constraint is not None and constraint.syntax not in self._accepts:
            raise ValueError(f"{self.name} does not support {constraint.syntax}")
        self.asked.append(Request([dict(message) for message in messages], constraint, max_tokens))
        answer = self._next(messages)
        if isinstance(answer, ModelFailed):
            raise answer
        if isinstance(answer, Completion):
            return answer
        read = sum(len(message["content"]) for message in messages)
        usage = Usage(read // _CHARACTERS_A_TOKEN + 1, len(answer) // _CHARACTERS_A_TOKEN + 1, cost=0.0)
        return Completion(answer, usage, model=self.name, constrained=constraint is not None)

    def _next(self, messages: Messages) -> Said:
        if self._function is not None:
            return self._function(messages)
        if not self._answers:
            return ModelFailed(Failure.EMPTY, "the script has no further answer", model=self.name)
        return self._answers.pop(0)
