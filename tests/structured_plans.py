"""Hypothesis strategies for plans of version 2.

`trees()` draws all that the language can say, with any expressions; `programs()` draws plans whose variables
are set before they are read, with the tools of `tests.plans`, which can be checked, proved and run.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hypothesis import strategies as st
from tests.expressions import EXPRESSIONS

from callsheet.frontends.expressions import format_expression, read_expression
from callsheet.ir import Literal, Plan
from callsheet.ir.expression import Expression
from callsheet.ir.failing import Failing
from callsheet.ir.statement_ids import with_ids
from callsheet.ir.tree import (
    Act,
    Again,
    Assign,
    Block,
    Branch,
    Compute,
    Ends,
    Foreach,
    GoOn,
    Handler,
    If,
    Input,
    Into,
    Invoke,
    Leave,
    Let,
    Origin,
    Parallel,
    Recovery,
    Repeat,
    Require,
    Say,
    Skip,
    Statement,
    SubPlan,
    Tree,
    Try,
    Use,
    Word,
)
from callsheet.ir.tree_edits import plan_of_tree, with_own_failures
from callsheet.ir.types import Basic, DictOf, ListOf, Maybe, Named, OneOf, Record, Type

# ---------------------------------------------------------------- all that can be said


def _has_text(node: Expression) -> bool:
    try:
        format_expression(node)
    except ValueError:  # texts nest too deep
        return False
    return True


NAMES = st.sampled_from(["a", "b", "rows", "error", "in_order", "x1"])
ANY = EXPRESSIONS.filter(_has_text) | st.sampled_from(
    [read_expression(text).expression for text in ("$a.b?.c ?? 1", '"${a} $b"', "[x for x in $a]", "{1, 2}")]
)
COMMENTS = st.lists(st.sampled_from(["a remark", "", "  indented", "PLAN x", "}"]), max_size=2).map(tuple)
REMARKS = st.none() | st.sampled_from(["why", "{", "ON_FAIL", "a # b"])
_FIELDS = st.lists(
    st.tuples(st.sampled_from(["id", "title"]), st.sampled_from(Basic)),
    unique_by=lambda pair: pair[0],
    max_size=2,
)
TYPES: st.SearchStrategy[Type] = st.recursive(
    st.sampled_from(Basic)
    | st.just(Named("Ticket"))
    | st.lists(st.sampled_from(["bug", 'a "b"', "é\n", 3, -1, True]), min_size=1, max_size=3).map(
        lambda values: OneOf(tuple(values))
    ),
    lambda inner: st.one_of(
        inner.map(ListOf),
        inner.map(DictOf),
        inner.filter(lambda one: not isinstance(one, Maybe)).map(Maybe),
        _FIELDS.map(lambda pairs: Record(tuple(pairs))),
    ),
    max_leaves=3,
)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
KINDS = st.sampled_from([*Failing, "own", "Weather"])
SOURCES = st.sampled_from(
    [
        "",
        "\n",
        "c = a",
        "for i in a:\n    c = i  # not\n\nd = '\\n'\n",
        '"""x"""',
        "s = '''\n'''\n  \n",
        '""""',
        "}",
    ]
)


UNDOS = st.sampled_from(
    [
        Recovery(undo=()),
        Recovery(undo=(("ADD", "remove(id=result.id)"),)),
        Recovery(undo=(("ADD", "remove(id=result.ids[0], quiet=True)"), ("S_PUT", "put(id=call.id)"))),
    ]
)
"""ON_FAIL UNDO: as tools declare, and with the inverses named."""


@st.composite
def recoveries(draw: st.DrawFn, depth: int) -> Recovery | None:
    again = draw(
        st.none() | st.builds(Again, st.integers(0, 5), st.none() | st.just(0.5), st.none() | st.just(2.0))
    )
    remedy = draw(
        st.none()
        | st.sampled_from([GoOn(), Skip()])
        | st.builds(Use, ANY)
        | st.builds(Leave, st.lists(ANY, max_size=2).map(tuple))
    )
    handlers: tuple[Handler, ...] = ()
    if remedy is None:
        kinds = st.lists(KINDS, max_size=2).map(tuple)
        handler = st.builds(Handler, kinds, blocks(depth), st.sampled_from(["error", "e"]))
        handlers = tuple(draw(st.lists(handler, max_size=2)))
    final = draw(st.none() | blocks(depth))
    if again is None and remedy is None and not handlers and final is None:
        return None
    return Recovery(again, remedy, handlers, final)


