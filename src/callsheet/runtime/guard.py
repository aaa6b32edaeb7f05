"""The gateway of a run under a policy: labels of files and facts, agents' tokens, verification of new plans.

In: a command and the run's policy. Out: its outcome, with the label known from outside the run. These checks
come after the machine's own, which know nothing about the outside.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Protocol

from callsheet.diagnostics import CallsheetError
from callsheet.ir import JSON
from callsheet.ir.labels import LITERAL, Label, join
from callsheet.machine import (
    AgentTurn,
    CallModel,
    CallTool,
    Compile,
    Failed,
    PlanCompiled,
    RunAgent,
    Succeeded,
    ToolFacts,
)
from callsheet.machine.events import LABEL, Fact
from callsheet.machine.keys import parse_key
from callsheet.passes.verify import PersistedLabels, Violation, verify
from callsheet.policy.builtins import fold
from callsheet.policy.calls import CODES, CallView, Rule
from callsheet.policy.constraints import RedirectRules, beyond
from callsheet.policy.judge import judge_of
from callsheet.policy.limits import (
    amount_of,
    clock_limits,
    limit_name,
    outside_hours,
    over_count,
    over_sum,
    seconds_of,
    view_of_call,
)
from callsheet.policy.model import Limit, Policy
from callsheet.policy.overwriting import may_overwrite
from callsheet.policy.rules.opened_files import hidden_from, seen_by
from callsheet.ports.calls import CallContext, CallProgress, FileGrant, Objection, ToolFailed
from callsheet.runtime.capabilities import NO_TASKS, Call, Task, Tasks, TokenRefused, Tokens
from callsheet.runtime.gateway import Carried, Gateway, Outcome, Ports, Route, Unmet
from callsheet.runtime.places import LabelTracker, view_of, withheld
from callsheet.runtime.remaining import left_in, places_of, rewritten
from callsheet.store.database import UNAVAILABLE
from callsheet.store.labels import LabelStore


class Reverify(Protocol):
    """Verifies a new plan under a policy.

    `labels` are those of the variables, `context` is that of what the planner was shown, `left` what runs
    have left in files, facts and notes; `unmet` says what is not guaranteed here.
    """

    def __call__(
        self,
        compiled: PlanCompiled,
        policy: Policy,
        labels: Mapping[str, Label],
        context: Label,
        left: PersistedLabels,
        unmet: Unmet | None,
    ) -> CallsheetError | None:
        """The refusal of a plan; None for one that may run."""
        ...


_MOST_TOLD = 10


def _beyond(limits: Iterable[Limit], call: CallView, count: int, total: float) -> str | None:
    """The first objection to a call of which these limits count the same calls."""
    for limit in limits:
        if limit.calls is None:
            why = over_sum(limit, call, total)
        else:
            why = over_count(limit, call.tool, count) if count >= limit.calls else None
        if why is not None:
            return why
    return None


def _with_observed(outcome: Outcome, observed: Iterable[str]) -> Outcome:
    """The outcome with remarks on what a policy that only observes would have refused."""
    told = tuple(Fact("policy", f"would be refused: {why}") for why in observed)
    if not told or not isinstance(outcome, Succeeded | Failed):
        return outcome
    return outcome._replace(remarks=(*outcome.remarks, *told))


def by_proof(
    compiled: PlanCompiled,
    policy: Policy,
    labels: Mapping[str, Label],
    context: Label,
    left: PersistedLabels,
    unmet: Unmet | None = None,
) -> CallsheetError | None:
    """Verify a new plan under the run's policy; returns the refusal (RUN051), or None.

    The plan's literals get the label of what its planner was shown. Approvals and declassifications by step
    id were meant for the first plan and do not apply.
    """
    proved = replace(policy.without_steps(), planner=policy.planner.join(context))
    parameters = {name: fact.parameters for name, fact in compiled.facts.items()}
    verdict = verify(compiled.plan, proved, inputs=labels, parameters=parameters, can_ask=True, left=left)
    if verdict.ok:
        found = () if unmet is None else unmet(compiled.plan, proved, verdict.obligations)
        wrong = [f"{each.step}: {each.code} {each.message}" for each in found if each.is_error]
        return CallsheetError.single("RUN051", "; ".join(wrong[:_MOST_TOLD])) if wrong else None
    summary = "; ".join(_violation_text(violation) for violation in verdict.violations[:_MOST_TOLD])
    if proved.planner != LITERAL:
        summary += f"; literals of the new plan have the label {proved.planner} of the planner's prompt"
    return CallsheetError.single("RUN051", summary, help="make a plan that the policy allows")


def _shown(command: Compile, made: PlanCompiled) -> Label:
    """The label of what the planner of a plan was shown: of everything, where that is not known."""
    return join((command.labels or {}).values()) if made.context is None else made.context


def _violation_text(violation: Violation) -> str:
    """The rule, message and data flow of a violation; a flow begins at a variable of the run, not at an
    input.
    """
    steps = [place.removeprefix("the input ") for place in violation.flow[:1]] + [*violation.flow[1:]]
    named = replace(violation, message=f"{CODES[violation.rule]} {violation.message}", flow=tuple(steps))
    return str(named)


@dataclass(frozen=True, slots=True)
class Guard:
    """What the gateway of a run under a policy enforces.

    `plan` is the hash of the verified plan, `labels` stores those of files and facts. `tasks` are the agents
    that were at work when the run was resumed.
    """

    policy: Policy
    plan: str
    labels: LabelStore
    reverify: Reverify = by_proof
    clock: Callable[[], float] = time.time
    tasks: Tasks = NO_TASKS


class GuardedGateway(Gateway):
    """The only path to the outside world for a run under a policy."""

    def __init__(
        self,
        ports: Ports,
        run_id: str,
        guard: Guard,
        facts: Mapping[str, ToolFacts] | None = None,
        at_once: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__(ports, run_id, facts, at_once)
        self._guard = guard
        loops = [fact.loop for fact in (facts or {}).values() if fact.loop is not None]
        self._is_session = any(loop.is_session for loop in loops)
        self._root = ports.workspace
        self._judge = judge_of(guard.policy)
        self._tracker = LabelTracker(self._judge, guard.labels, ports.workspace, run_id)
        self._hops = RedirectRules(guard.policy)
        self._said: dict[str, tuple[Label, str]] = {}
        """By the keys of calls: the labels that servers give to their outcomes, and where they say so."""
        self._tokens = Tokens(guard.policy, run_id, guard.plan, guard.tasks, guard.clock)

    async def carry_out(self, command: Carried) -> Outcome:
        """As in Gateway, within what the policy permits."""
        match command:
            case CallTool():
                return await self._call(command)
            case AgentTurn():
                try:
                    self._begin_turn(command)
                except TokenRefused as refused:
                    return Failed(command.key, f"the agent's token is not valid: {refused}")
                if command.turns or command.allowed.is_session:
                    return await super().carry_out(command)
                return await self._asked(command)
            case CallModel():
                return await self._asked(command)
            case RunAgent():
                return Failed(
                    command.key, "under a policy an agent needs a runtime that checks each of its calls"
                )
            case Compile():
                made = await super().carry_out(command)
                return (
                    made
                    if not isinstance(made, PlanCompiled)
                    else made._replace(context=_shown(command, made))
                )
            case _:
                return await super().carry_out(command)

    async def keep_again(self, command: CallTool) -> None:
        """As in Gateway, keeping the label; no token is needed, since the call was made before."""
        try:
            writings = self._tracker.begin(command)
        except UNAVAILABLE:
            return  # without a label nothing may be stored
        self._tracker.end(writings, await super().carry_out(command))

    def progressed(self, context: CallContext, progress: CallProgress) -> None:
        """As in Gateway, without the words about a call with secret data, which may repeat them."""
        if context.sends_secrets:
            progress = progress._replace(message="")
        super().progressed(context, progress)

    def labelled(self, context: CallContext, label: Label, places: str) -> None:
        """Keep the label that a server gives to what a call brings back until its outcome is there."""
        self._said[context.key] = label, places

    def reader(self, of: Route, tool: str) -> Route:
        """As without a policy, of the tools that come from where the tool of the call in doubt comes from.

        The policy has admitted that it is told of the arguments of the call, but nobody else.
        """
        route = super().reader(of, tool)
        if route.origin != of.origin:
            raise ToolFailed(f"the policy does not let @{tool} be told of the call: it comes from elsewhere")
        return route

    # ------------------------------------------------------------ new plans

    def objection_to(self, command: Compile, made: PlanCompiled) -> str | None:
        """Why the policy refuses a new plan; None if it may run."""
        context = _shown(command, made).join(command.context)
        try:
            left = left_in(self._guard.labels, self._root, self._run_id)
        except UNAVAILABLE as error:
            raise ToolFailed(f"the labels of files and facts cannot be read: {error}") from None
        policy, labels, unmet = self._guard.policy, command.labels or {}, self._ports.unmet
        wrong = self._guard.reverify(made, policy, labels, context, left, unmet)
        return None if wrong is None else f"the policy refuses the new plan: {wrong}"

    # ------------------------------------------------------------ agents

    def _begin_turn(self, command: AgentTurn) -> None:
        """Issue an agent's token on its first turn, and count the turn; raises TokenRefused."""
        talk = command.key.rpartition("/")[0]
        if command.allowed.is_session:
            return  # no agent of the plan: the machine judges each of its calls
        token, used = self._tokens.token_of(
            talk, Task(command.step, command.allowed, command.label or LITERAL)
        )
        used.turn(self._tokens.read(token), command.key, self._guard.clock())

    def objection(self, command: CallTool) -> Objection:
        """The function that objects to redirects of a call, by the policy."""
        return partial(self._redirect_objection, command)

    def files(self, command: CallTool) -> FileGrant | None:
        """What a call's program may see of the workspace, by the same functions that label its result."""
        setting, tool = self._judge.setting, fold(command.tool)
        call = view_of(tool, command.args, command.step)
        return FileGrant(seen_by(setting, tool, call).paths, hidden_from(setting, tool, call))

    def _redirect_objection(self, command: CallTool, before: str, after: str) -> str | None:
        """The objection to a redirect of a call, or None."""
        if self._is_of_agent(command.key):
            token, _ = self._tokens.token_of(command.key.rpartition("/")[0])
            why = beyond(self._tokens.read(token).arguments, command.tool, command.args, after)
            if why is not None:
                return why
        return self._hops.objection(before, after)

    def _check_token(self, command: CallTool) -> None:
        """Raise TokenRefused for an agent's call that its token does not cover."""
        if not self._is_of_agent(command.key):
            return
        talk = command.key.rpartition("/")[0]
        token, used = self._tokens.token_of(talk)
        call = Call(command.tool, command.args, command.key)
        used.call(self._tokens.read(token), self._run_id, talk, call, self._guard.clock())

    # ------------------------------------------------------------ calls

    async def _asked(self, command: CallModel | AgentTurn) -> Outcome:
        """Carry out a call of a model within the policy's limits."""
        observed: list[str] = []
        refused = self._beyond_limits(command, observed)
        if refused is not None:
            return refused
        return _with_observed(await super().carry_out(command), observed)

    async def _call(self, command: CallTool) -> Outcome:
        try:
            self._check_token(command)
        except TokenRefused as refused:
            return Failed(command.key, f"the agent may not call @{command.tool}: {refused}")
        observed: list[str] = []
        why = self._rewriting(command)
        if why is not None:
            if not self._guard.policy.observes:
                return Failed(command.key, why, forbidden=Rule.PATH)
            observed.append(why)
        beyond_limits = self._beyond_limits(command, observed)
        if beyond_limits is not None:
            return beyond_limits
        try:
            why = withheld(self._judge, self._guard.labels, self._root, command.tool, command.args)
        except UNAVAILABLE as error:
            return Failed(command.key, f"the labels of the files that it sends cannot be read: {error}")
        if why is not None:
            if not self._guard.policy.observes:
                return Failed(command.key, why, forbidden=Rule.FLOW)
            observed.append(why)
        try:
            writings = self._tracker.begin(command)
        except UNAVAILABLE as error:
            return Failed(command.key, f"the label of what it writes cannot be stored: {error}")
        try:
            outcome = await super().carry_out(command)
        finally:
            said = self._said.pop(command.key, None)
        self._tracker.end(writings, outcome)
        outcome = _with_observed(outcome, observed)
        try:
            if isinstance(outcome, Succeeded):
                outcome = self._tracker.labelled(command, outcome)
        except UNAVAILABLE as error:
            return Failed(command.key, f"the label of what it has read cannot be read: {error}")
        return outcome if said is None else self._as_said(command, outcome, *said)

    def _as_said(self, command: CallTool, outcome: Outcome, said: Label, places: str) -> Outcome:
        """The outcome with the label that its server gives it, besides what is known of it here."""
        if not isinstance(outcome, Succeeded | Failed):
            return outcome
        known = self._judge.source(view_of(command.tool, command.args, command.step))
        if outcome.label is not None:
            known = outcome.label
        if not said.flows_to(known):
            told = Fact(LABEL, f"its server says {said} ({places}); without that it would be {known}")
            outcome = outcome._replace(remarks=(*outcome.remarks, told))
        return outcome._replace(label=known.join(said))

    def _beyond_limits(self, command: CallTool | CallModel | AgentTurn, observed: list[str]) -> Failed | None:
        """The refusal of a call by the policy's limits on the hours and on the calls of all runs.

        A policy that only observes refuses nothing: why it would goes into `observed`.
        """
        if not self._guard.policy.limits:
            return None
        try:
            why = self._why_beyond(command.tool, command.args)
        except UNAVAILABLE as error:
            return Failed(command.key, f"the calls of other runs cannot be counted: {error}")
        if why is None:
            return None
        if not self._guard.policy.observes:
            return Failed(command.key, why, forbidden=Rule.PREDICATE)
        observed.append(why)
        return None

    def _why_beyond(self, tool: str, args: Mapping[str, JSON]) -> str | None:
        """Why a call is not made now; else it is counted, once for all limits that count the same calls."""
        now, call = self._guard.clock(), view_of_call(tool, args)
        counted: dict[str, list[Limit]] = {}
        for limit in clock_limits(self._guard.policy, tool):
            why = outside_hours(limit, tool, now)
            if why is not None:
                return why
            if limit.hours is None:
                counted.setdefault(limit_name(limit), []).append(limit)
        for name, (limit, *others) in counted.items():
            amount = 0.0 if limit.sum is None else amount_of(limit, call)
            objection = partial(_beyond, (limit, *others), call)
            why = self._guard.labels.admit_within(name, now, seconds_of(limit.per), amount, objection)
            if why is not None:
                return why
        return None

    @cached_property
    def _in_force(self) -> Mapping[str, str]:
        """The places of the files that configure callsheet, looked up by the first call that may write."""
        return places_of(self._guard.policy.files)

    def _rewriting(self, command: CallTool) -> str | None:
        """Why a call would change a file that controls runs; None where it does not."""
        if not self._guard.policy.files:
            return None
        traits = self._judge.traits(command.tool)
        if not may_overwrite(command.tool, command.args, traits):
            return None
        return rewritten(self._in_force, self._root, view_of(command.tool, command.args), traits)

    def _is_of_agent(self, key: str) -> bool:
        """Whether a call was requested by an agent, which has a token, by its key."""
        return not self._is_session and "/t" in key and bool(parse_key(key).call)
