"""Variables that hold the same objects over calls, which a plan's values cannot say: it is kept beside them.

In: a function whose changes more than one of its variables would see. Out: the same function, with a variable
for which places in these variables are one object. Before a run of pure statements that changes such objects
the variables are made to hold them again, and after it the places are looked up anew. For that they are set
by pure statements alone: calls give their results to a name of their own, and loops go through numbers.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, NoReturn, TypeVar, cast

from callsheet.frontends.pure_code.facts import LINKS_AMONG, RELINKED
from callsheet.frontends.python import core
from callsheet.frontends.python.analysis.container_words import LAZY, sets_item
from callsheet.frontends.python.analysis.kinds import ANY, OPAQUE, Kinds
from callsheet.frontends.python.analysis.objects import Node, chain, find, holds_itself
from callsheet.frontends.python.analysis.sharing import Sharing
from callsheet.frontends.python.analysis.variables import Variables
from callsheet.frontends.python.rewrites.methods import fields_set, keeps_fields
from callsheet.frontends.python.source import (
    Refused,
    among,
    children,
    dotted,
    is_named,
    names_bound,
    names_read,
    walk,
)
from callsheet.frontends.python.syntax import assigned, parsed, parsed_lines

_Tree = TypeVar("_Tree", bound=ast.AST)
_VIEWS: Final = frozenset({"items", "values", "keys"})
_REFILLED: Final = {"list": "extend", "dict": "update", "set": "update"}
"""By the type of a container the method that fills it again."""
_CONSUMERS: Final = frozenset(
    {
        *("list", "tuple", "set", "frozenset", "dict", "sorted", "sum", "min", "max", "any", "all", "len"),
        *("Counter", "collections.Counter", "join", "extend", "update", "str", "deque", "collections.deque"),
    }
)
"""What goes through an iterator to its end, at once."""
_BLOCKS: Final = (ast.For, ast.While, ast.If, ast.Try, ast.With, ast.Match)


class Facts(NamedTuple):
    """What is known of a function: its variables, their kinds, and which objects they may share.

    `is_fresh` says of a call whether its result is no part of what it was given, `is_tree` whether no object
    stands in two of its places; `holds_once` of a value whether it surely has what a node stands for in one
    place alone; `changed_by_call` of a variable that is taken back from a call what that
    has changed; `extra` what local functions read.
    """

    names: frozenset[str]
    kinds: Kinds
    sharing: Sharing
    is_fresh: Callable[[core.Call], bool]
    is_tree: Callable[[core.Call], bool]
    holds_once: Callable[[ast.expr, Node], bool]
    changed_by_call: Callable[[core.Core, Sharing], list[Node]]
    extra: dict[str, frozenset[str]]
    definitions: Mapping[str, ast.stmt]


class Linking:
    """Makes such a function; raises the `refusal` where it cannot."""

    def __init__(
        self,
        function: core.Function,
        facts: Facts,
        shared: Sequence[Node],
        refusal: Refused,
        fresh: Callable[[str], str],
    ) -> None:
        """`shared` are the objects that are changed, and that more than one variable may see."""
        self.function, self.facts, self.refusal, self.fresh = function, facts, refusal, fresh
        self.has_objects = any(isinstance(one, ast.ClassDef) for one in facts.definitions.values())
        self.group: frozenset[str] = frozenset()
        self.nodes: frozenset[Node] = frozenset()
        self.changed: frozenset[Node] = frozenset()
        self._grow(shared)

    def link(self) -> None:
        """Change the function."""
        if not {RELINKED, LINKS_AMONG}.isdisjoint(self.facts.names | self.facts.definitions.keys()):
            self._refuse()
        if any(names_read(one) & self.group for one in _defaults(self.facts.definitions)):
            self._refuse()  # such a function keeps the object that the variable had where it was defined
        self.function.body = self._block(self.function.body)
        names = self.facts.names | core.bound_names(self.function.body)
        links = self.fresh("links")
        placing = _Placing(self, Variables(self.function, names, self.facts.extra), links)
        self.function.body = placing.block(self.function.body)
        place = self.function.node.body[0]
        self.function.body.insert(0, core.Pure(_copied(ast.parse(f"{links} = []").body[0], place)))
        if Variables(self.function, names | {links}, self.facts.extra).unset:
            self._refuse()

    def _refuse(self) -> NoReturn:
        raise self.refusal

    def _grow(self, shared: Sequence[Node]) -> None:
        """Find all variables that may see a change of what any of them sees."""
        sharing, facts = self.facts.sharing, self.facts
        changed = {
            find(node)
            for one in core.all_of(self.function.body)
            for node in (
                *(each for part in core.parts_of(one) for each in sharing.changed(part)),
                *facts.changed_by_call(one, sharing),
            )
        }
        seen = frozenset(map(find, shared))
        held = {
            one.into for one in core.all_of(self.function.body) if isinstance(one, core.Call) and one.changes
        }
        while True:
            known = [name for name in facts.names - held if not facts.kinds.is_flat(name)]
            self.group = frozenset(sharing.seeing(known, seen))
            self.nodes = frozenset(node for name in self.group for node in chain(sharing.node(name)))
            more = seen | (changed & self.nodes)
            if more == seen:
                self.changed = seen
                return
            seen = more

    # ------------------------------------------------------------ what a statement does

    def changes(self, part: ast.AST) -> bool:
        """Whether a tree changes one of the objects."""
        return any(find(node) in self.nodes for node in self.facts.sharing.changed(part))

    def is_unit(self, part: ast.AST) -> bool:
        """Whether a tree changes one of the objects, gives a variable one, or asks whether two are one."""
        return bool(names_bound(part) & self.group) or self.changes(part) or self._compares(part)

    def _compares(self, part: ast.AST) -> bool:
        for node in among(walk(part), ast.Compare):
            sides = [node.left, *node.comparators]
            is_constant = any(isinstance(one, ast.Constant) for one in sides)
            is_identity = any(isinstance(op, (ast.Is, ast.IsNot)) for op in node.ops)
            if (is_identity or self.has_objects) and not is_constant and names_read(node) & self.group:
                return True
        return False

    def _reaches(self, value: ast.expr) -> bool:
        return any(node in self.nodes for node in chain(self.facts.sharing.value(value)))

    def _has_units(self, block: core.Block) -> bool:
        return any(self.is_unit(part) for one in core.all_of(block) for part in core.parts_of(one))

    def _check_iterators(self, node: ast.AST, *, is_used: bool = False) -> None:  # noqa: PLR0912 - cases
        """Raises the refusal for an iterator that is kept: it would look at objects of before."""
        match node:
            case ast.GeneratorExp() if not is_used:
                self._refuse()
            case ast.Call(func=func):
                name = dotted(func) or ""
                last = name.rpartition(".")[2] or (func.attr if isinstance(func, ast.Attribute) else "")
                is_view = isinstance(func, ast.Attribute) and func.attr in _VIEWS and not node.args
                definition = self.facts.definitions.get(name)
                is_lazy = name in LAZY or is_view or _yields(definition)
                if is_lazy and not is_used:
                    self._refuse()
                used = last in _CONSUMERS or (is_lazy and is_used) or name == "next"
                for one in node.args:
                    inner = one.value if isinstance(one, ast.Starred) else one
                    self._check_iterators(inner, is_used=used or inner is not one)
                for word in node.keywords:
                    self._check_iterators(word.value)
                self._check_iterators(func)
            case ast.Compare(left=left, comparators=others):
                for one in (left, *others):
                    self._check_iterators(one, is_used=True)
            case ast.For(target=target, iter=source, body=body, orelse=orelse):
                self._check_iterators(source, is_used=True)
                for one in (target, *body, *orelse):
                    self._check_iterators(one)
            case ast.comprehension(iter=source, ifs=ifs):
                self._check_iterators(source, is_used=True)
                for one in ifs:
                    self._check_iterators(one)
            case ast.Assign(targets=[ast.Tuple() | ast.List()], value=value):
                self._check_iterators(value, is_used=True)
            case ast.Starred(value=value):
                self._check_iterators(value, is_used=True)
            case ast.FunctionDef() | ast.Lambda():
                pass
            case _:
                for one in children(node):
                    self._check_iterators(one)

    # ------------------------------------------------------------ variables are set by pure statements

    def _block(self, block: core.Block) -> core.Block:
        out: core.Block = []
        for one in block:
            self._statement(one, out)
        return out

    def _statement(self, one: core.Core, out: core.Block) -> None:  # noqa: PLR0912, PLR0915 - cases
        match one:
            case core.Pure(takes_back=str() as back) if back in self.group:
                out.append(self._taken_back(one, back))
            case core.Pure(is_another=True) if core.bound_by(one) & self.group:
                self._refuse()
            case core.Pure(stmt=stmt):
                if self.is_unit(stmt) or names_read(stmt) & self.group:
                    self._check_iterators(stmt)
                out.append(one)
            case core.Call(arguments=arguments, into=into):
                values = self._spilled([each.value for each in arguments], out)
                for each, value in zip(arguments, values, strict=True):
                    each.value = value
                out.append(one)
                if one.changes and not self._gives_apart(one):
                    self._refuse()
                if into is not None and into in self.group:
                    out.append(self._taken_from(one, into))
            case core.Wait(seconds=value):
                (one.seconds,) = self._spilled([value], out)
                out.append(one)
            case core.Give(value=value) | core.Remark(value=value):
                (one.value,) = self._spilled([value], out)
                out.append(one)
            case core.Return(value=value) | core.Fail(message=value):
                made = self._spilled([] if value is None else [value], out)
                if made and isinstance(one, core.Return):
                    one.value = made[0]
                elif made and isinstance(one, core.Fail):
                    one.message = made[0]
                out.append(one)
            case core.Choice(test=test):
                (one.test,) = self._spilled([test], out)
                one.then, one.otherwise = self._block(one.then), self._block(one.otherwise)
                out.append(one)
            case core.While(test=test):
                start: core.Block = []
                if self.is_unit(test):
                    (held,) = self._spilled([test], start)
                    negated = _copied(ast.UnaryOp(ast.Not(), held), test)
                    start.append(core.Choice(negated, [core.Break(test)], [], test))
                    one.test = _copied(ast.Constant(True), test)
                one.body = [*start, *self._block(one.body)]
                out.append(one)
            case core.Loop():
                self._loop(one, out)
            case core.Attempt():
                if any(each.binds in self.group for each in one.handlers):
                    self._refuse()
                one.body = self._block(one.body)
                for each in one.handlers:
                    each.body = self._block(each.body)
                one.final = None if one.final is None else self._block(one.final)
                out.append(one)
            case core.Together(members=members):
                if self._has_units(members):
                    self._refuse()
                out.append(one)
                for each in core.all_of(members):
                    into = each.into if isinstance(each, (core.Call, core.Loop)) else None
                    if into is not None and into in self.group:
                        out.append(self._taken_from(each, into))
            case core.Break() | core.Continue():
                out.append(one)

    def _spilled(self, values: Sequence[ast.expr], out: core.Block) -> list[ast.expr]:
        """The values; all of them in variables, if one has to be taken by a statement of its own."""
        for one in values:
            if names_read(one) & self.group:
                self._check_iterators(one, is_used=True)
        if not any(map(self.is_unit, values)):
            return list(values)
        made: list[ast.expr] = []
        for one in values:
            if isinstance(one, ast.Constant):
                made.append(one)
                continue
            name = self.fresh("value")
            out.append(assigned(name, one, one))
            made.append(_copied(ast.Name(name, ast.Load()), one))
        return made

    def _taken_from(self, one: core.Core, into: str) -> core.Pure:
        """Let a call or a loop give its result to another variable, from which this one is set."""
        if not isinstance(one, (core.Call, core.Loop)):
            self._refuse()
        calls = [one] if isinstance(one, core.Call) else self._given_by_calls(one)
        if not all(map(self._gives_new, calls)):
            self._refuse()
        one.into = self.fresh(into)
        return assigned(into, ast.Name(one.into, ast.Load()), one.node)

    def _taken_back(self, one: core.Pure, name: str) -> core.Pure:
        """Let the object of a variable hold what a call has made of it, in place of a new one.

        What is inside it is made anew: nothing that is changed there may have a second way to it.
        """
        sharing = self.facts.sharing
        top = find(sharing.node(name))
        deep = ({*chain(top)} - {top}) & self.changed
        others = (chain(sharing.node(each), {top}) for each in self.group if each != name)
        known = self.facts.kinds.known.get(name, ANY)
        kinds = [one for one in _REFILLED if known == one or (known == ANY and not deep)]
        is_once = all(
            self.facts.holds_once(ast.Name(each, ast.Load()), node) for each in self.group for node in deep
        )
        if (
            one.is_another
            or holds_itself(top)
            or not (kinds or (known == OPAQUE and top.is_object))
            or (deep and known == "list")  # a slice of a list is taken for the list itself
            or any(node in deep for each in others for node in each)
            or not is_once
        ):
            self._refuse()
        value = ast.unparse(cast("ast.Assign", one.stmt).value)
        (made,) = parsed_lines(self._refilled(name, kinds, value), one.stmt)
        return core.Pure(made)

    def _refilled(self, name: str, kinds: Sequence[str], value: str) -> Iterator[str]:
        """The lines of a statement that puts what an object holds into the one of a variable."""
        word = "if"
        for kind in kinds:
            yield f"{word} isinstance({name}, {kind}):"
            word = "elif"
            yield f"    {name}.clear()"
            yield f"    {name}.{_REFILLED[kind]}({value})"
        for one in self.facts.definitions.values() if len(kinds) != 1 else ():
            if not isinstance(one, ast.ClassDef) or not keeps_fields(one):
                continue
            fields = fields_set(one)
            if fields is None:
                self._refuse()
            yield f"{word} isinstance({name}, {one.name}):"
            word = "elif"
            for field in fields:
                yield f"    if hasattr({value}, {field!r}):"
                yield f"        {name}.{field} = {value}.{field}"
            yield "    pass"
        if len(kinds) != 1:  # what += has made of it
            yield f"{word} {name} is None or isinstance({name}, (bool, int, float, str, tuple)):"
            yield f"    {name} = {value}"
            word = "elif"
        yield f"{word} {name} != {value}:"
        yield f"    raise TypeError('what was changed in {name} cannot be put back; use a list or dict')"

    def _given_by_calls(self, loop: core.Loop) -> list[core.Call]:
        """The calls whose results a loop puts into its list. Raises the refusal for other objects."""
        found: list[core.Call] = []
        for give in core.gives_of(loop.body):
            if not self._reaches(give.value):
                continue
            name = give.value.id if isinstance(give.value, ast.Name) else ""
            makers = [one for one in core.all_of(loop.body) if name in core.bound_by(one)]
            for one in makers:
                if not isinstance(one, core.Call):
                    self._refuse()
                found.append(one)
            if not makers or name == loop.target:
                self._refuse()
        return found

    def _gives_new(self, call: core.Call) -> bool:
        """Whether the result of a call is a tree, without objects that others hold and that are changed."""
        return call.helper is None or (not call.changes and self._is_given_new(call))

    def _gives_apart(self, call: core.Call) -> bool:
        """Whether the result of a call that stands before what it has changed is such a tree, or unused."""
        return self._is_given_new(call) or not any(
            isinstance(stmt := one.stmt, ast.Assign)
            and isinstance(stmt.value, ast.Subscript)
            and is_named(stmt.value.value, call.into or "")
            and ast.unparse(stmt.value.slice) == "0"
            for one in core.all_of(self.function.body)
            if isinstance(one, core.Pure)
        )

    def _is_given_new(self, call: core.Call) -> bool:
        if not self.facts.is_tree(call):
            return False
        given = (node for each in call.arguments for node in chain(self.facts.sharing.value(each.value)))
        return self.facts.is_fresh(call) or not any(node in self.changed for node in given)

    # ------------------------------------------------------------ loops go through numbers

    def _loop(self, one: core.Loop, out: core.Block) -> None:
        if one.together:
            if self._has_units(one.body) or self.is_unit(one.source):
                self._refuse()
            out.append(one)
            if one.into is not None and one.into in self.group:
                out.append(self._taken_from(one, one.into))
            return
        (source,) = self._spilled([one.source], out)
        self._check_live(source, one.body)
        if one.into is not None and one.into in self.group:
            out.append(assigned(one.into, ast.List([], ast.Load()), one.node))
            one.body = core.with_appends(one.body, one.into)
            one.into = None
        head: core.Block = []
        if one.target in self.group:
            number = self.fresh("number")
            one.source, item = self._item(source, number, one, out)
            head.append(assigned(one.target, item, one.node))
            one.target = number
        else:
            one.source = source
        one.body = [*head, *self._block(one.body)]
        out.append(one)

    def _item(
        self, source: ast.expr, number: str, one: core.Loop, out: core.Block
    ) -> tuple[ast.expr, ast.expr]:
        """What a loop goes through instead of a source, and its item for what the loop gives."""

        def settled(node: ast.expr) -> str | None:
            name = node.id if isinstance(node, ast.Name) else ""
            return name if name in self.facts.names - core.bound_names(one.body) else None

        def at(name: str) -> str:
            kind = self.facts.kinds.known.get(name)
            if kind in {"list", "tuple"}:
                return f"{name}[{number}]"
            return f"({name} if isinstance({name}, (list, tuple)) else list({name}))[{number}]"

        def over(text: str, item: str) -> tuple[ast.expr, ast.expr]:
            return parsed(text, one.source), parsed(item, one.source)

        match source:
            case ast.Name() if (name := settled(source)) is not None:
                return over(f"range(len({name}))", at(name))
            case ast.Call(func=ast.Name(id="enumerate"), args=[only, *rest], keywords=[]) if (
                name := settled(only)
            ) is not None and all(isinstance(each, ast.Constant) for each in rest):
                start = ast.unparse(rest[0]) if rest else "0"
                return over(f"range(len({name}))", f"({number} + {start}, {at(name)})")
            case ast.Call(func=ast.Attribute(attr="items", value=holder), args=[]) if (
                name := settled(holder)
            ) is not None:
                return over(f"list({name})", f"({number}, {name}[{number}])")
            case ast.Call(func=ast.Attribute(attr="values", value=holder), args=[]) if (
                name := settled(holder)
            ) is not None:
                return over(f"list({name})", f"{name}[{number}]")
            case _:
                pass
        held = self.fresh("items")
        self.group |= {held}
        listed = ast.Call(ast.Name("list", ast.Load()), [source], [])
        out.append(assigned(held, listed, one.source))
        return over(f"range(len({held}))", f"{held}[{number}]")

    def _check_live(self, source: ast.expr, body: core.Block) -> None:
        """Raises the refusal where a loop would see changes of what it goes through."""
        tops = {find(self.facts.sharing.value(each)) for each in self._live(source)}
        if not tops:
            return
        is_name = self._is_indexed(source)
        for one in core.all_of(body):
            for part in core.parts_of(one):
                changed = {find(node) for node in self.facts.sharing.changed(part)}
                if tops & changed and not (is_name and sets_item(part)):
                    self._refuse()

    def _is_indexed(self, source: ast.expr) -> bool:
        """Whether a loop takes each item from the variable itself, when its turn comes."""
        match source:
            case ast.Name() | ast.Call(func=ast.Name(id="enumerate"), args=[ast.Name()]):
                return True
            case ast.Call(func=ast.Attribute(attr="items" | "values", value=ast.Name()), args=[]):
                return True
            case _:
                return False

    def _live(self, source: ast.expr) -> Iterator[ast.expr]:
        match source:
            case ast.Name() | ast.Subscript() | ast.Attribute():
                if not (isinstance(source, ast.Subscript) and isinstance(source.slice, ast.Slice)):
                    yield source
            case ast.Call(func=ast.Name(id=name), args=args) if name in LAZY:
                for one in args:
                    yield from self._live(one.value if isinstance(one, ast.Starred) else one)
            case ast.Call(func=ast.Attribute(attr=attr, value=value), args=[]) if attr in _VIEWS:
                yield from self._live(value)
            case ast.GeneratorExp():
                self._refuse()
            case ast.Call(func=ast.Name(id=name)) if _yields(self.facts.definitions.get(name)):
                self._refuse()
            case _:
                pass


class _Placing:
    """Puts the statements that link variables around those that need them."""

    def __init__(self, linking: Linking, variables: Variables, links: str) -> None:
        self.linking, self.variables, self.links = linking, variables, links
        self.segment = 0

    def block(self, block: core.Block) -> core.Block:
        """The block with these statements."""
        out: core.Block = []
        run: list[core.Pure] = []
        for one in block:
            if isinstance(one, core.Pure):
                run.append(one)
                continue
            out += self._run(run)
            run = []
            self._inside(one)
            out.append(one)
        return [*out, *self._run(run)]

    def _inside(self, one: core.Core) -> None:
        match one:
            case core.Choice():
                one.then, one.otherwise = self.block(one.then), self.block(one.otherwise)
            case core.Loop(together=True) | core.Together():
                pass
            case core.Loop() | core.While():
                one.body = self.block(one.body)
            case core.Attempt():
                one.body = self.block(one.body)
                for each in one.handlers:
                    each.body = self.block(each.body)
                one.final = None if one.final is None else self.block(one.final)
            case _:
                pass

    def _run(self, run: Sequence[core.Pure]) -> core.Block:
        """A run of pure statements."""
        linking = self.linking
        units = [number for number, one in enumerate(run) if linking.is_unit(one.stmt)]
        if not units:
            return list(run)
        is_caught = any(self.variables.caught[id(run[number])] & linking.group for number in units)
        if not is_caught:
            first, last = units[0], units[-1]
            return [*run[:first], *self._linked(run[first : last + 1]), *run[last + 1 :]]
        made: core.Block = []
        for number, one in enumerate(run):
            if number in units and isinstance(one.stmt, _BLOCKS):
                raise linking.refusal  # a handler would see what it had done before it failed
            made += self._linked([one]) if number in units else [one]
        return made

    def _linked(self, run: Sequence[core.Pure]) -> core.Block:
        before = sorted(self.variables.before[id(run[0])] & self.linking.group)
        after = sorted(self.variables.after[id(run[-1])] & self.linking.group)
        self.segment += 1
        made = list(run)
        if before:
            given = "".join(f", {name!r}, {name}" for name in before)
            text = f"[{', '.join(before)}] = {RELINKED}({self.links}{given})"
            made.insert(0, self._made(text, run[0].stmt))
        given = ", ".join(f"{name!r}, {name}" for name in after)
        made.append(self._made(f"{self.links} = {LINKS_AMONG}({given})", run[-1].stmt))
        for one in made:
            one.segment = self.segment
        return list(made)

    def _made(self, text: str, place: ast.stmt) -> core.Pure:
        made = core.Pure(_copied(ast.parse(text).body[0], place))
        made.is_link = True
        return made


def _copied(made: _Tree, place: ast.AST) -> _Tree:
    for one in ast.walk(made):
        ast.copy_location(one, place)
    return ast.fix_missing_locations(made)


def _defaults(definitions: Mapping[str, ast.stmt]) -> Iterator[ast.expr]:
    """The values that functions have for what they are not given."""
    for definition in definitions.values():
        for one in walk(definition):
            if isinstance(one, (ast.FunctionDef, ast.Lambda)):
                yield from (each for each in (*one.args.defaults, *one.args.kw_defaults) if each is not None)


def _yields(definition: ast.stmt | None) -> bool:
    return isinstance(definition, ast.FunctionDef) and any(
        isinstance(one, (ast.Yield, ast.YieldFrom)) for one in walk(definition)
    )
