"""Async methods that a class inherits, as methods of its own: what a method awaits is known by its class.

In: the tree of a file, which is changed in place. Each class gets a copy of the async methods of the class
that it is made from, unless it has its own; `super().load()` becomes a copy under a name of its own. A class
that the file only makes others from loses them. Other methods are inherited as pure code has them.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Mapping
from typing import Final

from callsheet.frontends.python.source import Nodes, dotted, last_name, walk

_SHAPES: Final = frozenset({"ABC", "Protocol", "Generic"})
"""Bases that say only what other classes have."""


def inherited_methods_as_own(module: ast.Module, nodes: Nodes) -> bool:
    """Give each class of a file the async methods that it inherits; whether any does.

    >>> module = ast.parse('''class Job:
    ...     async def run(self): await self.act()
    ... class Close(Job):
    ...     async def act(self): await close(1)
    ...     async def run(self): await super().run()''')
    >>> inherited_methods_as_own(module, Nodes(module))
    True
    >>> print(ast.unparse(module))
    class Job:
        pass
    <BLANKLINE>
    class Close(Job):
    <BLANKLINE>
        async def act(self):
            await close(1)
    <BLANKLINE>
        async def run(self):
            await self.run_of_Job()
    <BLANKLINE>
        async def run_of_Job(self):
            await self.act()
    """
    classes = {one.name: one for one in module.body if isinstance(one, ast.ClassDef)}
    bases = _bases(classes)
    own = {name: {each.name: each for each in _async_methods(one)} for name, one in classes.items()}
    above = classes_above(classes)
    if not any(isinstance(each, ast.AsyncFunctionDef) for name in above for each in classes[name].body):
        return False
    for name in reversed([*bases]):  # copies are of methods as they are written
        if bases[name] is not None:
            _inherit(classes[name], own, bases)
    used = {one.func.id for one in nodes.of(ast.Call) if isinstance(one.func, ast.Name)}
    used |= {one.value.id for one in nodes.of(ast.Attribute) if isinstance(one.value, ast.Name)}
    for name in above - used:
        one = classes[name]
        one.body = [each for each in one.body if not isinstance(each, ast.AsyncFunctionDef)]
        if not one.body:
            one.body = [ast.copy_location(ast.Pass(), one)]
    return True


def depths(classes: Mapping[str, ast.ClassDef]) -> Mapping[str, int]:
    """How many classes of the file each class is made from, one from the other."""
    depth: dict[str, int] = {}
    for name, base in _bases(classes).items():
        depth[name] = 0 if base is None else depth[base] + 1
    return depth


def classes_above(classes: Mapping[str, ast.ClassDef]) -> set[str]:
    """The classes whose annotation does not tell an object's class: others are made from or like them."""
    made_from = {base for base in _bases(classes).values() if base is not None}
    return made_from | {name for name, one in classes.items() if _SHAPES & {*map(_last, one.bases)}}


def _last(node: ast.expr) -> str:
    of = node.value if isinstance(node, ast.Subscript) else node
    return last_name(of)


def _bases(classes: Mapping[str, ast.ClassDef]) -> Mapping[str, str | None]:
    """The class above it in the file that each class is made from; None for none, and for several."""
    found: dict[str, str | None] = {}
    for name, one in classes.items():
        bases = [base for each in one.bases if (base := dotted(each) or "") in found]
        found[name] = bases[0] if len(bases) == 1 else None
    return found


def _async_methods(one: ast.ClassDef) -> Iterator[ast.AsyncFunctionDef]:
    """The async methods that a class itself has, without those that it only names."""
    for each in one.body:
        if isinstance(each, ast.AsyncFunctionDef) and not any(
            _last(mark) == "abstractmethod" for mark in each.decorator_list
        ):
            yield each


def _inherit(
    one: ast.ClassDef, own: Mapping[str, Mapping[str, ast.AsyncFunctionDef]], bases: Mapping[str, str | None]
) -> None:
    """Give a class copies of the async methods of those that it is made from."""
    has = {each.name for each in one.body if isinstance(each, (ast.AsyncFunctionDef, ast.FunctionDef))}
    todo = [(one.name, each) for each in own[one.name].values()]
    base = bases[one.name]
    while base is not None:
        for name, method in own[base].items():
            if name not in has:
                has.add(name)
                made = copy.deepcopy(method)
                one.body.append(made)
                todo.append((base, made))
        base = bases[base]
    while todo:
        owner, method = todo.pop()
        for call in walk(method):
            found = _of_super(call, owner, own, bases)
            if found is None or not isinstance(call, ast.Attribute):
                continue
            base, inherited = found
            itself = method.args.args[0].arg if method.args.args else "self"
            call.value = ast.copy_location(ast.Name(itself, ast.Load()), call.value)
            call.attr = f"{inherited.name}_of_{base}"
            if call.attr not in has:
                has.add(call.attr)
                made = copy.deepcopy(inherited)
                made.name = call.attr
                one.body.append(made)
                todo.append((base, made))


def _of_super(
    node: ast.AST,
    owner: str,
    own: Mapping[str, Mapping[str, ast.AsyncFunctionDef]],
    bases: Mapping[str, str | None],
) -> tuple[str, ast.AsyncFunctionDef] | None:
    """The class and the async method that `super().name` in a class means; None for anything else."""
    match node:
        case ast.Attribute(value=ast.Call(func=ast.Name(id="super"), args=[]), attr=name):
            base = bases[owner]
            while base is not None:
                if name in own[base]:
                    return base, own[base][name]
                base = bases[base]
        case _:
            pass
    return None
