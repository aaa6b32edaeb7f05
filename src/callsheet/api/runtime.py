"""The runtime: tools, a model and a journal, and the plans that run on them.

In: what an operator gives, then plans. Out: results, or handles that tell how a run goes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from callsheet.api.adopting import Adopting
from callsheet.api.agents import AgentRules
from callsheet.api.ears import Ears
from callsheet.api.given import (
    Given,
    InDoubt,
    id_of_run,
    names_of,
    verdict_of,
    with_secrets,
)
from callsheet.api.handle import RunHandle
from callsheet.api.kit import Kit, Servers, builtin_settings, files_in_force, pin_keeper, read_servers
from callsheet.api.language import language_model
from callsheet.api.models import (
    Agent,
    Compiler,
    Model,
    OperationModel,
    agent_port,
    model_port,
    opened,
)
from callsheet.api.opening import require_loop
from callsheet.api.plan import PlanLike, as_plan
from callsheet.api.planning import Planner, graph_planner
from callsheet.api.policies import PolicyLike, policy_of
from callsheet.api.reach import local_registry
from callsheet.api.replanning import replan_by
from callsheet.api.result import RunResult
from callsheet.api.resuming import Terms
from callsheet.api.sending import collector_of
from callsheet.api.session import Session
from callsheet.api.steps import StepLog, log_of
from callsheet.api.stream import EventStream
from callsheet.api.tools import ToolSource, read_tools, tool_sources
from callsheet.authoring.shapes import Shared
from callsheet.diagnostics.wanted import wanted, wanted_function, wanted_path
from callsheet.ir import OnInDoubt, canonical_tool_name
from callsheet.machine import Limits
from callsheet.machine.approvals import ApprovalTimeout, approval_timeouts
from callsheet.machine.limits import SCHEDULES
from callsheet.ports.builtin import BuiltinSettings
from callsheet.runtime.asking import OnAsk
from callsheet.runtime.cancelling import PATIENCE
from callsheet.runtime.doubt import RunOutcome
from callsheet.runtime.gateway import BLOCK_RULES
from callsheet.runtime.launch import Watch
from callsheet.runtime.telemetry.target import OtelSettings
from callsheet.store import Journal, check_run_id


class Runtime(Adopting):
    """Runs plans on the tools it is given, and on no others.

    - `tools`: functions (decorated with `@tool`, or plain: then their effect is `unsafe`),
      paths of Python files with decorated functions.
    - `mcp`: the path of an `mcpServers` file, its content as a dict, or the table in it. Servers
      start when a plan first needs them.
    - `pins` is a file in which the declarations of their tools are kept: what is declared differently later
      is not called. With `pinned` only what a person has approved (`callsheet trust approve`) is called and
      shown to models; the file is then the user's own unless it is named. Without both, a tool is
      refused only if it changes after its server was opened.
    - `builtins`: True for the built-in tools in the folder `workspace` (the working directory),
      or their `BuiltinSettings`; `data` is the folder of memory and received files.
    - `model`: carries out `@LLM_…` and the like: the name of a model (`provider:model`, or the address
      of a server), a `LanguageModel`, a function from prompt to answer, a `ChatModel` or an
      `OperationModel`. `agent` carries out `@AGENT_SOLVE`. `compiler` makes the plan of a
      RE-PLAN, `planner` those of `create_plan` and of graphs that have failed
      (`Limits(replans_on_failure=…)`); without them the model is asked. All may be async or not.
    - `agent_blocks` hands `@AGENT_SOLVE` an LCTL block that says how sure its inputs are, and checks one
      that it returns: `flag` tells doubts beside the answer, `block` fails the step for a fact below 0.40 or
      a block that breaks a rule, `review` asks a person then, also for one below 0.60. It needs a journal.
    - `share_values` names the variables whose values a model that plans anew may be told, or is a function
      that says it of a name; of all others it is told names, kinds and sizes.
    - `journal`: the path of a journal, or an open `Journal`. Without one nothing is recorded,
      and no run can be resumed.
    - `limits` bound each run.
    - `schedule` is `sequential` or `auto`: whether calls that only read leave before their step's turn, where
      nobody can tell it from the result. By default the limits say it, and theirs is `sequential`.
    - `on_in_doubt` is what becomes of calls that may have taken place, of tools that do not say it
      themselves: `ask`, `fail`, or `retry`, which holds for tools whose effect is declared.
    - `approve` names tools before each of whose calls a person is asked; the rule is recorded with the
      run. A call that nobody has approved within `approval_timeout` is denied: seconds or a text such as
      `3d`, or these by tool, "" for all others; by default it waits for ever. `on_approval` answers in
      the program what runs ask: it is given a `PendingAsk` and gives an `Answer`, True, False, or None
      to leave it to `answer`. It may be async or not.

    - `otlp` is the address of a collector of OpenTelemetry, or `OtelSettings` with headers: each run is sent
      to it while it goes on, from its journal. A collector that is away costs a run nothing.
    - `policy` is `strict`, `workspace`, `open`, the path of a policy file, or a `Policy`: each plan is proved
      against it before it runs, and each call is held to it.

    Within `with` or `async with`, servers and the journal stay open between runs, and leaving
    it interrupts what still runs. Without, each run opens and closes its own. Raises
    CallsheetError for tools, servers or settings that cannot be used; nothing is started yet.

    >>> def greet(name: str) -> str:
    ...     return f"Hello {name}"
    >>> with Runtime(tools=[greet]) as runtime:
    ...     result = runtime.run_sync('S1: @GREET ($who) > $text\\nS2: @RESPOND ($text)', {"who": "Ada"})
    >>> result.status, result.response, result.variables
    (<RunStatus.DONE: 'done'>, 'Hello Ada', {'text': 'Hello Ada', 'who': 'Ada'})
    """

    def __init__(  # noqa: PLR0913 - the names are what a runtime is made of
        self,
        tools: Iterable[ToolSource] = (),
        *,
        mcp: Servers | None = None,
        builtins: bool | BuiltinSettings = False,
        workspace: str | os.PathLike[str] | None = None,
        data: str | os.PathLike[str] | None = None,
        model: Model | None = None,
        agent: Agent | None = None,
        compiler: Compiler | None = None,
        planner: Planner | None = None,
        share_values: Shared = (),
        journal: Journal | str | os.PathLike[str] | None = None,
        limits: Limits | None = None,
        on_in_doubt: Literal["ask", "fail", "retry"] = "ask",
        approve: Iterable[str] = (),
        approval_timeout: ApprovalTimeout | None = None,
        on_approval: OnAsk | None = None,
        schedule: Literal["sequential", "auto"] | None = None,
        agent_tools: Iterable[str] | None = None,
        agent_blocks: Literal["flag", "block", "review"] | None = None,
        policy: PolicyLike | None = None,
        pinned: bool = False,
        pins: str | os.PathLike[str] | None = None,
        otlp: str | OtelSettings | None = None,
    ) -> None:
        if agent_blocks not in (None, *BLOCK_RULES):
            raise ValueError(f"agent_blocks must be {', '.join(BLOCK_RULES[:-1])} or {BLOCK_RULES[-1]}")
        if otlp is not None and journal is None:
            raise ValueError("runs are sent from their journal: Runtime(journal=PATH, otlp=…)")
        if on_in_doubt not in tuple(OnInDoubt):
            raise ValueError(f"on_in_doubt must be {' or '.join(OnInDoubt)}, not {on_in_doubt!r}")
        if schedule not in (None, *SCHEDULES):
            raise ValueError(f"schedule must be {' or '.join(SCHEDULES)}")
        own_data = None if data is None else wanted_path("data", data)
        model = opened(model)
        shared = share_values if callable(share_values) else [*names_of(share_values, "share_values")]
        settings = builtin_settings(builtins, workspace, own_data)
        sources = tool_sources(tools)
        kit = Kit(
            tools=tuple(local_registry(read_tools(sources), settings)),
            workspace="" if settings is None else os.path.abspath(settings.workspace),
            fetch=None if settings is None else settings.fetch,
            execution=None if settings is None else settings.execution,
            servers=() if mcp is None else read_servers(mcp),
            model=None if model is None else model_port(model),
            agent=None if agent is None else agent_port(wanted_function("agent", agent)),
            replan=replan_by(wanted_function("compiler", compiler), model, shared),
            planner=graph_planner(wanted_function("planner", planner), model, shared),
            journal=journal if isinstance(journal, Journal | None) else wanted_path("journal", journal),
            limits=Limits() if limits is None else wanted("limits", limits, Limits, "Limits(…)"),
            on_in_doubt=OnInDoubt(on_in_doubt),
            data=own_data,
            approve=tuple(map(canonical_tool_name, names_of(approve, "approve"))),
            approval_timeout=approval_timeouts(approval_timeout),
            on_ask=wanted_function("on_approval", on_approval),
            schedule=schedule,
            agents=_agent_rules(model, agent, agent_tools),
            agent_blocks=agent_blocks,
            pins=pin_keeper(pinned, pins),
            collector=collector_of(otlp),
            language=None if model is None else language_model(model),
            policy=policy_of(policy),
            in_force=files_in_force(*sources, mcp, pins),
        )
        super().__init__(kit)

    # ------------------------------------------------------------ running

    async def run(
        self,
        plan: PlanLike,
        inputs: Mapping[str, Any] | None = None,
        *,
        run_id: str | None = None,
        limits: Limits | None = None,
        secrets: Mapping[str, Any] | None = None,
    ) -> RunResult:
        """Check a plan and run it to its end, or to calls in doubt.

        `inputs` are variables by name, without `$`; `secrets` are such that are secret: they are sealed in
        the journal wherever they stand, and under a policy nobody may read them. `run_id` names the run, by
        default a new id; `limits` take the place of the runtime's. A plan that fails gives a result with that
        status (`result.raise_for_status()` raises). Cancelling this call interrupts the run: its
        journal keeps what has happened, and `resume` carries it on.

        Raises PlanError for a text that is no plan, or a plan with errors; CallsheetError for
        tools or a journal that cannot be used.

        >>> import asyncio
        >>> asyncio.run(Runtime().run('S1: @CALC ("$n * 2") > $twice', {"n": 21})).variables["twice"]
        42
        """
        values, secret = with_secrets(inputs, secrets)
        read = as_plan(plan, values.keys())
        name = id_of_run(run_id)
        async with self._opened() as session:
            log = log_of(read.ir)
            given = Given(values, secret)
            outcome = await session.run(read, given, name, limits, Ears(log=log), Watch())
            return _result(outcome, log, session)

    def start(
        self,
        plan: PlanLike,
        inputs: Mapping[str, Any] | None = None,
        *,
        run_id: str | None = None,
        limits: Limits | None = None,
        secrets: Mapping[str, Any] | None = None,
    ) -> RunHandle:
        """Start a run on the running event loop and give its handle, which streams its events.

        Takes what `run` takes. Raises PlanError for a text that is no plan; whatever else is
        wrong is raised by the handle.
        """
        require_loop("start", "run_sync")
        values, secret = with_secrets(inputs, secrets)
        read = as_plan(plan, values.keys())
        name = id_of_run(run_id)
        stream = EventStream(name, read.ir)

        log = log_of(read.ir)

        async def work(watch: Watch) -> RunResult:
            async with self._opened() as session:
                given = Given(values, secret)
                outcome = await session.run(read, given, name, limits, Ears(stream, log), watch)
                return _result(outcome, log, session)

        return self._handle(RunHandle(name, stream, work, values, is_recorded=self._is_recorded, log=log))

    async def resume(
        self,
        run_id: str,
        *,
        in_doubt: InDoubt | None = None,
        accept_changed_tools: bool = False,
        limits: Limits | None = None,
        policy: PolicyLike | None = None,
        accept_changed_policy: bool = False,
    ) -> RunResult:
        """Carry a run on where its journal ends; a run that has ended gives its result again.

        `run_id` is an id, the beginning of one, or `last`. No finished call is made again.
        `in_doubt` decides what becomes of calls that may or may not have taken place; without
        it the run goes on with what `decide` has decided, and the result lists the rest. The limits
        are those that the run has, unless `limits` are given: what has been used counts against
        them. A run under a policy goes on under the one it was started with. Where `policy` is given and
        differs, that is refused (JRN023) unless `accept_changed_policy`; then what is left of the plan is
        proved against it, with the labels that the values have. Raises CallsheetError: no such run, a
        damaged journal, another process that owns the run, tools that are gone or (JRN021) have changed,
        unless `accept_changed_tools`; PolicyRefused for what is left of the plan.
        """
        self._require_journal()
        terms = Terms.of(in_doubt, accept_changed_tools, limits, policy, accept_changed_policy)
        async with self._opened() as session:
            log = StepLog(None)
            outcome = await session.resume(session.find(run_id), terms, Ears(log=log), Watch())
            return _result(outcome, log, session)

    async def decide(self, run_id: str, call: str, decision: InDoubt, *, every: bool = False) -> RunResult:
        """Decide what becomes of a call in doubt; `resume` then carries the run on.

        `call` is the key of a call as `RunResult.in_doubt` has it, or a step with one call in doubt;
        with `every` a step stands for all of its calls. The decision is in the journal when this
        returns; no tool is called. The result lists what is still in doubt; with nothing left its
        status is `running`. Raises CallsheetError: JRN030 for a call that is not in doubt (any more),
        JRN031 for a step with several, JRN004 while a process carries the run on.
        """
        self._require_journal()
        verdict = verdict_of(decision)
        async with self._opened() as session:
            outcome = await session.decide(session.find(run_id), [call], verdict, every=every)
            return _result(outcome, None, session)

    async def cancel(
        self, run_id: str, reason: str = "cancelled", *, patience: float = PATIENCE
    ) -> RunResult | None:
        """End a run of the journal for good, wherever it is: waiting, in doubt, interrupted, or under way.

        No tool is called. A process that carries the run on is asked to end it and waited for, up to
        `patience` seconds; None if it has not ended it by then: it will when it looks, or else the next
        `resume` does. `in_doubt` of the result are calls that had left and may have taken place.
        Raises CallsheetError: JRN002 for an unknown run, JRN032 for one that has ended, JRN012 for a
        damaged journal. A run that this runtime has started is cancelled by its handle, too.
        """
        self._require_journal()
        async with self._opened() as session:
            outcome = await session.cancel(session.find(run_id), reason, patience)
            return None if outcome is None else _result(outcome, None, session)

    def start_resume(
        self,
        run_id: str,
        *,
        in_doubt: InDoubt | None = None,
        accept_changed_tools: bool = False,
        limits: Limits | None = None,
        policy: PolicyLike | None = None,
        accept_changed_policy: bool = False,
    ) -> RunHandle:
        """As `resume`, with a handle: the events begin with those of the past, marked `replayed`.

        `run_id` is the whole id.
        """
        require_loop("start_resume", "resume_sync")
        self._require_journal()
        check_run_id(run_id)
        terms = Terms.of(in_doubt, accept_changed_tools, limits, policy, accept_changed_policy)
        stream = EventStream(run_id, None, replays=True)

        log = StepLog(None)

        async def work(watch: Watch) -> RunResult:
            async with self._opened() as session:
                outcome = await session.resume(run_id, terms, Ears(stream, log), watch)
                return _result(outcome, log, session)

        return self._handle(RunHandle(run_id, stream, work, {}, is_recorded=True, log=log))

    # ------------------------------------------------------------ without async

    def run_sync(
        self,
        plan: PlanLike,
        inputs: Mapping[str, Any] | None = None,
        *,
        run_id: str | None = None,
        limits: Limits | None = None,
        secrets: Mapping[str, Any] | None = None,
    ) -> RunResult:
        """As `run`, for programs without an event loop; raises RuntimeError inside of one.

        Ctrl-C interrupts the run, which can be resumed.
        """
        work = self.run(plan, inputs, run_id=run_id, limits=limits, secrets=secrets)
        return self._run_sync(work, "run")

    def resume_sync(
        self,
        run_id: str,
        *,
        in_doubt: InDoubt | None = None,
        accept_changed_tools: bool = False,
        limits: Limits | None = None,
        policy: PolicyLike | None = None,
        accept_changed_policy: bool = False,
    ) -> RunResult:
        """As `resume`, for programs without an event loop."""
        work = self.resume(
            run_id,
            in_doubt=in_doubt,
            accept_changed_tools=accept_changed_tools,
            limits=limits,
            policy=policy,
            accept_changed_policy=accept_changed_policy,
        )
        return self._run_sync(work, "resume")

    def decide_sync(self, run_id: str, call: str, decision: InDoubt, *, every: bool = False) -> RunResult:
        """As `decide`, for programs without an event loop."""
        return self._run_sync(self.decide(run_id, call, decision, every=every), "decide")

    def cancel_sync(
        self, run_id: str, reason: str = "cancelled", *, patience: float = PATIENCE
    ) -> RunResult | None:
        """As `cancel`, for programs without an event loop."""
        return self._run_sync(self.cancel(run_id, reason, patience=patience), "cancel")

    @property
    def limits(self) -> Limits:
        """The limits of each run, unless it is given others."""
        return self._kit.limits


def _agent_rules(model: Model | None, agent: Agent | None, tools: Iterable[str] | None) -> AgentRules | None:
    """How the machine drives agents: none without a model that takes conversations."""
    if model is None or isinstance(model, OperationModel):
        return None
    allowed = None if tools is None else tuple(map(canonical_tool_name, names_of(tools, "agent_tools")))
    return AgentRules(allowed, drives_agents=agent is None)


def _result(outcome: RunOutcome, log: StepLog | None, session: Session) -> RunResult:
    return RunResult.of(outcome, () if log is None else log.results(), session.hides)
