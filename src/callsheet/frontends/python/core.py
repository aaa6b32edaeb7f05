"""What a Python function is made into first: pure Python statements between calls, waits and blocks.

Expressions in it are Python's and await nothing; all that awaits is a statement of its own. Nodes are
compared by identity, as analyses keep facts about each of them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, TypeAlias, assert_never

from callsheet.frontends.python.source import names_bound


@dataclass(eq=False, slots=True)
class Pure:
    """A Python statement that neither awaits nor leads out of where it stands."""

    stmt: ast.stmt
    bound: frozenset[str] | None = field(default=None, init=False)
    """What it binds, once that was asked for."""
    takes_back: str | None = None
    """The variable that it sets to what a call of an async function has made of it."""
    of: Call | None = None
    """That call."""
    is_another: bool = False
    """Whether a call may have given the variable another object, or have left it its own."""
    segment: int | None = None
    """The run of statements, by its number, that is one COMPUTE, since its variables share objects."""
    is_link: bool = False
    """Whether it says or restores which objects variables share."""
    is_placeholder: bool = False
    """Whether nothing reads the value that it gives a variable."""


@dataclass(eq=False, slots=True)
class Argument:
    """An argument of a call; `name` is None for one that is given by its place."""

    name: str | None
    value: ast.expr


@dataclass(eq=False, slots=True)
class Call:
    """A call of a tool or of an async function of the program, and the variable for its result."""

    into: str | None
    callee: str
    helper: ast.AsyncFunctionDef | None
    arguments: list[Argument]
    node: ast.AST
    changes: tuple[str, ...] = ()
    """The variables whose new values stand behind the result, in a tuple."""
    added: tuple[str, ...] = ()
    """The parameters that are given something empty, whose values at the end are in `changes`."""
    is_apart: bool = False
    """Whether nobody takes the result itself from that tuple."""
    is_started: bool = False
    """Whether the program goes on after it to its next await before anything of it happens."""


@dataclass(eq=False, slots=True)
class Wait:
    """A timer of this many seconds."""

    seconds: ast.expr
    node: ast.AST


@dataclass(eq=False, slots=True)
class Choice:
    """`if test: then else: otherwise`."""

    test: ast.expr
    then: Block
    otherwise: Block
    node: ast.AST
    of: Core | None = None
    """The loop or attempt whose `else` this is: `then` follows if it ended by itself."""


@dataclass(eq=False, slots=True)
class Loop:
    """`for target in source: body`; with `into` each item yields a value (`Give`), and they make a list.

    `together` starts the items side by side, at most `most` at a time; with `stops` a failure stops the
    others, with `first` what is done first does, with `as_done` the list is in the order in which the items
    have ended.
    """

    target: str
    source: ast.expr
    body: Block
    node: ast.AST
    into: str | None = None
    together: bool = False
    most: int | None = None
    stops: bool = False
    first: bool = False
    as_done: bool = False


@dataclass(eq=False, slots=True)
class While:
    """`while test: body`."""

    test: ast.expr
    body: Block
    node: ast.AST


@dataclass(eq=False, slots=True)
class Caught:
    """`except names as binds: body`; kinds is empty for all."""

    kinds: tuple[str, ...]
    binds: str
    body: Block
    node: ast.AST
    unsets: frozenset[str] = frozenset()
    """The name of the error in the program, which has no value after the handler."""


@dataclass(eq=False, slots=True)
class Attempt:
    """`try: body except …: … finally: final`, or `async with undo(…): body` with the inverses by tool.

    `within` is how many seconds the body may take, None for any time.
    """

    body: Block
    handlers: list[Caught]
    final: Block | None
    node: ast.AST
    undo: tuple[tuple[str, str], ...] | None = None
    within: ast.expr | None = None


@dataclass(eq=False, slots=True)
class Together:
    """Statements that start side by side; each is a `Call`, `Loop`, `Wait` or an `Attempt` around one.

    With `stops` a failure stops the others.
    """

    members: Block
    node: ast.AST
    stops: bool = False


@dataclass(eq=False, slots=True)
class Return:
    """`return value`; with `replans` it is `return await replan(value)`."""

    value: ast.expr | None
    node: ast.AST
    replans: bool = False


@dataclass(eq=False, slots=True)
class Give:
    """The value of a loop's item."""

    value: ast.expr
    node: ast.AST


@dataclass(eq=False, slots=True)
class Break:
    """`break`."""

    node: ast.AST


