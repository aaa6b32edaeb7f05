"""A plan of version 1 as one of version 2 with the same meaning: the same calls with the same results.

In: a `Plan` in text order. Out: a plan with a tree, or CallsheetError (LTP072) that names the step which no
block can say. Variables that some path leaves unset, null in version 1, become inputs that default to null.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from callsheet.diagnostics import CallsheetError, Diagnostic, Severity, Source
from callsheet.frontends.upgrade.blocks import CannotNest, Line, nested, reached
from callsheet.frontends.upgrade.steps import Converter, Lines
from callsheet.ir import JSON, DictExpr, ListExpr, Literal, Order, Plan, Value
from callsheet.ir.expression import Call, Variable, variables_in
from callsheet.ir.statement_ids import with_ids
from callsheet.ir.tree import (
    Act,
    Block,
    Foreach,
    If,
    Input,
    Let,
    Parallel,
    Repeat,
    Say,
    Statement,
    Tree,
    Try,
    Word,
    operands,
    recovery_of,
    statements,
    variables_set,
)
from callsheet.ir.tree_edits import plan_of_tree, with_own_failures
from callsheet.ir.types import Basic, Maybe

_UNSET = "null where no step has set it, as in version 1"
_GIVEN = "null where none is given, as in version 1"


def upgraded(plan: Plan, source: Source | None = None) -> Plan:
    """The plan in version 2. Raises CallsheetError (LTP072) with the place in the source."""
    if plan.tree is not None:
        return plan
    if plan.order is not Order.TEXT:
        raise _refused(
            "its steps run in the order of their dependencies, and go on beside one that has failed",
            Lines(),
            0,
            source,
        )
    converter = Converter(plan)
    try:
        lines = converter.convert()
        _answer(converter, lines)
        flags: dict[int, str] = {}

        def flag(to: int) -> str:
            if to not in flags:
                name = lines.steps[to].id if to < len(lines.steps) else "end"
                flags[to] = converter.fresh(f"to_{name}")
            return flags[to]

        body = nested(lines.lines, flag)
    except CannotNest as error:
        raise _refused(error.message, converter.made, error.line, source) from None
    given = {name: _constant(value) for name, value in plan.variables}
    unset = _Unset()
    unset.block(body, set(given))
    set_ = {step.sets for step in plan.steps}
    inputs = [Input(name, Basic.JSON, value, is_required=False) for name, value in given.items()]
    inputs += [
        Input(name, Maybe(Basic.JSON), None, is_required=False, help=_UNSET if name in set_ else _GIVEN)
        for name in unset.found
    ]
    tree = with_ids(with_own_failures(Tree(body, tuple(inputs))))
    live = reached(lines.lines)
    steps = {id(step): step.id for n, step in enumerate(lines.steps) if n in live}
    left = [step.id for step in plan.steps if id(step) not in steps]
    comments = list(plan.comments)
    if left:
        comments.append(f"left out, since no way led there: {', '.join(left)}")
    return plan_of_tree(tree, id=plan.id, title=plan.title, goal=plan.goal, comments=tuple(comments))


def _refused(why: str, lines: Lines, number: int, source: Source | None) -> CallsheetError:
    step = lines.steps[number] if number < len(lines.steps) else None
    place = "the plan" if step is None else f"step {step.id}"
    return CallsheetError(
        [
            Diagnostic(
                "LTP072",
                Severity.ERROR,
                f"{place} cannot be written in version 2: {why}",
                None if source is None or step is None else step.span,
                help="the plan stays as it is, and runs as version 1",
            )
        ],
        source,
    )


def _constant(value: Value) -> JSON:
    match value:
        case Literal(value=held):
            return held
        case ListExpr(items=items):
            return [_constant(item) for item in items]
        case DictExpr(items=pairs):
            return {key: _constant(held) for key, held in pairs}
        case _:
            raise ValueError("an initial value has no references")


def _answer(converter: Converter, lines: Lines) -> None:
    """Append the answer of a plan that comes to its end: the last result, as version 1 gives it."""
    if not lines.lines:
        return
    last = _last_set(lines)
    if not last or last == {None}:
        return
    name = next(iter(last)) if len(last) == 1 else None
    if name is None:
        name = converter.fresh("last_result")
        for number, (variable, always) in enumerate(lines.sets):
            if variable is None:
                continue
            if not always and lines.steps[number].group is not None:
                raise CannotNest(
                    number, "its result may be the answer, and it stands in a group under a condition"
                )
            line = lines.lines[number]
            kept = Let("", name, Variable(variable))
            made = (*line.statements, kept) if always else _kept_inside(line.statements, kept)
            lines.lines[number] = replace(line, statements=made)
    said = Say("", Word.RESPOND, (Call("v1.text", (Variable(name),)),))
    said = replace(said, remark="as in version 1: the last result is the answer")
    lines.lines.append(Line((said,), ends=True))
    lines.steps.append(converter.steps[-1])
    lines.sets.append((None, True))


def _last_set(lines: Lines) -> set[str | None]:
    """The variables that may have been set last where the plan comes to its end; None for no variable."""
    count = len(lines.lines)
    before: list[set[str | None]] = [set() for _ in range(count + 1)]
    before[0] = {None}
    waiting = [0] if count else []
    while waiting:
        number = waiting.pop()
        line, (name, always) = lines.lines[number], lines.sets[number]
        after: set[str | None] = set() if name is not None and always else set(before[number])
        if name is not None:
            after.add(name)
        nexts = [number + 1] if line.goes_on else []
        if line.jump is not None:
            nexts.append(line.jump.to)
        for to in nexts:
            if not after <= before[to]:
                before[to] |= after
                if to < count:
                    waiting.append(to)
    return before[count]


def _kept_inside(block: Block, kept: Let) -> Block:
    """The statements of a call with a condition, with another one behind the call."""
    for place, one in enumerate(block):
        if isinstance(one, If) and any(isinstance(inner, Act) for inner in one.branches[0].body):
            branch = replace(one.branches[0], body=(*one.branches[0].body, kept))
            return (*block[:place], replace(one, branches=(branch,)), *block[place + 1 :])
    raise ValueError("there is no call with a condition here")


class _Unset:
    """Finds the variables that may be read before they are set; at most some that are always set, too."""

    def __init__(self) -> None:
        self.found: dict[str, None] = {}

    def block(self, block: Block, known: set[str]) -> set[str] | None:
        """What is set behind a block for certain; None if nothing follows."""
        after: set[str] | None = known
        for statement in block:
            if after is None:
                return None
            after = self.statement(statement, after)
        return after

    def _read(self, names: Iterable[str], known: set[str]) -> None:
        self.found.update(dict.fromkeys(name for name in names if name not in known))

    def statement(self, statement: Statement, known: set[str]) -> set[str] | None:
        """What is set behind a statement for certain."""
        late = statement.until if isinstance(statement, Repeat) else None
        early = [one for one in operands(statement) if one is not late]
        self._read((name for one in early for name in variables_in(one)), known)
        match statement:
            case Say():
                ends = {Word.RESPOND, Word.TERMINATE, Word.FAIL, Word.BREAK, Word.CONTINUE}
                return None if statement.word in ends else known
            case If():
                blocks = [branch.body for branch in statement.branches]
                return self._joined([*blocks, statement.otherwise or ()], known)
            case Foreach():
                self.block(statement.body, known | {statement.var})
                return known | set(variables_set(statement))
            case Repeat():
                after = self.block(statement.body, known)
                if late is not None:
                    self._read(variables_in(late), known if after is None else after)
                is_left = any(
                    isinstance(one, Say) and one.word is Word.BREAK for one in statements(statement.body)
                )
                return known if after is None or is_left or late is None else after
            case Parallel():
                return known.union(*(self.statement(one, known) or known for one in statement.members))
            case Try():
                return self.block(statement.body, known)
            case _:
                after = known | set(variables_set(statement))
                recovery = recovery_of(statement)
                for handler in () if recovery is None else recovery.handlers:
                    handled = self.block(handler.body, known | {handler.binds})
                    after = after if handled is None else after & handled
                return after

    def _joined(self, blocks: list[Block], known: set[str]) -> set[str] | None:
        ways = [way for way in (self.block(block, known) for block in blocks) if way is not None]
        return ways[0].intersection(*ways) if ways else None
