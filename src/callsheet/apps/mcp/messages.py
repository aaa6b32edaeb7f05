"""Parses a line from a client into a message, or into the error to answer with.

In: the bytes of a line. Out: a message for the session; or Unreadable, with the answer of JSON-RPC 2.0
(section 5.1): -32700 for what is no JSON, -32600 for what is no message.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, cast

from mcp_types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    RequestId,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

from callsheet.ir.strict_json import NotJson, read_json

MOST_BYTES = 64 * 1024 * 1024
"""A line is refused that is longer: it would have to be held in memory as a whole."""
_FORM = 'a message is {"jsonrpc": "2.0", "id": a number or a text, "method": a text, "params": an object}'


class InvalidMessage(Exception):
    """The line is no message; `answer` says why."""

    def __init__(self, code: int, message: str, request: RequestId | None = None) -> None:
        super().__init__(message)
        self.response = JSONRPCError(jsonrpc="2.0", id=request, error=ErrorData(code=code, message=message))


def parse_message(line: bytes) -> JSONRPCMessage | None:
    """The message that a line is; None for an empty line. Raises Unreadable.

    A response that is none becomes an error for whoever waits for it: nobody answers an answer.

    >>> parse_message(b'{"jsonrpc": "2.0", "id": 7, "method": "ping"}').method
    'ping'
    >>> parse_message(b"ping")
    Traceback (most recent call last):
    callsheet.apps.mcp.messages.Unreadable: the line is no JSON: expecting value (character 1)
    """
    if len(line) > MOST_BYTES:
        raise InvalidMessage(INVALID_REQUEST, f"no message may have more than {MOST_BYTES:,} bytes")
    if not line.strip():
        return None
    value = _json(line)
    if isinstance(value, list):
        raise InvalidMessage(INVALID_REQUEST, "there are no batches: send each message on a line of its own")
    if not isinstance(value, dict):
        raise InvalidMessage(INVALID_REQUEST, f"this is no message: {_FORM}")
    return _message(cast("dict[str, Any]", value))


def _json(line: bytes) -> Any:
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        raise InvalidMessage(PARSE_ERROR, f"the line is no UTF-8 text (byte {error.start + 1})") from None
    try:
        value = read_json(text)
    except NotJson as error:
        where = "" if error.at is None else f" (character {error.at + 1})"
        raise InvalidMessage(PARSE_ERROR, f"the line is no JSON: {error}{where}") from None
    if b"\\ud" in line or b"\\uD" in line:
        _refuse_lone_surrogates(value)
    return value


def _refuse_lone_surrogates(value: Any) -> None:
    """Raise Unreadable for half of a surrogate pair: no answer that repeats it could be sent."""
    stack: list[Any] = [value]
    while stack:
        each = stack.pop()
        if isinstance(each, dict):
            table = cast("dict[str, Any]", each)
            stack += (*table, *table.values())
        elif isinstance(each, list):
            stack += cast("list[Any]", each)
        elif isinstance(each, str) and not _is_unicode(each):
            raise InvalidMessage(PARSE_ERROR, "the line has half of a surrogate pair in a text")


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _message(table: dict[str, Any]) -> JSONRPCMessage | None:
    name, is_call = _id_of(table), "method" in table
    is_nameless = "id" in table and name is None
    if not (is_call and is_nameless):  # the SDK would take it for a notification
        with suppress(ValidationError):
            return jsonrpc_message_adapter.validate_python(table, by_name=False)
    if is_call or not ("result" in table or "error" in table):
        raise InvalidMessage(INVALID_REQUEST, f"{_first_error(table)}: {_FORM}", name)
    error = ErrorData(code=INVALID_REQUEST, message="the client's response is none of JSON-RPC")
    return None if name is None else JSONRPCError(jsonrpc="2.0", id=name, error=error)


def _id_of(table: dict[str, Any]) -> RequestId | None:
    name = table.get("id")
    return name if isinstance(name, str | int) and not isinstance(name, bool) else None


def _first_error(table: dict[str, Any]) -> str:
    """The first field that is not as it has to be."""
    if table.get("jsonrpc") != "2.0":
        return 'jsonrpc has to be "2.0"'
    if not isinstance(table.get("method"), str):
        return "method has to be a text"
    if "id" in table and _id_of(table) is None:
        return "id has to be a whole number or a text"
    return "params has to be an object"
