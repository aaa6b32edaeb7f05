"""What a program says of the errors that it has caught, as what a plan records of a failure."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from callsheet.frontends.python.exceptions import FAILURE_KINDS, exception_name
from callsheet.frontends.python.source import (
    Refused,
    dotted,
)
from callsheet.frontends.python.syntax import (
    MARK,
)

if TYPE_CHECKING:
    from callsheet.frontends.python.scope import Scope


class Failures(ast.NodeTransformer):
    """What is said of a caught error, as fields of its failure."""

    def __init__(self, of: Scope) -> None:
        self.of = of

    def _field(self, held: str, field: str, node: ast.AST) -> ast.expr:
        made = ast.Subscript(ast.Name(held, ast.Load()), ast.Constant(field), ast.Load())
        return ast.fix_missing_locations(ast.copy_location(made, node))

    def _held(self, node: ast.AST) -> str | None:
        return self.of.failure_variable(node.id) if isinstance(node, ast.Name) else None

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """A call."""
        name = dotted(node.func)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "result" and not node.args:
            return self.visit(node.func.value)
        held = self._held(node.args[0]) if len(node.args) >= 1 else None
        if held is not None and name == "str":
            return self._field(held, "message", node)
        if held is not None and name == "repr":
            return self._repr(held, node)
        if held is not None and name == "isinstance" and len(node.args) == 2:
            listed = node.args[1].elts if isinstance(node.args[1], ast.Tuple) else [node.args[1]]
            names = [(dotted(one) or "").split(".")[-1] for one in listed]
            if all(self.of.program.exceptions.is_exception(one) for one in names):
                kinds = self.of.program.exceptions.caught(names)
                if not kinds:
                    return ast.copy_location(ast.Constant(True), node)
                among = ast.Tuple([ast.Constant(one) for one in kinds], ast.Load())
                test = ast.Compare(self._field(held, "kind", node), [ast.In()], [among])
                return ast.fix_missing_locations(ast.copy_location(test, node))
        if self.of.keeps_errors and node.args:
            made = self._of_result(node, name)
            if made is not None:
                return made
        if isinstance(node.func, ast.Attribute) and node.func.attr in {"print_exc", "format_exc"}:
            raise Refused("PYT021", node, "a plan has no traceback", "use str(error)")
        return self.generic_visit(node)

    def _of_result(self, node: ast.Call, name: str | None) -> ast.expr | None:
        """What is asked of a value that may be an error among results."""
        value = node.args[0]
        if not isinstance(value, (ast.Name, ast.Subscript)):
            return None
        if name == "isinstance" and len(node.args) == 2:
            listed = node.args[1].elts if isinstance(node.args[1], ast.Tuple) else [node.args[1]]
            names = [(dotted(one) or "").split(".")[-1] for one in listed]
            if not all(self.of.program.exceptions.is_exception(one) for one in names):
                if "dict" in names:
                    both: list[ast.expr] = [node, ast.UnaryOp(ast.Not(), self.is_marked(value))]
                    return ast.fix_missing_locations(ast.copy_location(ast.BoolOp(ast.And(), both), node))
                return None
            test: ast.expr = self.is_marked(value)
            kinds = self.of.program.exceptions.caught(names)
            if kinds:
                among = ast.Tuple([ast.Constant(one) for one in kinds], ast.Load())
                kind = ast.Subscript(value, ast.Constant("kind"), ast.Load())
                test = ast.BoolOp(ast.And(), [test, ast.Compare(kind, [ast.In()], [among])])
            return ast.fix_missing_locations(ast.copy_location(test, node))
        if name == "str" and len(node.args) == 1:
            return self._message(value, node)
        return None

    def is_marked(self, value: ast.expr) -> ast.expr:
        """The test whether a value is an error among results."""
        is_dict = ast.Call(ast.Name("isinstance", ast.Load()), [value, ast.Name("dict", ast.Load())], [])
        return ast.BoolOp(ast.And(), [is_dict, ast.Compare(ast.Constant(MARK), [ast.In()], [value])])

    def _message(self, value: ast.expr, otherwise: ast.expr) -> ast.expr:
        field = ast.Subscript(value, ast.Constant("message"), ast.Load())
        made = ast.IfExp(self.is_marked(value), field, otherwise)
        return ast.fix_missing_locations(ast.copy_location(made, value))

    def _repr(self, held: str, node: ast.AST) -> ast.expr:
        parts: list[ast.expr] = [
            ast.FormattedValue(self._type(held, node), -1, None),
            ast.Constant("("),
            ast.FormattedValue(self._field(held, "message", node), ord("r"), None),
            ast.Constant(")"),
        ]
        return ast.fix_missing_locations(ast.copy_location(ast.JoinedStr(parts), node))

    def _type(self, held: str, node: ast.AST) -> ast.expr:
        kinds = next(kinds for _, name, kinds in self.of.caught if name == held)
        known_names = {one: exception_name(one) for one in kinds or FAILURE_KINDS}
        if len(set(known_names.values())) == 1:
            return ast.copy_location(ast.Constant(next(iter(known_names.values()))), node)
        table = {one: name for one, name in known_names.items() if one != name}
        if not table:
            return self._field(held, "kind", node)
        kind = self._field(held, "kind", node)
        known = ast.Dict([ast.Constant(one) for one in table], [ast.Constant(one) for one in table.values()])
        made = ast.Call(ast.Attribute(known, "get", ast.Load()), [kind, kind], [])
        return ast.fix_missing_locations(ast.copy_location(made, node))

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.AST:
        """A hole of a text."""
        held = self._held(node.value)
        if held is not None:
            field: ast.expr = self._field(held, "message", node)
            if node.conversion == ord("r"):
                field = self._repr(held, node)
            return ast.copy_location(ast.FormattedValue(field, -1, node.format_spec), node)
        if self.of.keeps_errors and isinstance(node.value, ast.Name) and node.conversion == -1:
            return ast.copy_location(
                ast.FormattedValue(self._message(node.value, node.value), -1, node.format_spec), node
            )
        return self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """An index."""
        value = node.value
        if isinstance(value, ast.Attribute) and value.attr == "args":
            held = self._held(value.value)
            if held is not None and isinstance(node.slice, ast.Constant) and node.slice.value == 0:
                return self._field(held, "message", node)
        return self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """A field."""
        if node.attr == "__name__":
            value = node.value
            if isinstance(value, ast.Call) and dotted(value.func) == "type" and len(value.args) == 1:
                held = self._held(value.args[0])
                if held is not None:
                    return self._type(held, node)
            if isinstance(value, ast.Attribute) and value.attr == "__class__":
                held = self._held(value.value)
                if held is not None:
                    return self._type(held, node)
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """A name."""
        if isinstance(node.ctx, ast.Load) and node.id in self.of.results:
            return ast.copy_location(ast.Name(self.of.results[node.id], ast.Load()), node)
        if isinstance(node.ctx, ast.Load) and self._held(node) is not None:
            raise Refused(
                "PYT021",
                node,
                f"the error {node.id} itself is used as a value",
                f"use str({node.id}), type({node.id}).__name__ or isinstance({node.id}, …)",
            )
        return node

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        """A raise."""
        if node.cause is not None:
            node.cause = None
        return self.generic_visit(node)
