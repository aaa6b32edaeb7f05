"""Raises errors: what `raise` says, as a failure of the plan with what the error carries.

An error with its words alone is a failure that a plan can say; one with fields is made by pure code, which
gives the record of the failure. An error that is kept, or was caught, is its record already.
"""

from __future__ import annotations

import ast
from abc import ABC
from typing import cast

from callsheet.frontends.python import core
from callsheet.frontends.python.error_values import CAUSE, GROUP, fields_of, group_record, has_cause
from callsheet.frontends.python.exceptions import TOOL_ERROR, kind_of
from callsheet.frontends.python.lowering.loops import Loops
from callsheet.frontends.python.source import Refused, dotted, last_name, own_nodes, waits
from callsheet.frontends.python.syntax import assigned, call_of, has_methods, none, parsed


def _is_group(error: ast.expr | None) -> bool:
    return isinstance(error, ast.Call) and dotted(error.func) == GROUP and len(error.args) == 2


class Raising(Loops, ABC):
    """The part of a translator that raises errors."""

    def raise_(self, node: ast.Raise, out: core.Block) -> None:
        """`raise X(…)`, `raise` and `raise error`; a class with fields of its own is raised by pure code."""
        error = node.exc
        if isinstance(error, ast.IfExp):
            first, other = (ast.copy_location(ast.Raise(one, node.cause), node) for one in _sides(error))
            self.statement(ast.copy_location(ast.If(error.test, [first], []), node), out)
            self.raise_(other, out)
            return
        if self.program.keeps_errors and self._is_kept_error(error):
            kept = self.spilled(cast("ast.expr", error), out)
            if isinstance(kept, ast.Name):
                with_cause = node.cause is not None and CAUSE in self.program.error_fields
                record = self._caused(node, kept.id, out) if with_cause else kept.id
                out.append(core.Fail(None, None, node, record))
                return
        if error is None or (isinstance(error, ast.Name) and self.failure_variable(error.id)):
            again = self.failure_variable(error.id) if isinstance(error, ast.Name) else self._innermost()
            if again is None:
                raise Refused(
                    "PYT021", node, "there is no error here to raise again", "name one: raise ValueError(…)"
                )
            out.append(core.Fail(None, None, node, again))
            return
        self._raise_new(node, error, out)

    def _raise_new(self, node: ast.Raise, error: ast.expr, out: core.Block) -> None:
        """`raise X(…)`, or `raise X`."""
        if waits(error):
            error = self.value(error, out)
        raised = self.without_failures(ast.copy_location(ast.Raise(error), node))
        error = cast("ast.expr", cast("ast.Raise", raised).exc)
        self.check(error)
        name, arguments = error, cast("list[ast.expr]", [])
        if isinstance(error, ast.Call):
            name, arguments = error.func, error.args
        called = last_name(name)
        if not self.program.exceptions.is_exception(called):
            raise Refused(
                "PYT021",
                node,
                "what is raised is no exception that is known here",
                "raise a built-in exception, or a class of this file: class Refused(Exception): pass",
            )
        own = self.definitions().get(called) or self.program.definitions.get(called)
        may_have_cause = node.cause is not None or kind_of(called) in self.program.with_cause
        if may_have_cause and CAUSE in self.program.error_fields:
            self._raise_from(node, error, called, out)
            return
        has_fields = bool(self.program.error_fields)
        plain = own is None or (isinstance(own, ast.ClassDef) and not has_methods(own) and not has_fields)
        named = isinstance(error, ast.Call) and bool(error.keywords)
        if (
            plain
            and not named
            and len(arguments) <= 1
            and not any(isinstance(a, ast.Starred) for a in arguments)
        ):
            message: ast.expr | None = None
            if arguments:
                (only,) = arguments
                message = only if called != "KeyError" else ast.copy_location(call_of("repr", only), only)
                if not isinstance(message, (ast.JoinedStr, ast.Constant)) or called == "KeyError":
                    message = ast.copy_location(call_of("str", message), only)
            out.append(core.Fail(message, kind_of(called), node))
            return
        if called == GROUP and len(arguments) == 2 and not named:
            self._check_kept(arguments[1])
            message, errors = (self.spilled(one, out) for one in arguments)
            record = self.new_name("failure")
            value = parsed(group_record(ast.unparse(message), ast.unparse(errors)), node)
            out.append(assigned(record, value, node))
            out.append(core.Fail(None, None, node, record))
            return
        if called == TOOL_ERROR:
            raise Refused("PYT021", node, "ToolError takes one message", 'write raise ToolError("…")')
        if own is not None and self.program.error_fields:
            self._raise_with_fields(node, error, called, out)
            return
        made = ast.copy_location(ast.Raise(error, None), node)
        out.append(core.Pure(made))

    def raises_kept(self, node: ast.stmt) -> bool:
        """Whether a statement raises an error that is kept, a group of such, or one with a cause."""
        raised = [one for one in own_nodes(node) if isinstance(one, ast.Raise)]
        if CAUSE in self.program.error_fields and any(map(has_cause, raised)):
            return True
        return self.program.keeps_errors and any(
            self._is_kept_error(one.exc) or _is_group(one.exc) for one in raised
        )

    def _is_kept_error(self, error: ast.expr | None) -> bool:
        """Whether what is raised is a value: a variable that is no handler's name, or a part of one."""
        if isinstance(error, ast.Name):
            return error.id in self.bound and not self.failure_variable(error.id)
        return isinstance(error, ast.Subscript)

    def _raise_with_fields(self, node: ast.Raise, error: ast.expr, kind: str, out: core.Block) -> None:
        """Raise an exception that carries more than its words: its record is made by pure code."""
        made = error if isinstance(error, ast.Call) else ast.copy_location(ast.Call(error, [], []), error)
        held, record = self.new_name("raised"), self.new_name("failure")
        out.append(assigned(held, made, node))
        text = (
            f'{{"kind": {kind!r}, "message": str({held}), "step": "", "fields": '
            f"{fields_of(held, self.program.error_fields)}}}"
        )
        out.append(assigned(record, parsed(text, node), node))
        out.append(core.Fail(None, None, node, record))

    def _check_kept(self, errors: ast.expr) -> None:
        """Raises Refused (PYT021) for a group of errors that nothing has raised."""
        for one in ast.walk(errors):
            if isinstance(one, ast.Call) and self.program.exceptions.is_exception(last_name(one.func)):
                raise Refused(
                    "PYT021",
                    one,
                    "an error that was never raised is put into a group",
                    "raise and catch it first, and keep it: except ValueError as error: errors.append(error)",
                )

    def _raise_from(self, node: ast.Raise, error: ast.expr, called: str, out: core.Block) -> None:
        """Raise an exception that the program asks for its cause."""
        cause: ast.expr = self.replaced(node.cause or none(node))
        self.check(cause)
        own = self.definitions().get(called) or self.program.definitions.get(called)
        fields = [one for one in self.program.error_fields if one != CAUSE]
        record, given = self.new_name("failure"), self.new_name("cause")
        out.append(assigned(given, cause, node))
        message, carried = "''", ""
        if isinstance(error, ast.Call) and (own is not None or len(error.args) != 1 or error.keywords):
            held = self.new_name("raised")
            out.append(assigned(held, error, node))
            message = f"str({held})"
            carried = fields_of(held, fields)[1:-1] if own is not None else ""
        elif isinstance(error, ast.Call):
            message = f"{'repr' if called == 'KeyError' else 'str'}({ast.unparse(error.args[0])})"
        parts = [*([carried] if carried else []), f"{CAUSE!r}: {given}"]
        text = (
            f'{{"kind": {kind_of(called)!r}, "message": {message}, "step": "", '
            f'"fields": {{{", ".join(parts)}}}}}'
        )
        out.append(assigned(record, parsed(text, node), node))
        out.append(core.Fail(None, None, node, record))

    def _caused(self, node: ast.Raise, kept: str, out: core.Block) -> str:
        """The record of an error that is kept, with what it is raised from."""
        cause: ast.expr = self.replaced(node.cause or none(node))
        self.check(cause)
        record = self.new_name("failure")
        fields = f'{{**({kept}.get("fields") or {{}}), {CAUSE!r}: {ast.unparse(cause)}}}'
        out.append(assigned(record, parsed(f'{{**{kept}, "fields": {fields}}}', node), node))
        return record

    def _innermost(self) -> str | None:
        return self.caught[-1][1] if self.caught else None


def _sides(node: ast.IfExp) -> tuple[ast.expr, ast.expr]:
    return node.body, node.orelse
