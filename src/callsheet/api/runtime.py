"""`Runtime`: runs plans with a set of tools, a model and a journal.

In: the configuration, then plans. Out: results, or handles that stream the events of a run.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

from callsheet.api.arguments import (
    InDoubt,
    RunInputs,
    ToolSource,
    id_of_run,
    inputs_for,
    names_of,
    read_tools,
    tags_of,
    tool_sources,
    verdict_of,
    with_secrets,
)
from callsheet.api.configuration import (
    Configuration,
    Servers,
    builtin_settings,
    collector_of,
    files_in_force,
    pin_keeper,
    read_lock,
    read_servers,
)
from callsheet.api.continuation import Adopting
from callsheet.api.handle import EventStream, Observers, RunHandle
from callsheet.api.loops import blocking, require_loop
from callsheet.api.models import (
    Agent,
    Compiler,
    Model,
    OperationModel,
    agent_port,
    language_model,
    model_port,
    opened,
)
from callsheet.api.plan import PlanLike, as_plan
from callsheet.api.planning import Planner, graph_planner, replan_by
from callsheet.api.policies import PolicyLike, policy_of
from callsheet.api.requirements import AgentRules, local_registry
from callsheet.api.result import RunResult, StepLog, log_of
from callsheet.api.session import Session, resume_terms
from callsheet.authoring.shapes import Shared
from callsheet.diagnostics.wrong_type import wanted, wanted_function, wanted_path
from callsheet.ir import OnInDoubt, canonical_tool_name
from callsheet.machine import Limits
from callsheet.machine.limits import SCHEDULES
from callsheet.machine.questions import ApprovalTimeout, approval_rules, approval_timeouts
from callsheet.ports.builtin import BuiltinSettings
from callsheet.runtime.asking import OnAsk
from callsheet.runtime.cancelling import PATIENCE
from callsheet.runtime.doubt import RunOutcome
from callsheet.runtime.gateway import BLOCK_RULES
from callsheet.runtime.launch import Watch
from callsheet.runtime.telemetry.target import OtelSettings
from callsheet.store import Journal, check_run_id
from callsheet.store.pauses import RunPause


class Runtime(Adopting):
    """Runs plans with the given tools, and no others.

    - `tools`: functions (decorated with `@tool`, or plain: their effect is then `unsafe`), `Tool` objects,
      and paths of Python files with decorated functions.
    - `mcp`: the path of an `mcpServers` file, its content as a dict, or the table in it. Servers start when
      a plan first needs them.
    - `pins`: a file with the declarations of server tools; a tool that is declared differently later is not
      called. With `pinned` only tools that a person has approved (`callsheet trust approve`) are called and
      shown to models; the file is then the user's default unless `pins` names one. Without both, a tool is
      refused only if it changes after its server was opened.
    - `lock`: a lock file that `callsheet lock` has written: its tools are known without a server, their
      effects are those that were accepted, and a server starts when one of its tools is called.
    - `builtins`: True for the built-in tools in the folder `workspace` (default: the working directory), or
      their `BuiltinSettings`; `data` is the folder for memory and received files.
    - `model`: carries out `@LLM_…` and other model operations. The name of a model (`provider:model`, or the
      address of a server), a `LanguageModel`, a function from prompt to answer, a `ChatModel` or an
      `OperationModel`.
    - `agent`: carries out `@AGENT_SOLVE` as a whole; without it the machine drives the model turn by turn.
      `compiler` makes the plan of a RE-PLAN, `planner` the plans of `create_plan` and of failed graphs
      (`Limits(replans_on_failure=…)`); without them the model is asked. All may be async or not.
    - `agent_tools`: the tools that agents may call. Without it, an agent gets the tools that its step names,
      else those that only read.
    - `agent_blocks`: give `@AGENT_SOLVE` an LCTL block that says how certain its inputs are, and check the
      block that it returns. `flag` reports doubts beside the answer; `block` fails the step for a fact below
      0.40 or a block that breaks a rule; `review` asks a person instead, also for a fact below 0.60. Needs a
      journal.
    - `share_values`: the variables whose values a replanning model may see, as names or as a predicate on
      names; of all others it is told names, kinds and sizes.
    - `journal`: the path of a journal, or an open `Journal`. Without one nothing is recorded and no run can
      be resumed.
    - `limits`: the limits of each run.
    - `schedule`: `auto` to send calls that only read ahead of their step's turn where that cannot change the
      result, or `sequential`. By default the limits decide, whose default is `auto`.
    - `on_in_doubt`: what to do about calls that may have taken place, for tools that do not set it
      themselves: `ask`, `fail`, or `retry`, which applies to tools with a declared effect.
    - `approve`: the tools that need a person's approval before each call; recorded with the run. A call that
      is not approved within `approval_timeout` is denied: seconds, a text such as `3d`, or a dict of these by
      tool, "" for all others; by default it waits for ever. `on_approval` answers the questions of runs
      within the program: it takes a `PendingAsk` and returns an `Answer`, True, False, or None to leave the
      question to `answer`. It may be async or not.
    - `otlp`: the address of an OpenTelemetry collector, or `OtelSettings` with headers. Each run is sent to
      it from the journal while it goes on; an unreachable collector does not affect the run.
    - `policy`: `strict`, `workspace`, `open`, the path of a policy file, or a `Policy`. Each plan is proved
      against it before it runs, and each call is checked against it.

    Within `with` or `async with`, servers and the journal stay open between runs; leaving the block
    interrupts the runs that are still in progress. Otherwise each run opens and closes its own. Raises
    CallsheetError for tools, servers or settings that cannot be used, ValueError and TypeError for wrong
    arguments; nothing is started yet.

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
        lock: str | os.PathLike[str] | None = None,
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
        config = Configuration(
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
            approve=approval_rules(names_of(approve, "approve")),
            approval_timeout=approval_timeouts(approval_timeout),
            on_ask=wanted_function("on_approval", on_approval),
            schedule=schedule,
            agents=_agent_rules(model, agent, agent_tools),
            agent_blocks=agent_blocks,
            pins=pin_keeper(pinned, pins),
            lock=read_lock(lock),
            collector=collector_of(otlp),
            language=None if model is None else language_model(model),
            policy=policy_of(policy),
            in_force=files_in_force(*sources, mcp, pins, lock),
        )
        super().__init__(config)

    # ------------------------------------------------------------ running

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
        """Check a plan and run it until it ends, is in doubt, or waits for people.

        `inputs` are variables by name, without `$`; those of a function with `@plan` may be given as
        arguments, `run(triage, repo="octo/demo")`. `secrets` are further ones that are secret: they are
        encrypted wherever they occur in the journal, and under a policy nobody may read them. `run_id` is the
        id of the run, by default a new one; `limits` replace the runtime's; `run_tags` are texts by name that
        lists of runs show and find it by, and that are not encrypted. A failed plan gives a result with that
        status (`result.raise_for_status()` raises). Cancelling this call interrupts the run: its journal
        keeps what has happened, and `resume` continues it.

        Raises PlanError for a text that is not a plan or a plan with errors, PolicyRefused for one that the
        policy refuses, CallsheetError for tools, inputs or a journal that cannot be used.

        >>> import asyncio
        >>> asyncio.run(Runtime().run('S1: @CALC ("$n * 2") > $twice', {"n": 21})).variables["twice"]
        42
        """
        values, secret = with_secrets(inputs_for(plan, inputs, named), secrets)
        read = as_plan(plan, values.keys())
        name = id_of_run(run_id)
        async with self._opened() as session:
            observers = Observers(log=log_of(read.ir))
            given = RunInputs(values, secret, tags_of(run_tags))
            outcome = await session.run(read, given, name, limits, observers, Watch())
            return _result(outcome, observers, session)

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
    ) -> RunHandle:
        """Start a run on the running event loop and return its handle, which streams the events.

        The arguments are those of `run`. Raises PlanError for a text that is not a plan, CallsheetError for
        invalid inputs and for the id of a run that exists (JRN003), RuntimeError without an event loop; the
        handle raises all other errors.
        """
        require_loop("start", "run_sync")
        values, secret = with_secrets(inputs_for(plan, inputs, named), secrets)
        read = as_plan(plan, values.keys())
        name = id_of_run(run_id)
        if run_id is not None:
            self._refuse_taken(name)
        observers = Observers(EventStream(name, read.ir), log_of(read.ir))

        async def work(watch: Watch) -> RunResult:
            async with self._opened() as session:
                given = RunInputs(values, secret, tags_of(run_tags))
                outcome = await session.run(read, given, name, limits, observers, watch)
                return _result(outcome, observers, session)

        pause = self._pause if self._is_recorded else None
        return self._handle(RunHandle(name, observers, work, values, pause))

    async def resume(
        self,
        run_id: str,
        *,
        in_doubt: InDoubt | None = None,
        accept_changed_tools: bool = False,
        as_recorded: bool = False,
        limits: Limits | None = None,
        policy: PolicyLike | None = None,
        accept_changed_policy: bool = False,
        by: str = "",
    ) -> RunResult:
        """Continue a run where its journal ends; for a run that has ended, return its result again.

        `run_id` is an id, a prefix of one, or `last`. No finished call is made again. `in_doubt` decides on
        calls that may or may not have taken place; without it the decisions of `decide` apply, and the result
        lists the undecided calls. The run keeps its limits unless `limits` are given; what it has used counts
        against them. It also keeps its policy: a different `policy` is refused (JRN023) unless
        `accept_changed_policy`, and then the rest of the plan is proved against it, with the current labels
        of the values. A run that was paused goes on, and the journal says by whom (`by`). If the file of the
        plan was edited since the run began, the run is not continued (JRN024) unless `as_recorded`. Raises
        CallsheetError for an unknown run, a damaged journal, a run that another process owns, and tools that
        are missing or, unless `accept_changed_tools`, have changed (JRN021);
        PolicyRefused if the policy refuses the rest of the plan; ValueError for a runtime without a journal.
        """
        self._require_journal()
        terms = resume_terms(
            in_doubt,
            accept_changed_tools,
            limits,
            policy,
            accept_changed_policy,
            as_recorded=as_recorded,
            unpaused_by=by,
        )
        async with self._opened() as session:
            observers = Observers(log=StepLog(None))
            outcome = await session.resume(session.find(run_id), terms, observers, Watch())
            return _result(outcome, observers, session)

    resume_sync = blocking(resume)

    async def decide(self, run_id: str, call: str, decision: InDoubt, *, every: bool = False) -> RunResult:
        """Decide on a call in doubt; `resume` then continues the run.

        `call` is the key of a call in `RunResult.in_doubt`, or a step with one call in doubt; with `every` a
        step means all of its calls. The decision is in the journal when this returns; no tool is called. The
        result lists the calls still in doubt; if none is left its status is `running`. Raises CallsheetError:
        JRN030 for a call that is not in doubt, JRN031 for a step with several, JRN004 while another process
        runs it; ValueError for a runtime without a journal.
        """
        self._require_journal()
        verdict = verdict_of(decision)
        async with self._opened() as session:
            outcome = await session.decide(session.find(run_id), [call], verdict, every=every)
            return _result(outcome, Observers(), session)

    decide_sync = blocking(decide)

    async def cancel(
        self, run_id: str, reason: str = "cancelled", *, patience: float = PATIENCE
    ) -> RunResult | None:
        """End a recorded run for good, whether it is waiting, in doubt, interrupted, or in progress.

        No tool is called. If another process runs it, that process is asked to end the run and waited for, up
        to `patience` seconds. Returns None if it has not done so by then; it will when it next looks, or else
        the next `resume` does. `in_doubt` of the result lists calls that had been sent and may have taken
        place. Raises CallsheetError: JRN002 for an unknown run, JRN032 for one that has ended, JRN012 for a
        damaged journal; ValueError for a runtime without a journal. `RunHandle.cancel` cancels a run that
        this runtime started.
        """
        self._require_journal()
        wanted("reason", reason, str, "a text")
        async with self._opened() as session:
            outcome = await session.cancel(session.find(run_id), reason, patience)
            return None if outcome is None else _result(outcome, Observers(), session)

    cancel_sync = blocking(cancel)

    async def pause(
        self, run_id: str, *, by: str = "", reason: str = "", patience: float = PATIENCE
    ) -> RunPause | None:
        """Send no further call of a run until a person resumes it; calls under way end, and are kept.

        If another process runs it, that process is asked, and waited for up to `patience` seconds; None if
        calls are still under way then. A run that is paused already stays so. No worker, schedule or server
        takes it up by itself: `resume` lets it go on. Raises CallsheetError: JRN002 for an unknown run,
        JRN032 for one that has ended, JRN012 for a damaged journal; ValueError for a runtime without one.
        `RunHandle.pause` pauses a run that this runtime started.
        """
        return await self._pause(run_id, by, reason, patience)

    pause_sync = blocking(pause)

    async def _pause(
        self,
        run_id: str,
        by: str,
        reason: str,
        patience: float,
        on_asked: Callable[[], None] | None = None,
    ) -> RunPause | None:
        self._require_journal()
        wanted("by", by, str, "a text")
        wanted("reason", reason, str, "a text")
        async with self._opened() as session:
            return await session.pause(session.find(run_id), by, reason, patience, on_asked)

    def start_resume(
        self,
        run_id: str,
        *,
        in_doubt: InDoubt | None = None,
        accept_changed_tools: bool = False,
        as_recorded: bool = False,
        limits: Limits | None = None,
        policy: PolicyLike | None = None,
        accept_changed_policy: bool = False,
        by: str = "",
    ) -> RunHandle:
        """Like `resume`, but returns a handle; its events begin with the past ones, marked `replayed`.

        `run_id` is the complete id.
        """
        require_loop("start_resume", "resume_sync")
        self._require_journal()
        check_run_id(run_id)
        terms = resume_terms(
            in_doubt,
            accept_changed_tools,
            limits,
            policy,
            accept_changed_policy,
            as_recorded=as_recorded,
            unpaused_by=by,
        )
        observers = Observers(EventStream(run_id, None, replays=True), StepLog(None))

        async def work(watch: Watch) -> RunResult:
            async with self._opened() as session:
                outcome = await session.resume(run_id, terms, observers, watch)
                return _result(outcome, observers, session)

        return self._handle(RunHandle(run_id, observers, work, {}, self._pause))

    @property
    def limits(self) -> Limits:
        """The limits of runs that are given none of their own."""
        return self._config.limits


def _agent_rules(model: Model | None, agent: Agent | None, tools: Iterable[str] | None) -> AgentRules | None:
    """The rules for agents; None without a model that takes conversations."""
    if model is None or isinstance(model, OperationModel):
        return None
    allowed = None if tools is None else tuple(map(canonical_tool_name, names_of(tools, "agent_tools")))
    return AgentRules(allowed, drives_agents=agent is None)


def _result(outcome: RunOutcome, observers: Observers, session: Session) -> RunResult:
    steps = () if observers.log is None else observers.log.results()
    return RunResult.of(outcome, steps, session.hides, observers.diagnostics)
