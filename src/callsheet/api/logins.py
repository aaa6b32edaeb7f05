"""Opens the encrypted file with this user's MCP server logins."""

from __future__ import annotations

from callsheet.ports.mcp.oauth.file import LoginFile, default_logins
from callsheet.store.seal_keys import KeyStore


def login_file() -> LoginFile:
    """The file named by the environment, else the user's default; it need not exist."""
    return LoginFile(default_logins(), KeyStore())
