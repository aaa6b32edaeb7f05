"""`RemoteRuntime`: runs on a server, with the methods and the results of `Runtime`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeAlias, TypeVar, cast

from callsheet.api.arguments import (
    InDoubt,
    answer_of,
    id_of_run,
    inputs_for,
    tags_of,
    values_of,
    with_secrets,
)
from callsheet.api.findings import Findings
from callsheet.api.loops import IS_NOT_OPEN, IS_OPEN, Loops, blocking, require_loop
from callsheet.api.plan import PlanLike
from callsheet.api.recorded_runs import JournalEvent, RecordedRun
from callsheet.api.remote import wire
from callsheet.api.remote.server import PATIENCE, PAUSE, Refused, ResponseLost, Server
from callsheet.api.remote.wire import (
    Beginning,
    Sent,
    conditions_of,
    decision_of,
    limits_of,
    of_run,
    terms_of,
)
from callsheet.api.result import RunResult
from callsheet.diagnostics import CallsheetError, Diagnostic, Source, from_json
from callsheet.diagnostics.wrong_type import wanted, wanted_number
from callsheet.machine import Limits, Verdict
from callsheet.runtime.answers import Answer, PendingAsk
from callsheet.runtime.cancelling import PATIENCE as CANCELLING
from callsheet.runtime.doubt import DoubtfulCall
from callsheet.store.pauses import RunPause
from callsheet.store.runs import RunFilter

if TYPE_CHECKING:
    import httpx2

RemoteConsent: TypeAlias = "bool | Callable[[Sequence[Mapping[str, Any]]], bool]"
"""Whether a new run may change something: True, or a function whose True allows the calls it is shown."""
_Notes: TypeAlias = tuple[Diagnostic, ...]
_MOST_AT_ONCE = 500
_Told = TypeVar("_Told")


class RemoteRun(AsyncIterator[JournalEvent]):
    """A run on a server, made by `RemoteRuntime.start`.

    Iterating yields the events of its journal, each once, until it has ended or waits for somebody. Leaving
    it, or ending this program, does not affect the run.
    """

    def __init__(self, run_id: str, runtime: RemoteRuntime, begun: asyncio.Task[_Notes]) -> None:
        self.run_id = run_id
        """The run's id, also in the journal of the server."""
        self._runtime = runtime
        self._begun = begun
        self._events = self._told()

    async def started(self) -> _Notes:
        """Wait until the server has recorded the run; the warnings and hints about its plan.

        Raises as `RemoteRuntime.run` does.
        """
        return await asyncio.shield(self._begun)

    async def result(self) -> RunResult:
        """Wait until the run has ended or waits for somebody; may be awaited more than once."""
        diagnostics = await self.started()
        return await self._runtime._settled(self.run_id, diagnostics)  # pyright: ignore[reportPrivateUsage]

    async def cancel(self, reason: str = "cancelled") -> None:
        """End the run for good."""
        await self.started()
        await self._runtime.cancel(self.run_id, reason)

    async def _told(self) -> AsyncGenerator[JournalEvent]:
        await self.started()
        async with aclosing(self._runtime.tail(self.run_id, follow=True)) as events:
            async for event in events:
                yield event

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> JournalEvent:
        return await anext(self._events)

    def __repr__(self) -> str:
        return f"<RemoteRun {self.run_id} on {self._runtime.address}>"


