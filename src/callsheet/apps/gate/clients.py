"""Puts the gate in front of the servers that a client has configured, and takes it away again.

In: a client, and whether its project's file is meant. Out: the changed file, and lines that say what was
done. Beside the client's file lie a backup of it as it was, and the file of the servers that the gate starts.
Only the table of servers is rewritten: everything else of the file, comments included, stays as it is.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple, cast

from callsheet import lazy
from callsheet.diagnostics import CallsheetError, Source
from callsheet.files import replace_file
from callsheet.ports.mcp.config import Node, parse, parse_config

_LINE_END = lazy.pattern(r"\r?\n")
GATE = "callsheet-gate"
"""The name of the gate among a client's servers."""


class Client(StrEnum):
    """A client whose configuration is known."""

    CLAUDE_CODE = "claude-code"
    CLAUDE_DESKTOP = "claude-desktop"
    CURSOR = "cursor"
    VSCODE = "vscode"

    @property
    def table(self) -> str:
        """The key of the servers in its file."""
        return "servers" if self is Client.VSCODE else "mcpServers"


def file_of(client: Client, *, project: bool, folder: Path | None = None) -> Path:
    """The file in which a client keeps its servers: the user's, or that of the project in `folder`.

    Raises CallsheetError (CFG110) for a project's file of a client that has none.
    """
    home, here = Path.home(), folder or Path.cwd()
    match client, project:
        case Client.CLAUDE_CODE, True:
            return here / ".mcp.json"
        case Client.CLAUDE_CODE, False:
            return Path(os.environ.get("CLAUDE_CONFIG_DIR", home)) / ".claude.json"
        case Client.CURSOR, _:
            return (here if project else home) / ".cursor" / "mcp.json"
        case Client.VSCODE, True:
            return here / ".vscode" / "mcp.json"
        case Client.VSCODE, False:
            return _application("Code") / "User" / "mcp.json"
        case _:
            if not project:
                return _application("Claude") / "claude_desktop_config.json"
            raise CallsheetError.single(
                "CFG110", f"{client} has no file for a project", help="leave --project out"
            )


def _application(name: str) -> Path:
    """The folder in which a desktop application keeps its settings."""
    home = Path.home()
    if sys.platform == "darwin":
        return home / "Library" / "Application Support" / name
    if sys.platform == "win32":
        return Path(os.environ.get("APPDATA", home / "AppData" / "Roaming")) / name
    return Path(os.environ.get("XDG_CONFIG_HOME", home / ".config")) / name


class _File(NamedTuple):
    """A client's file as text, and its table of servers."""

    path: Path
    text: str
    table: Node | None

    @classmethod
    def of(cls, path: Path, text: str, key: str) -> _File:
        if not text.removeprefix("\ufeff").strip():  # as clients leave it before the first server
            return cls(path, text, None)
        root = parse(Source(str(path), text))
        top = root.value
        if not isinstance(top, dict):
            raise CallsheetError.single("CFG112", f"{path} is not an object with a table of servers")
        node = top.get(key)
        if node is not None and not isinstance(node.value, dict):
            raise CallsheetError.single("CFG112", f'"{key}" in {path} is not a table of servers')
        return cls(path, text, node)

    def entries(self) -> dict[str, str]:
        """The text of each server's settings, by its name."""
        if self.table is None:
            return {}
        nodes = cast("Mapping[str, Node]", self.table.value)
        return {name: self.text[node.span.start : node.span.end] for name, node in nodes.items()}

    def settings(self, name: str) -> dict[str, Any]:
        """The settings of a server as data; none if it is not there."""
        node = None if self.table is None else cast("Mapping[str, Node]", self.table.value).get(name)
        data = None if node is None else node.data()
        return cast("dict[str, Any]", data) if isinstance(data, dict) else {}

    def with_entries(self, entries: Mapping[str, str]) -> str:
        """The text of the file with this table of servers instead."""
        assert self.table is not None
        span = self.table.span
        table = _table(entries, self._indent())
        if "\r\n" in self.text:
            table = _LINE_END.sub("\r\n", table)
        return self.text[: span.start] + table + self.text[span.end :]

    def _indent(self) -> str:
        """The white space before the line of the table."""
        assert self.table is not None
        place = self.table.span if self.table.key is None else self.table.key
        line = self.text[self.text.rfind("\n", 0, place.start) + 1 : place.start]
        return line if not line.strip() else ""


