"""The client that the MCP conformance runner starts: a person who logs in, and a plan that calls every tool.

A login is that of `callsheet login`, with a browser that agrees to everything. `python mcp_client.py SOCKET`
waits there for one request a scenario: its name, its data and the URL, as JSON, from `CALL`, which the runner
starts. Each is answered by a process of its own, forked when everything is imported, with what it says; the
first line is its exit status.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import signal
import socket
import sys
import tempfile
import threading
import traceback
from pathlib import Path
from typing import Any

import httpx2

from callsheet import Runtime
from callsheet.api.compiling import offered
from callsheet.apps.login import log_in
from callsheet.apps.setup import Setup
from callsheet.apps.toolbox import open_toolbox
from callsheet.ports.mcp.oauth.authorize import PendingLogin

CALL = """
import json, os, socket, sys
given = [os.environ.get("MCP_CONFORMANCE_SCENARIO", ""), os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}"]
with socket.socket(socket.AF_UNIX) as link:
    link.connect(sys.argv[1])
    link.sendall(json.dumps([*given, sys.argv[2]]).encode() + b"\\n")
    status, _, said = link.makefile().read().partition("\\n")
sys.stderr.write(said)
sys.exit(int(status or 1))
"""
"""The program that the runner starts; it imports nothing that takes time."""
SCENARIO = ""
CONTEXT: dict[str, Any] = {}
METADATA = "https://conformance-test.local/client-metadata.json"
"""The client's metadata document that the runner's authorization server knows."""
MOST_LOGINS = 3
"""The most calls of a tool, each after a login with the scope that it asks for."""
ARGUMENTS: dict[str, str] = {"add_numbers": "a=5, b=3"}


def issuer_of(url: str) -> str:
    """The authorization server of a server, as its operator knows it who registered a client there."""
    place = httpx2.URL(url)
    metadata = place.copy_with(path=f"/.well-known/oauth-protected-resource{place.path}")
    return httpx2.get(metadata, trust_env=False).json()["authorization_servers"][0]


def oauth(url: str) -> dict[str, Any]:
    """What the operator of this scenario configures."""
    if "client_secret" in CONTEXT:
        os.environ["SECRET"] = CONTEXT["client_secret"]
        known = {"client_id": CONTEXT["client_id"], "client_secret": "env:SECRET", "issuer": issuer_of(url)}
        is_machine = SCENARIO.startswith("auth/client-credentials")
        return {**known, **({"grant": "client_credentials"} if is_machine else {})}
    return {"client_metadata_url": METADATA} if SCENARIO == "auth/basic-cimd" else {}


def open_browser(login: PendingLogin) -> None:
    def browse() -> None:
        with httpx2.Client(follow_redirects=True, trust_env=False) as browser:
            browser.get(login.address)

    threading.Thread(target=browse).start()


async def call_all(setup: Setup, config: Path) -> None:
    """Call every tool of the server in one run each."""
    async with open_toolbox(setup) as toolbox:
        print(SCENARIO, [str(problem) for problem in toolbox.diagnostics], file=sys.stderr)
        tools = [spec for spec in offered(toolbox.registry) if spec.origin == "mcp:server"]
    async with Runtime(mcp=str(config), data=setup.data) as runtime:
        for tool in tools:
            plan = f"S1: @{tool.name} ({ARGUMENTS.get(tool.executor, '')}) > $a\nS2: @RESPOND ($a)"
            for _ in range(MOST_LOGINS):
                answer = str((await runtime.run(plan)).response)
                print(tool.name, answer, file=sys.stderr)
                scope = re.search(r"`callsheet login server --scope '([^']*)'`", answer)
                if scope is None:
                    break
                await log_in(setup, "server", open_browser, scope=scope[1])


async def main(url: str) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        os.environ["XDG_CONFIG_HOME"] = str(folder / "config")
        os.environ["CALLSHEET_LOGINS"] = str(folder / "logins.json")
        os.environ["CALLSHEET_SEAL_KEY_FILE"] = str(folder / "seal.key")
        config = folder / "mcp.json"
        entry: dict[str, Any] = {"url": url}
        if rules := oauth(url):
            entry["callsheet"] = {"oauth": rules}
        config.write_text(json.dumps({"mcpServers": {"server": entry}}))
        setup = Setup(workspace=folder, data=folder, mcp_configs=(config,))
        if SCENARIO.startswith("auth/") and "grant" not in rules:
            await log_in(setup, "server", open_browser)
        await call_all(setup, config)


def answer(link: socket.socket) -> None:
    """Play one scenario, in a process that ends with it."""
    global SCENARIO, CONTEXT  # noqa: PLW0603 - of this process
    reader = link.makefile()
    SCENARIO, context, url = json.loads(reader.readline())
    CONTEXT = json.loads(context)
    sys.stderr = said = io.StringIO()
    status = 0
    try:
        asyncio.run(main(url))
    except BaseException:
        traceback.print_exc()
        status = 1
    link.sendall(f"{status}\n{said.getvalue()}".encode())
    link.close()
    os._exit(0)


def serve(place: str) -> None:
    """Answer until the process is ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(place)
        server.listen()
        while True:
            link, _ = server.accept()
            if os.fork() == 0:
                answer(link)
            link.close()


if __name__ == "__main__":
    serve(sys.argv[1])
