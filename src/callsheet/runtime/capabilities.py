"""Capability tokens: what one agent may do, signed and checked by the gateway only.

In: an agent's step, the policy, the clock. Out: a token that names its tools, turns, calls and expiry, signed
with a key that never leaves the process; or TokenRefused for a call that it does not cover.
"""

from __future__ import annotations

import hmac
import json
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from callsheet.ir.labels import Label, readers_text
from callsheet.machine.agents.actions import Allowance
from callsheet.machine.agents.talk import InnerCall
from callsheet.machine.keys import item_of, turn_key
from callsheet.policy.model import Policy

if TYPE_CHECKING:
    from callsheet.machine import Machine
    from callsheet.policy.constraints import Arguments

_FREE: Arguments = MappingProxyType({})


class TokenRefused(Exception):
    """The token does not cover the call; the message says why."""


class Capability(NamedTuple):
    """What one agent of one run may do.

    `talk` is the key of its call, `plan_hash` that of the plan; `labels_in` is the label of its input,
    `readers` those who may see its results. `expires` is a wall time in seconds since 1970, which a resume
    does not change. `arguments` are patterns by tool and argument, one of which the value must match.
    """

    run_id: str
    plan_hash: str
    step: str
    talk: str
    tools: tuple[str, ...]
    max_turns: int
    max_calls: int
    expires: float
    labels_in: str
    readers: str
    arguments: Arguments = _FREE


@dataclass(slots=True)
class Signer:
    """Signs tokens and verifies them with the key of this process."""

    key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)

    def sign(self, capability: Capability) -> str:
        """The token of a capability."""
        data = {**capability._asdict(), "arguments": {t: dict(a) for t, a in capability.arguments.items()}}
        body = urlsafe_b64encode(json.dumps(data, sort_keys=True).encode())
        return f"{body.decode()}.{self._seal(body)}"

    def read(self, token: str) -> Capability:
        """The capability of a token; raises TokenRefused for one that this process has not signed."""
        body, _, seal = token.partition(".")
        if not hmac.compare_digest(self._seal(body.encode()).encode(), seal.encode()):
            raise TokenRefused("it was not signed by this runtime")
        data: dict[str, Any] = json.loads(urlsafe_b64decode(body))
        arguments = {
            tool: {name: tuple(patterns) for name, patterns in given.items()}
            for tool, given in data.pop("arguments").items()
        }
        return Capability(tools=tuple(data.pop("tools")), arguments=arguments, **data)

    def _seal(self, body: bytes) -> str:
        return hmac.new(self.key, body, sha256).hexdigest()


class Call(NamedTuple):
    """An agent's call: its tool, its arguments, and its key."""

    tool: str
    args: Mapping[str, Any]
    key: str


@dataclass(slots=True)
class Ledger:
    """How much of a token has been used: the keys of its turns and calls."""

    turns: set[str] = field(default_factory=set[str])
    calls: set[str] = field(default_factory=set[str])

    def turn(self, capability: Capability, key: str, now: float) -> None:
        """Count a turn of the agent; raises TokenRefused if it may have no more."""
        _in_time(capability, now)
        if len(self.turns | {key}) > capability.max_turns:
            raise TokenRefused(f"it is for {capability.max_turns} turns")
        self.turns.add(key)

    def call(self, capability: Capability, run_id: str, talk: str, call: Call, now: float) -> None:
        """Count a call of the agent; raises TokenRefused if the token does not cover it."""
        tool, args, key = call
        _in_time(capability, now)
        if run_id != capability.run_id:
            raise TokenRefused("it is that of another run")
        if item_of(talk) != item_of(capability.talk):  # a retry is the same agent
            raise TokenRefused("it is that of another agent")
        if tool not in capability.tools:
            raise TokenRefused(f"it does not name @{tool}")
        from callsheet.policy.constraints import objection_to  # noqa: PLC0415 - only under a policy

        wrong = objection_to(capability.arguments, tool, args)
        if wrong is not None:
            raise TokenRefused(wrong)
        if len(self.calls | {key}) > capability.max_calls:
            raise TokenRefused(f"it is for {capability.max_calls} calls")
        self.calls.add(key)


def _in_time(capability: Capability, now: float) -> None:
    if now >= capability.expires:
        raise TokenRefused("its time under the policy has run out ([dynamic] agent.seconds)")


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
        from callsheet.policy.judge import Judge  # noqa: PLC0415 - only under a policy

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
        from callsheet.policy.rules.agent import dangerous_together  # noqa: PLC0415 - only under a policy

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
