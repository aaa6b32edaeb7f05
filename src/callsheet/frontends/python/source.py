"""The text of a Python plan: its syntax tree, places in it, and refusals, each with a way out.

In: a text. Out: the tree that `ast` makes of it, which is never executed, and `Refused` for what a plan
cannot say.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from keyword import iskeyword
from typing import Final, cast

from callsheet.diagnostics import Diagnostic, Severity, Source, Span
from callsheet.ir.operations import canonical_tool_name

MOST_CHARACTERS: Final = 400_000
"""The longest text that is read."""

Node = ast.expr | ast.stmt | ast.excepthandler | ast.arg | ast.keyword | ast.alias | ast.pattern
"""A node that has a place."""


class Refused(Exception):
    """What a plan cannot say: the code, the node that says it, why, and what to write instead."""

    def __init__(self, code: str, node: ast.AST | None, message: str, rewrite: str) -> None:
        super().__init__(message)
        self.code, self.node, self.message, self.rewrite = code, node, message, rewrite


class Text:
    """A text with its tree, and where the nodes of the tree stand."""

    def __init__(self, text: str, name: str) -> None:
        self.source = Source(name, text)
        self.lines = text.splitlines(keepends=True)
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line))

    def tree(self) -> ast.Module:
        """The tree of the text. Raises Refused (PYT001, PYT002) for one that has none."""
        text = self.source.text
        if len(text) > MOST_CHARACTERS:
            raise Refused(
                "PYT002", None, f"the text has over {MOST_CHARACTERS:,} characters", "split the plan in two"
            )
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                made = ast.parse(text, "<plan>", feature_version=(3, 12))
        except SyntaxError as error:
            place = ast.Pass(lineno=error.lineno or 1, col_offset=max((error.offset or 1) - 1, 0))
            place.end_lineno, place.end_col_offset = place.lineno, place.col_offset
            raise Refused(
                "PYT001", place, f"this is no Python: {error.msg}", "write it as Python 3.12 has it"
            ) from None
        except ValueError as error:
            raise Refused("PYT001", None, f"this is no Python: {error}", "remove that character") from None
        except (RecursionError, MemoryError):
            raise Refused(
                "PYT002", None, "the text nests too deep", "split the deep expression into variables"
            ) from None
        return made

    def offset(self, line: int, column: int) -> int:
        """The offset of a place as `ast` counts it: lines from 1, columns in bytes of UTF-8."""
        if not 1 <= line <= len(self.lines):
            return self.starts[-1]
        content = self.lines[line - 1]
        if not content.isascii():
            column = len(content.encode()[:column].decode(errors="ignore"))
        return self.starts[line - 1] + min(column, len(content))

    def span(self, node: ast.AST | None) -> Span | None:
        """Where a node stands; None for one that was made, and for none."""
        line, column = getattr(node, "lineno", None), getattr(node, "col_offset", None)
        if line is None or column is None:
            return None
        end_line = getattr(node, "end_lineno", None) or line
        end_column = getattr(node, "end_col_offset", None)
        start = self.offset(line, column)
        end = self.offset(end_line, column if end_column is None else end_column)
        return Span(start, max(start, end))

    def head(self, node: ast.AST) -> Span | None:
        """Where the first line of a compound statement stands."""
        span = self.span(node)
        if span is None:
            return None
        stop = self.source.text.find("\n", span.start, span.end)
        return span if stop == -1 else Span(span.start, stop)

    def line(self, node: ast.AST | None) -> int:
        """The line of a node, for messages."""
        return getattr(node, "lineno", 0)

    def diagnostic(self, refused: Refused, severity: Severity = Severity.ERROR) -> Diagnostic:
        """A refusal as people and models read it."""
        node = refused.node
        span = self.head(node) if isinstance(node, ast.stmt) else self.span(node)
        if span is None:
            span = Span(0, 0)
        message, rewrite = self._as_written(refused.message), self._as_written(refused.rewrite)
        return Diagnostic(refused.code, severity, message, span, rewrite)

    def _as_written(self, message: str) -> str:
        """A message with the stems of names that rewrites made, which are those that the text has."""
        return _MADE.sub(lambda one: one[0] if one[0] in self.source.text else one[1], message)


_MADE: Final = re.compile(r"\b(\w+?)_at_\d+\b")


def made_name(stem: str, number: int) -> str:
    """A name that a rewrite makes for something new; messages have its stem.

    >>> made_name("work", 1)
    'work_at_1'
    """
    return f"{stem}_at_{number}"


def function_of(tool: str) -> str:
    """The name in Python of a tool, which may be called as a keyword of Python.

    >>> function_of("SEND_MAIL"), function_of("IMPORT")
    ('send_mail', 'import_')
    """
    name = tool.lower()
    return f"{name}_" if iskeyword(name) else name


def tool_of(function: str) -> str:
    """The canonical name of the tool that a program calls by this name.

    >>> tool_of("send_mail"), tool_of("import_"), tool_of("files__import_"), tool_of("list_")
    ('SEND_MAIL', 'IMPORT', 'FILES__IMPORT', 'LIST_')
    """
    plain = function.removesuffix("_")
    return canonical_tool_name(plain if iskeyword(plain.rpartition("__")[2]) else function)


def outer_name_changed(node: ast.Global | ast.Nonlocal) -> Refused:
    """The refusal (PYT017) of a function that gives a variable around it another value."""
    name = node.names[0]
    if isinstance(node, ast.Nonlocal):
        told = f"{name} is a variable of another function"
        return Refused(
            "PYT017", node, told, "return the new value, and assign it where the function is called"
        )
    return Refused(
        "PYT017",
        node,
        f"a function cannot give {name}, a variable of the file, another value",
        f'keep it in a dict of the file: {name} = {{"now": …}}, and here {name}["now"] = …, without global',
    )


def waits_between_items(node: ast.AST) -> Refused:
    """The refusal (PYT019) of `async for` over what is no loop of a plan."""
    return Refused(
        "PYT019",
        node,
        "`async for` goes through something that awaits between its items",
        "let the generator be an async function that returns a list: for one in await rows(…)",
    )


def said(meant: Sequence[str]) -> str:
    """What to write instead of a name, of the names that are like it; empty if there are none.

    >>> said(("search",))
    'did you mean search?'
    """
    return f"did you mean {' or '.join(meant)}?" if meant else ""


# ------------------------------------------------------------------ questions about trees

_LEAVES: Final = frozenset(
    {
        ast.Name,
        ast.Constant,
        ast.Pass,
        ast.Break,
        ast.Continue,
        ast.alias,
        ast.Global,
        ast.Nonlocal,
        ast.MatchStar,
    }
)
_NO_NODES: Final = frozenset(
    {"ctx", "op", "ops", "id", "attr", "name", "kind", "type_comment", "conversion", "simple"}
)
_PARTS: Final[dict[type[ast.AST], tuple[str, ...]]] = {}
"""The fields of each class of nodes that hold nodes, filled as they are met."""


def children(node: ast.AST) -> list[ast.AST]:
    """The nodes directly inside another one, in order; operators, contexts and imported names are none."""
    kind = node.__class__
    made: list[ast.AST] = []
    if kind in _LEAVES:
        return made
    parts = _PARTS.get(kind)
    if parts is None:
        parts = _PARTS[kind] = tuple(name for name in kind._fields if name not in _NO_NODES)
    for name in parts:
        value: object = getattr(node, name, None)
        if value.__class__ is list:
            made += [one for one in cast("list[object]", value) if isinstance(one, ast.AST)]
        elif isinstance(value, ast.AST):
            made.append(value)
    return made


def walk(root: ast.AST) -> Iterator[ast.AST]:
    """A node and all nodes inside it, each before what is inside it."""
    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        inner = children(node)
        if inner:
            inner.reverse()
            stack += inner


_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
SCOPES: Final = frozenset({*_FUNCTIONS, ast.ClassDef})


def own_nodes(*roots: ast.AST) -> Iterator[ast.AST]:
    """The nodes of trees without what is inside functions and classes in them; those themselves are given."""
    stack = list(reversed(roots))
    while stack:
        node = stack.pop()
        yield node
        kind = node.__class__
        if kind in _LEAVES:
            continue
        if kind in SCOPES and node not in roots:
            stack.extend(outside_of(node))
            continue
        inner = children(node)
        inner.reverse()
        stack += inner


def outside_of(node: ast.AST) -> Iterable[ast.AST]:
    """What of a function or class is evaluated where it stands."""
    if isinstance(node, ast.Lambda):
        return [*node.args.defaults, *(one for one in node.args.kw_defaults if one is not None)]
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        kw = (one for one in node.args.kw_defaults if one is not None)
        return [*node.decorator_list, *node.args.defaults, *kw]
    if isinstance(node, ast.ClassDef):
        return [*node.decorator_list, *node.bases]
    return []


def waits(node: ast.AST) -> bool:
    """Whether a statement or expression awaits something itself."""
    return any(
        isinstance(one, (ast.Await, ast.AsyncFor, ast.AsyncWith))
        or (isinstance(one, ast.comprehension) and bool(one.is_async))
        for one in own_nodes(node)
    )


def leaves(node: ast.stmt) -> bool:
    """Whether a statement may return from its function, or break or continue a loop around it."""
    return any(jumps_out([node]))


def jumps_out(body: Sequence[ast.stmt]) -> Iterator[ast.Return | ast.Break | ast.Continue]:
    """Where a block returns from its function, or breaks or continues a loop around the block, in order."""
    stack: list[tuple[ast.AST, bool]] = [(one, False) for one in reversed(body)]
    while stack:
        one, in_loop = stack.pop()
        if isinstance(one, ast.Return) or (isinstance(one, (ast.Break, ast.Continue)) and not in_loop):
            yield one
        elif isinstance(one, (ast.For, ast.AsyncFor, ast.While)):
            stack.extend((part, in_loop) for part in reversed(one.orelse))
            stack.extend((part, True) for part in reversed(one.body))
        elif not isinstance(one, (*_FUNCTIONS, ast.ClassDef, ast.expr)):
            stack.extend((part, in_loop) for part in reversed(children(one)))


def ends_loop(body: Sequence[ast.stmt]) -> bool:
    """Whether a block breaks the loop around it, or returns from its function."""
    return any(not isinstance(one, ast.Continue) for one in jumps_out(body))


def names_read(*roots: ast.AST) -> set[str]:
    """The names that trees read from outside, also those that functions inside them read."""
    found: set[str] = set()
    for root in roots:
        _Reads(found).visit(root)
    return found


def names_bound(*roots: ast.AST) -> set[str]:
    """The names of its own scope that trees bind."""
    found: set[str] = set()
    for root in roots:
        _bind(root, found)
    return found


_BINDING: Final = frozenset(
    {
        *(ast.Lambda, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ListComp, ast.SetComp),
        *(ast.DictComp, ast.GeneratorExp, ast.ExceptHandler, ast.Import, ast.ImportFrom, ast.MatchAs),
        *(ast.MatchStar, ast.MatchMapping),
    }
)
"""The nodes other than names that bind names, or hide those bound inside them."""


def _bind(root: ast.AST, found: set[str]) -> None:
    stack = [root]
    while stack:
        node = stack.pop()
        kind = node.__class__
        if isinstance(node, ast.Name):
            if not isinstance(node.ctx, ast.Load):
                found.add(node.id)
            continue
        if kind is ast.Constant or (kind in _BINDING and not _binds(node, found)):
            continue
        stack += children(node)


def _binds(node: ast.AST, found: set[str]) -> bool:
    """Add the names that a node binds itself; whether what is inside it binds names of the same scope."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            found.add(name)
            return False
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            found.update(one.target.id for one in walk(node) if isinstance(one, ast.NamedExpr))
            return False
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            found.add(name)
        case ast.MatchMapping(rest=str(name)):
            found.add(name)
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            found.update((one.asname or one.name).split(".")[0] for one in names)
        case _:
            return not isinstance(node, ast.Lambda)
    return True


