"""The letters of other scripts that look like Latin ones."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

_ALIKE = {
    "A": "\u0391\u0410", "B": "\u0392\u0412\u0432", "C": "\u0421\u03f9", "E": "\u0395\u0415", "F": "\u03dc",
    "H": "\u0397\u041d\u043d", "I": "\u0399\u0406\u04c0", "J": "\u0408", "K": "\u039a\u041a",
    "M": "\u039c\u041c\u043c", "N": "\u039d", "O": "\u039f\u041e\u0555", "P": "\u03a1\u0420",
    "S": "\u0405\u054f", "T": "\u03a4\u0422\u0442", "X": "\u03a7\u0425", "Y": "\u03a5\u0423", "Z": "\u0396",
    "a": "\u0251\u03b1\u0430", "c": "\u0441\u1d04", "d": "\u0501", "e": "\u0435", "f": "\u0192",
    "g": "\u0261\u0581", "h": "\u04bb\u0570", "i": "\u0131\u0456\u03b9", "j": "\u0458", "k": "\u03ba\u043a",
    "l": "\u04cf", "n": "\u0578", "o": "\u03bf\u043e\u0585\u1d0f", "p": "\u03c1\u0440", "q": "\u051b",
    "s": "\u0455", "u": "\u03c5\u057d", "v": "\u03bd\u1d20", "w": "\u051d", "x": "\u0445", "y": "\u0443",
    "z": "\u1d22",
}  # fmt: skip
LATIN_OF: Mapping[str, str] = MappingProxyType(
    {other: latin for latin, others in _ALIKE.items() for other in others}
)
"""Cyrillic, Greek, Armenian and phonetic letters, each with the Latin letter that it looks like."""
