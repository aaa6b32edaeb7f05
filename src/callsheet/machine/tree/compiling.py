"""Compiles a plan tree into bodies of operations: names into slots, expressions into functions.

In: a `Tree`, and facts about the tools that it calls. Out: a `TreeProgram` with the codes of its calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from itertools import count
from typing import assert_never

from callsheet import lazy
from callsheet.diagnostics import CallsheetError
from callsheet.frontends.expressions import format_expression
from callsheet.ir import step as flat
from callsheet.ir.expr import Literal
from callsheet.ir.expression import Expression, Variable, asks_time, nodes
from callsheet.ir.operations import CLOCK, COMPUTE, CallKind, Effect
from callsheet.ir.own_budgets import amounts_of
from callsheet.ir.plan import Plan, named_arguments
from callsheet.ir.sagas import UNDOABLE, inverses_of, sagas
from callsheet.ir.scopes import runs_one_by_one
from callsheet.ir.tree import (
    Act,
    Assign,
    Block,
    Compute,
    Ends,
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
    SubPlan,
    Tree,
    Try,
    Use,
    Word,
    operands,
    statements,
)
from callsheet.ir.tree_flow import skips_failures
from callsheet.ir.types import Basic
from callsheet.machine.compiling import Names, compile_call, fact_of
from callsheet.machine.expressions import compile_expression
from callsheet.machine.keys import segment
from callsheet.machine.program import NOWHERE, Kind, Program, StepCode, ToolFacts
from callsheet.machine.tree.distinction import distinction_of
from callsheet.machine.tree.item_order import order_of_items
from callsheet.machine.tree.program import (
    NONE,
    Body,
    BranchOp,
    BreakOp,
    CallOp,
    CatchOp,
    ClockOp,
    ComputeOp,
    Const,
    EndFinalOp,
    EnterOp,
    GuardOp,
    InvokeOp,
    JumpOp,
    LeaveRoundsOp,
    LetOp,
    LimitOp,
    LoopOp,
    Operand,
    ParallelOp,
    RemedyCode,
    ReplanOp,
    RequireOp,
    RoundOp,
    SayOp,
    Store,
    TimerOp,
    TreeProgram,
    UnguardOp,
    UntilOp,
    YieldOp,
)
from callsheet.machine.tree.slots import BodyScope
from callsheet.machine.usage import OwnBudget

OWN_FACTS: Mapping[str, ToolFacts] = {COMPUTE: ToolFacts(Effect.PURE), CLOCK: ToolFacts(Effect.READ)}
"""What a run must know of these tools."""

_DEEPEST = 50
"""How deep sub-plans may call others: each is some levels of Python's own stack."""
_CLOCK_IN_CODE = lazy.pattern(r"\b(?:now|utcnow|today)\b")
"""What pure code asks for the time with; code that only says such a word gets a time that it does not use."""


def compile_tree(plan: Plan, facts: Mapping[str, ToolFacts]) -> Program:
    """Compile a plan of version 2. Raises CallsheetError (RUN038) for what the machine does not do yet."""
    assert plan.tree is not None
    maker = _Compiler(plan, plan.tree, facts)
    for name in _callees_first(plan.tree):
        if (sub_plan := plan.tree.plan(name)) is not None:
            maker.sub_plan(sub_plan)
    main = BodyScope()
    inputs = tuple((main.own(one.name), one) for one in plan.tree.inputs)
    maker.block(plan.tree.body, main)
    program = TreeProgram(main.body, inputs, plan.tree.named_types, plan.tree.result)
    slot_of = {name: slot for slot, name in enumerate(main.body.names)}
    number_of = {code.id: code.number for code in maker.codes}
    return Program(plan, tuple(maker.codes), number_of, slot_of, tuple(main.body.names), {}, None, program)


def asks_time_in_code(source: str) -> bool:
    """Whether the source of a COMPUTE may ask for the time, and is given it."""
    return _CLOCK_IN_CODE.search(source) is not None


