"""The user's configuration file: its place, its text, errors at their position, and the key `store`."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from callsheet import lazy
from callsheet.diagnostics import CallsheetError, Diagnostic, Severity, Source, Span
from callsheet.files import user_file
from callsheet.ir.strict_toml import TomlError, read_toml
from callsheet.lazy import deferred

if TYPE_CHECKING:
    from callsheet.policy import file_values
    from callsheet.policy.file_values import Path as KeyPath
else:
    file_values = deferred("callsheet.policy.file_values")

VARIABLE = "CALLSHEET_CONFIG"
"""The environment variable that names another configuration file than the user's default."""
_STORE = "CALLSHEET_STORE"


def settings_path() -> Path:
    """Where the configuration file is, or would be."""
    return user_file(VARIABLE, "config.toml")


@contextmanager
def store_from_config() -> Generator[None]:
    """Set the store variable from the configuration file during the block, if the environment has none.

    Raises CallsheetError (CFG016) for a file that is not TOML; its other errors are reported where the
    settings are loaded.
    """
    address = None if _STORE in os.environ else _configured()
    if address is None:
        yield
        return
    os.environ[_STORE] = address
    try:
        yield
    finally:
        os.environ.pop(_STORE, None)


def _configured() -> str | None:
    place = settings_path()
    try:
        text = place.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return None

    source = Source(str(place), text)
    address = read_table(source).get("store")
    if isinstance(address, str) and "\0" in address:
        hint = "store is the address of a shared store, such as postgresql://host/name"
        raise wrong_key(source, ("store",), "store contains a null character", hint)
    return address if isinstance(address, str) else None


_TEXT = lazy.pattern(r"\"[^\"]*\"|'[^']*'")


def read_table(source: Source) -> dict[str, Any]:
    """The table in a configuration file; raises CallsheetError (CFG016)."""
    try:
        return read_toml(source.text)
    except TomlError as error:
        span = Span(error.offset, error.offset + 1)
        raise _error("CFG016", source, span, f"this is not TOML: {error}", None) from None


def wrong_key(
    source: Source, path: KeyPath, message: str, hint: str | None, code: str = "CFG016"
) -> CallsheetError:
    """An error at the key with this path, or at its nearest parent that the text contains."""
    span = file_values.place_of(source.text, file_values.key_spans(source.text), path)
    return _error(code, source, span, message, hint)


def _error(code: str, source: Source, span: Span | None, message: str, hint: str | None) -> CallsheetError:
    shown = source if span is None else Source(source.name, _up_to(source.text, span))
    return CallsheetError([Diagnostic(code, Severity.ERROR, message, span, hint)], shown)


def _up_to(text: str, span: Span) -> str:
    """The text up to the end of the span, without quoted texts earlier on its line."""
    line = text.rfind("\n", 0, span.start) + 1
    hidden = _TEXT.sub(lambda found: "…" * len(found[0]), text[line : span.start])
    return text[:line] + hidden + text[span.start : span.end]