class RemoteRuntime(Loops):
    """Runs plans on a server: `callsheet serve` with its tools, its model, its policy and its journal.

    - `address`: the address of the server, as it prints it.
    - `token`: its token, or that of a person; by default the variable CALLSHEET_TOKEN has it.
    - `patience`: for how many seconds a server that cannot be reached, or has no room, is asked again.

    The methods take and give what those of `Runtime` do; what differs is said there. Runs are named by their
    complete ids, secrets stay encrypted in all that is returned, and a run goes on if this program ends. All
    methods raise CallsheetError: API060 for a server that cannot be reached, API061 for one of another kind,
    API001 for a wrong token, and what the server refuses, by its code. Within `with` or `async with`
    connections are kept.

        with Runtime.at("https://plans.example", token=token) as runtime:
            print(runtime.run_sync(plan, {"who": "Ada"}).response)
    """

    def __init__(self, address: str, *, token: str | None = None, patience: float = PATIENCE) -> None:
        self._server = Server(address, token, wanted_number("patience", patience))
        self._client: httpx2.AsyncClient | None = None

    @property
    def address(self) -> str:
        """The address of the server."""
        return self._server.address

    async def __aenter__(self) -> Self:
        if self._client is not None:
            raise RuntimeError(IS_OPEN)
        self._client = self._server.client()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        client, self._client = self._client, None
        if client is None:
            raise RuntimeError(IS_NOT_OPEN)
        await client.aclose()

    def __repr__(self) -> str:
        return f"<RemoteRuntime {self.address}>"

    # ------------------------------------------------------------ plans

    async def check(self, plan: PlanLike, inputs: Mapping[str, Any] | None = None, **named: Any) -> Findings:
        """Check a plan against the tools of the server; raises PlanError for a text that is not a plan."""
        values = values_of(inputs_for(plan, inputs, named))
        sent = Sent.of(plan, values)
        body = {**sent.body, "inputs": sorted(values)}
        data = await self._data(
            "POST", "/v1/validate", body, text=sent.source, is_safe=True, has="diagnostics"
        )
        return Findings(from_json(data["diagnostics"], sent.source), sent.source)

    check_sync = blocking(check)

    async def run(
        self,
        plan: PlanLike,
        inputs: Mapping[str, Any] | None = None,
        *,
        run_id: str | None = None,
        limits: Limits | None = None,
        secrets: Mapping[str, Any] | None = None,
        run_tags: Mapping[str, str] | None = None,
        **named: Any,
    ) -> RunResult:
        """Run a plan until it ends, is in doubt, or waits for people.

        `limits` only tighten those of the server. An id counts once, so that a request whose response was
        lost starts one run. Raises PlanError for a plan with errors, PolicyRefused for one that the policy of
        the server refuses.
        """
        begin = self._beginning(plan, inputs_for(plan, inputs, named), run_id, limits, secrets, run_tags)
        diagnostics = await self._begin(begin.body, begin.source)
        return await self._settled(begin.run_id, diagnostics)

    run_sync = blocking(run)

    def start(
        self,
        plan: PlanLike,
        inputs: Mapping[str, Any] | None = None,
        *,
        run_id: str | None = None,
        limits: Limits | None = None,
        secrets: Mapping[str, Any] | None = None,
        run_tags: Mapping[str, str] | None = None,
        **named: Any,
    ) -> RemoteRun:
        """Start a run and return a handle, which streams its events; the arguments are those of `run`.

        Needs a running event loop. The handle raises what the server refuses.
        """
        require_loop("start", "run_sync")
        begin = self._beginning(plan, inputs_for(plan, inputs, named), run_id, limits, secrets, run_tags)
        task = asyncio.create_task(
            self._begin(begin.body, begin.source), name=f"callsheet start {begin.run_id}"
        )
        return RemoteRun(begin.run_id, self, task)

    def _beginning(
        self,
        plan: PlanLike,
        inputs: Mapping[str, Any] | None,
        run_id: str | None,
        limits: Limits | None,
        secrets: Mapping[str, Any] | None,
        run_tags: Mapping[str, str] | None,
    ) -> Beginning:
        values, secret = with_secrets(inputs, secrets)
        for each in sorted(secret):
            if not isinstance(values[each], str):
                raise CallsheetError.single(
                    "RUN022", f"the secret ${each} cannot be sent: it is not a text", help="give a text"
                )
        sent, name = Sent.of(plan, values), id_of_run(run_id)
        body = {
            **sent.body,
            "run_id": name,
            "inputs": {each: value for each, value in values.items() if each not in secret},
            "secrets": {each: values[each] for each in sorted(secret)},
            "limits": limits_of(limits),
            "tags": dict(tags_of(run_tags)),
        }
        return Beginning(name, body, sent.source)

    async def _begin(self, body: Mapping[str, Any], source: Source) -> _Notes:
        """Start a run; if only the response to a first request was lost, the id is taken by that run."""
        is_lost, until = False, time.monotonic() + self._server.patience
        async with self._connected() as client:
            while True:
                try:
                    answer = await self._server.ask(client, "POST", "/v1/runs", body)
                    break
                except ResponseLost:
                    if time.monotonic() > until:
                        raise
                    is_lost = True
                    await asyncio.sleep(PAUSE)
        if not isinstance(answer, Refused):
            return self._read(lambda told: from_json(told["diagnostics"], source), answer)
        if answer.code == "JRN003" and is_lost:
            return ()
        raise self._server.error(answer, source)

    # ------------------------------------------------------------ runs that go on

    async def resume(
        self,
        run_id: str,
        *,
        in_doubt: InDoubt | None = None,
        accept_changed_tools: bool = False,
        as_recorded: bool = False,
        limits: Limits | None = None,
    ) -> RunResult:
        """Continue a run where its journal ends, and wait for its result.

        One that goes on is waited for, unless this call has terms of its own, which would not count (JRN004).
        """
        body = {
            **({} if in_doubt is None else {"in_doubt": decision_of(in_doubt)}),
            **terms_of(accept_changed_tools, as_recorded, limits),
        }
        async with self._connected() as client:
            answer = await self._server.ask(client, "POST", of_run(run_id, "/resume"), body)
            has_terms = accept_changed_tools or as_recorded or not (in_doubt is None and limits is None)
            if isinstance(answer, Refused) and (has_terms or answer.code != "JRN004"):
                raise self._server.error(answer)
        return await self._settled(run_id)

    resume_sync = blocking(resume)

    async def decide(self, run_id: str, call: str, decision: InDoubt, *, every: bool = False) -> RunResult:
        """Decide on a call in doubt; `resume` then continues the run."""
        body = {**decision_of(decision), "calls": [call], "every": every, "resume": False}
        await self._data("POST", of_run(run_id, "/decide"), body)
        return await self._result(run_id)

    decide_sync = blocking(decide)

    async def cancel(
        self, run_id: str, reason: str = "cancelled", *, patience: float = CANCELLING
    ) -> RunResult | None:
        """End a run for good; None if it has not ended within `patience` seconds."""
        body = {"reason": wanted("reason", reason, str, "a text"), "patience": patience}
        await self._data("POST", of_run(run_id, "/cancel"), body)
        result = await self._result(run_id)
        return result if result.status.is_final else None

    cancel_sync = blocking(cancel)

    async def pause(
        self, run_id: str, *, by: str = "", reason: str = "", patience: float = CANCELLING
    ) -> RunPause | None:
        """Send no further call of a run until a person resumes it; None while calls are under way.

        Who pauses is whom the server knows by the token; `by` counts only where it knows nobody.
        """
        body = {"by": wanted("by", by, str, "a text"), "reason": wanted("reason", reason, str, "a text")}
        answer = await self._data("POST", of_run(run_id, "/pause"), {**body, "patience": patience})
        return self._read(lambda told: wire.pause_of(told["pause"]), answer)

    pause_sync = blocking(pause)

    async def answer(
        self,
        run_id: str,
        key: str | None = None,
        answer: Answer | bool = True,
        *,
        digest: str | None = None,
    ) -> PendingAsk:
        """Answer a question of a run and return that question; the server continues the run by itself.

        Who answers is whom the server knows by the token; `by` counts only where it knows nobody.
        """
        given = answer_of(answer)
        body: dict[str, Any] = {"key": key, "digest": digest, "by": given.by, "note": given.note}
        match given.verdict:
            case Verdict.APPROVE:
                body |= {"for_plan": given.for_plan, "program": given.for_program}
            case Verdict.DENY:
                body |= {"deny": True}
            case Verdict.ANSWER:
                body |= {"answer": given.value}
            case Verdict.EXPIRE:
                raise ValueError("only time lets a question expire")
        asked = await self._data("POST", of_run(run_id, "/approve"), body, has="digest")
        return self._read(wire.ask_of, asked)

    answer_sync = blocking(answer)

    async def inbox(self) -> list[PendingAsk]:
        """The unanswered questions of all runs, oldest first."""
        return self._read(wire.asks_of, await self._data("GET", "/v1/inbox"))

    inbox_sync = blocking(inbox)

    async def calls_in_doubt(self) -> dict[str, tuple[DoubtfulCall, ...]]:
        """The calls in doubt of all runs that no process executes, by the ids of the runs, oldest first."""
        return self._read(wire.calls_by_run, await self._data("GET", "/v1/inbox"))

    calls_in_doubt_sync = blocking(calls_in_doubt)

    # ------------------------------------------------------------ new runs from old ones

    async def rerun(  # noqa: PLR0913 - as `Runtime.rerun`
        self,
        run_id: str,
        step: str = "",
        *,
        plan: PlanLike | None = None,
        failed_items: bool = False,
        effects: RemoteConsent = False,
        new_id: str | None = None,
        accept_changed_tools: bool = False,
        as_recorded: bool = False,
        limits: Limits | None = None,
    ) -> RunResult:
        """Run a plan again from a step, or an edited one, as a new run that keeps the earlier results."""
        sent = None if plan is None else Sent.of(plan, {})
        body = {
            "step": step,
            "failed_items": failed_items,
            **({} if sent is None else {"plan": sent.body["plan"]}),
            **terms_of(accept_changed_tools, as_recorded, limits),
        }
        source = None if sent is None else sent.source
        return await self._branched(of_run(run_id, "/rerun"), body, effects, new_id, source)

    rerun_sync = blocking(rerun)

    async def fork(  # noqa: PLR0913 - as `Runtime.fork`
        self,
        run_id: str,
        at: int,
        *,
        variables: Mapping[str, Any] | None = None,
        arguments: Mapping[tuple[str, str], Any] | None = None,
        steps: Mapping[str, str] | None = None,
        effects: RemoteConsent = False,
        new_id: str | None = None,
        accept_changed_tools: bool = False,
        as_recorded: bool = False,
        limits: Limits | None = None,
    ) -> RunResult:
        """Continue from the event `at` of a run in a new run, with edits."""
        changed = [
            {"step": each, "name": name, "value": value} for (each, name), value in (arguments or {}).items()
        ]
        body = {
            "at": wanted("at", at, int, "the number of an event"),
            "variables": values_of(variables, "variables", placed=True),
            "arguments": changed,
            "steps": dict(steps or {}),
            **terms_of(accept_changed_tools, as_recorded, limits),
        }
        return await self._branched(of_run(run_id, "/fork"), body, effects, new_id)

    fork_sync = blocking(fork)

    async def undo(
        self, run_id: str, *, start: str = "", effects: bool | Callable[[Mapping[str, Any]], bool] = False
    ) -> RunResult:
        """Take back what the calls of a run did, newest first, as a run of its own.

        A function as `effects` is shown what `get("/v1/runs/RUN/undo")` gives, with what cannot be undone.
        """
        body = {"step": wanted("start", start, str, "the id of a step")}
        return await self._branched(of_run(run_id, "/undo"), body, effects, None, member="undo")

    undo_sync = blocking(undo)

    async def _branched(
        self,
        path: str,
        body: Mapping[str, Any],
        effects: bool | Callable[[Any], bool],
        new_id: str | None,
        source: Source | None = None,
        *,
        member: str = "effects",
    ) -> RunResult:
        """The result of a new run, after the consent to what a member of the refusal names."""
        asked = {**body, "effects": effects is True, **({} if new_id is None else {"run_id": new_id})}
        async with self._connected() as client:
            answer = await self._server.ask(client, "POST", path, asked)
            if isinstance(answer, Refused) and answer.code == "JRN083" and callable(effects):
                asked |= {"consent": self._read(lambda told: told["consent"], answer.problem)}
                agrees = effects(self._read(lambda told: told[member], answer.problem))
                answer = await self._server.ask(client, "POST", path, asked) if agrees else answer
            if isinstance(answer, Refused):
                raise self._server.error(answer, source)
        return await self._settled(self._read(lambda told: str(told["run_id"]), answer))

    # ------------------------------------------------------------ recorded runs

    async def runs(
        self,
        *,
        status: str | None = None,
        limit: int | None = None,
        where: RunFilter | None = None,
        sort: str = "created",
        rises: bool = False,
        after: str | None = None,
    ) -> list[RecordedRun]:
        """The runs of the server, the newest first, at most `limit`."""
        query = {
            **conditions_of(where or RunFilter()),
            **({} if status is None else {"status": status}),
            "sort": sort,
            "order": "rising" if rises else "falling",
        }
        found: list[RecordedRun] = []
        while limit is None or len(found) < limit:
            most = _MOST_AT_ONCE if limit is None else min(limit - len(found), _MOST_AT_ONCE)
            page = {**query, "limit": most, **({} if after is None else {"before": after})}
            data = await self._data("GET", "/v1/runs", query=page)
            runs, goes_on = self._read(wire.page_of, data)
            found += runs
            if not goes_on:
                break
            after = found[-1].run_id
        return found

    runs_sync = blocking(runs)

    async def result(self, run_id: str) -> RunResult:
        """What has come of a run so far, without waiting for anything."""
        return await self._result(run_id)

    result_sync = blocking(result)

    async def tail(
        self, run_id: str, *, follow: bool = False, after: int = 0
    ) -> AsyncGenerator[JournalEvent]:
        """Yield the journal events of a run that come after the number `after`.

        With `follow`, new ones are yielded until the run ends, or waits for people or a decision.
        """
        if follow:
            async with aclosing(self._followed(run_id, after)) as events:
                async for event in events:
                    yield event
            return
        while page := await self._data("GET", of_run(run_id, "/journal"), query={"after": after}):
            for event in self._read(lambda told: [wire.event_of(run_id, row) for row in told], page):
                yield event
                after = event.seq

    async def _followed(self, run_id: str, after: int) -> AsyncGenerator[JournalEvent]:
        """The events until the run stops; while it does not go on, the stream says how many it has."""
        most: int | None = None
        async with (
            self._connected() as client,
            aclosing(self._server.events(client, run_id, after)) as stream,
        ):
            async for told in stream:
                if isinstance(told, Refused):
                    raise self._server.error(told)
                match told.name:
                    case "":
                        event = self._read(lambda told: wire.event_of(run_id, told), told.data)
                        after = event.seq
                        yield event
                    case "standing":
                        most = self._read(wire.most_of, told.data)
                    case "problem":
                        status = self._read(lambda told: int(told["status"]), told.data)
                        raise self._server.error(Refused(status, told.data))
                    case "end":
                        return
                    case _:
                        pass  # a message that a later version sends
                if most is not None and after >= most:
                    return

    def tail_sync(self, run_id: str, *, after: int = 0) -> list[JournalEvent]:
        """The events that a run has now, for programs without an event loop."""

        async def listed() -> list[JournalEvent]:
            return [event async for event in self.tail(run_id, after=after)]

        return self._run_sync(listed(), "tail")

    async def get(self, path: str, **query: Any) -> Any:
        """The data of any other page of the API: `get("/v1/runs/nightly/why", variable="answer")`.

        A page that is no JSON, such as `/report`, is given as text. Raises ValueError for another address.
        """
        if not wanted("path", path, str, "the path of a page").startswith("/v1/"):
            raise ValueError(f"{path!r} is no page of the API: its paths begin with /v1/")
        if "?" in path:
            raise ValueError(f"{path!r} has a query: name its parts, as in get('/v1/runs', status='failed')")
        return await self._data("GET", path, query=query)

    get_sync = blocking(get)

    # ------------------------------------------------------------ requests

    async def _settled(self, run_id: str, diagnostics: _Notes = ()) -> RunResult:
        """The result of a run as soon as its server does not carry it on."""
        async for _ in self.tail(run_id, follow=True):
            pass
        return await self._result(run_id, diagnostics)

    async def _result(self, run_id: str, diagnostics: _Notes = ()) -> RunResult:
        row = await self._data("GET", of_run(run_id), has="status")
        return self._read(lambda told: wire.result_of(told, diagnostics), row)

    async def _data(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        query: Mapping[str, Any] | None = None,
        text: Source | None = None,
        is_safe: bool = False,
        has: str = "",
    ) -> Any:
        """What a page gives; API061 for an answer without the member that it `has`."""
        async with self._connected() as client:
            answer = await self._server.ask(client, method, path, body, query, repeats=is_safe)
        if isinstance(answer, Refused):
            raise self._server.error(answer, text)
        if has and not (isinstance(answer, dict) and has in answer):
            raise self._server.another()
        return cast("Any", answer)

    def _read(self, read: Callable[[Any], _Told], row: Any) -> _Told:
        """What a row tells; API061 for one that lacks something, or has it in another form."""
        try:
            return read(row)
        except (AttributeError, KeyError, TypeError, ValueError):
            raise self._server.another() from None

    def _connected(self) -> AbstractAsyncContextManager[httpx2.AsyncClient]:
        """The client of `with`, or one for this call alone."""
        return self._server.client() if self._client is None else nullcontext(self._client)
