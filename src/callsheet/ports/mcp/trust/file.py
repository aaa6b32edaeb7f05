"""Reads and changes the file of pins, under a lock and atomically.

In: a path. Out: the pins in it, none if there is no file; CallsheetError (CFG114) if it is invalid. The
file belongs to the user and is never looked for in a project, because a folder made by someone else must
not decide what is trusted.
"""

from __future__ import annotations

import fcntl
import json
import os
import stat
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from callsheet.diagnostics import CallsheetError
from callsheet.ir.strict_json import NotJson, read_json
from callsheet.ports.mcp.atomic_file import replace_file
from callsheet.ports.mcp.trust.records import Pins, WrongRecord

VARIABLE = "CALLSHEET_PINS"
"""The environment variable with the path of the file of pins, instead of the default."""
_MOST_BYTES = 50_000_000


def default_pins(environ: Mapping[str, str] | None = None) -> Path:
    """The path of the file of pins."""
    named = (os.environ if environ is None else environ).get(VARIABLE)
    if named:
        return Path(named).expanduser()
    import platformdirs  # noqa: PLC0415 - only where no file is named

    return platformdirs.user_config_path("callsheet", appauthor=False) / "mcp-pins.json"


class PinFile:
    """A file of pins, which need not exist yet."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> Pins:
        """The pins; raises CallsheetError (CFG114) if the file cannot be read or is invalid."""
        try:
            text = _text_of(self.path)
        except FileNotFoundError:
            return Pins()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise self._wrong(f"it cannot be read: {reason or error}") from error
        try:
            return Pins.from_json(read_json(text))
        except NotJson as error:
            raise self._wrong(f"it is not JSON: {error}") from error
        except WrongRecord as error:
            raise self._wrong(str(error)) from error

    def change(self, changed: Callable[[Pins], Pins]) -> Pins:
        """Replace the pins by `changed(pins)` and return them; other processes wait meanwhile.

        Raises CallsheetError (CFG114) as `read` does, and OSError if the file cannot be written.
        """
        with self._locked():
            before = self.read()
            after = changed(before)
            text = _as_text(after)
            if text != _as_text(before):  # records that are equal may have their arguments in another order
                replace_file(self.path, f"{text}\n".encode())
            return after

    @contextmanager
    def _locked(self) -> Generator[None]:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = self.path.with_name(f"{self.path.name}.lock")
        fd = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)

    def _wrong(self, reason: str) -> CallsheetError:
        return CallsheetError.single(
            "CFG114",
            f"the file of trusted tools {self.path} cannot be used: {reason}",
            help="no tool is trusted until it is repaired; move it away to start over",
        )


def _as_text(pins: Pins) -> str:
    return json.dumps(pins.to_json(), indent=1, ensure_ascii=True, allow_nan=False)


def _text_of(path: Path) -> str:
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(0, "it is not a plain file")
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise OSError(0, f"it is larger than {_MOST_BYTES // 1_000_000} MB")
    return data.decode("utf-8")
