"""Logins of a user with the servers of these tests: their storage, and a person who logs in at once."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.oauth_servers import Authority, Protected, browse

from callsheet.apps.login import log_in
from callsheet.apps.setup import Setup
from callsheet.ports.mcp import McpServerConfig, load_config
from callsheet.ports.mcp.oauth.authorize import PendingLogin
from callsheet.ports.mcp.oauth.file import Login, LoginFile
from callsheet.store.seal_keys import KeyStore


class User:
    """A user with a configuration of one server, "wiki", and a file of logins."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self.url = url
        self.config = folder / "mcp.json"
        self.logins = folder / "mcp-logins.json"
        self.configure()

    def configure(self, url: str = "", **oauth: Any) -> McpServerConfig:
        """Write and read the configuration with the login settings of the operator."""
        entry: dict[str, Any] = {"url": url or self.url}
        if oauth:
            entry["callsheet"] = {"oauth": oauth}
        self.config.write_text(json.dumps({"mcpServers": {"wiki": entry}}))
        return load_config(self.config).servers[0]

    @property
    def server(self) -> McpServerConfig:
        return load_config(self.config).servers[0]

    @property
    def file(self) -> LoginFile:
        return LoginFile(self.logins, KeyStore(self.folder / "seal.key"))

    async def log_in(self, *, opens: bool = True, **more: Any) -> Login:
        """Log in with a browser that agrees to everything, or without one."""

        def show(begun: PendingLogin) -> None:
            if opens and "ask_for_redirect" not in more:
                threading.Thread(target=browse, args=(begun.address,)).start()

        setup = Setup(workspace=self.folder, data=self.folder, mcp_configs=(self.config,))
        return await log_in(setup, "wiki", show, **more)


@pytest.fixture
def authority() -> Iterator[Authority]:
    """An authorization server."""
    made = Authority()
    yield made
    made.close()


@pytest.fixture
def wiki(authority: Authority) -> Iterator[Protected]:
    """An MCP server that accepts its tokens."""
    made = Protected(authority)
    yield made
    made.close()


@pytest.fixture
def user(tmp_path: Path, wiki: Protected, monkeypatch: pytest.MonkeyPatch) -> User:
    """A user of that server."""
    monkeypatch.setenv("CALLSHEET_LOGINS", str(tmp_path / "mcp-logins.json"))
    monkeypatch.setenv("CALLSHEET_SEAL_KEY_FILE", str(tmp_path / "seal.key"))
    monkeypatch.delenv("CALLSHEET_SEAL_KEY", raising=False)
    return User(tmp_path, wiki.url)
