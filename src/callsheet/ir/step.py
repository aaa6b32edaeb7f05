"""The AST of one step of a plan: guards, action, output variable and failure handling."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias, assert_never

from callsheet.diagnostics import Span
from callsheet.ir.expr import Cast, Condition, Value
from callsheet.ir.operations import CallKind, call_kind


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
        """What executes the call."""
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
    """Jump to the step with the id `target`."""

    target: str
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Replan:
    """Compile a new plan, with the values as the reason, and continue with it."""

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
    """The variable that the result is assigned to, and the cast applied before."""

    var: str
    cast: Cast | None = None
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Retry:
    """Up to `count` more attempts.

    The first follows after `delay` seconds (None: the setting of the run, 1 s by default); each further wait
    is `backoff` times the previous one (None: the setting of the run, 1 by default).
    """

    count: int
    delay: float | None = None
    backoff: float | None = None
    span: Span | None = field(default=None, compare=False, repr=False)


def word_of(action: Action) -> str:
    """The keyword of an action in the plan language: its tool with `@`, or the control word.

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
    """What to do when the step fails: retry, then jump or end the plan."""

    retry: Retry | None = None
    then: Goto | Terminate | None = None
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Step:
    """One step. `group` is the number of its @PARALLEL block, None outside of one.

    `depends_on` has the ids of the steps it depends on in a DAG, and is None in a plan in text order. With
    both `foreach` and `condition`, the condition is evaluated for each item. `comments` are the comment lines
    above the step, `remark` the comment at its end; neither has a meaning.
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
    """The span of the id, if the step was parsed from a DAG plan."""
    depends_spans: tuple[Span, ...] = field(default=(), compare=False, repr=False)
    """The span of each of `depends_on`."""

    def values(self) -> tuple[Value, ...]:
        """The operands of the action in text order; none for a jump."""
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
