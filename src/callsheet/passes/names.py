"""Names: ids of steps, variables that are set before they are read, shadowed and initial ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from itertools import chain

from callsheet.diagnostics import Severity
from callsheet.ir import (
    And,
    Condition,
    DictExpr,
    IsEmpty,
    ListExpr,
    Literal,
    Not,
    NotEmpty,
    Or,
    Order,
    Ref,
    Value,
)
from callsheet.ir.flow import Definition, Flow, Place, Use
from callsheet.ir.graphs import NONE, spans_below
from callsheet.passes.finding import PLACES, Finding, Subject, Suggestion

_STEPS_PER_NODE = 10
_LEAST_BUDGET = 200_000


class Known(Enum):
    """On which paths to a read the variable is set."""

    ALWAYS = "set on every path to the read"
    SOMETIMES = "set on some paths to the read"
    NEVER = "set on no path to the read"


def settle(flow: Flow, uses: Sequence[Use]) -> list[Known]:
    """The verdict for each use, in the order given; NEVER for uses in unreachable steps."""
    order, dominator = flow.dominators()
    verdicts = _Above(flow, spans_below(order, dominator)).judge(uses)
    search = _Search(flow, dominator)
    return [
        verdict if verdict is not None else search.judge(use)
        for use, verdict in zip(uses, verdicts, strict=True)
    ]


class _Above:
    """Decides uses by dominance: a node's subtree in the dominator tree is a range of preorder numbers."""

    def __init__(self, flow: Flow, spans: tuple[list[int], list[int]]) -> None:
        self._flow = flow
        self._first, self._last = spans

    def judge(self, uses: Sequence[Use]) -> list[Known | None]:
        """ALWAYS if a definition that always takes effect (`sure`) dominates the use; None if undecided.

        SOMETIMES if only conditional definitions dominate it and no sure one exists anywhere.
        """
        verdicts: list[Known | None] = [None] * len(uses)
        several: dict[str, list[int]] = {}
        first, last, definitions = self._first, self._last, self._flow.definitions
        always, sometimes = Known.ALWAYS, Known.SOMETIMES
        for number, use in enumerate(uses):
            setting = definitions[use.ref.name]
            if len(setting) > 1:
                several.setdefault(use.ref.name, []).append(number)
                continue
            (only,) = setting
            if first[only.committed] < first[use.step] <= last[only.committed]:
                verdicts[number] = always if only.sure else sometimes
        for name, numbers in several.items():
            sure = [d for d in definitions[name] if d.sure]
            verdict = always if sure else sometimes
            for number in self._below(sure or definitions[name], uses, numbers):
                verdicts[number] = verdict
        return verdicts

    def _below(
        self, definitions: Sequence[Definition], uses: Sequence[Use], numbers: list[int]
    ) -> Iterator[int]:
        """The uses that at least one of the definitions dominates, found in one sweep over both."""
        first = self._first
        spans = sorted((first[d.committed], self._last[d.committed]) for d in definitions)
        opened = covered = 0
        for number in sorted(numbers, key=lambda number: first[uses[number].step]):
            place = first[uses[number].step]
            while opened < len(spans) and spans[opened][0] < place:
                covered = max(covered, spans[opened][1])
                opened += 1
            if 0 < place <= covered:
                yield number


class _Search:
    """Backward searches from single uses, sharing one budget."""

    def __init__(self, flow: Flow, dominator: list[int]) -> None:
        self._flow = flow
        self._reached = [above != NONE for above in dominator]
        self._budget = max(_LEAST_BUDGET, _STEPS_PER_NODE * len(dominator))
        self._known: dict[tuple[int, str], Known] = {}
        self._setting: dict[str, dict[int, bool]] = {}

    def judge(self, use: Use) -> Known:
        """Whether a definition reaches the use, and whether the entry reaches it without one."""
        if not self._reached[use.step]:
            return Known.NEVER
        at = (use.step, use.ref.name)
        if at not in self._known:
            self._known[at] = self._look(*at)
        return self._known[at]

    def _setters(self, name: str) -> dict[int, bool]:
        """The nodes that set the variable, each with whether it always does so."""
        if name not in self._setting:
            definitions = sorted(self._flow.definitions[name], key=lambda d: d.sure)
            self._setting[name] = {d.committed: d.sure for d in definitions}
        return self._setting[name]

    def _look(self, step: int, name: str) -> Known:
        flow = self._flow
        sure, entry, predecessors, reached = self._setters(name), flow.entry, flow.predecessors, self._reached
        set_somewhere = unset_somewhere = False
        seen = {step}
        stack = [step]
        first = True
        while stack and not (set_somewhere and unset_somewhere):
            node = stack.pop()
            self._budget -= 1
            if self._budget < 0:
                return Known.ALWAYS
            if not first and node in sure:
                set_somewhere = True
                if sure[node]:
                    continue
            first = False
            for before in predecessors[node]:
                if before == entry:
                    unset_somewhere = True
                elif reached[before] and before not in seen:
                    seen.add(before)
                    stack.append(before)
                elif before == step and before in sure:
                    set_somewhere = True
        if not set_somewhere:
            return Known.NEVER
        return Known.SOMETIMES if unset_somewhere else Known.ALWAYS


