"""Payloads that nobody reads without a key: what goes to a server, and beside it, as boxes.

In: bytes. Out: a box of them, and the bytes again for who has the key. It is the key that journals are sealed
with; whoever starts, drives or looks at a run has to have it.
"""

from __future__ import annotations

from callsheet.sealing.keys import Keys, NotOpened

_MARK = b"\x00callsheet sealed "
_END = b"\n"


class Boxes:
    """Makes boxes where it `seals`, and opens those that are some."""

    def __init__(self, keys: Keys, *, seals: bool) -> None:
        self._keys = keys
        self.seals = seals

    def put(self, data: bytes) -> bytes:
        """The box of bytes, or the bytes where nothing is sealed; raises CallsheetError without a key."""
        if not self.seals:
            return data
        key = self._keys().sealing
        return _MARK + key.name.encode() + _END + key.seal(data).encode()

    def take(self, data: bytes) -> bytes:
        """The bytes of a box, or what is none; raises NotOpened for a box of another key."""
        if not data.startswith(_MARK):
            return data
        name, _, box = data.removeprefix(_MARK).partition(_END)
        ring = self._keys()
        key = ring.opening.get(name.decode())
        if key is None:
            raise NotOpened(
                f"it was encrypted with the key {name.decode()}, and here is {', '.join(ring.opening)}"
            )
        return key.open(box.decode())
