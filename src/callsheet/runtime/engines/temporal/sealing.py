"""Payloads that nobody reads without a key: what goes to a server, and beside it, as boxes.

In: bytes. Out: a box of them, and the bytes again for who has the key. It is the key that journals are sealed
with; whoever starts, drives or looks at a run has to have it.
"""

from __future__ import annotations

from collections import OrderedDict

from callsheet.sealing.keys import Keys, NotOpened

_MARK = b"\x00callsheet sealed "
_END = b"\n"
_MOST_KNOWN = 10_000
"""So many workflows are known to be in boxes; of one that goes on, boxes come again and again."""


class Boxes:
    """Makes boxes, and opens those that are some; it `seals` all, or what is of runs that came in boxes."""

    def __init__(self, keys: Keys, *, seals: bool) -> None:
        self._keys = keys
        self._seals_all = seals
        self._sealed: OrderedDict[str, None] = OrderedDict()

    def seals(self, workflow: str) -> bool:
        """Whether what is of a workflow goes into boxes."""
        return self._seals_all or workflow in self._sealed

    def came(self, workflow: str) -> None:
        """A box of a workflow has come: whoever has begun it wants all of it in boxes."""
        if workflow:
            self._sealed[workflow] = None
            self._sealed.move_to_end(workflow)
            if len(self._sealed) > _MOST_KNOWN:
                self._sealed.popitem(last=False)

    @staticmethod
    def is_box(data: bytes) -> bool:
        """Whether bytes are a box."""
        return data.startswith(_MARK)

    def put(self, data: bytes) -> bytes:
        """The box of bytes; raises CallsheetError without a key."""
        key = self._keys().sealing
        return _MARK + key.name.encode() + _END + key.seal(data).encode()

    def take(self, data: bytes) -> bytes:
        """The bytes of a box, or what is none; raises NotOpened for a box of another key."""
        if not self.is_box(data):
            return data
        name, _, box = data.removeprefix(_MARK).partition(_END)
        ring = self._keys()
        key = ring.opening.get(name.decode())
        if key is None:
            raise NotOpened(
                f"it was encrypted with the key {name.decode()}, and here is {', '.join(ring.opening)}"
            )
        return key.open(box.decode())
