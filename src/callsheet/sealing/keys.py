"""The key that values are sealed with, and what is made of it: boxes, and digests that tell equal secrets.

A box is AES-SIV over the value: the same value gives the same box, nobody without the key can read, change or
guess it. A digest is an HMAC, so that a short secret cannot be found by trying.
"""

from __future__ import annotations

import hmac
from base64 import b64decode, b64encode, urlsafe_b64decode
from collections.abc import Callable, Iterable
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESSIV

KEY_BYTES = 32
_USE = b"callsheet: a value of a journal, 1"
_DIGITS = 12
_HEX_DIGITS = 2 * KEY_BYTES


class NotOpened(Exception):
    """A box that this key does not open, or that is none."""


class SealKey:
    """A key of 32 bytes, at work."""

    def __init__(self, secret: bytes) -> None:
        if len(secret) != KEY_BYTES:
            raise ValueError(f"a key has {KEY_BYTES} bytes, and this has {len(secret)}")
        self._secret = secret

    def __repr__(self) -> str:
        return f"SealKey({self.name})"

    @cached_property
    def name(self) -> str:
        """What tells keys apart: 8 hexadecimal digits, of which the key does not follow."""
        return self._made("name").hex()[:8]

    @cached_property
    def pepper(self) -> str:
        """A text that digests of what people are asked are made with."""
        return self._made("questions").hex()

    @cached_property
    def _aead(self) -> AESSIV:
        from cryptography.hazmat.primitives.ciphers.aead import AESSIV  # noqa: PLC0415 - only with secrets

        return AESSIV(self._made("boxes, authentication") + self._made("boxes, encryption"))

    @cached_property
    def _digesting(self) -> bytes:
        return self._made("digests")

    def _made(self, use: str) -> bytes:
        return hmac.digest(self._secret, f"callsheet {use}".encode(), sha256)

    def digest(self, data: bytes) -> str:
        """What shows that two secrets are the same: `k:` and 12 hexadecimal digits."""
        return f"k:{hmac.digest(self._digesting, data, sha256).hex()[:_DIGITS]}"

    def seal(self, data: bytes) -> str:
        """The box of these bytes, as text."""
        return b64encode(self._aead.encrypt(data, [_USE])).decode()

    def open(self, box: str) -> bytes:
        """The bytes of a box; raises NotOpened."""
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - as above

        try:
            return self._aead.decrypt(b64decode(box, validate=True), [_USE])
        except (InvalidTag, ValueError, TypeError) as error:
            raise NotOpened(str(error) or "it does not fit the key") from error


class KeyRing(NamedTuple):
    """The key that seals, and all that open, by name; the first of a file's keys is the one that seals."""

    sealing: SealKey
    opening: dict[str, SealKey]

    @classmethod
    def of(cls, keys: Iterable[SealKey]) -> KeyRing:
        """The ring of these keys; raises ValueError where there is none."""
        held = {key.name: key for key in keys}
        if not held:
            raise ValueError("there is no key in it")
        return cls(next(iter(held.values())), held)


Keys: TypeAlias = "Callable[[], KeyRing]"
"""Gives the keys when they are needed; raises CallsheetError where there are none."""


def read_key(text: str) -> SealKey:
    """The key of a text: 64 hexadecimal digits, or base64 of 32 bytes; raises ValueError."""
    plain = text.strip()
    try:
        if len(plain) == _HEX_DIGITS:
            return SealKey(bytes.fromhex(plain))
        return SealKey(urlsafe_b64decode(plain + "=" * (-len(plain) % 4)))
    except ValueError as error:
        raise ValueError("a key is 64 hexadecimal digits, or base64 of 32 bytes") from error


def key_text(secret: bytes) -> str:
    """The text of a new key, as `read_key` reads it."""
    return secret.hex()
