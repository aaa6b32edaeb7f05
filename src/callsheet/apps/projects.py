"""The projects of the working folder: their configuration, and whether the user trusts them.

In: a folder. Out: the project that it belongs to, the settings of its `callsheet.toml` (or of the table
`[tool.callsheet]` in its `pyproject.toml`), and whether the present content of its files is trusted. What is
stored is a hash of each file's content, as direnv does: a file that somebody changes is not trusted until the
user has looked at it again.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import sys
from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any, TypeVar, cast

from callsheet.apps.settings import Settings, load_settings, read_tables
from callsheet.apps.setup import LOCK_NAME, lock_path
from callsheet.diagnostics import CallsheetError, Source
from callsheet.files import replace_file, user_file
from callsheet.lazy import dataclass
from callsheet.machine.limits import Limits
from callsheet.ports.models.settings import ModelSettings

NAME = "callsheet.toml"
_PYPROJECT = "pyproject.toml"
_TABLE = ("tool", "callsheet")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectSettings:
    """The settings of a project, for commands that do not say otherwise; paths are relative to its folder.

    `tools` are Python files, `servers` configuration files of MCP servers, `plans` the files, folders and
    patterns that `check`, `verify` and `fmt` take if none is named. `model` and `limits` replace the tables
    of the user's configuration. `schedules` are plans that run by the clock, and `notify` addresses that hear
    of those runs, `webhooks` what starts plans from outside, each by its name, and `mail` the server of
    mails, as they are written: `apps.scheduling` reads them.
    """

    tools: tuple[str, ...] = ()
    servers: tuple[str, ...] = ()
    plans: tuple[str, ...] = ()
    policy: str | None = None
    workspace: str | None = None
    model: ModelSettings | None = None
    limits: Limits | None = None
    schedules: Mapping[str, object] = field(default_factory=dict[str, object])
    notify: Mapping[str, object] = field(default_factory=dict[str, object])
    webhooks: Mapping[str, object] = field(default_factory=dict[str, object])
    mail: object | None = None


_Kind = TypeVar("_Kind", bound=ProjectSettings)


@dataclass(frozen=True, slots=True)
class Project:
    """A project: its folder, the file that configures it (None without one), and its settings.

    The settings are all defaults unless the file is trusted.
    """

    folder: Path
    file: Path | None = None
    is_trusted: bool = True
    settings: ProjectSettings = ProjectSettings()

    def paths(self, names: Iterable[str]) -> tuple[Path, ...]:
        """Paths of the settings, as absolute ones."""
        return tuple(self.folder / name for name in names)

    @property
    def policy(self) -> str | None:
        """The policy: a built-in or stored one by its name, a file by its absolute path."""
        named = self.settings.policy
        is_file = named is not None and (named.endswith(".toml") or "/" in named) and ":" not in named
        return str(self.folder / named) if is_file and named is not None else named


def project_of(folder: Path) -> Project:
    """The project of a folder: the nearest folder with a configuration, from this one up; else this one.

    The search ends at the root of a repository, at the user's home, and at a folder that other users own or
    can write: what they put there must not configure anything. Raises CallsheetError (CFG016) for a trusted
    file that is invalid.
    """
    for place in (folder, *folder.parents):
        if place != folder and not _is_ours(place):
            break
        file = _configuration(place)
        if file is not None:
            trusted = is_trusted(file)
            settings = settings_in(file, ProjectSettings) if trusted else ProjectSettings()
            return Project(place, file, trusted, settings)
        if (place / LOCK_NAME).is_file():
            return Project(place)
        if (place / ".git").exists() or place == Path.home():
            break
    return Project(folder)


def settings_of(project: Project) -> Settings:
    """The user's settings, with those of a trusted project instead where it has some.

    Raises CallsheetError (CFG016) for a configuration of the user that is invalid.
    """
    own, settings = project.settings, load_settings()
    return replace(
        settings,
        policy=project.policy or settings.policy,
        model=own.model or settings.model,
        limits=own.limits or settings.limits,
    )


def _is_ours(folder: Path) -> bool:
    try:
        status = folder.stat()
    except OSError:
        return False
    if sys.platform == "win32":  # which has neither owners nor modes of this kind
        return True
    return status.st_uid == os.getuid() and not status.st_mode & stat.S_IWOTH


def _configuration(folder: Path) -> Path | None:
    own, shared = folder / NAME, folder / _PYPROJECT
    if own.is_file():
        return own
    try:
        return shared if "[tool.callsheet" in shared.read_text(encoding="utf-8") else None
    except (OSError, UnicodeDecodeError):
        return None


def settings_in(file: Path, kind: type[_Kind]) -> _Kind:
    """The settings in the file of a project, as this kind of them; raises CallsheetError (CFG016)."""
    try:
        source = Source(str(file), file.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise CallsheetError.single(
            "CFG016", f"the configuration {file}: it cannot be read: {reason}"
        ) from error
    return read_tables(kind, source, _TABLE if file.name == _PYPROJECT else ())


def project_files(project: Project) -> tuple[Path, ...]:
    """The files of a project that the user can trust; they need not exist."""
    lock = lock_path(project.folder)
    return tuple(path for path in (project.file, lock) if path is not None)


VARIABLE = "CALLSHEET_PROJECTS"
"""The environment variable with the path of the file of trusted projects, instead of the default."""


def trusted_file() -> Path:
    """The path of the file of trusted projects; it need not exist."""
    return user_file(VARIABLE, "projects.json")


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
