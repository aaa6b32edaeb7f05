"""The MCP conformance runner: callsheet as a client of its servers, and `callsheet mcp` before its client."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import forked

from suites.fetching import assert_expected, node, npm_install
from suites.mcp_client import CALL

HERE = Path(__file__).parent
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
TOKEN = "0123456789abcdef0123456789abcdef"
CLIENT = (
    *(
        "initialize",
        "tools_call",
        "elicitation-sep1034-client-defaults",
        "sse-retry",
        "auth/metadata-default",
    ),
    *("auth/metadata-var1", "auth/metadata-var2", "auth/metadata-var3", "auth/basic-cimd"),
    *("auth/scope-from-www-authenticate", "auth/scope-from-scopes-supported"),
    *("auth/scope-omitted-when-undefined", "auth/scope-step-up", "auth/scope-retry-limit"),
    *("auth/token-endpoint-auth-basic", "auth/token-endpoint-auth-post", "auth/token-endpoint-auth-none"),
    *("auth/pre-registration", "auth/2025-03-26-oauth-metadata-backcompat"),
    *("auth/2025-03-26-oauth-endpoint-fallback", "auth/resource-mismatch", "auth/offline-access-scope"),
    *("auth/offline-access-not-supported", "auth/client-credentials-jwt", "auth/client-credentials-basic"),
    "auth/cross-app-access-complete-flow",
)
NOT_AS_CLIENT = {
    "elicitation-sep1034-client-defaults": "a run asks nobody on behalf of a server: its plan asks people",
    "auth/client-credentials-jwt": "an extension: signed assertions are not supported (docs/logins.md)",
    "auth/cross-app-access-complete-flow": "an extension: tokens of an identity provider are not exchanged",
}
_FIXTURE = "needs a {} of the reference server that the runner was written for"
_TOOL, _RESOURCE, _PROMPT = map(_FIXTURE.format, ("tool", "resource", "prompt"))
NOT_AS_SERVER = {
    "logging-set-level": "callsheet mcp does not offer logging, and does not say that it does",
    **dict.fromkeys(
        (
            *("tools-call-simple-text", "tools-call-image", "tools-call-audio", "tools-call-error"),
            *("tools-call-embedded-resource", "tools-call-mixed-content", "tools-call-with-logging"),
            *("tools-call-with-progress", "tools-call-sampling", "tools-call-elicitation"),
            *("json-schema-2020-12", "elicitation-sep1034-defaults", "elicitation-sep1330-enums"),
        ),
        _TOOL,
    ),
    **dict.fromkeys(("resources-read-text", "resources-read-binary", "resources-templates-read"), _RESOURCE),
    **dict.fromkeys(
        ("resources-subscribe", "resources-unsubscribe"),
        "clients of the revisions before 2026-07-28 are told of changes without subscribing",
    ),
    **dict.fromkeys(
        (
            *("prompts-get-simple", "prompts-get-with-args", "prompts-get-embedded-resource"),
            "prompts-get-with-image",
        ),
        _PROMPT,
    ),
    "dns-rebinding-protection": "refused without a token, which the runner cannot send in this scenario",
}
_SEND_TOKEN = """
const plain = globalThis.fetch;
globalThis.fetch = (input, init = {}) => {
  const headers = new Headers(init.headers ?? (input instanceof Request ? input.headers : undefined));
  headers.set("Authorization", `Bearer ${process.env.CONFORMANCE_TOKEN}`);
  return plain(input, { ...init, headers });
};
"""
"""A module that makes the runner's client send the token, for which it has no option."""


def run(folder: Path, *arguments: str, **environment: str) -> str:
    """What the conformance runner says; it puts its results into the folder."""
    package = npm_install("@modelcontextprotocol/conformance", "0.1.16", "2026-11-01")
    command = [node().program, str(package / "dist" / "index.js"), *arguments]
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=150,
        check=False,
    )
    return _COLOUR.sub("", done.stdout)


@pytest.fixture
def client() -> Iterator[str]:
    """The command of the client, whose imports are done once for all scenarios."""
    folder = Path(tempfile.mkdtemp(prefix="mcp"))  # a short path, as a socket needs
    place, call = folder / "socket", folder / "call.py"
    call.write_text(CALL)
    served = subprocess.Popen([sys.executable, HERE / "mcp_client.py", place])
    try:
        for _ in range(600):
            if place.exists():
                break
            time.sleep(0.1)
        yield f"{sys.executable} -I -S {call} {place}"
    finally:
        served.terminate()
        served.wait(30)
        shutil.rmtree(folder)


def test_client_keeps_to_protocol(client: str, tmp_path: Path) -> None:
    told = run(tmp_path, "client", "--command", client, "--suite", "all", "--timeout", "120000", "--verbose")
    found = re.findall(r"^[✓✗] (\S+): (\d+) passed, (\d+) failed", told, re.MULTILINE)
    assert sorted(name for name, _, _ in found) == sorted(CLIENT), told[-6_000:]
    wrong = {name for name, passed, failed in found if failed != "0" or passed == "0"}
    assert wrong == NOT_AS_CLIENT.keys(), told[-20_000:]


def test_server_keeps_to_protocol(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "callsheet", "mcp", "--http", f"127.0.0.1:{port}"]
    command += ["--journal", str(tmp_path / "journal.db"), "--plans", str(tmp_path / "plans")]
    served = forked.Popen(
        command, cwd=tmp_path, env={**os.environ, "CALLSHEET_TOKEN": TOKEN}, stderr=subprocess.PIPE, text=True
    )
    try:
        for _ in range(600):
            with socket.socket() as attempt:
                if not attempt.connect_ex(("127.0.0.1", port)):
                    break
            time.sleep(0.1)
        module = tmp_path / "token.mjs"
        module.write_text(_SEND_TOKEN)
        told = run(
            tmp_path,
            *("server", "--url", f"http://127.0.0.1:{port}/mcp", "--suite", "all"),
            CONFORMANCE_TOKEN=TOKEN,
            NODE_OPTIONS=f"--import {module.as_uri()}",
        )
    finally:
        served.terminate()
        served.communicate(timeout=30)
    found = re.findall(r"^([✓✗]) (\S+): ", told, re.MULTILINE)
    assert len(found) == 32, told[-3_000:]
    assert_expected({name for mark, name in found if mark == "✗"}, NOT_AS_SERVER)
