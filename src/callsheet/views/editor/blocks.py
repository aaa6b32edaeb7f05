"""What an editor asks of a text with blocks, version 2 of the language: names, outline, folding, hover.

In: a `PlanDocument` with a tree. Out: the occurrences of its variables, ids and sub-plans, each with its
scope, and what `hover` and completion show of its statements.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from callsheet.diagnostics import Span
from callsheet.ir.expression import Variable, nodes
from callsheet.ir.scopes import blocks_of_scope
from callsheet.ir.tree import (
    ERROR_VARIABLE,
    Act,
    Assign,
    Block,
    Compute,
    Foreach,
    Invoke,
    Let,
    Statement,
    Tree,
    all_statements,
    operands,
    own_blocks,
    recovery_of,
    variables_set,
)
from callsheet.ir.types import type_text
from callsheet.views.columns import cut
from callsheet.views.editor.document import head_of
from callsheet.views.editor.occurrences import Entity, Kind, Occurrence, Role

_MOST_LINES = 12
_WIDEST = 100


@dataclass(frozen=True, slots=True)
class _Names:
    """The variables of a place: the number of the scope of each name; None is the main plan."""

    scope: int | None
    known: Mapping[str, int | None]
    unsaid: frozenset[str] = frozenset()
    """The names of failures that the text does not give them: there they are `$error`."""


class Word(NamedTuple):
    """A word that begins a statement: its form, what it does, and what is inserted for it."""

    form: str
    about: str
    snippet: str


WORDS: Final[dict[str, Word]] = {
    "?IF": Word("?IF (condition) { … } ELSE { … }", "runs the one block or the other", "?IF ($1) {\n  $0\n}"),
    "?FOREACH": Word(
        "?FOREACH ($x IN list) { … YIELD (value) } > $list",
        "runs the block for each item; what the items YIELD is its list",
        "?FOREACH (\\$${1:item} IN \\$${2:list}) {\n  $0\n}",
    ),
    "?REPEAT": Word(
        '?REPEAT (max=30, every="10s") { … } UNTIL (condition)',
        "repeats the block; running out of rounds is a failure",
        "?REPEAT (max=${1:30}) {\n  $0\n} UNTIL ($2)",
    ),
    "@PARALLEL": Word("@PARALLEL { … }", "starts its statements together", "@PARALLEL {\n  $0\n}"),
    "TRY": Word(
        "TRY { … } ON_FAIL { … } FINALLY { … }",
        "handles the failures of a block",
        "TRY {\n  $1\n} ON_FAIL {\n  $0\n}",
    ),
    "LET": Word("LET $x = value", "makes a variable of this place", "LET \\$${1:x} = $0"),
    "SET": Word("SET $x = value", "gives a variable of an outer place another value", "SET \\$${1:x} = $0"),
    "REQUIRE": Word('REQUIRE (condition) "message"', "is a failure unless it holds", 'REQUIRE ($1) "$0"'),
    "CALL": Word("CALL plan (name=value) > $x", "runs a sub-plan", "CALL ${1:plan} ($2) > \\$${0:x}"),
    "COMPUTE": Word(
        "COMPUTE (reads=[$a]) > $b",
        "runs Python that touches nothing",
        'COMPUTE (reads=[\\$${1:a}]) > \\$${2:b} """\n  $0\n  """',
    ),
    "YIELD": Word("YIELD (value)", "is the result of the loop's item", "YIELD ($0)"),
    "RETURN": Word("RETURN (value)", "ends a sub-plan with its result", "RETURN ($0)"),
    "@RESPOND": Word("@RESPOND (value)", "ends the plan with its answer", "@RESPOND ($0)"),
    "TERMINATE": Word('TERMINATE ("text")', "ends the run early", 'TERMINATE ("$0")'),
    "FAIL": Word('FAIL ("text", kind="own")', "is a failure", 'FAIL ("$0")'),
    "NOTE": Word("NOTE (value)", "writes a remark to the journal", "NOTE ($0)"),
    "WAIT": Word('WAIT ("10s")', "waits for seconds or a duration", 'WAIT ("${0:10s}")'),
    "BREAK": Word("BREAK", "ends the loop", "BREAK"),
    "CONTINUE": Word("CONTINUE", "ends this item or round; after ON_FAIL, the plan goes on", "CONTINUE"),
}
"""The words that begin statements, as completion proposes them."""
_OTHERS: Final[dict[str, tuple[str, str]]] = {
    "INPUT": (
        "INPUT $name: type = default",
        "declares an input; the comment behind it is its help",
    ),
    "TYPE": ("TYPE Name = {field: type}", "names a record"),
    "PLAN": ("PLAN name ($x: type) -> type { … }", "is a sub-plan, which CALL runs"),
    "USE": ('USE name FROM "file.ltp"', "takes the plan of another file as a sub-plan"),
    "ELSE": ("} ELSE { … }", "runs if no condition before it holds"),
    "UNTIL": ("} UNTIL (condition)", "ends the loop after a round in which it holds"),
    "WHILE": ("?REPEAT (max=30) WHILE (condition) { … }", "goes on as long as it holds"),
    "ON_FAIL": ("ON_FAIL [KIND, …] { … }", "says what to do about a failure, which is $error inside"),
    "FINALLY": ("} FINALLY { … }", "runs in any case"),
    "SKIP": ("ON_FAIL SKIP", "leaves the failed items of a loop out of its list"),
    "WITHIN": ("TRY WITHIN (30) { … }", "stops the block when its time is over, which is a TIMEOUT"),
    "FIRST": ("?FOREACH (…) TOGETHER FIRST { … }", "stops the other items once one is done"),
    "UNDO": ("TRY { … } ON_FAIL UNDO", "takes back what the block has done, newest first, and fails"),
}


def about_word(word: str) -> str | None:
    """Markdown about a word of the language; None for any other."""
    for name in (word, f"?{word}", f"@{word}"):
        if name in WORDS:
            return f"`{WORDS[name].form}`: {WORDS[name].about}."
    found = _OTHERS.get(word)
    return None if found is None else f"`{found[0]}`: {found[1]}."


class _Walk:
    """Goes through a tree with the scopes of its variables, numbered in the order of the text from 1."""

    def __init__(self, text: str, tree: Tree) -> None:
        self.text, self.tree = text, tree
        self.scopes = 0
        self.found: list[Occurrence] = []

    def whole(self) -> list[Occurrence]:
        """All occurrences."""
        for plan in self.tree.plans:
            if plan.origin is not None or plan.span is None:
                continue
            self._named(Kind.PLAN, plan.name, Role.WRITE, rf"\bPLAN\s+({re.escape(plan.name)})\b", plan.span)
            self.scopes += 1
            inner = _Names(self.scopes, {one.name: self.scopes for one in plan.inputs})
            for one in plan.inputs:
                self._variable(one.name, Role.WRITE, inner, plan.span)
            self.block(plan.body, inner)
        main = _Names(None, {one.name: None for one in self.tree.inputs})
        for one in self.tree.inputs:
            self._variable(one.name, Role.WRITE, main, one.span)
        self.block(self.tree.body, main)
        return self.found

    def _named(self, kind: Kind, name: str, role: Role, pattern: str, within: Span | None) -> None:
        match = None if within is None else re.compile(pattern).search(self.text, *within)
        if match is not None:
            self.found.append(Occurrence(Entity(kind, name), role, Span(*match.span(1)), None))

    def _variable(
        self, name: str, role: Role, names: _Names, within: Span | None, pattern: str = r"\$({})(?!\w)"
    ) -> None:
        if within is None:
            return
        said = ERROR_VARIABLE if name in names.unsaid else name
        match = re.compile(pattern.format(re.escape(said))).search(self.text, *within)
        if match is not None:
            entity = Entity(Kind.VARIABLE, said, names.known.get(name, names.scope))
            self.found.append(Occurrence(entity, role, Span(*match.span(1)), None))

    def block(self, block: Block, names: _Names) -> None:
        """The statements of a block, in a scope of which all names are known first."""
        made = [
            name for one in _of_scope(block) if not isinstance(one, Assign) for name in variables_set(one)
        ]
        fresh = {name: names.scope for name in made if name not in names.known}
        names = replace(names, known={**names.known, **fresh})
        for statement in block:
            self.statement(statement, names)

    def statement(self, statement: Statement, names: _Names) -> None:
        """One statement, and what is inside it."""
        span = statement.span
        if span is None:
            return
        if self.text.startswith(statement.id, span.start) and statement.id:
            at = Span(span.start, span.start + len(statement.id))
            self.found.append(Occurrence(Entity(Kind.STEP, statement.id), Role.WRITE, at, None))
        match statement:
            case Let(name=name):
                self._variable(name, Role.WRITE, names, span, r"\bLET\s+\$({})(?!\w)")
            case Assign(name=name):
                self._variable(name, Role.WRITE, names, span, r"\bSET\s+\$({})(?!\w)")
            case Invoke(plan=plan):
                self._named(Kind.PLAN, plan, Role.READ, rf"\bCALL\s+({re.escape(plan)})\b", span)
            case Compute(names=read, into=into):
                for name in read:
                    self._variable(name, Role.READ, names, span, r"reads\s*=[^\]]*?\$({})(?!\w)")
                for name in into:
                    self._variable(name, Role.WRITE, names, span, r">[^\n\"']*?\$({})(?!\w)")
            case _:
                pass
        if isinstance(statement, Act | Invoke | Foreach) and statement.into is not None:
            self._variable(statement.into.name, Role.WRITE, names, statement.into.span)
        for operand in operands(statement):
            for node in nodes(operand):
                if isinstance(node, Variable) and node.span is not None:
                    self._variable(node.name, Role.READ, names, node.span, r"\$?({})(?!\w)")
        self._blocks(statement, names, span)

    def _blocks(self, statement: Statement, names: _Names, span: Span) -> None:
        if isinstance(statement, Foreach):
            self.scopes += 1
            known = {**names.known, statement.var: self.scopes}
            inner = _Names(self.scopes, known)
            self._variable(statement.var, Role.WRITE, inner, span, r"\$?({})(?=\s+(?i:IN)\b)")
            self.block(statement.body, inner)
        else:
            for block in own_blocks(statement):
                self.block(block, names)
        recovery = recovery_of(statement)
        for handler in () if recovery is None else recovery.handlers:
            self.scopes += 1
            known = {**names.known, handler.binds: self.scopes}
            inner = replace(names, known=known, unsaid=names.unsaid - {handler.binds})
            said = len(self.found)
            self._variable(handler.binds, Role.WRITE, inner, handler.span, r"\bAS\s+\$({})(?!\w)")
            if len(self.found) == said:
                inner = replace(inner, unsaid=inner.unsaid | {handler.binds})
            self.block(handler.body, inner)
        if recovery is not None and recovery.final is not None:
            self.block(recovery.final, names)


def _of_scope(block: Block) -> Iterator[Statement]:
    """The statements of a block and of the blocks inside it that have the same variables."""
    for statement in block:
        yield statement
        for inner in blocks_of_scope(statement):
            yield from _of_scope(inner)


def tree_occurrences(text: str, tree: Tree) -> list[Occurrence]:
    """The occurrences of all names of a text with blocks, in no order."""
    return _Walk(text, tree).whole()


def hover_of_variable(
    text: str,
    tree: Tree,
    name: str,
    is_loop: bool,
    writes: tuple[Occurrence, ...],
    reads: tuple[Occurrence, ...],
) -> str:
    """Markdown about a variable: its type if the text declares it, where it is made and where it is used."""
    declared = next((one for one in tree.inputs if one.name == name and not is_loop), None)
    lines: list[str] = []
    if declared is not None:
        default = "" if declared.is_required else " with a default"
        help_ = "" if declared.help is None else f": {declared.help}"
        lines.append(f"**`${name}`**: input of the type `{type_text(declared.type)}`{default}{help_}")
    else:
        lines.append(f"**`${name}`**")
    made = list(dict.fromkeys(_line(text, one.span) for one in writes))[:_MOST_LINES]
    if made and declared is None:
        lines.append("made by\n" + "\n".join(f"```ltp\n{cut(line, _WIDEST)}\n```" for line in made))
    elif declared is None:
        lines.append("nothing makes it: `INPUT $…` declares an input")
    numbers = list(dict.fromkeys(text.count("\n", 0, one.span.start) + 1 for one in reads))
    shown = ", ".join(map(str, numbers[:_MOST_LINES]))
    more = " and more" if len(numbers) > _MOST_LINES else ""
    lines.append(f"used in line{'' if len(numbers) == 1 else 's'} {shown}{more}" if numbers else "not used")
    return "\n\n".join(lines)


def hover_of_statement(text: str, tree: Tree, own: str) -> str:
    """Markdown about the statement with an id."""
    found = next((one for one in all_statements(tree) if one.id == own and one.span is not None), None)
    return f"no step has the id `{own}`" if found is None else f"```ltp\n{head_of(text, found)}\n```"


def hover_of_plan(tree: Tree, name: str) -> str:
    """Markdown about a sub-plan: its signature."""
    plan = tree.plan(name)
    if plan is None:
        return f"there is no sub-plan `{name}`"
    given = ", ".join(
        f"${one.name}: {type_text(one.type)}" + ("" if one.is_required else f" = {one.default!r}")
        for one in plan.inputs
    )
    result = "" if plan.result is None else f" -> {type_text(plan.result)}"
    return f"```ltp\nPLAN {name} ({given}){result}\n```"


def _line(text: str, span: Span) -> str:
    start = text.rfind("\n", 0, span.start) + 1
    end = text.find("\n", span.start)
    return text[start : len(text) if end < 0 else end].strip()
