"""The keys that a journal's secrets are sealed with, kept outside the journal in a file or the environment.

In: the user's configuration folder, or CALLSHEET_SEAL_KEY. Out: keys, generated when the first secret is
sealed; or a JournalError that says what is wrong with them. A key file has one key a line: the first one
seals, and all can unseal.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from callsheet.files import sync_folder, user_file
from callsheet.sealing.keys import KEY_BYTES, KeyRing, NotOpened, key_text, read_key
from callsheet.sealing.known import Known
from callsheet.sealing.masking import NAMED, known_by_name
from callsheet.sealing.sealer import DECLARED, SEALED, WrongKey, declared_in, is_sealed, opened, replaced_in
from callsheet.store.errors import JournalError
from callsheet.store.events import Event, EventType, decode_body, encode_body

VARIABLE = "CALLSHEET_SEAL_KEY"
"""The variable with the key itself, as a secret manager passes it; then no file is read."""
FILE_VARIABLE = "CALLSHEET_SEAL_KEY_FILE"
"""The variable with the path of the key file, instead of the one in the configuration folder."""
_MOST_BYTES = 64 * 1024
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class KeyStore:
    """The keys of this user, in the file `path`; by default the environment's, or the user's own."""

    def __init__(self, path: Path | None = None, environ: Mapping[str, str] | None = None) -> None:
        self._environ = os.environ if environ is None else environ
        self._path = path
        self._ring: KeyRing | None = None

    @property
    def path(self) -> Path:
        """The key file, which need not exist."""
        if self._path is None:
            self._path = default_key_file(self._environ)
        return self._path

    def sealing(self) -> KeyRing:
        """The keys to seal with; one is generated if there is none. Raises JournalError (SEC003)."""
        ring = self._found()
        if ring is None:
            try:
                _make(self.path)
            except OSError as error:
                raise _unusable(self.path, f"it cannot be created: {error.strerror or error}") from error
            ring = self._found()
            if ring is None:
                raise _unusable(self.path, "it was removed")
        return ring

    def opening(self) -> KeyRing:
        """The keys to unseal with. Raises JournalError: SEC001 if there is none, SEC003 for a bad file."""
        ring = self._found()
        if ring is None:
            raise JournalError(
                "SEC001",
                f"values of the run are sealed, and their key is missing: there is no {self.path}",
                hint=f"restore the key, or set {VARIABLE}; the run is unchanged",
            )
        return ring

    def _found(self) -> KeyRing | None:
        if self._ring is None:
            given = self._environ.get(VARIABLE)
            self._ring = _read(self.path) if given is None else _given(given)
        return self._ring


def default_key_file(environ: Mapping[str, str]) -> Path:
    """The key file that the environment names, else the one in the user's configuration folder."""
    return user_file(FILE_VARIABLE, "seal.key", environ)


def not_opened(run_id: str, seq: int, error: WrongKey | NotOpened) -> JournalError:
    """The error for an event whose secrets cannot be unsealed (SEC002, SEC004)."""
    if isinstance(error, WrongKey):
        return JournalError(
            "SEC002",
            f"values of run {run_id} were sealed with the key {error.name}, but the available keys are "
            + ", ".join(error.available),
            hint=f"add that key to the file of keys, or set {VARIABLE}; the run is unchanged",
        )
    return JournalError(
        "SEC004",
        f"a sealed value in event {seq} of run {run_id} cannot be opened: {error}",
        hint="restore the journal from a copy: `callsheet runs verify` shows whether it was changed",
    )


def _given(text: str) -> KeyRing:
    try:
        return KeyRing.of([read_key(text)])
    except ValueError as error:
        raise JournalError("SEC003", f"the key in {VARIABLE} cannot be used: {error}", _HOW) from error


_HOW = "create a new one: python3 -c 'import secrets; print(secrets.token_hex(32))'"


