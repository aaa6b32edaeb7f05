"""Walks a tree with labels in place of values: what every variable, counter and call can have in any run.

In: a tree, a policy, the labels of the run's inputs. Out: a record of each call at each place where its
sub-plan is called. Blocks are walked in the order of the text, loops until nothing rises any more. Labels
only rise, so the last visit of a statement is the one that counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import assert_never

from callsheet.ir.expression import Expression
from callsheet.ir.labels import LITERAL, Label, join
from callsheet.ir.own_budgets import budget_arguments
from callsheet.ir.plan import filled_parameters
from callsheet.ir.tree import (
    Act,
    Assign,
    Block,
    Compute,
    Foreach,
    GoOn,
    If,
    Input,
    Invoke,
    Leave,
    Let,
    Parallel,
    Repeat,
    Require,
    Say,
    Skip,
    Statement,
    SubPlan,
    Try,
    Use,
    Word,
)
from callsheet.ir.tree_flow import flow_of_block
from callsheet.ir.types import names_values
from callsheet.passes.verify_tree.blocks import Blocks
from callsheet.passes.verify_tree.calls import REMARK, only_file, replaced_file
from callsheet.passes.verify_tree.state import Counters
from callsheet.passes.verify_tree.walk import Called, Frame, Protected, Ways
from callsheet.policy.calls import Argument, CallView, Hole, bare
from callsheet.policy.expression_labels import ExpressionLabels
from callsheet.policy.labelled import NOTHING as UNSET
from callsheet.policy.labelled import Labelled, origins_of, raised, said_by
from callsheet.policy.program_flow import program_flow


class Interpreter(Blocks):
    """The walk; `records` are the result."""

    def run(self) -> None:
        """Walk the plan."""
        self.block(self.tree.body)

    def block(self, block: Block) -> None:
        """Walk the statements of a block."""
        for statement in block:
            self._statement(statement)

    def _statement(self, statement: Statement) -> None:
        match statement:
            case Act():
                self._act(statement)
            case Invoke():
                self._invoke(statement)
            case Compute():
                self._compute(statement)
            case Let(name=name, value=value) | Assign(name=name, value=value):
                evaluator = self._evaluator(statement)
                known = evaluator.value(value)
                if isinstance(statement, Let) and statement.type is not None:
                    evaluator.casts(known, statement.type, self.tree.named_types)
                self._may_fail(statement, evaluator, known.origins)
                self._set(statement, name, known)
            case Require():
                self._require(statement)
            case Say():
                self._say(statement)
            case If():
                self._if(statement)
            case Foreach():
                self._foreach(statement)
            case Repeat():
                self._repeat(statement)
            case Try():
                self._try(statement)
            case Parallel():
                self._parallel(statement)
            case _:
                assert_never(statement)

    def _named(self, act: Act) -> Sequence[tuple[str, Expression]]:
        """The arguments of a call; positional ones are named after their parameter, or their place."""
        if not act.positional:
            return act.named
        names = tuple(name for name, _ in act.named)
        filled = filled_parameters(self._parameters(act.tool), names, len(act.positional))
        places = (*filled, *map(str, range(len(filled), len(act.positional))))
        return [*zip(places, act.positional, strict=True), *act.named]

    def _act(self, act: Act) -> None:
        pc = self._pc(act)
        evaluator = self._evaluator(act)
        recovery = act.recovery
        retries = 0 if recovery is None or recovery.again is None else recovery.again.count
        calls, known = self._calls(act, act.tool, self._named(act), evaluator, pc, retries)
        guard = self._guard_of(act, evaluator)
        if guard is not LITERAL:
            calls = [call.behind(call.pc.join(guard), repeats=call.repeats) for call in calls]
        values = tuple([value for _, value in known])
        prepared = self.judge.prepared(act.tool)
        access = self.labels.access(prepared, calls)
        read = self._read(access.reads, is_note=prepared.tool == "GET_WM")
        own = only_file(access) if access.reads else None
        is_own = own is not None and own in self._written
        calls = self.labels.with_sent(calls, access, read.label, own=is_own)
        record = self._record(act, act.tool, calls, known, pc)
        record.access = access
        every = (*values, read)
        result = self.labels.result(act, prepared, calls, read.label, every)
        left = LITERAL if is_own else self.labels.left_for(prepared, calls, access)
        if left is not LITERAL and not left.flows_to(result):
            record.reads_left = True
            result = self.labels.declassified(act, result.join(left))
        record.result = result
        for around in self._protected:
            around.given = join((around.given, result, *(value.label for value in values)))
            around.led = around.led.join(pc)
        present = self.labels.present(act, prepared, every, pc, result)
        sources = origins_of(every)
        repeats = prepared.traits is None or not prepared.traits.no_echo
        said = said_by(every if repeats else (read,))
        self._takes_time(result)
        if access.writes:
            stored = self.labels.stored(prepared, calls, access, read.label, result, pc)
            origin = self.origins.add(self._site(act), f"{act.id} the file", stored, sources)
            kept = Labelled(stored, present, (), (origin,), said | read.says)
            for place in access.writes:
                sure = place in access.overwrites and not self._in_loop(act) and act.recovery is None
                self._store(place, kept, sure=sure)
            if act.recovery is None:
                self._written |= frozenset(replaced_file(act.tool, access))
        fields = self.labels.fields(prepared, calls, result)
        value: Labelled = bare(Labelled, (result, present, (), sources, said, fields))
        if prepared.tool == "FORMAT" and len(known) == 1:  # a spelling of an expression
            value = known[0][1]
        reveals = any(value.label.readers is not None for value in values)
        called: Called = bare(Called, (result, present, reveals, prepared.is_program, LITERAL))
        self._done(act, act.into.name if act.into else None, value, evaluator, called)

    def _guard_of(self, act: Act, evaluator: ExpressionLabels) -> Label:
        """The label of what decides whether the arguments of a call can be evaluated, as they must be.

        That data has the form which the plan expects is no choice of whoever wrote it.
        """
        label = evaluator.content
        if evaluator.can_fail and self._counts(act):
            label = label.join(Label(False, evaluator.reads.readers))
        return label

    def _done(
        self,
        statement: Act | Invoke | Compute | Foreach,
        name: str | None,
        value: Labelled,
        evaluator: ExpressionLabels,
        called: Called | None,
        content: Label = LITERAL,
        protected: Protected | None = None,
    ) -> None:
        """A statement has its result, or fails and says what is done then.

        `protected` is what a sub-plan has stored before it failed.
        """
        words = value.label if called is None else value.label.join(called.words)
        recovery = statement.recovery
        into = statement.into if isinstance(statement, Act | Invoke) else None
        if into is not None and into.type is not None:
            if isinstance(statement, Invoke):
                evaluator.casts(value, into.type, self.tree.named_types)
            elif names_values(into.type, self.tree.named_types):
                content = content.join(value.label)
        handled = self._may_fail(statement, evaluator, value.origins, called, words, content)
        record = self.records.get(self._site(statement))
        if record is not None and self._frame.flow.of[statement.id].escapes:
            record.failure = words.join(handled)
        if recovery is None:
            if name is not None:
                self._set(statement, name, value)
            return
        protected = protected or Protected(self._frame)
        protected.words, protected.origins = words.join(handled).join(evaluator.reads), value.origins
        match recovery.remedy:
            case GoOn():
                value = raised(value, handled)._replace(label=value.label.join(protected.words), fields=None)
            case Use(value=other):
                given = self._evaluator(statement).value(other)
                value = self._joined(value, raised(given, handled))
                value = value._replace(presence=value.presence.join(handled))
            case Leave(values=values):
                self._leave(statement, values, self._pc(statement).join(handled))
            case Skip() | None:
                pass
            case _:
                assert_never(recovery.remedy)
        self._handlers(statement, recovery, protected, lambda: self._set_result(statement, name, value))

    def _set_result(self, statement: Statement, name: str | None, value: Labelled) -> None:
        if name is not None:
            self._set(statement, name, value)

    def _invoke(self, call: Invoke) -> None:
        evaluator = self._evaluator(call)
        given = {name: evaluator.value(value) for name, value in call.named}
        pc = self._pc(call)
        plan = self._plans.get(call.plan)
        if plan is None:
            self._done(call, call.into.name if call.into else None, UNSET, evaluator, None)
            return
        flow = self._flows.get(plan.name)
        if flow is None:
            flow = self._flows[plan.name] = flow_of_block(plan.body, self._by_name)
        path = (*self._frame.path, call.id)
        frame = self._frames.get(path)
        if frame is None:
            frame = self._frames[path] = Frame(path, flow, Counters(flow))
        frame.base = frame.base.join(pc)
        frame.why = self._why(call)
        frame.in_loop = frame.in_loop or self._in_loop(call)
        outer, loops, written = self._frame, self._loops, self._written
        protected = Protected(outer)
        for one in plan.inputs:
            frame.variables.put(one.name, self._input(call, one, given, evaluator))
        again = 0
        if call.recovery is not None and call.recovery.again is not None:
            again = call.recovery.again.count
        retries = self._retries
        self._frame, self._loops = frame, []
        self._retries = max(retries, again)
        self._again += again > 0
        if call.recovery is not None:
            self._protected.append(protected)
        over = self._attempts(call, plan, pc, again)
        if call.recovery is not None:
            self._protected.pop()
            self._written = written
            for name, value in protected.places.items():
                self._places.put(name, self._either(self._places.get(name), value))
        self._again -= again > 0
        self._frame, self._loops, self._retries = outer, loops, retries
        if over is not None:
            evaluator.can_fail = True
            self._decide(call, over, ())
            evaluator.reads = evaluator.reads.join(over)
        result = frame.returned or UNSET
        if plan.result is not None:
            evaluator.casts(result, plan.result, self.tree.named_types)
        failed = Called(frame.caught.join(frame.words), frame.caught, words=frame.words)
        self._done(
            call,
            call.into.name if call.into else None,
            result,
            evaluator,
            failed if frame.can_fail else None,
            frame.content,
            protected,
        )

    def _attempts(self, call: Invoke, plan: SubPlan, pc: Label, again: int) -> Label | None:
        """Walk a sub-plan as often as attempts differ; gives what decides how far a budget lets it come.

        That is what all attempts have spent, which is reckoned as if it were time. None without a budget.
        """
        is_bounded = bool(budget_arguments(call, plan))
        with self._against_time() if is_bounded else nullcontext():
            while True:
                before = self._version, self._timed and self._elapsed
                self._body(plan, pc)
                if not again or (self._version, self._timed and self._elapsed) == before:
                    break
            return self._reached() if is_bounded else None

    def _body(self, plan: SubPlan, pc: Label) -> None:
        """Walk the statements of a sub-plan; what is stored may be what was stored where it returned."""
        frame, before = self._frame, self._written
        frame.exits.clear()
        frame.depth = self._places.depth
        ways: Ways = []
        with self._branch(ways, pc):
            self.block(plan.body)
        places = [ways[0][1], *(one.places for one in frame.exits)]
        self._places.merge(places, self._joined)
        self._written = before.union(self._written.intersection(*(one.written for one in frame.exits)))

    def _input(
        self, call: Invoke, declared: Input, given: Mapping[str, Labelled], evaluator: ExpressionLabels
    ) -> Labelled:
        known = given.get(declared.name)
        if known is None:
            return Labelled(self._planner)
        value = known
        evaluator.casts(value, declared.type, self.tree.named_types)
        site = ((*self._frame.path, call.id), "")
        origin = self.origins.add(site, f"{call.id} ${declared.name}", value.label, value.origins)
        return value._replace(origins=(origin,))

    def _compute(self, program: Compute) -> None:
        evaluator = self._evaluator(program)
        variables = self._frame.variables
        values: list[Labelled] = []
        for name in program.names:
            known = variables.get(name)
            if known is None:
                self.unset[self._site(program)] = name
            values.append(evaluator.forgotten(known or UNSET))
        given = dict(zip(program.names, values, strict=True))
        flow = program_flow(program.source)
        every = join(value.label for value in values)
        time = self._clock.join(self._pc(program)) if flow.reads_clock else LITERAL
        every = every.join(time)
        self._takes_time(every)
        evaluator.reads = every
        evaluator.can_fail = True
        evaluator.fails_by_content = flow.tests_content
        content = join(given[name].label for name in flow.tested(program.names))
        results = {name: evaluator.result_of(flow, name, given, time) for name in program.into}
        if flow.may_test and not every.is_public and not self._frame.flow.of[program.id].is_caught:
            self.bits[self._site(program)] = 1  # its failure may tell more than that data has another form
        if flow.prints:
            self._print(program, every)
        recovery = program.recovery
        if recovery is not None and isinstance(recovery.remedy, GoOn | Use):
            results = {name: value._replace(label=value.label.join(every)) for name, value in results.items()}
        for name in program.into[1:]:
            self._set(program, name, results[name])
        first = program.into[0] if program.into else None
        whole = UNSET if first is None else results[first]
        self._done(program, first, whole, evaluator, None, content)

    def _print(self, program: Compute, label: Label) -> None:
        """What a program prints is a remark, which may say all that the program reads."""
        pc = self._pc(program)
        printed = Argument("0", (Hole("print", label),), label)
        call = CallView(program.id, "TERMINATE", (printed,), self._planner.join(pc))
        self._record(program, REMARK, [call], (("0", Labelled(label)),), pc)

    def _require(self, statement: Require) -> None:
        evaluator = self._evaluator(statement)
        decision = evaluator.decision(statement.condition, counts_bits=self._counts(statement))
        if decision.reveals_bit:
            self.bits[self._site(statement)] = 1
        evaluator.fails_by_content = evaluator.can_fail = True
        self._may_fail(statement, evaluator, decision.origins, content=decision.label)
        if statement.message is not None:
            self._message(statement, (statement.message,), decision.label, self._evaluator(statement))

    def _message(
        self,
        statement: Statement,
        values: Sequence[Expression],
        decided: Label,
        evaluator: ExpressionLabels,
    ) -> None:
        """A text of the plan that people may read beside the run's results."""
        pc = self._pc(statement).join(decided)
        named = [(str(number), value) for number, value in enumerate(values)]
        calls, known = self._calls(statement, "TERMINATE", named, evaluator, pc)
        self._record(statement, REMARK, calls, known, pc)
        for protected in self._protected:
            if protected.frame is self._frame:
                protected.words = protected.words.join(evaluator.reads)
        for loop in self._loops:
            loop.words = loop.words.join(evaluator.reads)
        self._frame.words = self._frame.words.join(evaluator.reads)

    def _say(self, statement: Say) -> None:
        evaluator = self._evaluator(statement)
        pc = self._pc(statement)
        named = [(str(number), value) for number, value in enumerate(statement.values)]
        is_answer = statement.word is Word.RESPOND or (statement.word is Word.RETURN and not self._frame.path)
        match statement.word:
            case Word.RESPOND | Word.TERMINATE | Word.REPLAN | Word.RETURN if is_answer or (
                statement.word is not Word.RETURN
            ):
                tool = "RESPOND" if is_answer else str(statement.word)
                calls, known = self._calls(statement, tool, named, evaluator, pc)
                record = self._record(statement, tool, calls, known, pc)
                record.shown = join(value.presence for _, value in known)
                self._may_fail(statement, evaluator, origins_of(value for _, value in known))
                self._decide(statement, LITERAL, (), pc=True)
            case Word.RETURN:
                value = evaluator.value(statement.values[0]) if statement.values else UNSET
                self._may_fail(statement, evaluator, value.origins)
                frame = self._frame
                value = value if pc.flows_to(frame.base) else raised(value, pc)
                frame.returned = value if frame.returned is None else self._joined(frame.returned, value)
                self._ended(loop=None)
                self._decide(statement, LITERAL, value.origins, pc=True)
            case Word.YIELD:
                value = evaluator.value(statement.values[0]) if statement.values else UNSET
                self._may_fail(statement, evaluator, value.origins)
                item = next((loop for loop in reversed(self._loops) if loop.is_items), None)
                if item is not None:
                    item.yields.append(raised(value, pc))
            case Word.NOTE:
                self._message(statement, statement.values, LITERAL, evaluator)
                self._may_fail(statement, evaluator, ())
            case Word.FAIL:
                self._message(statement, statement.values, LITERAL, evaluator)
                evaluator.fails_by_content = evaluator.can_fail = True
                self._may_fail(statement, evaluator, (), content=pc)
            case Word.BREAK | Word.CONTINUE:
                if self._loops:
                    self._loops[-1].ends = self._loops[-1].ends.join(pc)
                    self._ended(loop=self._loops[-1])
                self._decide(statement, LITERAL, (), pc=True)
            case Word.WAIT:
                for value in statement.values:
                    self._takes_time(evaluator.time(value).label)
                self._may_fail(statement, evaluator, ())
            case _:
                raise AssertionError(statement.word)