def _table(entries: Mapping[str, str], indent: str = "") -> str:
    if not entries:
        return "{}"
    inner = indent + (indent or "  ")
    rows = (f"{inner}{json.dumps(name, ensure_ascii=False)}: {text}" for name, text in entries.items())
    return "{\n" + ",\n".join(rows) + f"\n{indent}}}"


def _read(path: Path, key: str) -> _File:
    try:
        return _File.of(path, path.read_bytes().decode("utf-8"), key)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise CallsheetError.single(
            "CFG110",
            f"the client's configuration {path} cannot be read: {reason}",
            help="add a server in the client first; --project is for the file of this folder",
        ) from error


def _write(path: Path, text: str, mode: int = 0o600) -> None:
    try:
        replace_file(path, text.encode())
        path.chmod(mode)
    except OSError as error:
        raise CallsheetError.single(
            "CFG110", f"{path} cannot be written: {error.strerror}", help="nothing of it was changed"
        ) from error


def _beside(path: Path) -> tuple[Path, Path]:
    """The file of the servers behind the gate, and the backup."""
    return path.with_name(f"{path.stem}.callsheet.json"), path.with_name(f"{path.name}.callsheet-backup")


# ---------------------------------------------------------------- install


def install_gate(
    client: Client, options: Sequence[str] = (), *, project: bool = False, folder: Path | None = None
) -> list[str]:
    """Wrap the servers in a client's file; `options` are those of the gate. Returns what was done, in lines.

    Servers that were added since the last time are wrapped too. Without `options` the gate keeps those that
    it is started with. Raises CallsheetError for a file that cannot be read (CFG110, CFG111, CFG112).
    """
    path = file_of(client, project=project, folder=folder).resolve()
    servers, backup = _beside(path)
    file = _read(path, client.table)
    entries = file.entries()
    is_there = entries.pop(GATE, None)
    behind = {} if is_there is None else _behind(path, client, entries)
    left = {name: why for name, text in entries.items() if (why := _unusable(name, text, path))}
    wrapped = behind | {name: text for name, text in entries.items() if name not in left}
    if not wrapped:
        return [f"{path} has no servers that the gate could start", *_left_lines(left)]
    command = ["-m", "callsheet", "gate", "--mcp-config", str(servers), "--expose", "tools", *options]
    gate: dict[str, object] = {"command": sys.executable, "args": command}
    if client is Client.VSCODE or client is Client.CLAUDE_CODE:
        gate = {"type": "stdio", **gate}
    before = file.settings(GATE)
    had: list[Any] = before.get("args") or []
    had = had[had.index(str(servers)) + 1 :] if str(servers) in had else []
    if had and not options:
        gate = {**before, "command": sys.executable}
    own = is_there if is_there is not None and gate == before else json.dumps(gate, ensure_ascii=False)
    if is_there == own and wrapped == behind and servers.exists():
        return [f"{path}: nothing to do, the gate is in front of {_names(wrapped)}", *_left_lines(left)]
    mode = path.stat().st_mode & 0o777
    if is_there is None:
        _write(backup, file.text)
    _write(servers, '{"mcpServers": ' + _table(wrapped) + "}\n")
    _write(path, file.with_entries({GATE: own, **{name: entries[name] for name in left}}), mode)
    return [
        f"{path}: the gate is in front of {_names(wrapped)}",
        f"backup: {backup}",
        f"servers behind the gate: {servers}",
        *([f"its options {'were' if options else 'stay'}: {' '.join(had)}"] if had else []),
        *_left_lines(left),
        *_elsewhere(client, file, folder, project=project),
        *_rules_for(client, wrapped, folder),
        f"restart {client}; take it back: callsheet gate install {client}"
        f"{' --project' if project else ''} --undo",
    ]


class _AnyVariable(Mapping[str, str]):
    """An environment in which each variable is set: the client sets them when it starts the gate."""

    def __getitem__(self, name: str) -> str:
        return "1"

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


def _unusable(name: str, text: str, path: Path) -> str:
    """Why the gate cannot start a server in place of the client; "" if it can."""
    if "${input:" in text:
        return "the client asks a person for its ${input:…}"
    source = Source(str(path), '{"mcpServers": {' + f"{json.dumps(name)}: {text}" + "}}")
    try:
        found = parse_config(source, path.parent, _AnyVariable())
    except CallsheetError as error:
        return error.diagnostics[0].message
    return "" if found.servers else "it is disabled"


