"""Lines of the log and notes as printed lines: all are remarks of the journal.

In: the tree of a file, which is changed in place. What makes a logger, or says how its lines look, is taken
out; what would send them somewhere else stays, and is refused by who reads it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from callsheet.frontends.python.rewrites.inlining import blocks_in
from callsheet.frontends.python.source import Nodes, dotted, names_bound, own_nodes, parameters_of, walk
from callsheet.frontends.python.syntax import placed

_LINES: Final = frozenset({"debug", "info", "warning", "warn", "error", "critical", "exception", "log"})
_LOOK: Final = frozenset({"level", "format", "datefmt", "style", "force"})
_HOLE: Final = re.compile(r"%(?:%|[-#0 +]*\d*(?:\.\d+)?[a-zA-Z])")


def logs_as_prints(module: ast.Module, nodes: Nodes) -> bool:
    """Write what a file logs as what it prints; whether it logs.

    >>> module = ast.parse('''import logging
    ... log = logging.getLogger("x")
    ... def kept(row):
    ...     log.info("kept %s: %.1f", row.name, row.size)''')
    >>> logs_as_prints(module, Nodes(module))
    True
    >>> print(ast.unparse(module))
    import logging
    <BLANKLINE>
    def kept(row):
        print(f"kept {row.name}: {'%.1f' % row.size}")
    """
    names = {
        each.asname or each.name
        for one in nodes.of(ast.Import)
        for each in one.names
        if each.name == "logging"
    }
    makers = {f"{name}.getLogger" for name in names} | {
        each.asname or each.name
        for one in nodes.of(ast.ImportFrom)
        if one.module == "logging"
        for each in one.names
        if each.name == "getLogger"
    }
    loggers = {name for one in nodes for name in _made(one, makers)}
    if not names and not loggers:
        return False
    _Printing(names, loggers, makers).visit(module)
    return True


def notes_as_prints(_: ast.Module, nodes: Nodes) -> bool:
    """Write what a file notes as what it prints, unless it has a `note` of its own; whether it notes.

    >>> module = ast.parse("from callsheet import note\\nfor n in kept:\\n    note(n)\\nawait note(n)")
    >>> notes_as_prints(module, Nodes(module))
    True
    >>> print(ast.unparse(module))
    from callsheet import note
    for n in kept:
        print(n)
    await note(n)
    """
    own = {one.id for one in nodes.of(ast.Name) if isinstance(one.ctx, ast.Store)}
    own |= {one.arg for one in nodes.of(ast.arg)}
    own |= {one.name for kind in (ast.FunctionDef, ast.AsyncFunctionDef) for one in nodes.of(kind)}
    if "note" in own:
        return False
    awaited = {id(one.value) for one in nodes.of(ast.Await)}
    noting = [
        one.func
        for one in nodes.of(ast.Call)
        if isinstance(one.func, ast.Name) and one.func.id == "note" and id(one) not in awaited
    ]
    for name in noting:
        name.id = "print"
    return bool(noting)


def _made(one: ast.AST, makers: set[str]) -> Iterator[str]:
    """The logger that a statement makes."""
    match one:
        case ast.Assign(targets=[target], value=ast.Call(func=func)) if dotted(func) in makers:
            yield dotted(target) or ""
        case ast.AnnAssign(target=target, value=ast.Call(func=func)) if dotted(func) in makers:
            yield dotted(target) or ""
        case _:
            pass


class _Printing(ast.NodeTransformer):
    def __init__(self, modules: set[str], loggers: set[str], makers: set[str]) -> None:
        self.modules, self.loggers, self.makers = modules, loggers, makers

    def _statement(self, node: ast.Assign | ast.AnnAssign) -> Any:
        """An assignment, which may make a logger."""
        return None if any(_made(node, self.makers)) else self.generic_visit(node)

    visit_Assign = visit_AnnAssign = _statement

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Any:
        """A function, some of whose own variables may have the names of loggers around it."""
        around = self.loggers
        own = {one.arg for one in parameters_of(node.args)} | names_bound(*node.body)
        self.loggers = around - own | {name for one in own_nodes(node) for name in _made(one, self.makers)}
        made = self.generic_visit(node)
        self.loggers = around
        return made

    visit_FunctionDef = visit_AsyncFunctionDef = _function

    def visit_Expr(self, node: ast.Expr) -> Any:
        """A statement of one expression, which may say how lines look."""
        call = node.value
        name = dotted(call.func) or "" if isinstance(call, ast.Call) else ""
        first, _, last = name.rpartition(".")
        if isinstance(call, ast.Call):
            if first in self.modules and last == "basicConfig" and _says_look_alone(call):
                return None
            of = call.func.value if isinstance(call.func, ast.Attribute) else None
            is_made = isinstance(of, ast.Call) and dotted(of.func) in self.makers
            if (last == "setLevel" and first in self.loggers) or (
                is_made and isinstance(call.func, ast.Attribute) and call.func.attr == "setLevel"
            ):
                return None
            if first in self.modules | self.loggers and last in _LINES:
                first_said = int(last == "log")
                said = _filled(call.args[first_said:])
                node.value = placed(ast.Call(ast.Name("print", ast.Load()), said, []), call)
                about = [*call.args[:first_said], *(word.value for word in call.keywords)]
                about = [one for one in about if any(map(_does, walk(one)))]
                return [node, *(placed(ast.Expr(one), one) for one in about)]
        return node

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """A node, whose blocks are never empty."""
        super().generic_visit(node)
        if isinstance(node, ast.stmt) and getattr(node, "body", None) == []:
            next(blocks_in(node)).append(placed(ast.Pass(), node))
        return node


def _does(node: ast.AST) -> bool:
    """Whether evaluating a node may do something: a record about a line is not printed, but evaluated."""
    return isinstance(node, (ast.Call, ast.Await, ast.NamedExpr))


def _filled(given: Sequence[ast.expr]) -> list[ast.expr]:
    """What a logged line is of: a template with what stands in its holes, else what it is."""
    if len(given) < 2:
        return list(given)
    template, *values = given
    text = template.value if isinstance(template, ast.Constant) else None
    holes = _HOLE.findall(text) if isinstance(text, str) else []
    if not isinstance(text, str) or len([one for one in holes if one != "%%"]) != len(values):
        is_of_names = len(values) == 1 and isinstance(text, str) and "%(" in text
        filling = values[0] if is_of_names else ast.Tuple(values, ast.Load())
        return [ast.BinOp(template, ast.Mod(), filling)]
    parts: list[ast.expr] = []
    for words, hole in zip(_HOLE.split(text), [*holes, ""], strict=True):
        said = words + ("%" if hole == "%%" else "")
        if said:
            parts.append(ast.Constant(said))
        if hole in {"", "%%"}:
            continue
        value = values.pop(0)
        if hole not in {"%s", "%r"}:
            filling = ast.Tuple([value], ast.Load()) if hole[-1] in "sra" else value
            value = ast.BinOp(ast.Constant(hole), ast.Mod(), filling)
        parts.append(ast.FormattedValue(value, ord("r") if hole == "%r" else -1, None))
    return [ast.JoinedStr(parts)]


def _says_look_alone(call: ast.Call) -> bool:
    """Whether a call of `logging.basicConfig` says how log lines look, and not where they go."""
    return not call.args and all(
        word.arg in _LOOK and isinstance(word.value, (ast.Constant, ast.Attribute)) for word in call.keywords
    )
