"""The steps of a plan, and the one table of what each kind of action and failure handling means for control
and data: what it reads and sets, where it may lead, whether it may fall through, and its keyword.

Everything outside the machine's compiler and the printers asks this table instead of testing for a kind, so a
new kind is a new case here that the type checker demands in each `match`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, replace
from enum import StrEnum
from typing import NamedTuple, TypeAlias, assert_never

from callsheet.diagnostics import Span
from callsheet.ir.expr import Cast, Condition, Value
from callsheet.ir.operations import CallKind, call_kind
from callsheet.lazy import dataclass


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


Handling: TypeAlias = "Goto | Terminate"
"""What is done about a step that has failed for good."""


@dataclass(frozen=True, slots=True)
class OnFail:
    """What to do when the step fails: retry, then jump or end the plan."""

    retry: Retry | None = None
    then: Handling | None = None
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

    @property
    def call(self) -> Call | None:
        """The call that is the step's action; None if the action is another one."""
        action = self.action
        return action if isinstance(action, Call) else None

    @property
    def sets(self) -> str | None:
        """The variable that the step sets to its result; None without one, as only a call has a result."""
        return self.output.var if self.output is not None and isinstance(self.action, Call) else None

    @property
    def is_guarded(self) -> bool:
        """Whether the step's action may be skipped: it has a condition or a loop."""
        return self.condition is not None or self.foreach is not None

    @property
    def sets_always(self) -> bool:
        """Whether the step, once reached, sets its output: a condition outside a loop may prevent it."""
        return self.condition is None or self.foreach is not None

    @property
    def course(self) -> Course:
        """Where control may go after the step's action."""
        return course_of(self.action)

    @property
    def after_failure(self) -> Course:
        """Where control goes after the step has failed for good, in a plan in text order."""
        return NEXT if self.on_fail is None else course_after_failure(self.on_fail.then)

    def leads_by_failure(self, *, in_graph: bool) -> bool:
        """Whether a failure of the step changes what is executed next; in a graph, dependents are skipped."""
        return self.after_failure.leaves or (in_graph and isinstance(self.action, Call))

    @property
    def turns(self) -> bool:
        """Whether control may go elsewhere than to the next step, by the action or by a failure."""
        return type(self.action) is not Call or (self.on_fail is not None and self.after_failure.leaves)

    @property
    def is_open(self) -> bool:
        """Whether a model chooses during the run what the step does: a new plan, or the calls of an agent."""
        if (call := self.call) is not None:
            return call.kind is CallKind.AGENT
        return self.course.ends is Ending.NEW_PLAN

    def jumps(self) -> Iterator[Goto]:
        """The jumps that the step may make: by its action, and when it fails."""
        for course in (self.course, self.after_failure):
            if course.jump is not None:
                yield course.jump

    @property
    def handling(self) -> Handling | None:
        """What is done about the step's failure after the last attempt; None if nothing is said."""
        return None if self.on_fail is None else self.on_fail.then

    @property
    def retry(self) -> Retry | None:
        """The attempts after a first one that failed."""
        return None if self.on_fail is None else self.on_fail.retry

    @property
    def retries(self) -> int:
        """The number of attempts after a first one that failed."""
        return 0 if self.on_fail is None or self.on_fail.retry is None else self.on_fail.retry.count

    def values(self) -> tuple[Value, ...]:
        """The operands of the action in text order; none for a jump."""
        return operands_of(self.action)

    def failure_values(self) -> tuple[Value, ...]:
        """The values that are read when the step has failed for good."""
        return () if self.handling is None else operands_of(self.handling)

    def farewell(self) -> tuple[Value, ...]:
        """The message that ends the plan when the step fails; none if a failure does not end it."""
        return self.failure_values() if self.after_failure.ends is Ending.MESSAGE else ()

    def reads(self) -> Sequence[tuple[Place, tuple[Value | Condition, ...]]]:
        """Everything that the step reads, by the part that reads it, in text order."""
        values = operands_of(self.action)
        if self.foreach is None and self.condition is None and self.on_fail is None:  # as most steps
            return ((_ARGUMENTS, values),) if values else ()
        reads: list[tuple[Place, tuple[Value | Condition, ...]]] = []
        if self.foreach is not None:
            reads.append((Place.SOURCE, (self.foreach.source,)))
        if self.condition is not None:
            reads.append((Place.CONDITION, (self.condition,)))
        if values:
            reads.append((_ARGUMENTS, values))
        if self.on_fail is not None and (said := self.failure_values()):
            reads.append((Place.FAILURE, said))
        return reads

    def own_names(self, place: Place) -> tuple[str, ...]:
        """The names that the step itself has set by the time that this part of it is read."""
        if self.foreach is None and place is _ARGUMENTS:
            return ()
        loop = () if self.foreach is None else (self.foreach.var,)
        match place:
            case Place.SOURCE:
                return ()
            case Place.CONDITION | Place.ARGUMENTS:
                return loop
            case Place.FAILURE:
                return loop if self.output is None else (*loop, self.output.var)
        assert_never(place)

    def with_values(self, put: Callable[[Value], Value]) -> Step:
        """The step with each operand of its action and its failure handling replaced by `put` of it."""
        on_fail = self.on_fail
        if on_fail is not None and on_fail.then is not None:
            on_fail = replace(on_fail, then=handling_with_values(on_fail.then, put))
        return replace(self, action=action_with_values(self.action, put), on_fail=on_fail)


