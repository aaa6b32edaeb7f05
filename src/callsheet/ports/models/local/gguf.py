"""Reads the header of a GGUF file: the model's name, licence and context length.

In: a path. Out: `Gguf`, or ValueError for an invalid file. Only the key-value pairs before the vocabulary
are read, and all lengths are bounded, so that a damaged file cannot cause large allocations.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
"""The `struct` formats by the file format's numbers of value types."""
_TEXT, _LIST = 8, 9
_MOST_PAIRS = 10_000
_MOST_BYTES = 1 << 20
_VOCABULARY = "tokenizer."


@dataclass(frozen=True, slots=True)
class Gguf:
    """The metadata of a model file; `context` is in tokens, 0 if not given."""

    architecture: str = ""
    title: str = ""
    licence: str = ""
    context: int = 0


def read_gguf(path: Path) -> Gguf:
    """The metadata of a GGUF file; raises ValueError if it is invalid, OSError if it cannot be read."""
    try:
        with path.open("rb") as file:
            pairs = _pairs(file)
    except (struct.error, UnicodeDecodeError, KeyError) as error:
        raise ValueError("its header is damaged or truncated") from error
    architecture = str(pairs.get("general.architecture", ""))
    context = pairs.get(f"{architecture}.context_length", 0)
    return Gguf(
        architecture,
        str(pairs.get("general.name", "")),
        str(pairs.get("general.license", "")),
        int(context) if isinstance(context, (int, float)) else 0,
    )


def _pairs(file: BinaryIO) -> dict[str, object]:
    if file.read(4) != _MAGIC:
        raise ValueError("it does not begin as a GGUF file does")
    (version,) = _unpack(file, "I")
    if version not in _VERSIONS:
        raise ValueError(f"it is of version {version} of the format; {_VERSIONS[-1]} is known")
    _, count = _unpack(file, "QQ")
    pairs: dict[str, object] = {}
    for _ in range(min(count, _MOST_PAIRS)):
        key = _text(file)
        if key.startswith(_VOCABULARY):
            break
        (kind,) = _unpack(file, "I")
        pairs[key] = _value(file, kind)
    return pairs


def _value(file: BinaryIO, kind: int) -> object:
    if kind == _TEXT:
        return _text(file)
    if kind == _LIST:
        inner, count = _unpack(file, "IQ")
        if count > _MOST_BYTES:
            raise ValueError("its header contains a list of unlikely length")
        return [_value(file, inner) for _ in range(count)]
    return _unpack(file, _NUMBERS[kind])[0]


def _text(file: BinaryIO) -> str:
    (length,) = _unpack(file, "Q")
    if length > _MOST_BYTES:
        raise ValueError("its header contains a text of unlikely length")
    return file.read(length).decode("utf-8")


def _unpack(file: BinaryIO, form: str) -> tuple[int, ...]:
    form = f"<{form}"
    return struct.unpack(form, file.read(struct.calcsize(form)))
