"""The claim check: payloads that are too large for a history lie in a store of blobs, by their hash.

In: payloads. Out: the same, but for large ones a ticket with the SHA-256 and the size of what lies in the
store; and all of them encrypted where that is asked for. Who reads a history gets the whole again, so that
the machine always sees values. A blob never changes and may be written twice; it is there, on the disk,
before the ticket is handed out.
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
"""Bytes of a payload that stands in a history itself."""
_TICKET = b"callsheet/blob"
_BOX = b"callsheet/sealed"
_DIGEST, _SIZE, _WAS = "sha256", "size", "was"


class ClaimCheck(PayloadCodec, WithSerializationContext):
    """Puts large payloads into a store and fetches them again; small ones pass, in boxes if there are any.

    `workflow` is the one that they are of, as far as that is known: what has begun in boxes goes on in them.
    """

    def __init__(
        self, blobs: Blobs, limit: int = LIMIT, boxes: Boxes | None = None, workflow: str = ""
    ) -> None:
        self.blobs = blobs
        """Where large values lie."""
        self._boxes = boxes
        self._limit = limit
        self._workflow = workflow

    def with_context(self, context: SerializationContext) -> Self:
        """The same, for payloads of the workflow that the context names."""
        if isinstance(context, WorkflowSerializationContext | ActivitySerializationContext):
            return self.of(context.workflow_id or "")
        return self

    def of(self, workflow: str) -> Self:
        """The same, for payloads of a workflow."""
        return type(self)(self.blobs, self._limit, self._boxes, workflow)

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """The payloads, large ones as tickets. Raises OSError where the store cannot be written."""
        return [await self._checked_in(payload) for payload in payloads]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """The payloads as they were. Raises BlobMissing, or OSError, where one cannot be fetched."""
        return [await self._fetched(payload) for payload in payloads]

    async def lay_down(self, data: bytes) -> str:
        """Keep bytes and give their SHA-256. Raises OSError where the store cannot be written."""
        return await asyncio.to_thread(self._lay_down, data)

    def _lay_down(self, data: bytes) -> str:
        boxes = self._boxes
        kept = data if boxes is None or not boxes.seals(self._workflow) else boxes.put(data)
        digest = sha256(kept).hexdigest()
        self.blobs.put(digest, kept)
        return digest

    async def fetch(self, digest: str) -> bytes:
        """Bytes that were laid down. Raises BlobMissing, or OSError, where they cannot be fetched, and
        NotOpened where they were encrypted with another key."""
        kept = await asyncio.to_thread(self.blobs.get, digest)
        return kept if self._boxes is None else await asyncio.to_thread(self._taken, self._boxes, kept)

    def _taken(self, boxes: Boxes, kept: bytes) -> bytes:
        if boxes.is_box(kept):
            boxes.came(self._workflow)
        return boxes.take(kept)

    async def _checked_in(self, payload: Payload) -> Payload:
        if payload.metadata.get("encoding") in (_BOX, _TICKET):
            return payload  # a result, which is checked in where it is made
        if len(payload.data) <= self._limit:
            if self._boxes is None or not self._boxes.seals(self._workflow):
                return payload
            told = {"encoding": _BOX, _WAS: payload.metadata["encoding"]}
            return Payload(metadata=told, data=self._boxes.put(payload.data))
        digest = await self.lay_down(payload.data)
        ticket = {
            "encoding": _TICKET,
            _DIGEST: digest.encode(),
            _SIZE: b"%d" % len(payload.data),
            _WAS: payload.metadata["encoding"],
        }
        return Payload(metadata=ticket)

    async def _fetched(self, payload: Payload) -> Payload:
        told = payload.metadata
        if told.get("encoding") == _BOX and self._boxes is not None:
            return Payload(metadata={"encoding": told[_WAS]}, data=self._taken(self._boxes, payload.data))
        if told.get("encoding") != _TICKET:
            return payload
        data = await self.fetch(told[_DIGEST].decode())
        return Payload(metadata={"encoding": told[_WAS]}, data=data)


def ticket_of(payload: Payload) -> str | None:
    """The digest of the blob that a payload stands for; None for one that stands for none."""
    told = payload.metadata
    return told[_DIGEST].decode() if told.get("encoding") == _TICKET else None
