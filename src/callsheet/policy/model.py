"""A policy as it is held against plans: tools, sources, audiences, approvals, dynamic parts, limits.

Immutable. `policy.reading` makes it of a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from callsheet.ir.labels import LITERAL, TRUSTED, UNKNOWN, Label


class Implicit(StrEnum):
    """How strictly it counts that data decides what is done."""

    BOUNDED = "bounded"
    """Whether something is empty, or failed, is one bit; outside of loops it may be seen."""
    STRICT = "strict"
    """Every bit counts."""


class When(StrEnum):
    """When a person has to say yes to a call."""

    NEVER = "never"
    ALWAYS = "always"
    IF_UNTRUSTED_OR_OUTSIDE = "if-untrusted-or-outside"
    """Where untrusted data decides a control argument, or the audience is none the policy knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Audience:
    """Readers by name: hosts (`api.internal`, `*.corp.example`) and mail addresses (`*@corp.example`)."""

    name: str
    hosts: tuple[str, ...] = ()
    mail: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRule:
    """The label of what comes from a place.

    `kind` is what the place is (`file`, `url`, `host`, `tool`, `memory`), `pattern` which: a glob of
    normalised paths, a host (`*.` allowed), or the name of a tool. The first rule that fits counts.
    """

    kind: str
    pattern: str
    label: Label


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRule:
    """What the operator says of a tool.

    - `egress`: its arguments reach somebody outside; `audience_arg` names the argument that says whom,
      `trusted_audience` those who may then see what the audience `trusted` may.
    - `control`: arguments that decide what is done, and must not be chosen by untrusted data.
    - `destructive`: a call needs approval, and no untrusted data may decide whether it is made.
    - `idempotent` or an argument `key_arg` with an idempotency key: it may be tried again.
    - `returns`: the label of what it gives, beside that of its arguments.
    - `no_echo`: nothing that it gives repeats its arguments, or is made of their text.
    - `pin` is the hash of the declaration for which this was said.
    """

    egress: bool = True
    control: tuple[str, ...] = ()
    audience_arg: str | None = None
    trusted_audience: tuple[str, ...] = ()
    destructive: bool = True
    idempotent: bool = False
    key_arg: str = "idempotency_key"
    approval: When = When.NEVER
    returns: Label = UNKNOWN
    no_echo: bool = False
    pin: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRule:
    """What `@AGENT_SOLVE` may do: the capability that it is given at most.

    `arguments` are patterns by tool and argument, one of which the value has to fit; others are free.
    `seconds` is how long it may work from its first turn on, also where the run was stopped meanwhile.
    """

    tools: tuple[str, ...] = ()
    max_turns: int = 5
    max_calls: int = 20
    seconds: float = 600.0
    arguments: Mapping[str, Mapping[str, tuple[str, ...]]] = field(
        default_factory=dict[str, Mapping[str, tuple[str, ...]]]
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplanRule:
    """Whether and how a run may be planned anew; `context` is what its reason may be made of.

    `trusted`: only of what nobody outside has chosen. `any`: of everything; what is planned then counts as
    chosen by it.
    """

    max: int = 3
    context: str = "trusted"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRule:
    """A predicate over the arguments of a tool's calls (CEL), and what it leads to: `approve` or `refuse`."""

    tool: str
    when: str
    then: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What a plan is held against.

    - `audiences`: who may read what is not public; `trusted` is one of them.
    - `egress_hosts`: the only hosts that may be reached at all, None for every public one.
    - `host_read`: the globs of paths that may be read on the host.
    - `exec_network`: whether code that is run reaches the network.
    - `approved`, `declassify`: ids of steps to which somebody has said yes, whose results count as public.
    - `memory`: the label of facts that earlier runs stored. `planner`: that of the plan's literals,
      `inputs`: that of what a run is given.
    - `allowed_tools`, `denied_tools`: canonical names without `@`; None allows what is known.
    - `forbidden`: patterns (RE2) that no argument may match.
    - `files`: the absolute paths of the files that runs are held by (the policy itself, those that name tools
      and servers, the configuration); no call writes them.
    """

    name: str = "policy"
    audiences: tuple[Audience, ...] = (Audience(name=TRUSTED),)
    sources: tuple[SourceRule, ...] = ()
    tools: Mapping[str, ToolRule] = field(default_factory=dict[str, ToolRule])
    allowed_tools: frozenset[str] | None = None
    denied_tools: frozenset[str] = frozenset()
    refuse_unknown_tools: bool = True
    egress_hosts: tuple[str, ...] | None = None
    host_read: tuple[str, ...] = ()
    exec_network: bool = False
    implicit: Implicit = Implicit.BOUNDED
    memory: Label = UNKNOWN
    planner: Label = LITERAL
    inputs: Label = LITERAL
    agent: AgentRule | None = None
    replan: ReplanRule | None = None
    approved: frozenset[str] = frozenset()
    declassify: frozenset[str] = frozenset()
    forbidden: tuple[str, ...] = ()
    rules: tuple[CallRule, ...] = ()
    max_steps: int | None = None
    max_calls: int | None = None
    max_retries: int | None = None
    files: tuple[str, ...] = ()

    def with_files(self, files: Iterable[str]) -> Policy:
        """The policy that keeps these files from being written as well."""
        kept = tuple(sorted({*self.files, *files}))
        return self if kept == self.files else replace(self, files=kept)

    def without(self, steps: Iterable[str]) -> Policy:
        """The policy without what it says of these steps: they are not what it was said of any more."""
        gone = frozenset(steps)
        return replace(self, approved=self.approved - gone, declassify=self.declassify - gone)

    def without_steps(self) -> Policy:
        """The policy without what it says of single steps, which was meant for one plan."""
        if not self.approved and not self.declassify:
            return self
        return replace(self, approved=frozenset(), declassify=frozenset())
