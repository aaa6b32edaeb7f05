"""Converts the activations of a run of a plan tree to JSON data and back, for snapshots.

In: the activations that open calls and timers belong to, with all around them, and the loops and groups
that they are in. Out: rows that refer to each other by number. Where an activation stands in the operations
of its body says what it waits for, so a row names no operation; a digest of all operations says whether the
program is the same. Values that are no JSON data are tagged as in `values`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from callsheet.ir import JSON
from callsheet.ir.inverse import Fate
from callsheet.ir.labels import Label, read_label
from callsheet.ir.step import Call, Step
from callsheet.ir.tree import Word
from callsheet.machine.frames import TreeFrame
from callsheet.machine.keys import segment
from callsheet.machine.program import NOWHERE, StepCode
from callsheet.machine.snapshots import control_from_json, control_to_json
from callsheet.machine.tree.activations import (
    MISSING,
    Activation,
    Done,
    Guard,
    Leaving,
    Loop,
    Members,
    Pending,
    Tried,
)
from callsheet.machine.tree.failures import Failure
from callsheet.machine.tree.program import (
    Body,
    InvokeOp,
    LoopOp,
    ParallelOp,
    TreeProgram,
    bodies,
    statement_of,
)
from callsheet.machine.tree.values import SCALARS, is_data, tagged, untagged
from callsheet.machine.usage import Spent

if TYPE_CHECKING:
    from callsheet.machine.run import Run

Keep: TypeAlias = "Callable[[Any], JSON]"
Give: TypeAlias = "Callable[[Any], Any]"
_TAGGED = "tagged"


def keeps(keep: Keep) -> Keep:
    """As `keep`, for any value of a plan tree. Raises ExpressionFailed for one that cannot be stored."""

    def kept(value: Any) -> JSON:
        if type(value) in SCALARS or is_data(value):
            return keep(value)
        return {_TAGGED: tagged(value, tells_failures=True)}

    return kept


def gives(give: Give) -> Give:
    """The values that `keeps` has stored."""

    def given(stored: Any) -> Any:
        if isinstance(stored, dict) and _TAGGED in stored:
            return untagged(cast("dict[str, Any]", stored)[_TAGGED])
        return give(stored)

    return given


def layout(program: TreeProgram) -> str:
    """A digest of what the rows depend on: the operations of all bodies, and the names of their variables."""
    digest = sha256()
    for body in bodies(program):
        told = [type(one).__name__ + statement_of(one) for one in body.operations]
        digest.update("\n".join([*told, "", *body.names, "\n"]).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:32]


class TreeWriter:
    """Numbers the activations of a run, those around others first; `acts` has them in this order."""

    def __init__(self, run: Run, frames: Iterable[TreeFrame], keep: Keep) -> None:
        assert run.tree is not None
        self._run = run
        self._keep = keep
        self.acts: list[Activation] = []
        self._numbers: dict[int, int] = {}
        self._containers: list[Loop | Members] = []
        self._container_numbers: dict[int, int] = {}
        self.number(run.tree.main)
        for frame in frames:
            self.number(frame.act)

    def number(self, act: Activation) -> int:
        """The number of an activation."""
        around: list[Activation] = []
        one: Activation | None = act
        while one is not None and id(one) not in self._numbers:
            around.append(one)
            one = one.parent
        for each in reversed(around):
            self._numbers[id(each)] = len(self.acts)
            self.acts.append(each)
            role = each.role
            if isinstance(role, Loop | Members) and id(role) not in self._container_numbers:
                self._container_numbers[id(role)] = len(self._containers)
                self._containers.append(role)
        return self._numbers[id(act)]

    def frame(self, frame: TreeFrame) -> list[Any]:
        """The row of the frame of a call or timer."""
        return [
            frame.code.number,
            self.number(frame.act),
            frame.visit,
            frame.kind,
            None if frame.fate is None else frame.fate.value,
            self._keep(frame.gave),
            [frame.ran, frame.open, sorted(frame.failed)],
            self._keep(frame.value),
            *(() if frame.control is None else (control_to_json(frame.control),)),
        ]

    def to_json(self) -> dict[str, Any]:
        """The rows of all activations, loops and groups."""
        tree = self._run.tree
        assert tree is not None
        if not tree.layout:
            tree.layout = layout(tree.program)
        return {
            "layout": tree.layout,
            "acts": [self._act(act) for act in self.acts],
            "containers": [self._container(one) for one in self._containers],
            "undone": tree.undone,
            "was_edited": tree.was_edited,
        }

    def _act(self, act: Activation) -> dict[str, Any]:
        role, keep = act.role, self._keep
        shared = act.parent is None or isinstance(role, Members)
        is_container = isinstance(role, Loop | Members)
        return {
            "parent": None if act.parent is None else self._numbers[id(act.parent)],
            "in": self._container_numbers[id(role)] if is_container else None,
            "at": [act.index, act.pc, act.path, act.is_inner, act.now.isoformat()],
            "slots": None if shared else [keep(value) for value in act.slots],
            "guards": [_guard(guard) for guard in act.guards],
            "pending": [self._pending(one) for one in act.pending],
            "failure": None
            if act.failure is None
            else [_failure(act.failure[0], keep), _guard(act.failure[1])],
            "yielded": keep(act.yielded),
            "done": [self._done(one) for one in act.done],
            **({} if act.spent is None else {"spent": [*act.spent]}),
            "stopping": None if act.stopping is None else _failure(act.stopping, keep),
        }

    def _pending(self, one: Pending) -> list[Any] | None:
        match one:
            case None:
                return None
            case Failure():
                return ["failure", _failure(one, self._keep)]
            case Leaving():
                return ["leaving", _leaving(one, self._keep)]

    def _done(self, done: Done) -> list[Any]:
        args = {name: self._keep(value) for name, value in done.args.items()}
        fate = done.fate.value
        return [done.step, done.tool, args, self._keep(done.value), fate, _text(done.label), _text(done.led)]

    def _container(self, one: Loop | Members) -> dict[str, Any]:
        keep = self._keep
        row: dict[str, Any] = {
            "act": self._numbers[id(one.act)],
            "open": one.open,
            "has_stopped": one.has_stopped,
            "failures": [[index, _failure(failure, keep)] for index, failure in one.failures.items()],
            "done": [[index, [self._done(each) for each in done]] for index, done in one.done.items()],
        }
        if isinstance(one, Members):
            left = None if one.leaving is None else _leaving(one.leaving, keep)
            return {**row, "is_started": one.is_started, "has_ended": one.has_ended, "leaving": left}
        return {
            **row,
            "items": keep(one.items),
            "path": one.path,
            "next": one.next,
            "places": one.places,
            "results": [None if value is MISSING else keep(value) for value in one.results],
            "is_stopped": one.is_stopped,
            "in_turn": one.in_turn,
            "leaving": None if one.leaving is None else _leaving(one.leaving, keep),
        }


class TreeReader:
    """Makes the activations that `TreeWriter` has written, in a run that has the values of the main plan.

    Raises KeyError, IndexError, TypeError, AttributeError or ValueError for rows of another program.
    """

    def __init__(self, run: Run, data: Mapping[str, Any], give: Give) -> None:
        tree = run.tree
        assert tree is not None
        tree.layout = layout(tree.program)
        if data["layout"] != tree.layout:
            raise ValueError("it is of another program")
        self._run = run
        self._give = give
        self._containers: list[Mapping[str, Any]] = data["containers"]
        self._made: dict[int, Loop | Members] = {}
        self._tried: Mapping[str, list[Any]] = data.get("tried", {})
        """Of a snapshot by an earlier version, what attempts at CALLs have spent, by their places."""
        self.acts: list[Activation] = []
        for row in data["acts"]:
            self.acts.append(self._act(row))
        tree.main = self.acts[0]
        tree.undone = dict(data["undone"])
        tree.was_edited = data.get("was_edited", False)

    def frame(self, row: list[Any]) -> TreeFrame:
        """The frame of a call or timer."""
        _, _, visit, kind, fate, gave, (ran, is_open, failed), value, *control = row
        number: int = row[0]
        act: int = row[1]
        if number == NOWHERE:
            code = StepCode(NOWHERE, Step(str(visit).rpartition("/")[2], Call("")))
        else:
            code = self._run.program.steps[number]
        frame = TreeFrame().of(code, self.acts[act], visit)
        frame.kind, frame.fate, frame.gave = kind, None if fate is None else Fate(fate), self._give(gave)
        frame.ran, frame.open, frame.failed, frame.value = ran, is_open, frozenset(failed), self._give(value)
        frame.control = control_from_json(control[0]) if control else None
        return frame

    def _act(self, row: Mapping[str, Any]) -> Activation:
        give = self._give
        index, pc, path, is_inner, now = row["at"]
        place: int | None = row["parent"]
        if place is None:
            assert self._run.tree is not None
            act = Activation(self._run.tree.program.main, self._run.slots, path)
        else:
            parent = self.acts[place]
            role, body = self._role(row["in"], parent, index)
            slots = parent.slots if isinstance(role, Members) else [give(kept) for kept in row["slots"]]
            act = Activation(body, slots, path, parent, role, index, is_inner)
        act.pc, act.now = pc, datetime.fromisoformat(now)
        act.guards = [self._guard(guard, act) for guard in row["guards"]]
        act.pending = [self._pending(one) for one in row["pending"]]
        if row["failure"] is not None:
            failure, guard = row["failure"]
            act.failure = _read_failure(failure, give), self._guard(guard, act)
        act.yielded = give(row["yielded"])
        act.done = [self._done(one) for one in row["done"]]
        if "spent" in row:
            assert self._run.tree is not None
            act.spent = Spent(*row["spent"])
            self._run.tree.capped += 1
        if row.get("stopping") is not None:
            assert self._run.tree is not None
            act.stopping = _read_failure(row["stopping"], give)
            self._run.tree.stopping += 1
        if not 0 <= pc < max(1, len(act.body.operations)) or len(act.slots) < len(act.body.names):
            raise ValueError("a place is outside its body")
        return act

    def _guard(self, row: list[Any], act: Activation) -> Guard:
        guard = Guard(*row[:8])
        if len(row) > 8:
            spent, label = row[8]
            return guard._replace(tried=Tried(Spent(*spent), _label(label)))
        before = self._tried.get(guard.path + segment(statement_of(act.body.operations[guard.at])))
        return guard if before is None else guard._replace(tried=Tried(Spent(*before)))

    def _role(self, number: int | None, parent: Activation, index: int) -> tuple[Any, Body]:
        """What an activation is for, and its body, by where the one around it stands."""
        operation = parent.body.operations[parent.pc]
        if number is None:
            if not isinstance(operation, InvokeOp):
                raise ValueError("no sub-plan is called there")
            return operation, operation.body
        made = self._made.get(number)
        if made is None:
            made = self._made[number] = self._container(self._containers[number], parent)
        return made, made.op.body if isinstance(made, Loop) else made.op.members[index]

    def _container(self, row: Mapping[str, Any], act: Activation) -> Loop | Members:
        operation, give = act.body.operations[act.pc], self._give
        made: Loop | Members
        if isinstance(operation, LoopOp):
            made = Loop(act, operation, give(row["items"]), row["path"])
            made.next, made.is_stopped = row["next"], row["is_stopped"]
            made.in_turn = row.get("in_turn", False)
            made.places = list(row.get("places", ()))
            made.results = [MISSING if kept is None else give(kept) for kept in row["results"]]
            if len(made.results) != len(made.items):
                raise ValueError("a loop has as many results as items")
            made.leaving = None if row["leaving"] is None else _read_leaving(row["leaving"], give)
        elif isinstance(operation, ParallelOp):
            made = Members(act, operation)
            made.is_started, made.has_ended = row["is_started"], row.get("has_ended", False)
            left = row.get("leaving")
            made.leaving = None if left is None else _read_leaving(left, give)
        else:
            raise ValueError("no loop or group stands there")
        made.open, made.has_stopped = row["open"], row.get("has_stopped", False)
        made.failures = {index: _read_failure(failure, give) for index, failure in row["failures"]}
        made.done = {index: [self._done(one) for one in done] for index, done in row["done"]}
        return made

    def _pending(self, data: list[Any] | None) -> Pending:
        if data is None:
            return None
        kind, held = data
        return _read_failure(held, self._give) if kind == "failure" else _read_leaving(held, self._give)

    def _done(self, data: list[Any]) -> Done:
        step, tool, args, value, fate, label, led = data
        given = {name: self._give(kept) for name, kept in args.items()}
        return Done(step, tool, given, self._give(value), Fate(fate), _label(label), _label(led))


def _guard(guard: Guard) -> list[Any]:
    *row, tried = guard
    return row if tried is None else [*row, [[*tried.spent], _text(tried.label)]]


def _failure(failure: Failure, keep: Keep) -> list[Any]:
    return [*failure[:5], _text(failure.label), keep(failure.fields)]


def _read_failure(data: list[Any], give: Give) -> Failure:
    kind, message, step, error, attempts, label, fields = data
    return Failure(kind, message, step, error, attempts, _label(label), give(fields))


def _leaving(leaving: Leaving, keep: Keep) -> list[Any]:
    return [leaving.word.value, keep(leaving.value), *leaving[2:]]


def _read_leaving(data: list[Any], give: Give) -> Leaving:
    word, value, *rest = data
    return Leaving(Word(word), give(value), *rest)


def _text(label: Label | None) -> str | None:
    return None if label is None else str(label)


def _label(text: str | None) -> Label | None:
    return None if text is None else read_label(text)