def _said(word: Word) -> st.SearchStrategy[Say]:
    count = {Word.YIELD: (1, 1), Word.NOTE: (1, 1), Word.WAIT: (1, 1), Word.FAIL: (1, 1), Word.RETURN: (0, 1)}
    least, most = (0, 0) if word in {Word.BREAK, Word.CONTINUE} else count.get(word, (0, 2))
    kind = st.none() | KINDS if word is Word.FAIL else st.none()
    may_have_id = word in {Word.RESPOND, Word.TERMINATE, Word.REPLAN}
    values = st.lists(ANY, min_size=least, max_size=most).map(tuple)
    return st.builds(
        Say, st.just(""), st.just(word), values, kind, st.booleans() if may_have_id else st.just(False)
    )


def _in_mode(loop: Foreach, mode: int) -> Statement:
    return replace(
        loop,
        in_order=mode == 1,
        together=mode > 1,
        most=3 if mode == 3 else None,
        ends=Ends.FIRST if mode == 7 else Ends.FAILED if mode in {4, 6} else Ends.ALL,
        as_done=mode in {5, 6},
    )


def _until(loop: Repeat, test: Expression, is_until: bool) -> Statement:
    return replace(loop, until=test) if is_until else replace(loop, while_=test)


def _commented(one: Statement, comments: tuple[str, ...], remark: str | None) -> Statement:
    return replace(one, comments=comments, remark=remark)


@st.composite
def statements(draw: st.DrawFn, depth: int) -> Statement:
    names = st.lists(NAMES, max_size=2).map(tuple)
    intos = st.none() | st.builds(Into, NAMES, st.none() | TYPES)
    pairs = st.lists(
        st.tuples(NAMES | st.just("max-results"), ANY), max_size=2, unique_by=lambda pair: pair[0]
    )
    named = pairs.map(tuple)
    own = st.just("")
    simple: list[st.SearchStrategy[Statement]] = [
        st.builds(
            Act, own, st.sampled_from(["READ", "LLM_EXTRACT", "A1"]), st.lists(ANY, max_size=2).map(tuple),
            named, intos, recoveries(depth - 1) if depth else st.none(), st.none(), st.booleans(),
        ),
        st.builds(
            Invoke, own, st.sampled_from(["triage", "used"]), named, intos,
            recoveries(depth - 1) if depth else st.none(), st.booleans(),
        ),
        st.builds(
            Compute, own, SOURCES, names, names,
            recoveries(depth - 1) if depth else st.none(), st.booleans(),
        ),
        st.builds(Let, own, NAMES, ANY, st.none() | TYPES),
        st.builds(Assign, own, NAMES, ANY),
        st.builds(Require, own, ANY, st.none() | ANY),
        *map(_said, Word),
    ]  # fmt: skip
    if not depth:
        return draw(st.one_of(simple))
    inner = blocks(depth - 1)
    recovery = recoveries(depth - 1)
    branches = st.lists(st.builds(Branch, ANY, inner), min_size=1, max_size=3).map(tuple)
    counts = ANY.filter(lambda node: node != Literal("run"))
    compound: list[st.SearchStrategy[Statement]] = [
        st.builds(If, own, branches, st.none() | inner, st.booleans()),
        st.builds(
            _in_mode,
            st.builds(
                Foreach, own, NAMES, ANY, inner, st.none() | ANY, into=intos, recovery=recovery,
                is_named=st.booleans(),
            ),
            st.integers(0, 7),
        ),
        st.builds(
            _until,
            st.builds(
                Repeat, own, st.none() | counts, inner, st.none() | ANY, recovery=recovery,
                is_named=st.booleans(),
            ),
            ANY,
            st.booleans(),
        ),
        st.builds(Try, own, inner, recovery.filter(lambda one: one is not None), st.booleans()),
        st.builds(Try, own, inner, UNDOS, st.booleans(), within=st.none() | ANY),
        st.builds(Parallel, own, inner, recovery, st.booleans(), stops=st.booleans()),
    ]  # fmt: skip
    return draw(st.one_of(*simple, *compound))


