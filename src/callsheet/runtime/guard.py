"""The gateway of a run under a policy: labels of files and facts, tokens of agents, new plans verified.

In: a command of the run, and the policy that it is under. Out: its outcome, with the label that the world
knows of it. What is checked here stands behind the machine's own checks, which know nothing of the world.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

from callsheet.diagnostics import CallsheetError
from callsheet.ir.labels import LITERAL, Label, join
from callsheet.machine import (
    AgentTurn,
    CallTool,
    Compile,
    Failed,
    Limits,
    PlanCompiled,
    RunAgent,
    Succeeded,
    ToolFacts,
)
from callsheet.machine.keys import parse_key
from callsheet.passes.verify import Left, Violation, verify
from callsheet.policy.calls import Rule
from callsheet.policy.codes import CODES
from callsheet.policy.hops import Hops, beyond
from callsheet.policy.judge import judge_of
from callsheet.policy.model import Policy
from callsheet.policy.overwriting import may_overwrite
from callsheet.ports.calls import Objection
from callsheet.runtime.capabilities import Call, TokenRefused
from callsheet.runtime.gateway import Carried, Gateway, Outcome, Ports
from callsheet.runtime.in_force import places_of, rewritten
from callsheet.runtime.leaving import Leaving
from callsheet.runtime.places import view_of
from callsheet.runtime.rest import left_in
from callsheet.runtime.sending import withheld
from callsheet.runtime.tokens import NO_TASKS, Task, Tasks, Tokens
from callsheet.store.database import UNAVAILABLE
from callsheet.store.labels import LabelStore

Reverify: TypeAlias = (
    "Callable[[PlanCompiled, Policy, Mapping[str, Label], Label, Left], CallsheetError | None]"
)
"""What a policy says against a new plan, by the labels of the variables, of what its planner was told, and of
what runs have left in files, facts and notes."""
_MOST_TOLD = 10


def by_proof(
    compiled: PlanCompiled, policy: Policy, labels: Mapping[str, Label], context: Label, left: Left
) -> CallsheetError | None:
    """Prove a new plan under the policy that the run is under; gives what speaks against it (RUN051).

    All that the plan itself says has the label of what its planner was told. What was approved or
    declassified by the id of a step was meant for the first plan.
    """
    held = replace(policy.without_steps(), planner=policy.planner.join(context))
    parameters = {name: fact.parameters for name, fact in compiled.facts.items()}
    verdict = verify(compiled.plan, held, inputs=labels, parameters=parameters, can_ask=True, left=left)
    if verdict.ok:
        return None
    told = "; ".join(_told(violation) for violation in verdict.violations[:_MOST_TOLD])
    if held.planner != LITERAL:
        told += f"; all that the new plan says itself counts as {held.planner}, as what its planner was told"
    return CallsheetError.single("RUN051", told, help="plan what the policy allows")


def _told(violation: Violation) -> str:
    """The rule, and the way of the data; it begins at a variable of the run, which gave it no input."""
    way = [place.removeprefix("the input ") for place in violation.flow[:1]] + [*violation.flow[1:]]
    named = replace(violation, message=f"{CODES[violation.rule]} {violation.message}", flow=tuple(way))
    return str(named)


@dataclass(frozen=True, slots=True)
class Guard:
    """What a run under a policy is held to by its gateway.

    `plan` is the hash of the plan that was verified, `labels` are those of files and facts. `tasks` tell of
    the agents that were at work when the run was taken up.
    """

    policy: Policy
    plan: str
    labels: LabelStore
    reverify: Reverify = by_proof
    clock: Callable[[], float] = time.time
    tasks: Tasks = NO_TASKS


def bounded(limits: Limits, policy: Policy | None) -> Limits:
    """The limits of a run with those that its policy sets."""
    if policy is None:
        return limits
    calls = [most for most in (limits.max_calls, policy.max_calls) if most is not None]
    replans = 0 if policy.replan is None else min(limits.max_replans, policy.replan.max)
    return replace(limits, max_calls=min(calls, default=None), max_replans=replans)


class GuardedGateway(Gateway):
    """The one way from a run under a policy to the world."""

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
        self._root = ports.workspace
        self._judge = judge_of(guard.policy)
        self._leaving = Leaving(self._judge, guard.labels, ports.workspace, run_id)
        self._in_force = places_of(guard.policy.files)
        self._hops = Hops(guard.policy)
        self._tokens = Tokens(guard.policy, run_id, guard.plan, guard.tasks, guard.clock)

    async def carry_out(self, command: Carried) -> Outcome:
        """As Gateway does, and within what the policy gives."""
        match command:
            case CallTool():
                return await self._call(command)
            case AgentTurn():
                try:
                    self._begin_turn(command)
                except TokenRefused as refused:
                    return Failed(command.key, f"the agent has no right to go on: {refused}")
                return await super().carry_out(command)
            case RunAgent():
                return Failed(command.key, "under a policy no agent works unseen")
            case Compile():
                return self._verified(command, await super().carry_out(command))
            case _:
                return await super().carry_out(command)

    async def keep_again(self, command: CallTool) -> None:
        """As Gateway does, with the label; no token is asked for, since the call was made before."""
        try:
            writings = self._leaving.begin(command)
        except UNAVAILABLE:
            return  # what has no label is not kept
        self._leaving.end(writings, await super().carry_out(command))

    # ------------------------------------------------------------ new plans

    def _verified(self, command: Compile, outcome: Outcome) -> Outcome:
        if not isinstance(outcome, PlanCompiled):
            return outcome
        shown = outcome.context
        if shown is None:  # nobody has said what the planner was shown: then it was everything
            shown = join((command.labels or {}).values())
        context = shown.join(command.context)
        try:
            left = left_in(self._guard.labels, self._root, self._run_id)
        except UNAVAILABLE as error:
            return Failed(command.key, f"the labels of files and facts cannot be known: {error}")
        wrong = self._guard.reverify(outcome, self._guard.policy, command.labels or {}, context, left)
        if wrong is not None:
            return Failed(command.key, f"the policy refuses the new plan: {wrong}", spent=outcome.spent)
        return outcome._replace(context=shown)

    # ------------------------------------------------------------ agents

    def _begin_turn(self, command: AgentTurn) -> None:
        """Give an agent its token with its first turn, and count the turn; raises TokenRefused."""
        talk = command.key.rpartition("/")[0]
        token, used = self._tokens.token_of(
            talk, Task(command.step, command.allowed, command.label or LITERAL)
        )
        used.turn(self._tokens.read(token), command.key, self._guard.clock())

    def objection(self, command: CallTool) -> Objection:
        """What says where a call may not be redirected: the policy does."""
        return partial(self._lead, command)

    def _lead(self, command: CallTool, before: str, after: str) -> str | None:
        """What speaks against a redirect of a call."""
        if _is_of_agent(command.key):
            token, _ = self._tokens.token_of(command.key.rpartition("/")[0])
            why = beyond(self._tokens.read(token).arguments, command.tool, command.args, after)
            if why is not None:
                return why
        return self._hops.objection(before, after)

    def _check_token(self, command: CallTool) -> None:
        """Raise TokenRefused for a call of an agent that its token does not cover."""
        if not _is_of_agent(command.key):
            return
        talk = command.key.rpartition("/")[0]
        token, used = self._tokens.token_of(talk)
        call = Call(command.tool, command.args, command.key)
        used.call(self._tokens.read(token), self._run_id, talk, call, self._guard.clock())

    # ------------------------------------------------------------ what is left behind

    async def _call(self, command: CallTool) -> Outcome:
        try:
            self._check_token(command)
        except TokenRefused as refused:
            return Failed(command.key, f"the agent may not call @{command.tool}: {refused}")
        why = self._rewriting(command)
        if why is not None:
            return Failed(command.key, why, forbidden=Rule.PATH)
        try:
            why = withheld(self._judge, self._guard.labels, self._root, command.tool, command.args)
        except UNAVAILABLE as error:
            return Failed(command.key, f"the labels of the files that it sends cannot be known: {error}")
        if why is not None:
            return Failed(command.key, why, forbidden=Rule.FLOW)
        try:
            writings = self._leaving.begin(command)
        except UNAVAILABLE as error:
            return Failed(command.key, f"the label of what it writes cannot be kept: {error}")
        outcome = await super().carry_out(command)
        self._leaving.end(writings, outcome)
        try:
            return self._leaving.labelled(command, outcome) if isinstance(outcome, Succeeded) else outcome
        except UNAVAILABLE as error:
            return Failed(command.key, f"the label of what it has read cannot be known: {error}")

    def _rewriting(self, command: CallTool) -> str | None:
        """Why a call would change what runs are held by; None where it does not."""
        traits = self._judge.traits(command.tool)
        if not self._in_force or not may_overwrite(command.tool, command.args, traits):
            return None
        return rewritten(self._in_force, self._root, view_of(command.tool, command.args), traits)


def _is_of_agent(key: str) -> bool:
    """Whether a call is one that an agent asked for, by its key."""
    return "/t" in key and bool(parse_key(key).call)
