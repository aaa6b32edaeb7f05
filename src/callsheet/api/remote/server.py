"""A connection to `callsheet serve`: requests, streams of events, and refusals as exceptions.

In: what is asked of a server. Out: bodies, paths and queries; what it tells, as types of
the library.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import asdict, fields
from datetime import UTC, datetime
from functools import cached_property
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from callsheet.api.arguments import InDoubt, verdict_of
from callsheet.api.findings import PlanError
from callsheet.api.plan import Plan, PlanLike, as_plan
from callsheet.api.proving import PolicyRefused
from callsheet.api.recorded_runs import JournalEvent, RecordedRun
from callsheet.api.result import RunResult
from callsheet.diagnostics import CallsheetError, Diagnostic, Source, from_json
from callsheet.diagnostics.wrong_type import wanted
from callsheet.machine import Limits, PolicyRefusal, Refusal, TookPlace, Usage
from callsheet.machine.limits import IN_REQUESTS
from callsheet.ports.urls import server_host
from callsheet.runtime.answers import PendingAsk
from callsheet.runtime.doubt import DoubtfulCall
from callsheet.store import RunStatus, check_run_id
from callsheet.store.runs import RunFilter

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
                        async for message in _messages(response):
                            until = time.monotonic() + self.patience
                            if not message.name:
                                after, pause = int(message.data["seq"]), PAUSE
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


async def _messages(response: httpx2.Response) -> AsyncGenerator[Streamed]:
    from httpx2 import EventSource  # noqa: PLC0415 - only where a run is followed

    async for event in EventSource(response, max_event_size=None):
        if event.data:  # others only say how long to wait before the next try
            yield Streamed("" if event.event == "message" else event.event, json.loads(event.data))


_TIMES = frozenset({"since", "until", "ended_since", "ended_until"})
"""The conditions on runs that are times."""


class Beginning(NamedTuple):
    """The id of a new run, the request that starts it, and the text of its plan."""

    run_id: str
    body: Mapping[str, Any]
    source: Source


class Sent(NamedTuple):
    """A plan on its way to a server: the members of a request, and the text that findings point into."""

    body: Mapping[str, Any]
    source: Source

    @classmethod
    def of(cls, given: PlanLike, inputs: Mapping[str, Any]) -> Sent:
        """A plan as its own text if the server reads that as the same plan, else as canonical JSON.

        Raises PlanError for a text that is not a plan.
        """
        plan = as_plan(given, inputs.keys())
        source = plan.source
        if source is None or not _reads_alike(source, plan, inputs):
            source = Source("<plan>", json.dumps(plan.to_json()))
        return cls({"plan": source.text, "name": source.name}, source)


def _reads_alike(source: Source, plan: Plan, inputs: Mapping[str, Any]) -> bool:
    """Whether a text is read as the plan where nothing is known of its syntax, nor of files beside it."""
    try:
        return Plan.parse(source.text, inputs=inputs.keys()) == plan
    except PlanError:
        return False


def of_run(run_id: str, page: str = "") -> str:
    """The path of a run, or of a page about it; raises JournalError (JRN001) for what is no id."""
    return f"/v1/runs/{check_run_id(run_id)}{page}"


def conditions_of(where: RunFilter) -> dict[str, Any]:
    """The conditions on runs that are set, as a query."""
    given = {name: value for name, value in asdict(where).items() if value not in (None, "", ())}
    query = {name: _iso_text(value) if name in _TIMES else value for name, value in given.items()}
    if "tags" in query:
        query["tag"] = ",".join(query.pop("tags"))
    return query


def _iso_text(seconds: float) -> str:
    """A time in seconds since 1970, as a query of the API names it."""
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def limits_of(given: Limits | None) -> dict[str, Any]:
    """The limits that a request may name; a server decides the pace of retries and its memory."""
    if given is None:
        return {}
    data = wanted("limits", given, Limits, "Limits(…)").to_json()
    return {name: value for name, value in data.items() if name in IN_REQUESTS and value is not None}


def terms_of(accept_changed_tools: bool, as_recorded: bool, limits: Limits | None) -> dict[str, Any]:
    """On what terms a run goes on."""
    return {
        "accept_changed_tools": accept_changed_tools,
        "as_recorded": as_recorded,
        "limits": limits_of(limits),
    }


def decision_of(given: InDoubt) -> dict[str, Any]:
    """A decision on calls in doubt; raises as `verdict_of` does."""
    verdict = verdict_of(given)
    if isinstance(verdict, TookPlace):
        return {"decision": "value", "value": verdict.value}
    return {"decision": str(verdict)}


Row = Mapping[str, Any]
UNDERWAY = frozenset({"queued", "running"})
"""The statuses of a run that its server is carrying on; all others are ends, or wait for somebody."""


def result_of(row: Row, diagnostics: Sequence[Diagnostic] = ()) -> RunResult:
    """The result of a run from its details; `diagnostics` are the warnings with which it was started."""
    refusal, objection, status = row["refusal"], row["objection"], row["status"]
    return RunResult(
        row["run_id"],
        RunStatus(status) if status in {*map(str, RunStatus)} else RunStatus.RUNNING,
        response=row["response"] or "",
        variables=dict(row["variables"]),
        steps_executed=row["steps_executed"],
        terminated=bool(row["terminated"]),
        error=row["error"],
        ended_at=row["ended_at"],
        in_doubt=tuple(map(call_of, row["in_doubt"])),
        waiting=tuple(ask_of(ask) for ask in row["waiting"] if not ask["answered"]),
        unanswered=tuple(map(call_of, row["unanswered"])),
        refusal=None if refusal is None else Refusal(**refusal),
        objection=None if objection is None else PolicyRefusal.from_json(objection),
        usage=Usage.from_json(row["usage"]),
        failed_steps=tuple(row["failed_steps"] or ()),
        diagnostics=tuple(diagnostics),
        answer=row["answer"],
    )


_Told = TypeVar("_Told", DoubtfulCall, PendingAsk, RecordedRun, JournalEvent)


def _told(kind: type[_Told], row: Row, **own: Any) -> _Told:
    """A value of the library from a row with the names of its fields; `own` are fields that are not in it."""
    given = {field.name: row[field.name] for field in fields(kind) if field.name in row}
    times: dict[str, Any] = {
        name: _moment(given[name]) for name in _TOLD_TIMES & given.keys() if given[name] is not None
    }
    return kind(**given | times | own)


_TOLD_TIMES = frozenset({"since", "until", "created", "updated", "ended", "time"})


def call_of(row: Row) -> DoubtfulCall:
    """A call in doubt, or one without an answer."""
    return _told(DoubtfulCall, row)


def ask_of(row: Row) -> PendingAsk:
    """A question, or a call to approve."""
    lists = {name: tuple(row[name]) for name in ("options", "inputs", "why") if name in row}
    answer = (row["answer"],) if "answer" in row else ()
    return _told(PendingAsk, row, is_answered=row["answered"], answer=answer, **lists)


def run_of(row: Row) -> RecordedRun:
    """A run in a list."""
    return _told(RecordedRun, row)


def event_of(run_id: str, row: Row) -> JournalEvent:
    """An event of the journal."""
    return _told(JournalEvent, row, run_id=run_id)


def _moment(text: str) -> float:
    """A time in seconds since 1970, from ISO 8601."""
    return datetime.fromisoformat(text).timestamp()
