"""Parses a line from a client into a message, or into the error to answer with.

In: the bytes of a line. Out: a message for the session; or InvalidMessage with the error response of JSON-RPC
2.0 (section 5.1): -32700 for invalid JSON, -32600 for an invalid message.
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
"""The maximum length of a line in bytes, since a line is in memory as a whole."""
_FORM = 'a message is {"jsonrpc": "2.0", "id": a number or a text, "method": a text, "params": an object}'


class InvalidMessage(Exception):
    """The line is not a valid message; `response` is the error response."""

    def __init__(self, code: int, message: str, request: RequestId | None = None) -> None:
        super().__init__(message)
        self.response = JSONRPCError(jsonrpc="2.0", id=request, error=ErrorData(code=code, message=message))


def parse_message(line: bytes) -> JSONRPCMessage | None:
    """Parse a line; None if it is empty. Raises InvalidMessage.

    An invalid response becomes an error for the request that waits for it, since responses are not answered.

    >>> parse_message(b'{"jsonrpc": "2.0", "id": 7, "method": "ping"}').method
    'ping'
    >>> parse_message(b"ping")
    Traceback (most recent call last):
    callsheet.apps.mcp.messages.InvalidMessage: the line is not JSON: expecting value (character 1)
    """
    if len(line) > MOST_BYTES:
        raise InvalidMessage(INVALID_REQUEST, f"a message may have at most {MOST_BYTES:,} bytes")
    if not line.strip():
        return None
    value = json_in(line)
    if isinstance(value, list):
        raise InvalidMessage(INVALID_REQUEST, "batches are not supported: send each message on its own line")
    if not isinstance(value, dict):
        raise InvalidMessage(INVALID_REQUEST, f"this is not a message: {_FORM}")
    return _message(cast("dict[str, Any]", value))


def json_in(line: bytes, what: str = "line") -> Any:
    """The JSON in a line or, as `what` says, a body; raises InvalidMessage for what is ambiguous in it."""
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        raise InvalidMessage(PARSE_ERROR, f"the {what} is not UTF-8 (byte {error.start + 1})") from None
    try:
        value = read_json(text)
    except NotJson as error:
        where = "" if error.at is None else f" (character {error.at + 1})"
        raise InvalidMessage(PARSE_ERROR, f"the {what} is not JSON: {error}{where}") from None
    if b"\\ud" in line or b"\\uD" in line:
        _refuse_lone_surrogates(value, what)
    return value


def _refuse_lone_surrogates(value: Any, what: str) -> None:
    """Raise InvalidMessage for a lone surrogate, since a response that contains it could not be encoded."""
    stack: list[Any] = [value]
    while stack:
        each = stack.pop()
        if isinstance(each, dict):
            table = cast("dict[str, Any]", each)
            stack += (*table, *table.values())
        elif isinstance(each, list):
            stack += cast("list[Any]", each)
        elif isinstance(each, str) and not _is_unicode(each):
            raise InvalidMessage(PARSE_ERROR, f"the {what} has a lone surrogate in a text")


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _message(table: dict[str, Any]) -> JSONRPCMessage | None:
    name, is_call = _id_of(table), "method" in table
    is_nameless = "id" in table and name is None
    if not (is_call and is_nameless):  # the SDK would treat it as a notification
        with suppress(ValidationError):
            return jsonrpc_message_adapter.validate_python(table, by_name=False)
    if is_call or not ("result" in table or "error" in table):
        raise InvalidMessage(INVALID_REQUEST, f"{_first_error(table)}: {_FORM}", name)
    error = ErrorData(code=INVALID_REQUEST, message="the client's response is not valid JSON-RPC")
    return None if name is None else JSONRPCError(jsonrpc="2.0", id=name, error=error)


def _id_of(table: dict[str, Any]) -> RequestId | None:
    name = table.get("id")
    return name if isinstance(name, str | int) and not isinstance(name, bool) else None


def _first_error(table: dict[str, Any]) -> str:
    """The error of the first invalid field."""
    if table.get("jsonrpc") != "2.0":
        return 'jsonrpc has to be "2.0"'
    if not isinstance(table.get("method"), str):
        return "method has to be a text"
    if "id" in table and _id_of(table) is None:
        return "id has to be a whole number or a text"
    return "params has to be an object"
