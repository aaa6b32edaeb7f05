"""What the objects of a class keep of the arguments that make them, where its text tells."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Sequence
from typing import Final

from callsheet.frontends.python.source import (
    decorator_name,
    dotted,
    given_by_default,
    is_named,
    names_read,
    parameters_of,
    walk,
)

_GIVES_FLAT: Final = frozenset({"str", "int", "float", "bool", "len", "repr", "abs", "round"})
_OWN_MAKING: Final = frozenset({"__new__", "__post_init__", "__setattr__"})


def fields_given(made: ast.stmt | None, call: ast.Call) -> list[tuple[str, ast.expr]] | None:
    """The fields of a new object that are arguments of the call which makes it, with these.

    All others have values of their own. None where the class does something else with an argument, or it is
    not told which one an argument is.

    >>> made = ast.parse('''class Order:
    ...     def __init__(self, number, lines=None):
    ...         self.number = number
    ...         self.lines = lines or []
    ...         self.log = []''').body[0]
    >>> call = ast.parse("Order(1, given)", mode="eval").body
    >>> [(field, ast.unparse(one)) for field, one in fields_given(made, call)]
    [('number', '1'), ('lines', 'given')]
    """
    if not isinstance(made, ast.ClassDef) or made.bases or made.keywords or dotted(call.func) != made.name:
        return None
    methods = {one.name: one for one in made.body if isinstance(one, ast.FunctionDef)}
    if not _OWN_MAKING.isdisjoint(methods):
        return None
    init = methods.get("__init__")
    if init is None:
        if not any(decorator_name(one) == "dataclass" for one in made.decorator_list):
            return None
        noted = (one.target for one in made.body if isinstance(one, ast.AnnAssign))
        names = [one.id for one in noted if isinstance(one, ast.Name)]
        kept = [(name, name) for name in names]
    else:
        _, *names = [one.arg for one in parameters_of(init.args)] or [""]
        found = None if init.args.vararg or init.args.kwarg else _kept(init, frozenset(names))
        if found is None:
            return None
        kept = found
    given = _by_name(call, names)
    if given is None:
        return None
    defaults = dict(given_by_default(init.args)) if init is not None else {}
    if any(not isinstance(one, ast.Constant) for name, one in defaults.items() if name not in given):
        return None
    return [(field, given[name]) for field, name in kept if name in given]


def keeps_each_once(made: ast.stmt | None) -> bool:
    """Whether an object of a class holds each argument that makes it in one place at most."""
    if not isinstance(made, ast.ClassDef) or made.bases or made.keywords:
        return False
    methods = {one.name: one for one in made.body if isinstance(one, ast.FunctionDef)}
    init = methods.get("__init__")
    if init is None:
        return "__post_init__" not in methods and "__new__" not in methods
    itself, *given = [one.arg for one in parameters_of(init.args)] or [""]
    read = [one.id for one in walk(init) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)]
    fields = [one for one in walk(init) if isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Store)]
    is_plain = all(
        isinstance(one, (ast.Assign, ast.AnnAssign)) or isinstance(getattr(one, "value", None), ast.Constant)
        for one in init.body
    )
    only_stores = read.count(itself) == len(fields)
    return is_plain and only_stores and all(read.count(name) < 2 for name in given)


def _kept(init: ast.FunctionDef, names: frozenset[str]) -> list[tuple[str, str]] | None:
    """The fields that `__init__` sets to its parameters, with these; None if it does anything else."""
    itself, found = init.args.args[0].arg if init.args.args else "", list[tuple[str, str]]()
    for one in init.body:
        match one:
            case (
                ast.Assign(targets=[ast.Attribute(value=holder, attr=field)], value=value)
                | ast.AnnAssign(target=ast.Attribute(value=holder, attr=field), value=ast.expr() as value)
            ) if is_named(holder, itself):
                given = [*_parameters_in(value, names)]
                if None in given:
                    return None
                found += [(field, name) for name in given if name is not None]
            case ast.Pass() | ast.Expr(value=ast.Constant()):
                pass
            case _:
                return None
    return found


def _parameters_in(value: ast.expr, names: frozenset[str]) -> Iterator[str | None]:
    """The parameters of which a value may be one, None for one of which it may be or hold a part."""
    match value:
        case ast.Name(id=name) if name in names:
            yield name
        case ast.BoolOp(values=parts):
            for one in parts:
                yield from _parameters_in(one, names)
        case ast.IfExp(body=first, orelse=second):
            yield from _parameters_in(first, names)
            yield from _parameters_in(second, names)
        case ast.Constant() | ast.JoinedStr() | ast.Compare():
            pass
        case ast.Call(func=ast.Name(id=function), keywords=[]) if function in _GIVES_FLAT:
            pass
        case _ if names_read(value) - vars(builtins).keys():
            yield None
        case _:
            pass


def _by_name(call: ast.Call, names: Sequence[str]) -> dict[str, ast.expr] | None:
    if len(call.args) > len(names) or any(isinstance(one, ast.Starred) for one in call.args):
        return None
    if any(one.arg is None or one.arg not in names for one in call.keywords):
        return None
    return {**dict(zip(names, call.args, strict=False)), **{str(one.arg): one.value for one in call.keywords}}
