"""Which inputs of a COMPUTE lead to which of its outputs, and which of them its failures test.

In: Python source. Out: its definitions and uses by name, without regard to order: what depends on a name
depends on everything that any statement puts into it, and on all that decides whether the statement runs.
What is not known to leave its operands alone (`python_words`) joins everything that its statement names. A
source that cannot be read depends on everything.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache

from callsheet.policy import python_words as words
from callsheet.policy.python_syntax import (
    NotUnderstood,
    all_inside,
    all_names,
    assignments,
    divides,
    form_of,
    free_names,
    has_defaults,
    holds_iterator,
    is_literal,
    is_new,
    is_pair,
    may_fail_when_called,
    names_changed_by,
    names_deciding,
    names_read,
    names_shared,
    names_stored,
    names_stored_by,
    own_names_read,
    own_nodes,
    roots_of,
    scoped,
)


@dataclass(slots=True)
class ProgramFlow:
    """The names that each name is made of, and the names that tests of content read.

    `may_test` says that values of different forms may meet, so that a failure may tell a bit of content;
    `texts` are the texts that the program writes, `spells` whether it can make texts of numbers. Without
    `is_read` the source is no Python that is understood, and everything depends on everything.
    """

    sources: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    read_by_tests: set[str] = field(default_factory=set[str])
    tests_content: bool = False
    may_test: bool = False
    reads_clock: bool = False
    prints: bool = False
    texts: tuple[str, ...] = ()
    spells: bool = False
    is_read: bool = True

    def inputs_of(self, name: str, given: Iterable[str]) -> frozenset[str]:
        """Those of the given names that a name depends on."""
        return frozenset(given) & self._all_before({name}) if self.is_read else frozenset(given)

    def tested(self, given: Iterable[str]) -> frozenset[str]:
        """Those of the given names that decide whether the program fails by a test of content."""
        return frozenset(given) & self._all_before(self.read_by_tests) if self.is_read else frozenset(given)

    def _all_before(self, names: Iterable[str]) -> frozenset[str]:
        return _closure(names, self.sources)


def _closure(names: Iterable[str], edges: dict[str, set[str]]) -> frozenset[str]:
    seen = set(names)
    waiting = list(seen)
    while waiting:
        for one in edges.get(waiting.pop(), ()):
            if one not in seen:
                seen.add(one)
                waiting.append(one)
    return frozenset(seen)


@lru_cache(maxsize=256)
def program_flow(source: str) -> ProgramFlow:
    """The flow of a program.

    >>> flow = program_flow("b = a + 1\\nif c:\\n    d = 2")
    >>> sorted(flow.inputs_of("b", "ac")), sorted(flow.inputs_of("d", "ac")), flow.tests_content
    (['a'], ['c'], False)
    """
    try:
        parsed = ast.parse(source)
        texts = _texts(parsed)
        reader = _Reader(scoped(parsed))
        flow = reader.read()
    except (SyntaxError, ValueError, RecursionError, NotUnderstood):
        return ProgramFlow(tests_content=True, may_test=True, reads_clock=True, spells=True, is_read=False)
    flow.texts = texts
    names = {one.id for one in ast.walk(parsed) if isinstance(one, ast.Name)}
    attributes = {one.attr for one in ast.walk(parsed) if isinstance(one, ast.Attribute)}
    flow.spells = not words.SPELLING.isdisjoint(names | attributes)
    flow.prints = "print" in names
    flow.reads_clock = not words.CLOCKS.isdisjoint(names | attributes)
    return flow


def _texts(parsed: ast.Module) -> tuple[str, ...]:
    found = (one.value for one in ast.walk(parsed) if isinstance(one, ast.Constant))
    return tuple(dict.fromkeys(one for one in found if isinstance(one, str)))


class _Reader:
    def __init__(self, parsed: ast.Module) -> None:
        self._body = parsed.body
        self.flow = ProgramFlow()
        self._shares: dict[str, set[str]] = {}
        """The names whose objects a name may hold, or hold a part of."""
        self._changed: set[str] = set()
        self._suspects: set[str] = set()
        """Names that may hold what changes something when it is called, or when it is gone through."""
        self._functions: dict[str, ast.FunctionDef] = {}
        self._testing: set[str] = set()
        """Functions that test content."""
        self._made: dict[str, list[ast.expr | None]] = {}
        """What each name is made of where it is assigned; None for anything but a plain assignment."""
        self._varied: set[str] = set()
        """Names that are assigned under a condition."""
        self._surely_set: frozenset[str] = frozenset()
        """Names that are assigned without a condition too, as far as the text shows."""
        self._keyed: set[str] = set()
        """Names of containers that the program fills, so that a literal key or index may be absent."""
        self._records: set[str] = set()
        """Classes without methods: they only make records."""

    def read(self) -> ProgramFlow:
        """Read the whole program."""
        for node in all_inside(self._body):
            if isinstance(node, ast.FunctionDef):
                self._functions[node.name] = node
            elif isinstance(node, ast.ClassDef) and not node.bases:
                self._records.add(node.name)
            self._note_made(node)
            if isinstance(node, ast.If | ast.While | ast.Try | ast.Match | ast.With):
                inner = all_inside([node])
                next(inner)
                self._varied |= frozenset[str]().union(*map(names_stored_by, inner))
        for block in (self._body, *(function.body for function in self._functions.values())):
            self._surely_set |= frozenset[str]().union(*map(names_stored_by, block))
        self._find_suspects()
        self._find_testing()
        self._block(self._body, frozenset())
        for name in self._changed:
            for one in _closure({name}, self._shares):
                self._lead({name}, {one})
        return self.flow

    # ------------------------------------------------------------ what is known before the walk

    def _note_made(self, node: ast.stmt) -> None:
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    if isinstance(target, ast.Name):
                        self._made.setdefault(target.id, []).append(value)
                    else:
                        self._note_other(target)
            case ast.AnnAssign(target=ast.Name(id=name), value=value) if value is not None:
                self._made.setdefault(name, []).append(value)
            case ast.AugAssign(target=ast.Name(id=name), op=op, value=value):
                made = ast.BinOp(ast.Name(name, ast.Load()), op, value)
                self._made.setdefault(name, []).append(made)
            case ast.AugAssign(target=target) | ast.For(target=target):
                self._note_other(target)
            case _:
                pass
        for one in own_nodes(node):
            if isinstance(one, ast.Attribute | ast.Subscript) and not isinstance(one.ctx, ast.Load):
                self._keyed |= roots_of(one)
            elif isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute):
                if one.func.attr in words.CHANGING:
                    self._keyed |= roots_of(one.func)
            elif isinstance(one, ast.NamedExpr | ast.comprehension):
                self._note_other(one.target)

    def _note_other(self, target: ast.AST) -> None:
        for name in names_stored(target):
            self._made.setdefault(name, []).append(None)

    def _find_suspects(self) -> None:
        """Suspects are found until there are no more: functions that change something, and what holds one."""
        every = list(all_inside(self._body))
        count = -1
        while count != len(self._suspects):
            count = len(self._suspects)
            for name, function in self._functions.items():
                if name not in self._suspects and self._changes_outside(function):
                    self._suspects.add(name)
            for statement in every:
                if isinstance(statement, ast.FunctionDef):
                    continue
                if self._is_unknown(statement) or holds_iterator(statement):
                    self._suspects |= names_stored_by(statement)

    def _changes_outside(self, function: ast.FunctionDef) -> bool:
        for statement in all_inside(function.body):
            if isinstance(statement, ast.FunctionDef | ast.ClassDef | ast.Global | ast.Nonlocal):
                return True
            if self._is_unknown(statement):
                return True
            roots = names_changed_by(statement)
            if roots is None or not all(self._is_fresh(name, function.name) for name in roots):
                return True
            if any(not name.startswith(f"{function.name}.") for name in names_stored_by(statement)):
                return True
        return False

    def _is_fresh(self, name: str, function: str) -> bool:
        """Whether a variable of a function only ever holds what the function itself has made."""
        made = self._made.get(name, [None])
        return name.startswith(f"{function}.") and all(one is not None and is_new(one) for one in made)

    def _find_testing(self) -> None:
        calls = {name: set(names_read(one)) & set(self._functions) for name, one in self._functions.items()}
        for name, called in calls.items():
            if name in _closure(called, calls):  # it calls itself, as deep as its data says
                self._testing.add(name)
        count = -1
        while count != len(self._testing):
            count = len(self._testing)
            for name, function in self._functions.items():
                if any(
                    self._is_test(node)
                    for statement in all_inside(function.body)
                    for node in own_nodes(statement)
                ):
                    self._testing.add(name)

    def _is_unknown(self, statement: ast.AST) -> bool:
        """Whether a statement does what is not known to leave alone whatever it names."""
        called: set[int] = set()
        for node in own_nodes(statement):
            match node:
                case ast.Call(func=func):
                    called.add(id(func))
                    if not self._is_known(func):
                        return True
                case ast.Name(id=name, ctx=ast.Load()) if name in self._suspects:
                    return True
                case ast.Attribute(attr=attr, ctx=ast.Load()) if attr in words.CHANGING:
                    if id(node) not in called:
                        return True
                case ast.Lambda(body=body) if names_changed_by(body) != frozenset():
                    return True
                case ast.Yield() | ast.YieldFrom() | ast.Await():
                    return True
                case _:
                    pass
        return False

    def _is_known(self, func: ast.expr) -> bool:
        """Whether what is called leaves its arguments alone, or is a method that changes its receiver."""
        match func:
            case ast.Name(id=name):
                known = name in words.FUNCTIONS or name in self._functions or name in self._records
                return known and name not in self._suspects
            case ast.Attribute(value=ast.Name(id=module), attr=attr) if module in words.MODULES:
                return attr not in words.CHANGING
            case ast.Attribute(attr=attr):
                return attr in words.METHODS or (attr in words.CHANGING and bool(roots_of(func)))
            case _:
                return False

    # ------------------------------------------------------------ the walk

    def _lead(self, sources: Iterable[str], targets: Iterable[str]) -> None:
        sources = set(sources)
        for target in targets:
            self.flow.sources.setdefault(target, set()).update(sources)

    def _block(self, statements: Iterable[ast.stmt], control: frozenset[str]) -> None:
        """Add what statements do that `control` decides about."""
        for statement in statements:
            self._statement(statement, control)

    def _statement(self, statement: ast.stmt, control: frozenset[str]) -> None:
        self._tests(statement, control)
        self._own(statement, control)
        match statement:
            case ast.If(test=test, body=body, orelse=orelse):
                self._block([*body, *orelse], control | names_read(test))
            case ast.While(test=test, body=body, orelse=orelse):
                self._block([*body, *orelse], control | names_read(test) | names_deciding(body))
            case ast.For(iter=source, body=body, orelse=orelse):
                self._block([*body, *orelse], control | names_read(source) | names_deciding(body))
            case ast.Try(body=body, handlers=handlers, orelse=orelse, finalbody=final):
                inner = control.union(*(names_read(one) for one in body))
                for handler in handlers:
                    if handler.name is not None:
                        self._lead(inner, {handler.name})
                    self._block(handler.body, inner)
                self._block([*body, *orelse, *final], inner)
            case ast.FunctionDef(name=name, body=body):
                self._lead(free_names(statement), {name})
                if name in self._suspects:
                    every = {name, *all_names(statement)}
                    self._lead(every, every)
                self._block(body, control)
            case ast.ClassDef(name=name):
                self._lead(names_read(statement) | control, {name})
            case ast.With() | ast.Match():
                every = all_names(statement)
                self._lead(every | control, every)
                bodies = (
                    [statement.body]
                    if isinstance(statement, ast.With)
                    else [case.body for case in statement.cases]
                )
                for body in bodies:
                    self._block(body, control | every)
            case _:
                pass

    def _own(self, statement: ast.stmt, control: frozenset[str]) -> None:
        """What a statement does besides the statements inside it."""
        if isinstance(statement, ast.FunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom):
            return
        own = list(own_nodes(statement))
        read = control | own_names_read(statement)
        if isinstance(statement, ast.For):  # how far it goes is what its target is at last
            read |= names_deciding(statement.body)
        stored = names_stored_by(statement)
        if self._is_unknown(statement) or names_changed_by(statement) is None:
            every = read | stored | {one for node in own for one in all_names(node)}
            self._lead(every, every - control)
            self._share(every - control, every - control)
            self._changed |= every - control
            return
        self._lead(read, stored)
        for target, value in assignments(statement):
            self._share(names_shared(value), names_stored(target))
        changed = (names_changed_by(statement) or frozenset()) | self._touched(own)
        self._lead(read, changed)
        self._share(read - control, changed)
        self._changed |= changed
        if isinstance(statement, ast.AugAssign):
            self._changed |= names_stored(statement.target)

    def _touched(self, own: Iterable[ast.AST]) -> frozenset[str]:
        """The variables with defaults that are read by a key, which then has one."""
        roots = {name for one in own if isinstance(one, ast.Subscript) for name in roots_of(one)}
        return frozenset(name for name in roots if any(map(has_defaults, self._made.get(name, ()))))

    def _share(self, sources: Iterable[str], targets: Iterable[str]) -> None:
        for target in targets:
            self._shares.setdefault(target, set()).update(sources)

    # ------------------------------------------------------------ tests of content

    def _tests(self, statement: ast.stmt, control: frozenset[str]) -> None:
        """Note what decides whether a statement fails by its content."""
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            return
        for node in own_nodes(statement):
            if isinstance(node, words.CONDITIONAL):
                self.flow.may_test = True
            if self._is_test(node):
                self.flow.tests_content = True
                self.flow.read_by_tests |= names_read(node) | control | own_names_read(statement)

    def _is_test(self, node: ast.AST) -> bool:  # noqa: PLR0911, PLR0912 - a case for each kind of node
        match node:
            case ast.Raise() | ast.Assert() | ast.While():
                return True
            case ast.BinOp(left=left, op=op, right=right):
                return divides(op, right) or self._varies(left) or self._varies(right)
            case ast.AugAssign(op=op, value=right):
                return divides(op, right) or self._varies(right)
            case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=value) | ast.Attribute(value=value):
                return self._varies(value)
            case ast.Compare(left=left, ops=ops, comparators=comparators):
                is_typed = any(not isinstance(op, words.UNTYPED) for op in ops)
                return is_typed and any(self._varies(one) for one in (left, *comparators))
            case ast.Subscript(value=ast.Name(id=name)) if any(map(has_defaults, self._made.get(name, ()))):
                return False
            case ast.Subscript(ctx=ast.Load(), value=value, slice=index):
                return not is_literal(index) or (not isinstance(index, ast.Slice) and self._may_lack(value))
            case ast.Starred(value=value) | ast.comprehension(iter=value) | ast.For(iter=value):
                return self._varies(value)
            case ast.Assign(targets=[ast.Tuple() | ast.List()], value=value):
                return not is_pair(value)
            case ast.FormattedValue(format_spec=spec) if spec is not None:
                return any(isinstance(one, ast.FormattedValue) for one in ast.walk(spec))
            case ast.Call(func=ast.Name(id=name)) if name in self._functions:
                return name in self._testing or name in self._suspects
            case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords):
                given = (*args, *(one.value for one in keywords))
                return (
                    (name not in words.TOTAL and name not in self._records)
                    or any(map(self._varies, args))
                    or any(one.arg == "strict" for one in keywords)
                    or (name not in words.NAMING and any(map(may_fail_when_called, given)))
                )
            case ast.Call(func=ast.Attribute(attr=attr, value=ast.Name(id="re")), args=[ast.Constant(), *_]):
                return attr not in words.PATTERNS
            case ast.Call(func=ast.Attribute(attr=attr, value=value)):
                return attr not in words.TOTAL_METHODS or self._varies(value)
            case ast.Call():
                return True
            case ast.Name(id=name, ctx=ast.Load()):
                return name in self._varied and name not in self._surely_set
            case _:
                return False

    def _varies(self, node: ast.expr) -> bool:
        """Whether a value has a form that content may decide."""
        match node:
            case ast.IfExp(body=one, orelse=other):
                return form_of(one) is None or form_of(one) != form_of(other) or self._varies(one)
            case ast.BoolOp(values=values):
                kinds = {form_of(one) for one in values}
                return None in kinds or len(kinds) > 1
            case ast.Call(func=ast.Attribute(attr=attr), args=args):
                return attr in words.MAYBE and not (attr == "get" and len(args) > 1)
            case ast.Name(id=name):
                made = self._made.get(name, [])
                kinds = {None if one is None else form_of(one) for one in made}
                if len(made) > 1 and (None in kinds or len(kinds) > 1):
                    return True
                return any(
                    one is not None and not isinstance(one, ast.Name) and self._varies(one) for one in made
                )
            case _:
                return False

    def _may_lack(self, node: ast.expr) -> bool:
        """Whether a literal key or index may be absent from a value by its content."""
        match node:
            case ast.Name(id=name):
                made = self._made.get(name, [])
                return (
                    name in self._keyed
                    or self._varies(node)
                    or any(
                        one is not None and not isinstance(one, ast.Name) and self._may_lack(one)
                        for one in made
                    )
                )
            case ast.ListComp(generators=clauses):
                return any(clause.ifs for clause in clauses)
            case ast.DictComp():
                return True
            case ast.Dict(keys=keys):
                return any(not isinstance(key, ast.Constant) for key in keys)
            case ast.Call(func=ast.Name(id=name), args=args):
                return name not in ("sorted", "list", "tuple") or any(map(self._may_lack, args))
            case ast.Call():
                return True
            case _:
                return self._varies(node)
