"""What a step waits for when calls run ahead, and why: the dependencies between the steps of a plan."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from enum import StrEnum
from typing import Any

from callsheet.ir import Call, Effect, Goto, Order, Plan, Replan, Respond, Step, Terminate
from callsheet.ir.flow import Place, uses_of
from callsheet.ir.plan import flat
from callsheet.lazy import NamedTuple, dataclass
from callsheet.machine.compiling import compile_plan
from callsheet.machine.program import NOWHERE, Kind, Program, StepCode, ToolFacts


class StepTraits(NamedTuple):
    """What a step may do, as far as the order of steps is concerned.

    `control` says how it may lead elsewhere than to the next step, "" if it cannot; `why` says why its calls
    start only in its turn, "" if they may start before it.
    """

    may_lead: bool = False
    """Whether its calls may be issued before its turn."""
    looks: bool = False
    """Whether it reads the outside world, so that it has to see what earlier steps wrote."""
    may_write: bool = False
    control: str = ""
    why: str = ""


class Read(NamedTuple):
    """A variable that a step reads, and the nearest earlier step that may set it (or NOWHERE)."""

    name: str
    slot: int
    setter: int


@dataclass(slots=True)
class Dependencies:
    """The natures of the steps of a plan, and the earlier steps that each depends on."""

    natures: list[StepTraits]
    asks: list[tuple[Read, ...]]
    """What the condition of each step reads, unless it is evaluated per item.

    This list and those below are empty if no call may be issued before its turn.
    """
    takes: list[tuple[Read, ...]]
    """What else each step reads before its calls; not filled in for steps that start only in their turn."""
    setter_before: list[int]
    """For a step that sets a variable, the nearest earlier step that may set it."""
    writer_before: list[int]
    """The nearest step before each step, or before its group, that may write."""
    writer_link: list[int]
    """As `writer_before`, but including steps of its own group."""
    control_before: list[int]
    """The nearest step before each step, or before its group, that may lead elsewhere."""
    is_of_use: bool = False
    """Whether some step may start before the one above it has ended."""


def links_of(program: Program, gated: Collection[int] = ()) -> Dependencies:
    """The links of a program in text order; `gated` are the numbers of steps whose calls need an approval."""
    steps = program.plan.steps
    natures = [nature_of(steps[code.number], code, is_gated=code.number in gated) for code in program.steps]
    walk = _Walk(program, natures)
    if any(nature.may_lead for nature in natures):
        for code in program.steps:
            walk.add_step(code)
    return walk.links


class _Walk:
    """One pass over the steps; what a group sets and writes counts from behind its last member."""

    def __init__(self, program: Program, natures: list[StepTraits]) -> None:
        self.links = Dependencies(natures, [], [], [], [], [], [])
        self._program = program
        self._setter: dict[int, int] = {}
        self._writer = self._control = self._last_writer = NOWHERE
        self._group: list[StepCode] = []

    def add_step(self, code: StepCode) -> None:
        """Add the links of the next step."""
        links = self.links
        nature = links.natures[code.number]
        if nature.may_lead or code.condition is not None:
            self._note_reads(self._program.plan.steps[code.number], code)
        else:
            links.asks.append(())
            links.takes.append(())
        links.setter_before.append(NOWHERE)
        links.writer_before.append(self._writer)
        links.control_before.append(self._control)
        links.writer_link.append(self._last_writer)
        if nature.may_write:
            self._last_writer = code.number
        self._group.append(code)
        if nature.may_lead and not links.is_of_use:
            links.is_of_use = not self._waits_for_the_last(code, nature)
        if code.group_end == code.number + 1:
            self._leave_group()

    def _note_reads(self, step: Step, code: StepCode) -> None:
        asks: dict[str, Read] = {}
        takes: dict[str, Read] = {}
        for use in uses_of(step, code.number):
            if use.place is not Place.FAILURE:
                once = use.place is Place.CONDITION and step.foreach is None
                slot = self._program.slot_of[use.ref.name]
                (asks if once else takes)[use.ref.name] = Read(
                    use.ref.name, slot, self._setter.get(slot, NOWHERE)
                )
        self.links.asks.append(tuple(asks.values()))
        self.links.takes.append(tuple(takes.values()))

    def _waits_for_the_last(self, code: StepCode, nature: StepTraits) -> bool:
        """Whether the step cannot start before the one just above it, or above its group, has ended.

        False if the one above may be skipped, since then it need not be waited for.
        """
        last = self._group[0].number - 1
        above = self._program.steps[last]
        if last >= 0 and above.condition is not None and above.source is None:
            return False
        if last < 0 or self._control == last or (nature.looks and self._writer == last):
            return True
        links = self.links
        return any(read.setter == last for read in (*links.asks[code.number], *links.takes[code.number]))

    def _leave_group(self) -> None:
        """Let what the members set and may do apply to the steps that follow."""
        links = self.links
        for code in self._group:
            nature = links.natures[code.number]
            if nature.may_write:
                self._writer = code.number
            if nature.control:
                self._control = code.number
            if code.out_slot != NOWHERE:
                links.setter_before[code.number] = self._setter.get(code.out_slot, NOWHERE)
                self._setter[code.out_slot] = code.number
        self._group.clear()


_FREE = StepTraits(may_lead=True)
_LOOKS = StepTraits(may_lead=True, looks=True)
_WRITES = StepTraits(may_write=True, why="it may write")
_GATED = StepTraits(may_write=True, why="a person is asked first")
_ASKS = StepTraits(may_write=True, why="it asks a person")
_AGENT = StepTraits(may_write=True, why="an agent may write")
_IN_TURNS = StepTraits(why="it goes turn by turn")
_SAME_ID = StepTraits(may_write=True, why="another step has its id")
_LEADS_ELSEWHERE = "may lead elsewhere if it fails"


def nature_of(step: Step, code: StepCode, *, is_gated: bool = False) -> StepTraits:
    """The nature of a step; one that needs an approval counts as a write: the person may act meanwhile."""
    match step.action:
        case Call():
            nature = _GATED if is_gated else _nature_of_call(code)
        case Goto():
            return StepTraits(control="may jump", why="it jumps")
        case Replan():
            return StepTraits(control="may make a new plan", why="it makes a new plan")
        case Respond() | Terminate():
            return StepTraits(control="may end the run", why="it ends the run")
    if step.after_failure.leaves:
        return nature._replace(control=_LEADS_ELSEWHERE)
    return nature


def _nature_of_call(code: StepCode) -> StepTraits:
    if code.identity != code.number:
        return _SAME_ID
    if code.kind is Kind.ASK:
        return _ASKS
    if code.kind is Kind.AGENT:
        return _AGENT
    if code.loop is not None:
        return _IN_TURNS
    if not code.effect.only_reads:
        return _WRITES
    return _LOOKS if code.effect is Effect.READ else _FREE


_MOST_SETTERS = 4
"""The most steps named for one variable, or as writers; earlier ones are left out."""


class Cause(StrEnum):
    """Why a step waits for another."""

    DATA = "data"
    """It reads a variable that the other may set."""
    WORLD = "world"
    """It reads the outside world, and the other may write to it."""
    CONTROL = "control"
    """The other may lead elsewhere, so that the step might not be reached."""
    DEPENDENCY = "dependency"
    """It names the other among its dependencies."""


class Wait(NamedTuple):
    """One step that another waits for; `words` say why, to follow the step's name."""

    step: str
    cause: Cause
    words: str
    variables: tuple[str, ...] = ()


