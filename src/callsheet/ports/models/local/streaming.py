"""An answer as the server streams it: piece by piece, and each piece is a sign of life.

In: the lines of a stream of events. Out: the body that the same answer has in one piece. How long a server
may take is counted between its signs of life, and for the answer as a whole.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

WHOLE = 10
"""How many times the time between two signs of life an answer may take as a whole."""

_WISHES = {"stream": True, "stream_options": {"include_usage": True}, "return_progress": True}
_DATA = "data:"
_FAULT = "error:"
_END = "[DONE]"


def streamed(body: dict[str, Any]) -> dict[str, Any]:
    """The same request, to be answered piece by piece, with signs of life while the prompt is read."""
    return {**body, **_WISHES}


async def gathered(lines: AsyncIterator[str], alive: Callable[[], None]) -> tuple[int, str]:
    """The status and body of a streamed answer; `alive` is called at each piece of it.

    A stream without an end marks itself as broken: its body is no chat completion.
    """
    text: list[str] = []
    usage: Any = None
    finish: Any = None
    is_whole = False
    async for line in lines:
        said, is_fault = _said(line)
        if said is None:
            continue
        alive()
        if said == _END:
            is_whole = True
            break
        piece = cast("dict[str, Any]", json.loads(said))
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


def _said(line: str) -> tuple[str | None, bool]:
    """What an event says, and whether it is a fault; None for what is no sign of progress."""
    for mark in (_DATA, _FAULT):
        if line.startswith(mark):
            return line.removeprefix(mark).strip(), mark == _FAULT
    return None, False


def _fault(piece: dict[str, Any]) -> tuple[int, str]:
    """A fault within the stream, as the status and the body that it has outside of one."""
    error: Any = piece.get("error", piece)
    code: Any = cast("dict[str, Any]", error).get("code") if isinstance(error, dict) else None
    return (code if isinstance(code, int) and code >= 400 else 500), json.dumps({"error": error})
