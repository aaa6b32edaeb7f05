"""The gateway: carries out one command through the ports and returns its outcome as an event; never raises.

Whatever a tool, a model or an agent does becomes a value or an error. Arguments are passed as copies, so that
a tool cannot change the plan's variables.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

from callsheet.diagnostics import CallsheetError, Diagnostic, Source
from callsheet.ir import JSON, Plan
from callsheet.ir.failing import Failing
from callsheet.ir.labels import Label
from callsheet.ir.operations import CLOCK, COMPUTE
from callsheet.lazy import dataclass
from callsheet.machine import (
    AgentTurn,
    CallModel,
    CallTool,
    Compile,
    Decided,
    Decision,
    Doubted,
    Fact,
    Failed,
    PlanCompiled,
    Probe,
    RunAgent,
    Sleep,
    Spent,
    Succeeded,
    TimerFired,
    ToolFacts,
)
from callsheet.machine.events import RESULT
from callsheet.machine.progress import with_own_ids
from callsheet.policy.calls import Obligation
from callsheet.policy.model import Policy
from callsheet.ports.answers import Probed, Prober, as_json, as_json_in_turns, failure_text
from callsheet.ports.calls import (
    CallContext,
    CallListener,
    CallProgress,
    FileGrant,
    Objection,
    ServerQuestion,
    ToolFailed,
    ToolRaised,
    Withheld,
)
from callsheet.ports.models.model import ModelFailed, as_error
from callsheet.ports.outcome_texts import CLEANED_TOOLS, LISTED_TOOLS, Tracebacks, clean_output, left_out
from callsheet.ports.timeouts import Slots, within
from callsheet.ports.tools import Handler, Tool
from callsheet.sealing.known import Known
from callsheet.sealing.masking import Finder, mask_text

if TYPE_CHECKING:
    from callsheet.ports.reconcilers import Reconciler
    from callsheet.store.kept_calls import KeptCalls

ModelPort: TypeAlias = "Callable[[CallModel, CallContext], Awaitable[JSON]]"
"""Carries out a model operation."""
AgentPort: TypeAlias = "Callable[[RunAgent, CallContext], Awaitable[JSON]]"
"""Lets a sub-agent solve a goal."""
TurnPort: TypeAlias = "Callable[[AgentTurn, CallContext], Awaitable[JSON]]"
"""Asks a model for an agent's next action."""
CompilePort: TypeAlias = "Callable[[Compile, CallContext], Awaitable[tuple[Plan, Mapping[str, ToolFacts]]]]"
"""Makes a new, checked plan for a RE-PLAN, with the facts about its tools."""
Late: TypeAlias = "Succeeded | Failed"
Outcome: TypeAlias = "Succeeded | Failed | PlanCompiled | Doubted | Decided | TimerFired"
NOT_SENT = "it was not sent: {why}"
"""The failure of a call that was left when its task ended."""
BLOCK_RULES = ("flag", "block", "review")
"""The possible reactions to doubts in an agent's LCTL block."""
_Asking = TypeVar("_Asking", CallModel, RunAgent, AgentTurn)
Remote: TypeAlias = "CallTool | CallModel | RunAgent | AgentTurn | Compile | Probe"
Carried: TypeAlias = "Remote | Sleep"
"""What a gateway carries out: calls and waits."""


@dataclass(frozen=True, slots=True)
class Route:
    """How calls of one tool are made: the handler and the probe, or in place of it the reconciler.

    `is_builtin` marks callsheet's own tools, and `reads` those that change nothing. `origin` is where the
    tool comes from, as in its declaration.
    """

    handler: Handler
    probe: Prober | None = None
    is_builtin: bool = False
    reconciler: Reconciler | None = None
    reads: bool = False
    origin: str = ""

    @classmethod
    def of(cls, tool: Tool, handler: Handler | None = None) -> Route:
        """The route of a tool, with another handler if one is given."""
        spec = tool.spec
        is_builtin, reads = spec.origin == "builtin", spec.effect.only_reads
        return cls(handler or tool.handler, tool.probe, is_builtin, tool.reconciler, reads, spec.origin)


