"""Removes the blobs that nobody needs any more from a store that machines share.

In: a store, what is needed, and an age. Out: what was removed. What was put within that age stays, as who put
it may not have said yet what for.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from callsheet.store.shared.blobs import Blobs


class Swept(NamedTuple):
    """What was removed, or would be: digests and their bytes; and how many stay as needed, and as young."""

    removed: tuple[str, ...]
    bytes: int
    needed: int
    young: int


def sweep(blobs: Blobs, needed: Collection[str], age: float, *, dry_run: bool) -> Swept:
    """Remove all that is not `needed` and was not put within `age` seconds. Raises OSError."""
    removed, size, kept, young = list[str](), 0, 0, 0
    for found in blobs.stored():
        if found.digest in needed:
            kept += 1
        elif found.age >= age and (dry_run or blobs.remove(found.digest, age)):
            removed.append(found.digest)
            size += found.size
        else:
            young += 1
    return Swept(tuple(removed), size, kept, young)
