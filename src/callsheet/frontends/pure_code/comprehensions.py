"""Lowers comprehensions and generator expressions of pure Python.

In: one of them. Out: a comprehension over what the executor goes through as Python does, or an iterator that
computes an item when it is asked.
"""

from __future__ import annotations

import ast
from typing import cast

from callsheet.frontends.pure_code.expressions import ExpressionLowering
from callsheet.frontends.pure_code.facts import placed


class ComprehensionLowering(ExpressionLowering):
    """Lowers the expressions of one program, also those that go through others."""

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.DictComp) -> ast.expr:
        first = node.generators[0]
        first.iter = self._comprehended(first.iter)
        self.scopes.enter(node)
        for at, one in enumerate(node.generators):
            if at:
                one.iter = self._comprehended(one.iter)
            one.target = self.visit(one.target)
            one.ifs = [self.truth(self.visit(test)) for test in one.ifs]
        if isinstance(node, ast.DictComp):
            node.key, node.value = self.visit(node.key), self.visit(node.value)
        else:
            node.elt = self.visit(node.elt)
        self.scopes.leave()
        return node

    def _comprehended(self, source: ast.expr) -> ast.expr:
        if self._is_lazy(source) and not any(
            self.scopes.is_builtin(cast("ast.Call", source).func, name) for name in ("map", "filter")
        ):
            return self._at_once(source)
        return self._sequence(source)

    def visit_ListComp(self, node: ast.ListComp) -> ast.expr:
        """A list from a comprehension."""
        return self._comprehension(node)

    def visit_SetComp(self, node: ast.SetComp) -> ast.expr:
        """A set from a comprehension."""
        return self._comprehension(node)

    def visit_DictComp(self, node: ast.DictComp) -> ast.expr:
        """A dict from a comprehension."""
        return self._comprehension(node)

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> ast.expr:
        """A generator that may be left before its end: an iterator that computes an item when it is asked."""
        source = self._sequence(node.generators[0].iter)
        self.scopes.enter(node)
        made = self._stepwise(node, 0, source)
        self.scopes.leave()
        return made

    def _stepwise(self, node: ast.GeneratorExp, level: int, source: ast.expr) -> ast.expr:
        one = node.generators[level]
        item = self.fresh("item")
        if level + 1 < len(node.generators):
            inner = self._stepwise(node, level + 1, self._sequence(node.generators[level + 1].iter))
        else:
            inner = self.visit(node.elt)
        items = ast.List([ast.Name(item, ast.Load())], ast.Load())
        tests = [self.truth(self.visit(test)) for test in one.ifs]
        loop = ast.comprehension(self.visit(one.target), items, tests, 0)
        made = ast.ListComp(inner, [loop])
        parameters = ast.arguments([], [ast.arg(item)], None, [], [], None, [])
        step = placed(ast.Lambda(parameters, made), node)
        lazy = self.call("_cs_Gen", node, source, step)
        return lazy if level + 1 == len(node.generators) else self.call("_cs_Nested", node, lazy)
