"""The claim check: payloads too large for a history are stored as blobs, addressed by their hash.

In: payloads. Out: the same, with large ones replaced by tickets (SHA-256 and size), and all of them encrypted
if requested. Readers of a history get the original payloads back. Blobs are immutable, so writing one twice
is harmless; a blob is durable before its ticket is handed out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from hashlib import sha256
from typing import Self

from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    ActivitySerializationContext,
    PayloadCodec,
    SerializationContext,
    WithSerializationContext,
    WorkflowSerializationContext,
)

from callsheet.runtime.engines.temporal.sealing import Boxes
from callsheet.store.shared.blobs import Blobs

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
