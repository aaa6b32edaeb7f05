"""The session of a gate's client: one run in the journal, whose calls the client makes.

In: the open tools, a journal, a policy, calls of the client. Out: the servers' results as they were sent,
once their outcomes are in the journal; refusals, questions, and what is not known of a call that was lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias

from mcp.shared.dispatcher import ProgressFnT

from callsheet.api.admission import Equipment, SessionRequest, UnprovedProgram, prepare_session
from callsheet.api.run_service import run_prepared
from callsheet.apps.equipment import guarantees_of
from callsheet.apps.setup import Setup
from callsheet.apps.toolbox import Toolbox, setup_of_run
from callsheet.diagnostics import Diagnostic
from callsheet.ir import JSON, OnInDoubt
from callsheet.ir.labels import LITERAL, Label
from callsheet.lazy import deferred
from callsheet.machine import AgentTurn, Limits
from callsheet.machine.notes import Note
from callsheet.machine.questions import approval_rules
from callsheet.policy.model import Policy
from callsheet.ports.calls import CallContext, ServerQuestion, ToolFailed
from callsheet.ports.mcp.front import PASSAGE, Passage
from callsheet.runtime.answers import Answer, PendingAsk
from callsheet.runtime.asking import Respondents
from callsheet.runtime.doubt import RunOutcome
from callsheet.runtime.gateway import Route
from callsheet.runtime.launch import Watch
from callsheet.runtime.server_questions import ELICIT, ELICIT_URL, LONGEST
from callsheet.store import Journal
from callsheet.store.journal_paths import new_run_id

if TYPE_CHECKING:
    from callsheet.runtime import remaining
else:
    remaining = deferred("callsheet.runtime.remaining")  # brings the proof, only under a policy

_AT_ONCE = 16
"""The most calls that are taken over in one turn; further ones are taken over in the next."""


@dataclass(frozen=True, slots=True)
class Passed:
    """The result of a call as its server sent it."""

    result: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Withheld:
    """Why a call has no result: refused, denied, failed, in doubt.

    `sent` has code, message and data of an error of the protocol that its server has sent instead.
    """

    why: str
    sent: tuple[int, str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """A person has to answer before the call can be made."""

    ask: PendingAsk


@dataclass(frozen=True, slots=True)
class ServerAsked:
    """The server asks something before it answers the call; `number` tells the questions of a call apart."""

    question: ServerQuestion
    number: int


Reply: TypeAlias = "Passed | Withheld | Asked | ServerAsked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hearing:
    """What a call's client wants to hear while the call is under way, as in `ports.mcp.front.Passage`.

    `methods` are the requests of servers that it can answer.
    """

    progress: ProgressFnT | None = None
    logged: Callable[[dict[str, JSON]], Awaitable[None]] | None = None
    meta: Mapping[str, JSON] = field(default_factory=dict[str, JSON])
    methods: frozenset[str] = frozenset()


_DEAF = Hearing()


def _future() -> asyncio.Future[Any]:
    return asyncio.get_running_loop().create_future()


@dataclass(slots=True, eq=False)
class ServerTurn:
    """A question of a server that its client has not answered yet."""

    asked: ServerAsked
    answer: asyncio.Future[JSON] = field(default_factory=_future)
    is_shown: bool = False


@dataclass(slots=True, eq=False)
class ClientCall:
    """A call that the client waits for.

    `asked` and `answer` are for the question about it, if any; `turns` are what its server asks meanwhile.
    `raw` is what its server has sent, `value` what a plan would get of it; `error` is as in `Withheld.sent`.
    """

    tool: str
    args: dict[str, Any]
    hearing: Hearing = _DEAF
    key: str = ""
    raw: dict[str, Any] | None = None
    error: tuple[int, str, Any] | None = None
    has_value: bool = False
    value: JSON = None
    ended: asyncio.Future[Passed | Withheld] = field(default_factory=_future)
    asked: asyncio.Future[PendingAsk] = field(default_factory=_future)
    answer: asyncio.Future[Answer | None] = field(default_factory=_future)
    turns: list[ServerTurn] = field(default_factory=list[ServerTurn])
    news: asyncio.Event = field(default_factory=asyncio.Event)
    """Set whenever `ended`, `asked` or `turns` have something new."""

    def open_turn(self) -> ServerTurn | None:
        """The next question of the server that the client has not seen."""
        return next((turn for turn in self.turns if not (turn.is_shown or turn.answer.done())), None)

    def answer_turn(self, number: int, answer: JSON) -> None:
        """Give the client's answer to a question of the server, unless it was taken back."""
        for turn in self.turns:
            if turn.asked.number == number and not turn.answer.done():
                turn.answer.set_result(answer)


