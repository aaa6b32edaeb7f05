"""Converts the state of a machine to JSON data and back, so that a run can continue without its past events.

In: the state (`Run`). Out: data from which the same state can be restored with a program of the same plan.
Values are passed to the caller one by one, who may store them elsewhere; the program is not included, only
its fingerprint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import sha256
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from callsheet.ir import JSON
from callsheet.machine.agents.talk import (
    InnerCall,
    Talk,
    call_from_json,
    call_to_json,
    talk_from_json,
    talk_to_json,
)
from callsheet.machine.ahead.state import ahead_from_json, ahead_to_json
from callsheet.machine.budget import Budget, Refusal
from callsheet.machine.frames import SKIPPED, Attempt, Control, End, Frame, Group, Jump, NewPlan
from callsheet.machine.limits import Limits
from callsheet.machine.program import Program
from callsheet.machine.progress import Planning
from callsheet.machine.result import Status
from callsheet.machine.run import Run
from callsheet.machine.schedule import Schedule

if TYPE_CHECKING:
    from callsheet.machine.frames import TreeFrame
    from callsheet.machine.monitor.enforcement import Enforcement
    from callsheet.machine.monitor.trees import TreeMonitor
    from callsheet.machine.tree.snapshots import TreeWriter

FORMAT = 2
"""The version of the data; others cannot be read."""

Keep: TypeAlias = "Callable[[JSON], JSON]"
"""Returns what represents a value in the data; never null."""
Give: TypeAlias = "Callable[[Any], JSON]"
"""Returns the value for its representation in the data."""


class NotRestorable(ValueError):
    """Data from which no state of this program can be restored."""


def state_to_json(state: Run, keep: Keep = lambda value: [value]) -> dict[str, Any] | None:
    """A state as JSON data; None if no snapshot can be taken now, but after some more events.

    That is the case while a new plan waits for other members of its group, while early calls are in a state
    that cannot be stored (see `ahead.state`), while a plan tree is paused or ends, and while a value is held
    that JSON data cannot hold.
    """
    members = state.members()
    frames = _frames_of(state)
    if any(isinstance(frame.control, NewPlan) for frame in frames):
        return None

    tree = None
    unstorable: tuple[type[Exception], ...] = (RecursionError,)
    if state.tree is not None:
        if state.tree.paused or state.tree.ending is not None:
            return None
        from callsheet.machine.expressions import ExpressionFailed  # noqa: PLC0415 - only for version 2

        unstorable = (ExpressionFailed, RecursionError)
        tree, keep = _tree_writer(state, frames, keep)
    try:
        return _written(state, frames, members, tree, keep)
    except unstorable:
        return None


def _written(
    state: Run, frames: list[Frame], members: list[Frame], tree: TreeWriter | None, keep: Keep
) -> dict[str, Any] | None:
    numbers = {id(frame): number for number, frame in enumerate(frames)}
    talks = _talks_of(state)
    places = {id(talk): number for number, talk in enumerate(talks)}

    def call(attempt: Attempt) -> list[Any]:
        return call_to_json(attempt, numbers[id(attempt.frame)], places, keep)

    def attempts(of: Iterable[Attempt]) -> list[list[Any]]:
        return [call(attempt) for attempt in of]

    ahead = None if state.ahead is None else ahead_to_json(state.ahead.state, keep)
    if ahead is None and state.ahead is not None:
        return None
    slots, was_set, extra = state.scope.parts()
    group = state.group
    return {
        "format": FORMAT,
        "program": _fingerprint(state.program),
        "slots": [
            keep(value) if is_set or (tree is not None and value is not None) else None
            for value, is_set in zip(slots, was_set, strict=True)
        ],
        "extra": {name: keep(value) for name, value in extra.items()},
        "visits": _counted(state.visits),
        "pc": state.pc,
        "generation": state.generation,
        "limits": state.budget.limits.to_json(),
        "used": state.budget.counts(),
        "last": keep(state.last),
        "frames": [
            _frame_to_json(frame, keep) if tree is None else tree.frame(cast("TreeFrame", frame))
            for frame in frames
        ],
        **(
            {}
            if tree is None
            else {"tree": {**tree.to_json(), "set": _counted(was_set), "parts": state.trees}}
        ),
        "group": None
        if group is None
        else [group.next, group.end, group.open, [numbers[id(frame)] for frame in members]],
        "attempts": attempts(state.calls()),
        "asleep": attempts(state.asleep.values()),
        "compiling": attempts(state.compiling.values()),
        "asking": [[*call(attempt), asked.digest] for attempt, asked in state.asking.open()],
        "counts": state.asking.counts((*state.attempts, *state.inner, *state.asking.keys())),
        "planning": None if state.planning is None else _planning_to_json(state.planning, keep),
        "plans_asked": state.plans_asked,
        "schedule": None if state.schedule is None else _schedule_to_json(state.schedule, keep),
        **({"failed_steps": [*state.failed_steps]} if state.failed_steps else {}),
        **({} if ahead is None else {"ahead": ahead}),
        **_monitor_to_json(state, tree),
        **({"talks": [talk_to_json(talk, numbers[id(talk.frame)], keep) for talk in talks]} if talks else {}),
        **({"inner": attempts(state.inner.values())} if state.inner else {}),
    }


def state_from_json(
    program: Program,
    data: Mapping[str, Any],
    give: Give = lambda kept: kept[0],
    enforcement: Enforcement | None = None,
) -> Run:
    """The state that data tells of; raises NotRestorable if it is not such of this program.

    `enforcement` is the policy that the run is under.
    """
    try:
        if data["format"] != FORMAT or data["program"] != _fingerprint(program):
            raise NotRestorable("it belongs to another version or another plan")
        return _read(program, data, give, enforcement)
    except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
        raise NotRestorable(f"its state cannot be read: {error!r}") from error


def _tree_writer(state: Run, frames: list[Frame], keep: Keep) -> tuple[TreeWriter, Keep]:
    from callsheet.machine.tree.snapshots import TreeWriter, keeps  # noqa: PLC0415 - only for version 2

    keep = keeps(keep)
    return TreeWriter(state, cast("list[TreeFrame]", frames), keep), keep


def _monitor_to_json(state: Run, tree: TreeWriter | None) -> dict[str, Any]:
    if state.monitor is None:
        return {}
    if tree is not None:
        from callsheet.machine.monitor.snapshot import tree_monitor_to_json  # noqa: PLC0415 - as below

        return {"monitor": tree_monitor_to_json(cast("TreeMonitor", state.monitor), tree.acts)}
    from callsheet.machine.monitor.snapshot import monitor_to_json  # noqa: PLC0415 - only under a policy

    return {"monitor": monitor_to_json(state.monitor)}


def _read(program: Program, data: Mapping[str, Any], give: Give, enforcement: Enforcement | None) -> Run:
    tree_data: Mapping[str, Any] | None = data.get("tree")
    if (program.tree is None) != (tree_data is None):
        raise NotRestorable("it belongs to a plan of another version")
    if tree_data is not None:
        from callsheet.machine.tree.snapshots import gives  # noqa: PLC0415 - only for version 2

        give = gives(give)
    values = [(kept is not None, None if kept is None else give(kept)) for kept in data["slots"]]
    was_set = [is_set for is_set, _ in values] if tree_data is None else _uncounted(tree_data["set"])
    run = Run(program, Limits.from_json(data["limits"]), None, (), enforcement=enforcement)
    run.is_started = True
    if (run.monitor is None) != ("monitor" not in data):
        raise NotRestorable("it belongs to a run under another policy")
    run.scope.restore(
        [value for _, value in values],
        bytearray(was_set),
        {name: give(kept) for name, kept in data["extra"].items()},
    )
    frames = _read_steps(run, data, give) if tree_data is None else _read_tree(run, tree_data, data, give)
    visits = _uncounted(data["visits"])
    if len(visits) != len(program.steps):
        raise NotRestorable("it counts steps that the plan does not have")
    group: Group | None = None
    if data["group"] is not None:
        following, end, is_open, members = data["group"]
        group = Group(following, end)
        group.open = is_open
        group.frames = [frames[n] for n in members]

    talks = [talk_from_json(item, frames, give) for item in data.get("talks", ())]
    if run.monitor is not None:
        for talk in talks:
            run.monitor.narrow(talk)

    def call(item: list[Any]) -> Attempt:
        return call_from_json(item, frames, talks, give)

    def attempts(name: str) -> dict[str, Attempt]:
        return {one.key: one for one in map(call, data[name])}

    run.visits, run.pc, run.generation, run.group = visits, data["pc"], data["generation"], group
    run.budget = Budget.at(run.limits, data["used"])
    run.last = give(data["last"])
    run.failed_steps = dict.fromkeys(map(str, data.get("failed_steps", ())))
    run.attempts = {**attempts("attempts")}
    run.asleep, run.compiling = attempts("asleep"), attempts("compiling")
    for item in data.get("inner", ()):
        run.register(call(item))
    asking = [(call(item[:-1]), str(item[-1])) for item in data["asking"]]
    admitted = {} if run.monitor is None else run.monitor.open_calls.calls
    run.asking.restore(asking, data["counts"], program, admitted)
    if data["planning"] is not None:
        key, end, refused = data["planning"]
        run.planning = Planning(str(key), _end_from_json(end), str(give(refused)))
    run.plans_asked = int(data["plans_asked"])
    if run.schedule is not None:
        _put_schedule(run, run.schedule, data["schedule"], give)
    if run.ahead is not None:
        run.ahead.state = ahead_from_json(program, data["ahead"], give)
    return run


def _read_steps(run: Run, data: Mapping[str, Any], give: Give) -> list[Frame]:
    """Restore the labels of a plan of steps; gives the frames of its open calls."""
    if run.monitor is not None:
        from callsheet.machine.monitor.snapshot import put_monitor  # noqa: PLC0415 - only under a policy

        put_monitor(run.monitor, data["monitor"])
    return [_frame_from_json(run.program, item, give) for item in data["frames"]]


def _read_tree(run: Run, tree: Mapping[str, Any], data: Mapping[str, Any], give: Give) -> list[Frame]:
    """Restore the activations of a plan tree; gives the frames of its open calls."""
    from callsheet.machine.tree.snapshots import TreeReader  # noqa: PLC0415 - only for version 2

    reader = TreeReader(run, tree, give)
    run.trees = int(tree.get("parts", 1))
    if run.monitor is not None:
        from callsheet.machine.monitor.snapshot import put_tree_monitor  # noqa: PLC0415 - under a policy

        put_tree_monitor(cast("TreeMonitor", run.monitor), reader.acts, data["monitor"])
    return [reader.frame(item) for item in data["frames"]]


def _put_schedule(run: Run, schedule: Schedule, data: Mapping[str, Any], give: Give) -> None:
    done = bytearray(_uncounted(data["done"]))
    if len(done) != len(run.program.steps):
        raise NotRestorable("it counts steps that the plan does not have")
    failures = {number: str(give(error)) for number, error in data["failures"]}
    under_way = {frame.code.number for frame in _frames_of(run)}
    stop: list[Any] | None = data["stop"]
    halt = None if stop is None else (int(stop[0]), _end_from_json(stop[1]))
    answer = None if data["answer"] is None else _end_from_json(data["answer"])
    schedule.restore(done, failures, answer, halt, under_way)


def _end_from_json(data: list[Any]) -> End:
    control = control_from_json(data)
    if not isinstance(control, End):
        raise NotRestorable("a graph ends with something other than an end")
    return control


def _schedule_to_json(schedule: Schedule, keep: Keep) -> dict[str, Any]:
    done, failures, answer, stop = schedule.parts()
    return {
        "done": _counted(done),
        "failures": [[number, keep(error)] for number, error in failures.items()],
        "answer": control_to_json(answer),
        "stop": None if stop is None else [stop[0], control_to_json(stop[1])],
    }


def _planning_to_json(planning: Planning, keep: Keep) -> list[Any]:
    return [planning.key, control_to_json(planning.end), keep(planning.refused)]


def _counted(numbers: Iterable[int]) -> list[int]:
    """Each number and the length of its run of repetitions."""
    return [n for value, run in groupby(numbers) for n in (value, len(list(run)))]


def _uncounted(counted: list[int]) -> list[int]:
    return [n for n, times in zip(counted[::2], counted[1::2], strict=True) for _ in range(times)]


def _fingerprint(program: Program) -> str:
    """What the numbers in the data depend on: the ids of the steps and the names of the variables."""
    texts = [*[step.id for step in program.plan.steps], "", *program.names]
    return sha256("\n".join(texts).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _frames_of(state: Run) -> list[Frame]:
    """The frames that something refers to, each once."""
    frames: dict[int, Frame] = {}
    for frame in state.members():
        frames[id(frame)] = frame
    for attempt in _calls_of(state):
        frames[id(attempt.frame)] = attempt.frame
    return list(frames.values())


def _calls_of(state: Run) -> Iterator[Attempt]:
    """All that is under way, waits, or is asked about."""
    yield from state.calls()
    yield from state.inner.values()
    yield from state.asleep.values()
    yield from state.compiling.values()
    yield from (attempt for attempt, _ in state.asking.open())


def _talks_of(state: Run) -> list[Talk]:
    """The operations that go turn by turn and are under way, each once."""
    talks: dict[int, Talk] = {}
    for attempt in _calls_of(state):
        talk = attempt.talk if isinstance(attempt, InnerCall) else attempt
        if isinstance(talk, Talk):
            talks[id(talk)] = talk
    return list(talks.values())


def _frame_to_json(frame: Frame, keep: Keep) -> list[Any]:
    return [
        frame.code.number,
        frame.prefix,
        frame.grouped,
        None if frame.items is None else keep(frame.items),
        [None if result is SKIPPED else keep(result) for result in frame.results],
        frame.next,
        frame.open,
        frame.stopped,
        frame.ran,
        sorted(frame.failed),
        keep(frame.value),
        control_to_json(frame.control),
    ]


def _frame_from_json(program: Program, data: list[Any], give: Give) -> Frame:
    number: int = data[0]
    _, prefix, grouped, items, results, following, is_open, stopped, ran, failed, value, control = data
    frame = Frame().begin(program.steps[number], prefix, grouped)
    if items is not None:
        list_items = give(items)
        if not isinstance(list_items, list):
            raise NotRestorable("the items of a loop are no list")
        frame.items = list_items
    frame.results = [SKIPPED if kept is None else give(kept) for kept in results]
    frame.next = following
    frame.open = is_open
    frame.stopped = stopped
    frame.ran = ran
    frame.failed = frozenset(failed)
    frame.value = give(value)
    frame.control = control_from_json(control)
    return frame


def control_to_json(control: Control | None) -> list[Any] | None:
    """How a frame changes the control flow, as JSON data."""
    match control:
        case None:
            return None
        case Jump(number=number, target=target):
            return ["jump", number, target]
        case End():
            return ["end", *control[:-1]]  # frames of plan trees, which alone have answers, hold refusals
        case NewPlan():
            raise ValueError("a new plan is missing in the data")


def control_from_json(data: list[Any] | None) -> Control | None:
    """What `control_to_json` has written."""
    if data is None:
        return None
    kind, *rest = data
    if kind == "jump":
        return Jump(*rest)
    status, *more, refusal = rest
    return End(Status(status), *more, refusal=None if refusal is None else Refusal(*refusal))
