"""Version 2 of the IR: a plan as a tree of blocks with typed inputs, sub-plans and failure handling.

`inner_blocks` and `operands` are the one table of what is inside a statement; whoever walks a tree asks them.
Nodes are immutable; equality ignores spans and comments.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from enum import StrEnum
from itertools import chain
from typing import TypeAlias, assert_never

from callsheet.diagnostics import Span
from callsheet.ir.expr import JSON
from callsheet.ir.expression import Expression, variables_in
from callsheet.ir.operations import CallKind, call_kind
from callsheet.ir.types import Maybe, Record, Type
from callsheet.lazy import dataclass

# ------------------------------------------------------------------ failures


@dataclass(frozen=True, slots=True)
class Again:
    """`@RETRY(count, delay=…, backoff=…)`: more attempts after a failed one, with the same arguments.

    The first follows after `delay` seconds (None: the setting of the run), each further wait is `backoff`
    times the one before.
    """

    count: int
    delay: float | None = None
    backoff: float | None = None


@dataclass(frozen=True, slots=True)
class GoOn:
    """`CONTINUE`: the failure becomes the value, and the plan goes on."""


@dataclass(frozen=True, slots=True)
class Use:
    """`USE (value)`: the value takes the place of the result."""

    value: Expression


@dataclass(frozen=True, slots=True)
class Skip:
    """`SKIP`, on a loop: failed items are left out of its list."""


@dataclass(frozen=True, slots=True)
class Leave:
    """`TERMINATE (values)`: end the run with a message."""

    values: tuple[Expression, ...]


ERROR_VARIABLE = "error"
"""The variable that holds the failure in a handler that names none."""


@dataclass(frozen=True, slots=True)
class Handler:
    """`ON_FAIL [KIND, …] { … }`: what is done about a failure of these kinds; of any, if none is named.

    `binds` is the variable that holds the failure inside the block.
    """

    kinds: tuple[str, ...]
    body: Block
    binds: str = ERROR_VARIABLE
    span: Span | None = field(default=None, compare=False, repr=False)


Remedy: TypeAlias = GoOn | Use | Skip | Leave


@dataclass(frozen=True, slots=True)
class Recovery:
    """What a statement says about its failure: further attempts, then a remedy or a handler that fits.

    `final` is the FINALLY block, which runs after success and after failure. At most one of `remedy` and
    `handlers` is given.

    `undo` is given for `ON_FAIL UNDO`, which a TRY says alone: pairs of a tool and the inverse of its calls.
    Then `handlers` has the one block that `sagas` makes of them; both are empty until the tools are known.
    """

    again: Again | None = None
    remedy: Remedy | None = None
    handlers: tuple[Handler, ...] = ()
    final: Block | None = None
    undo: tuple[tuple[str, str], ...] | None = None


# ------------------------------------------------------------------ statements


@dataclass(frozen=True, slots=True)
class Into:
    """`> $name` or `> $name:type`: the variable that a result is stored in, checked against a type."""

    name: str
    type: Type | None = None
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Act:
    """`S1: @TOOL (a, name=b) > $x`: a call of a tool, model operation, agent or person."""

    id: str
    tool: str
    """Canonical: upper case, without `@`."""
    positional: tuple[Expression, ...] = ()
    named: tuple[tuple[str, Expression], ...] = ()
    into: Into | None = None
    recovery: Recovery | None = None
    title: str | None = None
    is_named: bool = True
    """Whether the id is written in the text."""
    comments: tuple[str, ...] = field(default=(), compare=False, repr=False)
    remark: str | None = field(default=None, compare=False, repr=False)
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def kind(self) -> CallKind:
        """What executes the call."""
        return call_kind(self.tool)


@dataclass(frozen=True, slots=True)
class Invoke:
    """`CALL plan (name=value) > $x`: a sub-plan, executed as if it were written here."""

    id: str
    plan: str
    named: tuple[tuple[str, Expression], ...] = ()
    into: Into | None = None
    recovery: Recovery | None = None
    is_named: bool = True
    comments: tuple[str, ...] = field(default=(), compare=False, repr=False)
    remark: str | None = field(default=None, compare=False, repr=False)
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Compute:
    '''`COMPUTE (reads=[$a]) > $b, $c """…"""`: pure Python, run without access to anything.

    `names` are the variables that it reads, `into` those that it sets, under the same names in the source.
    '''

    id: str
    source: str
    names: tuple[str, ...] = ()
    into: tuple[str, ...] = ()
    recovery: Recovery | None = None
    is_named: bool = True
    comments: tuple[str, ...] = field(default=(), compare=False, repr=False)
    remark: str | None = field(default=None, compare=False, repr=False)
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Let:
    """`LET $x = e`: a variable of the place where it stands."""

    id: str
    name: str
    value: Expression
    type: Type | None = None
    comments: tuple[str, ...] = field(default=(), compare=False, repr=False)
    remark: str | None = field(default=None, compare=False, repr=False)
    span: Span | None = field(default=None, compare=False, repr=False)
    is_placeholder: bool = field(default=False, compare=False, repr=False)
    """Whether this value is surely never read: it keeps the place of a variable that inner blocks set."""


@dataclass(frozen=True, slots=True)
class Assign:
    """`SET $x = e`: another value for a variable of an outer place."""

    id: str
    name: str
    value: Expression
    comments: tuple[str, ...] = field(default=(), compare=False, repr=False)
    remark: str | None = field(default=None, compare=False, repr=False)
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Require:
    """`REQUIRE (condition) "message"`: a failure of the kind `require` unless the condition is true."""

    id: str
    condition: Expression
    message: Expression | None = None
    comments: tuple[str, ...] = field(default=(), compare=False, repr=False)
    remark: str | None = field(default=None, compare=False, repr=False)
    span: Span | None = field(default=None, compare=False, repr=False)


class Word(StrEnum):
    """The statements that consist of a word and at most one list of values."""

    RESPOND = "@RESPOND"
    """Ends the run with an answer."""
    TERMINATE = "TERMINATE"
    """Ends the run early with a message."""
    RETURN = "RETURN"
    """Ends a sub-plan with its result."""
    YIELD = "YIELD"
    """The result of the loop's item."""
    NOTE = "NOTE"
    """A remark in the journal."""
    FAIL = "FAIL"
    """A failure with this message; its kind is `Say.kind`."""
    BREAK = "BREAK"
    CONTINUE = "CONTINUE"
    WAIT = "WAIT"
    """A timer: seconds, or a duration."""
    REPLAN = "RE-PLAN"
    """Another plan takes the place of this one; only at the top level of the main plan."""


