"""Parses the response of a server with OpenAI's chat completions API.

Pure. In: the body of a response. Out: a Completion without its cost, or ModelFailed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, TypeAlias, cast

from callsheet.ports.models.failures import message_in, refusal, words
from callsheet.ports.models.model import Completion, Failure, ModelFailed, Stop, Usage, count_in

_Table: TypeAlias = "dict[str, Any]"


def read_completion(text: str, seconds: float, *, constrained: bool, secrets: Sequence[str]) -> Completion:
    """Parses a chat completion; raises ModelFailed.

    `seconds` is how long the request took, `constrained` whether the answer was constrained, `secrets` are
    texts that no message may repeat.
    """
    try:
        data: object = json.loads(text)
    except (ValueError, RecursionError):
        output = words(text, secrets) or "nothing at all"
        raise ModelFailed(Failure.MALFORMED, f"its answer is not JSON: {output}") from None
    table = _table(data)
    if "choices" not in table and message_in(table):  # some servers report errors with the status 200
        code = count_in(_table(table.get("error")).get("code"))
        if code >= 400:
            raise refusal(code, text, constrained=constrained, secrets=secrets)
        raise ModelFailed(
            Failure.MALFORMED, f"it answered with an error: {words(message_in(table), secrets)}"
        )
    try:
        choice: _Table = table["choices"][0]
        message: _Table = choice["message"]
        output = _content(message.get("content"))
        declined, reason = message.get("refusal"), choice.get("finish_reason")
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise ModelFailed(Failure.MALFORMED, f"its answer is not a chat completion: {error!r}") from error
    if declined or reason == "content_filter":
        why = words(declined, secrets) if isinstance(declined, str) else "a filter blocked its answer"
        raise ModelFailed(Failure.REFUSED, f"it refuses: {why}")
    if not output.strip():
        raise ModelFailed(Failure.EMPTY, _why_empty(message, reason))
    name = table.get("model")
    return Completion(
        output,
        _usage(table, seconds),
        Stop.LENGTH if reason == "length" else Stop.END,
        name if isinstance(name, str) else "",
        constrained=constrained,
    )


def _table(given: object) -> _Table:
    """The value if it is a JSON object, else an empty object."""
    return cast("_Table", given) if isinstance(given, dict) else {}


def _content(given: object) -> str:
    """The text of a message: a string, or the text parts of a list; raises TypeError otherwise."""
    if given is None:
        return ""
    if isinstance(given, str):
        return given
    if isinstance(given, list):
        parts = cast("list[_Table]", given)
        return "".join(str(part.get("text", "")) for part in parts if part.get("type") == "text")
    raise TypeError(f"the content is a {type(given).__name__}")


def _why_empty(message: _Table, reason: object) -> str:
    if message.get("tool_calls"):
        return "it called a tool instead of answering"
    if reason == "length":
        return "it used all its tokens before it came to an answer: raise max_tokens of [model]"
    return "its answer is empty"


def _usage(data: _Table, seconds: float) -> Usage:
    """The usage reported in the response; zero where nothing is reported."""
    used = _table(data.get("usage"))
    read = count_in(used.get("prompt_tokens"))
    cached = count_in(_table(used.get("prompt_tokens_details")).get("cached_tokens"))
    if not cached:  # llama.cpp reports it here
        cached = count_in(_table(data.get("timings")).get("cache_n"))
    return Usage(read, count_in(used.get("completion_tokens")), min(cached, read), seconds=seconds)
