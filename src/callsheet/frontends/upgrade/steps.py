"""The steps of version 1 as lines of version 2: calls, loops, answers, and what is done about their failure.

In: the steps of a plan in text order. Out: `Line`s, whose jumps `blocks` nests. What version 1 does without a
word is written out: a step without ON_FAIL goes on, with the text of the error as its result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final, assert_never

from callsheet.frontends.upgrade.blocks import CannotNest, Jump, Line, when
from callsheet.frontends.upgrade.values import (
    Names,
    cast_of,
    condition_of,
    expression_of,
    is_empty,
    joined,
    may_be_silent,
    message_of,
    negated,
)
from callsheet.ir import Call, Cast, Goto, Plan, Replan, Respond, Step, Terminate
from callsheet.ir.expr import Literal, names_in
from callsheet.ir.expression import (
    Bound,
    Clause,
    Comprehension,
    Conditional,
    Expression,
    Field,
    Hole,
    Index,
    Kind,
    LogicOp,
    Method,
    Text,
    Variable,
)
from callsheet.ir.expression import Call as Function
from callsheet.ir.operations import CallKind
from callsheet.ir.tree import (
    Act,
    Again,
    Assign,
    Foreach,
    GoOn,
    Handler,
    Into,
    Leave,
    Let,
    Parallel,
    Recovery,
    Say,
    Statement,
    Try,
    Word,
)

_KINDS: Final = ("DENIED", "TOOL", "TIMEOUT", "SCHEMA")
"""How a call fails; a handler that names DENIED also goes on after a person's no, as version 1 does."""
_RESERVED: Final = frozenset(
    {"and", "or", "not", "in", "is", "if", "else", "for", "lambda", "v1"}
    | {"None", "null", "NULL", "True", "true", "TRUE", "False", "false", "FALSE"}
)
_AS_TEXT: Final = "as in version 1: a failure is the text of its error"


@dataclass(slots=True)
class Lines:
    """The lines of a plan; `steps` has the step of each, `sets` what it sets, and whether in any case."""

    lines: list[Line] = field(default_factory=list[Line])
    steps: list[Step] = field(default_factory=list[Step])
    sets: list[tuple[str | None, bool]] = field(default_factory=list[tuple[str | None, bool]])
    targets: dict[int, str] = field(default_factory=dict[int, str])
    """The step to which a line jumps."""

    def add(
        self,
        step: Step,
        statements: Iterable[Statement],
        *,
        goto: str | None = None,
        condition: Expression | None = None,
        ends: bool = False,
        sets: str | None = None,
        always: bool = True,
    ) -> None:
        """Append a line of a step."""
        if goto is not None:
            self.targets[len(self.lines)] = goto
        self.lines.append(Line(tuple(statements), None if goto is None else Jump(-1, condition), ends))
        self.steps.append(step)
        self.sets.append((sets, always))


@dataclass(slots=True)
class _Called:
    """A call with what is done about its failure: before it, itself, directly after it, and at the end."""

    before: list[Statement]
    call: list[Statement]
    after: list[Statement]
    flag: str | None = None
    """The variable that says whether it has failed, where the plan then goes elsewhere."""
    ends: list[Statement] = field(default_factory=list[Statement])
    """The end of the run, if it has failed."""


