"""Reads a streamed response, in which every event shows that the server makes progress.

In: the lines of an event stream. Out: the body of the equivalent response without streaming. The time
limits apply between two events and to the response as a whole.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

WHOLE = 10
"""The time limit of a whole response, as a multiple of the limit between two events."""

_WISHES = {"stream": True, "stream_options": {"include_usage": True}, "return_progress": True}
_DATA = "data:"
_FAULT = "error:"
_END = "[DONE]"


def streamed(body: dict[str, Any]) -> dict[str, Any]:
    """The request with streaming, also of the progress of reading the prompt."""
    return {**body, **_WISHES}


async def gathered(lines: AsyncIterator[str], alive: Callable[[], None]) -> tuple[int, str]:
    """The status and body of a streamed response; `alive` is called for each event.

    If the stream breaks off, the body is empty, which is not a chat completion.
    """
    text: list[str] = []
    usage: Any = None
    finish: Any = None
    is_whole = False
    async for line in lines:
        data, is_fault = _event_data(line)
        if data is None:
            continue
        alive()
        if data == _END:
            is_whole = True
            break
        piece = cast("dict[str, Any]", json.loads(data))
        if is_fault or "error" in piece:
            return _fault(piece)
        usage = piece.get("usage") or usage
        for choice in piece.get("choices") or ():
            finish = choice.get("finish_reason") or finish
            text.append(choice.get("delta", {}).get("content") or "")
    if not is_whole:
        return 200, ""
    message = {"role": "assistant", "content": "".join(text)}
    return 200, json.dumps({"choices": [{"message": message, "finish_reason": finish}], "usage": usage})


def _event_data(line: str) -> tuple[str | None, bool]:
    """The data of an event, and whether it is an error; None for other lines."""
    for mark in (_DATA, _FAULT):
        if line.startswith(mark):
            return line.removeprefix(mark).strip(), mark == _FAULT
    return None, False


def _fault(piece: dict[str, Any]) -> tuple[int, str]:
    """An error within the stream, as the status and body that it would have outside."""
    error: Any = piece.get("error", piece)
    code: Any = cast("dict[str, Any]", error).get("code") if isinstance(error, dict) else None
    return (code if isinstance(code, int) and code >= 400 else 500), json.dumps({"error": error})