@dataclass(eq=False, slots=True)
class Continue:
    """`continue`."""

    node: ast.AST


@dataclass(eq=False, slots=True)
class Fail:
    """`raise`: a message and a kind; `again` is the variable of a failure that is raised once more."""

    message: ast.expr | None
    kind: str | None
    node: ast.AST
    again: str | None = None


@dataclass(eq=False, slots=True)
class Remark:
    """A line that the program prints or logs."""

    value: ast.expr
    node: ast.AST


Core: TypeAlias = (
    Pure
    | Call
    | Wait
    | Choice
    | Loop
    | While
    | Attempt
    | Together
    | Return
    | Give
    | Break
    | Continue
    | Fail
    | Remark
)
Block: TypeAlias = "list[Core]"


@dataclass(eq=False, slots=True)
class Function:
    """An async function: its parameters, what it does, and what its calls have to give it beside arguments.

    `captured` are the variables of the function around it that it reads.
    """

    name: str
    parameters: list[str]
    defaults: dict[str, ast.expr]
    body: Block
    node: ast.AsyncFunctionDef
    captured: tuple[str, ...] = ()
    annotations: dict[str, ast.expr] = field(default_factory=dict[str, ast.expr])
    most: int | None = None
    """How many of its calls a semaphore around its body lets run at a time."""
    changes: tuple[str, ...] = ()
    """Those of its parameters and captured variables that it changes; it returns them behind its result."""
    sets: frozenset[str] = frozenset()
    """The captured variables that it may give another object; all others keep theirs."""
    always_sets: frozenset[str] = frozenset()
    """Those to which it gives one in each call."""
    changes_in_place: frozenset[str] = frozenset()
    """The captured variables whose objects it changes."""
    made_here: dict[str, str] = field(default_factory=dict[str, str])
    """Those that it makes itself where it is given None, each with the variable that says whether it did."""
    is_late: bool = True
    """Whether nothing that could fail follows a change."""
    keeps_failure: bool = False
    """Whether a failure is returned, behind what was changed until then."""
    is_apart: bool = False
    """Whether its calls may run one after another instead of side by side: none sees what others change."""


def blocks_of(one: Core) -> Iterator[Block]:
    """The blocks inside a statement, in order."""
    match one:
        case Choice(then=then, otherwise=otherwise):
            yield then
            yield otherwise
        case Loop(body=body) | While(body=body):
            yield body
        case Attempt(body=body, handlers=handlers, final=final):
            yield body
            yield from (each.body for each in handlers)
            if final is not None:
                yield final
        case Together(members=members):
            yield members
        case Pure() | Call() | Wait() | Return() | Give() | Break() | Continue() | Fail() | Remark():
            pass
        case _:
            assert_never(one)


def parts_of(one: Core) -> list[ast.AST]:
    """The Python trees that a statement itself evaluates, in order; none of its blocks."""
    match one:
        case Pure(stmt=stmt):
            return [stmt]
        case Call(arguments=arguments):
            return [each.value for each in arguments]
        case Wait(seconds=value) | Give(value=value) | Remark(value=value):
            return [value]
        case Choice(test=test) | While(test=test):
            return [test]
        case Loop(source=source):
            return [source]
        case Return(value=value):
            return [] if value is None else [value]
        case Fail(message=message):
            return [] if message is None else [message]
        case Attempt(within=within):
            return [] if within is None else [within]
        case Together() | Break() | Continue():
            return []
    assert_never(one)


def bound_by(one: Core) -> frozenset[str]:
    """The names that a statement itself may bind."""
    if isinstance(one, Pure):
        if one.bound is None:
            one.bound = frozenset(names_bound(one.stmt))
        return one.bound
    found: set[str] = set()
    for part in parts_of(one):
        found |= names_bound(part)
    if isinstance(one, (Call, Loop)) and one.into:
        found.add(one.into)
    return frozenset(found)


_ALONE = (Pure, Call, Wait, Return, Give, Break, Continue, Fail, Remark)
"""Statements without blocks."""


def goes_on(block: Block) -> bool:
    """Whether something behind a block may follow it: false if it surely returns, fails or leaves a loop.

    >>> node = ast.Pass()
    >>> goes_on([Choice(ast.Constant(1), [Return(None, node)], [Fail(None, None, node)], node)])
    False
    """
    if not block:
        return True
    match block[-1]:
        case Return() | Fail() | Break() | Continue():
            return False
        case Choice(then=then, otherwise=otherwise):
            return goes_on(then) or goes_on(otherwise)
        case Attempt(body=body, handlers=handlers):
            return goes_on(body) or any(goes_on(one.body) for one in handlers)
        case _:
            return True


