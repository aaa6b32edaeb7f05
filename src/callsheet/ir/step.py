"""One step of a plan: its guards, its action, where its result goes, and what to do on failure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias, assert_never

from callsheet.diagnostics import Span
from callsheet.ir.expr import Condition, Value
from callsheet.ir.operations import CallKind, call_kind
from callsheet.ir.types import Cast


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a tool, model operation, agent or transform: `@TOOL (positional, name=value)`.

    `tool` is the canonical upper-case name without `@`; names in `named` are unique.
    """

    tool: str
    positional: tuple[Value, ...] = ()
    named: tuple[tuple[str, Value], ...] = ()
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def kind(self) -> CallKind:
        """Who carries it out."""
        return call_kind(self.tool)


@dataclass(frozen=True, slots=True)
class Respond:
    """End the plan with an answer: the values as text, joined with one space."""

    values: tuple[Value, ...]
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Terminate:
    """End the plan early with a message: the values as text, joined with one space."""

    values: tuple[Value, ...] = ()
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Goto:
    """Go on at another step."""

    target: str
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Replan:
    """Compile a new plan with this reason and go on with it."""

    values: tuple[Value, ...]
    span: Span | None = field(default=None, compare=False, repr=False)


Action: TypeAlias = "Call | Respond | Terminate | Goto | Replan"


@dataclass(frozen=True, slots=True)
class Foreach:
    """Run the action once for each item of `source`, with `var` set to the item."""

    var: str
    source: Value
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Output:
    """The variable that takes the result, and the cast that it takes on the way."""

    var: str
    cast: Cast | None = None
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Retry:
    """Up to `count` more attempts.

    `delay` seconds lie before the first of them (None: what the run is set to, 1 s by
    default); each further wait is `backoff` times the one before (None: the run's, 1).
    """

    count: int
    delay: float | None = None
    backoff: float | None = None
    span: Span | None = field(default=None, compare=False, repr=False)


def word_of(action: Action) -> str:
    """What an action does in one word of a plan: its tool with `@`, or the control word.

    >>> word_of(Call("READ_FILE")), word_of(Goto("S1"))
    ('@READ_FILE', 'GOTO')
    """
    match action:
        case Call(tool=tool):
            return f"@{tool}"
        case Respond():
            return "@RESPOND"
        case Terminate():
            return "TERMINATE"
        case Replan():
            return "RE-PLAN"
        case Goto():
            return "GOTO"
    assert_never(action)


@dataclass(frozen=True, slots=True)
class OnFail:
    """What to do when the step fails: try again, then go elsewhere or end."""

    retry: Retry | None = None
    then: Goto | Terminate | None = None
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Step:
    """One step. `group` numbers the @PARALLEL block it stands in; None is outside any.

    `depends_on` is None in a plan of text order, and the ids of the steps it waits for in a
    DAG. Where `foreach` and `condition` both stand, the condition is asked for each item.
    `comments` are the lines above it, `remark` the comment at its end; they carry no meaning.
    """

    id: str
    action: Action
    foreach: Foreach | None = None
    condition: Condition | None = None
    output: Output | None = None
    on_fail: OnFail | None = None
    group: int | None = None
    depends_on: tuple[str, ...] | None = None
    title: str | None = None
    comments: tuple[str, ...] = field(default=(), compare=False)
    remark: str | None = field(default=None, compare=False)
    span: Span | None = field(default=None, compare=False, repr=False)
    id_span: Span | None = field(default=None, compare=False, repr=False)
    """Where the id stands, if a plan of dependencies was read."""
    depends_spans: tuple[Span, ...] = field(default=(), compare=False, repr=False)
    """Where each of `depends_on` stands."""

    def values(self) -> tuple[Value, ...]:
        """The values that the action is given, in the order of the text."""
        action = self.action
        if isinstance(action, Call):
            named = action.named
            if not named:
                return action.positional
            if len(named) == 1 and not action.positional:
                return (named[0][1],)
            return action.positional + tuple([value for _, value in named])
        return () if isinstance(action, Goto) else action.values

    def failure_values(self) -> Iterator[Value]:
        """The values of the message that ends the plan when the step fails."""
        if self.on_fail is not None and isinstance(self.on_fail.then, Terminate):
            yield from self.on_fail.then.values
