"""An HTTP connection that answers malformed requests with problem+json instead of plain text.

In: a connection. Out: problem+json responses in place of those of the server library.
"""

from __future__ import annotations

import sys
from typing import Any

import h11

from callsheet.apps.head_timeout import HeadTimeoutProtocol
from callsheet.apps.http.guard import SECURITY
from callsheet.apps.http.problems import Problem, problem_json, problem_response

MOST_UNREAD = 32 * 1024
"""The maximum size in bytes of request headers that are not complete."""
_TOO_LARGE = 431
"""The status that h11 suggests for headers that are too large."""


class ApiProtocol(HeadTimeoutProtocol):
    """An HTTP connection of the API."""

    def send_400_response(self, msg: str) -> None:
        """Respond to a malformed request, and close the connection."""
        response = problem_response(*_problem_for(sys.exception()), {"connection": "close", **SECURITY})
        events = (
            h11.Response(status_code=response.status_code, headers=response.raw_headers),
            h11.Data(data=bytes(response.body)),
            h11.EndOfMessage(),
        )
        self.transport.write(b"".join(self.conn.send(event) or b"" for event in events))
        self.transport.close()


def _problem_for(error: BaseException | None) -> tuple[int, dict[str, Any]]:
    """The status and the problem for an error of the server library."""
    if isinstance(error, h11.RemoteProtocolError) and error.error_status_hint == _TOO_LARGE:
        problem = Problem("API005", f"the head of the request is larger than {MOST_UNREAD:,} bytes")
        return 413, problem_json(problem, 413)
    problem = Problem("API008", "the request is not valid HTTP/1.1")
    return 400, problem_json(problem, 400)
