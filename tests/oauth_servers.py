"""An MCP server that requires a login, and an authorization server, on real sockets; both can misbehave."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

import httpx2

LOOK = {"name": "look", "inputSchema": {"type": "object", "properties": {}}}


class Asked(NamedTuple):
    """A received request."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def form(self) -> dict[str, str]:
        return dict(parse_qsl(self.body.decode()))


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes


def told(value: object, status: int = 200) -> Answer:
    return Answer(status, {"Content-Type": "application/json"}, json.dumps(value).encode())


class Site:
    """A local port; `answers` overrides the answers by path."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.answers: dict[str, Answer] = {}
        site = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                pass

            def do_GET(self) -> None:
                size = int(self.headers.get("Content-Length") or 0)
                asked = Asked(
                    self.command,
                    self.path,
                    {name.title(): value for name, value in self.headers.items()},
                    self.rfile.read(size),
                )
                site.asked.append(asked)
                answer = site.answers.get(self.path.partition("?")[0]) or site.answer(asked)
                self.send_response(answer.status)
                for name, value in {**answer.headers, "Content-Length": str(len(answer.body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(answer.body)

            do_POST = do_DELETE = do_GET

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.origin = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def answer(self, asked: Asked) -> Answer:
        return Answer(404, {}, b"")

    def paths(self, method: str = "") -> list[str]:
        return [a.path.partition("?")[0] for a in self.asked if method in ("", a.method)]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class Authority(Site):
    """An authorization server: asks nobody, issues codes and tokens, and validates every request."""

    def __init__(self) -> None:
        super().__init__()
        self.clients: dict[str, str] = {}
        self.codes: dict[str, dict[str, str]] = {}
        self.refreshing: dict[str, dict[str, str]] = {}
        self.given: dict[str, str] = {}
        """Access tokens that count, each with the resource that it counts for."""
        self.expires_in: int | None = 3600
        self.sends_iss: str | None = self.origin
        self.changes: dict[str, Any] = {}
        """What the metadata says in place of the usual."""
        self.prefix = "at"

    @property
    def metadata(self) -> dict[str, Any]:
        usual = {
            "issuer": self.origin,
            "authorization_endpoint": f"{self.origin}/authorize",
            "token_endpoint": f"{self.origin}/token",
            "registration_endpoint": f"{self.origin}/register",
            "revocation_endpoint": f"{self.origin}/revoke",
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": self.sends_iss is not None,
        }
        return {k: v for k, v in (usual | self.changes).items() if v is not None}

    def answer(self, asked: Asked) -> Answer:
        match asked.path.partition("?")[0]:
            case "/.well-known/oauth-authorization-server":
                return told(self.metadata)
            case "/register":
                return self.register(json.loads(asked.body))
            case "/authorize":
                return self.authorize(dict(parse_qsl(urlsplit(asked.path).query)))
            case "/token":
                return self.token(asked)
            case "/revoke":
                self.refreshing.pop(asked.form["token"], None)
                return told({})
        return Answer(404, {}, b"")

    def register(self, wanted: dict[str, Any]) -> Answer:
        client = f"client-{len(self.clients)}"
        self.clients[client] = ""
        return told({**wanted, "client_id": client}, 201)

    def authorize(self, asked: dict[str, str]) -> Answer:
        assert asked["client_id"] in self.clients
        assert asked["code_challenge_method"] == "S256"
        code = secrets.token_hex(8)
        self.codes[code] = asked
        back = {"code": code, "state": asked["state"]} | ({"iss": self.sends_iss} if self.sends_iss else {})
        return Answer(302, {"Location": f"{asked['redirect_uri']}?{urlencode(back)}"}, b"")

    def token(self, asked: Asked) -> Answer:
        form = asked.form
        if not self.knows(asked, form):
            return told({"error": "invalid_client"}, 401)
        match form["grant_type"]:
            case "authorization_code":
                begun = self.codes.pop(form["code"], None)
                if begun is None or begun["redirect_uri"] != form["redirect_uri"]:
                    return told({"error": "invalid_grant", "error_description": "no such code"}, 400)
                digest = hashlib.sha256(form["code_verifier"].encode()).digest()
                if base64.urlsafe_b64encode(digest).decode().rstrip("=") != begun["code_challenge"]:
                    return told({"error": "invalid_grant"}, 400)
                if begun["resource"] != form["resource"]:
                    return told({"error": "invalid_target"}, 400)
            case "refresh_token":
                begun = self.refreshing.pop(form["refresh_token"], None)
                if begun is None or begun["resource"] != form["resource"]:
                    return told({"error": "invalid_grant"}, 400)
            case "client_credentials":
                return told(self.made(form, refreshes=False))
            case other:
                return told({"error": "unsupported_grant_type", "error_description": other}, 400)
        return told(self.made(form))

    def knows(self, asked: Asked, form: dict[str, str]) -> bool:
        secret = self.clients.get(form.get("client_id", ""))
        if secret is None:
            return False
        said = asked.headers.get("Authorization", "")
        if said.startswith("Basic "):
            _, _, shown = base64.b64decode(said[6:]).decode().partition(":")
            return unquote(shown) == secret
        return form.get("client_secret", "") == secret

    def made(self, form: dict[str, str], *, refreshes: bool = True) -> dict[str, Any]:
        access, refresh = (f"{self.prefix}-{kind}-{secrets.token_hex(12)}" for kind in ("access", "refresh"))
        self.given[access] = form["resource"]
        made: dict[str, Any] = {"access_token": access, "token_type": "bearer", "scope": "read"}
        if self.expires_in is not None:
            made["expires_in"] = self.expires_in
        if refreshes:
            self.refreshing[refresh] = dict(form)
            made["refresh_token"] = refresh
        return made


class Protected(Site):
    """An MCP server at /mcp that accepts only tokens that its authority issued for it."""

    def __init__(self, authority: Authority) -> None:
        super().__init__()
        self.authority = authority
        self.url = f"{self.origin}/mcp"
        self.changes: dict[str, Any] = {}
        """What its metadata says in place of the usual."""
        self.needs = ""
        """The scope that a call of a tool needs beyond the usual."""
        self.is_fed_up = False
        """Whether it refuses every token."""
        self.says_token = False
        """Whether it answers with the token that it was shown."""

    def answer(self, asked: Asked) -> Answer:
        if asked.path == "/.well-known/oauth-protected-resource/mcp":
            return told(
                {"resource": self.url, "authorization_servers": [self.authority.origin]} | self.changes
            )
        if asked.path != "/mcp":
            return Answer(404, {}, b"")
        token = asked.headers.get("Authorization", "").removeprefix("Bearer ")
        if self.is_fed_up or self.authority.given.get(token) != self.url:
            at = f"{self.origin}/.well-known/oauth-protected-resource/mcp"
            challenge = f'Bearer resource_metadata="{at}", scope="read"'
            return Answer(401, {"WWW-Authenticate": challenge}, b"")
        if asked.method != "POST":
            return Answer(405, {}, b"")
        return self.reply(json.loads(asked.body), token)

    def reply(self, message: dict[str, Any], token: str) -> Answer:
        if message.get("method") == "tools/call" and self.needs:
            challenge = f'Bearer error="insufficient_scope", scope="{self.needs}"'
            return Answer(403, {"WWW-Authenticate": challenge}, b"")
        return reply(message, f"you are {token}" if self.says_token else "ok")


def reply(message: dict[str, Any], said: str = "ok") -> Answer:
    """The answer of an MCP server with one tool, which says this."""
    if "id" not in message:
        return Answer(202, {}, b"")
    results = {
        "initialize": {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "site", "version": "1"},
        },
        "tools/list": {"tools": [LOOK]},
        "tools/call": {"content": [{"type": "text", "text": said}]},
    }
    answer: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
    if message["method"] in results:
        answer["result"] = results[message["method"]]
    else:
        answer["error"] = {"code": -32601, "message": "no such method"}
    return told(answer)


def browse(address: str) -> httpx2.Response:
    """Acts as a browser at the URL of a login, with a user who agrees to everything."""
    with httpx2.Client(follow_redirects=True, trust_env=False) as browser:
        return browser.get(address)


class Combined(Authority):
    """An MCP server of the revision 2025-03-26, which is its own authorization server.

    Its metadata is at its origin; without `has_metadata` its endpoints are the usual ones of that revision.
    """

    def __init__(self, *, has_metadata: bool = True) -> None:
        super().__init__()
        self.has_metadata = has_metadata
        self.url = f"{self.origin}/mcp"
        self.sends_iss = None

    def answer(self, asked: Asked) -> Answer:
        if asked.path.startswith("/.well-known/") and not self.has_metadata:
            return Answer(404, {}, b"")
        if asked.path != "/mcp":
            return super().answer(asked)
        token = asked.headers.get("Authorization", "").removeprefix("Bearer ")
        if self.given.get(token) != self.url:
            return Answer(401, {}, b"")
        return Answer(405, {}, b"") if asked.method != "POST" else reply(json.loads(asked.body))