class Place(StrEnum):
    """The part of a step that reads a variable."""

    SOURCE = "source"
    CONDITION = "condition"
    ARGUMENTS = "arguments"
    FAILURE = "failure"


_ARGUMENTS = Place.ARGUMENTS


class Ending(StrEnum):
    """How an action ends the plan."""

    ANSWER = "answer"
    MESSAGE = "message"
    NEW_PLAN = "new plan"
    """Another plan takes its place."""


SAYING = frozenset({Ending.ANSWER, Ending.MESSAGE})
"""The endings that give the run its text."""


class Onward(StrEnum):
    """Whether control goes on to the next step, if the action was not skipped."""

    ALWAYS = "always"
    IF_EMPTY = "if the answer is empty"
    IF_NO_PLAN = "if there is no new plan"
    NEVER = "never"


class Course(NamedTuple):
    """Where control may go after an action, or after a failure."""

    jump: Goto | None = None
    ends: Ending | None = None
    onward: Onward = Onward.ALWAYS

    @property
    def leaves(self) -> bool:
        """Whether control may go elsewhere than to the next step."""
        return self.jump is not None or self.ends is not None


NEXT = Course()
_ANSWERS = Course(ends=Ending.ANSWER, onward=Onward.IF_EMPTY)
_ENDS = Course(ends=Ending.MESSAGE, onward=Onward.NEVER)
_REPLANS = Course(ends=Ending.NEW_PLAN, onward=Onward.IF_NO_PLAN)


def course_of(action: Action) -> Course:
    """Where control may go after an action.

    >>> course_of(Call("X")).onward, course_of(Goto("S1")).jump, course_of(Respond(())).ends
    (<Onward.ALWAYS: 'always'>, Goto(target='S1'), <Ending.ANSWER: 'answer'>)
    """
    if isinstance(action, Call):  # the most frequent action, hence before the slower `match`
        return NEXT
    match action:
        case Goto():
            return Course(action, onward=Onward.NEVER)
        case Respond():
            return _ANSWERS
        case Terminate():
            return _ENDS
        case Replan():
            return _REPLANS
    assert_never(action)


def course_after_failure(then: Handling | None) -> Course:
    """Where control goes after a step has failed for good: on, if nothing else is said."""
    match then:
        case None:
            return NEXT
        case Goto():
            return Course(then, onward=Onward.NEVER)
        case Terminate():
            return _ENDS
    assert_never(then)


def operands_of(what: Action | Handling) -> tuple[Value, ...]:
    """The values of an action or a failure handling in text order; none for a jump."""
    if isinstance(what, Call):
        named = what.named
        if not named:
            return what.positional
        if len(named) == 1 and not what.positional:
            return (named[0][1],)
        return what.positional + tuple([value for _, value in named])
    match what:
        case Respond(values=values) | Terminate(values=values) | Replan(values=values):
            return values
        case Goto():
            return ()
    assert_never(what)


def action_with_values(action: Action, put: Callable[[Value], Value]) -> Action:
    """The action with each operand replaced by `put` of it."""
    match action:
        case Call(positional=positional, named=named):
            given = tuple([(name, put(value)) for name, value in named])
            return replace(action, positional=tuple(map(put, positional)), named=given)
        case Respond() | Terminate() | Replan():
            return replace(action, values=tuple(map(put, action.values)))
        case Goto():
            return action
    assert_never(action)


def handling_with_values(then: Handling, put: Callable[[Value], Value]) -> Handling:
    """The failure handling with each of its values replaced by `put` of it."""
    match then:
        case Terminate():
            return replace(then, values=tuple(map(put, then.values)))
        case Goto():
            return then
    assert_never(then)


def word_of(what: Action | Handling) -> str:
    """The keyword of an action in the plan language: its tool with `@`, or the control word.

    >>> word_of(Call("READ_FILE")), word_of(Goto("S1"))
    ('@READ_FILE', 'GOTO')
    """
    match what:
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
    assert_never(what)
