"""A pure program: Python source as it is written, and as it is executed, with the place of each part.

In: fragments of Python source, each with the place where it stands in its file. Out: a `PureProgram`, the
text that an executor runs, from whose places an error is led back to the file. Nothing is executed here, and
no fragment is ever given to CPython's compiler but to be parsed.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from callsheet.frontends.pure_code.lowering import Inputs, Lowered, lowered
from callsheet.frontends.pure_code.names import unknown_names
from callsheet.frontends.pure_code.refusals import Refusal, RefusalKind, refusals


class Fragment(NamedTuple):
    """A piece of Python source; `line` (from 1) and `column` (from 0) are those of its first character.

    `column` is what was cut off each line when the piece was taken out of a block.
    """

    text: str
    line: int = 1
    column: int = 0


class Place(NamedTuple):
    """A place in a file of Python source: the line and the column, both from 1."""

    line: int
    column: int


class CodeRefused(Exception):
    """Python source that pure code may not say; `refusals` has all that was found, in text order."""

    def __init__(self, found: Iterable[Refusal]) -> None:
        self.refusals = tuple(found)
        first = self.refusals[0]
        super().__init__(f"line {first.line}, column {first.column}: {first.reason}; {first.rewrite}")


class _Stretch(NamedTuple):
    """What stands in the executed text from a place on, and where that comes from."""

    start: Place
    end: Place
    source: Place


@dataclass(frozen=True)
class PureProgram:
    """What an executor runs: `helpers` first, then `text`."""

    helpers: str
    text: str
    stretches: tuple[_Stretch, ...]
    has_objects: bool
    """Whether outputs may be objects that look like JSON data: a Counter, a named tuple."""

    def source_place(self, line: int, column: int) -> Place | None:
        """Where in the file stands what stands at a line and column (both from 1) of `text`.

        That is the place of the smallest part of the program around it, None if there is no such part.
        """
        at = Place(line, column)
        last = bisect_right(self.stretches, at, key=lambda stretch: stretch.start)
        for stretch in reversed(self.stretches[:last]):
            if at < stretch.end:
                return stretch.source
        return None


def pure_program(fragments: Iterable[Fragment], inputs: Inputs | None = None) -> PureProgram:
    """The program that some fragments make together, executed one after another.

    Raises CodeRefused for what pure code may not say, also for a fragment that is not Python.

    >>> pure_program([Fragment("y = x.title", line=7, column=4)]).source_place(1, 5)
    Place(line=7, column=9)
    """
    return _program_of(tuple(fragments), inputs or Inputs())


@lru_cache(maxsize=512)
def _program_of(fragments: tuple[Fragment, ...], inputs: Inputs) -> PureProgram:
    tree = ast.Module([], [])
    for fragment in fragments:
        tree.body += parsed(fragment).body
    found = refusals(tree, inputs.names)
    if found:
        raise CodeRefused(found)
    return lowered_program(tree, inputs)


_ENCODED: Final = re.compile(r"[ \t\f]*#.*?coding[:=]")


@lru_cache(maxsize=512)
def is_pure(source: str) -> bool:
    """Whether a text is a whole program of pure code: nothing in it is refused, and it has all its names.

    >>> is_pure("print(6 * 7)"), is_pure("print(open('a').read())"), is_pure("print(x)")
    (True, False, False)
    """
    if any(_ENCODED.match(line) for line in source.split("\n", 2)[:2]):
        return False  # CPython reads it in another way
    try:
        tree = parsed(Fragment(source))
    except CodeRefused:
        return False
    return not unknown_names(tree) and not refusals(tree)


def lowered_program(tree: ast.Module, inputs: Inputs) -> PureProgram:
    """The program of a tree that has been judged. Raises CodeRefused if it cannot be written down."""
    result = lowered(tree, inputs)
    text = _text_of(result)
    return PureProgram(result.helpers, text, _stretches_of(result.tree, text), result.has_objects)


def parsed(fragment: Fragment) -> ast.Module:
    """The tree of a fragment, with the lines and columns of its file.

    Raises CodeRefused if it is not Python.
    """
    try:
        tree = ast.parse(fragment.text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise CodeRefused([_syntax_refusal(error, fragment)]) from None
    lines, columns = fragment.line - 1, fragment.column
    if lines or columns:
        for node in ast.walk(tree):
            if isinstance(node, (ast.stmt, ast.expr, ast.excepthandler, ast.arg, ast.keyword, ast.alias)):
                node.lineno += lines
                node.col_offset += columns
                node.end_lineno = (node.end_lineno or 1) + lines
                node.end_col_offset = (node.end_col_offset or 0) + columns
    return tree


def _syntax_refusal(error: Exception, fragment: Fragment) -> Refusal:
    line, column, reason = 1, 1, str(error) or "it is nested too deeply"
    if isinstance(error, SyntaxError):
        line, column, reason = error.lineno or 1, error.offset or 1, error.msg
    at = fragment.line + line - 1, fragment.column + column
    return Refusal(RefusalKind.SYNTAX, *at, f"this is not Python: {reason}", "correct the line")


def _text_of(result: Lowered) -> str:
    try:
        return ast.unparse(result.tree)
    except ValueError as error:  # quotes that Python 3.11 cannot nest
        node = result.tree.body[0]
        raise CodeRefused(
            [
                Refusal(
                    RefusalKind.SYNTAX,
                    node.lineno,
                    node.col_offset + 1,
                    f"an f-string here cannot be read on this version of Python: {error}",
                    "give the part in braces a name before the f-string",
                )
            ]
        ) from None


_PLACED: Final = (ast.stmt, ast.expr, ast.excepthandler)


def _stretches_of(tree: ast.Module, text: str) -> tuple[_Stretch, ...]:
    """The stretches of the executed text, in the order of their starts, outer ones before inner ones."""
    found: list[_Stretch] = []
    for executed, node in _pairs(ast.parse(text), tree):
        if isinstance(executed, _PLACED) and isinstance(node, _PLACED):
            start = Place(executed.lineno, executed.col_offset + 1)
            end = Place(executed.end_lineno or start.line, (executed.end_col_offset or 0) + 1)
            found.append(_Stretch(start, end, Place(node.lineno, node.col_offset + 1)))
    found.sort(key=lambda stretch: (stretch.start, -stretch.end.line, -stretch.end.column))
    return tuple(found)


def _pairs(executed: ast.AST, node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    """The nodes of two trees of one shape, side by side; a part where the shapes differ is left out."""
    stack = [(executed, node)]
    while stack:
        left, right = stack.pop()
        if type(left) is not type(right) or isinstance(left, ast.JoinedStr):
            continue  # the parts of f-strings have no reliable places before Python 3.12
        yield left, right
        lefts, rights = list(ast.iter_child_nodes(left)), list(ast.iter_child_nodes(right))
        if len(lefts) == len(rights):
            stack.extend(zip(lefts, rights, strict=True))
