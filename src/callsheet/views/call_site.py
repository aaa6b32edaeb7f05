"""Where a call stands in the text of its plan: its own lines and the conditions around it, as written.

In: a plan with its text, and the key of a call. Out: numbered lines, for people who are asked about the call.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from callsheet.frontends.spelling import is_json, read_plan_text
from callsheet.ir import Plan, plan_hash, tree
from callsheet.machine.keys import parse_key, place_in_tree
from callsheet.views.columns import CUT
from callsheet.views.describe import wording_of

if TYPE_CHECKING:
    from callsheet.diagnostics import Span
    from callsheet.frontends.python.source import Text

_MOST_LINES: Final = 16
_MOST_OWN: Final = 8
"""So many lines of the call itself are shown."""
_LONGEST: Final = 200
_ELSE: Final = re.compile(r"\b(?:ELSE|EL(?:SE?)?IF)\b", re.IGNORECASE)
_ON_FAIL: Final = re.compile(r"\bON_FAIL\b", re.IGNORECASE)


class Line(NamedTuple):
    """A line of the text of a plan, counted from 1."""

    number: int
    text: str


class CallSite(NamedTuple):
    """The place of a call: the tool as the plan names it, the outermost condition first, the call last."""

    tool: str
    lines: tuple[Line, ...]


class _Written(NamedTuple):
    """A text, and the hash and the id of the plan that it is to be."""

    text: str
    hash: str
    id: str | None


def call_site(text: str, hash_: str, key: str, tool: str, plan_id: str | None = None) -> CallSite | None:
    """The place of the call with this key in a text that is the plan with this hash.

    None if the text is not that plan, as where it was edited, or if the plan has no such call. `tool` is the
    canonical name of what is called, `plan_id` the plan's id, which a library gives it.

    >>> from callsheet.ir import plan_hash
    >>> text = 'async def main(n: int):\\n    if n > 3:\\n        await send_mail(n=n)\\n    return n'
    >>> plan = read_plan_text(text).result.require()
    >>> site = call_site(text, plan_hash(plan), "main.send_mail.1", "SEND_MAIL")
    >>> print(site.tool, *(f"{line.number}|{line.text}" for line in site.lines), sep="\\n")
    send_mail
    2|    if n > 3:
    3|        await send_mail(n=n)
    """
    try:
        step, path = parse_key(key).step, _path_of(key)
    except ValueError:
        return None
    return _site(_Written(text, hash_, plan_id), (*path[:-1], step), tool)


def _path_of(key: str) -> list[str]:
    """The ids of the statements around a call, across sub-plans, and its own."""
    place = place_in_tree(key).rpartition("//")[2]
    return [re.sub(r"\[[^]]*\]$", "", part) for part in place.split("/")]


@lru_cache(256)  # the items of a loop ask at one place
def _site(written: _Written, steps: tuple[str, ...], tool: str) -> CallSite | None:
    step, text = steps[-1], written.text
    plan = _read(written, steps[0].partition(".")[0])
    if plan is None:
        return None
    words = wording_of(plan).tool(tool)
    if plan.tree is None:
        span = next((one.span for one in plan.steps if one.id == step), None)
        return None if span is None else CallSite(words, (*_written(text, span.start, span.end),))
    shown = [*dict.fromkeys(line for id_ in steps for line in _lines_of(plan, plan.tree, text, id_, step))]
    if len(shown) > _MOST_LINES:
        left_out = len(shown) - _MOST_LINES
        last = shown[-_MOST_LINES + 1 :]
        shown = [shown[0], Line(last[0].number - 1, f"{CUT} ({left_out + 1} more lines)"), *last[1:]]
    return CallSite(words, tuple(shown)) if shown else None


@lru_cache(32)
def _read(written: _Written, function: str) -> Plan | None:
    """The plan of a text with this hash; `function` is the main one of a file that has several."""
    for name in (None, function):
        plan = read_plan_text(written.text, function=name).result.plan
        if plan is not None and written.hash in (plan_hash(plan), plan_hash(replace(plan, id=written.id))):
            return plan
    return None


def _lines_of(plan: Plan, whole: tree.Tree, text: str, id_: str, step: str) -> Iterator[Line]:
    """The lines of a call or of a call of a sub-plan, after those of what governs it there."""
    way = next((way for body in _bodies(whole) if (way := _way_to(body, id_)) is not None), None)
    if way is None or not (id_ == step or isinstance(way[-1].statement, tree.Invoke)):
        return
    span = way[-1].statement.span
    if span is None or is_json(text):
        number = 0 if span is None else _number(text, span.start)
        yield Line(number, wording_of(plan).statement(way[-1].statement))
    elif plan.in_python:
        yield from _lines_in_python(text, span.start)
    else:
        for outer, inner in pairwise(way):
            yield from _head(text, outer.statement, inner.block)
        yield from _own_lines(text, way[-1].statement, span)


def _own_lines(text: str, one: tree.Statement, span: Span) -> Iterator[Line]:
    """The lines of a statement, up to the first block in it: what its handlers call is not asked about."""
    starts = [block[0].span.start for block in tree.inner_blocks(one) if block and block[0].span is not None]
    end = text.rfind("{", span.start, min(starts)) + 1 if starts else span.end
    yield from _written(text, span.start, end or span.end)


def _number(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1


def _written(text: str, start: int, end: int, after: str = "") -> Iterator[Line]:
    """The lines of a part of a text, the first as far indented as it stands, and what ends the last one."""
    margin = text[text.rfind("\n", 0, start) + 1 : start]
    indent = margin[: len(margin) - len(margin.lstrip())]
    first = _number(text, start)
    lines = f"{indent}{text[start:end].rstrip()}{after}".split("\n")
    for number, line in enumerate(lines[:_MOST_OWN], first):
        yield Line(number, line if len(line) <= _LONGEST else f"{line[:_LONGEST]}{CUT}")
    if len(lines) > _MOST_OWN:
        yield Line(first + _MOST_OWN, f"{indent}{CUT} ({len(lines) - _MOST_OWN} more lines)")


# ---------------------------------------------------------------- LTP text


class _Standing(NamedTuple):
    """A statement, and the block in which it stands."""

    statement: tree.Statement
    block: tree.Block


def _bodies(whole: tree.Tree) -> Iterator[tree.Block]:
    yield whole.body
    for one in whole.plans:
        yield one.body


def _way_to(block: tree.Block, id_: str) -> list[_Standing] | None:
    """The statements around the one with this id, from the outermost, and it itself."""
    for one in block:
        if one.id == id_:
            return [_Standing(one, block)]
        for inner in tree.inner_blocks(one):
            way = _way_to(inner, id_)
            if way is not None:
                return [_Standing(one, block), *way]
    return None


def _head(text: str, outer: tree.Statement, block: tree.Block) -> Iterator[Line]:
    """The lines that begin a block of a statement; what only tries or starts together is no condition."""
    first = block[0].span if block else None
    if outer.span is None or first is None:
        return
    match outer:
        case tree.If(branches=branches):
            for number, branch in enumerate(branches):
                inner = branch.body[0].span if branch.body else None
                if branch.span is not None and inner is not None and inner.start <= first.start:
                    start = branch.span.start
                    start = _last(_ELSE, text, outer.span.start, start) if number else start
                    yield from _to_brace(text, start, inner.start)
            if block is outer.otherwise:
                yield from _to_brace(text, _last(_ELSE, text, outer.span.start, first.start), first.start)
        case tree.Foreach(body=body) | tree.Repeat(body=body) if block is body:
            yield from _to_brace(text, outer.span.start, first.start)
        case _:
            pass
    recovery = tree.recovery_of(outer)
    for handler in () if recovery is None else recovery.handlers:
        if block is handler.body and handler.span is not None:
            start = _last(_ON_FAIL, text, outer.span.start, handler.span.start)
            yield from _to_brace(text, start, first.start)


def _last(word: re.Pattern[str], text: str, start: int, end: int) -> int:
    """Where a word stands for the last time in a part of a text; its end if it does not."""
    return max((one.start() for one in word.finditer(text, start, end)), default=end)


def _to_brace(text: str, start: int, end: int) -> Iterator[Line]:
    brace = text.rfind("{", start, end)
    if brace > start >= 0:
        yield from _written(text, start, brace + 1)


# ---------------------------------------------------------------- Python


def _lines_in_python(text: str, offset: int) -> Iterator[Line]:
    """The heads of the statements around a place, and the statement that stands there, without comments."""
    from callsheet.frontends.python.source import Refused, Text  # noqa: PLC0415 - only for Python plans

    source = Text(text, "<plan>")
    try:
        node: ast.AST = source.tree()
    except Refused:
        return
    while True:
        inner = next((one for one in _blocks(node) if _has(source, one, offset)), None)
        if inner is None:
            return
        yield from _head_in_python(source, inner, offset)
        node = inner


def _blocks(node: ast.AST) -> Iterator[ast.AST]:
    """The statements, handlers and cases that stand directly inside a node."""
    for one in ast.iter_child_nodes(node):
        if isinstance(one, ast.stmt | ast.excepthandler | ast.match_case):
            yield one


def _has(source: Text, node: ast.AST, offset: int) -> bool:
    if isinstance(node, ast.match_case):
        return _start(source, node.pattern) <= offset < _end(source, node.body[-1])
    return _start(source, node) <= offset < _end(source, node)


def _start(source: Text, node: ast.AST) -> int:
    span = source.span(node)
    return 0 if span is None else span.start


def _end(source: Text, node: ast.AST) -> int:
    span = source.span(node)
    return 0 if span is None else span.end


def _head_in_python(source: Text, node: ast.AST, offset: int) -> Iterator[Line]:
    text = source.source.text
    start = _start(source, node)
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return
        case ast.If(test=last) | ast.While(test=last) | ast.For(iter=last) | ast.AsyncFor(iter=last):
            yield from _written(text, start, _closed(source, last, node.body), ":")
            yield from _word(source, "else", node.body, node.orelse, offset)
        case ast.With(items=items) | ast.AsyncWith(items=items):
            last = items[-1].optional_vars or items[-1].context_expr
            yield from _written(text, start, _closed(source, last, node.body), ":")
        case ast.Try() | ast.TryStar():
            yield from _word(source, "else", [*node.body, *node.handlers], node.orelse, offset)
            before = [*node.body, *node.handlers, *node.orelse]
            yield from _word(source, "finally", before, node.finalbody, offset)
        case ast.ExceptHandler(type=caught):
            colon = text.find(":", start if caught is None else _end(source, caught))
            yield from _written(text, start, colon + 1)
        case ast.Match(subject=subject, cases=cases):
            colon = text.find(":", _end(source, subject), _start(source, cases[0].pattern))
            yield from _written(text, start, colon + 1)
        case ast.match_case(pattern=pattern, guard=guard):
            start = text.rfind("case", 0, _start(source, pattern))
            yield from _written(text, start, _closed(source, guard or pattern, node.body), ":")
        case _:
            yield from _written(text, start, _end(source, node))


def _closed(source: Text, last: ast.AST, body: Sequence[ast.stmt]) -> int:
    """The end of an expression with the parentheses that close behind it."""
    text, end = source.source.text, _end(source, last)
    closing = re.compile(r"[\s)\]]*").match(text, end, _start(source, body[0]))
    return end if closing is None else end + len(closing[0].rstrip())


def _word(
    source: Text, word: str, before: Sequence[ast.AST], block: Sequence[ast.stmt], offset: int
) -> Iterator[Line]:
    """The line `else:` or `finally:` of the block that has this place; `elif` is a statement of its own."""
    if not any(_has(source, one, offset) for one in block):
        return
    text = source.source.text
    found = re.compile(rf"^[ \t]*({word}\s*:)", re.MULTILINE).search(
        text, max(_end(source, one) for one in before), _start(source, block[0]) + 1
    )
    if found is not None:
        yield from _written(text, found.start(1), found.end(1))
