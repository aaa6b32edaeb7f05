"""Estimates the number of tokens of a text without a tokenizer.

Pure. In: a text. Out: an estimate that tends to be too high for texts of prompts.
"""

from __future__ import annotations

import re

_PIECE = re.compile(r"[A-Za-z]+|[ \t]+|\s|[^\sA-Za-z]")
_LETTERS = 7
"""Letters per token in a word; common words are one token whatever their length."""
_WIDE = 0x0800
"""From this code point on, a character may take up to three tokens."""


def estimate_tokens(text: str) -> int:
    """An upper estimate of a text's tokens.

    >>> estimate_tokens('S1: @read_file (path="notes.md") > $v1')
    20
    >>> estimate_tokens("")
    0
    """
    return sum(map(_tokens, _PIECE.findall(text)))


def _tokens(piece: str) -> int:
    first = piece[0]
    if first in " \t":  # a single blank is part of the next word's token
        return 0 if len(piece) == 1 else 1
    if first.isascii():
        return -(-len(piece) // _LETTERS) if first.isalpha() else 1
    return 3 if ord(first) >= _WIDE else 2
