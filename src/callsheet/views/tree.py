"""Plans with blocks as an outline, line by line, and as a Mermaid flowchart with subgraphs.

Both say what a statement is with the `Wording` of the plan: as it is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, assert_never

from callsheet.ir.gc_pause import gc_paused
from callsheet.ir.plan import Plan
from callsheet.ir.tree import (
    Act,
    Assign,
    Block,
    Compute,
    Foreach,
    If,
    Invoke,
    Let,
    Parallel,
    Repeat,
    Require,
    Say,
    Statement,
    Tree,
    Try,
    Word,
    recovery_of,
)
from callsheet.views.columns import escape_label
from callsheet.views.describe import LTP, Wording, wording_of


class Entry(NamedTuple):
    """A line of an outline: how deep it stands, the id of its statement if it has one, its text.

    `word` says what it is in a word. `statement` is None for the line that begins a further block, or an
    input or a sub-plan. The line above does not lead to one that `is_apart`: a sub-plan and what stands after
    it, a further branch or member.
    """

    depth: int
    id: str
    text: str
    word: str
    statement: Statement | None = None
    is_apart: bool = False
    is_input: bool = False


def outline(plan: Plan) -> Iterator[Entry]:
    """The lines of a plan with blocks: its inputs, its sub-plans, its statements, each block one deeper."""
    tree, words = _tree_of(plan), wording_of(plan)
    for one in tree.inputs:
        yield Entry(0, "", words.given(one.name), one.name, is_input=True)
    for each in tree.plans:
        head = words.function(each.name, [one.name for one in each.inputs])
        yield Entry(0, "", head, words.function(each.name), is_apart=True)
        yield from _outlined(each.body, words, 1)
    yield from _outlined(tree.body, words, 0, is_apart=bool(tree.plans))


def _tree_of(plan: Plan) -> Tree:
    assert plan.tree is not None
    return plan.tree


def _outlined(
    block: Block, words: Wording, depth: int, *, is_apart: bool = False, are_members: bool = False
) -> Iterator[Entry]:
    """The lines of a block, of which the first, or the others as well, are apart from the line above."""
    for number, one in enumerate(block):
        name = getattr(one, "id", "") if _is_named(one) else ""
        stands_apart = is_apart if number == 0 else are_members
        yield Entry(depth, name, words.statement(one), words.word(one), one, stands_apart)
        for head, inner, is_other_branch in _sections(one, words):
            if head:
                yield Entry(depth, "", head, head.partition(" ")[0], is_apart=is_other_branch)
            yield from _outlined(inner, words, depth + 1, are_members=isinstance(one, Parallel) and not head)


def statements_apart(tree: Tree) -> frozenset[str]:
    """The ids of the statements to which no line above leads, where sub-plans stand below a call."""
    found: set[str] = set()
    for body in (tree.body, *(plan.body for plan in tree.plans)):
        is_apart = False
        for one in _outlined(body, LTP, 0):
            is_apart = is_apart or one.is_apart
            if one.statement is not None:
                if is_apart:
                    found.add(one.statement.id)
                is_apart = False
    return frozenset(found)


def _is_named(statement: Statement) -> bool:
    return not isinstance(statement, Let | Assign | Require) and statement.is_named


def _sections(statement: Statement, words: Wording) -> Iterator[tuple[str, Block, bool]]:
    """The blocks inside a statement, each with the line that begins it; the first has none.

    Last, whether it is another branch of an ?IF.
    """
    match statement:
        case If(branches=(first, *more), otherwise=otherwise):
            yield "", first.body, False
            for number, branch in enumerate(more, 1):
                yield words.branch(number, branch.condition), branch.body, True
            if otherwise is not None:
                yield words.part("ELSE"), otherwise, True
        case Foreach(body=body) | Repeat(body=body) | Try(body=body):
            yield "", body, False
        case Parallel(members=members):
            yield "", members, False
        case _:
            pass
    recovery = recovery_of(statement)
    if recovery is not None:
        for handler in recovery.handlers:
            yield words.part(f"ON_FAIL {', '.join(handler.kinds)}".rstrip()), handler.body, False
        if recovery.final is not None:
            yield words.part("FINALLY"), recovery.final, False


# ---------------------------------------------------------------- Mermaid

_From = tuple[tuple[str, str], ...]
"""Nodes from which control comes, each with the label of its arrow."""


@dataclass(slots=True)
class _Chart:
    words: Wording
    lines: list[str] = field(default_factory=list[str])
    arrows: list[str] = field(default_factory=list[str])
    count: int = 0
    indent: int = 1

    def add(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    def node(self, text: str, shape: str = "[]") -> str:
        self.count += 1
        name = f"n{self.count}"
        opening, closing = shape[: len(shape) // 2], shape[len(shape) // 2 :]
        self.add(f'{name}{opening}"{escape_label(text)}"{closing}')
        return name

    def lead(self, before: _From, to: str) -> None:
        for source, label in before:
            said = f"|{escape_label(label)}|" if label else ""
            self.arrows.append(f"    {source} -->{said} {to}")

    def block(self, block: Block, before: _From) -> _From:
        for one in block:
            before = self.statement(one, before)
        return before

    def inside(self, title: str, block: Block, before: _From) -> _From:
        self.count += 1
        self.add(f'subgraph b{self.count}["{escape_label(title)}"]')
        self.indent += 1
        after = self.block(block, before)
        self.indent -= 1
        self.add("end")
        return after

    def statement(self, one: Statement, before: _From) -> _From:
        own = f"{one.id}: " if _is_named(one) else ""
        text = own + self.words.statement(one)
        after: _From
        match one:
            case If(branches=branches, otherwise=otherwise):
                ends: list[tuple[str, str]] = []
                for number, branch in enumerate(branches):
                    said = text if number == 0 else self.words.branch(number, branch.condition)
                    test = self.node(said, "{}")
                    self.lead(before, test)
                    ends += self.block(branch.body, ((test, "yes"),))
                    before = ((test, "no"),)
                return (*ends, *(before if otherwise is None else self.block(otherwise, before)))
            case Foreach(body=body) | Repeat(body=body):
                head = self.node(text, "{{}}")
                self.lead(before, head)
                word = "each item" if isinstance(one, Foreach) else "a round"
                for source, _ in self.inside(one.id, body, ((head, word),)):
                    self.arrows.append(f"    {source} -.-> {head}")
                after = ((head, "then"),)
            case Try(body=body):
                first = self.count + 2
                after = self.inside(self.words.statement(one), body, before)
                head = f"n{first}"
            case Parallel(members=members):
                head = self.node(self.words.statement(one), "{{}}")
                self.lead(before, head)
                after = tuple(end for member in members for end in self.statement(member, ((head, ""),)))
            case Say(word=word):
                head = self.node(text, "([])" if word in _ENDS else "[]")
                self.lead(before, head)
                after = () if word in _ENDS else ((head, ""),)
            case Act() | Invoke() | Compute() | Let() | Assign() | Require():
                head = self.node(text, "[[]]" if isinstance(one, Invoke) else "[]")
                self.lead(before, head)
                after = ((head, ""),)
            case _:
                assert_never(one)
        return self.recovered(one, head, after)

    def recovered(self, one: Statement, head: str, after: _From) -> _From:
        recovery = recovery_of(one)
        if recovery is None:
            return after
        ends = list(after)
        for handler in recovery.handlers:
            ends += self.block(handler.body, ((head, self.words.failure(handler.kinds)),))
        after = tuple(ends)
        return (
            after
            if recovery.final is None
            else self.inside(self.words.part("FINALLY"), recovery.final, after)
        )


_ENDS = frozenset(
    {Word.RESPOND, Word.TERMINATE, Word.RETURN, Word.FAIL, Word.BREAK, Word.CONTINUE, Word.REPLAN}
)


def tree_mermaid(plan: Plan) -> str:
    """The plan as a Mermaid `graph TD`, without a code fence: blocks are subgraphs, sub-plans stand apart."""
    tree, chart = _tree_of(plan), _Chart(wording_of(plan))
    with gc_paused(True):
        for one in tree.plans:
            chart.inside(chart.words.function(one.name), one.body, ())
        chart.block(tree.body, ())
    if not chart.count:
        return 'graph TD\n    empty["Empty plan"]'
    return "\n".join(["graph TD", *chart.lines, *chart.arrows])