def _elsewhere(client: Client, file: _File, folder: Path | None, *, project: bool) -> list[str]:
    """Where the client has further servers, which stay as they are."""
    if client is not Client.CLAUDE_CODE or project:
        return []
    projects = parse(Source(str(file.path), file.text)).data().get("projects")
    here = str((folder or Path.cwd()).resolve())
    own = projects.get(here) if isinstance(projects, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    names = own.get("mcpServers") if isinstance(own, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    if not names:
        return []
    return [f"not changed: {_names(names)}, which only this folder has (claude mcp list)"]  # pyright: ignore[reportUnknownArgumentType]


def _rules_for(client: Client, names: Iterable[str], folder: Path | None) -> list[str]:
    """Where Claude Code has rules that name these servers, and so do not hold for the tools of the gate."""
    if client is not Client.CLAUDE_CODE:
        return []
    here = (folder or Path.cwd()) / ".claude"
    own = Path(os.environ.get("CLAUDE_CONFIG_DIR", Path.home() / ".claude"))
    called = {name: re.escape(re.sub(r"[^A-Za-z0-9_-]", "_", name)) for name in names}
    lines: list[str] = []
    for file in dict.fromkeys((own / "settings.json", here / "settings.json", here / "settings.local.json")):
        text = file.read_text("utf-8", errors="replace") if file.is_file() else ""
        found = [name for name, own in called.items() if re.search(rf"\bmcp__{own}(?:__|(?![\w-]))", text)]
        if found:
            why = f"they do not hold for the gate, whose tools are mcp__{GATE}__…"
            lines.append(f"{file} has rules for {', '.join(found)}: {why}")
    return lines


def _names(entries: Mapping[str, object]) -> str:
    return ", ".join(entries)


def _left_lines(left: Mapping[str, str]) -> list[str]:
    return [f"not changed: {name}: {why}" for name, why in left.items()]


def _behind(path: Path, client: Client, beside: Mapping[str, str]) -> dict[str, str]:
    """The servers behind the gate; if their file is gone, those of the backup that are not `beside` the gate.

    Raises CallsheetError (CFG110) if both are gone.
    """
    servers, backup = _beside(path)
    if servers.exists():
        return _read(servers, "mcpServers").entries()
    if not backup.exists():
        raise CallsheetError.single(
            "CFG110",
            f"{servers} with the servers behind the gate is not there, and no backup of {path.name}",
            help=f"put it back, or take {GATE} out of {path.name} and add the servers again",
        )
    return {name: text for name, text in _read(backup, client.table).entries().items() if name not in beside}


# ---------------------------------------------------------------- undo


def undo_gate(client: Client, *, project: bool = False, folder: Path | None = None) -> list[str]:
    """Put a client's servers back. Returns what was done, in lines; raises CallsheetError as `install_gate`.

    A file that was not changed since is again what it was, to the byte. Otherwise only the gate is replaced
    by the servers behind it.
    """
    path = file_of(client, project=project, folder=folder).resolve()
    servers, backup = _beside(path)
    file = _read(path, client.table)
    entries = file.entries()
    own = entries.pop(GATE, None)
    if own is None:
        return [f"{path}: nothing to undo, the gate is not there"]
    behind = _behind(path, client, entries)
    mode = path.stat().st_mode & 0o777
    before = _read(backup, client.table) if backup.exists() else None
    if before is not None and _is_wrapped(before, own, behind, file):
        _write(path, before.text, mode)
        done = "as it was before the gate"
    else:
        _write(path, file.with_entries({**behind, **entries}), mode)
        done = f"the servers are back ({_names(behind)}); other changes since were kept"
    servers.unlink(missing_ok=True)
    backup.unlink(missing_ok=True)
    return [f"{path}: {done}", f"restart {client}"]


def _is_wrapped(before: _File, own: str, behind: Mapping[str, str], now: _File) -> bool:
    """Whether a file is what wrapping made of the backup, and nothing else."""
    left = {name: text for name, text in before.entries().items() if name not in behind}
    return before.table is not None and now.text == before.with_entries({GATE: own, **left})
