"""Verifies a plan against a policy: every call is judged with the labels that its data can have.

In: a plan, a policy, the labels of the run's inputs. Out: a verdict. Time is about linear in the size of the
plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import NamedTuple

from callsheet.diagnostics import Span
from callsheet.ir import Order, Plan, Value
from callsheet.ir.expr import names_in
from callsheet.ir.gc_pause import gc_paused
from callsheet.ir.labels import Label
from callsheet.passes.verify import objections
from callsheet.passes.verify.call_views import failure_view, values_of
from callsheet.passes.verify.flow_paths import (
    FlowPaths,
    image_objections,
    last_values,
    leaked_bits,
)
from callsheet.passes.verify.labels import labels_of
from callsheet.passes.verify.outcome import Labels
from callsheet.passes.verify.persisted_labels import NOTHING_LEFT, PersistedLabels
from callsheet.passes.verify.scripts import MadeCalls, untrusted_scripts
from callsheet.passes.verify.subject import (
    AT_THE_START,
    TREE_START,
    RunPosition,
    Subject,
    TreePosition,
    subject_of,
)
from callsheet.passes.verify.verdict import Verdict, Violation, explained, structural
from callsheet.policy.calls import Argument, CallView, Hole, Objection, Obligation, bare
from callsheet.policy.judge import Judge, judge_of
from callsheet.policy.limits import PlannedCalls
from callsheet.policy.model import Policy
from callsheet.policy.rules.base import Notes


class _Found(NamedTuple):
    """An objection to a step, before the data flow that causes it has been traced.

    `span` is the part of the plan's text that it concerns, None for the whole action.
    """

    step: int
    objection: Objection
    span: Span | None = None
    question: Objection | None = None
    """What would be asked, if somebody could be."""


class _Judged(NamedTuple):
    """A call, what the rules say about it, the values of its arguments, and the span of its step's action."""

    call: CallView
    notes: Notes
    values: Callable[[], Iterable[Value]]
    span: Span | None

    def place(self, objection: Objection) -> Span | None:
        """The span of the argument that the objection names, or of the whole action."""
        if objection.argument is not None:
            for argument, value in zip(self.call.arguments, self.values(), strict=False):
                if argument.name == objection.argument:
                    return value.span or self.span
        return self.span


@dataclass(slots=True)
class _Collected:
    """The objections and obligations collected for the plan so far."""

    can_ask: bool
    planned: PlannedCalls
    found: list[_Found] = field(default_factory=list[_Found])
    obligations: dict[Obligation, None] = field(default_factory=dict[Obligation, None])
    """An ordered set."""
    asked: list[tuple[int, Objection, str]] = field(default_factory=list[tuple[int, Objection, str]])
    """The steps that need an approval, what each is about, and their tools."""

    def take(self, number: int, judged: _Judged) -> None:
        """Record what the rules say about a call; an approval that nobody can give is an objection."""
        notes = judged.notes
        for objection in notes.objections:
            self.found.append(_Found(number, objection, judged.place(objection)))
        if notes.approvals:
            _approvals(number, judged.call, notes, self)
        for obligation in notes.obligations:
            self.obligations[obligation] = None


