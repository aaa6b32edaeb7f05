"""The immutable data model of a policy: tools, sources, audiences, approvals, dynamic parts, limits.

`policy.reading` reads it from a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from enum import StrEnum

from callsheet.diagnostics.wrong_type import check_fields
from callsheet.ir.labels import LITERAL, TRUSTED, UNKNOWN, Label
from callsheet.ir.operations import ToolClass
from callsheet.lazy import dataclass

WHETHER = ":whether"
"""After a step's id among the approved steps: its call may be decided by untrusted data."""


class Implicit(StrEnum):
    """How strictly implicit flows (data that controls what is done) are treated."""

    BOUNDED = "bounded"
    """Single bits, such as whether something is empty or failed, may leak outside of loops."""
    STRICT = "strict"
    """No bit may leak."""


class When(StrEnum):
    """When a call needs a person's approval."""

    NEVER = "never"
    ALWAYS = "always"
    IF_UNTRUSTED_OR_OUTSIDE = "if-untrusted-or-outside"
    """If untrusted data flows into a control argument, or the audience is not one the policy knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Audience:
    """A named group of readers: hosts (`api.internal`, `*.corp.example`) and mail addresses
    (`*@corp.example`).
    """

    name: str
    hosts: tuple[str, ...] = ()
    mail: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRule:
    """The label of data from a source.

    `kind` is the kind of source (`file`, `url`, `host`, `tool`, `memory`), `pattern` selects it: a glob of
    normalised paths, a host (`*.` allowed), or a tool name. The first matching rule applies.
    """

    kind: str
    pattern: str
    label: Label

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRule:
    """What the operator declares about a tool.

    - `egress`: its arguments reach somebody outside; `audience_arg` is the argument that names the
      recipients, `trusted_audience` are patterns of recipients that count as the audience `trusted`.
    - `private_without_audience`: a call that names no recipients tells nobody.
    - `private_to_named`: recipients that trusted data names (the plan's text, a person, a trusted source)
      count as the audience `trusted`.
    - `control`: arguments that decide what is done, which untrusted data must not choose.
    - `destructive`: a call needs approval, and untrusted data must not control whether it is made.
    - `idempotent`: it may be retried; otherwise only with an idempotency key in the argument `key_arg`.
    - `returns`: the label of what it adds to its result, besides that of its arguments.
    - `fields`: the labels of what is under these keys of its result (`sender`, `address.city`), in each item
      of a list; the rest of the result has the label `returns`.
    - `links_known`: whoever wrote an address into its results knows it, so that it may be opened and shown
      as it stands there.
    - `no_echo`: its result neither repeats its arguments nor is composed of their text.
    - `reads`: the files, folders and globs of the workspace that its programs see where the call names none;
      None if the policy does not say.
    - `pin`: the hash of the declaration that this entry was written for.
    - `does`: the class that the entry follows from; None for one that is written out.
    - `approver`: the role that whoever approves a call must have; a server with people checks it.
    - `place_arg`: the argument that holds the path or address, for an operator's tool that has the name of a
      built-in one but calls it differently.

    `control` may contain `*`: every argument.
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
    fields: Mapping[str, Label] = field(default_factory=dict[str, Label])
    no_echo: bool = False
    reads: tuple[str, ...] | None = None
    pin: str | None = None
    does: ToolClass | None = None
    place_arg: str | None = None
    approver: str = ""
    private_without_audience: bool = False
    private_to_named: bool = False
    links_known: bool = False

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolEntry:
    """What a policy says about all tools whose names match `pattern`, besides what their class says.

    `pattern` is a canonical name in which `*` stands for any characters. `does` is the class of the tools,
    None if the entry does not say. `settings` are fields of `ToolRule` by name.
    """

    pattern: str
    does: ToolClass | None = None
    settings: Mapping[str, object] = field(default_factory=dict[str, object])

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRule:
    """The most that `@AGENT_SOLVE` may be allowed to do.

    `arguments` are patterns by tool and argument, one of which the value must match; arguments without
    patterns are unrestricted. `seconds` is the time limit from the first turn on, including time during which
    the run was stopped.
    """

    tools: tuple[str, ...] = ()
    max_turns: int = 5
    max_calls: int = 20
    seconds: float = 600.0
    arguments: Mapping[str, Mapping[str, tuple[str, ...]]] = field(
        default_factory=dict[str, Mapping[str, tuple[str, ...]]]
    )

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplanRule:
    """How often a run may be planned anew, and what its reason may contain (`context`).

    `trusted`: only trusted data. `any`: all data; the new plan then has the label of that data.
    """

    max: int = 3
    context: str = "trusted"

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRule:
    """A CEL predicate `when` over the arguments of a tool's calls, and its effect `then`: `approve` or
    `refuse`.
    """

    tool: str
    when: str
    then: str

    def __post_init__(self) -> None:
        check_fields(self)


class Per(StrEnum):
    """The span in which calls are counted."""

    RUN = "run"
    HOUR = "hour"
    DAY = "day"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A rule over the calls of the tools whose canonical names match `tools`, taken together.

    It has one of these:
    - `calls`: how many are made at most; `sum` and `most`: what the numbers in this argument come to at most;
      both `per` run, or across runs within an hour or a day;
    - `after`: none is made after a call of these tools; `needs`: none before one of these;
    - `hours`: between which hours of the day, in the time `zone`.

    `then` says what happens else: `ask` or `refuse`. What depends on the clock is refused. `written` are the
    tools as the policy names them, if `tools` has the names that plans use besides.
    """

    tools: tuple[str, ...]
    calls: int | None = None
    sum: str | None = None
    most: float | None = None
    after: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    hours: str | None = None
    zone: str = "UTC"
    per: Per = Per.RUN
    then: str = "ask"
    written: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What plans are verified against.

    - `audiences`: the readers of data that is not public; `trusted` is one of them.
    - `egress_hosts`: the only hosts that may be reached, None for all public ones.
    - `host_read`: globs of the paths that may be read on the host.
    - `exec_network`: whether executed code has network access.
    - `approved`: ids of approved steps, `STEP:whether` where untrusted data may decide whether a step does
      something that cannot be undone; `declassify`: ids of steps whose results count as public.
    - `memory`: the label of facts stored by earlier runs; `planner`: that of the plan's literals; `inputs`:
      that of a run's inputs.
    - `entries`: what is said of several tools at once, those before others first; `classes`: fields of
      `ToolRule` by class. `policy.classes` says what follows from them.
    - `harmless`: values that nothing is told by, whoever chose them: an argument of a session's call that is
      one of them does not count as made from what the session has read.
    - `observes`: calls are judged, and nothing is refused or asked about; the run tells what would have been.
    - `allowed_tools`, `denied_tools`: canonical names without `@`; None allows every known tool.
    - `forbidden`: RE2 patterns that no argument may match.
    - `limits`: rules over the calls of a run together.
    - `server_labels`: what the declarations of tools say of all their results, by folded names: it counts
      besides what the policy itself says of them.
    - `files`: absolute paths of the files that configure callsheet (the policy itself, files that name tools
      and servers, the settings); no call may write them.
    """

    name: str = "policy"
    audiences: tuple[Audience, ...] = (Audience(name=TRUSTED),)
    sources: tuple[SourceRule, ...] = ()
    tools: Mapping[str, ToolRule] = field(default_factory=dict[str, ToolRule])
    entries: tuple[ToolEntry, ...] = ()
    classes: Mapping[ToolClass, Mapping[str, object]] = field(
        default_factory=dict[ToolClass, Mapping[str, object]]
    )
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
    limits: tuple[Limit, ...] = ()
    max_steps: int | None = None
    max_calls: int | None = None
    max_retries: int | None = None
    files: tuple[str, ...] = ()
    harmless: tuple[str, ...] = ()
    observes: bool = False
    server_labels: Mapping[str, Label] = field(default_factory=dict[str, Label])

    def __post_init__(self) -> None:
        check_fields(self)

    def with_files(self, files: Iterable[str]) -> Policy:
        """The policy with these files protected from writes as well."""
        files_of_both = tuple(sorted({*self.files, *files}))
        return self if files_of_both == self.files else replace(self, files=files_of_both)

    def written_by(self, label: Label) -> Policy:
        """The policy for a plan whose text and inputs come from somebody who has read data of this label."""
        planner, inputs = self.planner.join(label), self.inputs.join(label)
        if (planner, inputs) == (self.planner, self.inputs):
            return self
        return replace(self, planner=planner, inputs=inputs)

    def without(self, steps: Iterable[str]) -> Policy:
        """The policy without its approvals and declassifications of these steps."""
        gone = frozenset(each for step in steps for each in (step, f"{step}{WHETHER}"))
        return replace(self, approved=self.approved - gone, declassify=self.declassify - gone)

    def without_steps(self) -> Policy:
        """The policy without all approvals and declassifications of steps, which were meant for one plan."""
        if not self.approved and not self.declassify:
            return self
        return replace(self, approved=frozenset(), declassify=frozenset())
