"""Computes the changes from one viewer document of a run to the next: new and changed rows and parts.

In: documents as JSON data. Out: a print of each, which is small; from two prints and the later document what
a viewer needs that has the earlier one: `{"set": [[path, value]], "rows": [[path, length, [[place, row]]]],
"texts": [[path, line, count, lines]]}`, where paths are lists of keys, the rows of a table stand at
`[…, "rows"]`, and lines take the place of so many lines of a long text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, TypeAlias, cast

Path: TypeAlias = "tuple[str, ...]"
Print: TypeAlias = "Mapping[Path, bytes | tuple[bytes, ...]]"
"""By path: the hash of a part, or the hashes of the rows of a list, or of the lines of a long text."""

_BYTES = 8
_LONG = 1_000
"""A text of more characters is compared line by line."""
_TEXT = b"a text"
"""Stands before the hashes of lines; no hash of a row is as short."""
_DEEPEST = 3
"""Objects are compared part by part down to here, deeper ones as a whole."""


def print_of(document: Mapping[str, Any]) -> Print:
    """The print of a document."""
    found: dict[Path, bytes | tuple[bytes, ...]] = {}
    _take((), document, found)
    return found


def name_of(of: Print) -> str:
    """The name of a print: another document has another one."""
    told = blake2b(digest_size=16)
    for path, hashes in sorted(of.items()):
        told.update("\0".join(path).encode())
        told.update(hashes if isinstance(hashes, bytes) else b"".join(hashes))
    return told.hexdigest()


def changes(before: Print, after: Print, document: Mapping[str, Any]) -> dict[str, Any]:
    """What makes the document of `after` out of the one of `before`."""
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
            texts.append([list(path), *_other_lines(old[1:], hashes[1:], new)])
            continue
        same = min(len(old), len(hashes))
        others = [n for n in range(len(hashes)) if n >= same or old[n] != hashes[n]]
        rows.append([list(path), len(hashes), [[n, new[n]] for n in others]])
    return {"set": [[list(path), value] for path, value in put], "rows": rows, "texts": texts}


def _is_text(hashes: tuple[bytes, ...]) -> bool:
    return hashes[:1] == (_TEXT,)


def _other_lines(old: tuple[bytes, ...], new: tuple[bytes, ...], text: str) -> tuple[int, int, list[str]]:
    """The first line that is another, how many lines go, and what takes their place."""
    most, begins, ends = min(len(old), len(new)), 0, 0
    while begins < most and old[begins] == new[begins]:
        begins += 1
    while ends < most - begins and old[-1 - ends] == new[-1 - ends]:
        ends += 1
    lines = text.split("\n")
    return begins, len(old) - begins - ends, lines[begins : len(lines) - ends]


def _take(path: Path, value: Any, found: dict[Path, bytes | tuple[bytes, ...]]) -> None:
    if isinstance(value, list | tuple):
        found[path] = tuple(map(_hash, cast("Sequence[Any]", value)))
    elif isinstance(value, str) and len(value) > _LONG:
        found[path] = (_TEXT, *map(_hash, value.split("\n")))
    elif isinstance(value, dict) and len(path) < _DEEPEST:
        table = cast("dict[str, Any]", value)
        found[path] = _hash(sorted(table))
        for key, part in table.items():
            _take((*path, key), part, found)
    else:
        found[path] = _hash(value)


def _hash(value: Any) -> bytes:
    told = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return blake2b(told.encode("utf-8", "surrogatepass"), digest_size=_BYTES).digest()


def _at(document: Mapping[str, Any], path: Path) -> Any:
    value: Any = document
    for key in path:
        value = value[key]
    return value
