"""A local provider of models over real HTTP that answers as scripted, also wrongly.

It speaks the formats of OpenAI's chat completions and responses, Anthropic's messages and Google's
contents; which one a request is in is seen from its path.
"""

from __future__ import annotations

import gzip
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

NOISE = "zq xv " * 60_000
"""An answer that means nothing, of 60,000 tokens and more."""


class Handler(BaseHTTPRequestHandler):
    """One request: recorded, then answered by the next behaviour."""

    protocol_version = "HTTP/1.1"
    server: _Server
    asked: Asked

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length", "0"))
        data = json.loads(self.rfile.read(length) or b"{}")
        provider = self.server.provider
        self.asked = Asked(self.path, dict(self.headers), data)
        provider.asked.append(self.asked)
        provider.behaviour()(self)

    def do_GET(self) -> None:
        provider = self.server.provider
        provider.listings += 1
        if provider.listed is None:
            self.send(404, '{"error": {"message": "no such page"}}')
        else:
            self.send(200, json.dumps(provider.listed))

    def send(self, status: int, body: str, **headers: str) -> None:
        """Answer with a status and any body, JSON or not."""
        content = body.encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args: object) -> None:
        """Log nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    provider: Provider

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that have disconnected."""


@dataclass
class Asked:
    """A received request."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]


Behaviour = Callable[[Handler], None]


@dataclass
class Provider:
    """The behaviour of a provider: those in `next` in order, then `always`; and its list of models."""

    url: str = ""
    next: list[Behaviour] = field(default_factory=list)
    always: Behaviour = field(default_factory=lambda: answer("fine"))
    asked: list[Asked] = field(default_factory=list)
    listed: object = None
    """What it says of its models; None if it has no such page, and `listings` how often it was asked."""
    listings: int = 0

    def behaviour(self) -> Behaviour:
        return self.next.pop(0) if self.next else self.always


@contextmanager
def serving(*behaviours: Behaviour, always: Behaviour | None = None, port: int = 0) -> Iterator[Provider]:
    """A provider that runs during the context, at a free port or this one."""
    server = _Server(("127.0.0.1", port), Handler)
    provider = Provider(f"http://127.0.0.1:{server.server_port}", list(behaviours))
    if always is not None:
        provider.always = always
    server.provider = provider
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def answer(
    text: str, *, read: int = 100, written: int = 20, cached: int = 40, cut: bool = False
) -> Behaviour:
    """A good answer, in the format of the request."""

    def behave(request: Handler) -> None:
        request.send(200, json.dumps(_answer(request.path, text, read, written, cached, cut=cut)))

    return behave


def _answer(path: str, text: str, read: int, written: int, cached: int, *, cut: bool) -> dict[str, Any]:
    if path.endswith("/messages"):
        return {
            "id": "m",
            "type": "message",
            "role": "assistant",
            "model": "claude-x",
            "content": [{"type": "text", "text": text}] if text else [],
            "stop_reason": "max_tokens" if cut else "end_turn",
            "stop_sequence": None,
            "usage": {
                "input_tokens": read - cached,
                "cache_read_input_tokens": cached,
                "cache_creation_input_tokens": 0,
                "output_tokens": written,
            },
        }
    if path.endswith("/responses"):
        return {
            "id": "r",
            "object": "response",
            "created_at": 1,
            "status": "incomplete" if cut else "completed",
            "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
            "error": None,
            "model": "gpt-x",
            "output": [
                {
                    "type": "message",
                    "id": "o",
                    "role": "assistant",
                    "status": "completed",
                    "content": [{"type": "output_text", "text": text, "annotations": []}],
                }
            ],
            "parallel_tool_calls": False,
            "tool_choice": "auto",
            "tools": [],
            "usage": {
                "input_tokens": read,
                "input_tokens_details": {"cached_tokens": cached},
                "output_tokens": written,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": read + written,
            },
        }
    if "generateContent" in path:
        return {
            "candidates": [
                {
                    "content": {"role": "model", "parts": [{"text": text}]},
                    "finishReason": "MAX_TOKENS" if cut else "STOP",
                }
            ],
            "modelVersion": "gemini-x",
            "usageMetadata": {
                "promptTokenCount": read,
                "cachedContentTokenCount": cached,
                "candidatesTokenCount": written,
                "totalTokenCount": read + written,
            },
        }
    return {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": "gpt-x",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": text},
                "finish_reason": "length" if cut else "stop",
            }
        ],
        "usage": {
            "prompt_tokens": read,
            "completion_tokens": written,
            "total_tokens": read + written,
            "prompt_tokens_details": {"cached_tokens": cached},
        },
    }


def refuses(status: int, message: str = "no", **headers: str) -> Behaviour:
    """An error with a status, and a message as providers write it."""
    error = {"type": "error", "error": {"type": "some_error", "message": message, "code": None}}
    return lambda request: request.send(status, json.dumps(error), **headers)


def says(body: str, status: int = 200) -> Behaviour:
    """Any body."""
    return lambda request: request.send(status, body)


def packs(text: str) -> Behaviour:
    """A good answer, compressed although not requested."""

    def behave(request: Handler) -> None:
        content = gzip.compress(json.dumps(_answer(request.path, text, 100, 20, 40, cut=False)).encode())
        request.send_response(200)
        request.send_header("Content-Type", "application/json")
        request.send_header("Content-Encoding", "gzip")
        request.send_header("Content-Length", str(len(content)))
        request.end_headers()
        request.wfile.write(content)

    return behave


def takes(seconds: float) -> Behaviour:
    """No answer for some seconds."""

    def behave(request: Handler) -> None:
        time.sleep(seconds)
        request.close_connection = True

    return behave


def breaks_off(request: Handler) -> None:
    """The connection ends in the middle of an answer."""
    request.send_response(200)
    request.send_header("Content-Type", "application/json")
    request.send_header("Content-Length", "5000")
    request.end_headers()
    request.wfile.write(b'{"choices": [{"message": {"content": "half an')
    request.wfile.flush()
    request.connection.shutdown(socket.SHUT_RDWR)
    request.close_connection = True


def declines(request: Handler) -> None:
    """A refusal of the model, in the provider's format."""
    if request.path.endswith("/messages"):
        data = _answer(request.path, "", 10, 2, 0, cut=False)
        data["stop_reason"] = "refusal"
    elif request.path.endswith("/responses"):
        data = _answer(request.path, "", 10, 2, 0, cut=False)
        data["output"][0]["content"] = [{"type": "refusal", "refusal": "I will not."}]
    elif "generateContent" in request.path:
        data = {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 10}}
    else:
        data = _answer(request.path, "", 10, 2, 0, cut=False)
        data["choices"][0]["message"] = {"role": "assistant", "content": None, "refusal": "I will not."}
    request.send(200, json.dumps(data))


FAILURES: Mapping[str, tuple[Behaviour, str]] = {
    "key": (refuses(401, "bad key"), "MDL003"),
    "limited": (refuses(429, "slow down", Retry_After="100"), "MDL004"),
    "overloaded": (refuses(500, "oops"), "MDL007"),
    "broken": (breaks_off, "MDL006"),
    "slow": (takes(6.0), "MDL005"),
    "wrong": (says("<html>"), "MDL012"),
    "refusal": (declines, "MDL010"),
    "empty": (answer(""), "MDL011"),
    "unknown": (refuses(404, "no such model"), "MDL008"),
    "noise": (answer(NOISE), "MDL012"),
}
"""All that a provider does wrong, and the code by which a user is told."""
