"""Gives the variables of each function of a program names of their own, so that scopes need not be known.

In: the syntax tree of a program. Out: the tree with `function.name` for the locals of its functions. Raises
NotUnderstood for what reaches variables in other ways: classes with methods, reflection, decorators.
"""

from __future__ import annotations

import ast

from callsheet.policy.python_words import REFLECTION


class NotUnderstood(Exception):
    """A program whose flow cannot be read."""


def scoped(parsed: ast.Module) -> ast.Module:
    """The tree with the locals of functions renamed; the tree that is given is left as it is."""
    for node in ast.walk(parsed):
        match node:
            case ast.ClassDef():
                _check_class(node)
            case ast.FunctionDef(decorator_list=[_, *_]):
                raise NotUnderstood("a decorator")
            case ast.AsyncFunctionDef() | ast.AsyncFor() | ast.AsyncWith() | ast.Await():
                raise NotUnderstood("async")
            case ast.Name(id=name) if name in REFLECTION or name.startswith("__"):
                raise NotUnderstood(name)
            case ast.Attribute(attr=attr) if attr.startswith("_"):
                raise NotUnderstood(attr)
            case _:
                pass
    return ast.Module([_Renamer({}).visit(one) for one in parsed.body], [])


def _check_class(node: ast.ClassDef) -> None:
    if any(not isinstance(one, ast.AnnAssign | ast.Assign | ast.Pass | ast.Expr) for one in node.body):
        raise NotUnderstood("a class with methods")
    for one in node.decorator_list:
        named = one.func if isinstance(one, ast.Call) else one
        if not (isinstance(named, ast.Name) and named.id == "dataclass"):
            raise NotUnderstood("a decorator")


def free_names(function: ast.FunctionDef) -> frozenset[str]:
    """The names that a renamed function reads from around it."""
    read = {one.id for one in ast.walk(function) if isinstance(one, ast.Name)}
    return frozenset(name for name in read if not name.startswith(f"{function.name}."))


class _Renamer(ast.NodeTransformer):
    """Renames what is local; nested functions and lambdas see the names around them."""

    def __init__(self, known: dict[str, str]) -> None:
        self._known = known

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.copy_location(ast.Name(self._known.get(node.id, node.id), node.ctx), node)

    def visit_arg(self, node: ast.arg) -> ast.arg:
        return ast.arg(self._known.get(node.arg, node.arg))

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        outer: set[str] = set()
        made = {one.arg for one in ast.walk(node.args) if isinstance(one, ast.arg)}
        waiting: list[ast.AST] = list(node.body)
        while waiting:
            one = waiting.pop()
            match one:
                case (
                    ast.FunctionDef(name=name)
                    | ast.ClassDef(name=name)
                    | ast.ExceptHandler(name=str() as name)
                ):
                    made.add(name)
                case ast.Name(id=name, ctx=ast.Store()):
                    made.add(name)
                case ast.MatchAs(name=str() as name) | ast.MatchStar(name=str() as name):
                    raise NotUnderstood("a pattern in a function")
                case ast.Global(names=names) | ast.Nonlocal(names=names):
                    outer.update(names)
                case _:
                    pass
            if not isinstance(one, ast.FunctionDef | ast.Lambda):
                waiting += ast.iter_child_nodes(one)
        inner = {**self._known, **{name: f"{node.name}.{name}" for name in made - outer}}
        defaults = [*node.args.defaults, *(one for one in node.args.kw_defaults if one is not None)]
        within = _Renamer(inner)
        name = self._known.get(node.name, node.name)
        body = [within.visit(one) for one in node.body]
        for one in ast.walk(ast.Module(body, [])):
            if isinstance(one, ast.ExceptHandler) and one.name in made - outer:
                one.name = f"{node.name}.{one.name}"
        # what a default reads is read by the function
        body += [ast.Expr(self.visit(one)) for one in defaults]
        return ast.copy_location(ast.FunctionDef(name, _no_arguments(), body, []), node)

    def visit_Lambda(self, node: ast.Lambda) -> ast.Lambda:
        own = {one.arg for one in ast.walk(node.args) if isinstance(one, ast.arg)}
        inner = _Renamer({name: to for name, to in self._known.items() if name not in own})
        defaults = [self.visit(one) for one in node.args.defaults]
        made = ast.Lambda(_no_arguments(), inner.visit(node.body))
        if defaults:
            made.body = ast.Tuple([made.body, *defaults], ast.Load())
        return ast.copy_location(made, node)


def _no_arguments() -> ast.arguments:
    return ast.arguments([], [], None, [], [], None, [])
