"""Contexts of the program around blocks that await, as what they do before and after the block.

In: the tree of a file, which is changed in place. The body of a function with `@asynccontextmanager` or
`@contextmanager` stands around the block; a class with `__aenter__` and `__aexit__` (or `__enter__` and
`__exit__`) is called before and after it. Objects around blocks that do not await stay as they are.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Mapping, Sequence
from typing import Final, cast

from callsheet.frontends.python.analysis.container_words import MUTATORS
from callsheet.frontends.python.exceptions import DENIED
from callsheet.frontends.python.rewrites.inlining import (
    Fresh,
    Generator,
    Leaving,
    Replacing,
    blocks_in,
    leaves_block,
    name_called,
    once,
    opened,
    yields_of,
)
from callsheet.frontends.python.source import (
    Nodes,
    among,
    dotted,
    is_named,
    names_bound,
    own_nodes,
    parameters_of,
    waits,
    walk,
)
from callsheet.frontends.python.syntax import parsed_lines, placed

_MANAGERS: Final = frozenset({"contextmanager", "asynccontextmanager"})
_ENTERS: Final[Mapping[str, tuple[str, str]]] = {
    "__aenter__": ("__aenter__", "__aexit__"),
    "__enter__": ("__enter__", "__exit__"),
}
CONTEXT_WORDS: Final = _MANAGERS | _ENTERS.keys()
"""One of these is in each file with contexts of its own."""


def contexts_as_statements(module: ast.Module, nodes: Nodes) -> bool:
    """Write the program's own contexts around blocks that await as statements; whether there were any.

    >>> module = ast.parse('''@asynccontextmanager
    ... async def told(what):
    ...     await post("begin")
    ...     try:
    ...         yield what.upper()
    ...     finally:
    ...         await post("end")
    ... async def main():
    ...     async with told("work") as name:
    ...         await post(name)''')
    >>> contexts_as_statements(module, Nodes(module))
    True
    >>> print(ast.unparse(module.body[-1]))
    async def main():
        what_at_1 = 'work'
        await post('begin')
        try:
            name = what_at_1.upper()
            await post(name)
        finally:
            await post('end')
    """
    managers = {one.name: one for one in nodes.of(ast.FunctionDef, ast.AsyncFunctionDef) if _is_manager(one)}
    classes = {
        one.name: (one, each.name)
        for one in nodes.of(ast.ClassDef)
        for each in one.body
        if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)) and each.name in _ENTERS
    }
    if not managers and not classes:
        return False
    contexts = _Contexts(managers, classes, Fresh(nodes))
    for one in walk(module):
        if isinstance(one, ast.AsyncFunctionDef) and one.name not in managers:
            contexts.function(one)
    for one in walk(module):
        if isinstance(one, (ast.Module, ast.AsyncFunctionDef)):
            one.body = [each for each in one.body if not contexts.is_over(each)]
    return contexts.is_changed


def returns_after_finally(nodes: Nodes) -> bool:
    """Let what `finally` changes be changed before the function returns; whether there was any.

    A function of a plan returns what it has changed behind its result, so its last statement has to be last.

    >>> module = ast.parse('''async def main(log):
    ...     try:
    ...         return await read("a")
    ...     finally:
    ...         log.append("read")''')
    >>> returns_after_finally(Nodes(module))
    True
    >>> print(ast.unparse(module))
    async def main(log):
        way_at_1 = ''
        value_at_1 = None
        for once_at_1 in (None,):
            try:
                value_at_1 = await read('a')
                way_at_1 = 'return'
                break
            finally:
                log.append('read')
        if way_at_1 == 'return':
            return value_at_1
    """
    fresh, changed = Fresh(nodes), False

    def settle(body: list[ast.stmt]) -> None:
        nonlocal changed
        for number, one in reversed(list(enumerate(body))):
            if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                continue
            for block in blocks_in(one):
                settle(block)
            if not isinstance(one, ast.Try) or not _changes(one.finalbody):
                continue
            if any(among(own_nodes(*one.body, *one.handlers, *one.orelse), ast.Return)):
                leaving = Leaving(frozenset({"return", "break", "continue"}), fresh)
                inner = once(leaving.block([one]), fresh, one)
                body[number : number + 1] = [*leaving.start(one), inner, *leaving.after(one)]
                changed = True

    for one in nodes.of(ast.AsyncFunctionDef):
        settle(one.body)
    return changed


def _changes(final: Sequence[ast.stmt]) -> bool:
    """Whether what `finally` does may change an object of the function."""
    return any(
        isinstance(one, (ast.AugAssign, ast.Delete))
        or (isinstance(one, (ast.Subscript, ast.Attribute)) and isinstance(one.ctx, ast.Store))
        or (isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute) and one.func.attr in MUTATORS)
        or (isinstance(one, ast.Call) and isinstance(one.func, ast.Name) and any(among(one.args, ast.Name)))
        for one in own_nodes(*final)
    )


def _is_manager(node: Generator) -> bool:
    return any((dotted(one) or "").rpartition(".")[2] in _MANAGERS for one in node.decorator_list)


class _Contexts:
    def __init__(
        self, managers: Mapping[str, Generator], classes: Mapping[str, tuple[ast.ClassDef, str]], fresh: Fresh
    ) -> None:
        self.managers, self.classes, self.fresh = managers, classes, fresh
        self.is_changed = False
        self.used: set[str] = set()
        self.kept: set[str] = set()
        self.site: set[str] = set()
        self.kinds: dict[str, str] = {}
        self.renamed: set[str] = set()

    def is_over(self, node: ast.stmt) -> bool:
        """Whether a statement is a context that awaits, which stands where it was used."""
        return isinstance(node, ast.AsyncFunctionDef) and node.name in self.used - self.kept

    def function(self, node: ast.AsyncFunctionDef) -> None:
        """The contexts of one function."""
        self.site = names_bound(*node.body) | {one.arg for one in parameters_of(node.args)}
        self.site -= set(self.managers)
        self.kinds = {
            one.targets[0].id: name_called(one.value)
            for one in among(own_nodes(*node.body), ast.Assign)
            if isinstance(one.targets[0], ast.Name) and name_called(one.value) in self.classes
        }
        self.kinds |= {
            one.arg: one.annotation.id
            for one in parameters_of(node.args)
            if isinstance(one.annotation, ast.Name) and one.annotation.id in self.classes
        }
        node.body = self.block(node.body)

    def block(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """The statements of a block."""
        made: list[ast.stmt] = []
        for one in body:
            if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                made.append(one)
                continue
            for block in blocks_in(one):
                block[:] = self.block(block)
            if isinstance(one, (ast.With, ast.AsyncWith)):
                made += self._with(one)
            else:
                made.append(one)
        return made

    def _with(self, node: ast.With | ast.AsyncWith) -> list[ast.stmt]:
        is_pure = not isinstance(node, ast.AsyncWith) and not any(waits(one) for one in node.body)
        if is_pure and not any(name_called(item.context_expr) in self.managers for item in node.items):
            return [node]
        for number, item in enumerate(node.items):
            if not self._is_own(item.context_expr):
                continue
            body: list[ast.stmt] = node.body
            rest = node.items[number + 1 :]
            if rest:
                kind = type(node)
                body = self._with(cast("ast.With", placed(kind(rest, body), node)))
            made = self._written(item, body, node)
            if made is None:
                return [node]
            self.is_changed = True
            if not number:
                return made
            node.items, node.body = node.items[:number], made
            return [node]
        return [node]

    def _is_own(self, held: ast.expr) -> bool:
        name = name_called(held)
        is_held = isinstance(held, ast.Name) and held.id in self.kinds
        return name in self.managers or name in self.classes or is_held

    def _written(self, item: ast.withitem, body: list[ast.stmt], node: ast.AST) -> list[ast.stmt] | None:
        held = item.context_expr
        manager = self.managers.get(name_called(held))
        if manager is not None:
            made = self._around(manager, cast("ast.Call", held), item.optional_vars, body, node)
            if made is not None and isinstance(manager, ast.AsyncFunctionDef):
                self.used.add(manager.name)
            if made is None:
                self.kept.add(manager.name)
            return made
        name = self.kinds.get(held.id, "") if isinstance(held, ast.Name) else name_called(held)
        return self._entered(*self.classes[name], item, body, node)

    # ------------------------------------------------------------ functions that yield once

    def _around(
        self, manager: Generator, call: ast.Call, target: ast.expr | None, body: list[ast.stmt], node: ast.AST
    ) -> list[ast.stmt] | None:
        found = opened(manager, call, body, self.site, self.fresh)
        if found is None:
            return None
        before, made = found
        yields = yields_of(made)
        if yields is None or len(yields) != 1 or any(among(own_nodes(*made), ast.Return)):
            return None
        value = cast("ast.Yield", yields[0].value).value or ast.copy_location(ast.Constant(None), node)
        inner: list[ast.stmt] = []
        if target is not None:
            inner.append(placed(ast.Assign([target], value), target))
        elif not isinstance(value, ast.Constant):
            inner.append(placed(ast.Expr(value), yields[0]))
        after = _goes_on(made, yields[0])
        if after is None:
            return None
        ends: list[ast.stmt] = []
        if after and leaves_block(body):
            leaving = Leaving(frozenset({"return", "break", "continue"}), self.fresh)
            body = [once(leaving.block(body), self.fresh, node)]
            before += leaving.start(node)
            ends = leaving.after(node)
        made = Replacing({id(yields[0]): [*inner, *body]}).block(made)
        return [*before, *made, *ends]

    # ------------------------------------------------------------ classes

    def _entered(
        self, owner: ast.ClassDef, enter: str, item: ast.withitem, body: list[ast.stmt], node: ast.AST
    ) -> list[ast.stmt] | None:
        leave = _ENTERS[enter][1]
        methods = {
            one.name: one for one in owner.body if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef))
        }
        exits = methods.get(leave)
        if exits is None or len(parameters_of(exits.args)) < 2:
            return None
        is_awaited = enter == "__aenter__"
        if isinstance(methods[enter], ast.AsyncFunctionDef) is not is_awaited:
            return None
        looks, suppresses = self._settled(exits)
        if looks is None:
            return None
        if not is_awaited:
            for name in (enter, leave):
                if f"{owner.name}.{name}" not in self.renamed:
                    self.renamed.add(f"{owner.name}.{name}")
                    like = copy.deepcopy(methods[name])
                    again = ast.AsyncFunctionDef(
                        f"{name.strip('_')}_here", like.args, like.body, [], like.returns
                    )
                    vars(again)["type_params"] = []
                    owner.body.append(ast.fix_missing_locations(ast.copy_location(again, like)))
            enter, leave = f"{enter.strip('_')}_here", f"{leave.strip('_')}_here"
        held = item.context_expr
        made: list[ast.stmt] = []
        gives_itself = _gives_itself(methods[enter if is_awaited else _ENTERS["__enter__"][0]])
        if isinstance(held, ast.Name) and held.id not in names_bound(
            *body, *filter(None, [item.optional_vars])
        ):
            manager = held.id
        else:
            manager = self.fresh("context")
            if (
                gives_itself
                and isinstance(item.optional_vars, ast.Name)
                and item.optional_vars.id not in names_bound(*body)
            ):
                manager = item.optional_vars.id
            made.append(placed(ast.Assign([ast.Name(manager, ast.Store())], held), node))
        call = f"await {manager}.{enter}()"
        count = len(parameters_of(exits.args)) - 1
        nothing = ", ".join(["None"] * count)
        failed, error = self.fresh("failed"), self.fresh("error")
        given = ", ".join(["None", error, "None"][:count])
        leave_call = f"await {manager}.{leave}"
        if not looks and not suppresses:
            text = f"{call}\ntry:\n    pass\nfinally:\n    {leave_call}({nothing})"
        else:
            handled = f"{leave_call}({given})"
            again = f"if not {handled}: raise" if suppresses else f"{handled}\n            raise"
            text = (
                f"{call}\n{failed} = False\ntry:\n    try:\n        pass\n"
                f"    except (Exception, {DENIED}) as {error}:\n        {failed} = True\n        {again}\n"
                f"finally:\n    if not {failed}: {leave_call}({nothing})"
            ).replace("\n            raise", "\n        raise")
        statements = parsed_lines([text], node)
        first = cast("ast.Expr", statements[0])
        if item.optional_vars is not None and not (is_named(item.optional_vars, manager)):
            entered: ast.expr = ast.Name(manager, ast.Load()) if gives_itself else first.value
            taken = placed(ast.Assign([item.optional_vars], entered), node)
            statements[:1] = [statements[0], taken] if gives_itself else [taken]
        outer = cast("ast.Try", statements[-1])
        if looks or suppresses:
            outer = cast("ast.Try", outer.body[0])
        outer.body = body
        return [*made, *statements]

    def _settled(self, exits: Generator) -> tuple[bool | None, bool]:
        """Whether what leaves a context looks at the error, and whether it may hide it; None if unclear.

        What it asks of the error's type it asks of the error then.
        """
        names = [one.arg for one in parameters_of(exits.args)][1:]
        if exits.args.vararg is not None:
            names = []
        returns = [one.value for one in among(own_nodes(*exits.body), ast.Return)]
        suppresses = any(
            one is not None and not (isinstance(one, ast.Constant) and not one.value) for one in returns
        )
        read = {one.id for part in exits.body for one in among(walk(part), ast.Name)}
        if exits.args.vararg is not None:
            return (None if exits.args.vararg.arg in read else False), suppresses
        if len(names) == 3 and names[0] in read:
            settling = _OfType(names[0], names[1])
            exits.body = [cast("ast.stmt", settling.visit(one)) for one in exits.body]
            if any(is_named(one, names[0]) for part in exits.body for one in walk(part)):
                return None, suppresses
        return any(name in read for name in names), suppresses


def _gives_itself(enter: Generator) -> bool:
    itself = next((one.arg for one in parameters_of(enter.args)), "")
    returns = [one.value for one in among(own_nodes(*enter.body), ast.Return)]
    return bool(returns) and all(is_named(one, itself) for one in returns)


class _OfType(ast.NodeTransformer):
    """Asks the error what a program asks its type."""

    def __init__(self, kind: str, error: str) -> None:
        self.kind, self.error = kind, error

    def _is_kind(self, node: ast.AST) -> bool:
        return is_named(node, self.kind)

    def _of_error(self, place: ast.AST) -> ast.Name:
        return ast.copy_location(ast.Name(self.error, ast.Load()), place)

    def _test(self, node: ast.expr) -> ast.expr:
        if not self._is_kind(node):
            return node
        made = ast.Compare(self._of_error(node), [ast.IsNot()], [ast.Constant(None)])
        return ast.fix_missing_locations(ast.copy_location(made, node))

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """A comparison."""
        if self._is_kind(node.left) and isinstance(node.ops[0], (ast.Is, ast.IsNot)):
            other = node.comparators[0]
            if isinstance(other, ast.Constant) and other.value is None:
                node.left = self._of_error(node.left)
        return self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """An attribute."""
        if node.attr == "__name__" and self._is_kind(node.value):
            made = ast.Call(ast.Name("type", ast.Load()), [self._of_error(node.value)], [])
            node.value = ast.fix_missing_locations(ast.copy_location(made, node))
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """A call."""
        if dotted(node.func) == "issubclass" and len(node.args) == 2 and self._is_kind(node.args[0]):
            node.func = ast.copy_location(ast.Name("isinstance", ast.Load()), node.func)
            node.args[0] = self._of_error(node.args[0])
        if dotted(node.func) == "bool" and len(node.args) == 1:
            node.args[0] = self._test(node.args[0])
        return self.generic_visit(node)

    def _condition(self, node: ast.If | ast.IfExp) -> ast.AST:
        node.test = self._test(node.test)
        return self.generic_visit(node)

    visit_If = visit_IfExp = _condition

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        """A negation."""
        if isinstance(node.op, ast.Not):
            node.operand = self._test(node.operand)
        return self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        """A test of several."""
        node.values = [self._test(one) for one in node.values]
        return self.generic_visit(node)


def _goes_on(body: Sequence[ast.stmt], wanted: ast.stmt) -> bool | None:
    """Whether something follows a statement, beside `finally`; None if it stands in a loop."""
    for number, one in enumerate(body):
        rest = bool(body[number + 1 :])
        if one is wanted:
            return rest
        if not any(each is wanted for each in walk(one)):
            continue
        if isinstance(one, (ast.For, ast.AsyncFor, ast.While)):
            return None
        for block in blocks_in(one):
            if not any(each is wanted for part in block for each in walk(part)):
                continue
            inner = _goes_on(block, wanted)
            if inner is None:
                return None
            more = isinstance(one, ast.Try) and block is one.body and bool(one.orelse)
            return inner or more or rest
    return False
