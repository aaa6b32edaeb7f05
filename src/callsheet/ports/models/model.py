"""The interface of a language model: continue a conversation, optionally under a constraint.

In: messages, and a constraint on the answer. Out: a Completion with its usage, or ModelFailed with the kind
of the failure. Providers, local servers, scripts and recordings all implement it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from callsheet.ports.models.prompts import Messages


class Syntax(StrEnum):
    """The language in which a constraint is written."""

    LARK = "lark"
    """Lark in llguidance's dialect."""
    GBNF = "gbnf"
    """The grammar format of llama.cpp."""
    JSON_SCHEMA = "json_schema"
    """A JSON schema as JSON text; the answer is JSON that follows it."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """What an answer must match: a text in one of the syntaxes, and a short name for it."""

    syntax: Syntax
    text: str
    name: str = "answer"


class Strength(StrEnum):
    """How much may be left to a model; a setting of `[model]`."""

    SMALL = "small"
    """It writes plans of a few steps, and chooses worse the more tools and fields it is told about."""
    STRONG = "strong"


def strength_of(model: LanguageModel) -> Strength:
    """The strength that a model states in its attribute `strength`; strong if it states none.

    It does not follow from the constraints that a model accepts: those are a property of its server.
    """
    stated: object = getattr(model, "strength", None)
    return stated if isinstance(stated, Strength) else Strength.STRONG


def count_in(value: object) -> int:
    """A count in a server's JSON; 0 if it is not a non-negative integer."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0


@dataclass(frozen=True, slots=True)
class Usage:
    """What an answer used: tokens read, how many of them from the provider's cache, tokens written, cost.

    `cost` is in US dollars, None if unknown; `seconds` is the time of the call including waits. `tries`
    counts the requests made for it; the usage of failed ones is not known.
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
    """It reached the requested limit of tokens, or the end of the model's context."""


@dataclass(frozen=True, slots=True)
class Completion:
    """An answer: its text, its usage, why it ends, and the model that gave it.

    `constrained` says that the constraint was applied; if not, it was left out because the provider does not
    support it.
    """

    text: str
    usage: Usage = field(default_factory=Usage)
    stop: Stop = Stop.END
    model: str = ""
    constrained: bool = False


@runtime_checkable
class LanguageModel(Protocol):
    """A model that continues conversations.

    It may have an attribute `strength` as well (`strength_of`).
    """

    @property
    def name(self) -> str:
        """`provider:model`, as it was configured."""
        ...

    @property
    def accepts(self) -> Sequence[Syntax]:
        """The constraint syntaxes that it supports, the best first; empty if none."""
        ...

    async def complete(
        self, messages: Messages, constraint: Constraint | None = None, *, max_tokens: int | None = None
    ) -> Completion:
        """Continue a conversation; raises ModelFailed.

        Raises ValueError for a constraint in a syntax that the model does not accept. `max_tokens` limits the
        answer; None leaves that to the model's settings.
        """
        ...


class Failure(StrEnum):
    """Why a model gave no answer; decides what is tried next and what a person is told."""

    KEY = "key"
    """No key, or one that the provider rejects."""
    LIMITED = "limited"
    """Too many requests or tokens for now, or the quota is used up."""
    TIMEOUT = "timeout"
    UNREACHABLE = "unreachable"
    """No server there, or the connection broke, perhaps during a response."""
    OVERLOADED = "overloaded"
    """A server error: a status of 500 or more."""
    REQUEST = "request"
    """The provider rejects the request: an unknown model, a context that is too long."""
    CONSTRAINT = "constraint"
    """The provider does not support the constraint."""
    REFUSED = "refused"
    """The model, or a content filter, refuses to answer."""
    EMPTY = "empty"
    """An answer without text."""
    MALFORMED = "malformed"
    """A response that violates the provider's format or is too large."""


class ModelFailed(Exception):
    """A model gave no answer; the text says why, without any key."""

    def __init__(
        self, kind: Failure, message: str, *, retry_after: float | None = None, model: str = ""
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.model = model
        """The name of the model, if known."""
        self.retry_after = retry_after
        """Seconds to wait before the next attempt, if the provider said so."""