def unset_variables(subject: Subject) -> Iterator[Finding]:
    """CHK001: no step sets the variable; CHK002: none before the read; CHK003: not on every path to it.

    No CHK003 for a condition that tests whether the variable is empty, nor for what the step does only
    if it is not empty. At most one finding per variable and part of a step. A dependency-ordered plan
    gets only CHK001 here, as an error; the order of its reads is checked by `graph`.
    """
    given = subject.given
    definitions = subject.flow.definitions
    defined: list[Use] = []
    seen: set[str] = set()
    at: tuple[int, Place | None] = (-1, None)
    for use in subject.uses:
        step, ref, place = use
        if step != at[0] or place is not at[1]:  # the reads of one part of a step are adjacent
            at = (step, place)
            seen.clear()
        name = ref.name
        if name in given or name in seen:
            continue
        seen.add(name)
        if name in definitions:
            defined.append(use)
        else:
            yield _set_nowhere(subject, use)
    if subject.plan.order is Order.TEXT and defined:
        always = Known.ALWAYS
        for use, known in zip(defined, settle(subject.flow, defined), strict=True):
            if known is always:
                continue
            if known is Known.NEVER:
                yield _set_later(subject, use)
            elif not _asked_for(subject, use):
                yield _set_sometimes(subject, use)


def _set_nowhere(subject: Subject, use: Use) -> Finding:
    name = use.ref.name
    foreach = subject.plan.steps[use.step].foreach
    own = (foreach.var,) if foreach is not None else ()
    help_ = subject.suggest(name, chain(own, subject.flow.definitions, subject.given), "$")
    if subject.plan.order is Order.DAG:
        hint = f'give it with --var {name}=…, put it into "variables", or set it with a step'
        return _finding("CHK001", Severity.ERROR, f"no step sets ${name}", use, help_ or hint)
    return _finding("CHK001", Severity.WARNING, f"no step sets ${name}", use, help_ or _from_outside(name))


def _set_later(subject: Subject, use: Use) -> Finding:
    name = use.ref.name
    setter = subject.plan.steps[subject.flow.definitions[name][0].step].id
    own = subject.plan.steps[use.step].id
    what = (
        f"only {own} itself sets ${name}" if setter == own else f"{setter} sets ${name}, but not before {own}"
    )
    return _finding("CHK002", Severity.WARNING, what, use, "read it after the step that sets it")


def _set_sometimes(subject: Subject, use: Use) -> Finding:
    name = use.ref.name
    return _finding(
        "CHK003",
        Severity.HINT,
        f"${name} is not set on every path to {subject.plan.steps[use.step].id}",
        use,
        f"where it is not, it is null; test it with ?IF (NOT_EMPTY(${name})) if that matters",
    )


def _asked_for(subject: Subject, use: Use) -> bool:
    """Whether the step's own condition tests that the variable has a value before the step relies on it."""
    condition = subject.plan.steps[use.step].condition
    if condition is None or use.place is Place.SOURCE:
        return False
    if use.place is Place.CONDITION:
        return use.ref.name in _questioned(condition)
    return use.ref.name in _not_empty_where(condition, holds=True)


def _questioned(condition: Condition) -> frozenset[str]:
    """The variables that the condition tests for emptiness."""
    match condition:
        case IsEmpty(value=Ref(name=name)) | NotEmpty(value=Ref(name=name)):
            return frozenset((name,))
        case Not(condition=inner):
            return _questioned(inner)
        case And(conditions=several) | Or(conditions=several):
            return frozenset[str]().union(*map(_questioned, several))
        case _:
            return frozenset()


def _not_empty_where(condition: Condition, *, holds: bool) -> frozenset[str]:
    """The variables that are certainly not empty if the condition is true (`holds`) or false."""
    match condition:
        case NotEmpty(value=Ref(name=name)) if holds:
            return frozenset((name,))
        case IsEmpty(value=Ref(name=name)) if not holds:
            return frozenset((name,))
        case Not(condition=inner):
            return _not_empty_where(inner, holds=not holds)
        case And(conditions=several) | Or(conditions=several):
            each = [_not_empty_where(one, holds=holds) for one in several]
            if isinstance(condition, And) is holds:
                return frozenset[str]().union(*each)
            return each[0].intersection(*each[1:])
        case _:
            return frozenset()


def _from_outside(name: str) -> str:
    return f"it is null here; give it with --var {name}=… or set it with a step"


def _finding(
    code: str, severity: Severity, message: str, use: Use, help_: str | Suggestion | None
) -> Finding:
    return Finding(
        code,
        severity,
        f"{message} ({PLACES[use.place]})",
        use.step,
        use.ref.span,
        help_,
        (use.ref.name,),
        use.place,
    )


