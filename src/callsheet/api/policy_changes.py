"""The smallest change of a policy under which plans pass, found by proving them again.

In: plans that a policy refuses, the policy, the tools. Out: the lines to add, or what no line can allow. Each
refusal suggests a few lines; those that help are kept, and those that turn out to be unnecessary are dropped.
Nothing is suggested that would let a secret out, untrusted data decide unseen, or a forbidden text pass:
where a person can judge, the line makes the refusal a question.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple, cast

from callsheet.api.policies import SHIPPED, load_policy, policies_beside, policy_source
from callsheet.api.policy_draft import class_assumed, written_name
from callsheet.api.proving import NO_ASSUMPTIONS, Assumptions, Proof, prove
from callsheet.diagnostics import CallsheetError, Source
from callsheet.ir import Plan, ToolClass
from callsheet.ir.labels import TRUSTED, UNKNOWN, Label
from callsheet.passes.verify import Violation
from callsheet.policy.addresses import AddressRefused, host_address, parse_url
from callsheet.policy.audiences import mailbox_of
from callsheet.policy.builtins import BUILTINS, fold
from callsheet.policy.calls import Rule
from callsheet.policy.model import Policy, ToolRule, When
from callsheet.policy.policy_file import read_policy
from callsheet.policy.urls import is_metadata
from callsheet.ports.tools import Registry, Tool

_MAIL = re.compile(r"[^@\s,;<>\"*]+@[^@\s,;<>\"*]+")


_HOST = re.compile(r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?", re.IGNORECASE)


_MOST_ROUNDS = 60


_CLASS = ("class",)


class Line(NamedTuple):
    """A line of a policy: a value for a key of a table, or members for the list that the key holds."""

    table: tuple[str, ...]
    key: str
    value: Any
    is_member: bool = False

    def __str__(self) -> str:
        shown = f"+ {json.dumps(self.value)}" if self.is_member else f"= {_toml(self.value)}"
        return f"{_header(self.table)} {_key(self.key)} {shown}"


@dataclass(frozen=True, slots=True)
class Proposal:
    """What has to be added to a policy so that plans pass, and what no line allows.

    `text` is a policy that extends the other one by these lines. `refused` are the violations that remain,
    `questions` how often the plans would ask.
    """

    lines: tuple[Line, ...]
    text: str
    refused: tuple[Violation, ...]
    questions: int

    @property
    def ok(self) -> bool:
        """Whether all plans pass under the policy with these lines."""
        return not self.refused


def proposal(
    plans: Sequence[Plan], policy: str, registry: Registry, assumed: Assumptions = NO_ASSUMPTIONS
) -> Proposal:
    """The smallest change of a policy under which all these plans pass, as far as lines of it can allow them.

    `policy` is the name or path by which the proposed one extends it. Raises CallsheetError for one that is
    invalid or missing.
    """
    base = load_policy(policy)
    beside = policies_beside(Path(policy).parent if policy not in SHIPPED else Path())

    def find(name: str) -> Source | None:
        return policy_source(policy) if name == policy else beside(name)

    def proofs(lines: Sequence[Line]) -> list[Proof] | None:
        source = Source("proposed", overlay_text(base, lines, policy))
        try:
            other = read_policy(source, find) if lines else base
        except CallsheetError:
            return None
        return [prove(plan, other, registry, assumed) for plan in plans]

    lines: list[Line] = []
    given_up: set[tuple[int, Violation]] = set()
    now = proofs(lines) or []
    for _ in range(_MOST_ROUNDS):
        found = next(_open(now, given_up), None)
        if found is None:
            break
        number, violation = found
        for candidate in _candidates(violation, plans[number], now[number].policy, registry):
            others = None if candidate in lines else proofs([*lines, candidate])
            if others is not None and violation not in others[number].verdict.violations:
                lines.append(candidate)
                now = others
                break
        else:
            given_up.add(found)
    lines = _needed(lines, proofs, _count(now))
    now = proofs(lines) or []
    refused = tuple(violation for proof in now for violation in proof.verdict.violations)
    questions = sum(each.kind == "approve" for proof in now for each in proof.obligations)
    return Proposal(tuple(lines), overlay_text(base, lines, policy), refused, questions)


def _open(proofs: Sequence[Proof], given_up: set[tuple[int, Violation]]) -> Iterator[tuple[int, Violation]]:
    for number, proof in enumerate(proofs):
        yield from ((number, each) for each in proof.verdict.violations if (number, each) not in given_up)


def _count(proofs: Sequence[Proof]) -> int:
    return sum(len(proof.verdict.violations) for proof in proofs)


def _needed(
    lines: list[Line], proofs: Callable[[Sequence[Line]], list[Proof] | None], refused: int
) -> list[Line]:
    """The lines without those that change nothing about what is refused."""
    for line in list(lines):
        rest = [each for each in lines if each is not line]
        without = proofs(rest)
        if without is not None and _count(without) <= refused:
            lines = rest
    return lines


def _candidates(violation: Violation, plan: Plan, policy: Policy, registry: Registry) -> Iterator[Line]:
    """Lines that may let a step pass, the least permissive first."""
    step = plan.step(violation.step or "")
    call = None if step is None else step.call
    tool = None if call is None else fold(call.tool)
    known = None if tool is None else registry.get(tool)
    match violation.rule:
        case Rule.UNKNOWN_TOOL if known is not None:
            yield Line(_CLASS, str(_class_of(known)), written_name(known.spec.name, known.spec), True)
        case Rule.DENIED_TOOL if tool is not None and policy.allowed_tools is not None:
            yield Line(("defaults",), "allow", f"@{tool}", True)
        case Rule.FLOW | Rule.IMPLICIT:
            receiver = violation.flow[-1] if violation.flow else ""
            if tool is not None and tool not in BUILTINS:
                yield _asking(tool, known, When.IF_UNTRUSTED_OR_OUTSIDE)
            yield from _trusting(receiver)
        case Rule.CONTROL if tool is not None and tool not in BUILTINS:
            yield _asking(tool, known, When.IF_UNTRUSTED_OR_OUTSIDE)
        case Rule.ADDRESS:
            yield from _reaching(violation.message)
        case Rule.PATH:
            path = re.match(r"(/\S+) is not among", violation.message)
            if path is not None:
                yield Line(("host",), "read", path[1], True)
        case Rule.RETRY if tool is not None and tool not in BUILTINS and (known or tool in policy.tools):
            yield Line(("tools", _tool_key(tool, known)), "idempotent", True)
        case Rule.LIMIT:
            if policy.max_steps is not None and len(plan.steps) > policy.max_steps:
                yield Line(("budgets",), "max_steps", len(plan.steps))
        case Rule.REPLAN if policy.replan is None:
            yield Line(("dynamic",), "replan", {"max": 1})
        case _:
            return


def _class_of(tool: Tool) -> ToolClass:
    """The class for a tool of none: as declared or assumed, else the one of which the worst is assumed."""
    return tool.spec.declared_class or class_assumed(tool.spec) or ToolClass.ADMINISTERS


def _asking(tool: str, known: Tool | None, when: When) -> Line:
    return Line(("tools", _tool_key(tool, known)), "approval", str(when))


def _tool_key(tool: str, known: Tool | None) -> str:
    if known is not None and known.spec.origin.startswith("mcp:"):
        return f"{known.spec.origin}/{known.spec.executor}"
    return f"@{tool}"


def _trusting(receiver: str) -> Iterator[Line]:
    """Lines by which a receiver may see private data."""
    who = mailbox_of(receiver)
    if _MAIL.fullmatch(who):
        yield Line(("audience", TRUSTED), "mail", who.lower(), True)
    else:
        for host in _hosts(receiver):
            yield Line(("audience", TRUSTED), "hosts", host, True)


def _reaching(message: str) -> Iterator[Line]:
    """Lines by which a host of this message may be reached; none for a number, as of a metadata service."""
    for host in _hosts(message):
        if not is_metadata(host) and host_address(host) is None:
            yield Line(("network",), "hosts", host, True)
            yield Line(("audience", TRUSTED), "hosts", host, True)


def _hosts(text: str) -> Iterator[str]:
    """The hosts that a text begins with or names as an address."""
    for word in text.split():
        try:
            host = parse_url(word).host if "://" in word else word
        except AddressRefused:
            continue
        if "." in host and _HOST.fullmatch(host):
            yield host.lower()
            return


def overlay_text(policy: Policy, lines: Sequence[Line], extends: str) -> str:
    """The text of a policy that extends another one by these lines; lists keep what the other one has."""
    tables: dict[tuple[str, ...], dict[str, Any]] = {}
    for line in lines:
        table = tables.setdefault(line.table, dict(_written_before(policy, line.table)))
        if line.is_member:
            table[line.key] = [*(table.get(line.key) or _members(policy, line)), line.value]
        else:
            table[line.key] = line.value
    blocks = [f"schema = 1\nextends = {json.dumps(extends)}"]
    for table, values in tables.items():
        rows = [f"{_key(key)} = {_toml(value)}" for key, value in values.items()]
        note = (
            ["# what these tools do is assumed from their names, if nobody declared it"]
            if table == _CLASS
            else []
        )
        blocks.append("\n".join([_header(table), *note, *rows]))
    return "\n\n".join(blocks) + "\n"


def _members(policy: Policy, line: Line) -> list[str]:
    """What the list of a line has in the policy as it is."""
    match line.table:
        case ("audience", name):
            audience = next((each for each in policy.audiences if each.name == name), None)
            return [] if audience is None else list(getattr(audience, line.key))
        case ("network",):
            return list(policy.egress_hosts or ())
        case ("host",):
            return list(policy.host_read)
        case ("defaults",):
            return sorted(f"@{name}" for name in policy.allowed_tools or ())
        case _:
            return []


def _written_before(policy: Policy, table: tuple[str, ...]) -> Mapping[str, Any]:
    """The keys that a table has to repeat, since it replaces the one of the extended policy."""
    match table:
        case ("audience", name):
            audience = next((each for each in policy.audiences if each.name == name), None)
            known = {} if audience is None else {"hosts": audience.hosts, "mail": audience.mail}
            return {key: list(value) for key, value in known.items() if value}
        case ("tools", key):
            rule = policy.tools.get(key if key.startswith("mcp:") else key.removeprefix("@"))
            return {} if rule is None else _settings(rule)
        case _:
            return {}


def _settings(rule: ToolRule) -> dict[str, Any]:
    """The keys of a tool's table that differ from their defaults."""
    plain = ToolRule()
    own = {field.name: getattr(rule, field.name) for field in fields(rule)}
    changed = {name: value for name, value in own.items() if value != getattr(plain, name)}
    if rule.returns == UNKNOWN:
        changed.pop("returns", None)
    return {name: _plain(value) for name, value in changed.items() if name not in ("does", "place_arg")}


def _plain(value: Any) -> object:
    if isinstance(value, Label | When):
        return str(value)
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in cast("Mapping[str, object]", value).items()}
    return list(cast("tuple[object, ...]", value)) if isinstance(value, tuple) else value


def _header(table: tuple[str, ...]) -> str:
    return f"[{'.'.join(map(_key, table))}]"


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else json.dumps(key)


def _toml(value: object) -> str:
    if isinstance(value, dict):
        rows = cast("dict[str, object]", value).items()
        return "{ " + ", ".join(f"{_key(key)} = {_toml(each)}" for key, each in rows) + " }"
    return json.dumps(value, ensure_ascii=False)
