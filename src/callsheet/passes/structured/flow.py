"""Which variables are set at each place of a version 2 plan, and what they hold.

In: the tree, its scopes, the tools. The statements are gone through once, in the order of the text, with one
state that is changed and undone at the ends of blocks, so that the cost is linear in the size of the plan,
times its depth. Only a loop that changes what an outer variable holds is gone through again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import assert_never

from callsheet.diagnostics import Severity, Span
from callsheet.ir.expression import Expression, Variable
from callsheet.ir.failing import IS_FAILURE
from callsheet.ir.scopes import Scope, ScopeKind, Scopes
from callsheet.ir.tree import (
    Act,
    Assign,
    Block,
    Compute,
    Foreach,
    GoOn,
    If,
    Input,
    Into,
    Invoke,
    Let,
    Parallel,
    Recovery,
    Repeat,
    Require,
    Say,
    Statement,
    SubPlan,
    Tree,
    Try,
    Use,
    Word,
)
from callsheet.ir.types import Type
from callsheet.passes.structured import computed
from callsheet.passes.structured import operations as of
from callsheet.passes.structured.computed import names_left_alone
from callsheet.passes.structured.findings import Report
from callsheet.passes.structured.loops import foreach, repeat
from callsheet.passes.structured.recovery import Ways, called_where_caught, is_told_its_end, recovered
from callsheet.passes.structured.shapes import (
    ANY,
    FAILURE,
    NOTHING,
    NULL,
    Fields,
    Shape,
    families,
    join,
    may_be,
    of_type,
    text,
    widened,
)
from callsheet.passes.structured.state import YIELDED, Changes, Holding, Loop, Path, State, path_of
from callsheet.passes.structured.typing import Typer, waited

CallCheck = Callable[[Typer, Act], Shape]

_OF_ERROR = "$error is the failure inside a block: ON_FAIL { … $error.message … }"
_DECLARE, _DECLARE_ITEMS = "declare what the result is", "declare what the loop gives"


class Flow:
    """Goes through the plan. `call` checks a call and gives the shape of its result."""

    def __init__(
        self,
        tree: Tree,
        scopes: Scopes,
        report: Report,
        call: CallCheck,
        beside: Mapping[str, Mapping[str, str]],
    ) -> None:
        self.tree, self.scopes, self.report, self.call = tree, scopes, report, call
        self.beside, self.beside_here = beside, dict[str, str]()
        self.named = tree.named_types
        self.plans = {one.name: one for one in tree.plans}
        self.state = State()
        self.scope = scopes.main
        self.plan: SubPlan | None = None
        self.statement: Statement | None = None
        self.loops: list[Loop] = []
        self.depth = 0
        self.returns: dict[str, list[Shape]] = {}
        """What each sub-plan returns."""
        self.told: dict[tuple[str, str], None] = {}
        self.caught_plans = called_where_caught(tree)
        self.is_caught = False
        """Whether the plan goes on after a failure of what stands here."""

    # ------------------------------------------------------------ variables

    def read(self, name: str, span: Span | None) -> Shape:
        """The shape of a variable that is read; a finding if it is not set on every path."""
        holding = self.state.get(name)
        if holding is not None and holding.always:
            return holding.shape if holding.shape.kinds else ANY
        if name not in self.beside_here and self.statement is not None:
            self._unset(name, span, self.statement, on_some_paths=holding is not None)
        return ANY if holding is None else holding.shape

    def fact(self, path: Path) -> Shape | None:
        """What tests have shown of a path into a variable."""
        root = path[0]
        if not isinstance(root, str) or not root.startswith("$") or len(path) == 1:
            return None
        holding = self.state.get(root[1:])
        return None if holding is None else holding.facts.get(path)

    def _unset(self, name: str, span: Span | None, at: Statement, *, on_some_paths: bool) -> None:
        if (name, at.id) in self.told:
            return
        self.told[(name, at.id)] = None
        if on_some_paths:
            message = f"${name} is not set on every path to here"
            help_ = f"set it before (LET ${name} = …), or in each branch and handler that goes on"
            self.report.add("CHK003", message, at, span=span, help=help_)
        elif self.scope.owner_of(name) is not None:
            message = f"${name} is read before it is set"
            self.report.add("CHK002", message, at, span=span, help="move the step that sets it in front")
        else:
            self._unknown(name, span, at)

    def _unknown(self, name: str, span: Span | None, at: Statement) -> None:
        """CHK001, with the place where there is a variable of this name."""
        inner = self.places_of_names.get(name)
        outside = self.plan is not None and name in self.scopes.main.names
        known = (one for scope in self.scope.around() for one in scope.names)
        if outside and self.plan is not None:
            message = (
                f"${name} is a variable of the main plan, which the sub-plan {self.plan.name} does not see"
            )
            help_ = f"give it as an input: PLAN {self.plan.name} (${name}: …)"
        elif inner is not None and name not in inner.bound:
            message = f"${name} belongs to an item of {inner.owner}, and is not seen outside it"
            help_ = (
                f"YIELD (${name}) gives it to the loop's list; SET assigns a variable from before the loop"
            )
        elif inner is not None:
            message = f"${name} is the failure inside an ON_FAIL block, and is not seen outside it"
            help_ = "LET a variable in the block, or end the block with what is to be done"
        else:
            message = f"no step sets ${name}, and it is no input"
            there = _OF_ERROR if name == "error" else f"INPUT ${name}: … declares an input"
            help_ = self.report.near(name, known, there, "$")
        self.report.add("CHK001", message, at, span=span, help=help_)

    @cached_property
    def places_of_names(self) -> dict[str, Scope]:
        """For a message: for each variable of an item or of a handler, one scope that has it."""
        bound = {name: scope for scope in self.scopes.all() for name in scope.bound}
        return bound | {name: scope for scope in self.scopes.items.values() for name in scope.names}

    def make(self, name: str, shape: Shape, at: Statement, span: Span | None = None) -> None:
        """A variable of the current scope gets a value; CHK101 if an outer one has the name."""
        outer = self.scope.outer
        above = None if outer is None else outer.owner_of(name)
        if above is not None:
            where = "the main plan" if above.kind is ScopeKind.MAIN else above.owner
            message = f"${name} is a variable of {where}, and a loop's item makes variables of its own"
            help_ = f"SET ${name} = … assigns the outer one; else give this one another name"
            if isinstance(at, Foreach) and at.id == self.scope.owner:
                help_ = "give the loop variable another name"
            self._tell("CHK101", name, message, at, span, help_)
        elif self.is_bound(name):
            message = f"${name} is the failure that ON_FAIL blocks handle, and no other variable"
            self._tell("CHK101", name, message, at, span, "give this one another name")
        self.state.set(name, Holding(shape))

    def is_bound(self, name: str) -> bool:
        """Whether a handler of the current or an outer scope binds the name."""
        scope: Scope | None = self.scope
        while scope is not None:
            if name in scope.bound:
                return True
            scope = scope.outer
        return False

    def _tell(self, code: str, name: str, message: str, at: Statement, span: Span | None, help_: str) -> None:
        """A finding about a name at a statement, told once."""
        if (f"{code}{name}", at.id) not in self.told:
            self.told[(f"{code}{name}", at.id)] = None
            self.report.add(code, message, at, span=span, help=help_)

    def typer(self, at: Statement) -> Typer:
        """A finder of the shapes of a statement's expressions."""
        self.statement = at
        return Typer(self, self.report, at, self.is_caught)

    def learn(self, facts: Mapping[Path, Shape]) -> None:
        """Note what a test has shown."""
        for path, shape in facts.items():
            root = path[0]
            if not isinstance(root, str) or not root.startswith("$"):
                continue
            holding = self.state.get(root[1:])
            if holding is None:
                continue
            if len(path) == 1:
                self.state.set(root[1:], Holding(shape, holding.always, holding.facts))
            else:
                self.state.set(
                    root[1:], Holding(holding.shape, holding.always, {**holding.facts, path: shape})
                )

    # ------------------------------------------------------------ plans

    def run(self, callees_first: Iterable[str] = ()) -> None:
        """Go through all plans, the sub-plans in this order."""
        for name in callees_first:
            self.plan = plan = self.plans[name]
            self.is_caught = name in self.caught_plans
            self._body(plan.body, plan.inputs, self.scopes.plans[name])
            if self.state.is_dead:
                continue
            self.returns.setdefault(name, []).append(NULL)
            if plan.result is not None and not may_be_null(of_type(plan.result, self.named)):
                wanted = text(of_type(plan.result, self.named))
                message = f"{name} is declared to give {wanted}, and may end without"
                help_ = "end each way through it with RETURN (…) or FAIL (…), or declare the result with ?"
                last = plan.body[-1] if plan.body else None
                self.report.add(
                    "CHK125", message, last, span=plan.span, help=help_, severity=Severity.WARNING
                )
        self.plan, self.is_caught = None, False
        self._body(self.tree.body, self.tree.inputs, self.scopes.main)

    def _body(self, body: Block, inputs: Iterable[Input], scope: Scope) -> None:
        self.state, self.scope = State(), scope
        for one in inputs:
            self.state.set(one.name, Holding(of_type(one.type, self.named)))
        self.block(body)

    def block(self, block: Block) -> None:
        """Go through the statements of a block; those that are never reached are told and left out."""
        ways: Ways | None = None
        for number, one in enumerate(block):
            ways = self.one(one, ways if is_told_its_end(block, number) else None)
            if self.state.is_dead and number + 1 < len(block):
                behind = block[number + 1]
                message = f"{behind.id} is never reached: {one.id} goes elsewhere in any case"
                if ("CHK010", behind.id) not in self.told:
                    self.told[("CHK010", behind.id)] = None
                    help_ = "remove it, or move it in front"
                    self.report.add("CHK010", message, behind, help=help_, severity=Severity.WARNING)
                return

    def one(self, one: Statement, before: Ways | None = None) -> Ways | None:  # noqa: PLR0912 - a case for each statement
        """Go through one statement; gives the ways through a TRY.

        `before` are those through the TRY before an ?IF that asks whether that came to its end.
        """
        if ("CHK034", one.id) not in self.told:
            self.told[("CHK034", one.id)] = None
            names_left_alone(one, self.report, lambda name: self.state.get(name) is not None)
        match one:
            case Act():
                self.result(one, one.into, self.call(self.typer(one), one), one.recovery)
            case Invoke():
                self.result(one, one.into, self.invoke(one), one.recovery)
            case Compute():
                for name in one.names:
                    self.statement = one
                    shape = self.read(name, None)
                    if shape != FAILURE:  # code that handles a failure reads its fields
                        self.typer(one).no_failure(Variable(name), shape)
                self.compute(one)
            case Let(name=name, is_placeholder=True):
                self.make(name, NOTHING, one)
            case Let(name=name, value=value, type=type_):
                shape = self.stored(one, value)
                if type_ is not None:
                    shape = self.declared(one, value, shape, type_, f"${name}")
                self.make(name, shape, one)
            case Assign():
                self.assign(one)
            case Require():
                typer = self.typer(one)
                typer.data(one.condition)
                if one.message is not None:
                    typer.data(one.message)
                self.learn(typer.tests(one.condition, truth=True))
            case Say():
                self.say(one)
            case If():
                self.branches(one, before)
            case Foreach():
                foreach(self, one)
            case Repeat():
                self.guarded(one, one.recovery, lambda: repeat(self, one))
            case Try():
                return self.guarded(one, one.recovery, lambda: self.tried(one))
            case Parallel():
                self.guarded(one, one.recovery, lambda: self.parallel(one))
            case _:
                assert_never(one)
        return None

    def tried(self, one: Try) -> None:
        """The block of a TRY, which begins once its time limit is known."""
        if one.within is not None:
            waited(self.typer(one), one.within, "WITHIN")
        self.block(one.body)

    def stored(self, one: Statement, value: Expression) -> Shape:
        """The shape of a value that is stored: a constant may be followed by another one."""
        shape = self.typer(one).value(value)
        return shape if path_of(value) is not None else widened(shape)

    def declared(
        self,
        one: Statement,
        node: Expression,
        have: Shape,
        type_: Type,
        what: str,
        *,
        wrong: Severity = Severity.ERROR,
    ) -> Shape:
        """The shape of a declared type, after a check of the value that is to be of it.

        `wrong` is how bad another type is: the answer of a plan is given as it is.
        """
        wanted = of_type(type_, self.named)
        have = self.typer(one).no_failure(node, have)
        if not may_be(wanted, have):
            message = f"{what} is declared as {text(wanted)}, and is given {text(have)}"
            help_ = "convert the value, or declare the other"
            self.report.add("CHK125", message, one, span=node.span, help=help_, severity=wrong)
        elif have.may_be_null and not wanted.may_be_null and not wanted.is_unknown:
            is_null = have == NULL
            message = f"{what} is declared as {text(wanted)}, and {'is' if is_null else 'may be'} null"
            severity = wrong if is_null else Severity.WARNING
            help_ = "give another value for null with ??, or declare it with ? behind the type"
            self.report.add("CHK122", message, one, span=node.span, help=help_, severity=severity)
        return wanted

    def assign(self, one: Assign) -> None:
        """SET."""
        shape = self.stored(one, one.value)
        owner = self.scope.owner_of(one.name)
        if owner is None:
            known = (name for scope in self.scope.around() for name in scope.names)
            help_ = self.report.near(one.name, known, f"LET ${one.name} = … makes one", "$")
            self.report.add("CHK102", f"SET assigns ${one.name}, which there is not", one, help=help_)
        elif self.state.get(one.name) is None and one.name not in self.beside_here:
            message = f"SET assigns ${one.name} before anything has made it"
            self._tell("CHK102", one.name, message, one, None, f"LET ${one.name} = … makes it")
        self.state.set(one.name, Holding(shape))

    def compute(self, one: Compute) -> None:
        """COMPUTE."""
        made = computed.look_over(self.typer(one), one)

        def run() -> None:
            for name in one.into:
                self.make(name, made.get(name, ANY), one)

        if one.recovery is None:
            run()
        elif isinstance(one.recovery.remedy, Use) and len(one.into) == 1:
            self.result(one, Into(one.into[0]), ANY, one.recovery)
        elif isinstance(one.recovery.remedy, GoOn):
            self.guarded(one, replace(one.recovery, remedy=None), run)
            for name in one.into:
                self.state.set(name, Holding(join(ANY, FAILURE)))
        else:
            self.guarded(one, one.recovery, run)

    def say(self, one: Say) -> None:  # noqa: PLR0912 - a case for each word
        """A statement of one word."""
        typer = self.typer(one)
        match one.word:
            case Word.YIELD:
                given = [widened(typer.data(value)) for value in one.values]
                self.state.set(YIELDED, Holding(given[0] if given else NULL))
            case Word.RETURN:
                self.returned(one, typer)
                self.state.is_dead = True
            case Word.RESPOND:
                if len(one.values) > 1:
                    typer.message(one.values)
                for value in one.values if len(one.values) == 1 else ():
                    shape = typer.data(value)
                    if self.plan is None and self.tree.result is not None:
                        answer = "the plan's answer"
                        self.declared(one, value, shape, self.tree.result, answer, wrong=Severity.WARNING)
                self.state.is_dead = True
            case Word.TERMINATE:
                typer.message(one.values)
                self.state.is_dead = True
            case Word.FAIL:
                match one.values:
                    case (Variable() as value,) if one.kind is None and _may_be_failure(typer.value(value)):
                        pass  # the failure of a handler, or one that was kept, raised again
                    case _:
                        self.texts(one, typer)
                self.state.is_dead = True
            case Word.NOTE:
                self.texts(one, typer)
            case Word.WAIT:
                for value in one.values:
                    waited(typer, value, "WAIT")
            case Word.BREAK:
                self._leave("breaks")
            case Word.CONTINUE:
                self._leave("ends")
            case Word.REPLAN:
                for value in one.values:
                    typer.data(value)
                self.state.is_dead = True
            case _:
                assert_never(one.word)

    def texts(self, one: Say, typer: Typer) -> None:
        """Values that are joined as text."""
        for value in one.values:
            typer.no_null(value, typer.data(value), "stand in a text")

    def returned(self, one: Say, typer: Typer) -> None:
        """The value of a RETURN."""
        wanted = self.tree.result if self.plan is None else self.plan.result
        what = "the plan's answer" if self.plan is None else f"the result of {self.plan.name}"
        for value in one.values:
            shape = typer.data(value)
            if wanted is not None:
                is_answer = self.plan is None
                wrong = Severity.WARNING if is_answer else Severity.ERROR
                self.declared(one, value, shape, wanted, what, wrong=wrong)
            elif self.plan is not None:
                self.returns.setdefault(self.plan.name, []).append(widened(shape))
        if self.plan is not None and not one.values:
            self.returns.setdefault(self.plan.name, []).append(NULL)
        if not one.values and wanted is not None and not may_be_null(of_type(wanted, self.named)):
            message = f"{what} is declared as {text(of_type(wanted, self.named))}, and RETURN gives none"
            severity = Severity.WARNING if self.plan is None else Severity.ERROR
            self.report.add("CHK125", message, one, help="write RETURN (…)", severity=severity)

    def _leave(self, kind: str) -> None:
        if self.loops:
            loop = self.loops[-1]
            (loop.breaks if kind == "breaks" else loop.ends).append(self.state.changes(loop.mark))
        self.state.is_dead = True

    # ------------------------------------------------------------ calls and their failure

    def invoke(self, one: Invoke) -> Shape:
        """CALL: what the sub-plan gives."""
        typer = self.typer(one)
        plan = self.plans.get(one.plan)
        wanted = {} if plan is None else {each.name: each.type for each in plan.inputs}
        for name, value in one.named:
            shape = typer.data(value)
            if name in wanted:
                self.declared(one, value, shape, wanted[name], f"the input {name} of {one.plan}")
        if plan is None or plan.result is not None:
            return ANY if plan is None or plan.result is None else of_type(plan.result, self.named)
        given = self.returns.get(plan.name)
        return join(*given) if given else ANY

    def result(
        self,
        one: Act | Invoke | Compute | Foreach,
        into: Into | None,
        shape: Shape,
        recovery: Recovery | None,
    ) -> None:
        """What a call or a loop gives is stored, or else its recovery says what is."""
        if into is not None and into.type is not None:
            wanted = of_type(into.type, self.named)
            if not may_be(wanted, shape) and not families(shape) & {of.TEXT}:
                is_loop = isinstance(one, Foreach)
                gives, help_ = ("the loop gives", _DECLARE_ITEMS) if is_loop else ("the result is", _DECLARE)
                message = f"${into.name} is declared as {text(wanted)}, and {gives} {text(shape)}"
                self.report.add("CHK031", message, one, span=into.span, help=help_)
            shape = wanted

        def store(shape: Shape) -> None:
            if into is not None:
                self.make(into.name, shape, one, into.span)

        if recovery is None:
            store(shape)
        else:
            recovered(self, one, recovery, lambda: store(shape), lambda other: store(join(shape, other)))

    def guarded(self, one: Statement, recovery: Recovery | None, run: Callable[[], None]) -> Ways | None:
        """A block with what is said about its failure."""
        return recovered(self, one, recovery, run, lambda other: None)

    # ------------------------------------------------------------ blocks

    def branches(self, one: If, before: Ways | None = None) -> None:
        """?IF: what all branches that go on have set.

        With the ways through the TRY before, the first branch is the one behind its end, and the others are
        those behind its handlers.
        """
        mark = self.state.mark()
        outcomes: list[Changes] = []
        for branch in one.branches:
            typer = self.typer(one)
            typer.data(branch.condition)
            inner = self.state.mark()
            if before is not None:
                self.state.apply(before.ended)
            self.learn(typer.tests(branch.condition, truth=True))
            self.block(branch.body)
            if not self.state.is_dead:
                outcomes.append(self.state.changes(mark))
            self.state.undo(inner)
            self.state.is_dead = False
            if before is not None:
                self.state.apply(before.failed)
                before = None
            self.learn(typer.tests(branch.condition, truth=False))
        if one.otherwise is not None:
            self.block(one.otherwise)
        if not self.state.is_dead:
            outcomes.append(self.state.changes(mark))
        self.state.undo(mark)
        self.state.merge(outcomes)

    def parallel(self, one: Parallel) -> None:
        """@PARALLEL: what all members have set."""
        mark = self.state.mark()
        made: list[Changes] = []
        before = self.beside_here
        is_dead = False
        for member in one.members:
            self.beside_here = {**before, **self.beside.get(member.id, {})}
            self.one(member)
            made.append(self.state.undo(mark))
            is_dead = is_dead or self.state.is_dead
            self.state.is_dead = False
        self.beside_here = before
        for changes in made:
            self.state.apply(changes)
        self.state.is_dead = is_dead


def _may_be_failure(shape: Shape) -> bool:
    """Whether a failure may be among the values of this shape, or a record that keeps one."""
    keeps = any(isinstance(one, Fields) and IS_FAILURE in one.fields for one in shape.kinds)
    return keeps or shape.may_fail or shape.is_unknown


def may_be_null(shape: Shape) -> bool:
    """Whether null is a value of this shape, as far as is known."""
    return shape.may_be_null or shape.is_unknown