class Converter:
    """Makes the lines of a plan; `fresh` gives names that the plan has not."""

    def __init__(self, plan: Plan) -> None:
        self.steps = plan.steps
        self.outer = {name for name, _ in plan.variables} | set(_outer_names(plan.steps))
        self.taken = self.outer | {step.foreach.var for step in plan.steps if step.foreach is not None}
        self.made = Lines()
        self.first_line: dict[str, int | None] = {}
        """The line of each step; None for one inside a group, to which no jump may lead."""
        self.why = self.fresh("why")

    def fresh(self, name: str) -> str:
        """A name like this that no variable of the plan has."""
        stem = "".join(char if char.isascii() and (char.isalnum() or char == "_") else "_" for char in name)
        number, found = 1, stem
        while found in self.taken or found in _RESERVED:
            number += 1
            found = f"{stem}_{number}"
        self.taken.add(found)
        return found

    def convert(self) -> Lines:
        """All steps. Raises CannotNest for a jump that no block can say, and for what version 2 has not."""
        position = 0
        while position < len(self.steps):
            group = self._group_at(position)
            for number, member in enumerate(group):
                self.first_line.setdefault(member.id, None if number else len(self.made.lines))
            if group[0].group is None:
                self._step(group[0])
            else:
                self._group(group)
            position += len(group)
        lines = self.made.lines
        for number, name in self.made.targets.items():
            to = self.first_line.get(name, -1)
            if to == -1:
                raise CannotNest(number, f"it jumps to {name}, and there is no such step")
            if to is None:
                raise CannotNest(number, f"it jumps into the middle of a group, to {name}")
            lines[number] = replace(lines[number], jump=Jump(to, (lines[number].jump or Jump(to)).condition))
        return self.made

    def _group_at(self, position: int) -> list[Step]:
        first = self.steps[position]
        end = position + 1
        while first.group is not None and end < len(self.steps) and self.steps[end].group == first.group:
            end += 1
        return list(self.steps[position:end])

    # -------------------------------------------------------------- one step

    def _step(self, step: Step, names: Names | None = None) -> None:
        names = names or {}
        action = step.action
        match action:
            case Call():
                self._call(step, action, names)
            case Respond():
                self._respond(step, action, names)
            case Terminate():
                self._terminate(step, action, names)
            case Goto(target=target):
                self._goto(step, target, names)
            case Replan():
                self.made.add(step, ())
                raise CannotNest(len(self.made.lines) - 1, "version 2 has no RE-PLAN in a block")
            case _:
                assert_never(action)

    def _guard(self, step: Step, names: Names) -> Expression | None:
        return None if step.condition is None else condition_of(step.condition, names)

    def _call(self, step: Step, call: Call, names: Names) -> None:
        made = self._loop(step, call, names) if step.foreach else self._plain(step, call, names)
        statements = [*made.call, *made.after]
        guard = None if step.foreach else self._guard(step, names)
        if guard is not None:
            statements = [_described(when(guard, statements), step)]
        else:
            statements[0] = _described(statements[0], step)
        self._add_called(step, [*made.before, *statements], made)

    def _add_called(self, step: Step, statements: list[Statement], made: _Called) -> None:
        goto = step.handling.target if isinstance(step.handling, Goto) else None
        condition = None if made.flag is None else Variable(made.flag)
        self.made.add(
            step,
            [*statements, *made.ends],
            goto=goto,
            condition=condition if goto is not None else None,
            sets=step.sets,
            always=step.sets_always,
        )

    def _respond(self, step: Step, action: Respond, names: Names) -> None:
        is_last = step is self.steps[-1]
        if step.foreach is not None:
            answers = self._of_items(
                step,
                names,
                lambda inner: message_of(action.values, inner),
                (lambda inner: _is_said(action, inner)) if may_be_silent(action.values) else None,
            )
            name = self.fresh(f"{step.id}_answers")
            said = Say(
                step.id, Word.RESPOND, (Method(Literal("\n"), "join", (Variable(name),)),), is_named=True
            )
            kept = _described(Let("", name, answers), step)
            self.made.add(step, [kept, when(Function("len", (Variable(name),)), [said])])
            return
        said = Say(step.id, Word.RESPOND, (message_of(action.values, names),), is_named=True)
        tests = [self._guard(step, names)]
        if may_be_silent(action.values) and not is_last:
            tests.append(_is_said(action, names))
        self._end(step, said, [test for test in tests if test is not None])

    def _end(self, step: Step, said: Say, tests: list[Expression]) -> None:
        if tests:
            self.made.add(step, [_described(when(joined(LogicOp.AND, tests), [said]), step)])
        else:
            self.made.add(step, [_described(said, step)], ends=True)

    def _terminate(self, step: Step, action: Terminate, names: Names) -> None:
        if step.foreach is None:
            values = (message_of(action.values, names),) if action.values else ()
            guard = self._guard(step, names)
            said = Say(step.id, Word.TERMINATE, values, is_named=True)
            self._end(step, said, [] if guard is None else [guard])
            return
        messages = self._of_items(step, names, lambda inner: message_of(action.values, inner))
        name = self.fresh(f"{step.id}_messages")
        first = Index(Variable(name), Literal(0))
        said = Say(step.id, Word.TERMINATE, (first,), is_named=True)
        kept = _described(Let("", name, messages), step)
        self.made.add(step, [kept, when(Function("len", (Variable(name),)), [said])])

    def _goto(self, step: Step, target: str, names: Names) -> None:
        condition = self._guard(step, names)
        if step.foreach is not None:
            condition = Function("len", (self._of_items(step, names, lambda _: Literal(True)),))
            condition = Function("bool", (condition,))
        self.made.add(step, (), goto=target, condition=condition)

    def _of_items(
        self,
        step: Step,
        names: Names,
        element: Callable[[Names], Expression],
        test: Callable[[Names], Expression] | None = None,
    ) -> Expression:
        """A list with an element for each item of the step's loop for which its condition and `test` hold."""
        assert step.foreach is not None
        source = Function("v1.elements", (expression_of(step.foreach.source, names),))
        bound = step.foreach.var
        bound = f"{bound}_item" if bound in _RESERVED else bound
        inner = {**names, step.foreach.var: Bound(bound)}
        tests = [self._guard(step, inner), None if test is None else test(inner)]
        clause = Clause(bound, source, tuple(one for one in tests if one is not None))
        return Comprehension(Kind.LIST, element(inner), (clause,))

    # -------------------------------------------------------------- calls

    def _act(self, step: Step, call: Call, names: Names, into: str | None, recovery: Recovery) -> Act:
        positional = [expression_of(value, names) for value in call.positional]
        named = {name: expression_of(value, names) for name, value in call.named}
        if call.tool in (
            "SELECT",
            "CALC",
        ):  # whose texts version 2 puts no values into, unless a function does
            positional = [_spliced(value) for value in positional]
            named = {name: _spliced(value) for name, value in named.items()}
        return Act(
            step.id,
            call.tool,
            tuple(positional),
            tuple(named.items()),
            None if into is None else Into(into),
            recovery,
            step.title,
        )

    def _plain(self, step: Step, call: Call, names: Names, *, is_member: bool = False) -> _Called:
        """A call outside a loop."""
        into, cast = step.sets, None if step.output is None else step.output.cast
        again = _again(step)
        handling = step.handling
        is_asked = call.kind is CallKind.HUMAN
        if handling is None and not is_asked:
            act = self._act(step, call, names, into, Recovery(again, GoOn()))
            after = [] if into is None else [_stored(into, cast, Variable(into))]
            return _Called([], [act], after)
        if isinstance(handling, Terminate) and not is_member and not is_asked:
            read = set(names_in(handling.values))
            if into is None or into not in read:
                values = (message_of(handling.values, names),) if handling.values else ()
                act = self._act(step, call, names, into, Recovery(again, Leave(values)))
                after = [] if cast is None or into is None else [_stored(into, cast, Variable(into))]
                return _Called([], [act], after)
        error = Field(Variable(self.why), "error")
        if isinstance(handling, Terminate) and not is_member:
            known = names if into is None else {**names, into: error}
            handler = Handler(_KINDS, (_failed_end(error, handling, known),), self.why)
            act = self._act(step, call, names, into, Recovery(again, None, (handler,)))
            after = [] if cast is None or into is None else [_stored(into, cast, Variable(into))]
            return _Called([], [act], after)
        body: list[Statement] = [] if into is None else [Let("", into, error)]
        if handling is None and cast is None:
            handler = Handler(_KINDS, tuple(body) or (_went_on(error),), self.why)
            act = self._act(step, call, names, into, Recovery(again, None, (handler,)))
            return _Called([], [act], [])
        flag = self.fresh(f"{step.id}_failed")
        body.append(Let("", flag, Literal(True)))
        before: list[Statement] = [Let("", flag, Literal(False))]
        ends: list[Statement] = []
        if isinstance(handling, Terminate):
            text = self.fresh(f"{step.id}_error")
            before.append(Let("", text, Literal("")))
            body.append(Let("", text, error))
            known = names if into is None else {**names, into: Variable(text)}
            ends = [when(Variable(flag), [_failed_end(Variable(text), handling, known)])]
        act = self._act(
            step, call, names, into, Recovery(again, None, (Handler(_KINDS, tuple(body), self.why),))
        )
        after: list[Statement] = []
        if cast is not None and into is not None:
            kept = Conditional(Variable(flag), Variable(into), cast_of(cast, Variable(into)))
            after = [Let("", into, kept, remark=_cast_remark(cast))]
        return _Called(before, [act], after, flag, ends)

    def _loop(self, step: Step, call: Call, names: Names, *, is_member: bool = False) -> _Called:
        """A call for each item of a list."""
        assert step.foreach is not None
        given, into = step.foreach.var, step.sets
        cast = None if step.output is None else step.output.cast
        cast = None if cast is Cast.LIST else cast
        item = self.fresh(f"{given}_item") if given in self.outer else given
        names = {name: held for name, held in names.items() if name != given}
        if step.condition is None:
            source: Expression = Function("v1.elements", (expression_of(step.foreach.source, names),))
        else:
            bound = {given: Bound(f"{given}_item" if given in _RESERVED else given)}
            source = self._of_items(step, names, lambda _: bound[given])
        inner = {**names, given: Variable(item)}
        result = None if into is None else self.fresh(f"{step.id}_result")
        error = Field(Variable(self.why), "error")
        again, handling = _again(step), step.handling
        is_asked = call.kind is CallKind.HUMAN
        before: list[Statement] = []
        ends: list[Statement] = []
        flag = None
        if handling is None and not is_asked:
            recovery = Recovery(again, GoOn())
        else:
            body: list[Statement] = [] if into is None else [Say("", Word.YIELD, (error,))]
            if isinstance(handling, Terminate) and not is_member:
                known = inner if into is None else {**inner, into: error}
                body = [_failed_end(error, handling, known)]
            elif handling is not None:
                flag = self.fresh(f"{step.id}_failed")
                before.append(Let("", flag, Literal(False)))
                body.append(Assign("", flag, Literal(True)))
            if isinstance(handling, Terminate) and flag is not None:
                text, last = self.fresh(f"{step.id}_error"), self.fresh(f"{step.id}_item")
                before += [Let("", text, Literal("")), Let("", last, Literal(None))]
                body += [Assign("", text, error), Assign("", last, Variable(item))]
                known = {**names, given: Variable(last)}
                if into is not None:
                    known[into] = Variable(text)
                ends = [when(Variable(flag), [_failed_end(Variable(text), handling, known)])]
            if handling is None or flag is not None:
                body.append(Say("", Word.CONTINUE if handling is None else Word.BREAK))
            recovery = Recovery(again, None, (Handler(_KINDS, tuple(body), self.why),))
        act = replace(self._act(step, call, inner, result, recovery), id="", is_named=False)
        inside: list[Statement] = [act]
        if result is not None:
            remark = None if handling is not None else _AS_TEXT
            inside.append(Say("", Word.YIELD, (cast_of(cast, Variable(result)),), remark=remark))
        loop = Foreach(
            step.id,
            item,
            source,
            tuple(inside),
            in_order=handling is not None,
            into=None if into is None else Into(into),
        )
        return _Called(before, [loop], [], flag, ends)

    # -------------------------------------------------------------- groups

    def _group(self, group: list[Step]) -> None:
        """The calls of a group as @PARALLEL; its jumps and ends follow behind it."""
        setting = [step.sets for step in group if step.sets is not None]
        twice = next((step for step in group if step.sets and setting.count(step.sets) > 1), None)
        if twice is not None:
            self.made.add(twice, ())
            raise CannotNest(len(self.made.lines) - 1, f"another member of its group sets ${twice.sets}, too")
        names: dict[str, Expression] = {}
        before: list[Statement] = []
        for name in dict.fromkeys(_read_by_others(group)):
            copy = self.fresh(f"{name}_before")
            names[name] = Variable(copy)
            remark = "as in version 1: members of a group see what was there before it"
            before.append(Let("", copy, Variable(name), remark=remark))
        members: list[Statement] = []
        after: list[Statement] = []
        made: dict[str, _Called] = {}
        for step in group:
            if (call := step.call) is None:
                continue
            called = (
                self._loop(step, call, names, is_member=True)
                if step.foreach
                else self._plain(step, call, names, is_member=True)
            )
            made[step.id] = called
            before += called.before
            guard = None if step.foreach else self._guard(step, names)
            if guard is None:
                members.append(_described(called.call[0], step))
                after += called.after
            else:
                members.append(_described(when(guard, [*called.call, *called.after]), step))
        if members:
            self.made.add(group[0], [*before, Parallel("", tuple(members), is_named=False), *after])
        else:
            self.made.add(group[0], before)
        for step in group:
            if step.call is None:
                self._step(step, names)
            else:
                self._add_called(step, [], made[step.id])


