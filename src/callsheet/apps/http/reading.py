"""Reads a request body within limits of size and time, as strict JSON, into the models of its endpoint.

In: a request. Out: models, or CallsheetError (API004 to API008) with the invalid fields.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar, cast, get_args

from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect, Request

from callsheet.apps.http.problems import Problem
from callsheet.apps.http.state import RequestLimits
from callsheet.apps.table.arguments import NAME, NAME_SPELLING, RUN_ID, RUN_ID_SPELLING
from callsheet.apps.table.operation import names_of
from callsheet.diagnostics import CallsheetError, Diagnostic, Severity, meant
from callsheet.ir.strict_json import NotJson, read_json

M = TypeVar("M", bound=BaseModel)
_JSON = re.compile(r"application/json\s*(?:;\s*charset\s*=\s*\"?utf-8\"?\s*)?", re.IGNORECASE)
_SPELLINGS = {
    NAME: NAME_SPELLING,
    RUN_ID: RUN_ID_SPELLING,
    r"^[0-9a-f]{32}$": "it has 32 of the characters 0-9 and a-f",
}
"""What each pattern of a text demands, in words."""
_MOST_DEPTH = 100
_MOST_SAID = 20


async def read_body(request: Request, model: type[M], request_limits: RequestLimits, *, is_needed: bool) -> M:
    """Parse the body; an empty one counts as `{}` unless `is_needed`. Raises CallsheetError."""
    kind = request.headers.get("content-type")
    if kind is None and not is_needed and not await body_bytes(request, request_limits):
        return fitted(model, {}, strict=True)
    if kind is None or not _JSON.fullmatch(kind.strip()) or request.headers.get("content-encoding"):
        raise Problem("API004", "the body must be JSON: Content-Type: application/json, not compressed")
    data = await body_bytes(request, request_limits)
    if not data and not is_needed:
        return fitted(model, {}, strict=True)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Problem("API008", f"the body is not UTF-8 text (byte {error.start})") from None
    try:
        value = read_json(text)
    except NotJson as error:
        where = "" if error.at is None else f" (character {error.at + 1})"
        raise Problem("API008", f"the body is not JSON: {error}{where}") from None
    _check(value)
    return fitted(model, value, strict=True)


_READ_ANYWAY = 16
"""Up to this multiple of the maximum size, a body is read and discarded before it is refused. A client that
is cut off while it sends would see a broken connection instead of the response."""


async def body_bytes(request: Request, request_limits: RequestLimits) -> bytes:
    """The body as it was sent; raises Problem if it is too large, or comes too slowly."""
    most, length = request_limits.most_body, request.headers.get("content-length", "")
    size = int(length[:20]) if length.isascii() and length.isdigit() else 0
    is_too_large, parts = size > most, list[bytes]()
    if is_too_large and size > _READ_ANYWAY * most:
        raise _too_large(most)
    size = 0
    try:
        async with asyncio.timeout(request_limits.body_seconds):
            async for part in request.stream():
                size += len(part)
                if size > _READ_ANYWAY * most:
                    raise _too_large(most)
                is_too_large = is_too_large or size > most
                if is_too_large:
                    parts.clear()
                else:
                    parts.append(part)
    except TimeoutError:
        if is_too_large:
            raise _too_large(most) from None
        message = f"the body was not received within {request_limits.body_seconds:g} seconds"
        raise Problem("API007", message, headers={"Connection": "close"}) from None
    except ClientDisconnect:
        raise Problem("API007", "the client closed the connection") from None
    if is_too_large:
        raise _too_large(most)
    return b"".join(parts)


def _too_large(most: int) -> Problem:
    return Problem("API005", f"the body is larger than {most:,} bytes", headers={"Connection": "close"})


def _check(value: Any) -> None:
    """Raise Problem for data that is nested too deep or contains lone surrogates."""
    level: list[Any] = [value]
    for _ in range(_MOST_DEPTH):
        if not level:
            return
        level = [inner for each in level for inner in _inside(each)]
    if level:
        raise Problem("API008", f"the body is nested deeper than {_MOST_DEPTH} levels")


def _inside(value: Any) -> list[Any]:
    """The members of a value; raises Problem for a string with lone surrogates."""
    if isinstance(value, str):
        _check_text(value)
    elif isinstance(value, dict):
        named = cast("dict[str, Any]", value)
        return [*named, *named.values()]
    elif isinstance(value, list):
        return cast("list[Any]", value)
    return []


def _check_text(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Problem("API008", "a string in the request contains a lone surrogate") from None


def read_query(request: Request, model: type[M]) -> M:
    """Parse the query; numbers and booleans are parsed from strings. Raises CallsheetError (API008)."""
    given: dict[str, Any] = {}
    for name, value in request.query_params.multi_items():
        if name in given:
            raise Problem("API008", f"{name[:60]!a} occurs twice in the query")
        given[name] = value
    _check(given)
    return fitted(model, given, where="query: ", strict=False)


def fitted(model: type[M], value: Any, where: str = "", *, strict: bool) -> M:
    """Validate data; raises CallsheetError (API008) with a diagnostic for each invalid field."""
    try:
        return model.model_validate(value, strict=strict)
    except ValidationError as error:
        errors = error.errors(include_url=False, include_input=False)
        rows = [_diagnostic(model, row, where) for row in errors[:_MOST_SAID]]
        raise CallsheetError(rows) from None


def _diagnostic(model: type[BaseModel], row: Any, where: str) -> Diagnostic:
    parts = [part for part in row["loc"] if part != "[key]"]
    place = ".".join(map(str, parts))[:200]
    message, hint = str(row["msg"]), None
    match row["type"]:
        case "extra_forbidden":
            message, hint = "there is no such field", _near(model, parts)
        case "missing":
            message = "it is missing"
        case "model_type" | "model_attributes_type" | "dict_type":
            message = "input should be a JSON object"
        case "string_pattern_mismatch":
            message = _SPELLINGS.get(row["ctx"]["pattern"], message)
        case _:
            message = message[:1].lower() + message[1:]
    return Diagnostic("API008", Severity.ERROR, f"{where}{place or 'the body'}: {message}", help=hint)


def _near(model: type[BaseModel], place: Sequence[str | int]) -> str | None:
    """The help for an unknown field at this place: the nearest names, or else all; None outside models."""
    *above, unknown = place
    for part in above:
        if isinstance(part, int):
            continue  # the model of a list's items is that of its field
        field = model.model_fields.get(part)
        inner = None if field is None else next(_models_in(field.annotation), None)
        if inner is None:
            return None
        model = inner
    names = names_of(model)
    if not names:
        return "leave it out"
    return meant(str(unknown), names, f"the fields are {', '.join(names)}")


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models that a type names: itself, or those of its items or alternatives."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)
