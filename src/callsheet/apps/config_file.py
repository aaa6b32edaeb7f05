"""Locates the user's configuration file, and exports its key `store` as `CALLSHEET_STORE`.

The code that opens stores reads only that environment variable, so it is set while a command runs.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from callsheet.diagnostics import Source

VARIABLE = "CALLSHEET_CONFIG"
"""The environment variable that names another configuration file than the user's default."""
_STORE = "CALLSHEET_STORE"


def settings_path(environ: Mapping[str, str] | None = None) -> Path:
    """Where the configuration file is, or would be."""
    named = (os.environ if environ is None else environ).get(VARIABLE)
    if named:
        return Path(named).expanduser()
    from platformdirs import user_config_path  # noqa: PLC0415 - only where no file is named

    return user_config_path("callsheet", appauthor=False) / "config.toml"


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
    from callsheet.apps.config_text import read_table, wrong_key  # noqa: PLC0415 - only where there is a file

    source = Source(str(place), text)
    address = read_table(source).get("store")
    if isinstance(address, str) and "\0" in address:
        hint = "store is the address of a shared store, such as postgresql://host/name"
        raise wrong_key(source, ("store",), "store contains a null character", hint)
    return address if isinstance(address, str) else None
