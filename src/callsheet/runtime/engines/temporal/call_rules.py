"""The rules and secrets of one call, as passed to the worker that makes it, and as the worker applies them.

In: an order and the machine. Out: JSON data beside the call, and on the worker a gateway that enforces it. A
policy is passed as the digest of its blob, an agent's task by value, a secret as the name of a variable in
the workers' environment: so a history contains no secret, and a worker provides only the variables it was
told to. If a policy cannot be fetched, fetching is retried; the call waits and is never made without it.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple, Self, TypeAlias, cast

from callsheet.diagnostics import CallsheetError
from callsheet.ir import Plan, plan_hash, plan_to_json
from callsheet.ir.labels import read_label
from callsheet.machine import AgentTurn, CallTool, Machine, Probe, ToolFacts
from callsheet.machine.keys import attempt_key, item_of
from callsheet.policy.canon import policy_from_json
from callsheet.policy.model import Policy
from callsheet.runtime.capabilities import NO_TASKS, Task, Tasks, tasks_of
from callsheet.runtime.engines.temporal.payloads import ClaimCheck
from callsheet.runtime.engines.temporal.wire import Remote, RunOrder, allowance_from_json, allowance_to_json
from callsheet.runtime.gateway import Gateway, Ports
from callsheet.runtime.guard import Guard, GuardedGateway
from callsheet.sealing.keys import MASK
from callsheet.sealing.known import SHORTEST, forms_of
from callsheet.store.blobs import BlobMissing
from callsheet.store.labels import LabelStore
from callsheet.store.start import SECRETS, Start


class CallRules(NamedTuple):
    """The rules of one call.

    `rules` is the digest of the policy's blob, empty without a policy; `plan` is the hash of the verified
    plan. `talk` is the key of the agent that makes the call, whose `task` began at the wall time `began`.
    `secrets` maps placeholder texts to variables of the worker's environment. `pin` is the hash of the tool's
    declaration when the run began, empty if it has none; `server` is the MCP server that offered it then, as
    `Start.server_of` gives it.
    """

    rules: str
    plan: str
    talk: str = ""
    task: Task | None = None
    began: float | None = None
    secrets: Mapping[str, str] = {}
    pin: str = ""
    server: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The rules as JSON data."""
        task = self.task
        row = task and {
            **task._asdict(),
            "allowed": allowance_to_json(task.allowed),
            "label": str(task.label),
        }
        return {**self._asdict(), "task": row, "secrets": dict(self.secrets)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read rules from JSON data; raises KeyError, TypeError or ValueError for invalid data."""
        row = data["task"]
        task = row and Task(
            row["step"],
            allowance_from_json(row["allowed"]),
            read_label(row["label"]),
            tuple(row["turns"]),
            tuple(row["calls"]),
        )
        own: dict[str, Any] = {**data, "task": task}
        return cls(**own)


def talk_of(command: Remote) -> str:
    """The key of the agent that a command is for; empty if it is for none."""
    if isinstance(command, Probe):
        return talk_of(command.call)
    is_for_one = isinstance(command, AgentTurn) or (
        isinstance(command, CallTool) and attempt_key(command.key) != command.key
    )
    return command.key.rpartition("/")[0] if is_for_one else ""


def held_for(
    order: RunOrder, machine: Machine, command: Remote, began: Mapping[str, float]
) -> dict[str, Any] | None:
    """The rules to pass with a command; None if there are none.

    `began` has the wall times at which agents were first asked, by their key without the attempt.
    """
    tool = _tool_of(command)
    pin, server = order.start.pins.get(tool, ""), order.start.server_of(tool)
    if not (order.rules or order.secrets or pin or server is not None):
        return None
    talk = talk_of(command) if order.rules else ""
    task = tasks_of(machine).get(talk) if talk else None
    own = plan_hash(order.plan), talk, task, began.get(item_of(talk), began.get(talk))
    return CallRules(order.rules, *own, order.secrets, pin, server).to_json()


def _tool_of(command: Remote) -> str:
    """The tool that a command calls or probes; empty for a command to a model or an agent."""
    call = command.call if isinstance(command, Probe) else command
    return call.tool if isinstance(call, CallTool) else ""


_SHORTEST_FORM = 8


class NotGiven(Exception):
    """A secret that this worker does not provide; the message says why."""


class NamedSecrets:
    """The secrets of one run as a worker resolves them: variables by placeholder text.

    `offered` are the variables that it may provide, out of `environ`.
    """

    def __init__(
        self, secrets: Mapping[str, str], offered: Collection[str], environ: Mapping[str, str]
    ) -> None:
        self._secrets = secrets
        self._offered = offered
        self._values = {
            text: environ[variable]
            for text, variable in secrets.items()
            if variable in offered and environ.get(variable)
        }

    def put_in(self, data: dict[str, Any]) -> dict[str, Any]:
        """The data with secrets substituted; raises NotGiven."""
        if not self._secrets:
            return data
        encoded = json.dumps(data, ensure_ascii=False)
        for text, variable in self._secrets.items():
            if text in encoded and text not in self._values:
                raise NotGiven(self._why_not(variable))
        return _changed(data, self._with)

    def take_out(self, data: dict[str, Any]) -> dict[str, Any]:
        """The data with secrets replaced by their placeholders, and encoded forms of them masked."""
        has_long_value = any(len(value) >= SHORTEST for value in self._values.values())
        return _changed(data, self._without) if has_long_value else data

    def _why_not(self, variable: str) -> str:
        if variable not in self._offered:
            return f"this worker is not allowed to pass {variable} to runs: start it with --secret {variable}"
        return f"there is no variable {variable} in the environment of this worker"

    def _with(self, text: str) -> str:
        for place, value in self._values.items():
            text = text.replace(place, value)
        return text

    def _without(self, text: str) -> str:
        for place, value in self._values.items():
            if len(value) >= SHORTEST:
                text = text.replace(value, place)
                for form in forms_of(value):
                    if len(form) >= _SHORTEST_FORM and form in text:
                        text = text.replace(form, MASK)
        return text


def _changed(data: Any, change: Callable[[str], str]) -> Any:
    if isinstance(data, str):
        return change(data)
    if isinstance(data, list):
        return [_changed(item, change) for item in cast("list[Any]", data)]
    if isinstance(data, dict):
        entries = cast("dict[str, Any]", data).items()
        return {change(name): _changed(item, change) for name, item in entries}
    return data


OpenLabels: TypeAlias = "Callable[[], LabelStore]"
"""Opens the labels of files and facts; raises CallsheetError."""
_PAUSE = 1.0
_log = logging.getLogger("callsheet")


class Rules:
    """The policies and labels of one worker; to be used from its loop's thread."""

    def __init__(self, claims: ClaimCheck, labels: OpenLabels) -> None:
        self._claims = claims
        self._open = labels
        self._labels: LabelStore | None = None
        self._policies: dict[str, Policy] = {}

    async def gateway(
        self, ports: Ports, run_id: str, facts: Mapping[str, ToolFacts], call_rules: CallRules
    ) -> Gateway:
        """The gateway for a call with these rules; raises CallsheetError if labels cannot be kept."""
        if not call_rules.rules:
            return Gateway(ports, run_id, facts)
        policy = await self._policy(call_rules.rules)
        if self._labels is None:
            self._labels = self._open()
        began, task = call_rules.began, call_rules.task
        tasks = NO_TASKS if task is None else Tasks({call_rules.talk: task}, lambda _: began)
        return GuardedGateway(ports, run_id, Guard(policy, call_rules.plan, self._labels, tasks=tasks), facts)

    async def pin_of(self, call_rules: CallRules, tool: str) -> str | None:
        """The pin that the policy's entry of a tool requires; None if there is none."""
        policy = await self._policy(call_rules.rules) if call_rules.rules else None
        rule = None if policy is None else policy.tools.get(tool)
        return None if rule is None else rule.pin

    def close(self) -> None:
        """Close the label store if it was opened."""
        if self._labels is not None:
            self._labels.close()
            self._labels = None

    async def _policy(self, name: str) -> Policy:
        while name not in self._policies:
            try:
                self._policies[name] = policy_from_json(json.loads(await self._claims.fetch(name)))
            except (BlobMissing, OSError) as error:
                _log.warning("a policy cannot be fetched: %s; retrying", error)
                await asyncio.sleep(_PAUSE)
        return self._policies[name]


_CONDITION_FIELDS = ("if", "foreach")
"""The fields of a step that decide whether and how often it is executed."""


def check_secrets(plan: Plan, start: Start, *, encrypts: bool) -> None:
    """Raise CallsheetError (TMP008) for a secret that Temporal would store, or that decides what is done.

    One that workers read from their environment has a placeholder there; `encrypts` is whether the others
    are stored encrypted.
    """
    placeholders = cast("Mapping[str, str]", start.launch.get(SECRETS, {}))
    named = [name for name, value in start.inputs.items() if isinstance(value, str) and value in placeholders]
    if not encrypts:
        declared = () if plan.tree is None else (one.name for one in plan.tree.inputs if one.is_secret)
        _check_stored(({*declared, *start.secret} & start.inputs.keys()) - {*named})
    _check_decisions(plan, named)


def _check_stored(names: Collection[str]) -> None:
    for name in sorted(names):
        raise CallsheetError.single(
            "TMP008",
            f"the secret input ${name} would be clear text in the history of a run on Temporal",
            help=f"write --secret {name}=env:VARIABLE, and start workers with --secret VARIABLE; "
            "or set encrypt = true in [temporal]",
        )


def _check_decisions(plan: Plan, secrets: Collection[str]) -> None:
    """Refuse a plan that decides by a secret, which is unknown to its driver.

    In a plan with blocks a secret may only be an argument of a tool, or part of a text, list or mapping that
    is one.
    """
    for name in secrets:
        step = _decides_by(plan, name)
        if step is not None:
            raise CallsheetError.single(
                "TMP008",
                f"step {step} {'works with' if plan.tree is not None else 'has a condition on'} the secret"
                f" ${name}: on Temporal a secret is known only to the workers that call tools, not to the"
                " workflow that drives the plan",
                help="move this into a tool, or run the plan on this machine",
            )


def _decides_by(plan: Plan, name: str) -> str | None:
    """The step of a plan that needs to know the value of a variable; None if there is none."""
    if plan.tree is None:
        for step in plan_to_json(plan)["steps"]:
            if f'{{"ref": {json.dumps(name)}' in json.dumps([step.get(part) for part in _CONDITION_FIELDS]):
                return str(step["id"])
        return None
    from callsheet.ir import expression  # noqa: PLC0415 - not for --help
    from callsheet.ir.tree import Act, all_statements, operands, variables_read  # noqa: PLC0415 - as above

    for one in all_statements(plan.tree):
        if name not in variables_read(one):
            continue
        reading = [operand for operand in operands(one) if name in expression.variables_in(operand)]
        passed = expression.Variable | expression.Text | expression.Display | expression.Mapping
        if not isinstance(one, Act) or not all(
            isinstance(node, passed) or name not in expression.variables_in(node)
            for operand in reading
            for node in expression.nodes(operand)
        ):
            return one.id
    return None