def blocks(depth: int) -> st.SearchStrategy[Block]:
    commented = st.builds(_commented, statements(depth), COMMENTS, REMARKS)
    return st.lists(commented, max_size=3).map(tuple)


@st.composite
def inputs(draw: st.DrawFn) -> tuple[Input, ...]:
    names = draw(st.lists(NAMES, max_size=2, unique=True))
    made: list[Input] = []
    for name in names:
        is_required = draw(st.booleans())
        made.append(
            Input(
                name,
                draw(TYPES),
                None if is_required else draw(JSON_VALUES),
                is_required,
                draw(st.booleans()),
                draw(REMARKS),
                draw(COMMENTS),
            )
        )
    return tuple(made)


def _with_written_ids(tree: Tree) -> Tree:
    """Statements whose id is written get one that a person would write."""
    count = 0

    def named(block: Block) -> Block:
        nonlocal count
        out: list[Statement] = []
        for one in block:
            made = one
            if getattr(one, "is_named", False):
                count += 1
                made = replace(one, id=f"S{count}" if count % 5 else f"main.call-{count}")
            out.append(map_all(made))
        return tuple(out)

    def map_all(one: Statement) -> Statement:
        from callsheet.ir.tree_edits import map_blocks

        return map_blocks(one, named)

    plans = tuple(replace(one, body=named(one.body)) for one in tree.plans)
    return with_ids(with_own_failures(replace(tree, body=named(tree.body), plans=plans)))


@st.composite
def trees(draw: st.DrawFn, depth: int = 2) -> Plan:
    """Plans with any statements, expressions, comments and declarations, in or out of order and scope."""
    plans = draw(
        st.lists(
            st.one_of(
                st.builds(SubPlan, st.just("triage"), inputs(), blocks(1), st.none() | TYPES),
                st.builds(
                    SubPlan, st.just("used"), st.just(()), st.just(()), st.none(),
                    st.builds(Origin, st.sampled_from(["triage.ltp", "triage@3"]), st.booleans()),
                ),
            ),
            max_size=2,
            unique_by=lambda one: one.name,
        )
    )  # fmt: skip
    records = ((("Ticket", Record((("id", Basic.INT), ("labels", Maybe(ListOf(Basic.STR)))))),), ())
    body = draw(blocks(depth).filter(bool))
    tree = Tree(body, draw(inputs()), draw(st.sampled_from(records)), tuple(plans), draw(st.none() | TYPES))
    goal = draw(st.none() | st.sampled_from(["Answer", "two\nlines"]))
    return plan_of_tree(_with_written_ids(tree), goal=goal, comments=draw(COMMENTS))


# ---------------------------------------------------------------- what can be run


def _e(text: str) -> Expression:
    return read_expression(text).expression


_TOOLS = st.sampled_from(["READ", "READ", "KEEP", "WRITE", "FAULTY"])
_OF_ONE = st.sampled_from(
    [
        "$v",
        "[$v, 1]",
        '{"k": $v}',
        "[$v]",
        'str($v) + "!"',
        "bool($v)",
        "$v ?? 2",
        "[x for x in [$v, $v]]",
        "$v == $v",
    ]
)
_OF_NONE = st.sampled_from(["1", '"x"', "None", "[1, 2, 3]", '{"k": [1, 2]}', "2 + 3", "True"])
_TESTS = st.sampled_from(["bool($v)", "$v is None", "not $v", "$v == $v", "len([$v]) > 1", "str($v) == 'x'"])


@dataclass
class _Scope:
    """What a place of a program may do: the variables that are set there, and which statements may stand."""

    known: list[str]
    settable: list[str]
    """The variables that SET may assign."""
    fuel: list[int]
    """How many statements may still be drawn, shared by all places."""
    names: list[int]
    """The number of names so far, shared by all places."""
    plans: tuple[str, ...] = ()
    in_loop: bool = False
    may_end: bool = True
    """Whether RESPOND and TERMINATE may stand here."""
    may_leave: bool = True
    """Whether BREAK, CONTINUE and SET may stand here, inside a loop."""
    stops: bool = False
    """Whether groups may stop at the first failure, so that the result depends on the order of arrival."""
    made: list[str] = field(default_factory=list[str])

    def new(self, stem: str = "v") -> str:
        self.names[0] += 1
        return f"{stem}{self.names[0]}"

    def inner(self, *, known: list[str] | None = None, **changes: bool) -> _Scope:
        scope = replace(self, known=[*(self.known if known is None else known)], made=[])
        for name, value in changes.items():
            setattr(scope, name, value)
        return scope