Unmet: TypeAlias = "Callable[[Plan, Policy, Sequence[Obligation]], Sequence[Diagnostic]]"
"""The obligations of a plan's proof that are not met here, and steps that would write a protected file."""


@dataclass(frozen=True, slots=True)
class Ports:
    """The connections through which a run's commands are carried out.

    `route` maps a canonical tool name to its route, None for an unknown tool. Commands for a port that is
    None fail with a message that says so.
    """

    route: Callable[[str], Route | None]
    model: ModelPort | None = None
    agent: AgentPort | None = None
    """Carries out agents as a whole."""
    compiler: CompilePort | None = None
    turn: TurnPort | None = None
    """Answers the turns of agents that the machine drives."""
    workspace: str = ""
    """The folder of the file tools, under which file labels are stored; empty if unknown."""
    known: Known = field(default_factory=Known)
    """The configured secrets, which are detected wherever they occur."""
    blocks: str | None = None
    """One of `BLOCK_RULES`; None hands out no blocks."""
    listener: CallListener | None = None
    """Follows the calls while they are made, for a display."""
    client: TurnPort | None = None
    """Waits for the next calls of the client of a session."""
    unmet: Unmet | None = None
    """Says what a new plan relies on that is not guaranteed here; None where everything is."""


_PLAN_TOOLS = frozenset({CLOCK, COMPUTE})
_log = logging.getLogger("callsheet.tools")

_new = object.__new__
"""Creates an object without running its constructor."""
_succeeded: Callable[[tuple[object, ...]], Succeeded] = partial(cast("Any", tuple).__new__, Succeeded)
"""Builds a Succeeded from all its fields, faster than its constructor."""
_AS_IT_IS = frozenset({str, bool, type(None)})
"""Types that are JSON as they are, checked here without a call."""
_LEAST, _MOST = -(1 << 62), 1 << 62
"""Whole numbers between them are, too."""
_NESTS = frozenset({list, dict})
_ERROR_IN_VALUE = Fact(RESULT, "it has a field named error, and counts as a value")
NOTES = "SET_WM"
"""The tool whose effect is a note of its run, which a run that goes on for it needs as well."""
_PROBE_SECONDS = 60.0
"""Time-out of a probe, in seconds."""


