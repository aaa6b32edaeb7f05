"""Computes the changes from one viewer document of a run to the next: new and changed rows and parts.

In: documents as JSON data. Out: a small fingerprint of each (`Print`), and from two fingerprints and the
later document the changes for a viewer that has the earlier one: `{"set": [[path, value]],
"rows": [[path, length, [[place, row]]]], "texts": [[path, line, count, lines]]}`. Paths are lists of keys,
the rows of a table are at `[…, "rows"]`, and `lines` replace `count` lines of a long text from `line` on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, TypeAlias, cast

Path: TypeAlias = "tuple[str, ...]"
Print: TypeAlias = "Mapping[Path, bytes | tuple[bytes, ...]]"
"""A fingerprint: by path the hash of a part, the hashes of a list's rows, or of a long text's lines."""

_BYTES = 8
_LONG = 1_000
"""A text of more characters is compared line by line."""
_TEXT = b"a text"
"""The first entry of a text's hashes; shorter than the hash of a row, so that it cannot be one."""
_DEEPEST = 3
"""The maximum depth at which objects are compared by parts; deeper ones are compared as a whole."""


def print_of(document: Mapping[str, Any]) -> Print:
    """Returns the fingerprint of a document."""
    digests: dict[Path, bytes | tuple[bytes, ...]] = {}
    _collect((), document, digests)
    return digests


def name_of(of: Print) -> str:
    """Returns a name for a fingerprint, which differs for different documents."""
    encoded = blake2b(digest_size=16)
    for path, hashes in sorted(of.items()):
        encoded.update("\0".join(path).encode())
        encoded.update(hashes if isinstance(hashes, bytes) else b"".join(hashes))
    return encoded.hexdigest()


def changes(before: Print, after: Print, document: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the changes from the document of `before` to `document`, whose fingerprint is `after`."""
    put: list[tuple[Path, Any]] = []
    rows: list[Any] = []
    texts: list[Any] = []
    for path, hashes in after.items():
        if before.get(path) == hashes or any(path[: len(above)] == above for above, _ in put):
            continue
        old, new = before.get(path), _at(document, path)
        if isinstance(hashes, bytes) or not isinstance(old, tuple) or _is_text(old) != _is_text(hashes):
            put.append((path, new))
            continue
        if _is_text(hashes):
            texts.append([list(path), *_changed_lines(old[1:], hashes[1:], new)])
            continue
        same = min(len(old), len(hashes))
        others = [n for n in range(len(hashes)) if n >= same or old[n] != hashes[n]]
        rows.append([list(path), len(hashes), [[n, new[n]] for n in others]])
    return {"set": [[list(path), value] for path, value in put], "rows": rows, "texts": texts}


def _is_text(hashes: tuple[bytes, ...]) -> bool:
    return hashes[:1] == (_TEXT,)


def _changed_lines(old: tuple[bytes, ...], new: tuple[bytes, ...], text: str) -> tuple[int, int, list[str]]:
    """Returns the first changed line, the number of lines to remove, and the lines that replace them."""
    most, begins, ends = min(len(old), len(new)), 0, 0
    while begins < most and old[begins] == new[begins]:
        begins += 1
    while ends < most - begins and old[-1 - ends] == new[-1 - ends]:
        ends += 1
    lines = text.split("\n")
    return begins, len(old) - begins - ends, lines[begins : len(lines) - ends]


def _collect(path: Path, value: Any, digests: dict[Path, bytes | tuple[bytes, ...]]) -> None:
    if isinstance(value, list | tuple):
        digests[path] = tuple(map(_hash, cast("Sequence[Any]", value)))
    elif isinstance(value, str) and len(value) > _LONG:
        digests[path] = (_TEXT, *map(_hash, value.split("\n")))
    elif isinstance(value, dict) and len(path) < _DEEPEST:
        table = cast("dict[str, Any]", value)
        digests[path] = _hash(sorted(table))
        for key, part in table.items():
            _collect((*path, key), part, digests)
    else:
        digests[path] = _hash(value)


def _hash(value: Any) -> bytes:
    encoded = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return blake2b(encoded.encode("utf-8", "surrogatepass"), digest_size=_BYTES).digest()


def _at(document: Mapping[str, Any], path: Path) -> Any:
    value: Any = document
    for key in path:
        value = value[key]
    return value