def verify(
    plan: Plan,
    policy: Policy | Judge,
    *,
    inputs: Mapping[str, Label] | None = None,
    parameters: Mapping[str, Sequence[str]] | None = None,
    can_ask: bool = False,
    position: RunPosition | TreePosition | None = None,
    left: PersistedLabels = NOTHING_LEFT,
) -> Verdict:
    """Prove that no run of a plan violates the policy, or report the violations.

    `inputs` are the labels of the variables that the run is given, in addition to those that the plan sets
    itself. `parameters` are the names of positional arguments, for tools that the policy does not describe.
    With `can_ask`, a required approval becomes an obligation `approve`; without it, it is a violation. With
    `position`, only the part of the plan that a run in progress may still execute is proved; for a plan with
    blocks it is a `TreePosition`. `left` are the
    labels that earlier runs have left on files, facts and notes. Raises ValueError if the policy has an
    invalid pattern or host.

    >>> from callsheet.ir import Call, Literal, Output, Plan, Ref, Step
    >>> plan = Plan((
    ...     Step("S1", Call("READ_FILE", (), (("path", Literal("notes.txt")),)), output=Output("a")),
    ...     Step("S2", Call("WEB_SEARCH", (), (("query", Ref("a")),)), output=Output("r")),
    ... ))
    >>> print(verify(plan, Policy()).violations[0])
    S2: private data in query ($a) of @WEB_SEARCH would reach outside (S1 $a → S2 query → outside)
    """
    if plan.tree is not None:
        from callsheet.passes.verify_tree import verify_tree  # noqa: PLC0415 - needs the verdict of this package

        at = position if isinstance(position, TreePosition) else TREE_START
        return verify_tree(
            plan, policy, inputs=inputs, parameters=parameters, can_ask=can_ask, left=left, position=at
        )
    at_step = position if isinstance(position, RunPosition) else AT_THE_START
    judge = policy if isinstance(policy, Judge) else judge_of(policy)
    with gc_paused(len(plan.steps) >= objections.LARGE):
        subject = subject_of(plan, judge, inputs or {}, parameters or {}, at_step, left)
        labels = labels_of(subject)
        bits = leaked_bits(labels)
        if bits > objections.MOST_BITS:
            labels = labels_of(subject, every_bit=True)
        violations = list(structural(subject))
        looped = (
            step.call.tool
            for number, step in enumerate(plan.steps if judge.policy.limits else ())
            if step.call is not None and subject.control.in_cycle[number]
        )
        collected = _Collected(can_ask, PlannedCalls(judge.policy, looped))
        if collected.planned.is_needed and at_step is not AT_THE_START:
            for step in plan.steps:
                if step.call is not None:
                    collected.planned.saw(step.call.tool)
        numbers = _left(subject)
        while some := tuple(islice(numbers, objections.AT_ONCE)):
            _judge(labels, some, collected)
        findings, last = collected.found, last_values(subject)
        findings += [
            _Found(n, objection) for n, objection in untrusted_scripts(_made(labels), _left(subject))
        ]
        findings += [_Found(n, objection) for n, objection in image_objections(labels, _left(subject), last)]
        findings += [_Found(n, objection) for n in last for objection in _implied(labels, n)]
        violations += _violations(
            labels, [_of_bits(one, bits) for one in findings] if bits > objections.MOST_BITS else findings
        )
        questions = dict.fromkeys(_questions(labels, collected.asked))
        obligations = tuple(questions | collected.obligations)
    return Verdict(tuple(violations), obligations, explained(labels))


def _made(labels: Labels) -> MadeCalls:
    """The calls that a plan of version 1 may make."""
    subject = labels.subject
    ends, steps = subject.flow.group_end, subject.plan.steps

    def comes_before(writer: int, runner: int) -> bool:
        is_beside = ends[writer] == ends[runner] and steps[runner].group is not None
        return writer <= runner or is_beside

    def is_revisited(number: int) -> bool:
        return subject.plan.order is not Order.TEXT or bool(subject.control.in_cycle[number])

    return MadeCalls(
        subject.judge.setting,
        subject.prepared,
        subject.accesses,
        [step.id for step in steps],
        labels.calls,
        comes_before,
        is_revisited,
        subject.left,
    )


def _of_bits(finding: _Found, bits: int) -> _Found:
    objection = finding.objection
    return finding._replace(objection=objection._replace(help=objections.help_of(objection, bits, "steps")))


def _left(subject: Subject) -> Iterator[int]:
    """The steps to judge: all of them for a new run, unreachable ones included; for a run in progress the
    remaining ones.
    """
    every = range(len(subject.plan.steps))
    return iter(every) if subject.position is AT_THE_START else (n for n in every if subject.is_reached[n])


