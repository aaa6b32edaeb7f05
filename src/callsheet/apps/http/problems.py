"""Error responses in the form of RFC 9457, with callsheet's diagnostics.

In: an error. Out: a status and a response. The type of a problem is the address of the page that explains its
code.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from callsheet.api.proving import PolicyRefused
from callsheet.apps.rendering.help_text import HTTP
from callsheet.diagnostics import CODES, CallsheetError, Diagnostic, to_json
from callsheet.store.errors import JournalWriteFailed

MEDIA_TYPE = "application/problem+json"

_STATUSES: Mapping[str, int] = {
    "API001": 401,
    "API002": 421,
    "API003": 403,
    "API004": 415,
    "API005": 413,
    "API006": 429,
    "API007": 408,
    "API008": 422,
    "API009": 404,
    "API010": 405,
    "API011": 503,
    "API013": 500,
    "API014": 403,
    "API015": 401,
    "API016": 503,
    "API020": 409,
    "API021": 401,
    "API023": 403,
    "RUN039": 403,
    "API030": 409,
    "API050": 409,
    **dict.fromkeys(["CFG015", "JRN001", "JRN002", "JRN014", "JRN040", "JRN041", "JRN042"], 404),
    **dict.fromkeys(["PLN001", "PLN002", "PLN021", "RUN060"], 404),
    **dict.fromkeys(
        ["JRN003", "JRN004", "JRN012", "JRN015", "JRN020", "JRN021", "JRN022", "JRN023", "JRN024"], 409
    ),
    **dict.fromkeys(["JRN030", "JRN031", "JRN032", "JRN081", "JRN082", "JRN083", "JRN084"], 409),
    **dict.fromkeys(["PLN003", "PLN025", "RUN030", "RUN031"], 409),
}
"""The statuses of codes; a refusal by policy is 403, every other error 422."""

_TITLES = {
    401: "not signed in",
    403: "refused",
    404: "not found",
    405: "method not allowed",
    408: "too slow",
    409: "conflict",
    413: "too large",
    415: "not JSON",
    421: "wrong host",
    422: "invalid",
    429: "too many requests",
    500: "a bug in callsheet",
    503: "temporarily unavailable",
}


class Problem(CallsheetError):
    """An error of an HTTP request; `headers` are added to the response."""

    def __init__(
        self, code: str, message: str, hint: str | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(CallsheetError.single(code, message, help=hint).diagnostics)
        self.headers = dict(headers or {})


def status_of(error: CallsheetError) -> int:
    """The HTTP status of an error."""
    if isinstance(error, PolicyRefused):
        return 403
    if isinstance(error, JournalWriteFailed):
        return 503
    return _STATUSES.get(_leading(error).code, 422)


def problem_of(error: CallsheetError, more: Mapping[str, Any] | None = None) -> Response:
    """The response for an error; `more` are additional members."""
    status = status_of(error)
    headers = error.headers if isinstance(error, Problem) else {}
    return problem_response(status, problem_json(error, status) | dict(more or {}), headers)


def problem_json(error: CallsheetError, status: int) -> dict[str, Any]:
    """The members of a problem for an error."""
    first = _leading(error)
    return {
        "type": f"/v1/explain/{first.code}",
        "title": CODES[first.code].title if first.code in CODES else _TITLES.get(status, "invalid"),
        "status": status,
        "detail": first.message,
        "code": first.code,
        "diagnostics": to_json(HTTP.rewrite_all(error.diagnostics), error.source),
    }


def problem_response(status: int, data: Mapping[str, Any], headers: Mapping[str, str]) -> Response:
    """A problem as a response."""
    return Response(json_bytes(data), status, dict(headers), MEDIA_TYPE)


def json_bytes(data: object) -> bytes:
    """Data as JSON in UTF-8; all non-ASCII text is escaped if it contains lone surrogates."""
    try:
        return json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(data, allow_nan=False, separators=(",", ":")).encode()


def _leading(error: CallsheetError) -> Diagnostic:
    """The first error of the diagnostics, or the first diagnostic."""
    return next((d for d in error.diagnostics if d.is_error), error.diagnostics[0])