@dataclass(frozen=True, slots=True)
class Told:
    """What a client reports besides its calls: its user's words, and what it has read of other runs."""

    said: tuple[str, ...] = ()
    read: tuple[tuple[str, Label], ...] = ()


@dataclass(frozen=True, slots=True)
class End:
    """A session's end: what its program has answered, or why it failed."""

    answer: JSON = None
    failure: str = ""


class Session:
    """A run whose calls a client makes, as an async context manager.

    `names` are the canonical names of the tools that it may call. Leaving the context ends the run: calls
    under way are waited for, up to `patience` seconds. With `program` the client is a program, which a person
    has to agree to: `opening` is the question about it, and `begins` is set when it may call.
    """

    def __init__(  # noqa: PLR0913 - what a run is started with
        self,
        client: str,
        setup: Setup,
        toolbox: Toolbox,
        names: tuple[str, ...],
        journal: Journal,
        *,
        limits: Limits,
        policy: Policy | None,
        patience: float = 5.0,
        program: UnprovedProgram | None = None,
    ) -> None:
        self.run_id = new_run_id()
        self.opening = None if program is None else ClientCall("", {})
        self.begins = asyncio.Event()
        self._toolbox, self._names = toolbox, names
        self.is_judged = policy is not None
        """Whether a policy judges its calls, with the labels of what was read."""
        self._journal = journal
        self._patience = patience
        self._queue: asyncio.Queue[ClientCall | Told | End] = asyncio.Queue()
        self._held: ClientCall | Told | None = None
        self.seen = LITERAL if policy is None else policy.planner
        """The label of all that the client has read so far."""
        self._open: dict[str, ClientCall] = {}
        settings = setup.settings
        request = SessionRequest(
            client=client,
            tools=names,
            limits=limits,
            policy=policy,
            approve=approval_rules(settings.approve),
            approval_timeout=settings.approval_timeouts(),
            note={"setup": setup_of_run(setup, toolbox).to_note()},
            program=program,
        )
        equipment = Equipment(
            registry=toolbox.registry,
            guarantees=lambda: guarantees_of(setup, toolbox.registry, keeps_labels=True),
            left=lambda: remaining.left_before(journal.path, setup.folder),
            agents=None,
            providers=setup.providers,
            servers=toolbox.servers,
            on_in_doubt=OnInDoubt(settings.on_in_doubt),
            known=toolbox.known,
            workspace=toolbox.workspace,
        )
        self._prepared = prepare_session(request, equipment)
        self._running: asyncio.Task[RunOutcome] | None = None

    async def __aenter__(self) -> Session:
        ports = replace(self._toolbox.ports(), client=self._next_calls, route=self._route)
        watch, present = (
            Watch(self._note),
            Respondents(self._ask, self.opening is not None, 0.2, self._ask_client),
        )
        run = run_prepared(self._prepared, ports, self._journal, self.run_id, watch, present)
        self._running = asyncio.create_task(run, name=f"session {self.run_id}")
        self._running.add_done_callback(self._ended)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        running = self._running
        assert running is not None
        self.end(End())
        is_asked = self.opening is not None and not self.begins.is_set()
        done, _ = await asyncio.wait({running}, timeout=0 if is_asked else self._patience)
        if not done:
            running.cancel()
            await asyncio.wait({running})

    def serves(self, names: tuple[str, ...]) -> bool:
        """Whether it was begun with these tools."""
        return names is self._names

    @property
    def doubts(self) -> tuple[Diagnostic, ...]:
        """What does not hold of its policy as written: entries for tools that are not there, or changed."""
        return self._prepared.diagnostics

    @property
    def goes_on(self) -> bool:
        """Whether calls can still be made; a limit or a `callsheet cancel` ends a session."""
        return self._running is not None and not self._running.done()

    # ------------------------------------------------------------ the client's side

    async def call(
        self, tool: str, args: dict[str, Any], hearing: Hearing = _DEAF
    ) -> tuple[ClientCall, Reply]:
        """Make a call; returns it with its result, or with the question that has to be answered first.

        Raises what has ended the run, if it has ended.
        """
        assert self._running is not None
        if self._running.done():
            outcome = self._running.result()
            return ClientCall(tool, args), Withheld(f"the session has ended: {outcome.why_stopped}")
        call = ClientCall(tool, args, hearing)
        self._queue.put_nowait(call)
        return call, await self.reply(call)

    def tell(self, told: Told) -> None:
        """Record what the client reports; it counts for the calls after it."""
        for _, label in told.read:
            self.seen = self.seen.join(label)
        if self.goes_on:
            self._queue.put_nowait(told)

    def end(self, how: End) -> None:
        """End the session after the calls that were made so far."""
        self._queue.put_nowait(how)

    async def outcome(self) -> RunOutcome:
        """How the run ended, once it has. Raises what has ended it if that is an error."""
        assert self._running is not None
        return await asyncio.shield(self._running)

    async def reply(self, call: ClientCall, seconds: float | None = None) -> Reply:
        """The result of a call, or its open question; after `seconds`, that it still waits for a person."""
        try:
            async with asyncio.timeout(seconds):
                while True:
                    call.news.clear()
                    if call.ended.done():
                        return call.ended.result()
                    if call.asked.done() and not call.answer.done():
                        return Asked(call.asked.result())
                    turn = call.open_turn()
                    if turn is not None:
                        turn.is_shown = True
                        return turn.asked
                    await call.news.wait()
        except TimeoutError:
            return Withheld(self.waits_in_inbox(call))

    def waits_in_inbox(self, call: ClientCall) -> str:
        """What the client is told of a call that waits for an approval elsewhere."""
        return (
            f"@{call.tool} waits for the approval of {call.asked.result().answered_by}. "
            f"Do not call it again: it is made once it is approved, and run {self.run_id} has its result."
        )

    def waiting(self, key: str) -> ClientCall | None:
        """The open call with this key, about which a question was asked."""
        return self._open.get(key)

    # ------------------------------------------------------------ the run's side

    async def _next_calls(self, command: AgentTurn, context: CallContext) -> JSON:
        """Wait for the client's next calls; those that are there already are taken over together.

        What it reports counts for the calls after it, so it comes first in an answer.
        """
        del context
        self.begins.set()
        calls: list[ClientCall] = []
        said: list[JSON] = []
        read: list[JSON] = []
        while len(calls) < _AT_ONCE and (
            not (calls or said or read) or not self._queue.empty() or self._held
        ):
            held, self._held = self._held, None
            next_one = held or await self._queue.get()
            if isinstance(next_one, End):
                if not (calls or said or read):
                    failed: dict[str, JSON] = {"failed": next_one.failure}
                    return failed if next_one.failure else {"finish": next_one.answer}
                self._queue.put_nowait(next_one)
                break
            if isinstance(next_one, Told):
                if calls:
                    self._held = next_one
                    break
                said += next_one.said
                for what, label in next_one.read:
                    read.append([what, str(label)])
                continue
            next_one.key = f"{command.key}c{len(calls) + 1}"
            self._open[next_one.key] = next_one
            calls.append(next_one)
        answer: dict[str, JSON] = {"calls": [{"tool": call.tool, "args": call.args} for call in calls]}
        if said:
            answer["said"] = said
        if read:
            answer["read"] = read
        return answer

    def _route(self, name: str) -> Route | None:
        tool = self._toolbox.registry.get(name)
        if tool is None:
            return None
        handler, may_rerun = tool.handler, tool.spec.effect.may_rerun

        async def passing(args: dict[str, Any], context: CallContext) -> JSON:
            call = self._open.get(context.key)
            if call is None:  # repeated by a decision on a call in doubt
                return await handler(args, context)

            def hear(result: dict[str, Any]) -> None:
                call.raw = result

            def refused(*sent: Any) -> None:
                call.error = sent

            wants = call.hearing
            token = PASSAGE.set(
                Passage(
                    hear=hear,
                    refused=refused,
                    progress=wants.progress,
                    logged=wants.logged,
                    meta=wants.meta,
                )
            )
            try:
                call.value = await handler(args, context)
                call.has_value = True
                return call.value
            except ToolFailed as error:
                if error.in_doubt and not may_rerun:
                    self._reply(call, Withheld(self._doubt(call, str(error))))
                raise
            finally:
                PASSAGE.reset(token)

        return Route.of(tool, passing)

    def _doubt(self, call: ClientCall, why: str) -> str:
        return (
            f"it is not known whether @{call.tool} took place: {why}. Do not call it again; "
            f"a person decides (callsheet decide {self.run_id} {call.key})"
        )

    def _note(self, note: Note) -> None:
        """A note is in the journal: if it ends a call, its client gets the result."""
        ended = note.ended
        if ended is not None:
            self.seen = self.seen.join(ended.seen)
        call = None if ended is None else self._open.get(ended.key)
        if ended is None or call is None:
            return
        raw = call.raw
        if raw is not None and (not ended.why or raw.get("isError")):
            self._reply(call, Passed(raw))
        elif call.has_value and not ended.why:
            self._reply(call, Passed({}))
        else:
            self._reply(call, Withheld(ended.why or f"@{call.tool} gave no result", call.error))

    def _reply(self, call: ClientCall, reply: Passed | Withheld) -> None:
        self._open.pop(call.key, None)
        if not call.ended.done():
            call.ended.set_result(reply)
            call.news.set()

    async def _ask(self, ask: PendingAsk) -> Answer | None:
        """Show a question to whoever waits for the call; None leaves it to the inbox."""
        opening = None if self.begins.is_set() else self.opening
        call = self._open.get(ask.key, opening)
        if call is None or call.asked.done():
            return None
        call.asked.set_result(ask)
        call.news.set()
        return await call.answer

    async def _ask_client(self, key: str, question: ServerQuestion) -> JSON:
        """Pass what a server asks during a call on to its client; None if the client cannot answer."""
        call = self._open.get(key)
        is_url = question.method == ELICIT and question.params.get("mode") == "url"
        if call is None or (ELICIT_URL if is_url else question.method) not in call.hearing.methods:
            return None
        turn = ServerTurn(ServerAsked(question, len(call.turns)))
        call.turns.append(turn)
        call.news.set()
        try:
            return await asyncio.wait_for(turn.answer, LONGEST)
        except TimeoutError:
            return None

    def _ended(self, running: asyncio.Task[RunOutcome]) -> None:
        """The run is over, or waits without us: nobody may wait for it any more."""
        if running.cancelled():
            why = "the gate was stopped"
        else:
            error = running.exception()
            why = str(error) if error is not None else running.result().why_stopped
        if self.opening is not None and not self.opening.ended.done():
            self.opening.ended.set_result(Withheld(why))
        for call in [*self._open.values()]:
            self._reply(call, Withheld(f"the session has ended: {why}"))
        while not self._queue.empty():
            call = self._queue.get_nowait()
            if isinstance(call, ClientCall):
                self._reply(call, Withheld(f"not called: the session has ended: {why}"))
