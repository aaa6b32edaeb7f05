"""`callsheet mcp` over stdio: every line is answered, and signals are handled."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp_types import JSONRPCError
from tests import forked

from callsheet.apps.mcp.transports import MOST_BYTES, parse_message

_CLIENT = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
_HELLO = json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": _CLIENT}).encode()
_CALL = b'{"jsonrpc": "2.0", "id": %d, "method": "ping", "params": {"a": %s}}'


@contextmanager
def server(folder: Path) -> Generator[subprocess.Popen[bytes]]:
    """A server that has been initialized."""
    own = {"HOME": str(folder), "CALLSHEET_CONFIG": str(folder / "config.toml")}
    (folder / "config.toml").touch()
    # under nohup the child would inherit that the signal is ignored
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    with forked.Popen(
        [sys.executable, "-m", "callsheet", "mcp", "--journal", str(folder / "j.db")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=folder,
        env=os.environ | own,
    ) as process:
        signal.signal(signal.SIGHUP, before)
        assert say(process, _HELLO)["result"]["serverInfo"]["name"] == "callsheet"
        yield process
        process.kill()


def say(process: subprocess.Popen[bytes], line: bytes) -> Any:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(line + b"\n")
    process.stdin.flush()
    return json.loads(process.stdout.readline())


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Generator[subprocess.Popen[bytes]]:
    with server(tmp_path_factory.mktemp("wire")) as made:
        yield made


@pytest.mark.parametrize(
    ("line", "code", "request_id", "said"),
    [
        (b"{", -32700, None, "character 2"),
        (b"ping", -32700, None, "the line is not JSON: expecting value (character 1)"),
        (b"\xff\xfe" + _CALL % (1, b"1"), -32700, None, "not UTF-8 (byte 1)"),
        (_CALL % (1, b'"\xff"'), -32700, None, "not UTF-8"),
        (_CALL % (1, b'"\\ud800"'), -32700, None, "surrogate"),
        (_CALL % (1, b"NaN"), -32700, None, "NaN"),
        (_CALL % (1, b"1") + _CALL % (2, b"1"), -32700, None, "extra data"),
        (_CALL % (1, b"[" * 100_000 + b"]" * 100_000), -32700, None, "nested too deep"),
        (b'{"jsonrpc": "2.0", "id": 1, "id": 2, "method": "ping"}', -32700, None, "'id' occurs twice"),
        (b"x" * (MOST_BYTES + 100), -32600, None, "a message may have at most"),
        (b"[]", -32600, None, "batches are not supported"),
        (b'[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]', -32600, None, "batches are not supported"),
        (b"3", -32600, None, "this is not a message"),
        (b"{}", -32600, None, "jsonrpc has to be"),
        (b'{"id": 7, "method": "ping"}', -32600, 7, "jsonrpc has to be"),
        (b'{"jsonrpc": "2.0", "id": "a"}', -32600, "a", "method has to be a text"),
        (b'{"jsonrpc": "2.0", "id": 7, "method": 3}', -32600, 7, "method has to be a text"),
        (b'{"jsonrpc": "2.0", "id": 7, "method": "ping", "params": [1]}', -32600, 7, "params has to be"),
        (b'{"jsonrpc": "2.0", "id": null, "method": "ping"}', -32600, None, "id has to be"),
        (b'{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}', -32600, None, "id has to be"),
        (b'{"jsonrpc": "2.0", "id": true, "method": "ping"}', -32600, None, "id has to be"),
        (b'{"jsonrpc": "2.0", "id": {}, "method": "ping"}', -32600, None, "id has to be"),
        (b'{"jsonrpc": "2.0", "id": 7, "method": "no/such"}', -32601, 7, "Method not found"),
        (b'{"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": 3}}', -32602, 7, ""),
    ],
)
def test_invalid_request_line_gets_error(
    process: subprocess.Popen[bytes], line: bytes, code: int, request_id: Any, said: str
) -> None:
    answer = say(process, line)
    assert (answer["error"]["code"], answer["id"]) == (code, request_id)
    assert said in answer["error"]["message"]
    assert say(process, _CALL % (99, b"1")) == {"jsonrpc": "2.0", "id": 99, "result": {}}


@pytest.mark.parametrize(
    "line", [b"", b"  \r", b'{"jsonrpc": "2.0", "id": 5, "result": 3}', b'{"jsonrpc": "2.0", "method": "no"}']
)
def test_notification_lines_get_no_response(process: subprocess.Popen[bytes], line: bytes) -> None:
    assert say(process, line + b"\n" + _CALL % (98, b"1"))["id"] == 98


def test_invalid_response_is_error_for_its_waiter() -> None:
    heard = parse_message(b'{"jsonrpc": "2.0", "id": 5, "result": 3}')
    assert isinstance(heard, JSONRPCError)
    assert heard.id == 5
    assert parse_message(b'{"jsonrpc": "2.0", "id": null, "error": "no"}') is None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signal_ends_idle_server(tmp_path: Path, number: signal.Signals) -> None:
    with server(tmp_path) as process:
        process.send_signal(number)
        assert process.wait(30) == 0
        assert process.stderr is not None
        assert process.stderr.read() == b""


def test_client_closing_stdout_ends_server(tmp_path: Path) -> None:
    with server(tmp_path) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.close()
        process.stdin.write(_CALL % (1, b"1") + b"\n")
        process.stdin.flush()
        assert process.wait(30) == 0
        assert process.stderr is not None
        assert process.stderr.read() == b""


def test_requests_before_end_of_input_are_answered(tmp_path: Path) -> None:
    lists = b'{"jsonrpc": "2.0", "id": %d, "method": "tools/list"}\n'
    with server(tmp_path) as process:
        out, err = process.communicate(b"".join(lists % number for number in range(1, 41)), timeout=30)
    assert sorted(json.loads(line)["id"] for line in out.splitlines()) == list(range(1, 41))
    assert (process.returncode, err) == (0, b"")


def test_client_disconnect_during_long_call_does_not_block_exit(tmp_path: Path) -> None:
    plan = {"plan": 'S1: @EXECUTE_CODE (code="import time; time.sleep(60)") > $a'}
    call = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "run_plan", "arguments": plan},
    }
    with server(tmp_path) as process:
        began = time.monotonic()
        process.communicate(json.dumps(call).encode() + b"\n", timeout=30)
    assert time.monotonic() - began < 20


@pytest.mark.parametrize("closed", ["<&-", ">&-"])
def test_closed_stdin_or_stdout_is_error(tmp_path: Path, closed: str) -> None:
    command = f'exec "{sys.executable}" -m callsheet mcp --journal j.db {closed}'
    done = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "CFG010" in done.stderr
    assert not (tmp_path / "j.db").exists()
