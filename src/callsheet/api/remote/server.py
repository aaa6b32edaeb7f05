"""A connection to `callsheet serve`: requests, streams of events, and refusals as exceptions."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncGenerator, Mapping
from functools import cached_property
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from callsheet.api.findings import PlanError
from callsheet.api.proving import PolicyRefused
from callsheet.diagnostics import CallsheetError, Source, from_json
from callsheet.diagnostics.wrong_type import wanted
from callsheet.ports.urls import server_host

if TYPE_CHECKING:
    from ssl import SSLContext

    import httpx2

TOKEN = "CALLSHEET_TOKEN"
"""The environment variable with the token, if none is given."""
PATIENCE = 30.0
"""Seconds for which a server that cannot be reached, or has no room, is asked again."""
_CONNECTING = 10.0
_SILENCE = 60.0
"""Seconds without a byte after which a connection counts as lost; streams are never silent for so long."""
PAUSE = 0.1
"""Seconds before a first repetition."""
_LONGEST_PAUSE = 5.0
_NO_ROOM = (429, 503)
_NOT_OF_PLANS = ("API", "CFG", "JRN", "RUN", "SEC")
"""The beginnings of codes that are about a request, and not about the plan in it."""


class Refused(NamedTuple):
    """A response that is an error: its status, and the members of its problem."""

    status: int
    problem: Mapping[str, Any]

    @property
    def code(self) -> str:
        """The diagnostic code; empty if something else than callsheet has answered."""
        return str(self.problem.get("code", ""))


class ResponseLost(CallsheetError):
    """A request that the server may have taken, but whose response was lost (API060)."""


class Streamed(NamedTuple):
    """A message of the event stream of a run: `name` is empty for an event of the journal."""

    name: str
    data: Mapping[str, Any]


class Server:
    """The server at an address, which is asked for `patience` seconds; ValueError for no address."""

    def __init__(self, address: str, token: str | None, patience: float) -> None:
        self.address = wanted("address", address, str, "the address of a server").rstrip("/")
        try:
            server_host(self.address)
        except ValueError as error:
            raise ValueError(f"{address!r} is no address of a server: {error}") from None
        given = os.environ.get(TOKEN) if token is None else wanted("token", token, str, "a text")
        self._headers = {"authorization": f"Bearer {given}"} if given else {}
        self.patience = patience

    def client(self) -> httpx2.AsyncClient:
        """A client of this server, which keeps its connections until it is closed."""
        import httpx2  # noqa: PLC0415 - only where a server is asked

        timeout = httpx2.Timeout(_SILENCE, connect=_CONNECTING)
        return httpx2.AsyncClient(
            base_url=self.address, headers=self._headers, timeout=timeout, verify=self._certificates
        )

    @cached_property
    def _certificates(self) -> SSLContext:
        """The certificates of authorities; reading them costs more than a request."""
        import httpx2  # noqa: PLC0415 - as above

        return httpx2.create_ssl_context()

    async def ask(
        self,
        client: httpx2.AsyncClient,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, Any] | None = None,
        *,
        repeats: bool = False,
    ) -> Any | Refused:
        """The data of a response, or the problem that it is.

        A request that was not taken is sent again for a while; one that may have been taken only if it asks
        for data alone, or `repeats` says that it may be. Raises CallsheetError (API060) if the server cannot
        be reached, or has no room, for all that time; ResponseLost for a request that may have been taken.
        """
        import httpx2  # noqa: PLC0415 - as above

        until, pause = time.monotonic() + self.patience, PAUSE
        while True:
            why, asked_pause = "", 0.0
            try:
                response = await client.request(method, path, json=body, params=query)
            except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
                why = str(error) or type(error).__name__
            except httpx2.TransportError as error:
                why = str(error) or type(error).__name__
                if method != "GET" and not repeats:
                    lost = self._unreachable(f"{why}; it may have taken the request")
                    raise ResponseLost(lost.diagnostics) from None
            else:
                answer = _read(response)
                if not (isinstance(answer, Refused) and answer.status in _NO_ROOM):
                    return answer
                why, asked_pause = f"it answers {answer.status}", _seconds(response)
            pause = max(pause, asked_pause)
            if time.monotonic() + pause > until:
                raise self._unreachable(why)
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)

    async def events(
        self, client: httpx2.AsyncClient, run_id: str, after: int = 0
    ) -> AsyncGenerator[Streamed | Refused]:
        """The messages about a run after the event with the number `after`, until its stream ends.

        A connection that is lost is made again, and the stream goes on where it was. Raises CallsheetError
        (API060) if that fails for a while.
        """
        import httpx2  # noqa: PLC0415 - as above

        until, pause = time.monotonic() + self.patience, PAUSE
        while True:
            why = "the stream broke off"
            try:
                path = f"/v1/runs/{run_id}/events"
                async with client.stream("GET", path, params={"after": after}) as response:
                    if response.is_success:
                        async for message in self._messages(response):
                            until = time.monotonic() + self.patience
                            if not message.name:
                                seq = message.data.get("seq")
                                if not isinstance(seq, int):
                                    raise self.another()
                                after, pause = seq, PAUSE
                            yield message
                            if message.name in ("end", "problem"):
                                return
                    else:
                        await response.aread()
                        refused = cast("Refused", _read(response))
                        if refused.status not in _NO_ROOM:
                            yield refused
                            return
                        why, pause = f"it answers {refused.status}", max(pause, _seconds(response))
            except httpx2.TransportError as error:
                why = str(error) or type(error).__name__
            if time.monotonic() + pause > until:
                raise self._unreachable(why)
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)

    async def _messages(self, response: httpx2.Response) -> AsyncGenerator[Streamed]:
        from httpx2 import EventSource  # noqa: PLC0415 - only where a run is followed

        async for event in EventSource(response, max_event_size=None):
            if not event.data:  # it only says how long to wait before the next try
                continue
            try:
                data = json.loads(event.data)
            except ValueError:
                data = None
            if not isinstance(data, dict):
                raise self.another()
            yield Streamed("" if event.event == "message" else event.event, cast("dict[str, Any]", data))

    def _unreachable(self, why: str) -> CallsheetError:
        return CallsheetError.single(
            "API060",
            f"the server at {self.address} cannot be used: {why}",
            help="a run that it has begun goes on there; ask again when it can be reached",
        )

    def another(self, status: int = HTTPStatus.OK) -> CallsheetError:
        """The error for an answer that no server of callsheet gives."""
        return CallsheetError.single(
            "API061",
            f"{self.address} answers {int(status)}, and not as callsheet does",
            help="check the address: it is that of `callsheet serve`, without /v1",
        )

    def error(self, refused: Refused, text: Source | None = None) -> CallsheetError:
        """What the server refused, as the library raises it; `text` is the plan that was sent."""
        rows = cast("list[Mapping[str, Any]]", refused.problem.get("diagnostics") or [])
        if not rows:
            return self.another(refused.status)
        found = from_json(rows, text)
        if refused.status == HTTPStatus.FORBIDDEN and refused.code.startswith("POL"):
            return PolicyRefused(found, text)
        is_invalid = refused.status == HTTPStatus.UNPROCESSABLE_ENTITY
        if text is not None and is_invalid and not refused.code.startswith(_NOT_OF_PLANS):
            return PlanError(found, text)
        return CallsheetError(found, text)


def _read(response: httpx2.Response) -> Any | Refused:
    """The data of a response, or its problem; a text if it is no JSON."""
    if not response.is_success:
        try:
            problem = json.loads(response.content)
        except ValueError:
            problem = {}
        return Refused(response.status_code, problem if isinstance(problem, dict) else {})
    try:
        if response.headers.get("content-type", "").startswith("application/x-ndjson"):
            return [json.loads(line) for line in response.content.splitlines()]
        return json.loads(response.content or b"null")
    except ValueError:
        return response.text


def _seconds(response: httpx2.Response) -> float:
    """The pause that a response asks for."""
    text = response.headers.get("retry-after", "")
    return min(float(text), _LONGEST_PAUSE) if text.isdigit() else 0.0
