"""What programs read in a text before they look for links: entities decoded, unseen characters left out.

In: a text as it is written. Out: the text as it is read. Pure; linear.
"""

from __future__ import annotations

import re
from html import unescape

_SOFT = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    r"\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e0fff]"
    r"|\\(?=[!-/:-@\[-`{-~])"
)
"""What programs leave out: control and zero-width characters, a backslash before punctuation."""
_OTHER_DOT = re.compile(r"(?<=[a-z\d])[\u3002\uff0e\uff61](?=[a-z\d])", re.I)
"""A full stop of another script, which parts names of hosts as a dot does; elsewhere it ends a sentence."""


def as_read(text: str, *, has_entities: bool = True) -> str:
    r"""A text as it is read; entities are decoded if it may have some.

    >>> as_read("https&#58;\\//c\u200b.example/")
    'https://c.example/'
    """
    plain = _SOFT.sub("", unescape(text) if has_entities else text)
    return plain if plain.isascii() else _OTHER_DOT.sub(".", plain)
