"""What a run was started with: the content of its first event.

In: the body of a start event. Out: a `Start`, and back. Other events record facts about tools and policies in
the same form.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Self, cast

from callsheet.ir import JSON, Effect, OnInDoubt
from callsheet.ir.labels import UNKNOWN, Label
from callsheet.ir.operations import ORDERED, Independence
from callsheet.machine import Limits, Loop, ToolFacts
from callsheet.policy.canon import policy_from_json, policy_hash, policy_to_json
from callsheet.policy.model import Policy
from callsheet.sealing.sealer import SEALED

if TYPE_CHECKING:
    from callsheet.machine import Enforcement, Machine

SECRETS = "secrets"
"""The key in a run's start note for the secrets that its workers substitute, by their placeholders."""
HOST = "host"
"""The key in a run's start note for the servers that continue it."""


class Start(NamedTuple):
    """What a run was started with: the content of its first event.

    `pins` are the hashes of the declarations of the tools that the plan calls; `launch` is for the face that
    started the run, so that it can find the same tools again.
    """

    inputs: dict[str, JSON]
    facts: dict[str, ToolFacts]
    limits: Limits
    pins: dict[str, str]
    launch: dict[str, JSON]
    approve: tuple[str, ...] = ()
    """The tools whose calls need an approval."""
    approval_timeout: Mapping[str, float] = MappingProxyType({})
    """The seconds after which an unanswered approval is denied, by tool; "" stands for all others."""
    ranks: Mapping[str, int] = MappingProxyType({})
    """Which steps of a graph start first, by id; recorded because every fold must use the same."""
    policy: Policy | None = None
    """The policy of the run, if any."""
    secret: tuple[str, ...] = ()
    """The inputs that were declared secret."""
    pepper: str = ""
    """A secret mixed into the digests of questions if those may contain secrets."""
    untrusted: tuple[str, ...] = ()
    """The inputs that somebody else than the run's user has chosen."""
    is_veiled: bool = False
    """Whether placeholders replace secrets, as for a reader without the key."""

    def under(self, body: Mapping[str, Any] | None) -> Self:
        """The start for what follows an event with this body, which may be the first with placeholders."""
        return self if self.is_veiled or not body or SEALED not in body else self._replace(is_veiled=True)

    @property
    def servers(self) -> dict[str, str]:
        """The MCP servers of the tools that came from one, by tool."""
        data = self.launch.get("servers")
        rows = cast("Mapping[str, Any]", data if isinstance(data, Mapping) else {})
        return {
            name: row[0]
            for name, row in rows.items()
            if isinstance(row, list) and row and isinstance(row[0], str)
        }

    def set_up(self, machine: Machine) -> Machine:
        """The machine of the run, told what is no part of its program."""
        machine.asking.pepper = self.pepper
        placeholders = self.launch.get(SECRETS)
        machine.placeholders = tuple(placeholders) if isinstance(placeholders, dict) else ()
        return machine

    def server_of(self, tool: str) -> str | None:
        """The MCP server that offered a tool; "" for one of another origin, None if not recorded."""
        unrecorded = None if tool not in self.facts or tool in self.pins else ""
        return self.servers.get(tool, unrecorded)

    def at_places(self, places: Mapping[str, JSON]) -> Start:
        """The start with its tools at other places, as in the body of a `moved` event."""
        setup = self.launch.get("setup")
        if not places or not isinstance(setup, dict):
            return self
        return self._replace(launch={**self.launch, "setup": {**setup, **places}})

    def for_open_calls(self, tools: Collection[str]) -> Start:
        """The start of a session that is resumed, with what can still be called: the `tools` of open calls.

        Its client is gone, and makes no further ones. A call of what servers offer besides tools may need any
        of them, so then, and in a run that is no session, nothing changes.
        """
        loops = {name: fact.loop for name, fact in self.facts.items() if fact.loop is not None}
        if not any(loop.is_session for loop in loops.values()) or not self.pins.keys() >= {*tools}:
            return self
        kept = {
            name: self.facts[name]._replace(
                loop=loop._replace(tools=tuple(each for each in loop.tools if each in tools))
            )
            for name, loop in loops.items()
            if loop.is_session
        }
        return self._replace(facts={**self.facts, **kept})

    def enforcement(self) -> Enforcement | None:
        """The enforcement of the run's policy; None without one."""
        if self.policy is None:
            return None
        from callsheet.machine.monitor.enforcement import Enforcement  # noqa: PLC0415 - only under a policy

        return Enforcement.under(self.policy, self.input_labels(self.policy))

    def input_labels(self, policy: Policy) -> dict[str, Label]:
        """The labels of the inputs that differ from what the policy says of inputs."""
        return labels_of_inputs(policy, self.secret, self.untrusted)

    def to_json(self) -> dict[str, Any]:
        """The body of the start event."""
        return {
            "inputs": self.inputs,
            "facts": facts_to_json(self.facts),
            "limits": self.limits.to_json(),
            "pins": self.pins,
            "launch": self.launch,
            **({"approve": list(self.approve)} if self.approve else {}),
            **({"approval_timeout": dict(self.approval_timeout)} if self.approval_timeout else {}),
            **({"ranks": dict(self.ranks)} if self.ranks else {}),
            **({} if self.policy is None else policy_body(self.policy)),
            **({"secret": list(self.secret)} if self.secret else {}),
            **({"pepper": self.pepper} if self.pepper else {}),
            **({"untrusted": list(self.untrusted)} if self.untrusted else {}),
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Start:
        """The start from the body of a start event."""
        return cls(
            inputs=dict(body["inputs"]),
            facts=facts_from_json(body["facts"]),
            limits=Limits.from_json(body["limits"]),
            pins=dict(body["pins"]),
            launch=dict(body["launch"]),
            approve=tuple(body.get("approve", ())),
            approval_timeout=dict(body.get("approval_timeout", {})),
            ranks=dict(body.get("ranks", {})),
            policy=policy_in(body) if "policy" in body else None,
            secret=tuple(body.get("secret", ())),
            pepper=body.get("pepper", ""),
            untrusted=tuple(body.get("untrusted", ())),
            is_veiled=SEALED in body,
        )


def labels_of_inputs(policy: Policy, secret: Iterable[str], untrusted: Iterable[str]) -> dict[str, Label]:
    """The labels of inputs that somebody else has chosen, and of secret ones, which nobody may read."""
    labels = {name: policy.inputs.join(UNKNOWN) for name in untrusted}
    return labels | {name: labels.get(name, policy.inputs)._replace(readers=frozenset()) for name in secret}


def policy_body(policy: Policy) -> dict[str, Any]:
    """The part of a body that records a policy."""
    return {"policy": policy_to_json(policy), "policy_hash": policy_hash(policy)}


def policy_in(body: Mapping[str, Any]) -> Policy:
    """The policy in a body; raises ValueError if it does not match its hash."""
    policy = policy_from_json(body["policy"])
    if policy_hash(policy) != body["policy_hash"]:
        raise ValueError("the policy is not the one that was written")
    return policy


def facts_to_json(facts: Mapping[str, ToolFacts]) -> dict[str, Any]:
    """The facts about tools as JSON data."""
    return {name: _fact_to_json(fact) for name, fact in facts.items()}


def _fact_to_json(fact: ToolFacts) -> list[JSON]:
    row: list[JSON] = [str(fact.effect), list(fact.parameters)]
    if fact.loop is not None:
        loop: dict[str, JSON] = {"tools": list(fact.loop.tools), "most": fact.loop.is_most}
        if fact.loop.is_session:
            loop["session"] = True
        return [*row, str(fact.on_in_doubt), loop]
    if fact.independence != ORDERED or fact.effect is Effect.IDEMPOTENT:
        commutes, resource, as_reads = fact.independence
        if as_reads:
            return [*row, str(fact.on_in_doubt)]
        return [*row, str(fact.on_in_doubt), None, {"commutes": commutes, "resource": [*resource]}]
    return row if fact.on_in_doubt is OnInDoubt.ASK else [*row, str(fact.on_in_doubt)]


def facts_from_json(data: Mapping[str, Any]) -> dict[str, ToolFacts]:
    """The facts about tools from JSON data."""
    return {name: _fact_from_json(*row) for name, row in data.items()}


def _fact_from_json(
    effect: str,
    names: list[str],
    policy: str = OnInDoubt.ASK,
    loop: Mapping[str, Any] | None = None,
    order: Mapping[str, Any] | None = None,
) -> ToolFacts:
    own = None
    if loop is not None:
        own = Loop(tuple(loop["tools"]), bool(loop["most"]), bool(loop.get("session", False)))
    if order is None:
        declared = Independence(as_reads=effect == Effect.IDEMPOTENT)
    else:
        declared = Independence(bool(order["commutes"]), tuple(order["resource"]))
    return ToolFacts(Effect(effect), tuple(names), OnInDoubt(policy), own, declared)
