"""Walks blocks: branches that are merged, handlers of failures, members side by side, loops to a fixpoint."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager

from callsheet.ir.expression import Call as Function
from callsheet.ir.expression import Comprehension, Display, Expression, Method
from callsheet.ir.labels import LITERAL, Label, join
from callsheet.ir.scopes import names_made
from callsheet.ir.tree import (
    Block,
    Ends,
    Foreach,
    GoOn,
    Handler,
    If,
    Leave,
    Parallel,
    Recovery,
    Repeat,
    Skip,
    Statement,
    Try,
    Use,
)
from callsheet.passes.verify_tree.calls import Record
from callsheet.passes.verify_tree.walk import Loop, Protected, Walk, Ways
from callsheet.policy.expression_labels import ExpressionLabels
from callsheet.policy.labelled import Labelled, failure_of, origins_of, raised, said_by, undo_of

_MOST_ROUNDS = 8
"""After this many rounds of a loop all that it carries is joined, so that long chains end at once."""


class Blocks(Walk, ABC):
    """The statements that have blocks inside; `block` walks the statements of one."""

    @abstractmethod
    def block(self, block: Block) -> None:
        """Walk the statements of a block."""

    def _handlers(
        self, statement: Statement, recovery: Recovery, protected: Protected, succeed: Callable[[], None]
    ) -> None:
        """Walk what happens after success and in each handler, then the FINALLY block."""
        variables, places = self._frame.variables, self._places
        written = self._written
        ended = self._count_ended()
        after: Ways = []
        outcomes: list[frozenset[str]] = []
        with self._branch(after, self._pc(statement)):
            succeed()
        outcomes.append(self._written)
        failing = self._before(protected)
        if recovery.final is not None:  # it sees what a handler has set before it failed, too
            self._protected.append(protected)
        for handler in recovery.handlers:
            self._written = written
            with self._branch(after, self._pc(statement), failing):
                self._handler(statement, handler, protected)
            outcomes.append(self._written)
        if recovery.final is not None:
            self._protected.pop()
            failing = self._before(protected)
        self._written = _in_all(outcomes)
        variables.merge((one for one, _ in after), self._joined, self._pc(statement))
        places.merge((one for _, one in after), self._joined)
        if recovery.final is not None:
            variables.push({name: self._either(variables.get(name), v) for name, v in failing[0].items()})
            places.push({name: self._either(places.get(name), v) for name, v in failing[1].items()})
            final: Ways = []
            surely, self._written = self._written, written
            with self._branch(final, self._pc(statement)):
                self.block(recovery.final)
                self._end_again(ended)
            self._written |= surely
            variables.pop()
            places.pop()
            variables.merge((one for one, _ in final), self._joined, self._pc(statement))
            places.merge((one for _, one in final), self._joined)

    def _count_ended(self) -> tuple[int, int]:
        return len(self._loops[-1].exits) if self._loops else 0, len(self._frame.exits)

    def _end_again(self, before: tuple[int, int]) -> None:
        """FINALLY has run: whatever has ended early inside its TRY leaves what is around it only here."""
        items, returns = self._count_ended()
        if items > before[0]:
            self._ended(loop=self._loops[-1])
        if returns > before[1]:
            self._ended(loop=None)

    def _either(self, one: Labelled | None, other: Labelled) -> Labelled:
        return other if one is None else self._joined(one, other)

    def _before(self, protected: Protected) -> tuple[dict[str, Labelled], dict[str, Labelled]]:
        """What may have been set when a failure came: the values before, or those on the way."""
        variables, places = self._frame.variables, self._places
        return (
            {name: self._either(variables.get(name), value) for name, value in protected.set_.items()},
            {name: self._either(places.get(name), value) for name, value in protected.places.items()},
        )

    def _handler(self, statement: Statement, handler: Handler, protected: Protected) -> None:
        if handler.body:
            pc = self._pc(handler.body[0])
            label = protected.words.join(pc)
            origin = self.origins.add(
                self._site(statement), f"{statement.id} $error", label, protected.origins
            )
            failed = failure_of(label, pc, (origin,))
            if isinstance(statement, Try) and statement.recovery.undo is not None:
                failed = undo_of(label, pc, protected.given, protected.led, (origin,))
            self._frame.variables.put(handler.binds, failed)
            self.block(handler.body)

    @contextmanager
    def _branch(
        self,
        collected: Ways,
        around: Label,
        known: tuple[Mapping[str, Labelled], Mapping[str, Labelled]] = ({}, {}),
    ) -> Generator[None]:
        """One way through: what it sets is collected, not kept."""
        self._frame.variables.push(known[0])
        self._places.push(known[1])
        yield
        collected.append((self._frame.variables.pop(around), self._places.pop()))

    def _recovering(self, statement: Statement, recovery: Recovery | None, walk: Callable[[], None]) -> None:
        """Walk a block whose failures the statement handles, then what it does about them."""
        if recovery is None:
            walk()
            return
        protected = Protected(self._frame)
        if recovery.again is not None:
            retries, count = self._retries, recovery.again.count
            self._retries = max(retries, count)
            self._again += 1
            self._protected.append(protected)
            self._rounds(statement, walk, lambda _: True)
            self._protected.pop()
            self._again -= 1
            self._retries = retries
            self._handlers(statement, recovery, protected, lambda: None)
            return

        def succeed() -> None:
            self._protected.append(protected)
            walk()
            self._protected.pop()

        if isinstance(recovery.remedy, Leave):
            succeed()
            self._leave(statement, recovery.remedy.values, self._pc(statement).join(protected.words))
            succeed = _nothing
        elif isinstance(recovery.remedy, GoOn | Use | Skip):
            before: Ways = []
            written = self._written
            with self._branch(before, self._pc(statement)):
                succeed()
            self._written = written
            ways = [before[0], self._before(protected)]
            self._frame.variables.merge((one for one, _ in ways), self._joined, self._pc(statement))
            self._places.merge((one for _, one in ways), self._joined)
            succeed = _nothing
        self._handlers(statement, recovery, protected, succeed)

    def _leave(self, statement: Statement, values: Sequence[Expression], pc: Label) -> None:
        """`ON_FAIL TERMINATE (…)`: a message, and the end."""
        evaluator = self._evaluator(statement)
        named = [(str(number), value) for number, value in enumerate(values)]
        calls, known = self._calls(statement, "TERMINATE", named, evaluator, pc)
        site = (self._frame.path, f"{statement.id} ON_FAIL")
        record = Record(
            site, statement, "TERMINATE", self.judge.prepared("TERMINATE"), calls, known, pc,
            self._why(statement), len(self.records), self._in_loop(statement),
        )  # fmt: skip
        if values:
            self.records[site] = record

    def _if(self, statement: If) -> None:
        evaluator = self._evaluator(statement)
        label, origins, reveals = LITERAL, (), 0
        for branch in statement.branches:
            decision = evaluator.decision(branch.condition, counts_bits=self._counts(statement))
            label, origins = label.join(decision.label), (*origins, *decision.origins)
            reveals += decision.reveals_bit
        if reveals:
            self.bits[self._site(statement)] = reveals
        self._may_fail(statement, evaluator, origins)
        self._decide(statement, label.join(self._pc(statement)), origins)
        after: Ways = []
        written = self._written
        outcomes: list[frozenset[str]] = []
        for body in (*(branch.body for branch in statement.branches), statement.otherwise or ()):
            self._written = written
            with self._branch(after, self._pc(statement)):
                self.block(body)
            outcomes.append(self._written)
        self._written = _in_all(outcomes)
        self._frame.variables.merge((one for one, _ in after), self._joined, self._pc(statement))
        self._places.merge((one for _, one in after), self._joined)

    def _try(self, statement: Try) -> None:
        """A block; with a time limit, time decides how far it comes, and whether it fails."""
        within = statement.within

        def walk() -> None:
            if within is None:
                self.block(statement.body)
                return
            evaluator = self._evaluator(statement)
            limit = evaluator.time(within)
            evaluator.can_fail = True  # its time may be over
            self._decide(statement, limit.label, limit.origins)
            ways: Ways = []
            with self._against_time(), self._branch(ways, self._pc(statement)):
                self._takes_time(limit.label)
                self.block(statement.body)
                over = self._reached()
            self._decide(statement, over, limit.origins)
            evaluator.reads = evaluator.reads.join(over)
            self._may_fail(statement, evaluator, limit.origins)
            self._frame.variables.merge((one for one, _ in ways), self._joined, self._pc(statement))
            self._places.merge((one for _, one in ways), self._joined)

        self._recovering(statement, statement.recovery, walk)

    def _parallel(self, statement: Parallel) -> None:
        """The members start together: each sees what was set before, and any file that another one writes."""

        def walk() -> None:
            beside, self._beside = self._beside, statement.id
            stored: dict[str, Labelled] = {}
            after: Ways = []
            for count in itertools.count():
                version = self._version
                after = []
                written, outcomes = self._written, list[frozenset[str]]()
                for member in statement.members:
                    known = {name: self._either(self._places.get(name), v) for name, v in stored.items()}
                    self._written = written  # nothing says which member is the first
                    with self._branch(after, self._pc(statement), ({}, known)):
                        self.block((member,))
                    outcomes.append(self._written)
                self._written = written.union(*outcomes)
                rose = [self._carry(stored, places) for _, places in after]
                if not any(rose) and self._version == version:
                    break
                if count >= _MOST_ROUNDS:
                    _flood(stored, self._evaluate)
            self._beside = beside
            makers: dict[str, list[Labelled]] = {}
            for one, _ in after:
                for name, value in one.items():
                    makers.setdefault(name, []).append(value)
            for name, values in makers.items():
                made = values[0]
                for value in values[1:]:
                    made = self._joined(made, value)
                self._frame.variables.put(name, made, self._pc(statement))
            for name, value in stored.items():
                self._places.put(name, self._either(self._places.get(name), value))

        self._recovering(statement, statement.recovery, walk)

    def _rounds(self, statement: Statement, walk: Callable[[], None], keeps: Callable[[str], bool]) -> None:
        """Walk a body until nothing rises, and keep what it may have set of the names that are kept."""
        variables, places = self._frame.variables, self._places
        kept, stored = self._carried.setdefault(self._site(statement), ({}, {}))
        for count in itertools.count():
            version = self._version
            after: Ways = []
            known = (
                {name: self._either(variables.get(name), value) for name, value in kept.items()},
                {name: self._either(places.get(name), value) for name, value in stored.items()},
            )
            written = self._written
            with self._branch(after, self._pc(statement), known):
                walk()
            self._written = written
            changed = [
                self._carry(kept, {n: v for n, v in after[0][0].items() if keeps(n)}),
                self._carry(stored, after[0][1]),
            ]
            if not any(changed) and self._version == version:
                break
            if count >= _MOST_ROUNDS:
                _flood(kept, self._evaluate)
        for name, value in kept.items():
            before = variables.get(name)
            variables.put(
                name, value if before is None else self._widened(before, value), self._pc(statement)
            )
        for name, value in stored.items():
            places.put(name, self._either(places.get(name), value))

    def _round(self, statement: Foreach | Repeat, walked: Loop, walk: Callable[[], None]) -> None:
        """Walk an item or a round: what is set behind it may be what was set where it ended early."""
        variables, places = self._frame.variables, self._places
        written, pc = self._written, self._pc(statement)
        walked.around, walked.depths = pc, (variables.depth, places.depth)
        walked.exits.clear()
        ways: Ways = []
        self._loops.append(walked)
        with self._branch(ways, pc):
            walk()
        self._loops.pop()
        ways += [(one.variables, one.places) for one in walked.exits]
        self._written = written
        variables.merge((one for one, _ in ways), self._joined, pc)
        places.merge((one for _, one in ways), self._joined)

    def _carry(self, kept: dict[str, Labelled], changed: Mapping[str, Labelled]) -> bool:
        """Join what a round set into what rounds carry; whether anything rose."""
        rose = False
        for name, value in changed.items():
            before = kept.get(name)
            joined = value if before is None else self._widened(before, value)
            if before is None or before._replace(origins=()) != joined._replace(origins=()):
                rose = True
            kept[name] = joined
        return rose

    def _all_items(self, loop: Foreach, walk: Callable[[], None]) -> Label:
        """Walk the items of a loop; gives who may know how long they have taken, if time ends them."""
        self._items += not loop.in_order
        over = LITERAL
        if loop.ends is Ends.FIRST:
            with self._against_time():
                walk()
                over = self._reached()
            self._decide(loop, over, ())
            if not self._frame.flow.of[loop.id].skips:  # the first that is done may be one that has failed
                evaluator = self._evaluator(loop)
                evaluator.can_fail, evaluator.reads = True, over
                self._may_fail(loop, evaluator, ())
        else:
            walk()
        self._items -= not loop.in_order
        return over

    def _foreach(self, loop: Foreach) -> None:
        evaluator = self._evaluator(loop)
        source = evaluator.value(loop.source)
        label = source.label
        if loop.limit is not None:
            limit = evaluator.limit(loop.limit)
            label = label.join(limit.label)
        item = evaluator.items_of(source)
        label = label.join(item.label)
        evaluator.can_fail = True  # what is no list fails
        if not isinstance(loop.source, Method | Function | Comprehension | Display):
            evaluator.content = evaluator.content.join(source.presence)
        self._may_fail(loop, evaluator, source.origins)
        self._decide(loop, label.join(self._pc(loop)), source.origins)
        made = self._made.get(id(loop))
        if made is None:
            made = self._made[id(loop)] = names_made(loop.body) | {loop.var}
        walked = Loop()
        pc = self._pc(loop)

        def body() -> None:
            walked.yields.clear()
            origin = self.origins.add(self._site(loop), f"{loop.id} ${loop.var}", item.label, item.origins)
            self._frame.variables.put(loop.var, item._replace(origins=(origin,)))
            self._round(loop, walked, lambda: self.block(loop.body))

        outer = made
        over: list[Label] = []

        def items() -> None:
            over.append(self._all_items(loop, lambda: self._rounds(loop, body, lambda n: n not in outer)))

        self._recovering(loop, loop.recovery, items)
        first = self._pc(loop.body[0]) if loop.body else pc
        listed = label.join(walked.ends).join(first)
        for value in walked.yields:
            listed = listed.join(evaluator.forgotten(value).label)
        if loop.as_done:
            listed = listed.join(self._clock)
        said = said_by(walked.yields)
        listed = join((listed, *over))
        presence = join((label, walked.ends, first, *over))
        result = Labelled(listed, presence, (), origins_of((source, *walked.yields)), said)
        if loop.into is not None:
            recovery = loop.recovery
            if loop.into.type is not None:
                tested = self._evaluator(loop)
                tested.casts(result, loop.into.type, self.tree.named_types)
                self._may_fail(loop, tested, result.origins)
            if recovery is not None and isinstance(recovery.remedy, Use):
                given = self._evaluator(loop).value(recovery.remedy.value)
                result = self._joined(result, raised(given, walked.ends))
            if recovery is not None and isinstance(recovery.remedy, GoOn):  # the list, or a failure
                result = result._replace(label=result.label.join(walked.words))
            self._set(loop, loop.into.name, result)

    def _repeat(self, loop: Repeat) -> None:
        evaluator = self._evaluator(loop)
        if loop.most is not None:
            self._takes_time(evaluator.value(loop.most).label)
        self._may_fail(loop, evaluator, ())
        self._decide(loop, evaluator.reads.join(self._pc(loop)), ())
        walked = Loop(is_items=False)

        def decide(condition: Expression | None) -> None:
            if condition is None:
                return
            tests = self._evaluator(loop)
            decision = tests.decision(condition, counts_bits=True)
            self._decide(loop, decision.label.join(tests.content), decision.origins)
            tests.fails_by_content = tests.can_fail = True
            self._may_fail(loop, tests, decision.origins, content=decision.label)

        def body() -> None:
            decide(loop.while_)
            self._again += 1
            self._round(loop, walked, lambda: self.block(loop.body))
            self._again -= 1
            decide(loop.until)
            if loop.every is not None:
                tests = self._evaluator(loop)
                pause = tests.time(loop.every)
                self._decide(loop, pause.label, pause.origins)
                self._may_fail(loop, tests, pause.origins)

        self._recovering(loop, loop.recovery, lambda: self._rounds(loop, body, lambda _: True))


def _in_all(sets: Sequence[frozenset[str]]) -> frozenset[str]:
    return sets[0].intersection(*sets[1:])


def _flood(kept: dict[str, Labelled], evaluator: ExpressionLabels) -> None:
    """Join everything that a loop carries into each of its variables."""
    label = join(evaluator.forgotten(value).label for value in kept.values())
    presence = join(value.presence for value in kept.values())
    for name, value in kept.items():
        kept[name] = Labelled(label, presence, (), value.origins, value.says)


def _nothing() -> None:
    """Nothing is left to walk."""
