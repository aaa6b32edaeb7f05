"""Encrypts payloads and blobs for a Temporal server.

In: bytes. Out: an encrypted box, and the bytes again for holders of the key. The key is the one that seals
journals; whoever starts, drives or looks at a run needs it.
"""

from __future__ import annotations

from collections import OrderedDict

from callsheet.sealing.keys import Keys, NotOpened

_MARK = b"\x00callsheet sealed "
_END = b"\n"
_MOST_KNOWN = 10_000
"""Maximum number of workflows remembered as encrypted; an active one is remembered again with its next box.
"""


class Boxes:
    """Makes and opens boxes; with `seals` for all workflows, else only for those that began encrypted."""

    def __init__(self, keys: Keys, *, seals: bool) -> None:
        self._keys = keys
        self._seals_all = seals
        self._sealed: OrderedDict[str, None] = OrderedDict()

    def seals(self, workflow: str) -> bool:
        """Whether a workflow's payloads are encrypted."""
        return self._seals_all or workflow in self._sealed

    def note_sealed(self, workflow: str) -> None:
        """Remember a workflow that sent a box: whoever started it wants all of it encrypted."""
        if workflow:
            self._sealed[workflow] = None
            self._sealed.move_to_end(workflow)
            if len(self._sealed) > _MOST_KNOWN:
                self._sealed.popitem(last=False)

    @staticmethod
    def is_box(data: bytes) -> bool:
        """Whether bytes are a box."""
        return data.startswith(_MARK)

    def encrypt(self, data: bytes) -> bytes:
        """Encrypt bytes; raises CallsheetError without a key."""
        key = self._keys().sealing
        return _MARK + key.name.encode() + _END + key.seal(data).encode()

    def decrypt(self, data: bytes) -> bytes:
        """Decrypt a box, and return other bytes unchanged; raises NotOpened for a box of another key."""
        if not self.is_box(data):
            return data
        name, _, box = data.removeprefix(_MARK).partition(_END)
        ring = self._keys()
        key = ring.opening.get(name.decode())
        if key is None:
            raise NotOpened(
                f"it was encrypted with the key {name.decode()}; available are {', '.join(ring.opening)}"
            )
        return key.open(box.decode())
