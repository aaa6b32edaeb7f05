"""Stores blobs by digest in an S3-compatible object store.

In: `s3://BUCKET/PREFIX`; keys, region and endpoint come from the usual environment variables
(`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL` …). Out: bytes, or OSError.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, cast
from uuid import uuid4

import obstore
from obstore.exceptions import BaseError
from obstore.store import from_url

from callsheet.store.blobs import BlobMissing
from callsheet.store.shared.blobs import DIGEST, SIGNS, YOUNG, Stored, checked

if TYPE_CHECKING:
    from obstore import ObjectMeta

    _List = Callable[[object, str | None], Iterable[list[ObjectMeta]]]
_MARKS = "removing"
"""The prefix of the marks of objects that are being removed."""
_MARK_SECONDS = 300.0
"""The age from which a mark does not count any more, since its process has died."""
_PAUSE = 0.2
"""Seconds between two looks at the marks of an object."""


class ObjectBlobs:
    """A store in a bucket."""

    def __init__(self, address: str) -> None:
        self._address = address
        try:
            self._store = from_url(address)
        except (BaseError, ValueError) as error:
            raise self._wrong(error) from error

    def put(self, digest: str, data: bytes) -> None:
        """Store bytes; the object store acknowledges them when they are durable.

        An object store deletes unconditionally, so a process that removes the object at this moment is waited
        for, and the object is put again if it is gone then.
        """
        try:
            age = self._age(digest)
            if age is not None and age < YOUNG:
                return
            obstore.put(self._store, digest, data)
            while self._is_being_removed(digest) or self._age(digest) is None:
                time.sleep(_PAUSE)
                if self._age(digest) is None:
                    obstore.put(self._store, digest, data)
        except (BaseError, FileNotFoundError) as error:  # a bucket that is not there is a file not found
            raise self._wrong(error) from error

    def _is_being_removed(self, digest: str) -> bool:
        """Whether a process is removing an object, by the marks that were put a short time ago."""
        return any(_since(mark) < _MARK_SECONDS for mark in self._listed(f"{_MARKS}/{digest}"))

    def _age(self, name: str) -> float | None:
        """The seconds since an object was put; None if there is none."""
        try:
            return _since(obstore.head(self._store, name))
        except FileNotFoundError:
            return None

    def get(self, digest: str) -> bytes:
        """The bytes of a blob, verified."""
        try:
            data = bytes(obstore.get(self._store, digest).bytes())
        except FileNotFoundError:
            raise BlobMissing(f"blob {digest} is not in {self._address}") from None
        except BaseError as error:
            raise self._wrong(error) from error
        return checked(digest, data, self._address)

    def stored(self) -> Iterator[Stored]:
        """The objects whose names are digests."""
        try:
            for meta in self._listed():
                if DIGEST.fullmatch(meta["path"]):
                    yield Stored(meta["path"], meta["size"], _since(meta))
        except (BaseError, FileNotFoundError) as error:
            raise self._wrong(error) from error

    def remove(self, digest: str, age: float) -> bool:
        """Remove an object, marked as being removed from before the check of its age until it is gone."""
        mark, started = f"{_MARKS}/{digest}/{uuid4().hex}", time.monotonic()
        try:
            obstore.put(self._store, mark, b"")
            try:
                blob_age = self._age(digest)
                if blob_age is not None and blob_age < age:
                    return False
                if time.monotonic() - started > _MARK_SECONDS / 2:
                    return False  # the mark may not count any more when the object is gone
                self._delete(digest)
            finally:
                self._delete(mark)
        except (BaseError, FileNotFoundError) as error:
            raise self._wrong(error) from error
        return True

    def tidy(self) -> None:
        """Remove the marks of processes that died while they removed an object."""
        try:
            for mark in [found["path"] for found in self._listed(_MARKS) if _since(found) >= YOUNG]:
                self._delete(mark)
        except (BaseError, FileNotFoundError) as error:
            raise self._wrong(error) from error

    def _delete(self, name: str) -> None:
        with suppress(FileNotFoundError):
            obstore.delete(self._store, name)

    def sign(self, name: str, content: bytes) -> None:
        """Record a user, in an object whose name is no digest."""
        place = f"{SIGNS}/{name}"
        try:
            age = self._age(place)
            if age is None or age >= YOUNG:
                obstore.put(self._store, place, content)
        except (BaseError, FileNotFoundError) as error:
            raise self._wrong(error) from error

    def signs(self) -> dict[str, bytes]:
        """The contents of the objects, without those that another process removes meanwhile."""
        signs: dict[str, bytes] = {}
        try:
            for path in sorted(found["path"] for found in self._listed(SIGNS)):
                with suppress(FileNotFoundError):
                    signs[path.partition("/")[2]] = bytes(obstore.get(self._store, path).bytes())
        except (BaseError, FileNotFoundError) as error:
            raise self._wrong(error) from error
        return signs

    def unsign(self, name: str) -> None:
        """Remove the object."""
        try:
            self._delete(f"{SIGNS}/{name}")
        except BaseError as error:
            raise self._wrong(error) from error

    def _listed(self, prefix: str | None = None) -> Iterator[ObjectMeta]:
        listed = cast("_List", obstore.list)  # pyright: ignore[reportUnknownMemberType] - it may be of Arrow
        for page in listed(self._store, prefix):
            yield from page

    def _wrong(self, error: Exception) -> OSError:
        summary = " ".join(str(error).split())[:300]
        return OSError(0, f"the store at {self._address} cannot be used: {summary}")


def _since(meta: ObjectMeta) -> float:
    return (datetime.now(UTC) - meta["last_modified"]).total_seconds()
