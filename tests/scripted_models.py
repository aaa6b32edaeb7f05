"""Language models with fixed answers that record their requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from callsheet.ports.models.model import Completion, Constraint, ModelFailed, Strength, Syntax, Usage
from callsheet.ports.models.prompts import Messages

Answer = str | Completion | ModelFailed


@dataclass
class Scripted:
    """Returns answers in order, then the last one repeatedly; raises failures."""

    answers: Sequence[Answer]
    accepts: Sequence[Syntax] = ()
    name: str = "scripted:model"
    strength: Strength = Strength.STRONG
    asked: list[Messages] = field(default_factory=list[Messages])
    constraints: list[Constraint | None] = field(default_factory=list[Constraint | None])

    async def complete(
        self, messages: Messages, constraint: Constraint | None = None, *, max_tokens: int | None = None
    ) -> Completion:
        self.asked.append([dict(message) for message in messages])
        self.constraints.append(constraint)
        answer = self.answers[min(len(self.asked), len(self.answers)) - 1]
        if isinstance(answer, ModelFailed):
            raise answer
        if isinstance(answer, Completion):
            return answer
        used = Usage(100, 10, cost=0.5, seconds=2.0)
        return Completion(answer, used, model=self.name, constrained=constraint is not None)
