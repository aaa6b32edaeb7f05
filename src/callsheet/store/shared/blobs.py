"""Bytes by their hash in the shared store."""

from __future__ import annotations

from hashlib import sha256

from callsheet.store.blobs import BlobMissing
from callsheet.store.shared.postgres import PostgresDatabase


class SharedBlobs:
    """Values that are too large for a history, for all machines. A blob never changes."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    def put(self, digest: str, data: bytes) -> None:
        """Keep bytes whose SHA-256 is `digest`; they are durable when this returns. Raises OSError."""
        if self._database.execute("SELECT 1 FROM blob WHERE digest = ?", (digest,)).fetchone() is None:
            self._database.execute(
                "INSERT INTO blob (digest, body) VALUES (?, ?) ON CONFLICT DO NOTHING", (digest, data)
            )

    def get(self, digest: str) -> bytes:
        """The bytes of a digest. Raises BlobMissing where it is not there, OSError where nobody can tell."""
        row = self._database.execute("SELECT body FROM blob WHERE digest = ?", (digest,)).fetchone()
        if row is None:
            raise BlobMissing(f"blob {digest} is not in the shared store")
        data = bytes(row[0])
        if sha256(data).hexdigest() != digest:
            raise BlobMissing(f"blob {digest} of the shared store is not what was put there")
        return data