class StepSchedule(NamedTuple):
    """When a step starts.

    If `turn` is not empty, in its turn, when all steps before it are done; `turn` says why (as in "it may
    write"). Otherwise as soon as all that it `waits` for is settled. A step of a group (`is_member`) has its
    turn together with the group.
    """

    step: str
    waits: tuple[Wait, ...]
    turn: str = ""
    is_member: bool = False

    def describe(self) -> str:
        """The schedule of the step in one line.

        >>> StepSchedule("S4", ()).describe(), StepSchedule("S5", (), "it may write").describe()
        ('S4 starts at once', 'S5 waits for all before it: it may write')
        >>> waits = Wait("S2", Cause.DATA, "$b", ("b",)), Wait("S5", Cause.WORLD, "may write")
        >>> StepSchedule("S6", waits).describe()
        'S6 waits for S2 ($b) and S5 (may write)'
        """
        if self.turn:
            return f"{self.step} waits for all before {'its group' if self.is_member else 'it'}: {self.turn}"
        if not self.waits:
            return f"{self.step} starts at once"
        named = [f"{wait.step} ({wait.words})" for wait in self.waits]
        return f"{self.step} waits for {_and(named)}"

    def to_json(self) -> dict[str, Any]:
        """The schedule of the step as JSON data."""
        waits: list[dict[str, Any]] = [
            {"step": w.step, "cause": str(w.cause), "why": w.words}
            | ({"variables": list(w.variables)} if w.variables else {})
            for w in self.waits
        ]
        return {
            "step": self.step,
            "starts": "in turn" if self.turn else "early",
            "why": self.turn or None,
            "waits": waits,
        }