def _judge(labels: Labels, numbers: Sequence[int], collected: _Collected) -> None:
    """Record everything that the rules say about these steps; their texts are searched in one pass."""
    calls_of = [labels.judged_calls(number) for number in numbers]
    clear = labels.subject.judge.clear_tools(call for calls in calls_of for call in calls)
    for number, calls in zip(numbers, calls_of, strict=True):
        _judge_step(labels, number, calls, clear, collected)


def _judge_step(
    labels: Labels, number: int, calls: Sequence[CallView], clear: frozenset[str], collected: _Collected
) -> None:
    """Record everything that the rules say about a step; the texts of `clear` tools have already been
    searched.
    """
    subject = labels.subject
    step, judge = subject.plan.steps[number], subject.judge
    is_limited = collected.planned.is_needed and step.call is not None
    again = bool(subject.control.in_cycle[number]) or step.foreach is not None
    is_sure = not again and step.condition is None
    planned = collected.planned if is_limited else None
    for call, notes in objections.notes_of(judge, calls, clear, planned, is_sure=is_sure, again=again):
        collected.take(number, bare(_Judged, (call, notes, step.values, step.action.span)))
    leads = step.after_failure.leaves
    if leads:
        around = subject.surroundings(partial(labels.label_of, number))
        message = failure_view(step, around, labels.failure_pc(number))
        of_failure = None if message is None else judge.notes(message)
        if message is not None and of_failure is not None:
            span = None if step.handling is None else step.handling.span
            collected.take(number, _Judged(message, of_failure, step.failure_values, span))
    if leads or subject.plan.order is Order.DAG:
        collected.obligations.update(dict.fromkeys(_withheld(labels, number)))


def _withheld(labels: Labels, number: int) -> Iterator[Obligation]:
    """Obligations to withhold the error text of a step whose failure may end the plan, if it may be too
    private.
    """
    subject = labels.subject
    step, label = subject.plan.steps[number], labels.results[number]
    if step.call is None:
        return
    pc = labels.failure_pc(number)
    if label.is_public and pc.is_public:
        return
    yield from objections.withheld(subject.judge, step.id, step.call.tool, label, pc)


def _implied(labels: Labels, number: int) -> Iterator[Objection]:
    """Objections to a step's result as the implicit answer of a plan that ends without an answer."""
    subject = labels.subject
    output = subject.plan.steps[number].output
    assert output is not None
    label = labels.results[number].join(labels.node_pcs[number])
    argument = Argument("0", (Hole(output.var, label),), label)
    planner = subject.judge.policy.planner
    for objection in subject.judge.judge(CallView("", "RESPOND", (argument,), planner)).objections:
        yield objection._replace(
            message=f"{objection.message}: it is the last value, which a plan without an answer returns"
        )


def _approvals(number: int, call: CallView, notes: Notes, collected: _Collected) -> None:
    for question in notes.questions:
        if collected.can_ask:
            collected.asked.append((number, question, call.tool))
        else:
            refusal = objections.unapproved(question, question.argument)
            collected.found.append(_Found(number, refusal, question=question))


def _questions(labels: Labels, asked: Iterable[tuple[int, Objection, str]]) -> Iterator[Obligation]:
    """The approvals that a plan needs, each once and with the path of the data that it is about."""
    paths = FlowPaths(labels)
    for count, (number, question, tool) in enumerate(dict.fromkeys(asked)):
        flow = _flow(labels, paths, number, question) if count < objections.MOST_PATHS else ()
        yield objections.approval(labels.subject.plan.steps[number].id, question.message, tool, flow)


def _violations(labels: Labels, findings: list[_Found]) -> Iterator[Violation]:
    """The violations without duplicates, the first `objections.MOST_PATHS` of them with their data flow."""
    paths = FlowPaths(labels)
    known: set[tuple[int, Objection]] = set()
    for number, objection, span, question in findings:
        if (number, objection) in known:
            continue
        known.add((number, objection))
        step = labels.subject.plan.steps[number]
        flow = (
            _flow(labels, paths, number, question or objection) if len(known) <= objections.MOST_PATHS else ()
        )
        yield Violation(
            step.id,
            objection.rule,
            objection.message,
            objection.argument,
            flow,
            _hint(labels, objection, flow),
            span or step.action.span or step.span,
        )