@st.composite
def _values(draw: st.DrawFn, known: list[str]) -> Expression:
    if not known or draw(st.integers(0, 3)) == 0:
        return _e(draw(_OF_NONE))
    return _e(draw(_OF_ONE).replace("$v", f"${draw(st.sampled_from(known))}"))


@st.composite
def _conditions(draw: st.DrawFn, known: list[str]) -> Expression:
    if not known:
        return _e(draw(st.sampled_from(["1 < 2", "2 < 1"])))
    return _e(draw(_TESTS).replace("$v", f"${draw(st.sampled_from(known))}"))


@st.composite
def _handling(draw: st.DrawFn, scope: _Scope, *, is_loop: bool = False) -> tuple[Recovery | None, bool]:
    """What is said about a failure, and whether the result is set whatever happens."""
    choice = draw(st.integers(0, 9))
    if choice < 4 or scope.fuel[0] < 2:
        return None, True
    again = Again(1, 0.0) if choice == 4 or draw(st.booleans()) else None
    if choice == 4:
        return Recovery(again), True
    if choice == 5:
        return Recovery(again, GoOn()), False
    if choice == 6:
        return Recovery(again, Use(draw(_values(scope.known)))), True
    if choice == 7 and is_loop:
        return Recovery(again, Skip()), True
    kinds = draw(
        st.sampled_from([(), ("TOOL",), ("TOOL", "TIMEOUT"), ("TYPE", "VALUE", "INDEX", "KEY"), ("own",)])
    )
    body = draw(_bodies(scope.inner(), 1))
    handlers = (Handler(kinds, body),)
    final = draw(_bodies(scope.inner(may_end=False, may_leave=False), 1)) if choice == 9 else None
    return Recovery(again, None, handlers, final), False


@st.composite
def _acts(draw: st.DrawFn, scope: _Scope) -> Statement:
    recovery, is_set = draw(_handling(scope))
    named = tuple(
        (name, draw(_values(scope.known))) for name in draw(st.sampled_from([("x",), ("x", "y"), ()]))
    )
    into = Into(scope.new()) if draw(st.integers(0, 3)) else None
    if into is not None and is_set:
        scope.known.append(into.name)
        scope.made.append(into.name)
        scope.settable.append(into.name)
    return Act("", draw(_TOOLS), (), named, into, recovery)


@st.composite
def _loops(draw: st.DrawFn, scope: _Scope, depth: int) -> Statement:
    var = scope.new("i")
    source = _e(draw(st.sampled_from(["[1, 2, 3]", "[]", '["x", None]', "range(2)"])))
    if scope.known and draw(st.booleans()):
        source = _e(f"[${draw(st.sampled_from(scope.known))}, 1]")
    modes = ["stop", "first", "done"] * scope.stops
    mode = draw(st.sampled_from(["", "", "order", "together", "max", *modes]))
    may_leave = scope.may_leave and mode in {"", "order"}
    inner = scope.inner(in_loop=True, may_leave=may_leave, may_end=scope.may_end and may_leave)
    inner.known.append(var)
    body = draw(_bodies(inner, depth - 1))
    into = None
    if draw(st.booleans()):
        into = Into(scope.new())
        body = (*body, Say("", Word.YIELD, (draw(_values(inner.known)),)))
    recovery, is_set = draw(_handling(scope, is_loop=True))
    if into is not None and is_set:
        scope.known.append(into.name)
    limit = _e("2") if draw(st.integers(0, 4)) == 0 else None
    ends = {"stop": Ends.FAILED, "first": Ends.FIRST}.get(mode, Ends.ALL)
    return Foreach(
        "", var, source, body, limit, mode == "order", mode in {"together", "max", "stop", "first", "done"},
        2 if mode == "max" else None, into, recovery, ends=ends, as_done=mode == "done",
    )  # fmt: skip


