"""Limits reuse of the server's prompt cache so that the same request always gives the same answer.

A server caches the evaluated prompt and continues where a new prompt differs. The batch sizes then depend
on the previous request, the rounding of floating-point arithmetic depends on the batch sizes, and now and
then a token depends on the rounding. Therefore prompts are evaluated in blocks of a fixed size and only
whole blocks are reused: what follows is evaluated exactly as without a cache.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from callsheet.ports.models.prompts import Messages

BLOCK = 64
"""Tokens evaluated at once; the child process is started with the same number."""

Post = Callable[[str, Any], Awaitable[tuple[int, str]]]
"""Posts to a path of the server; returns the status and text of its response."""


def kept_tokens(tokens: Sequence[int], before: Sequence[int]) -> int:
    """How many tokens of a prompt can be reused from the previous one: whole blocks, and never all tokens.

    >>> kept_tokens(range(200), [*range(150), 7]), kept_tokens(range(128), range(128))
    (128, 64)
    """
    most = min(len(tokens) - 1, len(before))
    common = next((n for n in range(most) if tokens[n] != before[n]), most)
    return max(0, common) // BLOCK * BLOCK


async def cut_back(post: Post, messages: Messages, before: Sequence[int]) -> tuple[list[int], bool]:
    """Cut the server's cache back to whole blocks; `before` are the tokens of the previous prompt.

    Returns the tokens of the new prompt, and whether anything is reused. If the server does not return the
    tokens, nothing is reused; it will report errors in the conversation with the actual request.
    """
    tokens = await _tokens(post, messages)
    common = kept_tokens(tokens, before)
    if not common:
        return tokens, False
    departs = tokens[common] - 1 if tokens[common] else 1  # any token that differs from the actual one
    cut = {"prompt": [*tokens[:common], departs], "n_predict": 0, "cache_prompt": True}
    status, _ = await post("/completion", cut)
    return tokens, status < 400


async def _tokens(post: Post, messages: Messages) -> list[int]:
    status, text = await post("/apply-template", {"messages": messages})
    if status >= 400:
        return []
    request = {"content": json.loads(text)["prompt"], "add_special": True, "parse_special": True}
    status, text = await post("/tokenize", request)
    return [] if status >= 400 else list(json.loads(text)["tokens"])