def _hint(labels: Labels, objection: Objection, flow: tuple[str, ...]) -> str | None:
    """The suggested fix; for data left by an earlier run, it also says how to inspect the labels."""
    subject = labels.subject
    came_in = subject.flow.number_of.get(flow[0].split()[0]) if flow else None
    if came_in is None:
        return objection.help
    step, prepared = subject.plan.steps[came_in].id, subject.prepared[came_in]
    runs_code = prepared.traits is not None and prepared.traits.runs_code
    sees_all = runs_code and objections.sees_everything(subject.judge, prepared.tool, labels.calls(came_in))
    return objections.hint_about(
        step, objection.help, sees_everything=sees_all, reads_left=came_in in labels.from_before
    )


def _flow(labels: Labels, paths: FlowPaths, number: int, objection: Objection) -> tuple[str, ...]:
    """The path of the offending data, from where it enters to the sink."""
    step = labels.subject.plan.steps[number]
    was_guilty = objections.guilty_of(objection.rule)
    if objection.rule in objections.CONTROL_RULES:
        return _decided(labels, paths, number, was_guilty)
    if objection.rule not in objections.FLOW_RULES:
        return ()
    argument, parameters = objection.argument, labels.subject.parameters
    own = [] if argument is None else list(names_in(values_of(step, argument, parameters)))
    end = () if objection.reaches is None else (objection.reaches,)
    for is_guilty in _guilty_of(objection):
        path = paths.path_to(number, own, is_guilty, was_guilty)
        place = argument
        if not path:
            every_name = labels.subject.readings[number].arguments
            path = paths.path_to(number, every_name, is_guilty, was_guilty)
            place = _carrier(labels, paths, number, is_guilty) or argument
        if path:
            return (*path, f"{step.id} {'the text' if place is None or place.isdigit() else place}", *end)
    return ()


def _guilty_of(objection: Objection) -> Iterator[Callable[[Label], bool]]:
    """Which data an objection is about: what the receiver may not read, or if together only, all private."""
    if objection.rule in objections.UNTRUSTED_RULES:
        yield objections.is_untrusted
        return
    audiences = objection.audiences
    if audiences is not None:
        yield lambda label: not label.may_reach(audiences)
    yield objections.is_private


def _carrier(labels: Labels, paths: FlowPaths, number: int, is_guilty: Callable[[Label], bool]) -> str | None:
    """The name of the first argument of a step's call whose data is offending."""
    step, parameters = labels.subject.plan.steps[number], labels.subject.parameters
    for argument in (each for call in labels.calls(number) for each in call.arguments):
        names = list(names_in(values_of(step, argument.name, parameters)))
        if is_guilty(argument.label) and paths.path_to(number, names, is_guilty):
            return argument.name
    return None


def _decided(
    labels: Labels, paths: FlowPaths, number: int, is_guilty: Callable[[Label], bool]
) -> tuple[str, ...]:
    """The path of the data that controls whether a step is executed, through its own guard or an earlier
    step.
    """
    subject = labels.subject
    step = subject.plan.steps[number]
    own = (*subject.readings[number].contents, *subject.readings[number].source)
    path = paths.path_to(number, (*own, *subject.readings[number].emptiness), is_guilty)
    if path:
        return (*path, f"{step.id} whether it is called")
    other = paths.decider(number, is_guilty)
    if other is None:
        return ()
    reading = subject.readings[other]
    path = paths.path_to(other, (*reading.contents, *reading.source, *reading.emptiness), is_guilty)
    path = path or paths.path_to(other, reading.arguments, is_guilty)
    return (*path, subject.plan.steps[other].id, f"{step.id} whether it is called")
