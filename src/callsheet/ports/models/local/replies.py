"""Turns the local server's responses into a Completion or ModelFailed."""

from __future__ import annotations

import json
from typing import Any, cast

from callsheet.ports.models.model import Completion, Constraint, Failure, ModelFailed, Stop, Usage, count_in

_EXCERPT = 300
_TOO_LONG = "exceed_context_size_error"
_OF_GRAMMARS = ("grammar", "sampler", "schema", "unable to generate parser")


def completion(text: str, seconds: float, model: str) -> Completion:
    """The completion in the body of a successful response; raises ModelFailed (MALFORMED, EMPTY)."""
    try:
        data: Any = json.loads(text)
        choice = data["choices"][0]
        content: Any = choice["message"].get("content")
        usage = cast("dict[str, Any]", data.get("usage") or {})
        details = cast("dict[str, Any]", usage.get("prompt_tokens_details") or {})
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise ModelFailed(Failure.MALFORMED, f"{model}: its answer is not a chat completion") from error
    if content is not None and not isinstance(content, str):
        raise ModelFailed(Failure.MALFORMED, f"{model}: its answer is not text")
    if not content or not content.strip():
        raise ModelFailed(Failure.EMPTY, f"{model} returned an empty answer")
    return Completion(
        content,
        Usage(
            input_tokens=count_in(usage.get("prompt_tokens")),
            output_tokens=count_in(usage.get("completion_tokens")),
            cached_tokens=count_in(details.get("cached_tokens")),
            cost=0.0,
            seconds=seconds,
        ),
        Stop.LENGTH if choice.get("finish_reason") == "length" else Stop.END,
        model,
    )


def refusal(status: int, text: str, constraint: Constraint | None, model: str) -> ModelFailed:
    """The failure for a response with a status of 400 or more."""
    kind, message = _error(text)
    if kind == _TOO_LONG:
        return ModelFailed(Failure.REQUEST, f"{model}: the conversation is too long: {message}")
    if constraint is not None and any(word in message.lower() for word in _OF_GRAMMARS):
        where = f"the constraint {constraint.name!r} ({constraint.syntax})"
        return ModelFailed(Failure.CONSTRAINT, f"{model} does not accept {where}: {message}")
    failure = Failure.OVERLOADED if status >= 500 else Failure.REQUEST
    return ModelFailed(failure, f"{model} answered with status {status}: {message}")


def _error(text: str) -> tuple[str, str]:
    """The type and message of an error; if it has none, an empty type and the beginning of the body."""
    try:
        error: Any = json.loads(text)["error"]
        return str(error.get("type", "")), str(error["message"])[:_EXCERPT]
    except (ValueError, LookupError, TypeError, AttributeError):
        return "", " ".join(text.split())[:_EXCERPT]
