"""The claim check: payloads that are too large for a history lie in a store of blobs, by their hash.

In: payloads. Out: the same, but for large ones a ticket with the SHA-256 and the size of what lies in the
store. Who reads a history gets the whole again, so that the machine always sees values. A blob never
changes and may be written twice; it is there, on the disk, before the ticket is handed out.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Protocol

from temporalio.api.common.v1 import Payload
from temporalio.converter import PayloadCodec

LIMIT = 64 * 1024
"""Bytes of a payload that stands in a history itself."""
_TICKET = b"callsheet/blob"
_DIGEST, _SIZE, _WAS = "sha256", "size", "was"


class BlobLost(Exception):
    """A blob is not in the store, or is not what was put there."""


class Blobs(Protocol):
    """A store of bytes by their hash, which all workers and clients reach."""

    def put(self, digest: str, data: bytes) -> None:
        """Keep bytes whose SHA-256 is `digest`; they are durable when this returns. Raises OSError."""

    def get(self, digest: str) -> bytes:
        """The bytes of a digest. Raises BlobLost where they are not there, OSError where nobody can tell."""
        ...


class FileBlobs:
    """A store in a folder: on one machine, or on a file system that all machines share."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, digest: str, data: bytes) -> None:
        """Keep bytes: written beside their place, synced and moved there, so that nobody sees a part."""
        place = self._place(digest)
        if place.exists():
            return
        place.parent.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile(dir=place.parent, prefix=".new-", delete=False) as file:
            try:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
                os.replace(file.name, place)
            except BaseException:
                Path(file.name).unlink(missing_ok=True)
                raise
        _sync_folder(place.parent)

    def get(self, digest: str) -> bytes:
        """The bytes of a digest, checked."""
        try:
            data = self._place(digest).read_bytes()
        except FileNotFoundError:
            raise BlobLost(f"blob {digest} is not in {self._folder}") from None
        if sha256(data).hexdigest() != digest:
            raise BlobLost(f"blob {digest} in {self._folder} is not what was put there")
        return data

    def _place(self, digest: str) -> Path:
        return self._folder / digest[:2] / digest[2:]


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class ClaimCheck(PayloadCodec):
    """Puts large payloads into a store and fetches them again; small ones pass."""

    def __init__(self, blobs: Blobs, limit: int = LIMIT) -> None:
        self._blobs = blobs
        self._limit = limit

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """The payloads, large ones as tickets. Raises OSError where the store cannot be written."""
        return [await self._checked_in(payload) for payload in payloads]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """The payloads as they were. Raises BlobLost, or OSError, where one cannot be fetched."""
        return [await self._fetched(payload) for payload in payloads]

    async def _checked_in(self, payload: Payload) -> Payload:
        if len(payload.data) <= self._limit:
            return payload
        digest = sha256(payload.data).hexdigest()
        await asyncio.to_thread(self._blobs.put, digest, payload.data)
        ticket = {
            "encoding": _TICKET,
            _DIGEST: digest.encode(),
            _SIZE: b"%d" % len(payload.data),
            _WAS: payload.metadata["encoding"],
        }
        return Payload(metadata=ticket)

    async def _fetched(self, payload: Payload) -> Payload:
        told = payload.metadata
        if told.get("encoding") != _TICKET:
            return payload
        data = await asyncio.to_thread(self._blobs.get, told[_DIGEST].decode())
        return Payload(metadata={"encoding": told[_WAS]}, data=data)