def _read(path: Path) -> KeyRing | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unusable(path, f"it cannot be read: {error.strerror}") from error
    with os.fdopen(fd, "rb") as file:
        mode = os.fstat(fd).st_mode
        if not stat.S_ISREG(mode):
            raise _unusable(path, "it is not a plain file")
        if mode & _OTHERS:
            raise _unusable(path, "it is accessible to other users", f"chmod 600 {path}")
        text = file.read(_MOST_BYTES)
    try:
        lines = text.decode("utf-8").splitlines()
        return KeyRing.of([read_key(line) for line in lines if line.strip() and not line.startswith("#")])
    except ValueError as error:
        raise _unusable(path, str(error)) from error


def _make(path: Path) -> None:
    """Create a key file with a new key, atomically; one that another process created meanwhile is kept."""
    missing = [each for each in (path.parent, *path.parent.parents) if not each.exists()]
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    for folder in missing:
        sync_folder(folder.parent)
    text = f"# What the secrets in journals are sealed with. Without it they stay closed.\n{_new_key()}\n"
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.new")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with suppress(FileNotFoundError):
        unfinished.unlink()
    fd = os.open(unfinished, flags, 0o600)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(unfinished, path)
        sync_folder(path.parent)
    finally:
        unfinished.unlink(missing_ok=True)


def _new_key() -> str:
    return key_text(os.urandom(KEY_BYTES))


def _unusable(path: Path, why: str, hint: str | None = None) -> JournalError:
    return JournalError("SEC003", f"the file of keys {path} cannot be used: {why}", hint or _HOW)


_SHORTEST, _LONGEST = 8, 512
"""The range of lengths, in characters, of texts that may be credentials."""


class Unsealer:
    """Unseals the events of one run.

    `has_opened` is whether anything was sealed; `declared` are the secrets that the run was given, also by an
    edit.
    """

    def __init__(
        self, keys: KeyStore, run_id: str, on_declared: Callable[[Known], None] | None = None
    ) -> None:
        self._on_declared = on_declared
        self._key_store = keys
        self._run_id = run_id
        self._keys: KeyRing | None = None
        self.has_opened = False
        self.declared = Known()
        self._short: dict[str, bool] = {}
        """Texts, and whether they were sealed because of their names."""

    @property
    def short(self) -> Known:
        """The texts unsealed so far that may be credentials, to be sealed wherever else they occur."""
        return Known.of(self._short, SEALED, shortest=_SHORTEST)

    @property
    def named(self) -> Known:
        """The texts unsealed so far that were sealed because of their names."""
        return known_by_name(text for text, is_named in self._short.items() if is_named)

    def events(self, rows: Iterable[Event]) -> Iterator[Event]:
        """The events, unsealed and without guides. Raises JournalError: SEC001 to SEC004."""
        for row in self.unguided(rows):
            if row.body is None or not is_sealed(row.body):
                yield row
                continue
            written = sha256(encode_body(row.type, row.body)).digest()
            yield replace(row, body=self.body(row.type, row.body, row.seq), digest=written)

    @staticmethod
    def unguided(rows: Iterable[Event]) -> Iterator[Event]:
        """The events without their guides, for a fold that has the secret values and does not need them."""
        return (row if row.guide is None else replace(row, guide=None) for row in rows)

    def stored(self, kind: str, data: bytes, seq: int) -> Any:
        """The body of an event, decoded and unsealed; raises as `body` does."""
        return self.body(kind, decode_body(data), seq)

    def body(self, kind: str, body: Any, seq: int) -> Any:
        """The body of an event, unsealed; the given one is modified. Raises JournalError as `events` does."""
        if not is_sealed(body):
            return body
        self.has_opened = True
        if self._keys is None:
            self._keys = self._key_store.opening()
        sealed = body[SEALED]
        try:
            body = opened(body, self._keys, self._run_id, self._saw)
        except (WrongKey, NotOpened) as error:
            raise not_opened(self._run_id, seq, error) from error
        if kind in (EventType.START, EventType.EDIT):
            given = declared_in if kind == EventType.START else replaced_in
            self.declared += Known.of(given(body, sealed), DECLARED)
            if self._on_declared is not None:
                self._on_declared(self.declared)
        return body

    def _saw(self, value: object, why: str) -> None:
        if isinstance(value, str) and len(value) <= _LONGEST:
            self._short[value] = self._short.get(value, False) or why == NAMED
