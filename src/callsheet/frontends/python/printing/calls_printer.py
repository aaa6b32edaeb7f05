"""Prints the calls of a plan as Python: tools, operations of callsheet, and sub-plans."""

from __future__ import annotations

import ast
from typing import Final

from callsheet.frontends.python.printing.code_printer import CodePrinter, unparsed
from callsheet.frontends.python.printing.values_printer import is_name
from callsheet.frontends.python.program import BINDINGS, Binding
from callsheet.frontends.python.source import function_of
from callsheet.ir import tree
from callsheet.ir.expression import Expression

_OPERATIONS: Final = {binding.tool: (name, binding) for name, binding in BINDINGS.items()}
CHECKS: Final = "Python does not check this type"


class CallsPrinter(CodePrinter):
    """Prints the calls of one function."""

    def text(self, value: Expression) -> str:
        """An expression as text."""
        return unparsed(self.values.value(value))

    def _stored(self, into: tree.Into | None, text: str) -> str:
        if into is None:
            return text
        if into.type is not None:
            self.of.remark(CHECKS, into.span)
        return f"{self.names[into.name]} = {text}"

    def call(self, one: tree.Act | tree.Invoke) -> ast.Call:
        """A call, without await."""
        if isinstance(one, tree.Invoke):
            named = [ast.keyword(self.names[name], self.values.value(value)) for name, value in one.named]
            return ast.Call(ast.Name(one.plan, ast.Load()), [], named)
        known = _OPERATIONS.get(one.tool)
        if known is not None:
            made = self._operation(one, *known)
            if made is not None:
                self.of.uses.add(known[0])
                return made
        name = function_of(one.tool)
        plain, odd = list[ast.keyword](), ast.Dict([], [])
        for key, value in one.named:
            if is_name(key):
                plain.append(ast.keyword(key, self.values.value(value)))
            else:
                odd.keys.append(ast.Constant(key))
                odd.values.append(self.values.value(value))
        if odd.keys:
            plain.append(ast.keyword(None, odd))
        positional = [self.values.value(value) for value in one.positional]
        return ast.Call(ast.Name(name, ast.Load()), positional, plain)

    def _operation(self, one: tree.Act, name: str, binding: Binding) -> ast.Call | None:
        """A call of an operation of callsheet by its name in Python; None if it takes these otherwise."""
        by_place = [python for python, ltp in binding.parameters if not ltp]
        by_name = {ltp: python for python, ltp in binding.parameters if ltp}
        if len(one.positional) > len(by_place) or any(key not in by_name for key, _ in one.named):
            return None
        first = [python for python, _ in binding.parameters][: len(one.positional)]
        if by_place[: len(one.positional)] == first:
            positional = [self.values.value(value) for value in one.positional]
            words = list[ast.keyword]()
        else:
            positional = []
            words = [
                ast.keyword(key, self.values.value(value))
                for key, value in zip(by_place, one.positional, strict=False)
            ]
        words += [ast.keyword(by_name[key], self.values.value(value)) for key, value in one.named]
        return ast.Call(ast.Name(name, ast.Load()), positional, words)
