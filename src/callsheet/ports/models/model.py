"""What callsheet asks of a language model: to go on with a conversation, perhaps under a constraint.

In: messages, and what the answer must match. Out: a Completion with what it took, or ModelFailed with
the kind of the failure. Providers, local servers, scripts and recordings are all of this one shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, runtime_checkable

from callsheet.ports.models.prompts import Messages


class Syntax(StrEnum):
    """In what language a constraint is written."""

    LARK = "lark"
    """Lark in llguidance's dialect."""
    GBNF = "gbnf"
    """The grammars of llama.cpp."""
    JSON_SCHEMA = "json_schema"
    """A JSON schema, as JSON text: the answer is JSON that follows it."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """What an answer must match: a text in one syntax, and a short name for it."""

    syntax: Syntax
    text: str
    name: str = "answer"


def count_in(value: object) -> int:
    """A count as a server says it in JSON; 0 for what is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0


@dataclass(frozen=True, slots=True)
class Usage:
    """What an answer took: tokens read, of them from the provider's cache, tokens written, and the cost.

    `cost` is in US dollars, None where nobody knows the price; `seconds` is the time of the call, with
    its waits. `tries` counts the requests that were made for it; what those that failed took is not known.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost: float | None = None
    seconds: float = 0.0
    tries: int = 1


class Stop(StrEnum):
    """Why an answer ends."""

    END = "end"
    LENGTH = "length"
    """It reached the most tokens that were asked for, or the end of the model's context."""


@dataclass(frozen=True, slots=True)
class Completion:
    """An answer: its text, what it took, why it ends, and the model that gave it.

    `constrained` says that it was held to the constraint; without that the constraint was left out, for
    the provider does not take it after all.
    """

    text: str
    usage: Usage = field(default_factory=Usage)
    stop: Stop = Stop.END
    model: str = ""
    constrained: bool = False


@runtime_checkable
class LanguageModel(Protocol):
    """A model that goes on with conversations."""

    @property
    def name(self) -> str:
        """`provider:model`, as it was configured."""
        ...

    @property
    def accepts(self) -> Sequence[Syntax]:
        """The constraints that it holds its answers to, the best first; empty where it takes none."""
        ...

    async def complete(
        self, messages: Messages, constraint: Constraint | None = None, *, max_tokens: int | None = None
    ) -> Completion:
        """Go on with a conversation; raises ModelFailed.

        A constraint in a syntax that the model does not accept is a ValueError. `max_tokens` bounds
        the answer; None leaves it to the model's own settings.
        """
        ...


class Failure(StrEnum):
    """What kept a model from answering; it decides what is tried next and what a person is told."""

    KEY = "key"
    """No key, or one that the provider refuses."""
    LIMITED = "limited"
    """Too many requests or tokens for now."""
    TIMEOUT = "timeout"
    UNREACHABLE = "unreachable"
    """Nobody listens there, or the connection broke, perhaps within an answer."""
    OVERLOADED = "overloaded"
    """The provider's own fault: a status of 500 and above."""
    REQUEST = "request"
    """The provider refuses what it was asked: an unknown model, a context that is too long."""
    CONSTRAINT = "constraint"
    """The provider takes no such constraint."""
    REFUSED = "refused"
    """The model, or a filter before it, will not answer."""
    EMPTY = "empty"
    """An answer without text."""
    MALFORMED = "malformed"
    """An answer that is none by the provider's own format, or one beyond every size."""


class ModelFailed(Exception):
    """A model gave no answer; the text says why, in words for people and without a key."""

    def __init__(
        self, kind: Failure, message: str, *, retry_after: float | None = None, model: str = ""
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.model = model
        """The name of the model, where it is known."""
        self.retry_after = retry_after
        """Seconds to wait before the next try, where the provider said so."""
