"""The encryption key, its boxes and digests, and the placeholders that are shown instead of secrets.

A box is AES-SIV over the value: deterministic, authenticated, unreadable without the key. A digest is an
HMAC, so that a short secret cannot be found by brute force without the key.
"""

from __future__ import annotations

import hmac
import json
from base64 import b64decode, b64encode, urlsafe_b64decode
from collections.abc import Callable, Collection, Iterable
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESSIV


KEY_BYTES = 32
_USE = b"callsheet: a value of a journal, 1"
_DIGITS = 12
_HEX_DIGITS = 2 * KEY_BYTES


class NotOpened(Exception):
    """The box is malformed, or this key does not decrypt it."""


class SealKey:
    """A key of 32 bytes. Subkeys for each use are derived from it with HMAC."""

    def __init__(self, secret: bytes) -> None:
        if len(secret) != KEY_BYTES:
            raise ValueError(f"a key has {KEY_BYTES} bytes, but this one has {len(secret)}")
        self._secret = secret

    def __repr__(self) -> str:
        return f"SealKey({self.name})"

    @cached_property
    def name(self) -> str:
        """An identifier of the key: 8 hexadecimal digits derived one-way from it."""
        return self._derive("name").hex()[:8]

    @cached_property
    def pepper(self) -> str:
        """A secret salt for the digests of questions that people are asked."""
        return self._derive("questions").hex()

    @cached_property
    def _aead(self) -> AESSIV:
        from cryptography.hazmat.primitives.ciphers.aead import AESSIV  # noqa: PLC0415 - only with secrets

        return AESSIV(self._derive("boxes, authentication") + self._derive("boxes, encryption"))

    @cached_property
    def _digesting(self) -> bytes:
        return self._derive("digests")

    def _derive(self, use: str) -> bytes:
        return hmac.digest(self._secret, f"callsheet {use}".encode(), sha256)

    def digest(self, data: bytes) -> str:
        """A keyed hash that is equal for equal secrets: `k:` and 12 hexadecimal digits."""
        return f"k:{hmac.digest(self._digesting, data, sha256).hex()[:_DIGITS]}"

    def seal(self, data: bytes, run_id: str = "") -> str:
        """Encrypts these bytes; returns the box as base64, which with a `run_id` is bound to that run."""
        return b64encode(self._aead.encrypt(data, _bound_to(run_id))).decode()

    def open(self, box: str, run_id: str = "") -> bytes:
        """Decrypts a box that was sealed with this `run_id`; raises NotOpened."""
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - as above

        try:
            return self._aead.decrypt(b64decode(box, validate=True), _bound_to(run_id))
        except (InvalidTag, ValueError, TypeError) as error:
            raise NotOpened(str(error) or "it does not fit the key") from error


def _bound_to(run_id: str) -> list[bytes]:
    """The data with which a box is authenticated; boxes of older journals are bound to no run."""
    return [_USE, run_id.encode()] if run_id else [_USE]


class KeyRing(NamedTuple):
    """The key used to encrypt, and all keys that can decrypt, by name."""

    sealing: SealKey
    opening: dict[str, SealKey]

    @classmethod
    def of(cls, keys: Iterable[SealKey]) -> KeyRing:
        """A ring of these keys, of which the first encrypts; raises ValueError if there are none."""
        keys_by_name = {key.name: key for key in keys}
        if not keys_by_name:
            raise ValueError("there is no key in it")
        return cls(next(iter(keys_by_name.values())), keys_by_name)


Keys: TypeAlias = "Callable[[], KeyRing]"
"""Returns the keys when they are needed; raises CallsheetError if there are none."""


def read_key(text: str) -> SealKey:
    """Parses a key: 64 hexadecimal digits, or base64 of 32 bytes; raises ValueError."""
    plain = text.strip()
    try:
        if len(plain) == _HEX_DIGITS:
            return SealKey(bytes.fromhex(plain))
        return SealKey(urlsafe_b64decode(plain + "=" * (-len(plain) % 4)))
    except ValueError as error:
        raise ValueError("a key is 64 hexadecimal digits, or base64 of 32 bytes") from error


def key_text(secret: bytes) -> str:
    """The text of a key, as `read_key` reads it."""
    return secret.hex()


MASK = "[secret]"
"""Shown instead of a secret if there is no key for a digest."""
WITHHELD = "[withheld: computed from a sealed value]"
"""Stands for what a run has computed from a secret, where only the placeholder of the secret is there."""


def kind_of(value: object) -> tuple[str, int]:
    """The kind of a value as a word, and its size: characters, items or entries; 0 for scalars.

    >>> kind_of("abc"), kind_of([1]), kind_of(7)
    (('text', 3), ('list', 1), ('number', 0))
    """
    match value:
        case str():
            return "text", len(value)
        case bool():
            return "truth value", 0
        case int() | float():
            return "number", 0
        case list():
            return "list", len(cast("list[Any]", value))
        case dict():
            return "object", len(cast("dict[str, Any]", value))
        case _:
            return "nothing", 0


_UNITS = {"text": "characters", "list": "items", "object": "entries"}


def bytes_of(value: object) -> bytes:
    """The bytes that are hashed for the digest: a text itself, the JSON text of any other value."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text.encode("utf-8", "surrogatepass")


def placeholder(value: object, key: SealKey) -> str:
    """The placeholder of a secret value.

    >>> placeholder("hunter2", SealKey(bytes(32)))
    '[sealed k:fbbc4bb23d84, text, 7 characters]'
    """
    kind, size = kind_of(value)
    unit = f", {size:,} {_UNITS[kind]}" if kind in _UNITS else ""
    return f"[sealed {key.digest(bytes_of(value))}, {kind}{unit}]"


def is_nothing(value: object) -> bool:
    """Whether a value is empty, so that there is nothing to keep secret."""
    return value is None or (isinstance(value, str | list | dict) and not value)


def veiled(value: object, key: SealKey, names: Collection[str]) -> Any:
    """The value with its leaves replaced by placeholders; lists and entries in `names` keep structure.

    The names are those that the plan uses, so showing them reveals nothing.
    """
    if is_nothing(value):
        return value
    if isinstance(value, list):
        return [veiled(item, key, names) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        entries = cast("dict[str, Any]", value).items()
        visible = {name: veiled(item, key, names) for name, item in entries if name in names}
        if visible:
            return visible
    return placeholder(cast("object", value), key)


def has_placeholder(value: Any) -> bool:
    """Whether a value is, or contains, the placeholder of a sealed value."""
    if isinstance(value, str):
        return "[sealed k:" in value
    if isinstance(value, list):
        return any(map(has_placeholder, cast("list[Any]", value)))
    return isinstance(value, dict) and any(map(has_placeholder, cast("dict[str, Any]", value).values()))