class Gateway:
    """The only path from a run to the outside world.

    With `facts`, a call that must not be repeated without a decision falls into doubt if its outcome is lost;
    without them it fails. `at_once` limits the concurrent calls of single tools. `on_late` receives outcomes
    that arrive after their calls were given up.
    """

    def __init__(
        self,
        ports: Ports,
        run_id: str,
        facts: Mapping[str, ToolFacts] | None = None,
        at_once: Mapping[str, int] | None = None,
    ) -> None:
        self._ports = ports
        self._run_id = run_id
        self._facts = None if facts is None else dict(facts)
        self._routes: dict[str, Route] = {}
        self.on_late: Callable[[Late], None] | None = None
        self.on_server: Callable[[str, ServerQuestion], Awaitable[JSON]] | None = None
        """Answers what a server asks during the call with a key."""
        self.on_task: Callable[[str, str], Awaitable[None]] | None = None
        """Hears that the call with a key has become a task of its server."""
        self.is_left: Callable[[], bool] | None = None
        """Says whether this process leaves the run to one that resumes it."""
        self.tasks: Mapping[str, str] = {}
        """The tasks that calls have become before this process, by the calls' keys."""
        self.declared: Callable[[], Known] | None = None
        """Gives the secrets of the run's inputs, which its log must not contain; None if they are unknown."""
        self.kept: KeptCalls | None = None
        """The calls of an earlier run whose outcomes take the place of the same calls here."""
        self.why_ended: Callable[[str], str] | None = None
        """Gives the reason for which the call with a key need not leave any more; "" if it may."""
        self._withholds = False
        self._queued: dict[str, asyncio.Future[None]] = {}
        """The calls that wait for others of their tool, and what waits for their turn."""
        self.withheld: list[str] = []
        """The keys of those that did not."""
        self._timers: dict[str, asyncio.Task[None]] = {}
        self._tracebacks = Tracebacks()
        self._slots = {tool: Slots(most) for tool, most in (at_once or {}).items()}

    @property
    def listener(self) -> CallListener | None:
        """Who follows the calls, if anyone."""
        return self._ports.listener

    def progressed(self, context: CallContext, progress: CallProgress) -> None:
        """Pass on what a tool reports about its progress, if anyone follows it."""
        if self._ports.listener is not None:
            self._ports.listener.progressed(context.key, progress)

    def labelled(self, context: CallContext, label: Label, places: str) -> None:
        """Take no notice of the label that a server gives to a result: there is no policy."""

    async def answer_server(self, context: CallContext, question: ServerQuestion) -> JSON:
        """The answer to what a server asks during a call; None if nobody can answer."""
        return None if self.on_server is None else await self.on_server(context.key, question)

    def task_of(self, context: CallContext) -> str:
        """The task that a call has become before, if any."""
        return self.tasks.get(context.key, "")

    async def became_task(self, context: CallContext, task: str) -> None:
        """Report that a call has become a task of its server."""
        if self.on_task is not None:
            await self.on_task(context.key, task)

    def end_timer(self, key: str) -> None:
        """End a timer under way before its time, as nobody waits for it any more."""
        timer = self._timers.get(key)
        if timer is not None:
            timer.cancel()

    def end_timers(self) -> None:
        """End all timers under way."""
        for key in self._timers:
            self.end_timer(key)

    def queued(self, key: str, turn: asyncio.Future[None]) -> None:
        """A call waits for others of its tool."""
        self._queued[key] = turn

    def leaving(self, key: str) -> None:
        """It is the turn of a call, which raises what it is told if it may not leave any more."""
        unwanted = self._unwanted(key) if self._queued.pop(key, None) is not None or self._withholds else None
        if unwanted is not None:
            raise unwanted

    def withhold(self) -> None:
        """Let no call leave any more that waits for others of its tool."""
        self._withholds = True
        self.recall(tuple(self._queued))

    def recall(self, keys: Iterable[str]) -> None:
        """End the waits of calls for others of their tool, if they are not wanted any more."""
        for key in keys:
            turn = self._queued.get(key)
            unwanted = None if turn is None or turn.done() else self._unwanted(key)
            if turn is not None and unwanted is not None:
                turn.set_exception(unwanted)
                del self._queued[key]

    def _unwanted(self, key: str) -> Withheld | ToolFailed | None:
        """What a call that has waited for others is told if it may not leave; None if it may."""
        if self._withholds:
            return Withheld("the run was paused before the call left")
        why = "" if self.why_ended is None else self.why_ended(key)
        return ToolFailed(NOT_SENT.format(why=why), kind=Failing.CANCELLED) if why else None

    @property
    def leaves(self) -> bool:
        """Whether this process leaves the run to one that resumes it."""
        return self.is_left is not None and self.is_left()

    def is_builtin(self, tool: str) -> bool:
        """Whether a tool is one of callsheet's own."""
        route = self._ports.route(tool)
        return route is not None and route.is_builtin

    async def keep_again(self, command: CallTool) -> None:
        """Repeat a call that was made for the run from which this one branched off."""
        await self.carry_out(command)

    async def carry_out(self, command: Carried) -> Outcome:
        """Carry out a call or a wait and return its outcome.

        Raises only asyncio.CancelledError, when the caller itself is cancelled.
        """
        if type(command) is not CallTool:
            return await self._carry_out_other(command)
        key, _, tool, args, wants_data, _, _ = command  # faster than accessing single fields
        context = _new(CallContext).begin(self._run_id, key, self, command)
        try:
            route = self._routes.get(tool) or self._find(tool)
            if wants_data and tool in LISTED_TOOLS:
                route = self._find(tool, as_data=True)
            own = args.copy()
            for given in args.values():
                if type(given) is list or type(given) is dict:
                    own = own_copy(args)
                    break
            value = await route.handler(own, context)
            kind = type(value)
            if kind not in _AS_IT_IS and not (type(value) is int and _LEAST < value < _MOST):
                if kind is list:
                    value = await as_json_in_turns(value)
                else:
                    value = as_json(value)
                    if type(value) is dict:
                        if value.get("success") is False:
                            raise ToolFailed(failure_text(value))
                        if value.get("error"):
                            context.remark(_ERROR_IN_VALUE)
            return _succeeded((key, value, context.remarks, context.spent, None, ""))
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:
            return self._failed(command, error, context)

    def _failed(self, command: Carried, error: BaseException, context: CallContext) -> Outcome:
        """The outcome of a command that raised an error; re-raises it if the caller itself is cancelled."""
        if isinstance(error, ModelFailed):
            return self._unanswered(command, error, context)
        kind = ""
        if isinstance(error, Withheld):
            self.withheld.append(command.key)
            return Failed(command.key, str(error))
        if isinstance(error, ToolFailed):
            kind = error.kind
            reason = str(error) or "the tool failed without saying why"
            if isinstance(error, ToolRaised) and error.__cause__ is not None:
                self._keep_traceback(error.__cause__, context)
            if error.in_doubt and isinstance(command, CallTool):
                return self._unknown(command, reason, context, kind)
            if error.final:
                return Failed(command.key, reason, context.remarks, context.spent, final=True, kind=kind)
        elif isinstance(error, asyncio.CancelledError):
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise error
            reason = "the tool cancelled the call itself"
        elif isinstance(error, CallsheetError):
            reason = str(error)
        else:
            reason = describe(error)
            self._keep_traceback(error, context)
        return Failed(command.key, reason, context.remarks, context.spent, kind=kind)

    def _keep_traceback(self, error: BaseException, context: CallContext) -> None:
        """Say where the code of a tool, a model or an agent raised: in a remark on the outcome, and the log.

        The log gets no secret of the run; where those are not known, or a policy calls the call's data
        secret, only the kind of the exception.
        """
        remark = self._tracebacks.remark(error, context.key)
        context.remark(remark)
        if not _log.isEnabledFor(logging.INFO):
            return
        text = type(error).__name__
        if self.declared is not None and not context.sends_secrets:
            text = mask_text(remark.text, Finder(self._ports.known + self.declared()))
        _log.info("run %s, call %s: %s", self._run_id, context.key, text)

    def objection(self, command: CallTool) -> Objection | None:
        """The function that objects to redirects of a call; None without a policy."""
        return None

    def files(self, command: CallTool) -> FileGrant | None:
        """What a call's program may see of the workspace; None without a policy."""
        return None

    def came_late(self, context: CallContext, outcome: JSON | ToolFailed) -> None:
        """Report an outcome that nothing waits for any more."""
        if self.on_late is None:
            return
        key, remarks, spent = context.key, context.remarks, context.spent
        try:
            if isinstance(outcome, ToolFailed):
                raise outcome
            late: Late = Succeeded(key, as_json(outcome), remarks, spent)
        except ToolFailed as error:
            late = Failed(key, str(error) or "the tool failed without saying why", remarks, spent)
        self.on_late(late)

    def _unknown(self, command: CallTool, reason: str, context: CallContext, kind: str = "") -> Outcome:
        """The outcome of a call that may have happened: in doubt, or a failure if it may be repeated."""
        if self._facts is not None and not self._facts.get(command.tool, ToolFacts()).effect.may_rerun:
            return Doubted(command.key, reason)
        return Failed(command.key, reason, context.remarks, context.spent, unsettled=True, kind=kind)

    def _unanswered(self, command: Carried, error: ModelFailed, context: CallContext) -> Outcome:
        """The outcome of a call whose model gave no answer.

        The call fails if the plan handles that, or if the run cannot be resumed. Otherwise it stays open and
        is repeated on resumption; the run stops when nothing else is left to do.
        """
        may_fail = isinstance(command, CallModel | AgentTurn) and command.may_fail
        asks = isinstance(command, CallModel | AgentTurn | RunAgent | Compile)
        if self._facts is None or may_fail or not asks:
            return Failed(command.key, str(as_error(error)), context.remarks, context.spent)
        return Doubted(command.key, str(as_error(error)), context.spent)

    async def _probe(self, command: Probe) -> Decided | Doubted:
        """The result of a probe; one that fails or cannot tell leaves the call in doubt."""
        key, call = command.key, command.call
        context = CallContext(self._run_id, key, delivery=call.delivery)
        try:
            route = self._find(call.tool)
            if route.probe is None and route.reconciler is None:
                return Doubted(key, f"@{call.tool} has no probe that determines whether it took place")
            decision = await within(_PROBE_SECONDS, self._probed(route, own_copy(call.args), context))
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return Doubted(key, "the probe cancelled itself")
        except Exception as error:
            why = str(error) if isinstance(error, ToolFailed) else describe(error)
            return Doubted(key, f"the probe failed: {why}")
        if decision is None:
            return Doubted(key, "the probe could not determine whether it took place")
        return Decided(key, decision or Decision.RETRY, by="probe")

    async def _probed(self, route: Route, args: dict[str, Any], context: CallContext) -> Probed:
        if route.probe is not None:
            return await route.probe(args, context)
        from callsheet.runtime.reconciliation import reconcile  # noqa: PLC0415 - only for calls in doubt

        assert route.reconciler is not None
        return await reconcile(route.reconciler, args, context, partial(self.reader, route))

    def reader(self, of: Route, tool: str) -> Route:
        """The route of a tool that may settle calls of another; raises ToolFailed if there is none."""
        return self._find(tool)

    def _find(self, tool: str, *, as_data: bool = False) -> Route:
        route = self._ports.route(tool)
        if route is None and tool in _PLAN_TOOLS:
            from callsheet.runtime.plan_tools import plan_tool  # noqa: PLC0415 - only for version 2

            route = Route(plan_tool(tool), is_builtin=True, reads=True)
        if route is None:
            raise ToolFailed(f"no tool is called @{tool}")
        if tool in self._slots:
            route = replace(route, handler=self._slots[tool].sharing(route.handler))
        if tool in CLEANED_TOOLS:
            route = replace(route, handler=_cleaning(tool, route.handler, as_data))
        if not as_data:
            self._routes[tool] = route
        return route

    async def _carry_out_other(self, command: Carried) -> Outcome:
        """As `carry_out`, for commands other than tool calls."""
        context = _new(CallContext).begin(self._run_id, command.key, self, command)
        try:
            return await self._answered(cast("Any", command), context)
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:
            return self._failed(command, error, context)

    async def _answered(
        self, command: CallModel | RunAgent | AgentTurn | Compile | Probe | Sleep, context: CallContext
    ) -> Outcome:
        ports, key = self._ports, command.key
        match command:
            case Sleep(seconds=seconds):
                timer = self._timers[key] = asyncio.ensure_future(asyncio.sleep(seconds))
                try:
                    await asyncio.wait((timer,))
                finally:
                    timer.cancel()
                    del self._timers[key]
                return TimerFired(key)
            case CallModel():
                if ports.model is None:
                    raise ToolFailed(f"@{command.tool} needs a language model, and this run has none")
                value = as_json(await ports.model(_own_inputs(command), context))
                return Succeeded(key, value, context.remarks, context.spent)
            case RunAgent():
                if ports.agent is None:
                    raise ToolFailed(f"@{command.tool} needs an agent, and this run has none")
                value = as_json(await ports.agent(_own_inputs(command), context))
                return Succeeded(key, value, context.remarks, context.spent, None, context.review)
            case AgentTurn(allowed=allowed):
                if allowed.fault:
                    raise ToolFailed(f"@{command.tool}: {allowed.fault}")
                if allowed.is_session:
                    return Succeeded(key, await _calls_of_client(ports, command, context))
                if ports.turn is None:
                    raise ToolFailed(f"@{command.tool} needs a language model, and this run has none")
                value = as_json(await ports.turn(_own_inputs(command), context))
                return Succeeded(key, value, context.remarks, context.spent, None, context.review)
            case Probe():
                return await self._probe(command)
            case Compile():
                return await self._planned(command, context)

    async def _planned(self, command: Compile, context: CallContext) -> Outcome:
        """A new plan that may run; the planner of a next part is told once why its plan may not."""
        text: Plan | Source | None
        try:
            made = await self._new_plan(command, context)
            wrong, text = self.objection_to(command, made), made.plan
            if wrong is None:
                return made
        except CallsheetError as error:
            wrong, text = str(error), error.source
        is_repaired = context.spent is not None and context.spent.repairs
        if text is None or not command.repairs or not command.has_blocks or is_repaired:
            return Failed(command.key, wrong, context.remarks, context.spent)
        from callsheet.frontends.spelling import text_of  # noqa: PLC0415 - only for a refused plan

        written = (text_of(text) if isinstance(text, Plan) else text.text).rstrip()
        context.remark(Fact("asked once more", f"{wrong}; the first plan was\n{written}"))
        context.charge(Spent(repairs=1))
        told = f"{written}\nWhy it cannot be used: {wrong}"
        return await self._planned(command._replace(refused=told, repairs=False), context)

    async def _new_plan(self, command: Compile, context: CallContext) -> PlanCompiled:
        if self._ports.compiler is None:
            raise ToolFailed("RE-PLAN needs a language model, and this run has none")
        own = command._replace(variables=own_copy(command.variables))
        plan, facts = await self._ports.compiler(own, context)
        if own.progress is not None:
            plan = with_own_ids(plan, own.progress.plan, own.progress.number)
        if self._facts is not None:
            self._facts.update(facts)
        return PlanCompiled(command.key, plan, facts, context.remarks, context.spent, context.shown)

    def objection_to(self, command: Compile, made: PlanCompiled) -> str | None:
        """Why a new plan may not run; None if it may."""
        del command, made
        return None


