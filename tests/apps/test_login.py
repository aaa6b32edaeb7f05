"""`callsheet login` and `logout`: input and output."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import httpx2
import pytest
from tests.apps.conftest import Machine
from tests.logins import authority, wiki
from tests.oauth_servers import Authority, Protected

__all__ = ["authority", "wiki"]


def configured(machine: Machine, **servers: Any) -> tuple[str, str]:
    machine.write("mcp.json", json.dumps({"mcpServers": servers}))
    return "--mcp-config", "mcp.json"


def test_remote_browser_address_is_accepted_as_input(machine: Machine, wiki: Protected, authority: Authority):
    where = configured(machine, wiki={"url": wiki.url})
    process = machine.spawn("login", "wiki", *where, "--no-browser", "--json", stdin=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stderr is not None
    address = next(line.strip() for line in process.stderr if line.strip().startswith("http"))
    back = httpx2.get(address, trust_env=False).headers["Location"]
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(back, trust_env=False)
    out, err = process.communicate(f"  {back}\n", timeout=60)
    assert process.returncode == 0, err
    told = json.loads(out)
    assert (told["server"], told["url"], told["issuer"]) == ("wiki", wiki.url, authority.origin)
    assert told["renews_itself"] is True

    listed = machine.json("login")
    assert listed["logins"] == [told]
    shown = machine("login")
    assert shown.stdout.startswith(f"wiki  {wiki.url}  by {authority.origin}  read, renewed automatically")
    assert machine.json("logout", "wiki", *where) == {"server": "wiki", "forgotten": True, "revoked": True}
    assert machine("logout", "wiki", *where).exit_code == 1
    assert machine.json("login")["logins"] == []


def test_servers_without_interactive_login_are_refused(
    machine: Machine, wiki: Protected, authority: Authority
):
    authority.given["known"] = wiki.url
    keys = {"client_id": "us", "client_secret": "env:NONE", "issuer": authority.origin}
    where = configured(
        machine,
        local={"command": sys.executable},
        keyed={"url": wiki.url, "headers": {"Authorization": "Bearer known"}},
        robot={"url": wiki.url, "callsheet": {"oauth": {"grant": "client_credentials", **keys}}},
        elsewhere={"url": f"{wiki.origin}/nothing"},
    )
    for name, said in {
        "local": "is started by a command",
        "keyed": "a header of its configuration",
        "robot": "with client credentials",
        "elsewhere": "does not offer a login",
        "keyd": "did you mean keyed?",
    }.items():
        result = machine("login", name, *where)
        assert result.exit_code == 2
        assert "TOL039" in result.stderr
        assert said in result.stderr
    assert authority.asked == []


def test_server_of_unnamed_file_is_not_found(machine: Machine):
    said = machine("login", "wiki").stderr
    assert "configured: none; --mcp-config names another file" in said
    named = machine.write(
        "named.json", json.dumps({"mcpServers": {"other": {"url": "https://other.example"}}})
    )
    said = machine("login", "wiki", "--mcp-config", named).stderr
    assert "configured: other\n" in said
