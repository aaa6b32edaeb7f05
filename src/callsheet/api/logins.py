"""The file of this user's logins with MCP servers, with the keys that open it."""

from __future__ import annotations

from callsheet.ports.mcp.oauth.file import LoginFile, default_logins
from callsheet.store.vault import Vault


def login_file() -> LoginFile:
    """The file that the environment names, else the user's own; it need not be there."""
    return LoginFile(default_logins(), Vault())
