"""Prints the pure code of a plan as a Python program has it: under its names, without links of objects.

In: COMPUTE. Out: its lines; definitions go to the top of the file where they can. What a plan keeps of an
error is the error itself in Python.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from callsheet.frontends.pure_code.facts import LINKS_AMONG, RELINKED
from callsheet.frontends.python.exceptions import DENIED, TOOL_ERROR, exception_name
from callsheet.frontends.python.printing.tree_questions import changes_in_place
from callsheet.frontends.python.printing.values_printer import OF_KEPT, NotPython, call_of, free_name, name_of
from callsheet.frontends.python.source import names_bound, names_read
from callsheet.frontends.python.syntax import MARK
from callsheet.ir import tree
from callsheet.ir.expression import variables_in

if TYPE_CHECKING:
    from callsheet.frontends.python.printing.printer import ProgramPrinter


class CodePrinter:
    """Prints the pure code of one function."""

    def __init__(self, of: ProgramPrinter) -> None:
        self.of, self.values, self.names = of, of.values, of.names

    def _compute(self, one: tree.Compute, after: tree.Block, indent: str) -> Iterator[str]:
        try:
            module = ast.parse(one.source)
        except SyntaxError as error:
            raise NotPython(f"this COMPUTE: {error.msg}", "repair its source", one.span) from None
        linked = {name for each in module.body if _is_link(each) for name in names_read(each)}
        module.body = [
            each
            for each in module.body
            if not _is_link(each) and not (names_bound(each) and names_bound(each) <= self.of.links)
        ]
        taken = {*self.names} - {*one.into, *one.names}
        temporaries = names_bound(*module.body) - {*one.into}
        renamed = {name: self.names[name] for name in (*one.names, *one.into)}
        for name in temporaries & taken:
            renamed[name] = free_name(f"{name}_", {*self.names.values(), *temporaries})
        for name in self._copied(one, module, after):
            if name in linked:  # its object is to be changed wherever it is
                continue
            self.of.needs_copy = True
            new = free_name(f"{self.names[name]}_copy", self.names.values())
            yield f"{indent}{new} = copy.deepcopy({self.names[name]})"
            renamed[name] = new
        renaming = RenamedCode(renamed, self.values.failures, self.values.tested)
        body = [renaming.visit(each) for each in module.body]
        for each in body:
            ast.fix_missing_locations(each)
            if self._is_hoisted(each):
                continue
            yield from (f"{indent}{line}" for line in ast.unparse(each).split("\n"))

    def _copied(self, one: tree.Compute, module: ast.Module, after: tree.Block) -> list[str]:
        """The variables that the code may change in place, while the plan keeps their old values."""
        if not any(map(changes_in_place, ast.walk(module))):
            return []
        assigned = {
            each.name
            for each in after
            if isinstance(each, tree.Assign) and {*variables_in(each.value)} <= {*one.into}
        }
        free = names_read(*module.body)
        kept = (name for name in one.names if name in free and name not in one.into)
        return [name for name in kept if name not in assigned and name not in self.values.failures]

    def _is_hoisted(self, one: ast.AST) -> bool:
        """Whether a definition of pure code is written at the top level of the file."""
        known = self.of.definitions
        match one:
            case ast.Import(names=names):
                text = ast.unparse(one)
                return self._define(tuple((each.asname or each.name) for each in names), text)
            case ast.ImportFrom(names=names):
                return self._define(tuple((each.asname or each.name) for each in names), ast.unparse(one))
            case ast.ClassDef(name=name) if name in {TOOL_ERROR, DENIED}:
                return True  # a plan has it
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                if names_read(one) & {*self.names.values()} - {*known}:
                    return False
                return self._define((name,), ast.unparse(one))
            case _:
                return False

    def _define(self, names: tuple[str, ...], text: str) -> bool:
        known = self.of.definitions
        if any(known.get(name, text) != text for name in names) or {*names} & {*self.names.values()}:
            return False
        for name in names:
            known[name] = text
        return True


def unparsed(node: ast.AST) -> str:
    """The text of an expression of Python, or of a program."""
    try:
        return ast.unparse(ast.fix_missing_locations(node))
    except ValueError:  # a backslash in the braces of an f-string, before Python 3.12
        return ast.unparse(ast.fix_missing_locations(_JoinedTexts().visit(node)))


class _JoinedTexts(ast.NodeTransformer):
    """Writes f-strings as sums of texts."""

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.expr:
        """An f-string."""
        parts = [self.visit(one) for one in node.values]
        made = parts[0] if parts else ast.Constant("")
        for part in parts[1:]:
            made = ast.BinOp(made, ast.Add(), part)
        return made

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.expr:
        """What stands in its braces."""
        value = self.visit(node.value)
        if isinstance(node.format_spec, ast.JoinedStr):
            return call_of("format", value, *node.format_spec.values)
        return call_of("repr" if node.conversion == ord("r") else "str", value)


def comments_of(lines: Iterable[str], indent: str) -> list[str]:
    """The comments before a statement."""
    return [f"{indent}# {line}".rstrip() for line in lines]


def links_of(block: tree.Block) -> frozenset[str]:
    """The variables that say which others share objects: Python needs none of them."""
    found: set[str] = set()
    for one in tree.statements(block):
        if isinstance(one, tree.Compute) and LINKS_AMONG in one.source:
            with suppress(SyntaxError):
                for each in ast.parse(one.source).body:
                    if _calls(each) == LINKS_AMONG or (names_read(each) and names_read(each) <= found):
                        found |= names_bound(each)
    return frozenset(found)


def _is_link(one: ast.stmt) -> bool:
    """Whether a statement only says or restores which objects variables share."""
    return _calls(one) in (RELINKED, LINKS_AMONG)


def _calls(one: ast.stmt) -> str | None:
    match one:
        case ast.Assign(value=ast.Call(func=ast.Name(id=name))):
            return name
        case _:
            return None


class RenamedCode(ast.NodeTransformer):
    """Pure code with other names, and with messages of caught errors as Python has them."""

    def __init__(self, names: dict[str, str], failures: set[str], tested: set[str]) -> None:
        self.names, self.failures, self.tested = names, failures, tested

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """A name."""
        return ast.copy_location(ast.Name(self.names.get(node.id, node.id), node.ctx), node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        """A parameter."""
        node.arg = self.names.get(node.arg, node.arg)
        return node

    def visit_Dict(self, node: ast.Dict) -> ast.AST:
        """A dict: the record of a caught error is the error."""
        fields = {one.value: value for one, value in zip(node.keys, node.values, strict=True)
                  if isinstance(one, ast.Constant)}  # fmt: skip
        names = {
            value.value.id if isinstance(value, ast.Subscript) and isinstance(value.value, ast.Name) else None
            for key, value in fields.items()
            if key in OF_KEPT
        }
        if MARK in fields and len(names) == 1 and (name := names.pop()) in self.failures:
            return ast.copy_location(ast.Name(self.names.get(name, name), ast.Load()), node)
        return self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        """A choice: the words of a value that may be a kept error."""
        kept = kept_in_code(node.test)
        if kept is not None and ast.dump(node.orelse) == ast.dump(call_of("str", kept)):
            return call_of("str", self.visit(kept))
        if kept is not None:
            name = ast.Attribute(call_of("type", kept), "__name__", ast.Load())
            if ast.dump(node.orelse) == ast.dump(name):
                return ast.Attribute(call_of("type", self.visit(kept)), "__name__", ast.Load())
            _check_parts(kept, node.body)
        return self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        """The test whether a value is a kept error."""
        kept = kept_in_code(node)
        match node:
            case ast.BoolOp(
                values=[
                    test,
                    ast.Compare(left=ast.Subscript(value=value), comparators=[ast.Tuple(elts=kinds)]),
                ]
            ) if (held := kept_in_code(test)) is not None and ast.dump(held) == ast.dump(value):
                names = dict.fromkeys(
                    exception_name(str(one.value)) for one in kinds if isinstance(one, ast.Constant)
                )
                return call_of(
                    "isinstance", self.visit(held), ast.Tuple([name_of(one) for one in names], ast.Load())
                )
            case _:
                pass
        if kept is not None:
            if isinstance(kept, ast.Name):
                self.tested.add(kept.id)
            return call_of("isinstance", self.visit(kept), name_of("Exception"))
        return self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """An index: the message of an error is its text."""
        value, index = node.value, node.slice
        if isinstance(value, ast.Name) and value.id in self.failures and isinstance(index, ast.Constant):
            if index.value == "message":
                name = ast.Name(self.names.get(value.id, value.id), ast.Load())
                return ast.Call(ast.Name("str", ast.Load()), [name], [])
            raise NotPython(f"the field {index.value} of a failure", "use its message")
        return self.generic_visit(node)


def _check_parts(kept: ast.expr, node: ast.AST) -> None:
    """Raises NotPython for code that asks a kept error for its kind or its fields."""
    for one in ast.walk(node):
        match one:
            case ast.Subscript(value=value, slice=ast.Constant(value="kind" | "fields")) if ast.dump(
                value
            ) == ast.dump(kept):
                raise NotPython("what code asks of the kind of an error", "ask it where the error is caught")
            case _:
                pass


def kept_in_code(node: ast.expr) -> ast.expr | None:
    """The value that code asks whether it is a kept error; None for any other test."""
    match node:
        case ast.BoolOp(
            op=ast.And(),
            values=[
                ast.Call(func=ast.Name(id="isinstance"), args=[value, ast.Name(id="dict")]),
                ast.Compare(left=ast.Constant(value=mark), ops=[ast.In()], comparators=[other]),
            ],
        ) if mark == MARK and ast.dump(value) == ast.dump(other):
            return value
        case _:
            return None