@st.composite
def _rounds(draw: st.DrawFn, scope: _Scope, depth: int) -> Statement:
    most = _e(str(draw(st.integers(1, 3))))
    is_until = draw(st.booleans())
    condition = draw(_conditions(scope.known))
    inner = scope.inner(in_loop=True)
    body = draw(_bodies(inner, depth - 1))
    if is_until and not _leaves(body):
        condition = draw(_conditions(inner.known))
        scope.known.extend(inner.made)
    every = _e('"1s"') if draw(st.booleans()) else None
    if is_until:
        return Repeat("", most, body, every, condition)
    return Repeat("", most, body, every, None, condition)


def _leaves(body: Block) -> bool:
    from callsheet.ir.tree import statements as all_inside

    return any(isinstance(one, Say) and one.word in {Word.BREAK, Word.CONTINUE} for one in all_inside(body))


@st.composite
def _choices(draw: st.DrawFn, scope: _Scope, depth: int) -> Statement:
    count = draw(st.integers(1, 2))
    conditions = [draw(_conditions(scope.known)) for _ in range(count)]
    inner = [scope.inner() for _ in range(count + 1)]
    bodies = [draw(_bodies(one, depth - 1)) for one in inner]
    has_else = draw(st.booleans())
    if has_else and draw(st.booleans()):
        name = scope.new()
        bodies = [
            (*body, Let("", name, draw(_values(one.known)))) if not _ends(body) else body
            for body, one in zip(bodies, inner, strict=True)
        ]
        if not all(map(_ends, bodies)):
            scope.known.append(name)
            scope.made.append(name)
            scope.settable.append(name)
    branches = tuple(map(Branch, conditions, bodies))
    return If("", branches, bodies[-1] if has_else else None)


def _ends(body: Block) -> bool:
    last = body[-1] if body else None
    return isinstance(last, Say) and last.word not in {Word.YIELD, Word.NOTE, Word.WAIT}


_INVERSES = st.sampled_from(
    [
        (("WRITE", "keep(x=call.x)"), ("KEEP", "write(x=result, y=call.y)")),
        (("WRITE", "write(x=result, y=True)"),),
        (("KEEP", "faulty(x=result)"),),
    ]
)
"""Of calls that `programs` make: each other's, one's own, and one that fails."""


@st.composite
def _attempts(draw: st.DrawFn, scope: _Scope, depth: int) -> Statement:
    final = draw(_bodies(scope.inner(may_end=False, may_leave=False), 1)) if draw(st.booleans()) else None
    body = draw(_bodies(scope.inner(), depth - 1))
    handlers: tuple[Handler, ...] = ()
    if final is None or draw(st.booleans()):
        stopped = [("CANCELLED",)] * scope.stops
        timed = [("TIMEOUT",)] * scope.stops
        kinds = draw(st.sampled_from([(), ("TOOL",), ("own", "REQUIRE"), *stopped, *timed]))
        inner = scope.inner()
        said = Say("", Word.NOTE, (_e('"${error.kind}"'),))
        handlers = (Handler(kinds, (said, *draw(_bodies(inner, depth - 1)))),)
    again = Again(1, 0.0) if draw(st.integers(0, 4)) == 0 else None
    if draw(st.integers(0, 2)) == 0:
        body = (Try("", body, Recovery(undo=draw(_INVERSES))),)
    within = _e(draw(st.sampled_from(["0", "2", "None"]))) if scope.stops and draw(st.booleans()) else None
    return Try("", body, Recovery(again, None, handlers, final), within=within)


@st.composite
def _together(draw: st.DrawFn, scope: _Scope, depth: int) -> Statement:
    members: list[Statement] = []
    made: list[str] = []
    for _ in range(draw(st.integers(1, 3))):
        inner = scope.inner(may_end=False, may_leave=False)
        inner.settable = []
        members.append(draw(_acts(inner) if draw(st.booleans()) else _one(inner, depth - 1)))
        made.extend(inner.made)
    scope.known.extend(made)
    return Parallel("", tuple(members), stops=scope.stops and draw(st.booleans()))


