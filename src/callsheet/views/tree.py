"""Renders a plan tree: as an outline for a terminal, a Mermaid flowchart with its blocks, rows of a picture.

All say what a statement is with the `Wording` of the plan: as it is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, assert_never

from callsheet.frontends.expressions import format_expression
from callsheet.frontends.structured.printer import with_plain_parameters
from callsheet.ir.expression import Expression
from callsheet.ir.gc_pause import gc_paused
from callsheet.ir.plan import Plan
from callsheet.ir.tree import (
    Act,
    Assign,
    Block,
    Compute,
    Foreach,
    GoOn,
    If,
    Into,
    Invoke,
    Leave,
    Let,
    Parallel,
    Recovery,
    Repeat,
    Require,
    Say,
    Skip,
    Statement,
    Tree,
    Try,
    Use,
    Word,
    recovery_of,
)
from callsheet.views.columns import fitted, printable
from callsheet.views.describe import LTP, Wording, wording_of
from callsheet.views.lanes import NO_GROUP
from callsheet.views.mermaid import escape_label
from callsheet.views.terminal import mark_of

_MOST_EXPRESSION = 48
_MOST_LINE = 100
_LEAST_LINE = 24


def describe_expression(node: Expression, most: int = _MOST_EXPRESSION) -> str:
    """An expression as the plan writes it, on one line of at most `most` columns."""
    return fitted(format_expression(node).replace("\n", " "), most)


def describe_statement(statement: Statement) -> str:
    """What a statement does, on one line, without its id and the blocks inside it.

    >>> from callsheet.frontends.expressions import read_expression
    >>> describe_statement(Let("", "n", read_expression("len($rows) + 1").expression))
    'LET $n = len($rows) + 1'
    >>> from callsheet.frontends.structured import read_structured
    >>> text = '# ltp: 2\\n@SELECT ([1, 2], query="[?@ > $n]", n=1) > $x'
    >>> describe_statement(read_structured(text).require().tree.body[0])
    '@SELECT ([1, 2], query="[?@ > $n]", n=1) > $x'
    """
    return fitted(_described(statement) + _after(recovery_of(statement)), _MOST_LINE)


def _described(statement: Statement) -> str:  # noqa: PLR0911 - a case for each statement
    match statement:
        case Act(tool="SELECT", into=into):
            positional, named = with_plain_parameters(statement, describe_expression)
            return f"@SELECT ({', '.join([*positional, *map('='.join, named)])}){_into(into)}"
        case Act(tool=tool, positional=positional, named=named, into=into):
            given = [describe_expression(value) for value in positional]
            given += [f"{name}={describe_expression(value)}" for name, value in named]
            return f"@{tool} ({', '.join(given)}){_into(into)}"
        case Invoke(plan=plan, named=named, into=into):
            given = [f"{name}={describe_expression(value)}" for name, value in named]
            return f"CALL {plan} ({', '.join(given)}){_into(into)}"
        case Compute(names=names, into=names_out):
            reads = ", ".join(f"${name}" for name in names)
            made = ", ".join(f"${name}" for name in names_out)
            return f"COMPUTE ({reads}) > {made}" if made else f"COMPUTE ({reads})"
        case Let(name=name, value=value):
            return f"LET ${name} = {describe_expression(value)}"
        case Assign(name=name, value=value):
            return f"SET ${name} = {describe_expression(value)}"
        case Require(condition=condition):
            return f"REQUIRE ({describe_expression(condition)})"
        case Say(word=word, values=values):
            given = ", ".join(describe_expression(value) for value in values)
            return f"{word.value} ({given})" if values else word.value
        case If(branches=branches):
            return f"?IF ({describe_expression(branches[0].condition)})"
        case Foreach():
            how = f" {statement.order}" if statement.order else ""
            source = describe_expression(statement.source)
            return f"?FOREACH (${statement.var} IN {source}){how}{_into(statement.into)}"
        case Repeat(most=most, until=until, while_=while_):
            bound = 'max="run"' if most is None else f"max={describe_expression(most)}"
            if until is not None:
                return f"?REPEAT ({bound}) UNTIL ({describe_expression(until)})"
            test = "" if while_ is None else f" WHILE ({describe_expression(while_)})"
            return f"?REPEAT ({bound}){test}"
        case Try():
            within = statement.within
            return "TRY" if within is None else f"TRY WITHIN ({describe_expression(within)})"
        case Parallel():
            return "@PARALLEL STOP" if statement.stops else "@PARALLEL"
    assert_never(statement)


def _into(into: Into | None) -> str:
    return "" if into is None else f" > ${into.name}"


def _after(recovery: Recovery | None) -> str:
    text = describe_recovery(recovery)
    return f" ON_FAIL {text}" if text else ""


def describe_recovery(recovery: Recovery | None) -> str:
    """What a statement says about its failure in words, without ON_FAIL and blocks; "" for nothing."""
    if recovery is None:
        return ""
    text = "" if recovery.undo is None else " UNDO"
    text += "" if recovery.again is None else f" @RETRY({recovery.again.count})"
    match recovery.remedy:
        case None:
            pass
        case GoOn():
            text += " CONTINUE"
        case Skip():
            text += " SKIP"
        case Use(value=value):
            text += f" USE ({describe_expression(value)})"
        case Leave(values=values):
            text += f" TERMINATE ({', '.join(map(describe_expression, values))})"
        case _:
            assert_never(recovery.remedy)
    return text.strip()


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


def sketched_rows(plan: Plan) -> tuple[list[dict[str, Any]], list[int], list[int]]:
    """The lines of a plan but for inputs, as rows of its picture, how deep each stands, which are apart."""
    entries = [one for one in outline(plan) if not one.is_input]
    apart = [row for row, one in enumerate(entries) if one.is_apart]
    return [_sketched(one) for one in entries], [one.depth for one in entries], apart


def _sketched(entry: Entry) -> dict[str, Any]:
    text, span = printable(entry.text), None if entry.statement is None else entry.statement.span
    word = printable(entry.word)
    rest = text.removeprefix(word)
    return {
        "id": entry.id,
        "title": "",
        "tool": word.removeprefix("@"),
        "action": text,
        "guard": "",
        "output": text if rest[:1].isidentifier() else rest.removeprefix(":").strip(),
        "on_fail": "",
        "group": NO_GROUP,
        "foreach": "",
        "at": None if span is None else span.start,
    }


def outline_text(
    plan: Plan, status: Mapping[str, str] | None = None, *, ansi: bool = False, columns: int = _MOST_LINE
) -> str:
    """The outline as text, with rules that show the blocks and, given a `status` by id, marks of progress."""
    lines: list[str] = []
    for depth, own, text, *_ in outline(plan):
        head = f"{own}: " if own else ""
        mark = "" if status is None else mark_of(status.get(own, ""), ansi) + " " if own else "  "
        room = max(columns - 3 * depth - len(mark), _LEAST_LINE)
        lines.append(mark + "│  " * depth + fitted(head + text, room))
    return "\n".join(lines)


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
