"""Copies of async functions that are given what to call, as `retry(lambda: fetch(u))` or `safe(fetch(u))`.

In: a call, and the function. Out: the copy, in which the parameter's calls are those of what was given, and
the call of it. So which tools are called is written in the plan.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Container, Mapping
from typing import NamedTuple, cast

from callsheet.frontends.python.source import Refused, given_by_default, names_read, own_nodes, parameters_of


class Known(NamedTuple):
    """Which names are functions where a call stands."""

    awaits: Callable[[str], bool]
    """Of a tool or an async function."""
    is_pure: Callable[[str], bool]
    """Of a pure function."""
    is_variable: Callable[[str], bool]
    """Of a variable, and no function."""

    def is_given(self, one: ast.expr) -> bool:
        """Whether an argument is a function, or a call that is not awaited yet."""
        match one:
            case ast.Name(id=name):
                return self.awaits(name) or self.is_pure(name)
            case ast.Lambda(body=body):
                return self.is_call(body) or not any(map(self.is_call, ast.walk(body)))
            case _:
                return self.is_call(one)

    def is_call(self, one: ast.AST) -> bool:
        """Whether a node is a call of a tool or an async function."""
        return isinstance(one, ast.Call) and isinstance(one.func, ast.Name) and self.awaits(one.func.id)


def takes_functions(call: ast.Call, function: ast.AsyncFunctionDef, known: Known) -> bool:
    """Whether a call gives an async function what to call: a function, or a call that it awaits once.

    A function that is the default of a parameter is given by a call that leaves it out.
    """
    given = dict(_arguments(call, function))
    return any(_is_meant(name, one, function, known) for name, one in given.items()) or bool(
        _functions_by_default(function, given, known)
    )


def _functions_by_default(
    function: ast.AsyncFunctionDef, given: Container[str], known: Known
) -> Mapping[str, ast.expr]:
    """The functions that stand as defaults of what a call leaves out, and read no variable."""
    return {
        name: one
        for name, one in given_by_default(function.args)
        if name not in given
        and isinstance(one, (ast.Lambda, ast.Name))
        and known.is_given(one)
        and not any(map(known.is_variable, names_read(one) - {each.arg for each in _own(one)}))
    }


def _own(one: ast.expr) -> list[ast.arg]:
    return parameters_of(one.args) if isinstance(one, ast.Lambda) else []


def _arguments(call: ast.Call, function: ast.AsyncFunctionDef) -> list[tuple[str, ast.expr]]:
    plain = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
    words = [(word.arg, word.value) for word in call.keywords if word.arg is not None]
    return [
        (name, _of_method(name, one, function))
        for name, one in (*zip(plain, call.args, strict=False), *words)
    ]


def _of_method(name: str, given: ast.expr, function: ast.AsyncFunctionDef) -> ast.expr:
    """A method that is given, as `rows.append`, as a lambda with the parameters that its calls give."""
    if not (isinstance(given, ast.Attribute) and isinstance(given.value, ast.Name)):
        return given
    counts = {len(one.args) for one in _calls_of(function, name) if not one.keywords}
    if len(counts) != 1:
        return given
    names = [f"{name}_{number}" for number in range(counts.pop())]
    arguments = ast.arguments([], [ast.arg(one) for one in names], None, [], [], None, [])
    body = ast.Call(given, [ast.Name(one, ast.Load()) for one in names], [])
    return ast.fix_missing_locations(ast.copy_location(ast.Lambda(arguments, body), given))


def _is_meant(name: str, given: ast.expr, function: ast.AsyncFunctionDef, known: Known) -> bool:
    if not known.is_given(given):
        return False
    return not isinstance(given, ast.Call) or _is_awaited_once(function, name)


def _is_awaited_once(function: ast.AsyncFunctionDef, name: str) -> bool:
    """Whether a function awaits what its parameter holds, in one place and in no loop."""
    inside = list(own_nodes(*function.body))
    uses = [one for one in inside if isinstance(one, ast.Name) and one.id == name]
    loops = [one for one in inside if isinstance(one, (ast.For, ast.AsyncFor, ast.While, ast.comprehension))]
    awaited = [each for one in inside if isinstance(one, ast.Await) for each in ast.walk(one)]
    return len(uses) == 1 and uses[0] in awaited and not any(uses[0] in ast.walk(one) for one in loops)


def specialised(
    call: ast.Call, function: ast.AsyncFunctionDef, known: Known, fresh: Callable[[str], str]
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
    own = {one.arg for one in (*of.posonlyargs, *of.args, *of.kwonlyargs)}
    extra = {name: value for name, value in words.items() if name not in own}
    given = {**positional, **{name: value for name, value in words.items() if name in own}}
    given = {name: _of_method(name, value, function) for name, value in given.items()}
    functions = {name: value for name, value in given.items() if _is_meant(name, value, function, known)}
    functions |= _functions_by_default(function, given, known)
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
        known,
    )
    defaults = dict(given_by_default(of))
    inner.absent = {
        name
        for name, value in {**defaults, **given}.items()
        if isinstance(value, ast.Constant) and value.value is None and _calls_of(function, name)
    }
    body: list[ast.stmt] = []
    for one in made.body:
        found = cast("ast.stmt | list[ast.stmt]", inner.visit(one))
        body += found if isinstance(found, list) else [found]
    made.body = body
    parameters = [
        one for one in parameters_of(of) if one not in (of.vararg, of.kwarg) and one.arg not in functions
    ]
    required = [one for one in parameters if one.arg not in defaults]
    optional = [one for one in parameters if one.arg in defaults]
    added = [*rest, *others.values(), *inner.free.values(), *inner.held]
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
        **inner.held,
        **{name: value for name, value in given.items() if name not in functions},
    }
    target = ast.copy_location(ast.Name(made.name, ast.Load()), call.func)
    again = ast.Call(
        target, [], [ast.copy_location(ast.keyword(name, value), value) for name, value in values.items()]
    )
    return made, ast.copy_location(again, call)


def _calls_of(function: ast.AsyncFunctionDef, name: str) -> list[ast.Call]:
    return [
        one
        for one in own_nodes(*function.body)
        if isinstance(one, ast.Call) and isinstance(one.func, ast.Name) and one.func.id == name
    ]


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
        known: Known,
    ) -> None:
        self.known = known
        self.functions, self.rest, self.rest_names = functions, rest, rest_names
        self.words, self.word_names, self.fresh = words, word_names, fresh
        self.free: dict[str, str] = {}
        """The variables that lambdas read from around them, and the parameters that hold them."""
        self.absent = set[str]()
        """The parameters that would be called, and are not given."""
        self.held: dict[str, ast.expr] = {}
        """The parameters that hold the arguments of calls that are given, and these."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        is_handed_on = isinstance(node.func, ast.Name) and self.known.awaits(node.func.id)
        args: list[ast.expr] = []
        for one in node.args:
            if is_handed_on and self._is_function(one):  # the function that is called gets a copy, too
                args.append(ast.copy_location(self._itself(cast("ast.Name", one)), one))
                continue
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
                is_function = is_handed_on and self._is_function(word.value)
                value = self._itself(cast("ast.Name", word.value)) if is_function else self.visit(word.value)
                keywords.append(ast.copy_location(ast.keyword(word.arg, cast("ast.expr", value)), word))
        given = self.functions.get(node.func.id) if isinstance(node.func, ast.Name) else None
        if isinstance(given, ast.Name):
            func = ast.copy_location(ast.Name(given.id, ast.Load()), node.func)
            return ast.copy_location(ast.Call(func, args, keywords), node)
        if isinstance(given, ast.Lambda):
            return self._body(given, args, node)
        func = node.func if isinstance(node.func, ast.Name) else cast("ast.expr", self.visit(node.func))
        return ast.copy_location(ast.Call(func, args, keywords), node)

    def _is_function(self, one: ast.expr) -> bool:
        """Whether an argument is a parameter that holds a function which awaits."""
        given = self.functions.get(one.id) if isinstance(one, ast.Name) else None
        if isinstance(given, ast.Name):
            return self.known.awaits(given.id)
        return isinstance(given, ast.Lambda) and self.known.is_call(given.body)

    def _itself(self, one: ast.Name) -> ast.expr:
        """The function that a parameter holds."""
        given = self.functions[one.id]
        return self._lambda(given) if isinstance(given, ast.Lambda) else ast.Name(given.id, ast.Load())  # type: ignore[attr-defined]

    def _body(self, given: ast.Lambda, args: list[ast.expr], node: ast.Call) -> ast.AST:
        """The body of a lambda with arguments for its parameters; its other variables become parameters."""
        if not self.known.is_given(given) or not isinstance(given.body, ast.Call):
            return ast.copy_location(ast.Call(self._lambda(given), args, []), node)
        if not (isinstance(given.body.func, ast.Name) and self.known.awaits(given.body.func.id)):
            return ast.copy_location(ast.Call(self._lambda(given), args, []), node)
        parameters = [one.arg for one in given.args.args]
        values: dict[str, ast.expr] = dict(zip(parameters, args, strict=False))
        defaults = given_by_default(given.args)
        values |= {name: self._from_around(value) for name, value in defaults if name not in values}
        if len(args) > len(parameters) or set(parameters) - set(values):
            raise Refused(
                "PYT009", node, "the lambda that is called here takes other arguments", "give what it takes"
            )
        held = self._held(given.body, set(parameters))
        return cast("ast.AST", _Put(values, held).visit(copy.deepcopy(given.body)))

    def _is_there(self, test: ast.expr) -> bool | None:
        """Whether a test asks for a function that is given, or for one that is not; None for another test."""
        match test:
            case ast.Name(id=name):
                wanted = True
            case ast.Compare(
                left=ast.Name(id=name), ops=[ast.IsNot()], comparators=[ast.Constant(value=None)]
            ):
                wanted = True
            case ast.Compare(left=ast.Name(id=name), ops=[ast.Is()], comparators=[ast.Constant(value=None)]):
                wanted = False
            case ast.UnaryOp(op=ast.Not(), operand=ast.Name(id=name)):
                wanted = False
            case _:
                return None
        if name in self.functions:
            return wanted
        return not wanted if name in self.absent else None

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        """A condition, of which one branch is left where it asks for a function."""
        is_there = self._is_there(node.test)
        if is_there is None:
            return self.generic_visit(node)
        branch = node.body if is_there else node.orelse
        made: list[ast.stmt] = []
        for one in branch:
            found = cast("ast.stmt | list[ast.stmt]", self.visit(one))
            made += found if isinstance(found, list) else [found]
        return made or [ast.copy_location(ast.Pass(), node)]

    def _lambda(self, given: ast.Lambda) -> ast.expr:
        """A pure lambda, which reads its other variables from parameters."""
        made, of = copy.copy(given), copy.copy(given.args)
        own = {one.arg for one in parameters_of(of)}
        of.defaults = [self._from_around(one) for one in of.defaults]
        of.kw_defaults = [None if one is None else self._from_around(one) for one in of.kw_defaults]
        made.args, made.body = of, self._from_around(given.body, own)
        return made

    def _from_around(self, value: ast.expr, own: Container[str] = ()) -> ast.expr:
        """A part of a lambda, with parameters for the variables that it reads from around it."""
        return cast("ast.expr", _Put({}, self._held(value, own)).visit(copy.deepcopy(value)))

    def _held(self, value: ast.expr, own: Container[str]) -> dict[str, str]:
        """The variables that a part of a lambda reads from around it, and the parameters that hold them."""
        outer = sorted(one for one in names_read(value) if one not in own and self.known.is_variable(one))
        return {name: self.free.setdefault(name, self.fresh(name)) for name in outer}

    def _call(self, given: ast.Call, node: ast.Name) -> ast.AST:
        """A call that is given and not awaited yet; its arguments are parameters."""
        made = copy.deepcopy(given)
        if any(isinstance(one, ast.Starred) for one in made.args) or any(
            one.arg is None for one in made.keywords
        ):
            raise Refused(
                "PYT009",
                given,
                "which arguments are given is not known before the run",
                "write each argument",
            )
        for number, one in enumerate(made.args):
            made.args[number] = self._argument(one, node)
        for word in made.keywords:
            word.value = self._argument(word.value, node)
        return ast.copy_location(made, node)

    def _argument(self, value: ast.expr, node: ast.Name) -> ast.expr:
        if isinstance(value, ast.Constant):
            return value
        if isinstance(value, ast.Call) and self.known.is_call(value):
            return cast("ast.expr", self._call(value, node))
        name = self.fresh("given")
        self.held[name] = value
        return ast.copy_location(ast.Name(name, ast.Load()), node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        given = self.functions.get(node.id)
        if isinstance(given, ast.Call):
            return self._call(given, node)
        if isinstance(given, ast.Name) and self.known.is_pure(given.id):
            return ast.copy_location(ast.Name(given.id, ast.Load()), node)
        if isinstance(given, ast.Lambda) and not self.known.is_call(given.body):
            return self._lambda(given)
        if node.id in self.functions:
            raise Refused(
                "PYT011",
                node,
                f"{node.id} is a function, and is more than called here",
                f"call it: await {node.id}(…)",
            )
        if isinstance(node.ctx, ast.Store) or node.id not in {self.rest, self.words}:
            return node
        held = self.rest_names if node.id == self.rest else self.word_names.values()
        values: list[ast.expr] = [ast.Name(one, ast.Load()) for one in held]
        keys: list[ast.expr | None] = [ast.Constant(one) for one in self.word_names]
        made = ast.Tuple(values, ast.Load()) if node.id == self.rest else ast.Dict(keys, values)
        return ast.fix_missing_locations(ast.copy_location(made, node))


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