@dataclass(frozen=True, slots=True)
class Say:
    """A statement of one word with its values; `kind` is that of a FAIL."""

    id: str
    word: Word
    values: tuple[Expression, ...] = ()
    kind: str | None = None
    is_named: bool = False
    comments: tuple[str, ...] = field(default=(), compare=False, repr=False)
    remark: str | None = field(default=None, compare=False, repr=False)
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Branch:
    """One `?IF (condition) { … }` or `ELSE IF`."""

    condition: Expression
    body: Block
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class If:
    """`?IF … { } ELSE IF … { } ELSE { }`; `otherwise` is None without an ELSE."""

    id: str
    branches: tuple[Branch, ...]
    otherwise: Block | None = None
    is_named: bool = True
    comments: tuple[str, ...] = field(default=(), compare=False, repr=False)
    remark: str | None = field(default=None, compare=False, repr=False)
    span: Span | None = field(default=None, compare=False, repr=False)


class Ends(StrEnum):
    """When the items of a loop that run side by side end together."""

    ALL = ""
    """Each runs to its own end."""
    FAILED = "STOP"
    """One that fails stops the others."""
    FIRST = "FIRST"
    """The first that is done stops the others."""


@dataclass(frozen=True, slots=True)
class Foreach:
    """`?FOREACH ($x IN e) [IN ORDER | TOGETHER [STOP | FIRST] [AS DONE] [MAX n]] [LIMIT n] { … } > $list`.

    `limit` takes only the first items; `together` runs items side by side whatever they call, at most `most`
    at a time. With `in_order` each item starts when the one before is done, and the first failure ends the
    loop, as Python's `for` does; otherwise all items run, and then the loop fails if any has failed. As
    `ends` says, a failed item stops the others, as a member of a @PARALLEL STOP does, or the first that is
    done: then the loop gives its result alone, or fails as it has; with ON_FAIL SKIP it is the first that
    succeeds. With `as_done` the results are in the order in which the items have ended.
    """

    id: str
    var: str
    source: Expression
    body: Block
    limit: Expression | None = None
    in_order: bool = False
    together: bool = False
    most: int | None = None
    into: Into | None = None
    recovery: Recovery | None = None
    is_named: bool = True
    comments: tuple[str, ...] = field(default=(), compare=False, repr=False)
    remark: str | None = field(default=None, compare=False, repr=False)
    span: Span | None = field(default=None, compare=False, repr=False)
    ends: Ends = Ends.ALL
    as_done: bool = False

    @property
    def order(self) -> str:
        """What the text says of the order of the items: nothing, IN ORDER, or TOGETHER and its options."""
        if not self.together:
            return "IN ORDER" if self.in_order else ""
        most = "" if self.most is None else f" MAX {self.most}"
        ends = f" {self.ends}" if self.ends else ""
        return "TOGETHER" + ends + " AS DONE" * self.as_done + most


