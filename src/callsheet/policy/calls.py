"""One call as it is judged: its arguments as far as they are known, and what a judgement says.

Before a run an argument is text with holes where data will be; during it, the text itself. The rules see no
other difference, so that what is checked at each call is what was proved.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any, NamedTuple, TypeAlias, cast

from callsheet.ir.labels import LITERAL, Label

bare: Callable[..., Any] = cast("Any", tuple).__new__
"""Makes a named tuple of a tuple with all its fields, in a third of the time: each call makes several.

>>> bare(Hole, ("a", LITERAL, "text")) == Hole("a", LITERAL, "text")
True
"""


class Hole(NamedTuple):
    """Where data goes in: a variable, its label, and during a run the text that goes in."""

    name: str
    label: Label
    text: str | None = None


Part: TypeAlias = "str | Hole"


class Argument(NamedTuple):
    """One argument: its name, its text as far as it is known, and the label of all that is in it.

    A list, or a dict, has one entry in `items` for each of its members, and no `parts`.
    """

    name: str
    parts: tuple[Part, ...]
    label: Label = LITERAL
    items: tuple[Argument, ...] = ()

    @property
    def text(self) -> str | None:
        """The whole text, None where some of it is not known or there are members."""
        if self.items:
            return None
        texts = [part if isinstance(part, str) else part.text for part in self.parts]
        return None if None in texts else "".join(text for text in texts if text is not None)


class CallView(NamedTuple):
    """A call: the step's id, the canonical tool, its arguments in order, and the label of the way to it.

    `pc` is the join of what decided that the call is made. `retries` is how often the plan tries it again;
    `repeats` says that the plan may come back to it.
    `in_agent` says that an agent asks for it, not the plan. `approved` says that somebody has said yes to it.
    """

    step: str
    tool: str
    arguments: tuple[Argument, ...]
    pc: Label = LITERAL
    retries: int = 0
    in_agent: bool = False
    approved: bool = False
    repeats: bool = False

    def argument(self, name: str) -> Argument | None:
        """The argument of that name."""
        return next((argument for argument in self.arguments if argument.name == name), None)

    def behind(self, pc: Label, *, repeats: bool) -> CallView:
        """The same call behind this way."""
        step, tool, arguments, _, retries, in_agent, approved, _ = self
        return bare(CallView, (step, tool, arguments, pc, retries, in_agent, approved, repeats))


class Rule(StrEnum):
    """What can speak against a call; each has a page of its own in the documentation."""

    UNKNOWN_TOOL = "unknown-tool"
    DENIED_TOOL = "denied-tool"
    FLOW = "flow"
    """Data would reach somebody who may not read it."""
    CONTROL = "control-argument"
    """Untrusted data would decide what is done."""
    ADDRESS = "address"
    """A network address that may not be reached."""
    PATH = "path"
    """A path outside of what may be read or written, or not known before the run."""
    EXECUTABLE = "executable-target"
    """Untrusted content would go where it is executed."""
    CONSEQUENTIAL = "consequential"
    """It destroys or pays, and nobody has approved it, or untrusted data decides about it."""
    FORBIDDEN = "forbidden-pattern"
    RETRY = "retry"
    """What must not be done twice would be tried again."""
    AGENT = "agent"
    REPLAN = "replan"
    ANSWER = "answer"
    """An answer would carry private data away with a link."""
    IMPLICIT = "implicit-flow"
    """What is done would tell somebody what the data is."""
    LIMIT = "limit"
    STRUCTURE = "structure"
    """The plan can be read in two ways, or cannot end."""
    PREDICATE = "predicate"
    """A rule that the operator wrote refuses it."""


class Duty(StrEnum):
    """What a runtime can be obliged to."""

    SSRF_GUARD = "ssrf-guard"
    """Reach only addresses that are public, or that the policy trusts, on every hop."""
    SANDBOX = "sandbox-without-network"
    """Run code where it reaches no network."""
    STORE_LABEL = "store-label"
    """Keep the label of what is left behind for later runs."""
    VERIFY_AGAIN = "verify-again"
    """Hold what is not known yet against the policy once it is."""
    APPROVE = "approve"
    """Ask a person."""


class Obligation(NamedTuple):
    """What the runtime has to see to, or the plan does not start.

    `weakens` says of a label to be kept that its place would have a weaker one by itself.
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
    """What speaks against a call: the rule, in words why, the argument it is about, and the way out.

    `reaches` is who would learn what they may not know.
    """

    rule: Rule
    message: str
    argument: str | None = None
    help: str | None = None
    reaches: str | None = None


class Judgement(NamedTuple):
    """What the rules say of a call.

    `objections` refuse it. `approvals` say why a person has to say yes first. `result` is the label
    of what it gives. `links` says that what it leaves behind may hold an address with data in it.
    """

    objections: tuple[Objection, ...] = ()
    approvals: tuple[str, ...] = ()
    obligations: tuple[Obligation, ...] = ()
    result: Label = LITERAL
    links: bool = False
