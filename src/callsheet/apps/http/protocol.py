"""An HTTP connection that answers malformed requests with problem+json instead of plain text.

In: a connection. Out: the same, on which the server library's own words are told in callsheet's form.
"""

from __future__ import annotations

import sys
from typing import Any

import h11

from callsheet.apps.http.guard import SECURITY
from callsheet.apps.http.problems import Problem, problem_json, problem_response
from callsheet.apps.patience import PatientProtocol

MOST_UNREAD = 32 * 1024
"""Bytes of a head that may have come without its end."""
_TOO_LARGE = 431
"""What h11 says of a head beyond its bound."""


class ApiProtocol(PatientProtocol):
    """HTTP on one connection of the API."""

    def send_400_response(self, msg: str) -> None:
        """Say that what has come is no request, and end the connection."""
        said = problem_response(*_told(sys.exception()), {"connection": "close", **SECURITY})
        events = (
            h11.Response(status_code=said.status_code, headers=said.raw_headers),
            h11.Data(data=bytes(said.body)),
            h11.EndOfMessage(),
        )
        self.transport.write(b"".join(self.conn.send(event) or b"" for event in events))
        self.transport.close()


def _told(error: BaseException | None) -> tuple[int, dict[str, Any]]:
    """The status and the problem for an error of the server library."""
    if isinstance(error, h11.RemoteProtocolError) and error.error_status_hint == _TOO_LARGE:
        problem = Problem("API005", f"the head of the request is larger than {MOST_UNREAD:,} bytes")
        return 413, problem_json(problem, 413)
    problem = Problem("API008", "this is no request of HTTP/1.1")
    return 400, problem_json(problem, 400)
