"""Normalises text as rendering programs read it: entities decoded, invisible characters removed.

In: a text as written. Out: the text as read. Pure; linear.
"""

from __future__ import annotations

import re
from html import unescape

_SOFT = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    r"\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e0fff]"
    r"|\\(?=[!-/:-@\[-`{-~])"
)
"""What renderers drop: control and zero-width characters, and a backslash before punctuation."""
_OTHER_DOT = re.compile(r"(?<=[a-z\d])[\u3002\uff0e\uff61](?=[a-z\d])", re.I)
"""Full stops of other scripts between letters or digits, which separate host labels like a dot."""


def as_read(text: str, *, has_entities: bool = True) -> str:
    r"""A text as it is read; entities are decoded unless `has_entities` is false.

    >>> as_read("https&#58;\\//c\u200b.example/")
    'https://c.example/'
    """
    plain = _SOFT.sub("", unescape(text) if has_entities else text)
    return plain if plain.isascii() else _OTHER_DOT.sub(".", plain)
