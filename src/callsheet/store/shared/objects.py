"""Bytes by their hash in an object store that speaks the protocol of Amazon S3.

In: `s3://BUCKET/PREFIX`; keys, region and another server's address come from the environment, as they do for
all programs that use such a store (`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL` …). Out: bytes, or OSError.
"""

from __future__ import annotations

import obstore
from obstore.exceptions import BaseError
from obstore.store import from_url

from callsheet.store.blobs import BlobMissing
from callsheet.store.shared.blobs import checked


class ObjectBlobs:
    """A store in a bucket."""

    def __init__(self, address: str) -> None:
        self._address = address
        try:
            self._store = from_url(address)
        except (BaseError, ValueError) as error:
            raise self._wrong(error) from error

    def put(self, digest: str, data: bytes) -> None:
        """Keep bytes; the store acknowledges them when they are durable."""
        try:
            if not self._is_there(digest):
                obstore.put(self._store, digest, data)
        except (BaseError, FileNotFoundError) as error:  # a bucket that is not there is a file not found
            raise self._wrong(error) from error

    def _is_there(self, digest: str) -> bool:
        try:
            obstore.head(self._store, digest)
        except FileNotFoundError:
            return False
        return True

    def get(self, digest: str) -> bytes:
        """The bytes of a digest, checked."""
        try:
            data = bytes(obstore.get(self._store, digest).bytes())
        except FileNotFoundError:
            raise BlobMissing(f"blob {digest} is not in {self._address}") from None
        except BaseError as error:
            raise self._wrong(error) from error
        return checked(digest, data, self._address)

    def _wrong(self, error: Exception) -> OSError:
        said = " ".join(str(error).split())[:300]
        return OSError(0, f"the store at {self._address} cannot be used: {said}")