_INTERRUPTED = (
    "the program was interrupted; one that was not proved cannot be resumed, and its calls stay made"
)


async def _calls_of_client(ports: Ports, command: AgentTurn, context: CallContext) -> JSON:
    """The next calls of a session's client; a session that was resumed without its client ends.

    If the client was a program (`api.client_session`), that is a failure: it has not come to its end.
    """
    if ports.client is not None:
        return await ports.client(command, context)
    return {"failed": _INTERRUPTED} if "program" in command.args else {"finish": None}


def _cleaning(tool: str, handler: Handler, as_data: bool) -> Handler:
    """Wrap a handler so that its results are cleaned before the plan sees them."""

    async def call(args: dict[str, Any], context: CallContext) -> JSON:
        value = as_json(await handler(args, context))
        cleaned = clean_output(tool, value, as_data=as_data)
        if cleaned is not value and not as_data:
            context.remark(*left_out(tool, value, cleaned))
        return cleaned

    return call


def describe(error: BaseException) -> str:
    """An exception as one text: its type and its message."""
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _own_inputs(command: _Asking) -> _Asking:
    """The command with copies of its inputs and arguments."""
    inputs = [_copied(v) if type(v) is list or type(v) is dict else v for v in command.inputs]
    return command._replace(inputs=inputs, args=own_copy(command.args))


def own_copy(args: dict[str, Any]) -> dict[str, Any]:
    """A deep copy of the arguments' lists and dicts."""
    own = args.copy()
    for name, value in args.items():
        if type(value) is list or type(value) is dict:
            own[name] = _copied(value)
    return own


def _copied(value: Any) -> Any:
    if type(value) is list:
        items = cast("list[Any]", value)
        if _NESTS.isdisjoint(map(type, items)):
            return items.copy()
        return [_copied(item) if type(item) is list or type(item) is dict else item for item in items]
    return own_copy(value)