class _Reads(ast.NodeVisitor):
    """Collects the names that are read and not bound in an inner scope."""

    def __init__(self, found: set[str]) -> None:
        self.found = found

    def generic_visit(self, node: ast.AST) -> None:
        for one in children(node):
            if isinstance(one, ast.Name):
                if not isinstance(one.ctx, ast.Store):
                    self.found.add(one.id)
            elif not isinstance(one, ast.Constant):
                self.visit(one)

    def visit_Name(self, node: ast.Name) -> None:
        if not isinstance(node.ctx, ast.Store):
            self.found.add(node.id)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name):
            self.found.add(node.target.id)
        self.generic_visit(node)

    def _inner(self, inside: set[str], bound: set[str]) -> None:
        self.found |= inside - bound

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> None:
        for one in outside_of(node):
            self.visit(one)
        body = node.body if isinstance(node.body, list) else [node.body]
        outer: set[str] = set()
        for one in body:
            for part in walk(one):
                if isinstance(part, (ast.Nonlocal, ast.Global)):
                    outer |= set(part.names)
        bound = {one.arg for one in _arguments(node.args)} | (names_bound(*body) - outer)
        self._inner(names_read(*body) | outer, bound)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._function(node)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._function(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for one in (*node.decorator_list, *node.bases, *(word.value for word in node.keywords)):
            self.visit(one)
        self._inner(names_read(*node.body), names_bound(*node.body))

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) -> None:
        bound: set[str] = set()
        for one in node.generators:
            bound |= {part.id for part in walk(one.target) if isinstance(part, ast.Name)}
        inside: set[str] = set()
        parts = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        for number, one in enumerate(node.generators):
            if number:
                inside |= names_read(one.iter)
            inside |= names_read(*one.ifs)
        inside |= names_read(*parts)
        self.visit(node.generators[0].iter)
        self._inner(inside, bound)

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension


def _arguments(of: ast.arguments) -> list[ast.arg]:
    made = [*of.posonlyargs, *of.args, *of.kwonlyargs]
    return made + [one for one in (of.vararg, of.kwarg) if one is not None]


def parameters_of(of: ast.arguments) -> list[ast.arg]:
    """All parameters of a function, in order, those that take the rest last."""
    return _arguments(of)


def returned_names(function: ast.AST) -> set[str]:
    """What an async function returns by its name; empty texts for all else."""
    returns = [one.value for one in own_nodes(function) if isinstance(one, ast.Return)]
    return {one.id if isinstance(one, ast.Name) else "" for one in returns}


def decorator_name(mark: ast.expr) -> str:
    """The last name of a decorator, with arguments or without; empty for anything else."""
    return (dotted(mark.func if isinstance(mark, ast.Call) else mark) or "").rpartition(".")[2]


def dotted(node: ast.AST) -> str | None:
    """`a.b.c` as a text, None for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        before = dotted(node.value)
        return None if before is None else f"{before}.{node.attr}"
    return None
