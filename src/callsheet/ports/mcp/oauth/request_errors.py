"""Passes login errors of HTTP requests to the call that caused them.

The SDK sends each request in the context of the call that causes it, but does not pass on the status of
error responses.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from callsheet.diagnostics import CallsheetError

_OF_CALL: ContextVar[list[CallsheetError] | None] = ContextVar("callsheet_login_troubles", default=None)


def note(trouble: CallsheetError) -> None:
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
