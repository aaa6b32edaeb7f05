"""Converts values to payloads of a history: JSON, encrypted if requested, large ones as tickets for blobs.

In: values, or payloads. Out: payloads for the server, and the values again for readers of a history. JSON
preserves the order of keys. The key of encryption is the one that seals journals; whoever starts, drives or
looks at a run needs it. Payloads too large for a history are stored as blobs, addressed by their hash
(SHA-256). Blobs are immutable, so writing one twice is harmless; a blob is durable before its ticket is
handed out.
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Self

from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    ActivitySerializationContext,
    CompositePayloadConverter,
    DataConverter,
    EncodingPayloadConverter,
    PayloadCodec,
    SerializationContext,
    WithSerializationContext,
    WorkflowSerializationContext,
)

from callsheet.sealing.keys import Keys, NotOpened
from callsheet.store.shared.blobs import Blobs

_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode


class OrderedJson(EncodingPayloadConverter):
    """JSON as the journal writes it, without sorting keys, so that a plan sees the same text."""

    @property
    def encoding(self) -> str:
        """The encoding's name, which other tools read as JSON."""
        return "json/plain"

    def to_payload(self, value: Any) -> Payload:
        """The payload of JSON data; raises ValueError or TypeError for anything else."""
        data = _encode(value).encode("utf-8", "surrogatepass")
        return Payload(metadata={"encoding": self.encoding.encode()}, data=data)

    def from_payload(self, payload: Payload, type_hint: type | None = None) -> Any:
        """The data of a payload."""
        del type_hint
        return json.loads(payload.data.decode("utf-8", "surrogatepass"))


class Conversion(CompositePayloadConverter):
    """The payload converter: all data in a history is JSON."""

    def __init__(self) -> None:
        super().__init__(OrderedJson())


def conversion(codec: PayloadCodec | None = None) -> DataConverter:
    """The data converter; `codec` transforms the payloads' bytes."""
    return DataConverter(payload_converter_class=Conversion, payload_codec=codec)


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


LIMIT = 64 * 1024
"""The largest payload, in bytes, that is kept in a history itself."""
_TICKET = b"callsheet/blob"
_BOX = b"callsheet/sealed"
_DIGEST, _SIZE, _WAS = "sha256", "size", "was"


class ClaimCheck(PayloadCodec, WithSerializationContext):
    """A codec that moves large payloads into a blob store and encrypts payloads if there are `boxes`.

    `workflow` is the id of the payloads' workflow if known: a workflow that began encrypted stays so.
    """

    def __init__(
        self, blobs: Blobs, limit: int = LIMIT, boxes: Boxes | None = None, workflow: str = ""
    ) -> None:
        self.blobs = blobs
        """The store of large payloads."""
        self._boxes = boxes
        self._limit = limit
        self._workflow = workflow

    def with_context(self, context: SerializationContext) -> Self:
        """The same for payloads of the workflow in the context."""
        if isinstance(context, WorkflowSerializationContext | ActivitySerializationContext):
            return self.of(context.workflow_id or "")
        return self

    def of(self, workflow: str) -> Self:
        """The same for payloads of a workflow."""
        return type(self)(self.blobs, self._limit, self._boxes, workflow)

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """The payloads, large ones as tickets. Raises OSError if the store cannot be written."""
        return [await self._checked_in(payload) for payload in payloads]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """The original payloads. Raises BlobMissing or OSError if one cannot be fetched."""
        return [await self._fetched(payload) for payload in payloads]

    async def store_bytes(self, data: bytes) -> str:
        """Store bytes and return their digest. Raises OSError if the store cannot be written."""
        return await asyncio.to_thread(self._store_bytes, data)

    def _store_bytes(self, data: bytes) -> str:
        boxes = self._boxes
        content = data if boxes is None or not boxes.seals(self._workflow) else boxes.encrypt(data)
        digest = sha256(content).hexdigest()
        self.blobs.put(digest, content)
        return digest

    async def fetch(self, digest: str) -> bytes:
        """Stored bytes by their digest. Raises BlobMissing or OSError if they cannot be fetched, and
        NotOpened if they were encrypted with another key.
        """
        content = await asyncio.to_thread(self.blobs.get, digest)
        return content if self._boxes is None else await asyncio.to_thread(self._taken, self._boxes, content)

    def _taken(self, boxes: Boxes, content: bytes) -> bytes:
        if boxes.is_box(content):
            boxes.note_sealed(self._workflow)
        return boxes.decrypt(content)

    async def _checked_in(self, payload: Payload) -> Payload:
        if payload.metadata.get("encoding") in (_BOX, _TICKET):
            return payload  # already encoded: a result, by its activity
        if len(payload.data) <= self._limit:
            if self._boxes is None or not self._boxes.seals(self._workflow):
                return payload
            data = {"encoding": _BOX, _WAS: payload.metadata["encoding"]}
            return Payload(metadata=data, data=self._boxes.encrypt(payload.data))
        digest = await self.store_bytes(payload.data)
        ticket = {
            "encoding": _TICKET,
            _DIGEST: digest.encode(),
            _SIZE: b"%d" % len(payload.data),
            _WAS: payload.metadata["encoding"],
        }
        return Payload(metadata=ticket)

    async def _fetched(self, payload: Payload) -> Payload:
        metadata = payload.metadata
        if metadata.get("encoding") == _BOX and self._boxes is not None:
            return Payload(metadata={"encoding": metadata[_WAS]}, data=self._taken(self._boxes, payload.data))
        if metadata.get("encoding") != _TICKET:
            return payload
        data = await self.fetch(metadata[_DIGEST].decode())
        return Payload(metadata={"encoding": metadata[_WAS]}, data=data)


def ticket_of(payload: Payload) -> str | None:
    """The digest in a ticket; None for any other payload."""
    metadata = payload.metadata
    return metadata[_DIGEST].decode() if metadata.get("encoding") == _TICKET else None