@dataclass(frozen=True, slots=True)
class Repeat:
    """`?REPEAT (max=n, every=d) { … } UNTIL (e)`, or `?REPEAT (max=n) WHILE (e) { … }`.

    Exactly one of `until` and `while_` is given. Running out of `most` rounds is a failure; None, written
    `max="run"`, leaves the bound to the step budget of the run. `every` is the wait between two rounds.
    """

    id: str
    most: Expression | None
    body: Block
    every: Expression | None = None
    until: Expression | None = None
    while_: Expression | None = None
    recovery: Recovery | None = None
    is_named: bool = True
    comments: tuple[str, ...] = field(default=(), compare=False, repr=False)
    remark: str | None = field(default=None, compare=False, repr=False)
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Try:
    """`TRY [WITHIN (e)] { … } ON_FAIL { … } FINALLY { … }`.

    When the seconds or the duration of `within` are over, the block is stopped as a failed member stops the
    others of a @PARALLEL STOP, and the TRY fails as TIMEOUT; null is no limit.
    """

    id: str
    body: Block
    recovery: Recovery
    is_named: bool = False
    comments: tuple[str, ...] = field(default=(), compare=False, repr=False)
    remark: str | None = field(default=None, compare=False, repr=False)
    span: Span | None = field(default=None, compare=False, repr=False)
    within: Expression | None = None


@dataclass(frozen=True, slots=True)
class Parallel:
    """`@PARALLEL [STOP] { … }`: the statements start together; each is done before what follows.

    With `stops` a member that fails stops the others: they fail as CANCELLED before they make another call,
    and the block fails as an ExceptionGroup of the failures.
    """

    id: str
    members: Block
    recovery: Recovery | None = None
    is_named: bool = False
    comments: tuple[str, ...] = field(default=(), compare=False, repr=False)
    remark: str | None = field(default=None, compare=False, repr=False)
    span: Span | None = field(default=None, compare=False, repr=False)
    stops: bool = False


Statement: TypeAlias = (
    Act | Invoke | Compute | Let | Assign | Require | Say | If | Foreach | Repeat | Try | Parallel
)
Block: TypeAlias = tuple[Statement, ...]


# ------------------------------------------------------------------ plans


@dataclass(frozen=True, slots=True)
class Input:
    """`INPUT $name: type = default   # help`. `default` is None together with `is_required`."""

    name: str
    type: Type
    default: JSON = None
    is_required: bool = True
    is_secret: bool = False
    help: str | None = field(default=None, compare=False, repr=False)
    comments: tuple[str, ...] = field(default=(), compare=False, repr=False)
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def must_be_given(self) -> bool:
        """Whether it has no value if none is given: it has no default, and its type is not optional."""
        return self.is_required and not isinstance(self.type, Maybe)


@dataclass(frozen=True, slots=True)
class Origin:
    """`USE name FROM "file"` or `USE name FROM LIBRARY "name@3"`: where a sub-plan was read from.

    `is_inner` says that it came along with a used plan, and has no USE of its own.
    """

    reference: str
    is_library: bool = False
    is_inner: bool = False


@dataclass(frozen=True, slots=True)
class SubPlan:
    """`PLAN name ($t: Ticket) -> str { … }`; with `origin` it was read from elsewhere, and is a USE."""

    name: str
    inputs: tuple[Input, ...]
    body: Block
    result: Type | None = None
    origin: Origin | None = None
    comments: tuple[str, ...] = field(default=(), compare=False, repr=False)
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Tree:
    """The whole of a version 2 plan, apart from its goal and title."""

    body: Block
    inputs: tuple[Input, ...] = ()
    types: tuple[tuple[str, Record], ...] = ()
    plans: tuple[SubPlan, ...] = ()
    result: Type | None = None
    """What the main plan's answer is declared as, in a Python plan."""
    named_plans: Mapping[str, SubPlan] | None = field(default=None, init=False, repr=False, compare=False)
    """The sub-plans by name, kept by `plan`."""

    def plan(self, name: str) -> SubPlan | None:
        """The sub-plan of this name, the first of several; None if there is none."""
        if self.named_plans is None:
            named = {one.name: one for one in reversed(self.plans)}
            object.__setattr__(self, "named_plans", named)
            return named.get(name)
        return self.named_plans.get(name)

    @property
    def named_types(self) -> dict[str, Record]:
        """The records that the plan declares, by name."""
        return dict(self.types)


# ------------------------------------------------------------------ what is inside a statement

_WITHOUT_RECOVERY = (Let, Assign, Require, Say, If)
_CALLS = (Act, Invoke, Compute)
"""Statements whose only blocks are those about their failure."""
_LINES = (Let, Assign, Say, Require)
"""Statements that never have blocks."""


