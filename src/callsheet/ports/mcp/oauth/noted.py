"""What went wrong with a login while one call was sent, told to that call.

The SDK sends each request in the context of the call that asks for it, and keeps the status of an answer that
is an error to itself.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from callsheet.diagnostics import CallsheetError

_OF_CALL: ContextVar[list[CallsheetError] | None] = ContextVar("callsheet_login_troubles", default=None)


def note(trouble: CallsheetError) -> None:
    """Tell the call in whose context this is sent, if it is one."""
    noted = _OF_CALL.get()
    if noted is not None:
        noted.append(trouble)


@contextmanager
def troubles() -> Generator[list[CallsheetError]]:
    """Hear why requests that are sent meanwhile, in this context, were refused for their login."""
    noted: list[CallsheetError] = []
    token = _OF_CALL.set(noted)
    try:
        yield noted
    finally:
        _OF_CALL.reset(token)