@st.composite
def _calls(draw: st.DrawFn, scope: _Scope) -> Statement:
    recovery, is_set = draw(_handling(scope))
    into = Into(scope.new()) if draw(st.booleans()) else None
    named = (("x", draw(_values(scope.known))),)
    if into is not None and is_set:
        scope.known.append(into.name)
        scope.made.append(into.name)
    return Invoke("", draw(st.sampled_from(scope.plans)), named, into, recovery)


@st.composite
def _lets(draw: st.DrawFn, scope: _Scope) -> Statement:
    value = draw(_values(scope.known))
    if scope.may_leave and scope.settable and draw(st.booleans()):
        name = draw(st.sampled_from(scope.settable))
        if name in scope.known:
            return Assign("", name, value)
    name = scope.new()
    scope.known.append(name)
    scope.made.append(name)
    scope.settable.append(name)
    return Let("", name, value)


@st.composite
def _words(draw: st.DrawFn, scope: _Scope) -> Statement:
    value = draw(_values(scope.known))
    choices = [Word.NOTE, Word.FAIL, Word.WAIT]
    if scope.may_end:
        choices += [Word.RESPOND, Word.TERMINATE]
    if scope.in_loop and scope.may_leave:
        choices += [Word.BREAK, Word.CONTINUE]
    word = draw(st.sampled_from(choices))
    match word:
        case Word.BREAK | Word.CONTINUE:
            return Say("", word)
        case Word.WAIT:
            return Say("", word, (_e("1"),))
        case Word.FAIL:
            return Say("", word, (_e("'no'"),), draw(st.sampled_from([None, "own"])))
        case _:
            return Say("", word, (value,))


@st.composite
def _one(draw: st.DrawFn, scope: _Scope, depth: int) -> Statement:
    scope.fuel[0] -= 1
    kinds = [_acts(scope), _acts(scope), _lets(scope)]
    if depth > 0 and scope.fuel[0] > 0:
        kinds += [make(scope, depth) for make in (_choices, _loops, _rounds, _attempts, _together)]
    if scope.plans:
        kinds.append(_calls(scope))
    choice = draw(st.integers(0, len(kinds) + 1))
    if choice == len(kinds):
        return Require("", draw(_conditions(scope.known)), _e("'must'"))
    if choice > len(kinds):
        return Say("", Word.NOTE, (draw(_values(scope.known)),))
    return draw(kinds[choice])


@st.composite
def _bodies(draw: st.DrawFn, scope: _Scope, depth: int) -> Block:
    """A block; `scope` then has what it sets."""
    count = draw(st.integers(0 if scope.fuel[0] < 0 else 1, 3))
    body = [draw(_one(scope, depth)) for _ in range(count)]
    if depth > 0 and draw(st.integers(0, 7)) == 0:
        body.append(draw(_words(scope)))
    return tuple(body)


@st.composite
def programs(draw: st.DrawFn, depth: int = 3, fuel: int = 14, *, stops: bool = False) -> Plan:
    """Plans in which each variable is set before it is read, on every path; their inputs are `a` and `b`.

    They call READ, KEEP, WRITE and FAULTY with arguments `x` and `y` (`tests.plans.FACTS`), have at most some
    twenty statements, and end: loops are over short lists, and ?REPEAT has at most three rounds.
    """
    names = [0]
    plans: tuple[SubPlan, ...] = ()
    if draw(st.booleans()):
        scope = _Scope(["x"], [], [4], names, may_end=False, stops=stops)
        body = draw(_bodies(scope, 1))
        result = Say("", Word.RETURN, (draw(_values(scope.known)),))
        plans = (SubPlan("part", (Input("x", Basic.JSON),), (*body, result)),)
    scope = _Scope(["a", "b"], [], [fuel], names, tuple(one.name for one in plans), stops=stops)
    main: list[Statement] = []
    while len(main) < 5 and scope.fuel[0] > 0:
        main.append(draw(_one(scope, depth)))
    answer = Say("", Word.RESPOND, (draw(_values(scope.known)),), None, True)
    given = (Input("a", Basic.JSON), Input("b", Basic.JSON, 1, is_required=False))
    tree = Tree((*main, answer), given, (), plans)
    return plan_of_tree(_with_written_ids(tree), goal="A random plan")
