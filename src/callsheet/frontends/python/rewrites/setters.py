"""Properties that are set: what `box.size = 3` calls, as a call of a method.

In: the tree of a file, which is changed in place. A setter stays, and is refused by who reads it, where
another class has a field of its name, or where it is set in other ways than by one assignment.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import TypeGuard

from callsheet.frontends.python.rewrites.inlining import Fresh
from callsheet.frontends.python.source import Nodes, walk
from callsheet.frontends.python.syntax import placed


def setters_as_methods(module: ast.Module, nodes: Nodes) -> bool:
    """Write the setters of a file as methods; whether there were any.

    >>> module = ast.parse('''class Box:
    ...     @property
    ...     def size(self): return self._size
    ...     @size.setter
    ...     def size(self, given): self._size = max(given, 0)
    ... box.size = 3
    ... box.size += 1''')
    >>> setters_as_methods(module, Nodes(module))
    True
    >>> print(ast.unparse(module.body[0].body[1]), ast.unparse(module.body[1:]), sep="\\n")
    def set_size_at_1(self, given):
        self._size = max(given, 0)
    box.set_size_at_1(3)
    box.set_size_at_1(box.size + 1)
    """
    found = [(shape, one) for shape in nodes.of(ast.ClassDef) for one in shape.body]
    setters = [(shape, one) for shape, one in found if isinstance(one, ast.FunctionDef) and _is_setter(one)]
    if not setters:
        return False
    fresh, names = Fresh(nodes), dict[str, str]()
    plain = {one.targets[0] for one in nodes.of(ast.Assign) if len(one.targets) == 1}
    plain |= {one.target for one in nodes.of(ast.AugAssign) if _is_field_of_name(one.target)}
    odd = {each.attr for each in nodes if _sets_field(each) and each not in plain}
    owners: dict[str, set[ast.ClassDef]] = {}
    for shape, part in found:
        for each in walk(part):
            if _sets_field(each):
                owners.setdefault(each.attr, set()).add(shape)
            elif isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
                owners.setdefault(each.id, set()).add(shape)
    for shape, one in setters:
        if one.name in names or one.name in odd or owners.get(one.name, {shape}) != {shape}:
            return False
        names[one.name] = fresh(f"set_{one.name}")
    for _, one in setters:
        one.name, one.decorator_list = names[one.name], []
    _Setting(names).visit(module)
    return True


def _is_setter(one: ast.FunctionDef) -> bool:
    return any(isinstance(each, ast.Attribute) and each.attr == "setter" for each in one.decorator_list)


def _sets_field(node: ast.AST) -> TypeGuard[ast.Attribute]:
    return isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load)


def _is_field_of_name(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)


class _Setting(ast.NodeTransformer):
    """Writes assignments of properties as calls."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = names

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        """An assignment."""
        return self._set(node, node.targets[0], node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        """An operation with what the property has."""
        target = node.target
        if not isinstance(target, ast.Attribute):
            return node
        held = ast.Attribute(target.value, target.attr, ast.Load())
        return self._set(node, target, ast.BinOp(held, node.op, node.value))

    def _set(self, node: ast.stmt, target: ast.expr, value: ast.expr) -> ast.AST:
        if not isinstance(target, ast.Attribute) or target.attr not in self.names:
            return node
        method = ast.Attribute(target.value, self.names[target.attr], ast.Load())
        return placed(ast.Expr(ast.Call(method, [value], [])), node)
