"""Removes unneeded blobs from a shared store.

In: a store, the digests that are needed, an age. Out: what was removed. Younger blobs are kept, as the events
that refer to them may not be written yet.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from callsheet.store.shared.blobs import Blobs


class Swept(NamedTuple):
    """What was removed, or would be: digests and their total bytes; how many are kept as needed or young."""

    removed: tuple[str, ...]
    bytes: int
    needed: int
    young: int


def sweep(blobs: Blobs, needed: Collection[str], age: float, *, dry_run: bool) -> Swept:
    """Remove blobs that are not `needed` and were not put within `age` seconds. Raises OSError.

    What processes left that died while they put or removed a blob goes as well, unless `dry_run`.
    """
    if not dry_run:
        blobs.tidy()
    removed, size, count, young = list[str](), 0, 0, 0
    for blob in blobs.stored():
        if blob.digest in needed:
            count += 1
        elif blob.age >= age and (dry_run or blobs.remove(blob.digest, age)):
            removed.append(blob.digest)
            size += blob.size
        else:
            young += 1
    return Swept(tuple(removed), size, count, young)
