"""Issues the capability tokens of a run's agents: one per task, whose expiry a resume does not extend.

In: the policy, what the machine allows an agent, when its task began. Out: tokens with their usage; or
TokenRefused if one would combine private data or untrusted text with tools that make it dangerous.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from callsheet.ir.labels import Label, readers_text
from callsheet.machine import Machine
from callsheet.machine.agents.allowance import Allowance
from callsheet.machine.agents.talk import InnerCall
from callsheet.machine.keys import item_of, turn_key
from callsheet.policy.judge import Judge
from callsheet.policy.model import Policy
from callsheet.policy.rules.agent import dangerous_together
from callsheet.runtime.capabilities import Capability, Ledger, Signer, TokenRefused


class Task(NamedTuple):
    """An agent's task: its step, what the machine allows it, the label of its input.

    `turns` and `calls` are the keys of those made before the run was resumed.
    """

    step: str
    allowed: Allowance
    label: Label
    turns: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Tasks:
    """The agents at work when a run is resumed, by the key of their call.

    `began` gives the wall time of an agent's first turn in seconds since 1970, None if unknown.
    """

    under_way: Mapping[str, Task] = field(default_factory=dict[str, Task])
    began: Callable[[str], float | None] = lambda key: None


NO_TASKS = Tasks()


def tasks_of(machine: Machine) -> dict[str, Task]:
    """The agents that are at work in a run."""
    talks = {call.talk.key: call.talk for call in machine.inner.values()}
    waiting = [attempt for attempt, _ in machine.asking.open() if isinstance(attempt, InnerCall)]
    talks |= {call.talk.key: call.talk for call in waiting}
    tasks: dict[str, Task] = {}
    for key, talk in talks.items():
        given = None if machine.monitor is None else machine.monitor.label_of(key)
        if given is None:
            continue
        turns = tuple(turn_key(key, number + 1) for number in range(len(talk.turns)))
        every = [seen for turn in talk.turns for seen in turn.seen] + [s for s in talk.seen if s is not None]
        calls = tuple(seen.key for seen in every if seen.key)
        tasks[key] = Task(talk.code.id, talk.allowed, given, turns, calls)
    return tasks


class Tokens:
    """The tokens of one run in one process; the signing key never leaves it."""

    def __init__(
        self, policy: Policy, run_id: str, plan_hash: str, tasks: Tasks, clock: Callable[[], float]
    ) -> None:
        self._policy = policy
        self._setting = Judge(policy).setting
        self._run_id, self._plan_hash = run_id, plan_hash
        self._tasks, self._clock = tasks, clock
        self._signer = Signer()
        self._issued: dict[str, tuple[str, Ledger]] = {}

    def read(self, token: str) -> Capability:
        """The capability of a token; raises TokenRefused for one that was not issued here."""
        return self._signer.read(token)

    def token_of(self, talk: str, begins: Task | None = None) -> tuple[str, Ledger]:
        """The token of a task and its usage; `begins` describes a task that may have its first turn.

        Raises TokenRefused if there is no token and none may be issued.
        """
        item = item_of(talk)  # a retry goes on with the same task
        issued = self._issued.get(item)
        if issued is None:
            task = self._tasks.under_way.get(talk, begins)
            if task is None:
                raise TokenRefused("the agent has none")
            used = Ledger(set(task.turns), set(task.calls))
            issued = self._issued[item] = self._signer.sign(self._capability(talk, task)), used
        return issued

    def _capability(self, talk: str, task: Task) -> Capability:
        rule, allowed = self._policy.agent, task.allowed
        if rule is None:
            raise TokenRefused("the policy allows no agents")
        why = dangerous_together(self._setting, frozenset(allowed.tools), task.label)
        if why is not None:
            raise TokenRefused(why)
        began = self._tasks.began(talk)
        return Capability(
            self._run_id,
            self._plan_hash,
            task.step,
            talk,
            allowed.tools,
            min(rule.max_turns, allowed.turns),
            rule.max_calls if allowed.calls is None else min(rule.max_calls, allowed.calls),
            (self._clock() if began is None else began) + rule.seconds,
            str(task.label),
            readers_text(task.label.readers),
            rule.arguments,
        )