def shadowing(subject: Subject) -> Iterator[Finding]:
    """CHK005 for a FOREACH whose loop variable is also set by a step or given to the plan."""
    given = subject.given
    definitions = subject.flow.definitions
    steps = subject.plan.steps
    for number, step in enumerate(steps):
        if step.foreach is None:
            continue
        name = step.foreach.var
        setters = definitions.get(name)
        if name in given or setters:
            where = f"that {steps[setters[0].step].id} sets" if setters else "given to the plan"
            yield Finding(
                "CHK005",
                Severity.WARNING,
                f"the loop variable ${name} hides the ${name} {where}",
                number,
                step.foreach.span,
                "give the loop variable a name of its own",
                (name,),
            )


def missing_parts(subject: Subject) -> Iterator[Finding]:
    """CHK064 for a path that leads nowhere in an initial variable; dependency-ordered plans only.

    Variables that a step sets or that are inputs of the run are skipped: their value may differ by then.
    """
    if subject.plan.order is not Order.DAG:
        return
    fixed = {
        name: value
        for name, value in subject.plan.variables
        if name not in subject.inputs and name not in subject.flow.definitions
    }
    for use in subject.uses:
        value = fixed.get(use.ref.name)
        if value is None or not use.ref.path or _holds(value, use.ref):
            continue
        written = use.ref.dotted
        yield Finding(
            "CHK064",
            Severity.ERROR,
            f"${{{written}}} does not exist",
            use.step,
            use.ref.span,
            _known(subject, value, use.ref),
            (use.ref.name, written),
            use.place,
        )


def _holds(value: Value, ref: Ref) -> bool:
    """Whether the path may lead to a value; a string may contain JSON, so any path into it is accepted."""
    return _walk(value, ref)[1] == len(ref.path)


def _walk(value: Value, ref: Ref) -> tuple[Value, int]:
    """The last value that the path reaches, and how many of its parts were followed."""
    for depth, part in enumerate(ref.path):
        match value:
            case DictExpr(items=pairs):
                member = next((item for key, item in pairs if key == str(part)), None)
            case ListExpr(items=items) if isinstance(part, int) and -len(items) <= part < len(items):
                member = items[part]
            case Literal(value=str()):
                return value, len(ref.path)
            case _:
                member = None
        if member is None:
            return value, depth
        value = member
    return value, len(ref.path)


def _known(subject: Subject, value: Value, ref: Ref) -> str | Suggestion:
    """Help for the reader: a near key, or what there is where the path stops."""
    reached, depth = _walk(value, ref)
    where = ".".join([ref.name, *map(str, ref.path[:depth])])
    match reached:
        case DictExpr(items=pairs):
            near = subject.suggest(str(ref.path[depth]), (key for key, _ in pairs))
            if near is not None:
                return near
            keys = ", ".join(key[:40] for key, _ in pairs[:8])
            return f"{where} has {keys}" if keys else f"{where} is empty"
        case ListExpr(items=items):
            return f"{where} is a list of {len(items)}"
        case _:
            return f"{where} has no parts"


_ELSE = tuple(
    spelt
    for word in ("ELSE", "ELIF", "ELSEIF", "OTHERWISE")
    for spelt in (word, word.lower(), word.capitalize())
)


def duplicate_ids(subject: Subject) -> Iterator[Finding]:
    """CHK016 for each step whose id is already used by an earlier step."""
    first_of = subject.flow.number_of
    if len(first_of) == len(subject.plan.steps):
        return
    for number, step in enumerate(subject.plan.steps):
        first = first_of[step.id]
        if first != number:
            yield Finding(
                "CHK016",
                Severity.ERROR,
                f"the id {step.id} is taken: step number {first + 1} has it too",
                number,
                help="give every step an id of its own",
                names=(str(first + 1),),
            )


def ids_like_else(subject: Subject) -> Iterator[Finding]:
    """CHK017 for an unconditional step named ELSE (or similar) right after a conditional step.

    The language has no ELSE (`docs/language.md`): such a step runs whatever the condition before it was.
    Not reported if the step before does not simply go on to this one, or a jump leads here.
    """
    known = subject.flow.number_of
    for number in sorted(known[name] for name in _ELSE if name in known):
        step = subject.plan.steps[number]
        before = subject.plan.steps[number - 1] if number else step
        goes_on = before.condition is not None and before.call is not None
        if goes_on and step.condition is None and not _is_jumped_to(subject, step.id):
            yield Finding(
                "CHK017",
                Severity.WARNING,
                f"{step.id} is an id here: this step runs regardless of the condition before it",
                number,
                help="there is no ELSE: write the opposite condition, ?IF (NOT (…)) THEN …",
            )


def _is_jumped_to(subject: Subject, step_id: str) -> bool:
    return any(jump.target == step_id for step in subject.plan.steps for jump in step.jumps())
