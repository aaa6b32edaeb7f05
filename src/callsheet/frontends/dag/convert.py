"""Converts plans in text order to dependency graphs, and back.

In: a plan of one order. Out: a plan of the other that does the same if no step fails, with remarks;
or an error with every step that cannot be converted. Failures differ: in text order the plan goes on with
the error as a value, in a graph all dependent steps are skipped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from callsheet.diagnostics import CallsheetError, Diagnostic, Severity
from callsheet.frontends.dag.printer import placed, step_data
from callsheet.frontends.dag.texts import refuse
from callsheet.frontends.values.printer import is_name
from callsheet.frontends.values.reader import LABEL
from callsheet.ir import (
    Action,
    And,
    Call,
    CallKind,
    Compare,
    Condition,
    DictExpr,
    Ending,
    Goto,
    IsEmpty,
    ListExpr,
    Literal,
    Not,
    NotEmpty,
    OnFail,
    Or,
    Order,
    Plan,
    Ref,
    Replan,
    Respond,
    Step,
    Template,
    Terminate,
    Value,
)
from callsheet.ir.expr import in_texts, refs_of, template
from callsheet.ir.graphs import UNORDERED, Precedence
from callsheet.ir.plan import filled_parameters, flat

_LABEL = re.compile(LABEL)
_INPUTS = (CallKind.MODEL, CallKind.AGENT)
"""The kinds of calls whose positional arguments are their input."""
Parameters: TypeAlias = "Mapping[str, Sequence[str]]"
NO_PARAMETERS: Parameters = MappingProxyType({})


class Converted(NamedTuple):
    """A converted plan, and remarks for its reader."""

    plan: Plan
    notes: tuple[Diagnostic, ...]


# ---------------------------------------------------------------- text order → dependencies


def to_dag(plan: Plan, parameters: Parameters = NO_PARAMETERS) -> Converted:
    """The plan as a dependency graph in the order of the text: each step depends on the one above.

    The members of a group depend on the step before it, and the step after it depends on all of
    them. Comments become titles. Positional arguments get their names from `parameters`, the
    parameters of tools in their order by canonical name. Raises CallsheetError (DAG070) with every
    step that a graph cannot express.

    >>> from callsheet.frontends.ltp import parse
    >>> made = to_dag(parse('S1: @A () > $a\\nS2: @RESPOND ($a)').require()).plan
    >>> [(step.id, step.depends_on) for step in made.steps]
    [('S1', ()), ('S2', ('S1',))]
    """
    flat(plan, "a graph of dependencies")
    if plan.order is Order.DAG:
        return Converted(plan, ())
    steps: list[Step] = []
    refused: list[Diagnostic] = []
    before: tuple[str, ...] = ()
    block: list[Step] = []
    for step in plan.steps:
        if block and (step.group is None or step.group != block[-1].group):
            before = tuple(member.id for member in block)
            block = []
        block.append(step)
        try:
            named = replace(step, action=_with_names(step, parameters))
            steps.append(_dependent(named, before, is_last=step is plan.steps[-1]))
        except CallsheetError as error:
            refused.extend(error.diagnostics)
    if refused:
        raise CallsheetError(refused)
    converted = Plan(tuple(steps), Order.DAG, plan.variables, plan.id, plan.title, plan.goal)
    notes = (*_note_for_graph(steps), *_notes_on_values(converted), *_note_on_comments(plan))
    return Converted(converted, notes)


def _with_names(step: Step, parameters: Parameters) -> Action:
    """The action with a name for every argument; raises CallsheetError if a name is unknown."""
    call = step.call
    if call is None or not call.positional:
        return step.action
    known = None if call.kind in _INPUTS else parameters.get(call.tool)
    names = filled_parameters(known or (), {name for name, _ in call.named}, len(call.positional))
    if len(names) < len(call.positional):
        if call.kind in _INPUTS:
            hint = "the data of a model operation has no name: keep this plan as LTP text"
        elif known is None:
            hint = f"name each one: @{call.tool} (name=value), or give the declaration of the tool"
        else:
            hint = f"@{call.tool} takes {', '.join(known) or 'no arguments'}"
        refusal = refuse("arguments without a name", hint)
        raise CallsheetError([placed(d, step) for d in refusal.diagnostics])
    return Call(call.tool, (), (*zip(names, call.positional, strict=True), *call.named), call.span)


def _dependent(step: Step, before: tuple[str, ...], *, is_last: bool) -> Step:
    if step.course.ends is Ending.ANSWER and not is_last:
        refusal = refuse(
            "an answer before the last step", "a graph answers in a step that waits for all others"
        )
        raise CallsheetError([placed(d, step) for d in refusal.diagnostics])
    titles = [*step.comments, *([step.remark] if step.remark else [])]
    converted = replace(
        step,
        depends_on=before,
        group=None,
        title=step.title or " ".join(" ".join(titles).split()) or None,
        on_fail=_one_text(step),
        comments=(),
        remark=None,
    )
    step_data(converted)
    return converted


def _one_text(step: Step) -> OnFail | None:
    """The failure handling of a step, with its last message as one text if that is possible."""
    values = step.farewell()
    if step.after_failure.ends is None or not all(isinstance(v, Literal | Ref | Template) for v in values):
        return step.on_fail
    parts: list[str | Ref] = []
    for value in values:
        parts.append(" " if parts else "")
        match value:
            case Literal(value=None):
                pass
            case Literal(value=bool(scalar)):
                parts.append("true" if scalar else "false")
            case Literal(value=scalar):
                parts.append(str(scalar))
            case Ref():
                parts.append(value)
            case Template(parts=inner):
                parts.extend(inner)
            case _:
                pass
    message = template(parts)
    result = () if message == Literal("") else (message,)
    assert step.on_fail is not None
    return replace(step.on_fail, then=Terminate(result))


def _note_for_graph(steps: list[Step]) -> Iterator[Diagnostic]:
    ids = [s.id for s in steps if s.call is not None and not s.after_failure.leaves]
    if ids:
        yield Diagnostic(
            "DAG071",
            Severity.HINT,
            f"where {_listed(ids)} fails, the graph stops what depends on it; "
            "the text plan continues with the error",
            help='for a failure that ends the plan write "on_fail": {"terminate": "why"}',
        )


def _listed(ids: Sequence[str]) -> str:
    return ids[0] if len(ids) == 1 else f"a step ({_some(ids)})"


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:4]) + (", …" if len(names) > 4 else "")


# ---------------------------------------------------------------- what differs in both


def _notes_on_values(converted: Plan) -> Iterator[Diagnostic]:
    """DAG072 for steps whose values may differ: the two orders have other rules for null and inside texts."""
    to_graph = converted.order is Order.DAG
    unsure = {
        step.output.var for step in converted.steps if step.output is not None and step.condition is not None
    }
    missing: list[str] = []
    written: list[str] = []
    for step in converted.steps:
        values = step.values()
        if any(ref.path or ref.name in unsure for value in values for ref in refs_of(value)):
            missing.append(step.id)
        if any(True for value in values for _ in in_texts(value)):
            written.append(step.id)
    if missing:
        yield Diagnostic(
            "DAG072",
            Severity.WARNING,
            f"where a field or variable that {_listed(missing)} reads has no value, "
            + (
                "the graph fails the step; the text plan takes it for null and goes on"
                if to_graph
                else "the text plan takes it for null and goes on; the graph fails the step"
            ),
            help="add a condition, such as NOT_EMPTY($name.field), if it may be missing",
            step=missing[0],
        )
    if written:
        text = '{"k":[1,2]} and nothing for null'
        graph = '{"k": [1, 2]} and null'
        here, there = (graph, text) if to_graph else (text, graph)
        yield Diagnostic(
            "DAG072",
            Severity.HINT,
            f"objects, lists and null are written differently inside a text of {_listed(written)}: "
            f"{here} here, {there} before",
            help="texts and numbers are the same in both; name the field that is meant",
            step=written[0],
        )


def _note_on_comments(plan: Plan) -> Iterator[Diagnostic]:
    if plan.comments:
        yield Diagnostic(
            "DAG072",
            Severity.HINT,
            "the comments after the last step are left out: a JSON plan has no place for them",
            help="write them into goal, or above a step, whose title they become",
        )


def _note_on_variables(plan: Plan) -> Iterator[Diagnostic]:
    names = [name for name, _ in plan.variables]
    if names:
        yield Diagnostic(
            "DAG072",
            Severity.WARNING,
            f"LTP text has no initial variables: {_some(names)} "
            f"{'is' if len(names) == 1 else 'are'} replaced by the value here, which --var cannot change",
            help=f"where --var should set it, write ${names[0]} in place of the value",
        )


# ---------------------------------------------------------------- dependencies → text order


def to_text_order(plan: Plan) -> Converted:
    """The plan in text order that does the same: level by level, with levels of several steps as groups.

    Initial variables are replaced by their values. A step that fails ends the plan, so that no
    step uses an error as a value. Raises CallsheetError (LTP070) with every step that text order
    cannot express.
    """
    flat(plan, "the order by dependencies")
    if plan.order is Order.TEXT:
        return Converted(plan, ())
    order = Precedence.of(plan)
    if UNORDERED in order.level:
        stuck = plan.steps[order.level.index(UNORDERED)]
        raise _refused(
            [_refusal("steps that wait for one another", stuck, "`callsheet check` names the cycle")]
        )
    names = _labels(plan)
    constants = dict(plan.variables)
    refused = list(_overwritten(plan, constants))
    steps: list[Step] = []
    group = 0
    for level in order.levels():
        is_group = len(level) > 1
        for number in level:
            step = plan.steps[number]
            try:
                steps.append(_texted(step, names[number], constants, group if is_group else None))
            except _Inexpressible as error:
                refused.append(_refusal(error.what, step, error.help))
        group += is_group
    if refused:
        raise _refused(refused)
    converted = Plan(tuple(steps), Order.TEXT, (), plan.id, plan.title, plan.goal)
    notes = (*_note_on_variables(plan), *_note_for_text(plan), *_notes_on_values(converted))
    return Converted(converted, notes)


class _Inexpressible(Exception):
    """A construct that LTP text cannot express."""

    def __init__(self, what: str, help_: str) -> None:
        self.what = what
        self.help = help_


def _refused(diagnostics: list[Diagnostic]) -> CallsheetError:
    return CallsheetError(diagnostics)


def _refusal(what: str, step: Step, help_: str | None = None) -> Diagnostic:
    message = f"LTP text cannot express {what} (step {step.id})"
    return Diagnostic("LTP070", Severity.ERROR, message, step.id_span or step.span, help_, step=step.id)


def _labels(plan: Plan) -> list[str]:
    """An id for each step: its own if LTP text allows it, else `S` and its index, or a number."""
    taken = {step.id for step in plan.steps}
    names: list[str] = []
    for number, step in enumerate(plan.steps, 1):
        name = step.id
        if _LABEL.fullmatch(name) is None:
            name = f"S{step.id}" if re.fullmatch(r"[A-Za-z0-9_-]+", step.id) else f"S{number}"
            while name in taken:
                name += "_"
            taken.add(name)
        names.append(name)
    return names


def _overwritten(plan: Plan, constants: dict[str, Value]) -> Iterator[Diagnostic]:
    for step in plan.steps:
        if step.output is not None and step.output.var in constants:
            what = f"an initial value of {step.output.var}, which the step overwrites"
            yield _refusal(what, step, "give the step's result a name of its own")


def _texted(step: Step, name: str, constants: dict[str, Value], group: int | None) -> Step:
    put = _Constants(constants)
    for variable in [step.output.var] if step.output is not None else []:
        if not is_name(variable):
            raise _Inexpressible(
                f"the variable name {variable}", "a name is made of ASCII letters, digits and _"
            )
    title = None if step.title is None else " ".join(step.title.split())
    return replace(
        step,
        id=name,
        action=_action(step, put.value),
        condition=None if step.condition is None else put.condition(step.condition),
        on_fail=_ending(step, put.value),
        group=group,
        depends_on=None,
        title=None,
        comments=(title,) if title else (),
        id_span=None,
        depends_spans=(),
    )


def _action(step: Step, put: Callable[[Value], Value]) -> Call | Respond:
    match step.action:
        case Call(named=named) as call:
            return replace(call, named=tuple((key, put(value)) for key, value in named))
        case Respond(values=values):
            return Respond(tuple(put(value) for value in values))
        case Terminate() | Goto() | Replan():
            raise _Inexpressible("this step", "a graph has calls and one answer")


def _ending(step: Step, put: Callable[[Value], Value]) -> OnFail | None:
    """The failure handling of a step: its own, and the end of the plan if it does not define where to go."""
    if step.course.ends is Ending.ANSWER:
        return step.on_fail
    match step.handling:
        case Terminate(values=values):
            return OnFail(step.retry, Terminate(tuple(put(value) for value in values)))
        case None | Goto():
            pass
    failed = f"step {step.id} failed"
    message = Literal(failed) if step.output is None else template([f"{failed}: ", Ref(step.output.var)])
    return OnFail(step.retry, Terminate((message,)))


def _note_for_text(plan: Plan) -> Iterator[Diagnostic]:
    if len(plan.steps) > 1:
        yield Diagnostic(
            "DAG071",
            Severity.HINT,
            "a failed step ends the text plan; the graph would finish what does not depend on it",
            help="change ON_FAIL where that matters",
        )


class _Constants:
    """Replaces references to initial variables by their values."""

    def __init__(self, known: dict[str, Value]) -> None:
        self._known = known

    def value(self, value: Value) -> Value:
        """The value with references to initial variables replaced."""
        match value:
            case Literal():
                return value
            case Ref(name=name):
                if name in self._known:
                    return self._at(value)
                if not is_name(name):
                    raise _Inexpressible(
                        f"the variable name {name}", "a name is made of ASCII letters, digits and _"
                    )
                return value
            case Template(parts=parts):
                return template([part if isinstance(part, str) else self._inside(part) for part in parts])
            case ListExpr(items=items):
                return ListExpr(tuple(self.value(item) for item in items))
            case DictExpr(items=pairs):
                return DictExpr(tuple((key, self.value(item)) for key, item in pairs))

    def condition(self, condition: Condition) -> Condition:
        """The condition with references to initial variables replaced."""
        match condition:
            case Compare(left=left, right=right):
                return replace(condition, left=self.value(left), right=self.value(right))
            case IsEmpty(value=value) | NotEmpty(value=value):
                return replace(condition, value=self.value(value))
            case Not(condition=inner):
                return Not(self.condition(inner))
            case And(conditions=inner):
                return And(tuple(self.condition(c) for c in inner))
            case Or(conditions=inner):
                return Or(tuple(self.condition(c) for c in inner))

    def _inside(self, ref: Ref) -> str | Ref:
        """A reference inside a string: the text of an initial variable, or the reference itself."""
        value = self.value(ref)
        match value:
            case Ref():
                return value
            case Literal(value=str(text)):
                return text
            case Literal(value=bool(flag)):
                return "true" if flag else "false"
            case Literal(value=int(number) | float(number)):
                return repr(number)
            case _:
                raise _Inexpressible(
                    f"${{{ref.name}}} inside a text, where it is neither a text nor a number",
                    "write it into the text",
                )

    def _at(self, ref: Ref) -> Value:
        value = self._known[ref.name]
        for part in ref.path:
            match value:
                case DictExpr(items=pairs):
                    member = next((item for key, item in pairs if key == str(part)), None)
                case ListExpr(items=items) if isinstance(part, int) and -len(items) <= part < len(items):
                    member = items[part]
                case _:
                    member = None
            if member is None:
                raise _Inexpressible(
                    f"a path that does not exist in ${{{ref.name}}}", "`callsheet check` says where"
                )
            value = member
        return value
