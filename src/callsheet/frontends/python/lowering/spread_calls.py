"""Calls whose arguments stand behind stars: one call for each number, or set, of them that there may be."""

from __future__ import annotations

import ast
import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final, cast

from callsheet.frontends.python import core
from callsheet.frontends.python.lowering.scope import Scope
from callsheet.frontends.python.program import Signature
from callsheet.frontends.python.source import Refused, given_by_default
from callsheet.frontends.python.syntax import keys_of, parsed, placed

_MOST_OPTIONAL: Final = 4
"""Of how many optional parameters the sets are told apart where arguments are spread."""


class SpreadCalls(Scope, ABC):
    """The part of a translator that takes `f(*given)` and `f(**given)` apart."""

    @abstractmethod
    def spilled(self, node: ast.expr, out: core.Block) -> ast.expr:
        """The value of an expression as a name or a constant."""

    @abstractmethod
    def member(self, call: ast.expr, out: core.Block, into: str | None) -> core.Core:
        """What awaiting this does, its arguments evaluated; nothing is appended for the call itself."""

    def spread_call(self, call: ast.Call, out: core.Block, into: str | None) -> bool:
        """`tool(…, **given)` as one call for each set of optional arguments that there may be.

        Whether the call is one: the parameters of what it calls have to be known, and few of them optional.
        """
        if self._starred_call(call, out, into):
            return True
        spread = [one for one in call.keywords if one.arg is None and not _is_literal_dict(one.value)]
        callee, known = self._called(call)
        if not spread or known is None or known.is_open:
            return False
        if len(spread) > 1 and len(spread) < sum(one.arg is None for one in call.keywords):
            return False
        shape = copy.copy(call)
        shape.args = [self.kept_plain(one, out) for one in call.args]
        shape.keywords = self._kept_words(call, out)
        parts = [shape.keywords[call.keywords.index(one)].value for one in spread]
        shape.keywords = [one for one in shape.keywords if one.value not in parts]
        given = parts[0] if len(parts) == 1 else self._merged(parts, call, out)
        named = {*known.parameters[: len(call.args)], *(one.arg for one in shape.keywords)}
        free = [one for one in known.parameters if one not in named]
        optional = [one for one in free if one not in known.required]
        found = [keys_of(one.value, self.function) for one in spread]
        keys = None if None in found else set[str]().union(*(one for one in found if one is not None))
        if keys is not None and keys <= set(free):
            optional = [one for one in optional if one in keys]
            free = [one for one in free if one in known.required or one in keys]
        if len(optional) > _MOST_OPTIONAL:
            return False
        required = [one for one in free if one in known.required]

        def calls(left: list[str], chosen: list[str]) -> core.Block:
            if left:
                test = parsed(f"{left[0]!r} in x", call)
                cast("ast.Compare", test).comparators = [given]
                first, *rest = left
                return [core.Choice(test, calls(rest, [*chosen, first]), calls(rest, chosen), call)]
            made = copy.copy(shape)
            made.keywords = list(shape.keywords)
            for one in free:
                if one in chosen or one in required:
                    value = ast.Subscript(given, ast.Constant(one), ast.Load())
                    word = ast.keyword(one, placed(value, call))
                    made.keywords.append(ast.copy_location(word, call))
            inner: core.Block = []
            inner.append(self.member(made, inner, into))
            return inner

        check = parsed(f"set({required!r}) <= set(x) <= set({free!r})", call)
        for one in ast.walk(check):
            if isinstance(one, ast.Call) and isinstance(one.args[0], ast.Name):
                one.args = [given]
        message = ast.copy_location(ast.Constant(f"{callee} takes other arguments"), call)
        wrong: core.Block = [core.Fail(message, "TYPE", call)]
        out.append(core.Choice(check, calls(optional, []), wrong, call))
        return True

    def _merged(self, parts: Sequence[ast.expr], call: ast.Call, out: core.Block) -> ast.expr:
        """One dict of several behind stars, which may not give an argument twice."""
        made = ast.Dict([None] * len(parts), [*parts])
        held = self.spilled(placed(made, call), out)
        test = parsed(f"len(x) < {' + '.join(['len(x)'] * len(parts))}", call)
        for one, part in zip(
            (one for one in ast.walk(test) if isinstance(one, ast.Call)), [held, *parts], strict=True
        ):
            one.args = [part]
        message = ast.copy_location(ast.Constant("an argument is given twice"), call)
        out.append(core.Choice(test, [core.Fail(message, "TYPE", call)], [], call))
        return held

    def _called(self, call: ast.Call) -> tuple[str, Signature | None]:
        """The name of what a call is of, and its parameters; None if they are not known."""
        callee = call.func.id if isinstance(call.func, ast.Name) else ""
        helper = self.helper(callee)
        known = (self.program.tools or {}).get(callee) if helper is None else _signature(helper)
        return callee, None if self.is_variable(callee) else known

    def _starred_call(self, call: ast.Call, out: core.Block, into: str | None) -> bool:
        """`f(a, *given)` as one call for each number of arguments that there may be; whether it is one."""
        *first, last = call.args or [ast.Constant(None)]
        callee, known = self._called(call)
        if not isinstance(last, ast.Starred) or known is None:
            return False
        if any(isinstance(one, ast.Starred) for one in first) or any(not one.arg for one in call.keywords):
            return False
        helper = self.helper(callee)
        words = [one.arg or "" for one in call.keywords]
        by_position = known.parameters
        if helper is not None:
            by_position = by_position[: len(helper.args.args)]
        free = [one for one in by_position[len(first) :] if one not in words]
        least = sum(one in known.required for one in free)
        if len(free) - least > _MOST_OPTIONAL or any(one in known.required for one in free[least:]):
            return False
        shape = copy.copy(call)
        shape.args = [self.kept_plain(one, out) for one in first]
        items = ast.Call(ast.Name("list", ast.Load()), [last.value], [])
        given = self.spilled(placed(items, last), out)
        shape.keywords = self._kept_words(call, out)
        message = ast.copy_location(ast.Constant(f"{callee} takes other arguments"), call)
        rest: core.Block = [core.Fail(message, "TYPE", call)]
        for count in range(least, len(free) + 1):
            made = copy.copy(shape)
            items = [ast.Subscript(given, ast.Constant(number), ast.Load()) for number in range(count)]
            made.args = [*shape.args, *(placed(one, last) for one in items)]
            inner: core.Block = []
            inner.append(self.member(made, inner, into))
            test = parsed(f"len(x) == {count}", call)
            cast("ast.Call", cast("ast.Compare", test).left).args = [given]
            rest = [core.Choice(test, inner, rest, call)]
        out += rest
        return True

    def _kept_words(self, call: ast.Call, out: core.Block) -> list[ast.keyword]:
        return [
            ast.copy_location(ast.keyword(one.arg, self.spilled(one.value, out)), one)
            for one in call.keywords
        ]

    def kept_plain(self, value: ast.expr, out: core.Block) -> ast.expr:
        """The value of an argument. Raises Refused (PYT009) for one behind a star."""
        if isinstance(value, ast.Starred):
            raise Refused(
                "PYT009",
                value,
                "which arguments are given is not known before the run",
                "write each argument",
            )
        return self.spilled(value, out)


def _is_literal_dict(node: ast.expr) -> bool:
    """Whether a node is a dict whose keys are literal texts."""
    return isinstance(node, ast.Dict) and all(
        isinstance(one, ast.Constant) and isinstance(one.value, str) for one in node.keys
    )


def _signature(helper: ast.AsyncFunctionDef) -> Signature | None:
    """The parameters of an async function of the program; None where it takes any number of arguments."""
    of = helper.args
    if of.vararg or of.kwarg or of.posonlyargs:
        return None
    optional = {name for name, _ in given_by_default(helper.args)}
    names = tuple(one.arg for one in (*of.args, *of.kwonlyargs))
    return Signature(names, frozenset(names) - optional)