def _callees_first(tree: Tree) -> list[str]:
    """The names of the sub-plans, each behind those that it calls.

    Raises CallsheetError (RUN038) where they call one another in a circle, or too deep for the machine.
    """
    calls = {one.name: _called(one.body) for one in tree.plans}
    try:
        order = [*TopologicalSorter(calls).static_order()]
    except CycleError as error:
        circle = " → ".join(error.args[1])
        raise CallsheetError.single("RUN038", f"sub-plans call one another: {circle}") from None
    depth: dict[str, int] = {}
    for name in order:
        depth[name] = 1 + max((depth[each] for each in calls.get(name, ())), default=0)
        if depth[name] > _DEEPEST:
            raise CallsheetError.single(
                "RUN038",
                f"sub-plan {name} calls others {depth[name]} deep; at most {_DEEPEST} can be under way",
                help="call some of them one after another instead of inside each other",
            )
    return order


def _called(block: Block) -> set[str]:
    return {one.plan for one in statements(block) if isinstance(one, Invoke)}


def _no_slot(name: str) -> int:
    raise AssertionError(name)  # the arguments of calls are compiled as expressions


class _Repeat:
    """A REPEAT around the statement that is compiled."""

    def __init__(self, slot: int, head: int, finals: int) -> None:
        self.slot, self.head, self.finals = slot, head, finals


