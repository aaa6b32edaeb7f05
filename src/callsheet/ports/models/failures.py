"""Classifies the errors of model providers, and turns them into diagnostics.

Pure. No text here contains a key: what the provider says is truncated, and keys in it are removed.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, cast

from callsheet import lazy
from callsheet.diagnostics import CallsheetError, Diagnostic, Severity
from callsheet.ports.models.model import Failure, ModelFailed

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