def schedule_of(
    plan: Plan,
    facts: Mapping[str, ToolFacts],
    asks_first: Callable[[str, str], bool] = lambda tool, step: False,
) -> list[StepSchedule]:
    """What each step waits for on the schedule `auto`, in text order.

    `asks_first` says for a tool and a step that calls it whether that needs an approval. In a graph each step
    waits for its dependencies. Raises CallsheetError (RUN001) for a graph that cannot be run.
    """
    program = compile_plan(flat(plan, "the schedule of steps"), facts)
    if plan.order is Order.DAG:
        return [
            StepSchedule(
                step.id,
                tuple(
                    Wait(name, Cause.DEPENDENCY, "it depends on it")
                    for name in dict.fromkeys(step.depends_on or ())
                ),
            )
            for step in plan.steps
        ]
    gated = {code.number for code in program.steps if code.tool and asks_first(code.tool, code.id)}
    links = links_of(program, gated)
    firsts: dict[int, int] = {}
    for number, step in enumerate(plan.steps):
        if step.group is not None:
            firsts.setdefault(step.group, number)
    return [
        _schedule_of(number, program, links, None if step.group is None else firsts[step.group])
        for number, step in enumerate(plan.steps)
    ]


def _schedule_of(number: int, program: Program, links: Dependencies, group: int | None) -> StepSchedule:
    """When a step starts; `group` is the first step of its group, if it is in one."""
    name = program.steps[number].id
    nature = links.natures[number]
    if not nature.may_lead:
        is_first = (number if group is None else group) == 0
        return StepSchedule(name, (), "" if is_first else nature.why, is_member=group is not None)
    causes: dict[int, tuple[Cause, list[str]]] = {}
    for read in (*links.asks[number], *links.takes[number]):
        for setter in _chain(read.setter, links.setter_before, program):
            _, variables = causes.setdefault(setter, (Cause.DATA, []))
            if read.name not in variables:
                variables.append(read.name)
    waits = [
        (n, Wait(program.steps[n].id, cause, ", ".join(f"${v}" for v in names), tuple(names)))
        for n, (cause, names) in causes.items()
    ]
    if nature.looks:
        waits += [
            (writer, Wait(program.steps[writer].id, Cause.WORLD, _may_write(links.natures[writer].why)))
            for writer in _chain(links.writer_before[number], links.writer_link, program)
        ]
    control = links.control_before[number]
    if control != NOWHERE:
        waits.append(
            (control, Wait(program.steps[control].id, Cause.CONTROL, links.natures[control].control))
        )
    return StepSchedule(name, tuple(wait for _, wait in sorted(waits, key=lambda item: item[0])))


def _chain(nearest: int, before: list[int], program: Program) -> list[int]:
    """A step and the earlier ones that count if it is skipped, up to one that is never skipped."""
    chain: list[int] = []
    while nearest != NOWHERE and len(chain) < _MOST_SETTERS:
        chain.append(nearest)
        code = program.steps[nearest]
        if code.condition is None or code.source is not None:
            break
        nearest = before[nearest]
    return chain


def _may_write(why: str) -> str:
    return why.removeprefix("it ")


def _and(named: list[str]) -> str:
    return named[0] if len(named) == 1 else f"{', '.join(named[:-1])} and {named[-1]}"
