"""Finds the configuration files of MCP servers in their conventional places, the nearest first.

In: a folder and an environment. Out: the paths of existing files, which are not read here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from callsheet.files import user_folder

VARIABLE = "CALLSHEET_MCP_CONFIG"
"""The environment variable with configuration files (separated as in PATH) to use instead."""

_PROJECT = (".mcp.json", "mcp.json", ".vscode/mcp.json", ".cursor/mcp.json")


def discover(folder: Path | None = None, environ: Mapping[str, str] | None = None) -> list[Path]:
    """The configuration files that exist: the project's, the user's, the desktop client's.

    `folder` is the project (by default the working directory). If CALLSHEET_MCP_CONFIG names files, those are
    returned instead, even if they do not exist, so that a wrong name is reported.
    """
    environ = os.environ if environ is None else environ
    named = environ.get(VARIABLE)
    if named is not None:
        return [Path(part) for part in named.split(os.pathsep) if part]
    return [path for path in places(folder or Path.cwd(), environ) if os.path.isfile(path)]


def looked_for(folder: Path) -> list[Path]:
    """The files that `discover` gives where they exist, from this folder and from the working directory."""
    named = [Path(part) for part in os.environ.get(VARIABLE, "").split(os.pathsep) if part]
    return [*named, *places(folder, os.environ), *places(Path.cwd(), os.environ)]


def places(folder: Path, environ: Mapping[str, str]) -> list[Path]:
    """All conventional places, by precedence."""
    user = user_folder("config") / "mcp.json"
    return [*(folder / name for name in _PROJECT), user, _desktop(environ)]


def _desktop(environ: Mapping[str, str]) -> Path:
    home = Path.home()
    if sys.platform == "darwin":
        base = home / "Library" / "Application Support"
    elif sys.platform == "win32":
        base = Path(environ.get("APPDATA", home / "AppData" / "Roaming"))
    else:
        base = Path(environ.get("XDG_CONFIG_HOME", home / ".config"))
    return base / "Claude" / "claude_desktop_config.json"