def recovery_of(statement: Statement) -> Recovery | None:
    """What the statement says about its failure; None where it can say nothing."""
    return None if isinstance(statement, _WITHOUT_RECOVERY) else statement.recovery


def is_single(statement: Statement) -> bool:
    """Whether it is certain that a statement has no blocks inside, its own or about its failure."""
    if isinstance(statement, _CALLS):
        recovery = statement.recovery
        return recovery is None or (not recovery.handlers and recovery.final is None)
    return isinstance(statement, _LINES)


def own_blocks(statement: Statement) -> Iterator[Block]:
    """The blocks directly inside a statement that are not about its failure, in the order of the text."""
    match statement:
        case Act() | Invoke() | Compute() | Let() | Assign() | Require() | Say():
            pass
        case If(branches=branches, otherwise=otherwise):
            yield from (branch.body for branch in branches)
            if otherwise is not None:
                yield otherwise
        case Foreach(body=body) | Repeat(body=body) | Try(body=body):
            yield body
        case Parallel(members=members):
            yield members
        case _:
            assert_never(statement)


def inner_blocks(statement: Statement) -> Iterator[Block]:
    """The blocks directly inside a statement in the order of the text, those about its failure last."""
    yield from own_blocks(statement)
    recovery = recovery_of(statement)
    if recovery is not None:
        yield from blocks_of_failure(recovery)


def blocks_of_failure(recovery: Recovery) -> Iterator[Block]:
    """The handlers and the FINALLY block, in the order of the text."""
    yield from (handler.body for handler in recovery.handlers)
    if recovery.final is not None:
        yield recovery.final


def operands(statement: Statement) -> Iterable[Expression]:
    """The expressions that a statement itself evaluates, in the order of the text; none of its blocks."""
    if isinstance(statement, Act) and statement.recovery is None:  # by far the most frequent case
        return [*statement.positional, *[value for _, value in statement.named]]
    return _operands(statement)


def _operands(statement: Statement) -> Iterator[Expression]:  # noqa: PLR0912 - a case for each statement
    match statement:
        case Act(positional=positional, named=named):
            yield from positional
            yield from (value for _, value in named)
        case Invoke(named=named):
            yield from (value for _, value in named)
        case Compute():
            pass
        case Let(value=value) | Assign(value=value):
            yield value
        case Require(condition=condition, message=message):
            yield condition
            if message is not None:
                yield message
        case Say(values=values):
            yield from values
        case If(branches=branches):
            yield from (branch.condition for branch in branches)
        case Foreach(source=source, limit=limit):
            yield source
            if limit is not None:
                yield limit
        case Repeat():
            parts = (statement.most, statement.every, statement.while_, statement.until)
            yield from (part for part in parts if part is not None)
        case Try(within=within):
            if within is not None:
                yield within
        case Parallel():
            pass
        case _:
            assert_never(statement)
    recovery = recovery_of(statement)
    if recovery is not None:
        match recovery.remedy:
            case Use(value=value):
                yield value
            case Leave(values=values):
                yield from values
            case GoOn() | Skip() | None:
                pass


def variables_read(statement: Statement) -> tuple[str, ...]:
    """The variables that a statement itself reads, each once, in the order of the text."""
    found = dict.fromkeys(statement.names) if isinstance(statement, Compute) else dict[str, None]()
    for operand in operands(statement):
        for name in variables_in(operand):
            found[name] = None
    return tuple(found)


def variables_set(statement: Statement) -> tuple[str, ...]:
    """The variables that a statement itself makes or assigns: not those of its blocks, nor a loop's own."""
    match statement:
        case Act(into=into) | Invoke(into=into) | Foreach(into=into):
            return () if into is None else (into.name,)
        case Compute(into=names):
            return names
        case Let(name=name) | Assign(name=name):
            return (name,)
        case Require() | Say() | If() | Repeat() | Try() | Parallel():
            return ()
    assert_never(statement)


def statements(block: Block) -> Iterator[Statement]:
    """All statements of a block and of the blocks inside it, each before what is inside it."""
    stack = list(reversed(block))
    while stack:
        statement = stack.pop()
        yield statement
        if is_single(statement):  # by far the most frequent case
            continue
        inner = list(inner_blocks(statement))
        for one in reversed(inner):
            stack.extend(reversed(one))


def all_statements(tree: Tree) -> Iterator[Statement]:
    """All statements of a plan, those of its sub-plans first."""
    return chain.from_iterable(statements(body) for body in (*(one.body for one in tree.plans), tree.body))


def acts(tree: Tree) -> Iterator[Act]:
    """All calls of a plan, those of its sub-plans first."""
    return (one for one in all_statements(tree) if isinstance(one, Act))
