"""How many tokens a text is for a model, estimated without its tokenizer.

Pure. In: a text. Out: a number that is rather too high than too low for texts of prompts.
"""

from __future__ import annotations

import re

_PIECE = re.compile(r"[A-Za-z]+|[ \t]+|\s|[^\sA-Za-z]")
_LETTERS = 7
"""Letters of a word that one token holds; common words are one token whatever their length."""
_WIDE = 0x0800
"""From here on characters are at times a token of their own and at times two or three."""


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
    if first in " \t":  # a single blank belongs to the word behind it
        return 0 if len(piece) == 1 else 1
    if first.isascii():
        return -(-len(piece) // _LETTERS) if first.isalpha() else 1
    return 3 if ord(first) >= _WIDE else 2
