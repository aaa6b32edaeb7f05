"""What of a conversation is not read again, so that the same question has the same answer.

A server keeps what it has read, and goes on where a new prompt departs from it. How many tokens it reads at
once then depends on what was asked before, the last digits of its arithmetic on how many it reads at once,
and now and then a word on those. So prompts are read in blocks of a fixed size, and whole blocks alone are
kept: what follows them is read as if it were read for the first time.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from callsheet.ports.models.prompts import Messages

BLOCK = 64
"""Tokens that are read at once; a child process is told the same."""

Post = Callable[[str, Any], Awaitable[tuple[int, str]]]
"""Asks the server at a path; gives the status and the text of its answer."""


def kept_tokens(tokens: Sequence[int], before: Sequence[int]) -> int:
    """How many tokens of a prompt may stay as they were read for the one before: whole blocks, not all.

    >>> kept_tokens(range(200), [*range(150), 7]), kept_tokens(range(128), range(128))
    (128, 64)
    """
    most = min(len(tokens) - 1, len(before))
    common = next((n for n in range(most) if tokens[n] != before[n]), most)
    return max(0, common) // BLOCK * BLOCK


async def cut_back(post: Post, messages: Messages, before: Sequence[int]) -> tuple[list[int], bool]:
    """Have the server keep whole blocks alone of what it has read; `before` are the tokens of that prompt.

    Gives the tokens of the new prompt, and whether anything is kept. Where the server does not tell the
    tokens, nothing is; what is wrong with the conversation it says when it is asked to go on with it.
    """
    tokens = await _tokens(post, messages)
    kept = kept_tokens(tokens, before)
    if not kept:
        return tokens, False
    departs = tokens[kept] - 1 if tokens[kept] else 1  # any token but the one that follows
    cut = {"prompt": [*tokens[:kept], departs], "n_predict": 0, "cache_prompt": True}
    status, _ = await post("/completion", cut)
    return tokens, status < 400


async def _tokens(post: Post, messages: Messages) -> list[int]:
    status, text = await post("/apply-template", {"messages": messages})
    if status >= 400:
        return []
    asked = {"content": json.loads(text)["prompt"], "add_special": True, "parse_special": True}
    status, text = await post("/tokenize", asked)
    return [] if status >= 400 else list(json.loads(text)["tokens"])
