"""The projects that the user trusts: folders whose files may say what plans may do here.

In: a file of a project, such as its lock file. Out: whether its present content is trusted. What is stored is
a hash of each file's content, as direnv does: a file that somebody changes is not trusted until the user has
looked at it again.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

from callsheet.diagnostics import CallsheetError
from callsheet.ports.mcp.atomic_file import replace_file

VARIABLE = "CALLSHEET_PROJECTS"
"""The environment variable with the path of the file of trusted projects, instead of the default."""


def trusted_file(environ: Mapping[str, str] | None = None) -> Path:
    """The path of the file of trusted projects; it need not exist."""
    named = (os.environ if environ is None else environ).get(VARIABLE)
    if named:
        return Path(named).expanduser()
    from platformdirs import user_config_path  # noqa: PLC0415 - only where no file is named

    return user_config_path("callsheet", appauthor=False) / "projects.json"


def is_trusted(path: Path) -> bool:
    """Whether the user trusts a file of a project as it is now; a missing one needs no trust."""
    digest = _digest(path)
    return digest is None or _read().get(str(path.resolve())) == digest


def trust(paths: Iterable[Path]) -> None:
    """Trust these files as they are now; raises CallsheetError (CFG116) if that cannot be stored."""
    now = {str(path.resolve()): _digest(path) for path in paths}
    _write({**_read(), **{name: digest for name, digest in now.items() if digest is not None}})


def distrust(paths: Iterable[Path]) -> None:
    """Trust these files no more; raises CallsheetError (CFG116) if that cannot be stored."""
    gone = {str(path.resolve()) for path in paths}
    _write({name: digest for name, digest in _read().items() if name not in gone})


def _digest(path: Path) -> str | None:
    try:
        return f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"
    except OSError:
        return None


def _read() -> dict[str, str]:
    place = trusted_file()
    try:
        data: Any = json.loads(place.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise _unusable(place, f"it cannot be read: {error}") from error
    if not isinstance(data, dict) or not all(
        isinstance(v, str) for v in cast("dict[str, Any]", data).values()
    ):
        raise _unusable(place, "it is not an object of texts")
    return cast("dict[str, str]", data)


def _write(trusted: Mapping[str, str]) -> None:
    place = trusted_file()
    try:
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(place, (json.dumps(dict(sorted(trusted.items())), indent=1) + "\n").encode())
    except OSError as error:
        raise _unusable(place, f"it cannot be written: {error.strerror or error}") from error


def _unusable(place: Path, why: str) -> CallsheetError:
    return CallsheetError.single(
        "CFG116",
        f"the file of trusted projects {place} cannot be used: {why}",
        help="no project is trusted until it is repaired; move it away to start over",
    )
