"""Records the lineage of a run of a plan tree while its events are fed to the machine.

In: a machine and the entries of its run. Out: a TreeLineage. The recorder stands between the machine and its
operations: before each it knows what has become of the one before, and which writes the variables have.
Calls, loops and sub-plans end with a note of the machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, cast

from callsheet.ir import JSON
from callsheet.ir.failing import BY_NAME
from callsheet.ir.tree import Word
from callsheet.machine import Command, Machine, Started
from callsheet.machine.expressions import ExpressionFailed
from callsheet.machine.keys import segment
from callsheet.machine.notes import Note, NoteKind
from callsheet.machine.result import Status
from callsheet.machine.run import Run
from callsheet.machine.tree.activations import MISSING, STAY, Activation, Guard, Loop, Members
from callsheet.machine.tree.execution import CarryOut
from callsheet.machine.tree.failures import Failure as Fault
from callsheet.machine.tree.failures import StatementFailed, failure_of, record_of, records_of
from callsheet.machine.tree.group_ends import items_of
from callsheet.machine.tree.interpreter import TreeRun
from callsheet.machine.tree.program import (
    NONE,
    Body,
    BranchOp,
    CallOp,
    CatchOp,
    ClockOp,
    ComputeOp,
    EnterOp,
    GuardOp,
    InvokeOp,
    LetOp,
    LoopOp,
    Operation,
    RemedyCode,
    ReplanOp,
    RoundOp,
    SayOp,
    UntilOp,
    YieldOp,
)
from callsheet.machine.tree.values import plain
from callsheet.store.events import Entry
from callsheet.store.start import Start
from callsheet.trace.lineage.blocks import NO_REASONS, Around, Part, Reasons, Site, TreeLineage, listed
from callsheet.trace.lineage.lineage import ANSWER, Failure, Flow, Node, ValueSource, Visit, Write
from callsheet.trace.lineage.reads import CLOCK_READ, Role, sources_of
from callsheet.trace.lineage.recorder import Recorder
from callsheet.trace.lineage.sites import Frame, Sites, UnderWay, Waiting
from callsheet.trace.lineage.withheld import Withholding

_SEVERAL = 2
_ENDS = frozenset({Word.RESPOND, Word.TERMINATE})


class BlockRecorder(Recorder):
    """Records a run of a plan tree; used as a Recorder is. It cannot begin amid a run, nor be copied."""

    blocks: TreeLineage
    """The lineage."""

    def __init__(self, hears: Callable[[Note], None] | None = None) -> None:
        super().__init__(hears)
        self._frames: dict[int, Frame] = {}
        self._slots: dict[int, dict[str, int]] = {}
        self._items: dict[int, list[Frame]] = {}
        """The items of each loop whose end has not been taken account of, by the loop's identity."""
        self._loops: dict[int, Loop] = {}
        """The loop of each visit of a FOREACH that has items."""
        self._yields: dict[int, dict[int, int]] = {}
        """The write of each item's YIELD, by the visit of its FOREACH."""
        self._returned: dict[int, int] = {}
        """The write of the RETURN of each visit of a CALL."""
        self._under_way: dict[str, tuple[Frame, UnderWay]] = {}
        self._counts: dict[str, int] = {}
        self._finished_visits: set[int] = set()
        self._beside: dict[int, tuple[Fault, ...]] = {}
        """The failures of the items of a loop, by the visit of each."""
        self._withholding: Withholding | None = None

    def attend(self, machine: Machine, seq: int, start: Start) -> None:
        """Attach to the machine of a run that begins at the event `seq`."""
        program = machine.program
        assert program.tree is not None
        assert program.plan.tree is not None
        self.rules, self.seq = start, seq
        self._sites = Sites(program.plan.tree, program.tree.main)
        sites = self._sites.all
        self.lineage = self.blocks = TreeLineage(machine, [listed(sites, program)], [seq], sites=sites)
        self._attach(NO_REASONS)

    def _attach(self, base: Reasons) -> None:
        """Stand between the machine and the operations of the plan that it runs now."""
        tree = self.machine.tree
        assert tree is not None
        tree.carry_out = {kind: partial(self._carry_out, execute) for kind, execute in tree.carry_out.items()}
        tree.hears_edit = self._edited
        self._main = Frame(tree.main, base, NONE)
        self._frames[id(tree.main)] = self._main

    def _replanned(self) -> None:
        """The run goes on with its next part, whose inputs are the variables that are set."""
        before, program = self._main, self.machine.program
        assert program.tree is not None
        assert program.plan.tree is not None
        reasons = before.base
        if before.waiting is not None:
            visit = before.waiting.visit
            reasons = self.blocks.reasons.get(visit, reasons)
            tree = self.machine.tree
            assert tree is not None
            self.blocks.planners[tree.main.path.removesuffix("//")] = visit
            self._settle(before, is_behind=True)
        self._sites = Sites(program.plan.tree, program.tree.main, len(self.blocks.sites))
        self.blocks.sites.extend(self._sites.all)
        self.blocks.programs[0] = listed(self._sites.all, program, self.blocks.programs[0])
        self._attach(reasons)
        for slot, one in program.tree.inputs:
            write = self.blocks.main.get(one.name, NONE)
            if write != NONE:
                self._main.scope[slot] = write
            elif not one.is_required:
                self._set(self._main, slot, one.name, one.default, ValueSource.PLAN)

    def begin(self, first: Entry) -> None:
        """Start the run with its first entry."""
        tree = self.machine.program.tree
        assert tree is not None
        for slot, one in tree.inputs:
            if one.name in self.rules.inputs:
                self._set(self._main, slot, one.name, self.rules.inputs[one.name], ValueSource.INPUT)
            elif not one.must_be_given:
                self._set(self._main, slot, one.name, one.default, ValueSource.PLAN)
        if first.guide is not None:
            self.machine.follow(first.guide.decisions(first.seq))
        self._note_commands(self.machine.feed(Started(self.rules.inputs)))
        self._leave(first)

    def fork(self) -> Recorder | None:
        """None: the state of a plan tree cannot be copied."""
        return None

    def so_far(self) -> TreeLineage:
        """The lineage of the entries taken so far; later entries extend the same object."""
        super().so_far()
        if withholding := self._veiled():
            withholding.take()
        return self.blocks

    def _veiled(self) -> Withholding | None:
        """What withholds, once there are placeholders."""
        if self._withholding is None and self.rules.is_veiled:
            self._withholding = Withholding(self.blocks)
        return self._withholding

    def _note_commands(self, commands: Iterable[object]) -> None:
        super()._note_commands(commands := [*commands])
        if withholding := self._veiled():
            keys = [key for one in commands if (key := getattr(one, "key", None)) in self.blocks.commands]
            withholding.take(keys)

    def _end(self, entry: Entry, data: dict[str, JSON]) -> None:
        super()._end(entry, data)
        if withholding := self._veiled():
            response = data.get("response")
            withholding.take()
            withholding.answered(response if isinstance(response, str) else None)

    # ------------------------------------------------------------ operations

    def _carry_out(
        self,
        execute: CarryOut,
        tree: TreeRun,
        run: Run,
        act: Activation,
        operation: Operation,
        out: list[Command],
    ) -> int:
        """Execute an operation, and record what it has read and set."""
        frame = self._frame(act)
        if frame.waiting is not None:
            self._settle(frame, is_behind=act.pc == frame.waiting.pc + 1)
        if isinstance(operation, EnterOp):
            frame.conditions.pop(operation.id, None)
        site = self._sites.of(operation)
        visit = NONE if site is None else self._reach(frame, site, operation)
        at = act.pc
        caught = act.failure if isinstance(operation, CatchOp) else None
        fallback = self._fallback(tree, act, operation, caught)
        try:
            signal = execute(tree, run, act, operation, out)
        except StatementFailed as failed:
            self._fell(visit, failed.failure.text)
            raise
        except ExpressionFailed as failed:
            self._fell(visit, failed.message)
            raise
        match operation:
            case LetOp(slot=slot, name=name):
                self._set(frame, slot, name, plain(act.slots[slot]), ValueSource.STEP, visit)
            case YieldOp():
                frame.yielded = self._inner("YIELD", plain(act.yielded), visit, frame)
            case SayOp():
                self._said(frame, tree, operation, visit)
            case BranchOp(otherwise=otherwise) if act.pc == otherwise and signal == STAY:
                self.blocks.did_not_hold.add(visit)
            case RoundOp(end=end) if act.pc == end and signal == STAY:
                self.blocks.did_not_hold.add(visit)
            case UntilOp() if not (signal == STAY and act.pc == at + 1):
                self.blocks.did_not_hold.add(visit)
            case GuardOp(id=own) if act.guards[-1].attempt == 1:
                frame.failures.pop(Around(own, is_failure=True, is_retried=True), None)
            case CatchOp() if caught is not None:
                self._caught(frame, operation, caught, fallback)
            case _:
                pass
        if visit != NONE and frame.waiting is None:
            self.blocks.settled[visit] = self._now()
        return signal

    def _reach(self, frame: Frame, site: Site, operation: Operation) -> int:
        """Begin a visit of a site; its number."""
        act = frame.act
        keyed = isinstance(operation, Waiting)
        path = act.path + (segment(site.id) if keyed else site.id)
        lineage = self.blocks
        visit = len(lineage.visits)
        nth = self._counts[path] = self._counts.get(path, 0) + 1
        versions = tuple([self._version(frame, name) for name in site.reads.names])
        lineage.visits.append(Visit(visit, 0, site.number, nth, self.seq, versions, path=path))
        lineage.last_at[path] = visit
        lineage.began.append(self._now())
        reasons = frame.reasons(site)
        if reasons is not NO_REASONS:
            lineage.reasons[visit] = reasons
        frame.reached(operation, visit)
        if frame.waiting is not None:
            self._under_way[path] = frame, frame.waiting
        return visit

    def _version(self, frame: Frame, name: str) -> int:
        if name == CLOCK_READ:
            return frame.clock
        return frame.scope.get(self._slot(frame.act.body, name), NONE)

    def _slot(self, body: Body, name: str) -> int:
        slots = self._slots.get(id(body))
        if slots is None:
            slots = self._slots[id(body)] = {each: slot for slot, each in enumerate(body.names)}
        return slots.get(name, NONE)

    def _said(self, frame: Frame, tree: TreeRun, operation: SayOp, visit: int) -> None:
        """Record the value of a RESPOND, TERMINATE or RETURN."""
        if operation.word is not Word.RETURN and operation.word not in _ENDS:
            return
        values = [plain(tree.value(frame.act, each)) for each in operation.values]
        value = values[0] if len(values) == 1 else " ".join(map(str, values)) if values else None
        caller = self._caller(frame) if operation.word is Word.RETURN else NONE
        if caller != NONE:
            self._returned[caller] = self._inner("RETURN", value, visit, frame)
        else:
            self._append(ANSWER, value, ValueSource.ANSWER, visit, frame)

    def _caller(self, frame: Frame) -> int:
        """The visit of the CALL that an activation belongs to; NONE in the main plan."""
        act: Activation | None = frame.act
        while act is not None and not isinstance(act.role, InvokeOp):
            act = act.parent
        return NONE if act is None else self._frames[id(act)].owner

    # ------------------------------------------------------------ failures

    def _fell(self, visit: int, text: str) -> None:
        """A statement has failed."""
        lineage = self.blocks
        if visit != NONE and visit not in lineage.failed:
            lineage.failures.append(Failure(visit, self.seq, text))
            lineage.failed.add(visit)
            lineage.settled[visit] = self._now()

    @staticmethod
    def _fallback(
        tree: TreeRun, act: Activation, operation: Operation, caught: tuple[Fault, Guard] | None
    ) -> RemedyCode | None:
        """The remedy that a handler is about to carry out; None if there is another attempt, or none."""
        if caught is None or not isinstance(operation, CatchOp) or operation.remedy is None:
            return None
        failure, guard = caught
        if failure.kind in BY_NAME or tree.is_tried_again(act, operation, failure, guard):
            return None
        try:
            for each in operation.remedy.values:
                tree.value(act, each)
        except ExpressionFailed:
            return None
        return operation.remedy

    def _caught(
        self, frame: Frame, operation: CatchOp, caught: tuple[Fault, Guard], remedy: RemedyCode | None
    ) -> None:
        """Record what a handler has set, or that the failure of an attempt leads to the next."""
        act, lineage = frame.act, self.blocks
        failure, guard = caught
        failed = lineage.last_at.get(failure.step, NONE)
        if act.failure is caught:
            write = self._error(failure, failed, frame).node.write
            frame.failures[Around(operation.id, is_failure=True, is_retried=True)] = write
            lineage.attempts[write] = guard.attempt
            return
        if remedy is not None:
            visit = lineage.last_at.get(act.path + segment(operation.id), NONE)
            if operation.into is not None and remedy.kind != "terminate":
                made = ValueSource.USE if remedy.kind == "use" else ValueSource.ERROR
                slot, name = operation.into.slot, operation.into.name
                write = self._set(frame, slot, name, plain(act.slots[slot]), made, visit)
                flows = [*self._flows(visit)]
                if failed not in (NONE, visit):  # what failed is inside of it
                    flows.append(self._error(failure, failed, frame))
                lineage.parts[write] = tuple(Part((), False, flow) for flow in dict.fromkeys(flows))
            return
        for _, slot, first in operation.handlers:
            if act.pc == first:
                name = act.body.names[slot]
                write = self._set(frame, slot, name, plain(act.slots[slot]), ValueSource.ERROR, failed)
                self._explain(write, failure, failed, frame)
                frame.failures[Around(operation.id, is_failure=True)] = write

    def _error(self, failure: Fault, visit: int, frame: Frame, *, is_one: bool = False) -> Flow:
        """The flow of a failure that no variable holds, of the visit that has failed.

        `is_one` says that it is one of several, which are those of a group.
        """
        write = self._append("error", plain(record_of(failure)), ValueSource.ERROR, visit, frame)
        if not is_one:
            self._explain(write, failure, visit, frame)
        return Flow(Role.ARGUMENT, "", None, "error", Node(write, ()))

    def _explain(self, write: int, failure: Fault, visit: int, frame: Frame) -> None:
        """Record that a failure is also that of other items or members, where it is."""
        every = self._beside.get(visit) or [failure_of(record, "") for record in records_of(failure)]
        others = [one for one in every if one.step != failure.step]
        if others:
            last_at = self.blocks.last_at
            flows = [*self._flows(visit)]
            flows += [self._error(one, last_at.get(one.step, NONE), frame, is_one=True) for one in others]
            self.blocks.parts[write] = tuple(Part((), False, flow) for flow in dict.fromkeys(flows))

    def _flows(self, visit: int) -> Iterator[Flow]:
        if visit != NONE:
            yield from self.blocks.own_flows(self.blocks.visits[visit])

    # ------------------------------------------------------------ activations

    def _frame(self, act: Activation) -> Frame:
        """The frame of an activation, which begins with its first operation."""
        frame = self._frames.get(id(act))
        if frame is not None and frame.act is act:
            return frame
        assert act.parent is not None
        around = self._frame(act.parent)
        match act.role:
            case Loop() as loop:
                frame = self._item(around, act, loop)
            case InvokeOp() as invoke:
                frame = self._invoked(around, act, invoke)
            case Members() | None:
                frame = around.beside(act)
        self._frames[id(act)] = frame
        return frame

    def _owned(self, around: Frame, act: Activation) -> tuple[Frame, Visit]:
        """A frame for what the statement under way in another has begun, and that statement's visit."""
        assert around.waiting is not None
        owner = self.blocks.visits[around.waiting.visit]
        return Frame(act, self.blocks.reasons.get(owner.id, NO_REASONS), owner.id), owner

    def _item(self, around: Frame, act: Activation, loop: Loop) -> Frame:
        self._take_items(loop)
        frame, owner = self._owned(around, act)
        self._loops[owner.id] = loop
        self._items.setdefault(id(loop), []).append(frame)
        for outside, inside in act.body.captures:
            if outside in around.scope:
                frame.scope[inside] = around.scope[outside]
        op = loop.op
        write = self._set(
            frame, op.item_slot, op.var, plain(loop.items[act.index]), ValueSource.ITEM, owner.id
        )
        self.blocks.parts[write] = tuple(self.blocks.item_parts(owner, act.index))
        frame.clock = around.clock
        return frame

    def _invoked(self, around: Frame, act: Activation, invoke: InvokeOp) -> Frame:
        frame, owner = self._owned(around, act)
        lineage = self.blocks
        named = dict(cast("Any", lineage.site(owner).statement).named)
        given: list[tuple[int, ValueSource]] = [(slot, ValueSource.STEP) for slot, _, _ in invoke.arguments]
        given += [(slot, ValueSource.PLAN) for slot, _ in invoke.defaults]
        for slot, made in given:
            name = act.body.names[slot]
            visit = owner.id if made is ValueSource.STEP else NONE
            write = self._set(frame, slot, name, plain(act.slots[slot]), made, visit)
            lineage.write_of.pop(owner.id, None)  # an input is not the result
            if made is ValueSource.STEP:
                lineage.parts[write] = tuple(lineage.part(owner, one) for one in sources_of(named[name]))
        return frame

    def _take_items(self, loop: Loop) -> None:
        """Take account of the items of a loop that have ended."""
        waiting = self._items.get(id(loop))
        if not waiting:
            return
        around = self._frame(loop.act)
        left: list[Frame] = []
        for frame in waiting:
            ended = frame.act.ended
            if ended is None:
                left.append(frame)
                continue
            if frame.waiting is not None:
                self._settle(frame, is_behind=ended.by is None)
            if not (isinstance(ended.by, Fault) and loop.op.skips):
                for inside, outside in loop.op.body.returns:
                    if inside in frame.scope:
                        self._bind(around, outside, frame.scope[inside])
            if frame.yielded != NONE:
                self._yields.setdefault(frame.owner, {})[frame.act.index] = frame.yielded
            del self._frames[id(frame.act)]
        self._items[id(loop)] = left

    def _settle(self, frame: Frame, *, is_behind: bool) -> None:
        """Take account of the end of a statement that was under way; `is_behind` if the next one follows."""
        under_way, frame.waiting = frame.waiting, None
        assert under_way is not None
        operation, _, visit = under_way
        path = self.blocks.visits[visit].path
        self._under_way.pop(path, None)
        self.blocks.settled.setdefault(visit, self._now())
        if isinstance(operation, LoopOp) and visit in self._loops:
            self._take_items(self._loops[visit])
        if visit in self._finished_visits or not is_behind:
            return
        if isinstance(operation, ClockOp):
            frame.clock = self._inner(CLOCK_READ, frame.act.now.isoformat(), visit, frame)
        if not isinstance(operation, CallOp) or operation.into is None or operation.remedy is None:
            return
        if operation.remedy.kind != "terminate":
            made = ValueSource.USE if operation.remedy.kind == "use" else ValueSource.ERROR
            slot = operation.into.slot
            self._set(frame, slot, operation.into.name, plain(frame.act.slots[slot]), made, visit)

    # ------------------------------------------------------------ what the machine says

    def note(self, note: Note) -> None:
        """Record a note of the machine on the current event."""
        match note.kind:
            case NoteKind.FINISHED:
                self._ended(note)
            case NoteKind.REPLANNED:
                self._replanned()
            case NoteKind.FAILED:
                under_way = self._under_way.get(note.step)
                if under_way is not None:
                    self._fell(under_way[1].visit, note.detail)
                    self._loop_fell(under_way[1].visit)
            case _:
                pass
        if self._hears is not None:
            self._hears(note)

    def _edited(self, act: Activation, slot: int, source: tuple[Activation, int] | None) -> None:
        """A person has set a variable; inner activations that see it share its write."""
        frame = self._frame(act)
        if source is not None:
            frame.scope[slot] = self._frame(source[0]).scope[source[1]]
            return
        write = self._set(frame, slot, act.body.names[slot], plain(act.slots[slot]), ValueSource.EDIT)
        self._now()
        self._note_beside(ValueSource.EDIT, wrote=(write,))

    def _loop_fell(self, visit: int) -> None:
        """Record which items have failed beside the one whose failure is that of the loop."""
        loop = self._loops.get(visit)
        if loop is None or len(loop.failures) < _SEVERAL:
            return
        every = tuple(loop.failures[number] for number in sorted(loop.failures))
        for one in every:
            failed = self.blocks.last_at.get(one.step)
            if failed is not None:  # data that is raised as a failure may name any place
                self._beside[failed] = every

    def _ended(self, note: Note) -> None:
        """A call, a loop or a sub-plan has its result."""
        known = self._under_way.pop(note.step, None)
        if known is None:
            return
        frame, (operation, _, visit) = known
        self._finished_visits.add(visit)
        lineage = self.blocks
        if note.is_unused:
            lineage.unused[visit] = note.detail
        match operation:
            case LoopOp() if visit in self._loops:
                self._take_items(self._loops[visit])
            case ComputeOp():
                outcome = lineage.outcomes.get(lineage.last_key(lineage.visits[visit], 0))
                lineage.forget()
                made = outcome.value if outcome is not None and isinstance(outcome.value, dict) else {}
                for name, slot in operation.into:
                    if name in made:
                        self._set(frame, slot, name, plain(frame.act.slots[slot]), ValueSource.STEP, visit)
            case _:
                pass
        lineage.settled[visit] = self._now()
        if (
            note.var is None
            or isinstance(operation, ComputeOp | ClockOp | ReplanOp)
            or operation.into is None
        ):
            return
        write = self._set(frame, operation.into.slot, note.var, note.value, ValueSource.STEP, visit)
        if isinstance(operation, LoopOp):
            loop, yields = self._loops.get(visit), self._yields.get(visit, {})
            items = () if loop is None else items_of(loop)
            done = [item for item in items if loop is not None and loop.results[item] is not MISSING]
            lineage.parts[write] = tuple(lineage.result_parts(lineage.visits[visit], done, yields))
        elif isinstance(operation, InvokeOp):
            inner = self._returned.get(visit, NONE)
            flow = Flow(Role.ARGUMENT, "", None, "RETURN", Node(inner, ()))
            lineage.parts[write] = () if inner == NONE else (Part((), True, flow),)

    # ------------------------------------------------------------ writes

    def _set(
        self, frame: Frame, slot: int, name: str, value: JSON, made: ValueSource, visit: int = NONE
    ) -> int:
        """Record that a variable is set; the number of the write."""
        number = self._append(name, value, made, visit, frame)
        self._bind(frame, slot, number)
        return number

    def _bind(self, frame: Frame, slot: int, number: int) -> None:
        name = self.blocks.writes[number].name
        frame.scope[slot] = number
        self.blocks.current[name] = number
        self.blocks.placed[frame.place, name] = number
        if frame.scope is self._main.scope:
            self.blocks.main[name] = number

    def _inner(self, name: str, value: JSON, visit: int, frame: Frame) -> int:
        """Record a value that is no variable."""
        return self._append(name, value, ValueSource.INNER, visit, frame)

    def _append(self, name: str, value: JSON, made: ValueSource, visit: int, frame: Frame) -> int:
        lineage = self.blocks
        number = len(lineage.writes)
        lineage.writes.append(Write(number, name, value, self.seq, made, visit, place=frame.place))
        if visit != NONE and made not in (ValueSource.ITEM, ValueSource.ERROR):
            lineage.write_of[visit] = number
        elif visit != NONE and made is ValueSource.ERROR:
            lineage.write_of.setdefault(visit, number)
        return number

    def _find_answer(self) -> None:
        """Find the write of the answer of a successful run."""
        lineage, result = self.blocks, self.machine.result
        if result is None or result.status is not Status.DONE or result.ended_at is None:
            return
        for write in reversed(lineage.writes):
            if write.made is ValueSource.ANSWER and lineage.visits[write.visit].path == result.ended_at:
                lineage.answer = write.id
                return
