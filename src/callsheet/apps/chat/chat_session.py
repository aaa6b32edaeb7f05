"""Carries out the commands of a conversation: answers messages, makes and runs plans.

In: commands. Out: output on a screen. Each message and each plan is a run in the journal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from callsheet.api.budget import SharedBudget
from callsheet.api.compiling import Compiled
from callsheet.apps.chat.commands import HELP, Command, Message, PlanCommand, Screen, SimpleCommand
from callsheet.apps.chat.plan_tools import (
    MAX_TURNS,
    PLAN_CREATE,
    PLAN_TOOLS,
    Exchange,
    answering_plan,
    transcript,
)
from callsheet.apps.compiling import GoalRequest, ProofTerms, compile_with_toolbox
from callsheet.apps.hosting.host import Host
from callsheet.apps.hosting.recorded import recorded_outcome
from callsheet.apps.hosting.service import Listeners, ResumeOptions, RunRequest
from callsheet.apps.operations.library import bound, text_of_stored
from callsheet.apps.operations.proofs import PredictionOptions, predict
from callsheet.apps.operations.reading import PlanText, text_of
from callsheet.apps.rendering.runs import failures_line, program_lines, question_lines
from callsheet.apps.toolbox import DeclaredTools
from callsheet.authoring.compiler.request import Accounting
from callsheet.diagnostics import CallsheetError, Source, render_all
from callsheet.frontends.spelling import Syntax
from callsheet.ir import JSON, CallKind, call_kind
from callsheet.machine import Limits, Spent, Status, Usage
from callsheet.policy.model import Policy
from callsheet.ports.tools import Registry
from callsheet.runtime.answers import Answer, PendingAsk
from callsheet.runtime.asking import Respondents
from callsheet.runtime.doubt import RunOutcome
from callsheet.runtime.inbox import programs_of
from callsheet.store.library import PlanLibrary, StoredPlan

Bounds = dict[str, float | int]

_BOUNDS = ("max_steps", "max_calls", "max_model_calls", "max_tokens", "max_cost", "max_seconds", "max_bytes")


class ConversationBudget:
    """The budget of a conversation.

    A run that is resumed reports its total usage again; only the increase is counted.

    >>> budget = ConversationBudget(Limits(max_calls=10))
    >>> budget.count_run("r", Usage(calls=2))
    >>> budget.count_run("r", Usage(calls=3))
    >>> budget.used.calls, budget.remaining()["max_calls"]
    (3, 7)
    """

    def __init__(self, limits: Limits) -> None:
        self._budget = SharedBudget(limits)
        self._counted: dict[str, Usage] = {}
        self._reserved: Bounds = {}

    @property
    def used(self) -> Usage:
        """The usage so far."""
        return self._budget.used

    @property
    def is_model_budget_spent(self) -> bool:
        """Whether the budget for model calls or tokens is spent."""
        remaining = self.remaining()
        return any(remaining.get(name) == 0 for name in ("max_model_calls", "max_tokens"))

    def add(self, usage: Usage) -> None:
        """Count usage outside of runs."""
        self._budget.add(usage)

    def count_run(self, run_id: str, usage: Usage) -> None:
        """Count the total usage of a run, without the part that was counted before."""
        before = self._counted.get(run_id)
        self._budget.add(usage if before is None else usage.since(before))
        self._counted[run_id] = usage

    def count_from(self, run_id: str, usage: Usage) -> None:
        """Exclude the usage that a run had before this conversation resumed it."""
        self._counted.setdefault(run_id, usage)

    def remaining(self) -> Bounds:
        """The limits for the next run: the rest of the budget, without the reserved part."""
        left = self._budget.left()
        bounds = {name: getattr(left, name) for name in _BOUNDS}
        return {
            name: max(0, most - self._reserved.get(name, 0))
            for name, most in bounds.items()
            if most is not None
        }

    def describe(self) -> str:
        """The rest of the budget, in one line.

        >>> ConversationBudget(Limits(max_calls=2_000, max_tokens=None)).describe()[:31]
        '10,000 steps · 2,000 calls · 10'
        """
        remaining = (
            (name.removeprefix("max_").replace("_", " "), value) for name, value in self.remaining().items()
        )
        return " · ".join(
            f"cost {format_number(value)}" if name == "cost" else f"{format_number(value)} {name}"
            for name, value in remaining
        )

    def half_of_remaining(self) -> Bounds:
        """Half of the rest: for a message whose model may run plans, which get the other half."""
        return {name: half_bound(most) for name, most in self.remaining().items()}

    @contextmanager
    def reserving(self, bounds: Bounds) -> Generator[None]:
        """Reserve these amounts during the block."""
        self._reserved = bounds
        try:
            yield
        finally:
            self._reserved = {}


def format_number(value: float) -> str:
    """A number for people.

    >>> format_number(50_000_000), format_number(86_399.25), format_number(0.5)
    ('50,000,000', '86,399.2', '0.5')
    """
    return f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"


def half_bound(most: float) -> float | int:
    """Half of a bound; an integer for an integer bound, and at least 1 unless that is 0.

    >>> half_bound(5), half_bound(1), half_bound(0.5)
    (2, 1, 0.25)
    """
    return max(most // 2, min(most, 1)) if isinstance(most, int) else most / 2


_COLUMNS = 100
"""The width of the output of a dry run, in characters."""
_STOPPED = "stopped in the conversation"


@dataclass(frozen=True, slots=True)
class ConversationOptions:
    """Options: whether the model may create and run plans, and whether calls need no consent (`yes`)."""

    plan_tools: bool = False
    yes: bool = False


class ChatSession:
    """A conversation on a host; `execute` carries out one command.

    The conversation and its plans share one `budget`. Unless `options.yes`, the user is asked before each
    call that may change something, and before a plan of the model is run.
    """

    def __init__(
        self,
        host: Host,
        library: PlanLibrary,
        screen: Screen,
        options: ConversationOptions,
        policy: Policy | None = None,
    ) -> None:
        self._host = host
        self._library = library
        self._screen = screen
        self._options = options
        self._policy = policy
        self.budget = ConversationBudget(host.config.limits)
        self.exchanges: tuple[Exchange, ...] = ()
        self._last_run = ""
        self._message_run = ""
        """The id of the run that answers the last message."""
        self._is_closed = False

    async def execute(self, command: Command) -> None:
        """Carry out a command; raises CallsheetError if it fails."""
        match command:
            case Message(text):
                await self._answer(text)
            case PlanCommand():
                await self._plan_command(command)
            case SimpleCommand("tools"):
                registry = await self._registry()
                self._screen.show(
                    "\n".join(f"@{name.lower()}" for name in self._callable_tools(registry)) or "none"
                )
            case SimpleCommand("usage"):
                self._screen.show(f"used {self.budget.used.describe()}\nleft {self.budget.describe()}")
            case SimpleCommand("forget"):
                self.exchanges = ()
                self._screen.show("the history is cleared")
            case _:
                self._screen.show(HELP)

    def close(self) -> None:
        """Prepare the end of the program: runs that stop from now on can be resumed."""
        self._is_closed = True

    # ------------------------------------------------------------ messages

    async def _answer(self, message: str) -> None:
        registry = await self._registry()
        tools = self._callable_tools(registry)
        past = transcript(self.exchanges)
        agent = None if self._policy is None else self._policy.agent
        turns = MAX_TURNS if agent is None else min(MAX_TURNS, agent.max_turns)
        text = _plan_text(answering_plan(tools, turns, has_past=bool(past)), ("message", "said"))
        limits = self.budget.half_of_remaining() if self._options.plan_tools else self.budget.remaining()
        request = RunRequest(
            text=text,
            inputs={"message": message, **({"said": past} if past else {})},
            limits=limits,
            approve=self._tools_needing_consent(registry, tools),
            listeners=self._listeners(of_plan=False),
        )
        with self.budget.reserving(limits):
            started = await self._host.start(request)
            self._message_run = started.run_id
            outcome = await self._await_outcome(started.run_id)
        answer = self._show_outcome(outcome)
        if answer:
            saw_data = _data_calls(outcome.usage) > 0
            self.exchanges = (*self.exchanges, Exchange(message, answer, saw_data))

    def _callable_tools(self, registry: Registry) -> tuple[str, ...]:
        """The tools that the model may call."""
        names = [
            name for name in registry.names() if call_kind(name) is CallKind.TOOL and name not in PLAN_TOOLS
        ]
        allowed = self._host.tools.setup.settings.agent_tools
        if allowed is not None:
            names = [name for name in names if name in {each.upper() for each in allowed}]
        if self._policy is not None:
            agent = self._policy.agent
            names = (
                [] if agent is None else [name for name in names if name in {t.upper() for t in agent.tools}]
            )
        return (*names, *(PLAN_TOOLS if self._options.plan_tools else ()))

    def _tools_needing_consent(self, registry: Registry, tools: Iterable[str]) -> tuple[str, ...]:
        """The tools whose calls need the consent of the user; plan tools ask themselves."""
        if self._options.yes:
            return ()
        candidates = ((name, registry.get(name)) for name in tools if name not in PLAN_TOOLS)
        return tuple(
            name for name, tool in candidates if tool is not None and not tool.spec.effect.only_reads
        )

    # ------------------------------------------------------------ plans

    async def create_plan(self, goal: str) -> StoredPlan:
        """Create a plan for a goal and save it in the library; raises CallsheetError if that fails."""
        if self.budget.is_model_budget_spent:
            raise CallsheetError.single("RUN061", "the budget of this conversation is spent", help="/usage")
        toolbox = await self._host.tools.for_plan(None)
        toolbox = replace(toolbox, registry=toolbox.registry.without(PLAN_TOOLS))
        terms = None if self._policy is None else ProofTerms(self._policy, self._host.journal.path)
        request = GoalRequest(goal=goal, library=self._library, terms=terms)
        compiled_plan = await compile_with_toolbox(
            toolbox, request, self._host.tools.setup, self._screen.show
        )
        if compiled_plan.result is not None:
            accounting = compiled_plan.result.accounting
            self.budget.add(Usage.of(_spent(accounting), accounting.calls))
            if not isinstance(compiled_plan.result, Compiled):
                findings = compiled_plan.result.findings
                raise CallsheetError(findings.errors, findings.source)
        if compiled_plan.from_library is not None:
            return self._library.load(compiled_plan.from_library.id)
        plan = compiled_plan.plan
        assert plan is not None
        return self._library.save(
            replace(plan, id=None),
            text=compiled_plan.text,
            syntax=compiled_plan.syntax,
            tools=compiled_plan.tools,
            goal=goal,
        )

    async def run_proposed_plan(self, plan_id: str, variables: Mapping[str, JSON]) -> RunOutcome | None:
        """Run a plan that the model requests, after the user has agreed; None if they refuse."""
        text = text_of_stored(self._library.load(plan_id), variables)
        self._screen.draw(text.require())
        if not self._options.yes or (self._policy is not None and await self._has_seen_data()):
            reply = await self._screen.ask(f"run {plan_id}? [y/N] ")
            if not _is_yes(reply):
                return None
        return await self._run(text, variables)

    async def _has_seen_data(self) -> bool:
        """Whether the model has seen results of tools, for this message or an earlier one."""
        if any(exchange.saw_data for exchange in self.exchanges):
            return True
        return _data_calls((await self._recorded_outcome(self._message_run)).usage) > 1

    async def _run(self, text: PlanText, variables: Mapping[str, JSON]) -> RunOutcome:
        plan = text.require()
        registry = (await self._host.tools.for_plan(plan)).registry
        called = dict.fromkeys(step.call.tool for step in plan.steps if step.call is not None)
        approve = self._tools_needing_consent(registry, called)
        request = RunRequest(
            text=text,
            inputs=variables,
            limits=self.budget.remaining(),
            approve=approve,
            listeners=self._listeners(of_plan=True),
        )
        return await self._await_outcome((await self._host.start(request)).run_id)

    async def _plan_command(self, command: PlanCommand) -> None:
        match command.verb:
            case "create":
                stored = await self.create_plan(command.subject)
                self._screen.draw(stored.require())
                self._screen.show(f"{stored.id} is saved; /plan run {stored.id} runs it")
            case "list":
                listed = [
                    f"{each.id}  {each.goal or each.title or ''}".rstrip() for each in self._library.list()
                ]
                self._screen.show("\n".join(listed) or "no plan is saved")
            case "show":
                stored = self._library.load(command.subject)
                self._screen.answer(stored.text)
                self._screen.draw(stored.require())
            case "run" if command.dry_run:
                await self._dry_run(command)
            case "run":
                text = text_of_stored(self._library.load(command.subject), command.variables)
                self._show_outcome(await self._run(text, command.variables))
            case "resume":
                await self._resume(command.subject or self._last_run)
            case _:
                self._screen.show(f"{self._library.delete(command.subject)} is deleted")

    async def _dry_run(self, command: PlanCommand) -> None:
        text = text_of_stored(self._library.load(command.subject), command.variables)
        inputs = bound(text, command.variables, ())
        setup = self._host.tools.setup
        options = PredictionOptions(inputs=inputs, policy=self._policy)
        prediction = await asyncio.to_thread(predict, text, DeclaredTools(setup), options)
        if prediction.absent:
            self._screen.show(f"{prediction.absent}: callsheet dry-run --ask-servers starts the servers")
        self._screen.answer(prediction.to_text(_COLUMNS))
        if prediction.remarks:
            self._screen.show(render_all(prediction.remarks, text.source))
        if not prediction.ok:
            raise CallsheetError([d for d in prediction.diagnostics if d.is_error], text.source)

    async def _resume(self, run_id: str) -> None:
        if not run_id:
            raise CallsheetError.single(
                "CFG210", "nothing was run in this conversation", help="/plan resume RUN"
            )
        full_id = self._host.journal.find_run(run_id).run_id
        self.budget.count_from(full_id, (await self._recorded_outcome(full_id)).usage)
        listeners = self._listeners(of_plan=True)
        await self._host.resume(full_id, ResumeOptions(listeners=listeners, unpaused_by=""))
        self._show_outcome(await self._await_outcome(full_id))

    # ------------------------------------------------------------ runs

    async def _await_outcome(self, run_id: str) -> RunOutcome:
        """Wait until the run stops; a cancelled wait cancels the run, unless the program ends."""
        self._last_run = run_id
        try:
            outcome = await self._host.outcome(run_id)
        except asyncio.CancelledError:
            if not self._is_closed:
                await asyncio.shield(self._stop(run_id))
            raise
        self.budget.count_run(run_id, outcome.usage)
        return outcome

    async def _stop(self, run_id: str) -> None:
        await self._host.cancel(run_id, _STOPPED)
        self.budget.count_run(run_id, (await self._recorded_outcome(run_id)).usage)

    async def _recorded_outcome(self, run_id: str) -> RunOutcome:
        """The state of a run according to its journal."""
        return await self._host.beside(partial(recorded_outcome, self._host.journal, run_id))

    def _show_outcome(self, outcome: RunOutcome) -> str:
        """Show the state of a run; return the answer, empty if there is none."""
        result = outcome.result
        if result is None:
            for ask in outcome.waiting:
                self._screen.show("\n".join(question_lines(ask)))
            for call in outcome.in_doubt:
                self._screen.show(
                    f"in doubt: {call.key} @{call.tool}; callsheet decide {outcome.run_id} {call.key} …"
                )
            state = "waits" if outcome.pause is None else f"is {outcome.pause.words}"
            self._screen.show(f"{outcome.run_id} {state}; /plan resume {outcome.run_id} resumes it")
            return ""
        if result.status is Status.DONE:
            self._screen.answer(result.response or "")
            if result.failed_steps:
                self._screen.show(failures_line(result.failed_steps))
                self._screen.show(f"callsheet show {outcome.run_id}")
            return result.response or ""
        self._screen.show(f"{result.status}: {result.error or result.response or ''}")
        self._screen.show(f"callsheet show {outcome.run_id}")
        return ""

    def _listeners(self, *, of_plan: bool) -> Listeners:
        return Listeners(partial(self._screen.note, of_plan=of_plan), Respondents(self._ask_person))

    async def _ask_person(self, ask: PendingAsk) -> Answer | bool | None:
        """The user's answer to a question of a run; None leaves the question in the inbox."""
        *lines, how = question_lines(ask)
        if ask.role:
            self._screen.show("\n".join([*lines, how]))
            return None
        programs = await self._host.beside(partial(programs_of, self._host.journal, [ask]))
        program = programs.get(ask.digest)
        more = [] if program is None else [*program_lines(program, ask.site)]
        self._screen.show("\n".join([*lines, *more]))
        if ask.kind == "approval":
            also = "" if program is None else ", p for this call and those marked + as they are shown"
            reply = await self._screen.ask(f"allow this call? [y/N{also}] ")
            if program is not None and (reply or "").strip().lower() == "p":
                answer = Answer.approve(for_program=program.digest)
                await self._host.answer(ask.run_id, answer, ask.key, digest=ask.digest)
                return None
            return None if reply is None else _is_yes(reply)
        reply = await self._screen.ask("your answer: ")
        return None if reply is None else Answer.of(reply)

    async def _registry(self) -> Registry:
        return (await self._host.tools.for_plan(None)).registry


def _plan_text(text: str, variables: Iterable[str]) -> PlanText:
    return text_of(None, Source("<conversation>", text), syntax=Syntax.LTP, variables=variables)


def _spent(accounting: Accounting) -> Spent:
    used = accounting.usage
    return Spent(
        used.input_tokens,
        used.output_tokens,
        used.cost or 0.0,
        used.cached_tokens,
        used.tries,
        int(used.cost is None),
        used.seconds,
    )


def _data_calls(usage: Usage) -> int:
    """The number of tool calls that may have returned data to a model; `plan_create` returns none."""
    tools = (name for name in usage.calls_by_tool if call_kind(name) is CallKind.TOOL and name != PLAN_CREATE)
    return sum(usage.calls_by_tool[name] for name in tools)


def _is_yes(reply: str | None) -> bool:
    return (reply or "").strip().lower() in ("y", "yes")