def all_of(block: Block) -> Iterator[Core]:
    """All statements of a block and of the blocks inside it."""
    under_way: list[Iterator[Core]] = [iter(block)]
    while under_way:
        one = next(under_way[-1], None)
        if one is None:
            under_way.pop()
        else:
            yield one
            if not isinstance(one, _ALONE):
                under_way.append(chain.from_iterable(blocks_of(one)))


def is_set_if_none(body: Block, name: str) -> bool:
    """Whether a function sets its parameter only where it is None, to what is then its own."""
    return all(name not in bound_by(one) or _is_default(one, name) for one in all_of(body))


def _asks_for_none(test: ast.expr, name: str, op: type[ast.cmpop] = ast.Is) -> bool:
    match test:
        case ast.Compare(left=ast.Name(id=known), ops=[one], comparators=[ast.Constant(value=None)]):
            return known == name and isinstance(one, op)
        case _:
            return False


def _is_default(one: Core, name: str) -> bool:
    """Whether a statement gives a parameter a value only where it is None, or takes it back."""
    match one:
        case Pure(stmt=ast.If(test=test, body=body, orelse=[])):
            return _asks_for_none(test, name) and all(isinstance(each, ast.Assign) for each in body)
        case Pure(
            stmt=ast.Assign(targets=[ast.Name()], value=ast.IfExp(test=test, orelse=ast.Name(id=known)))
        ):
            return known == name and _asks_for_none(test, name)
        case Pure(stmt=ast.Assign(targets=[ast.Name()], value=ast.IfExp(test=test, body=ast.Name(id=known)))):
            return known == name and _asks_for_none(test, name, ast.IsNot)
        case _:
            return isinstance(one, Pure) and one.takes_back == name


def bound_names(block: Block) -> frozenset[str]:
    """All variables that the statements of a function set."""
    found: set[str] = set()
    for one in all_of(block):
        found |= bound_by(one)
        if isinstance(one, Loop):
            found.add(one.target)
        if isinstance(one, Attempt):
            found |= {each.binds for each in one.handlers}
    return frozenset(found)


def is_repeated(call: Call, block: Block) -> bool:
    """Whether a call is inside a loop."""
    loops = (one for one in all_of(block) if isinstance(one, (Loop, While)))
    return any(one is call for loop in loops for one in all_of(loop.body))


def is_made_before(name: str, call: Call, block: Block) -> bool:
    """Whether a variable holds, at a call, a new object of the same run of the block that the call is in."""
    for number, one in enumerate(block):
        if one is call:
            before = next((each for each in reversed(block[:number]) if name in bound_names([each])), None)
            return before is not None and _makes(before, name)
        if any(is_made_before(name, call, inner) for inner in blocks_of(one)):
            return True
    return False


def _makes(one: Core, name: str) -> bool:
    """Whether a statement sets a variable to an object that nothing else holds."""
    match one:
        case Call(into=into, helper=None):
            return into == name and not one.is_started
        case Pure(stmt=ast.Assign(targets=[ast.Name(id=into)], value=value)):
            return into == name and isinstance(value, _NEW)
        case _:
            return False


_NEW: Final = (ast.Dict, ast.List, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)


def gives_of(block: Block) -> Iterator[Give]:
    """What the items of a loop give: not those of loops inside it that make lists of their own."""
    for one in block:
        if isinstance(one, Give):
            yield one
        if not (isinstance(one, Loop) and one.into is not None):
            for inner in blocks_of(one):
                yield from gives_of(inner)


def with_appends(block: Block, into: str) -> Block:
    """A block whose values are put into a list by statements."""
    for one in block:
        if isinstance(one, Loop) and one.into is not None:
            continue
        for inner in blocks_of(one):
            inner[:] = with_appends(inner, into)
    made: Block = []
    for one in block:
        if isinstance(one, Give):
            append = ast.Attribute(ast.Name(into, ast.Load()), "append", ast.Load())
            stmt = ast.copy_location(ast.Expr(ast.Call(append, [one.value], [])), one.node)
            made.append(Pure(ast.fix_missing_locations(stmt)))
        else:
            made.append(one)
    return made