def _outer_names(steps: Iterable[Step]) -> Iterator[str]:
    """The variables that are no loop's own, each as often as it is set or read."""
    for step in steps:
        if step.output is not None:
            yield step.output.var
        own = None if step.foreach is None else step.foreach.var
        if step.foreach is not None:
            yield from names_in((step.foreach.source,))
        for _, parts in step.reads():
            yield from (name for name in names_in(parts) if name != own)


def _read_by_others(group: list[Step]) -> Iterator[str]:
    """The variables that a member of a group sets and another one reads, or its own end."""
    for step in group:
        own = None if step.foreach is None else step.foreach.var
        for _, parts in step.reads():
            for name in names_in(parts):
                if name != own and any(name == other.sets for other in group if other is not step):
                    yield name


def _again(step: Step) -> Again | None:
    retry = step.retry
    return None if retry is None else Again(retry.count, retry.delay, retry.backoff)


def _stored(name: str, cast: Cast | None, value: Expression) -> Statement:
    """What version 1 stores of a result."""
    how = _AS_TEXT if cast is None else _cast_remark(cast)
    return Let("", name, cast_of(cast, value), remark=how)


def _failed_end(error: Expression, handling: Terminate, names: Names) -> Statement:
    """The end of the run as failed with this error, with the message of ON_FAIL TERMINATE."""
    values = (message_of(handling.values, names),) if handling.values else ()
    return Try("", (Say("", Word.FAIL, (error,)),), Recovery(remedy=Leave(values)))


def _spliced(query: Expression) -> Expression:
    return Function("v1.text", (query,)) if isinstance(query, Text) else query


def _went_on(error: Expression) -> Statement:
    """The remark of a failure that nothing else tells of."""
    return Say("", Word.NOTE, (Text(("the plan goes on: ", Hole(error))),))


def _cast_remark(cast: Cast) -> str:
    return f"as in version 1: {cast.value}, if it can be read as one"


def _is_said(action: Respond, names: Names) -> Expression:
    """Whether any value of an answer is not empty."""
    return joined(LogicOp.OR, [negated(is_empty(value, names)) for value in action.values])


def _described(statement: Statement, step: Step) -> Statement:
    """The first statement of a step, with its comments."""
    remark = step.remark if step.remark is not None else statement.remark
    return replace(statement, comments=(*step.comments, *statement.comments), remark=remark)
