"""Describes why an MCP session could not be opened or failed, and failures of its calls by their reason.

In: an exception from the session. Out: CallsheetError (TOL010 to TOL014) naming the server, what was tried
and a way out. Environment variables, arguments, headers and passwords are not shown.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, cast
from urllib.parse import urlsplit

from callsheet.diagnostics import CallsheetError
from callsheet.ports.calls import ToolFailed
from callsheet.ports.mcp.servers import HttpServer, McpServerConfig, StdioServer, finder_for
from callsheet.ports.mcp.transport import ServerProcess
from callsheet.sealing.masking import mask_text

_UNPARSED = "Failed to parse JSON response"
_UNREADABLE = (
    _UNPARSED,
    "Unexpected content type",
    "Redirect to ",
    "server answered a request with 202 Accepted",
)
"""How the SDK's messages begin for a response from which nothing can be learnt about the call."""
_LONGEST_PLACE = 200
_ERROR_STATUS = "Server returned an error response"
_LOST = frozenset({"Connection closed", "Session terminated", _ERROR_STATUS})
_UNKNOWN = frozenset((-32_022, -32_600, -32_601, -32_602))
"""The codes of an unknown protocol, and of a request, a method and parameters that are none of a protocol."""


class OtherHeaders(ToolFailed):
    """The server rejected a call for its headers, so its declaration of the tool may have changed."""


def unwelcome(trouble: CallsheetError) -> ToolFailed:
    """The failure that a plan sees for a call refused for its login."""
    diagnostic = trouble.diagnostics[0]
    return ToolFailed(f"{diagnostic.message}; {diagnostic.help}" if diagnostic.help else diagnostic.message)


def _innermost(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error


def because(error: BaseException) -> str:
    """The innermost cause on one line: the first leaf of an exception group.

    For a message that violates the protocol, the place of the first violation.
    """
    error = _innermost(error)
    if type(error).__name__ == "ValidationError":  # pydantic's, which is imported with the SDK alone
        wrong = cast("Any", error).errors(include_url=False, include_context=False, include_input=False)
        place = ".".join(str(part) for part in wrong[0]["loc"])
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        return f"{place[:_LONGEST_PLACE]}: {wrong[0]['msg'][0].lower()}{wrong[0]['msg'][1:]}{more}"
    text = str(error).strip()
    if text.startswith(_UNPARSED) and "validation error" in text:  # the SDK quotes pydantic from there on
        return (
            "its body is not JSON" if "Invalid JSON:" in text else "its body is not a message of the protocol"
        )
    return text.splitlines()[0] if text else type(error).__name__


def is_lost(message: str) -> bool:
    """Whether the message is the SDK's own about a URL that did not answer, and not the server's."""
    return message in _LOST or message.startswith("SSE stream ")


def is_unreadable(message: str) -> bool:
    """Whether the message is the SDK's own about a URL whose answer violates the protocol."""
    return message.startswith(_UNREADABLE)


def shown_url(url: str) -> str:
    """A URL without user, password, query and fragment."""
    parts = urlsplit(url)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname or ''}{port}{parts.path}"


def not_opened(
    config: McpServerConfig,
    process: ServerProcess | None,
    error: Exception,
    within: float,
    refusal: str | None = None,
    secrets: Iterable[str] = (),
) -> CallsheetError:
    """The diagnostic for a session that could not be opened `within` seconds.

    `refusal` is the status of the URL's last error response, `secrets` were sent to it.
    """
    inner = _innermost(error)
    if isinstance(inner, CallsheetError):
        return inner
    transport = config.transport
    name = f"the MCP server {config.name!r}"
    if isinstance(transport, HttpServer):
        place = shown_url(transport.url)
        if isinstance(error, TimeoutError):
            return _late(name, f"at {place}", within)
        if refusal is None and _is_protocol(error):
            return _refused(name, f"at {place}", _masked(transport, because(error), secrets))
        return CallsheetError.single(
            "TOL013",
            f"{name} at {place} cannot be reached: {_masked(transport, refusal or because(error), secrets)}",
            help="check that it runs, and the url with its path (often /mcp)",
        )
    how = f"started with {transport.command!r}"
    if process is not None and process.ended_by_itself:
        return CallsheetError.single(
            "TOL011",
            f"{name}, {how}, ended before it could be used: it {process.last_words()}",
            help="run the command in a terminal; it must keep running and wait for input",
        )
    if isinstance(error, TimeoutError):
        words = process.tail.text() if process is not None else ""
        return _late(name, how, within, words)
    return _refused(name, how, _masked(transport, because(error)))


def refuses_protocol(error: BaseException) -> bool:
    """Whether a server has answered that it does not know the protocol, at a URL perhaps by a status."""
    error = _innermost(error)
    if type(error).__name__ != "MCPError":
        return False
    return cast("Any", error).code in _UNKNOWN or str(error) == _ERROR_STATUS


def _is_protocol(error: BaseException) -> bool:
    error = _innermost(error)
    return type(error).__name__ in ("MCPError", "ValidationError", "RuntimeError")


def _late(name: str, how: str, within: float, words: str = "") -> CallsheetError:
    wrote = f"; it last wrote:\n{words}" if words else ""
    return CallsheetError.single(
        "TOL012",
        f"{name}, {how}, did not answer the first request within {within:g} s{wrote}",
        help="check that it is an MCP server with this transport, or increase the timeout",
    )


def _masked(transport: HttpServer | StdioServer, text: str, secrets: Iterable[str] = ()) -> str:
    return mask_text(text, finder_for(transport, secrets))


def _refused(name: str, how: str, why: str) -> CallsheetError:
    return CallsheetError.single(
        "TOL014",
        f"{name}, {how}, could not agree on a session: {why}",
        help="check that it is an MCP server with a protocol version that callsheet supports",
    )


_OF_CALL: ContextVar[list[CallsheetError] | None] = ContextVar("callsheet_login_troubles", default=None)
"""Login errors of the requests of a call: the SDK sends each in the context of its call, but does not
pass on the status of error responses."""


def note_trouble(trouble: CallsheetError) -> None:
    """Report a login error to the call in whose context this runs, if there is one."""
    noted = _OF_CALL.get()
    if noted is not None:
        noted.append(trouble)


@contextmanager
def troubles() -> Generator[list[CallsheetError]]:
    """Collect the login errors of requests sent in this context."""
    noted: list[CallsheetError] = []
    token = _OF_CALL.set(noted)
    try:
        yield noted
    finally:
        _OF_CALL.reset(token)
