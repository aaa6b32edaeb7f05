"""The interface of a language model: it continues a conversation, or fails; its errors as diagnostics.

In: messages, and a constraint on the answer. Out: a Completion with its usage, or ModelFailed with the kind
of the failure. Providers, local servers, scripts and recordings all implement it.

Pure. No text here contains a key: what the provider says is truncated, and keys in it are removed.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import field
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

from callsheet import lazy
from callsheet.diagnostics import CallsheetError, Diagnostic, Severity
from callsheet.lazy import dataclass

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


async def identify(model: LanguageModel) -> None:
    """Have a model find out what it is, where it can: `strength_of` and `context_of` tell more afterwards.

    A model of a server is asked about by its method `identify`, once; others are as they state.
    """
    if isinstance(model, Identifiable):
        await model.identify()


def context_of(model: LanguageModel) -> int | None:
    """The tokens of a conversation with its answer, if the attribute `context` of a model states them."""
    stated: object = getattr(model, "context", None)
    return count_in(stated) or None


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

    It may have attributes `strength` and `context` as well (`strength_of`, `context_of`), and a method
    `identify` that finds them out.
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


@runtime_checkable
class Identifiable(Protocol):
    """A model that can find out what it is."""

    async def identify(self) -> None:
        """Ask what serves the model, once; nothing is raised where that does not tell."""
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


_EXCERPT = 300
_CONSTRAINT = lazy.pattern(
    r"grammar|response_format|json.?schema|structured.?output|guided|llguidance|\blark\b|gbnf|"
    r"output_config|responseSchema|custom tool",
    re.IGNORECASE,
)
_GRAMMAR = lazy.pattern(r"grammar|llguidance|json.?schema", re.IGNORECASE)
_FILTER = lazy.pattern(r"content.?(?:filter|policy|management)|safety|moderation", re.IGNORECASE)
_QUOTA = lazy.pattern(r"insufficient_quota|exceeded your current quota|billing|credit balance", re.IGNORECASE)

_CODES = {
    Failure.KEY: "MDL003",
    Failure.LIMITED: "MDL004",
    Failure.TIMEOUT: "MDL005",
    Failure.UNREACHABLE: "MDL006",
    Failure.OVERLOADED: "MDL007",
    Failure.REQUEST: "MDL008",
    Failure.CONSTRAINT: "MDL009",
    Failure.REFUSED: "MDL010",
    Failure.EMPTY: "MDL011",
    Failure.MALFORMED: "MDL012",
}
_HINTS = {
    Failure.KEY: "set the provider's key in its environment variable; `key_env` of [model] names another one",
    Failure.LIMITED: "wait a while, or raise the account's limits with the provider",
    Failure.TIMEOUT: "raise `timeout` of [model] in config.toml, or use a faster model",
    Failure.UNREACHABLE: "check that the server runs, and the address of the model",
    Failure.OVERLOADED: "this is a fault of the provider: try again later, or read the server's log",
    Failure.REQUEST: "check the model's name and the length of the input",
    Failure.CONSTRAINT: "set the `kind` of the server in [model], or use another model",
    Failure.REFUSED: "change what is asked, or use another model",
    Failure.EMPTY: "ask again, or use another model",
    Failure.MALFORMED: "check that the address is that of a model, and `kind` of [model]",
}


def diagnose(error: ModelFailed) -> Diagnostic:
    """The diagnostic for a failure of a model: its code, what happened and a way out."""
    return Diagnostic(_CODES[error.kind], Severity.ERROR, in_words(error), help=_HINTS[error.kind])


def in_words(error: ModelFailed) -> str:
    """What happened, and to which model."""
    return f"the model {error.model}: {error}" if error.model else f"the model: {error}"


def as_error(error: ModelFailed) -> CallsheetError:
    """The failure of a model as an exception that commands print."""
    return CallsheetError([diagnose(error)])


def refusal(
    status: int,
    body: str,
    *,
    constrained: bool = False,
    retry_after: float | None = None,
    secrets: Iterable[str] = (),
) -> ModelFailed:
    """The failure that an HTTP status of 400 or more means, with the provider's message.

    `constrained` says whether the answer was to be constrained, `secrets` are texts that no message may
    repeat.
    """
    detail = _error_message(body, secrets)
    message = f"it answered with status {status}" + (f": {detail}" if detail else "")
    kind = _kind(status, body[:10_000], constrained)
    if kind is Failure.LIMITED and (status == 402 or _QUOTA.search(body[:10_000])):
        retry_after = math.inf  # an exhausted quota does not come back by waiting
    return ModelFailed(kind, message, retry_after=retry_after)


def _kind(status: int, body: str, constrained: bool) -> Failure:
    if constrained and status in (400, 422, 501) and _CONSTRAINT.search(body):
        return Failure.CONSTRAINT
    if constrained and status >= 500 and _GRAMMAR.search(body):
        return Failure.CONSTRAINT
    match status:
        case 401 | 403:
            return Failure.REFUSED if _FILTER.search(body) else Failure.KEY
        case 402 | 429:
            return Failure.LIMITED
        case 408 | 504:
            return Failure.TIMEOUT
        case 400 | 422 if _FILTER.search(body):
            return Failure.REFUSED
        case _:
            return Failure.OVERLOADED if status >= 500 else Failure.REQUEST


def words(text: str, secrets: Iterable[str] = ()) -> str:
    """A provider's message on one line, truncated, without secrets."""
    for secret in secrets:
        if secret:
            text = text.replace(secret, "…")
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= _EXCERPT else f"{line[:_EXCERPT]}…"


def _error_message(body: str, secrets: Iterable[str]) -> str:
    """The message in the body of an error, or the body itself, for display."""
    try:
        data: Any = json.loads(body)
    except (ValueError, RecursionError):
        return words(body, secrets)
    return words(message_in(data) or body, secrets)


def message_in(data: object) -> str:
    """The message in a JSON error; empty if there is none.

    >>> message_in({"error": {"message": "no such model"}}), message_in({"detail": "gone"}), message_in([])
    ('no such model', 'gone', '')
    """
    if not isinstance(data, dict):
        return ""
    table = cast("dict[str, Any]", data)
    for name in ("error", "message", "detail"):
        given = table.get(name)
        if isinstance(given, str) and given:
            return given
        if isinstance(given, dict):
            return message_in(cast("object", given)) or json.dumps(given)
    return ""


def seconds_in(header: str | None, now: datetime | None = None) -> float | None:
    """The seconds given by a Retry-After header, as a number or a date; None if it has neither.

    >>> seconds_in("2"), seconds_in("soon")
    (2.0, None)
    """
    if not header:
        return None
    try:
        seconds = float(header)
    except ValueError:
        try:
            from email.utils import parsedate_to_datetime  # noqa: PLC0415 - only for such a header

            until = parsedate_to_datetime(header)
        except (TypeError, ValueError):
            return None
        if until.tzinfo is None:
            until = until.replace(tzinfo=UTC)
        seconds = (until - (now or datetime.now(UTC))).total_seconds()
    return max(0.0, seconds) if math.isfinite(seconds) else None
