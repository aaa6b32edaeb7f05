"""The gate in the files of real clients: wrapped, wrapped again, and taken back to the byte."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from callsheet.apps.gate.clients import GATE, Client, file_of, install_gate, undo_gate
from callsheet.diagnostics import CallsheetError, Source
from callsheet.ports.mcp.config import load_config, parse_config

CLAUDE_CODE = """{
  "numStartups": 41,
  "theme": "dark",
  "projects": {
    "%HERE%": {"allowedTools": [], "mcpServers": {"local": {"type": "stdio", "command": "x", "args": []}}}
  },
  "mcpServers": {
    "github": {
      "type": "http",
      "url": "https://api.githubcopilot.com/mcp/",
      "headers": {"Authorization": "Bearer ${GITHUB_TOKEN}"}
    },
    "memory": {"type": "stdio", "command": "npx", "args": ["-y", "server-memory"], "env": {}}
  },
  "oauthAccount": {"emailAddress": "ann@example.org"}
}
"""
DESKTOP = """{
\t"globalShortcut": "Ctrl+Space",
\t"mcpServers": {
\t\t"filesystem": {
\t\t\t"command": "npx",
\t\t\t"args": ["-y", "@modelcontextprotocol/server-filesystem", "/home/ann/Desktop"]
\t\t}
\t},
\t"preferences": {"menuBarEnabled": false}
}"""
CURSOR = """{
  "mcpServers": {
    // a server of our own
    "lapras": {"command": "npx", "args": ["-y", "lapras"], "env": {"KEY": "k"}, "cwd": "tools"},
    "remote": {"url": "http://localhost:8000/sse", "type": "sse"},
    "off": {"command": "node", "args": ["x.js"], "disabled": true}
  }
}
"""
VSCODE = """// servers of the team
{
    "inputs": [{"type": "promptString", "id": "key", "description": "API key", "password": true}],
    "servers": {
        "fetch": {"type": "stdio", "command": "uvx", "args": ["mcp-server-fetch"]},
        "paid": {"type": "stdio", "command": "npx", "args": ["paid"], "env": {"KEY": "${input:key}"}}
    } /* the end */
}
"""
FILES = {
    Client.CLAUDE_CODE: CLAUDE_CODE,
    Client.CLAUDE_DESKTOP: DESKTOP,
    Client.CURSOR: CURSOR,
    Client.VSCODE: VSCODE,
}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(client: Client, *, project: bool = False) -> tuple[Path, str]:
    path = file_of(client, project=project)
    text = FILES[client].replace("%HERE%", str(Path.cwd().resolve()))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    path.chmod(0o644)
    return path, text


def names_in(path: Path) -> list[str]:
    return [server.name for server in load_config(path, {"GITHUB_TOKEN": "t"}, skips=True).servers]


@pytest.mark.parametrize("begin", ["", "\ufeff"])
@pytest.mark.parametrize("client", [*Client])
def test_undo_gives_the_same_bytes(client: Client, begin: str) -> None:
    path, text = written(client)
    if begin:  # as some editors on Windows write it
        text = begin + text.replace("\n", "\r\n")
        path.write_bytes(text.encode())
    before = names_in(path)
    told = install_gate(client)
    wrapped = path.with_name(f"{path.stem}.callsheet.json")
    assert GATE in names_in(path)
    assert bool(re.search(rb"(?<!\r)\n", path.read_bytes())) == (not begin)
    assert {*names_in(path), *names_in(wrapped)} == {GATE, *before}
    assert wrapped.stat().st_mode & 0o777 == 0o600  # it may hold keys
    assert path.stat().st_mode & 0o777 == 0o644
    assert install_gate(client)[0].endswith(f"in front of {', '.join(names_in(wrapped))}")
    assert "nothing to do" in install_gate(client)[0]
    assert any("--undo" in line for line in told)
    undo_gate(client)
    assert path.read_bytes() == text.encode()
    assert [p.name for p in path.parent.iterdir() if "callsheet" in p.name] == []
    assert "nothing to undo" in undo_gate(client)[0]


def test_rest_of_the_file_stays(home: Path) -> None:
    path, text = written(Client.VSCODE, project=True)
    told = install_gate(Client.VSCODE, ["--policy", "workspace"], project=True)
    now = path.read_text("utf-8")
    start, end = text.index('"servers": {') + len('"servers": '), text.index(" /* the end */")
    assert now.startswith(text[:start])
    assert now.endswith(text[end:])
    table = json.loads(now[start : now.index(" /* the end */")])
    assert [*table] == [GATE, "paid"]
    assert table[GATE]["args"][-2:] == ["--policy", "workspace"]
    assert any("paid" in line and "${input:…}" in line for line in told)


def test_disabled_server_stays_where_it_is() -> None:
    path, _ = written(Client.CURSOR)
    assert any("off" in line and "disabled" in line for line in install_gate(Client.CURSOR))
    table = parse_config(Source("now", path.read_text()), path.parent)
    assert [server.name for server in table.servers] == [GATE]
    behind = load_config(path.with_name("mcp.callsheet.json")).servers
    assert [server.name for server in behind] == ["lapras", "remote"]
    assert str(getattr(behind[0].transport, "cwd", "")) == str(path.parent.resolve() / "tools")


def test_servers_of_one_folder_are_named() -> None:
    written(Client.CLAUDE_CODE)
    told = install_gate(Client.CLAUDE_CODE)
    assert "not changed: local, which only this folder has (claude mcp list)" in told


def test_changes_since_are_kept() -> None:
    path, _ = written(Client.CLAUDE_DESKTOP)
    install_gate(Client.CLAUDE_DESKTOP)
    added = json.loads(path.read_text())
    added["mcpServers"]["time"] = {"command": "uvx", "args": ["mcp-server-time"]}
    added["preferences"]["menuBarEnabled"] = True
    path.write_text(json.dumps(added))
    assert "in front of filesystem, time" in install_gate(Client.CLAUDE_DESKTOP)[0]
    undo_gate(Client.CLAUDE_DESKTOP)
    after = json.loads(path.read_text())
    assert [*after["mcpServers"]] == ["filesystem", "time"]
    assert after["preferences"] == {"menuBarEnabled": True}


def test_what_the_gate_is_started_with_stays_and_is_told() -> None:
    path, _ = written(Client.CURSOR)
    install_gate(Client.CURSOR, ["--policy", "workspace"])
    with_policy = path.read_text()
    assert "nothing to do" in install_gate(Client.CURSOR)[0]
    path.write_text(
        with_policy.replace('"tools"', '"both"').replace(
            '"mcpServers": {', '"mcpServers": {"new": {"command": "x"},', 1
        )
    )
    told = install_gate(Client.CURSOR)
    assert "in front of lapras, remote, new" in told[0]
    assert "its options stay: --expose both --policy workspace" in told
    told = install_gate(Client.CURSOR, ["--observe"])
    assert "its options were: --expose both --policy workspace" in told
    assert "workspace" not in path.read_text()


def test_servers_come_back_though_their_file_is_gone() -> None:
    path, text = written(Client.CURSOR)
    install_gate(Client.CURSOR)
    servers = path.with_name("mcp.callsheet.json")
    servers.unlink()
    assert "in front of lapras, remote" in install_gate(Client.CURSOR)[0]
    assert [one.name for one in load_config(servers).servers] == ["lapras", "remote"]
    servers.unlink()
    undo_gate(Client.CURSOR)
    assert path.read_text() == text
    install_gate(Client.CURSOR)
    for gone in (servers, path.with_name("mcp.json.callsheet-backup")):
        gone.unlink()
    for act in (install_gate, undo_gate):
        with pytest.raises(CallsheetError, match=r"CFG110: .*is not there, and no backup"):
            act(Client.CURSOR)


def test_rules_of_the_client_for_wrapped_servers_are_named(home: Path) -> None:
    written(Client.CLAUDE_CODE)
    settings = home / ".claude" / "settings.json"
    settings.parent.mkdir(exist_ok=True)
    rules = {"deny": ["mcp__memory__delete", "mcp__git"], "allow": ["mcp__github_two"]}
    settings.write_text(json.dumps({"permissions": rules}))
    (line,) = (line for line in install_gate(Client.CLAUDE_CODE) if "has rules" in line)
    assert f"{settings} has rules for memory: they do not hold" in line


@pytest.mark.parametrize("text", [None, "{", "[]", '{"mcpServers": 3}'])
def test_unusable_file_is_reported_and_left(text: str | None) -> None:
    path = file_of(Client.CURSOR, project=True)
    path.parent.mkdir()
    if text is not None:
        path.write_text(text)
    with pytest.raises(CallsheetError):
        install_gate(Client.CURSOR, project=True)
    assert [p.read_text() for p in path.parent.iterdir()] == ([] if text is None else [text])


def test_a_policy_that_there_is_not_is_told_before_the_client_changes(machine) -> None:
    machine.write(".cursor/mcp.json", CURSOR)
    told = machine("gate", "install", "cursor", "--project", "--policy", "nix.toml")
    assert told.exit_code == 2
    assert "POL006: there is no policy 'nix.toml'" in told.stderr
    assert (machine.folder / ".cursor/mcp.json").read_text() == CURSOR
