"""The data types of judging: a call with labelled arguments, and the objections and obligations it leads to.

Before a run, an argument is text with holes where data will be; during it, the holes have texts. The rules
treat both alike, so the runtime checks exactly what was proved.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, TypeAlias, cast

from callsheet.ir.labels import LITERAL, Label
from callsheet.lazy import NamedTuple

bare: Callable[..., Any] = cast("Any", tuple).__new__
"""Build a named tuple from a tuple of all its fields, in a third of the time; each call needs several.

>>> bare(Hole, ("a", LITERAL, "text")) == Hole("a", LITERAL, "text")
True
"""


class Hole(NamedTuple):
    """Where data is inserted: a variable, its label, and the text if it is known."""

    name: str
    label: Label
    text: str | None = None


Part: TypeAlias = "str | Hole"


class Argument(NamedTuple):
    """An argument: its name, its text as far as it is known, and the join of the labels of its content.

    A list or dict has its members in `items` and no `parts`; for a dict, keys and values alternate.
    """

    name: str
    parts: tuple[Part, ...]
    label: Label = LITERAL
    items: tuple[Argument, ...] = ()

    @property
    def text(self) -> str | None:
        """The whole text; None if some of it is unknown or the argument has members."""
        if self.items:
            return None
        texts = [part if isinstance(part, str) else part.text for part in self.parts]
        return None if None in texts else "".join(text for text in texts if text is not None)


class CallView(NamedTuple):
    """A call: step id, tool, arguments in order, and the control-flow label.

    `pc` is the join of the labels of everything that controlled whether the call is made. `retries` is how
    often the plan retries it, `repeats` whether the plan may reach it again. `in_agent` means that an agent
    requested it, `approved` that a person approved it. `decided_by` are the steps by whose untrusted data it
    was decided that the call is made, as far as they are known.
    """

    step: str
    tool: str
    arguments: tuple[Argument, ...]
    pc: Label = LITERAL
    retries: int = 0
    in_agent: bool = False
    approved: bool = False
    repeats: bool = False
    decided_by: tuple[str, ...] = ()

    def argument(self, name: str) -> Argument | None:
        """The argument of exactly this name, None if there is none."""
        return next((argument for argument in self.arguments if argument.name == name), None)

    def behind(self, pc: Label, *, repeats: bool) -> CallView:
        """The same call with this control-flow label."""
        step, tool, arguments, _, retries, in_agent, approved, _, decided_by = self
        return bare(CallView, (step, tool, arguments, pc, retries, in_agent, approved, repeats, decided_by))


class Rule(StrEnum):
    """The kinds of objections; each has its own documentation page."""

    UNKNOWN_TOOL = "unknown-tool"
    DENIED_TOOL = "denied-tool"
    FLOW = "flow"
    """Data would reach somebody who is not among its readers."""
    CONTROL = "control-argument"
    """Untrusted data would decide what is done."""
    ADDRESS = "address"
    """The network address may not be reached."""
    PATH = "path"
    """The path may not be read or written, or is not known before the run."""
    EXECUTABLE = "executable-target"
    """Untrusted content would be written to where it is executed."""
    CONSEQUENTIAL = "consequential"
    """The action is destructive and not approved, or untrusted data controls it."""
    FORBIDDEN = "forbidden-pattern"
    RETRY = "retry"
    """An action that must not be done twice would be retried."""
    AGENT = "agent"
    REPLAN = "replan"
    ANSWER = "answer"
    """An answer would leak private data through a link or an image."""
    IMPLICIT = "implicit-flow"
    """Whether the action is done would reveal private data."""
    LIMIT = "limit"
    STRUCTURE = "structure"
    """The plan is ambiguous or cannot end."""
    PREDICATE = "predicate"
    """A predicate of the operator refuses the call."""


class Duty(StrEnum):
    """The kinds of obligations of the runtime."""

    SSRF_GUARD = "ssrf-guard"
    """Reach only public addresses or those the policy trusts, on every redirect."""
    SANDBOX = "sandbox-without-network"
    """Run code without network access."""
    FILES = "sandbox-of-files"
    """Run code where it sees only the declared files of the workspace, and no secrets."""
    STORE_LABEL = "store-label"
    """Keep the label of stored data for later runs."""
    VERIFY_AGAIN = "verify-again"
    """Check against the policy again once all values are known."""
    APPROVE = "approve"
    """Ask a person for approval."""


class Obligation(NamedTuple):
    """What the runtime must ensure, or the plan does not start.

    `weakens` marks a label to be stored that is stricter than the one the policy gives the place.
    """

    kind: Duty
    step: str
    detail: str = ""
    tool: str = ""
    weakens: bool = False

    def to_json(self) -> dict[str, str]:
        """The obligation as JSON data."""
        return {"kind": str(self.kind), "step": self.step, "detail": self.detail}


class Objection(NamedTuple):
    """A reason to refuse a call: the rule, a message, the argument concerned, and a suggested fix.

    `reaches` is who would learn data without being among its readers, and `audiences` are those that this
    receiver belongs to.
    """

    rule: Rule
    message: str
    argument: str | None = None
    help: str | None = None
    reaches: str | None = None
    audiences: frozenset[str] | None = None


class Judgement(NamedTuple):
    """What the rules say about a call.

    `objections` refuse it. `approvals` are reasons why a person must approve it first. `result` is the label
    of its result. `links` means that what it stores may contain an address with data in it.
    """

    objections: tuple[Objection, ...] = ()
    approvals: tuple[str, ...] = ()
    obligations: tuple[Obligation, ...] = ()
    result: Label = LITERAL
    links: bool = False


CODES: Mapping[Rule, str] = {
    Rule.UNKNOWN_TOOL: "POL101",
    Rule.DENIED_TOOL: "POL102",
    Rule.FLOW: "POL103",
    Rule.CONTROL: "POL104",
    Rule.ADDRESS: "POL105",
    Rule.PATH: "POL106",
    Rule.EXECUTABLE: "POL107",
    Rule.CONSEQUENTIAL: "POL108",
    Rule.FORBIDDEN: "POL109",
    Rule.RETRY: "POL110",
    Rule.AGENT: "POL111",
    Rule.REPLAN: "POL112",
    Rule.ANSWER: "POL113",
    Rule.IMPLICIT: "POL114",
    Rule.LIMIT: "POL115",
    Rule.STRUCTURE: "POL116",
    Rule.PREDICATE: "POL117",
}
"""Maps rules to codes."""
