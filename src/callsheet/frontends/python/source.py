"""The text of a Python plan: its syntax tree, places in it, and refusals, each with a way out.

In: a text. Out: the tree that `ast` makes of it, which is never executed, and `Refused` for what a plan
cannot say.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence, Set
from keyword import iskeyword
from types import MappingProxyType
from typing import Any, Final, TypeGuard, TypeVar

from callsheet.diagnostics import Diagnostic, Severity, Source, Span
from callsheet.ir.operations import canonical_tool_name

MOST_CHARACTERS: Final = 400_000
"""The longest text that is read."""

Node = ast.expr | ast.stmt | ast.excepthandler | ast.arg | ast.keyword | ast.alias | ast.pattern
"""A node that has a place."""


_Kind = TypeVar("_Kind", bound=ast.AST)


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

_NO_NODES: Final = frozenset(
    {
        *("ctx", "op", "ops", "id", "attr", "name", "kind", "type_comment", "conversion", "simple", "arg"),
        *("asname", "module", "level", "is_async", "rest", "kwd_attrs"),
    }
)
_WITHOUT_NODES: Final = frozenset({ast.Constant, ast.Global, ast.Nonlocal, ast.MatchSingleton})

_WITH_GAPS: Final = frozenset({ast.Dict, ast.arguments})


class _Parts(dict[type[ast.AST], tuple[str, ...]]):
    """The fields of each class of nodes that hold nodes, the last first; filled as they are met."""

    def __missing__(self, kind: type[ast.AST]) -> tuple[str, ...]:
        names = () if kind in _WITHOUT_NODES else reversed(kind._fields)
        made = self[kind] = tuple(name for name in names if name not in _NO_NODES)
        return made


_PARTS: Final = _Parts()


def children(node: ast.AST) -> list[ast.AST]:
    """The nodes directly inside another one, in order; operators, contexts and imported names are none."""
    made: list[ast.AST] = []
    push_children(node, made)
    made.reverse()
    return made


def push_children(node: ast.AST, stack: list[Any]) -> None:
    """Put what is directly inside a node on a stack, the last first."""
    kind = node.__class__
    for name in _PARTS[kind]:
        value: Any = getattr(node, name, None)
        if value.__class__ is not list:
            stack += [] if value is None else [value]
        elif value:
            stack += [one for one in value[::-1] if one] if kind in _WITH_GAPS else value[::-1]


_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
SCOPES: Final = frozenset({*_FUNCTIONS, ast.ClassDef})


def walk(root: ast.AST) -> Iterator[ast.AST]:
    """A node and all nodes inside it, each before what is inside it."""
    return _walk([root], frozenset(), ())


def own_nodes(*roots: ast.AST) -> Iterator[ast.AST]:
    """The nodes of trees without what is inside functions and classes in them; those themselves are given."""
    return _walk(list(reversed(roots)), SCOPES, roots)


def _walk(stack: list[Any], closed: Set[type[ast.AST]], roots: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """The nodes of what is on a stack; of those of `closed` classes, but for the roots, the head alone."""
    while stack:
        node = stack.pop()
        if node is None:  # as before `**x` in a dict
            continue
        yield node
        kind = node.__class__
        if kind in closed and node not in roots:
            stack += outside_of(node)
            continue
        for name in _PARTS[kind]:  # as in `push_children`, which would be called for each node
            value: Any = getattr(node, name, None)
            if value.__class__ is not list:
                stack.append(value)
            elif value:
                stack += value[::-1]


def among(nodes: Iterable[ast.AST], *kinds: type[_Kind]) -> Iterator[_Kind]:
    """Those of some nodes that are of these classes."""
    return (one for one in nodes if isinstance(one, kinds))


_WORDS: Final = MappingProxyType(
    {
        **dict.fromkeys((ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.alias), "name"),
        **dict.fromkeys((ast.ExceptHandler, ast.MatchAs, ast.MatchStar), "name"),
        **dict.fromkeys((ast.arg, ast.keyword), "arg"),
        **{ast.Name: "id", ast.Attribute: "attr", ast.ImportFrom: "module"},
    }
)


class Nodes(list[ast.AST]):
    """The nodes of a tree in order, and by their kinds, with the words in them; gathered once."""

    def __init__(self, root: ast.AST) -> None:
        super().__init__(walk(root))
        self.kinds: defaultdict[type[ast.AST], list[Any]] = defaultdict(list)
        for one in self:
            self.kinds[one.__class__].append(one)
        found = {getattr(one, field) for kind, field in _WORDS.items() for one in self.kinds.get(kind, ())}
        self.words = frozenset(one for one in found if one is not None)
        """Its names, fields, parameters and keywords, and the modules that it imports."""

    def of(self, *kinds: type[_Kind]) -> list[_Kind]:
        """The nodes of these classes, in order."""
        if len(kinds) == 1:
            return self.kinds.get(kinds[0], [])
        return list(among(self, *kinds))

    def has(self, *signs: type[ast.AST] | str) -> bool:
        """Whether the tree has a node of one of these classes, or one of these words."""
        return any(one in (self.words if isinstance(one, str) else self.kinds) for one in signs)


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


_WAITS: Final = frozenset({ast.Await, ast.AsyncFor, ast.AsyncWith})


def waits(node: ast.AST) -> bool:
    """Whether a statement or expression awaits something itself."""
    for one in own_nodes(node):
        if one.__class__ in _WAITS or (isinstance(one, ast.comprehension) and one.is_async):
            return True
    return False


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


def breaks(body: Sequence[ast.stmt]) -> bool:
    """Whether a block breaks the loop around it."""
    return any(isinstance(one, ast.Break) for one in jumps_out(body))


def names_read(*roots: ast.AST) -> set[str]:
    """The names that trees read from outside, also those that functions inside them read."""
    found: set[str] = set()
    stack = list(roots)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Name):
            if not isinstance(node.ctx, ast.Store):
                found.add(node.id)
        elif node.__class__ in _WITH_NAMES:
            read, outside = _read_through(node)
            found |= read
            stack += outside
        else:
            if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                found.add(node.target.id)
            push_children(node, stack)
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
        if isinstance(node, ast.Name):
            if not isinstance(node.ctx, ast.Load):
                found.add(node.id)
        elif node.__class__ not in _BINDING or _binds(node, found):
            push_children(node, stack)


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


_WITH_NAMES: Final = SCOPES | {ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp}
"""The nodes that have names of their own."""


def _read_through(node: ast.AST) -> tuple[set[str], Iterable[ast.AST]]:
    """What a node with names of its own reads of other ones; and what of it is evaluated where it stands."""
    match node:
        case ast.ClassDef(body=body, keywords=words):
            return names_read(*body) - names_bound(*body), [
                *outside_of(node),
                *(word.value for word in words),
            ]
        case ast.FunctionDef(args=of) | ast.AsyncFunctionDef(args=of) | ast.Lambda(args=of):
            body = node.body if isinstance(node.body, list) else [node.body]
            inside = [part for one in body for part in walk(one)]
            outer = {
                name for one in inside if isinstance(one, (ast.Nonlocal, ast.Global)) for name in one.names
            }
            bound = {one.arg for one in parameters_of(of)} | (names_bound(*body) - outer)
            return (names_read(*body) | outer) - bound, outside_of(node)
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            first, *others = node.generators
            parts = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
            parts += [*(one.iter for one in others), *(test for one in node.generators for test in one.ifs)]
            names = [part for one in node.generators for part in walk(one.target)]
            bound = {one.id for one in names if isinstance(one, ast.Name)}
            return names_read(*parts) - bound, [first.iter]
        case _:
            return set(), children(node)


def parameters_of(of: ast.arguments) -> list[ast.arg]:
    """All parameters of a function, in order, those that take the rest last."""
    made = [*of.posonlyargs, *of.args, *of.kwonlyargs]
    return made + [one for one in (of.vararg, of.kwarg) if one is not None]


def given_by_default(of: ast.arguments) -> Iterator[tuple[str, ast.expr]]:
    """The parameters that a call need not give, with their values."""
    names = [one.arg for one in (*of.posonlyargs, *of.args)]
    yield from zip(names[len(names) - len(of.defaults) :], of.defaults, strict=True)
    for one, default in zip(of.kwonlyargs, of.kw_defaults, strict=True):
        if default is not None:
            yield one.arg, default


def is_named(node: object, name: str) -> TypeGuard[ast.Name]:
    """Whether a node is this name."""
    return isinstance(node, ast.Name) and node.id == name


def returned_names(function: ast.AST) -> set[str]:
    """What an async function returns by its name; empty texts for all else."""
    returns = [one.value for one in own_nodes(function) if isinstance(one, ast.Return)]
    return {one.id if isinstance(one, ast.Name) else "" for one in returns}


def decorator_name(mark: ast.expr) -> str:
    """The last name of a decorator, with arguments or without; empty for anything else."""
    return last_name(mark.func if isinstance(mark, ast.Call) else mark)


def last_name(node: ast.AST) -> str:
    """`c` of `a.b.c`; empty for anything else."""
    return (dotted(node) or "").rpartition(".")[2]


def dotted(node: ast.AST) -> str | None:
    """`a.b.c` as a text, None for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        before = dotted(node.value)
        return None if before is None else f"{before}.{node.attr}"
    return None