class _Compiler:
    def __init__(self, plan: Plan, tree: Tree, facts: Mapping[str, ToolFacts]) -> None:
        self.tree = tree
        self.facts = {**facts, **OWN_FACTS}
        self.codes: list[StepCode] = []
        self.has_undo = any(sagas(tree))
        self.listed = {step.id: step for step in plan.steps}
        self.bare_calls: dict[str, flat.Call] = {}
        """Each tool's call without arguments: those are compiled as expressions."""
        self.names = Names(_no_slot, {}, self.facts, None, count(NOWHERE - 1, -1), {})
        self.bodies: dict[str, tuple[BodyScope, tuple[int, ...]]] = {}
        self.finals = 0
        """How many FINALLY blocks are around the current place."""
        self.repeats: list[_Repeat | None] = []
        """The REPEATs around the current place; None for the item of a FOREACH."""

    # -------------------------------------------------------------- blocks

    def block(self, block: Block, scope: BodyScope) -> None:
        for one in block:
            if begins_with_clock(one):
                scope.operations.append(ClockOp(self.clock_code(one.id)))
            self.statement(one, scope)

    def statement(self, one: Statement, scope: BodyScope) -> None:
        operations = scope.operations
        match one:
            case Act() | Compute() | Invoke() | Foreach() | Repeat() | Parallel() | Try():
                self.guarded(one, one.recovery, scope)
            case Let(id=id, name=name, value=value, type=type):
                made = self.expression(value, scope)
                operations.append(LetOp(id, scope.own(name), name, made, type))
            case Assign(id=id, name=name, value=value):
                made = self.expression(value, scope)
                operations.append(LetOp(id, scope.assign(name), name, made))
            case Require(id=id, condition=condition, message=message):
                made = self.expression(condition, scope)
                said = None if message is None else self.expression(message, scope)
                operations.append(RequireOp(id, made, said, format_expression(condition)))
            case Say():
                self.say(one, scope)
            case If():
                self.branches(one, scope)
            case _:
                assert_never(one)

    def say(self, one: Say, scope: BodyScope) -> None:
        operations = scope.operations
        match one.word:
            case Word.BREAK | Word.CONTINUE:
                around = self.repeats[-1] if self.repeats else None
                if around is None:
                    operations.append(BreakOp(one.id, one.word))
                else:
                    finals = self.finals - around.finals
                    operations.append(BreakOp(one.id, one.word, around.slot, around.head, finals))
            case Word.REPLAN:
                code = self.code(flat.Step(one.id, self.bare_call("")), None)
                code.kind = Kind.REPLAN
                values = tuple(self.expression(value, scope) for value in one.values)
                operations.append(ReplanOp(code, values))
            case Word.YIELD:
                operations.append(YieldOp(one.id, self.expression(one.values[0], scope)))
            case _:
                values = tuple(self.expression(value, scope) for value in one.values)
                operations.append(SayOp(one.id, one.word, values, one.kind or ""))

    def branches(self, one: If, scope: BodyScope) -> None:
        operations = scope.operations
        ends: list[JumpOp] = []
        for number, branch in enumerate(one.branches):
            self.clock(one.id, (branch.condition,), scope)
            test = BranchOp(one.id, self.expression(branch.condition, scope), branch=number)
            operations.append(test)
            self.block(branch.body, scope)
            if number + 1 < len(one.branches) or one.otherwise is not None:
                operations.append(end := JumpOp())
                ends.append(end)
            test.otherwise = len(operations)
        if one.otherwise is not None:
            self.block(one.otherwise, scope)
        for end in ends:
            end.to = len(operations)

    # -------------------------------------------------------------- failures

    def guarded(self, one: Statement, recovery: Recovery | None, scope: BodyScope) -> None:
        """A statement that may say something about its failure."""
        is_call = isinstance(one, Act | Compute)
        undo = None if recovery is None else recovery.undo
        if undo is not None and recovery is not None and not recovery.handlers:
            message = f"the inverses for ON_FAIL UNDO of {one.id} are not known"
            help_ = 'run it with its tools, or name them: ON_FAIL UNDO (tool="inverse(id=result.id)")'
            raise CallsheetError.single("RUN038", message, help=help_)
        if recovery is None or (is_call and not recovery.handlers and recovery.final is None):
            self.plain(one, scope, self.remedy(recovery, scope) if is_call else None)
            return
        operations = scope.operations
        if (
            skips_failures(one)
            and recovery.again is None
            and not recovery.handlers
            and recovery.final is None
        ):
            self.plain(one, scope, None)
            return
        guard = GuardOp(one.id)
        at = len(operations)
        operations.append(guard)
        self.plain(one, scope, None)
        over = UnguardOp()
        operations.append(over)
        guard.catch = len(operations)
        again = None if is_call else recovery.again
        caught = CatchOp(
            one.id,
            at,
            0 if again is None else again.count,
            None if again is None else again.delay,
            None if again is None else again.backoff,
            self.remedy(recovery, scope),
            (),
            into=self.store(_into_of(one), scope),
            undo=None if undo is None else inverses_of(undo),
        )
        operations.append(caught)
        ends: list[UnguardOp | JumpOp | CatchOp | EndFinalOp] = [over, caught]
        inner: list[GuardOp | UnguardOp | CatchOp] = [guard, over, caught]
        handlers: list[tuple[frozenset[str], int, int]] = []
        for handler in recovery.handlers:
            slot = scope.own(handler.binds)
            handlers.append((frozenset(handler.kinds), slot, len(operations)))
            if recovery.final is None:
                self.block(handler.body, scope)
                operations.append(jump := JumpOp())
                ends.append(jump)
            else:
                operations.append(around := GuardOp(one.id))
                self.block(handler.body, scope)
                operations.append(left := UnguardOp())
                inner += [around, left]
                ends.append(left)
        caught.handlers = tuple(handlers)
        if recovery.final is not None:
            for each in inner:
                each.final = len(operations)
            self.finals += 1
            self.block(recovery.final, scope)
            self.finals -= 1
            operations.append(done := EndFinalOp())
            ends.append(done)
        for end in ends:
            if isinstance(end, JumpOp):
                end.to = len(operations)
            else:
                end.end = len(operations)

    def remedy(self, recovery: Recovery | None, scope: BodyScope) -> RemedyCode | None:
        match None if recovery is None else recovery.remedy:
            case None | Skip():
                return None
            case GoOn():
                return RemedyCode("continue")
            case Use(value=value):
                return RemedyCode("use", (self.expression(value, scope),))
            case Leave(values=values):
                return RemedyCode("terminate", tuple(self.expression(each, scope) for each in values))
        raise AssertionError(recovery)

    # -------------------------------------------------------------- statements that may fail

    def plain(self, one: Statement, scope: BodyScope, remedy: RemedyCode | None) -> None:
        match one:
            case Act():
                self.act(one, scope, remedy)
            case Compute():
                self.compute(one, scope, remedy)
            case Invoke():
                self.invoke(one, scope)
            case Foreach():
                self.foreach(one, scope)
            case Repeat():
                self.repeat(one, scope)
            case Parallel():
                self.parallel(one, scope)
            case Try(within=within):
                if within is None:
                    self.block(one.body, scope)
                else:
                    self.limited(one, within, scope)
            case Let() | Assign() | Require() | Say() | If():
                raise AssertionError(one)

    def act(self, one: Act, scope: BodyScope, remedy: RemedyCode | None) -> None:
        listed = self.listed[one.id]
        assert listed.call is not None
        code = self.code(listed, one.recovery)
        kind = one.kind
        compile_call(code, self.bare_call(one.tool) if kind is CallKind.TOOL else listed.call, self.names)
        positional, named = one.positional, one.named
        if positional and code.kind is not Kind.MODEL and code.kind is not Kind.AGENT:
            named = named_arguments(positional, named, fact_of(listed.call, self.facts).parameters)
            positional = ()
        is_undoable = self.has_undo and kind in UNDOABLE and not code.effect.only_reads
        code.is_plain = code.kind is Kind.TOOL and not is_undoable
        code.wants_data = one.into is not None and one.into.type not in (None, Basic.STR)
        scope.operations.append(
            CallOp(
                code,
                segment(one.id),
                tuple([self.expression(value, scope) for value in positional]),
                tuple([(name, self.expression(value, scope)) for name, value in named]),
                self.store(one.into, scope),
                remedy,
                is_undoable,
            )
        )

    def bare_call(self, tool: str) -> flat.Call:
        call = self.bare_calls.get(tool)
        if call is None:
            call = self.bare_calls[tool] = flat.Call(tool)
        return call

    def code(self, step: flat.Step, recovery: Recovery | None) -> StepCode:
        code = StepCode(len(self.codes), step)
        if recovery is not None:
            code.handles_failure = True
            if recovery.again is not None:
                again = recovery.again
                code.retries, code.delay, code.backoff = again.count, again.delay, again.backoff
        self.codes.append(code)
        return code

    def compute(self, one: Compute, scope: BodyScope, remedy: RemedyCode | None) -> None:
        has_clock = asks_time_in_code(one.source)
        if has_clock:
            scope.operations.append(ClockOp(self.clock_code(one.id)))
        call = self.bare_call(COMPUTE)
        code = self.code(flat.Step(one.id, call), one.recovery)
        compile_call(code, call, self.names)
        names = tuple((name, scope.read(name)) for name in one.names)
        into = tuple((name, self.written(name, scope)) for name in one.into)
        scope.operations.append(ComputeOp(code, one.source, names, into, remedy, has_clock))

    def written(self, name: str, scope: BodyScope) -> int:
        """The slot of an output of COMPUTE: that of an outer variable if there is one."""
        return scope.own(name) if scope.find(name) is None else scope.assign(name)

    def invoke(self, one: Invoke, scope: BodyScope) -> None:
        plan = self.tree.plan(one.plan)
        if plan is None:
            raise CallsheetError.single("RUN038", f"{one.id}: there is no sub-plan {one.plan}")
        inner, slots = self.sub_plan(plan)
        given = dict(one.named)
        arguments = tuple(
            (slot, self.expression(given[each.name], scope), each.type)
            for slot, each in zip(slots, plan.inputs, strict=True)
            if each.name in given
        )
        defaults = tuple(
            (slot, each) for slot, each in zip(slots, plan.inputs, strict=True) if each.name not in given
        )
        amounts = amounts_of(one, plan)
        scope.operations.append(
            InvokeOp(
                one.id,
                plan.name,
                inner.body,
                arguments,
                defaults,
                self.store(one.into, scope),
                plan.result,
                None if amounts is None else OwnBudget(*amounts),
            )
        )

    def sub_plan(self, plan: SubPlan) -> tuple[BodyScope, tuple[int, ...]]:
        made = self.bodies.get(plan.name)
        if made is None:
            scope = BodyScope()
            slots = tuple(scope.own(each.name) for each in plan.inputs)
            made = self.bodies[plan.name] = scope, slots
            around, self.repeats = self.repeats, []
            self.block(plan.body, scope)
            self.repeats = around
        return made

    def foreach(self, one: Foreach, scope: BodyScope) -> None:
        self.clock(one.id, (one.source, *(() if one.limit is None else (one.limit,))), scope)
        source = self.expression(one.source, scope)
        limit = None if one.limit is None else self.expression(one.limit, scope)
        inner = BodyScope(scope)
        item = inner.own(one.var)
        self.repeats.append(None)
        self.block(one.body, inner)
        self.repeats.pop()
        one_by_one = runs_one_by_one(one) or bool(inner.body.returns)
        order = order_of_items(one, self.facts, self.tree)
        skips = skips_failures(one)
        scope.operations.append(
            LoopOp(
                one.id,
                one.var,
                source,
                limit,
                inner.body,
                item,
                self.store(one.into, scope),
                one_by_one,
                order.side_by_side and not one_by_one,
                one.most,
                skips,
                _ends(one, one_by_one=one_by_one, skips=skips),
                one.as_done,
                order.is_declared,
                distinction_of(order, one.var, inner, self.expression, self.tree.named_types)
                if order.differing and not one_by_one
                else None,
            )
        )

    def repeat(self, one: Repeat, scope: BodyScope) -> None:
        operations = scope.operations
        slot = scope.hidden()
        most = None if one.most is None else self.expression(one.most, scope)
        operations.append(EnterOp(one.id, slot, most))
        top = len(operations)
        self.clock(one.id, () if one.while_ is None else (one.while_,), scope)
        while_ = None if one.while_ is None else self.expression(one.while_, scope)
        head = RoundOp(one.id, slot, while_)
        at = len(operations)
        operations.append(head)
        self.repeats.append(_Repeat(slot, at, self.finals))
        self.block(one.body, scope)
        self.repeats.pop()
        head.next = len(operations)
        self.clock(one.id, () if one.until is None else (one.until,), scope)
        until = None if one.until is None else self.expression(one.until, scope)
        every = None if one.every is None else self.expression(one.every, scope)
        operations.append(UntilOp(one.id, slot, until, every, top))
        head.end = len(operations)
        operations.append(LeaveRoundsOp(slot))

    def parallel(self, one: Parallel, scope: BodyScope) -> None:
        members: list[Body] = []
        around = scope.operations
        self.repeats.append(None)
        for member in one.members:
            body = Body(names=scope.body.names)
            scope.operations = body.operations
            self.block((member,), scope)
            members.append(body)
        self.repeats.pop()
        scope.operations = around
        around.append(ParallelOp(one.id, tuple(members), one.stops))

    def limited(self, one: Try, within: Expression, scope: BodyScope) -> None:
        """A block with a time limit: a group of its timer and itself, which ends with the first."""
        self.clock(one.id, (within,), scope)
        slot = scope.hidden()
        around, repeat = scope.operations, self.repeats[-1] if self.repeats else None
        around.append(LimitOp(one.id, slot, self.expression(within, scope)))
        names = scope.body.names
        inner = Body(names=names)
        scope.operations = inner.operations
        self.repeats.append(None)
        self.block(one.body, scope)
        self.repeats.pop()
        scope.operations = around
        timer = Body([TimerOp(one.id, slot)], names)
        place = (NONE, NONE) if repeat is None else (repeat.slot, repeat.head)
        around.append(ParallelOp(one.id, (timer, inner), repeat=place))

    # -------------------------------------------------------------- parts

    def clock(self, id_: str, read: Iterable[Expression], scope: BodyScope) -> None:
        if reads_clock(read):
            scope.operations.append(ClockOp(self.clock_code(id_)))

    def clock_code(self, id_: str) -> StepCode:
        call = self.bare_call(CLOCK)
        code = self.code(flat.Step(f"{id_}:clock", call), None)
        compile_call(code, call, self.names)
        return code

    def expression(self, node: Expression, scope: BodyScope) -> Operand:
        match node:
            case Literal(value=value):
                return Const(value)
            case Variable(name=name):
                return scope.read(name)
            case _:
                return compile_expression(node, scope.read)

    def store(self, into: Into | None, scope: BodyScope) -> Store | None:
        return None if into is None else Store(scope.own(into.name), into.name, into.type)


def _ends(one: Foreach, *, one_by_one: bool, skips: bool) -> Ends:
    """When the items of a loop end together: only those that run side by side, and count if they fail."""
    return Ends.ALL if one_by_one or (skips and one.ends is Ends.FAILED) else one.ends


def _into_of(one: Statement) -> Into | None:
    return one.into if isinstance(one, Act | Invoke | Foreach) else None


_TIMELESS = (Variable, Literal)
"""The most frequent expressions, in which no function is called."""


def reads_clock(read: Iterable[Expression]) -> bool:
    """Whether one of these expressions asks for the time."""
    others = [one for one in read if not isinstance(one, _TIMELESS)]
    return any(asks_time(node) for one in others for node in nodes(one))


_WITH_BLOCKS = (If, Repeat, Try, Foreach, Parallel)
"""Statements whose expressions are evaluated at several moments, or only inside."""


def begins_with_clock(one: Statement) -> bool:
    """Whether a statement needs the time before all else; one with blocks asks for it where it tests."""
    return not isinstance(one, _WITH_BLOCKS) and reads_clock(operands(one))
