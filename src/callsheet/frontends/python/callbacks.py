"""Async functions that are given what to call, as `retry(lambda: fetch(url=u))`: a copy for each such call.

In: a call, and the function. Out: the copy, in which the parameter's calls are those of what was given, and
the call of it. So which tools are called is written in the plan.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Mapping
from typing import cast

from callsheet.frontends.python.source import Refused, names_read, parameters_of


def takes_functions(call: ast.Call, is_function: Callable[[str], bool]) -> bool:
    """Whether a call is given a function: the name of one, or a lambda around a call of one."""
    given = [*call.args, *(word.value for word in call.keywords)]
    return any(
        (isinstance(one, ast.Name) and is_function(one.id))
        or (isinstance(one, ast.Lambda) and _calls_one(one, is_function))
        for one in given
    )


def _calls_one(node: ast.Lambda, is_function: Callable[[str], bool]) -> bool:
    body = node.body
    return isinstance(body, ast.Call) and isinstance(body.func, ast.Name) and is_function(body.func.id)


def specialised(
    call: ast.Call,
    function: ast.AsyncFunctionDef,
    is_function: Callable[[str], bool],
    fresh: Callable[[str], str],
) -> tuple[ast.AsyncFunctionDef, ast.Call]:
    """The copy of a function for what a call gives it, and the call of it. Raises Refused (PYT011)."""
    of = function.args
    plain = [one.arg for one in (*of.posonlyargs, *of.args)]
    positional = dict(zip(plain, call.args, strict=False))
    more = call.args[len(plain) :]
    words = {word.arg: word.value for word in call.keywords if word.arg is not None}
    if (
        any(isinstance(one, ast.Starred) for one in call.args)
        or len(words) < len(call.keywords)
        or (more and not of.vararg)
    ):
        raise Refused(
            "PYT009", call, "which arguments are given is not known before the run", "write each argument"
        )
    known = {one.arg for one in (*of.posonlyargs, *of.args, *of.kwonlyargs)}
    extra = {name: value for name, value in words.items() if name not in known}
    given = {**positional, **{name: value for name, value in words.items() if name in known}}
    functions = {
        name: value
        for name, value in given.items()
        if (isinstance(value, ast.Name) and is_function(value.id))
        or (isinstance(value, ast.Lambda) and _calls_one(value, is_function))
    }
    made = copy.deepcopy(function)
    made.name = fresh(function.name)
    rest = [fresh(of.vararg.arg) for _ in more] if of.vararg else []
    others = {name: fresh(name) for name in extra}
    inner = _Calls(
        functions,
        of.vararg.arg if of.vararg else None,
        rest,
        of.kwarg.arg if of.kwarg else None,
        others,
        fresh,
    )
    made.body = [cast("ast.stmt", inner.visit(one)) for one in made.body]
    parameters = [
        one for one in parameters_of(of) if one not in (of.vararg, of.kwarg) and one.arg not in functions
    ]
    defaults = _defaults(of)
    required = [one for one in parameters if one.arg not in defaults]
    optional = [one for one in parameters if one.arg in defaults]
    added = [*rest, *others.values(), *inner.free.values()]
    made.args = ast.arguments(
        posonlyargs=[],
        args=[*(ast.copy_location(ast.arg(name), call) for name in added), *required, *optional],
        kwonlyargs=[],
        kw_defaults=[],
        defaults=[defaults[one.arg] for one in optional],
    )
    values: dict[str, ast.expr] = {
        **dict(zip(rest, more, strict=True)),
        **{others[name]: value for name, value in extra.items()},
        **{held: ast.copy_location(ast.Name(name, ast.Load()), call) for name, held in inner.free.items()},
        **{name: value for name, value in given.items() if name not in functions},
    }
    target = ast.copy_location(ast.Name(made.name, ast.Load()), call.func)
    again = ast.Call(
        target, [], [ast.copy_location(ast.keyword(name, value), value) for name, value in values.items()]
    )
    return made, ast.copy_location(again, call)


def _defaults(of: ast.arguments) -> Mapping[str, ast.expr]:
    plain = [one.arg for one in (*of.posonlyargs, *of.args)]
    made = dict(zip(plain[len(plain) - len(of.defaults) :], of.defaults, strict=True))
    return made | {one.arg: value for one, value in zip(of.kwonlyargs, of.kw_defaults, strict=True) if value}


class _Calls(ast.NodeTransformer):
    """Puts calls of the given functions in the place of calls of a parameter."""

    def __init__(
        self,
        functions: Mapping[str, ast.expr],
        rest: str | None,
        rest_names: list[str],
        words: str | None,
        word_names: Mapping[str, str],
        fresh: Callable[[str], str],
    ) -> None:
        self.functions, self.rest, self.rest_names = functions, rest, rest_names
        self.words, self.word_names, self.fresh = words, word_names, fresh
        self.free: dict[str, str] = {}
        """The variables that lambdas read from around them, and the parameters that hold them."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        args: list[ast.expr] = []
        for one in node.args:
            if isinstance(one, ast.Starred) and isinstance(one.value, ast.Name) and one.value.id == self.rest:
                args += [ast.copy_location(ast.Name(name, ast.Load()), one) for name in self.rest_names]
            else:
                args.append(cast("ast.expr", self.visit(one)))
        keywords: list[ast.keyword] = []
        for word in node.keywords:
            if word.arg is None and isinstance(word.value, ast.Name) and word.value.id == self.words:
                keywords += [
                    ast.copy_location(
                        ast.keyword(name, ast.copy_location(ast.Name(held, ast.Load()), word.value)), word
                    )
                    for name, held in self.word_names.items()
                ]
            else:
                keywords.append(
                    ast.copy_location(ast.keyword(word.arg, cast("ast.expr", self.visit(word.value))), word)
                )
        given = self.functions.get(node.func.id) if isinstance(node.func, ast.Name) else None
        if isinstance(given, ast.Name):
            func = ast.copy_location(ast.Name(given.id, ast.Load()), node.func)
            return ast.copy_location(ast.Call(func, args, keywords), node)
        if isinstance(given, ast.Lambda):
            return self._body(given, args, node)
        func = node.func if isinstance(node.func, ast.Name) else cast("ast.expr", self.visit(node.func))
        return ast.copy_location(ast.Call(func, args, keywords), node)

    def _body(self, given: ast.Lambda, args: list[ast.expr], node: ast.Call) -> ast.AST:
        """The body of a lambda with arguments for its parameters; its other variables become parameters."""
        parameters = [one.arg for one in given.args.args]
        values: dict[str, ast.expr] = dict(zip(parameters, args, strict=False))
        defaults = _defaults(given.args)
        values |= {name: value for name, value in defaults.items() if name not in values}
        if len(args) > len(parameters) or set(parameters) - set(values):
            raise Refused(
                "PYT009", node, "the lambda that is called here takes other arguments", "give what it takes"
            )
        body = copy.deepcopy(given.body)
        outer = names_read(body) - set(parameters)
        called = cast("ast.Name", cast("ast.Call", body).func).id
        for name in sorted(outer - {called}):
            self.free.setdefault(name, self.fresh(name))

        held = {name: self.free[name] for name in outer - {called}}
        return cast("ast.AST", _Put(values, held).visit(body))

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id in self.functions or node.id in {self.rest, self.words}:
            raise Refused(
                "PYT011",
                node,
                f"{node.id} is a function, and is more than called here",
                f"call it: await {node.id}(…)",
            )
        return node


class _Put(ast.NodeTransformer):
    """Puts expressions and other names in the place of names."""

    def __init__(self, values: Mapping[str, ast.expr], names: Mapping[str, str]) -> None:
        self.values, self.names = values, names

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """A name that is one of them."""
        if node.id in self.values:
            return copy.deepcopy(self.values[node.id])
        if node.id in self.names:
            return ast.copy_location(ast.Name(self.names[node.id], ast.Load()), node)
        return node
