"""Verifies a plan of version 2: every call of its tree is judged with the labels that its data can have.

In: a plan with a tree, a policy, the labels of the run's inputs. Out: a verdict of the same form as for
version 1. Time is about linear in the size of the plan, with sub-plans counted wherever they are called.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import islice
from typing import NamedTuple

from callsheet.diagnostics import Span
from callsheet.ir import Plan
from callsheet.ir.expression import Expression
from callsheet.ir.gc_pause import gc_paused
from callsheet.ir.labels import LITERAL, Label, join
from callsheet.ir.plan import filled_parameters
from callsheet.ir.tree import (
    Act,
    Block,
    Foreach,
    Invoke,
    Leave,
    Repeat,
    Say,
    Statement,
    SubPlan,
    Tree,
    Word,
    all_statements,
    inner_blocks,
    is_single,
    recovery_of,
    statements,
)
from callsheet.passes.structured.placement import MOST_STEPS
from callsheet.passes.verify import objections
from callsheet.passes.verify.persisted_labels import NOTHING_LEFT, PersistedLabels
from callsheet.passes.verify.scripts import MadeCalls, untrusted_scripts
from callsheet.passes.verify.subject import TREE_START, TreePosition
from callsheet.passes.verify.verdict import Explained, StepLabels, Verdict, Violation
from callsheet.passes.verify_tree.calls import REMARK, Record
from callsheet.passes.verify_tree.interpreter import Interpreter
from callsheet.policy.builtins import ANSWERS
from callsheet.policy.calls import CallView, Duty, Objection, Obligation, Rule
from callsheet.policy.judge import Judge, judge_of
from callsheet.policy.labelled import Says, presence_of
from callsheet.policy.limits import PlannedCalls
from callsheet.policy.links import images
from callsheet.policy.model import Implicit, Policy
from callsheet.policy.rules import answers
from callsheet.policy.rules.base import Notes

MOST_DEPTH = 50
"""How deep blocks may nest, sub-plans written in place."""
_IMAGE_HINT = "show it unconditionally, or answer with text"
_BEGINNINGS = ("!", "![x]", "<img ")
"""Prefixes that turn a following link or address into an image."""


class _Found(NamedTuple):
    """An objection to a record, and the place that it concerns."""

    record: Record
    objection: Objection
    span: Span | None = None


def verify_tree(
    plan: Plan,
    policy: Policy | Judge,
    *,
    inputs: Mapping[str, Label] | None = None,
    parameters: Mapping[str, Sequence[str]] | None = None,
    can_ask: bool = False,
    left: PersistedLabels = NOTHING_LEFT,
    position: TreePosition = TREE_START,
) -> Verdict:
    """Prove that no run of a plan of version 2 violates the policy, or report the violations.

    The arguments are those of `passes.verify.verify`. Raises ValueError if the policy has an invalid pattern
    or host.
    """
    tree = plan.tree
    assert tree is not None
    judge = policy if isinstance(policy, Judge) else judge_of(policy)
    with gc_paused(True):
        every = tuple(all_statements(tree))
        violations = list(_structural(tree, every, judge))
        if any(violation.rule is Rule.STRUCTURE and violation.step is None for violation in violations):
            return Verdict(tuple(violations))
        known = inputs or {}, parameters or {}
        made = _interpreted(tree, judge, *known, left, position, every_bit=False)
        bits = 0 if judge.policy.implicit is Implicit.STRICT else made.bits.total()
        if bits > objections.MOST_BITS:
            made = _interpreted(tree, judge, *known, left, position, every_bit=True)
        collected = _Collected(judge, can_ask, tree, every)
        for record in made.records.values() if collected.planned.is_needed else ():
            if _is_done(record, position):
                collected.planned.saw(record.tool)
        records = (record for record in made.records.values() if not _is_done(record, position))
        while some := tuple(islice(records, objections.AT_ONCE)):
            collected.take(some)
        scripts = _scripts(made, judge, left)
        collected.found += [found for found in scripts if not _is_done(found.record, position)]
        violations += _unset(made, every)
        violations += _violations(made, judge, collected.found, bits)
    obligations = (*_approvals(made, collected), *collected.obligations)
    return Verdict(tuple(violations), obligations, _explained(made, every), tuple(collected.asked))


def _interpreted(
    tree: Tree,
    judge: Judge,
    inputs: Mapping[str, Label],
    parameters: Mapping[str, Sequence[str]],
    left: PersistedLabels,
    position: TreePosition,
    *,
    every_bit: bool,
) -> Interpreter:
    names = objections.parameters_known(judge, parameters)
    made = Interpreter(tree, judge, inputs, names, left, every_bit=every_bit, position=position)
    made.run()
    return made


def _is_done(record: Record, position: TreePosition) -> bool:
    """Whether a run in progress can execute a statement no more, at one of the places where it stands."""
    path, id_ = record.site
    return (path[0] if path else id_) in position.done


# ------------------------------------------------------------ what the rules say


class _Collected:
    """The objections and obligations collected for the plan so far."""

    def __init__(self, judge: Judge, can_ask: bool, tree: Tree, every: Sequence[Statement]) -> None:
        self.judge = judge
        self.can_ask = can_ask
        self._sure = frozenset(one.id for one in tree.body)
        looped = {
            inner.id: inner
            for one in (every if judge.policy.limits else ())
            if isinstance(one, Foreach | Repeat)
            for inner in statements(one.body)
        }
        inside = (
            [one.body for one in tree.plans] if any(isinstance(o, Invoke) for o in looped.values()) else []
        )
        called = [*looped.values(), *(one for block in inside for one in statements(block))]
        self._looped = frozenset(looped)
        self.planned = PlannedCalls(judge.policy, [one.tool for one in called if isinstance(one, Act)])
        self.found: list[_Found] = []
        self.obligations: dict[Obligation, None] = {}
        self.asked: list[CallView] = []
        self.questions: dict[tuple[int, str, str], tuple[Record, Objection]] = {}
        """What is asked about, each once, by statement."""

    def take(self, records: Sequence[Record]) -> None:
        """Judge the calls of these records; their texts are searched in one pass."""
        judged = [record for record in records if record.tool != REMARK]
        clear = self.judge.clear_tools(call for record in judged for call in record.calls)
        for record in records:
            if record.tool == REMARK:
                self._note(record)
                continue
            is_limited = self.planned.is_needed and isinstance(record.statement, Act)
            again = record.again or not self._looped.isdisjoint((*record.site[0], record.statement.id))
            is_sure = not again and not record.site[0] and record.statement.id in self._sure
            planned = self.planned if is_limited else None
            for call, notes in objections.notes_of(
                self.judge, record.calls, clear, planned, is_sure=is_sure, again=again
            ):
                self._take(record, call, notes)
            if record.prepared.tool in ANSWERS:
                self.found += (_Found(record, one) for one in _images(self.judge, record))
            if record.failure is not None and not record.failure.is_public:
                id_, tool = record.statement.id, record.tool
                kept = objections.withheld(self.judge, id_, tool, record.failure, record.pc)
                self.obligations.update(dict.fromkeys(kept))

    def _take(self, record: Record, call: CallView, notes: Notes) -> None:
        for objection in notes.objections:
            self.found.append(_Found(record, objection, _span(record, objection)))
        if notes.approvals and self.can_ask:
            self.asked.append(call)
        for question in notes.questions:
            if self.can_ask:
                asked = id(record.statement), question.message, call.tool
                self.questions.setdefault(asked, (record, question))
            else:
                self.found.append(_Found(record, objections.unapproved(question, None)))
        self.obligations.update(dict.fromkeys(notes.obligations))

    def _note(self, record: Record) -> None:
        """A remark, or the message of a failure: it is withheld from those whom its label does not allow, but
        an address that the plan makes of data is refused.
        """
        for call in record.calls:
            for objection in self.judge.judge(call).objections:
                if objection.rule is Rule.ANSWER and answers.links_data(self.judge.setting, call):
                    self.found.append(_Found(record, objection, _span(record, objection)))
                    continue
                why = f"its message is withheld: {objection.message}"
                self.obligations[Obligation(Duty.VERIFY_AGAIN, call.step, why)] = None


def _images(judge: Judge, record: Record) -> Iterator[Objection]:
    """An objection to an answer that shows an image or not depending on private data."""
    telling = Says.IMAGE | Says.BEGINNING
    shown = [
        (name, one) for name, one in record.values if one.says & telling and not presence_of(one).is_public
    ]
    if not shown:
        return
    revealed = join(presence_of(value) for _, value in shown)
    may_hold = any(value.says & Says.IMAGE and not value.shapes for _, value in shown)
    for call in record.calls:
        is_whole = may_hold or answers.leaks_through_image(
            judge.setting, call.behind(revealed, repeats=False)
        )
        if is_whole or _completes_image(judge, call, revealed):
            name = shown[0][0]
            what = "the answer" if name.isdigit() else name
            message = f"whether {what} holds an image from outside tells its host about private data"
            yield Objection(Rule.ANSWER, message, None, _IMAGE_HINT)
            return


def _completes_image(judge: Judge, call: CallView, revealed: Label) -> bool:
    """Whether the answer's own text forms an image if its data is the beginning of one."""
    parts = answers.parts_of(call)
    own = "".join(part if isinstance(part, str) else "" for part in parts)
    if not answers.leads_outside(judge.setting, own, revealed):
        return False
    return any(
        images("".join(part if isinstance(part, str) else part.text or begun for part in parts))
        for begun in _BEGINNINGS
    )


def _scripts(made: Interpreter, judge: Judge, left: PersistedLabels) -> list[_Found]:
    """Objections to programs that may execute untrusted content, and to copies of it."""
    records = sorted(
        (record for record in made.records.values() if isinstance(record.statement, Act)),
        key=lambda record: record.order,
    )

    def comes_before(writer: int, runner: int) -> bool:
        one, other = records[writer], records[runner]
        return other.again or writer <= runner or (one.beside is not None and one.beside == other.beside)

    calls = MadeCalls(
        setting=judge.setting,
        prepared=[record.prepared for record in records],
        accesses=[record.access for record in records],
        ids=[record.statement.id for record in records],
        calls=lambda number: records[number].calls,
        comes_before=comes_before,
        is_revisited=lambda number: records[number].again,
        left=left,
    )
    return [
        _Found(records[number], objection)
        for number, objection in untrusted_scripts(calls, range(len(records)))
    ]


# ------------------------------------------------------------ violations


def _violations(
    made: Interpreter, judge: Judge, findings: Iterable[_Found], bits: int
) -> Iterator[Violation]:
    """The violations without duplicates, the first `objections.MOST_PATHS` of them with their data flow."""
    known: set[tuple[str, Objection]] = set()
    for record, objection, span in findings:
        id_ = record.statement.id
        if (id_, objection) in known:
            continue
        known.add((id_, objection))
        flow = _flow(made, record, objection) if len(known) <= objections.MOST_PATHS else ()
        help_ = objections.help_of(objection, bits, "statements")
        yield Violation(
            id_,
            objection.rule,
            objection.message,
            objection.argument,
            flow,
            _hint(made, judge, flow, help_),
            span or record.statement.span,
        )


def _approvals(made: Interpreter, collected: _Collected) -> Iterator[Obligation]:
    """The approvals that a plan needs, each once and with the path of the data that it is about."""
    for count, ((_, why, tool), (record, question)) in enumerate(collected.questions.items()):
        flow = _flow(made, record, question) if count < objections.MOST_PATHS else ()
        yield objections.approval(record.statement.id, why, tool, flow)


def _flow(made: Interpreter, record: Record, objection: Objection) -> tuple[str, ...]:
    """The path of the offending data, from where it enters to the sink."""
    id_ = record.statement.id
    is_guilty = objections.guilty_of(objection.rule)
    if objection.rule in objections.CONTROL_RULES:
        path = made.origins.path(record.why, is_guilty)
        return (*path, f"{id_} whether it is called") if path else ()
    if objection.rule not in objections.FLOW_RULES:
        return ()
    argument = objection.argument
    own = [origin for name, value in record.values if name == argument for origin in value.origins]
    every = [origin for _, value in record.values for origin in value.origins]
    path = made.origins.path(own, is_guilty) or made.origins.path(every, is_guilty)
    path = path or made.origins.path(record.why, is_guilty)
    if not path:
        return ()
    place = "the text" if argument is None or argument.isdigit() else argument
    end = () if objection.reaches is None else (objection.reaches,)
    return (*path, f"{id_} {place}", *end)


def _hint(made: Interpreter, judge: Judge, flow: tuple[str, ...], help_: str | None) -> str | None:
    """The suggested fix; for data left by an earlier run, it also says how to inspect the labels."""
    came_in = flow[0].split()[0] if flow else None
    record = next((one for one in made.records.values() if one.statement.id == came_in), None)
    if record is None:
        return help_
    traits, tool = record.prepared.traits, record.prepared.tool
    runs_code = traits is not None and traits.runs_code
    sees_all = runs_code and objections.sees_everything(judge, tool, record.calls)
    return objections.hint_about(
        record.statement.id, help_, sees_everything=sees_all, reads_left=record.reads_left
    )


def _span(record: Record, objection: Objection) -> Span | None:
    """The span of the argument that an objection names; None for the whole statement."""
    statement = record.statement
    if objection.argument is None:
        return None
    if isinstance(statement, Act):
        names = tuple(name for name, _ in statement.named)
        filled = filled_parameters((), names, len(statement.positional))
        named: list[tuple[str, Expression]] = [
            *zip(filled, statement.positional, strict=False),
            *statement.named,
        ]
    elif isinstance(statement, Say):
        named = [(str(number), value) for number, value in enumerate(statement.values)]
    else:
        return None
    return next((value.span for name, value in named if name == objection.argument), None)


# ------------------------------------------------------------ structure


def _structural(tree: Tree, every: Sequence[Statement], judge: Judge) -> Iterator[Violation]:
    """The violations that are independent of any data; `every` are all statements of the plan."""
    yield from _plans(tree, every)
    most = judge.policy.max_steps
    counted = [] if most is None else [one for one in every if isinstance(one, Act) or _ends(one)]
    if most is not None and len(counted) > most:
        message = f"the plan has {len(counted)} steps, but the policy allows {most}"
        hint = "split it into two plans, or raise the limit: [budgets] max_steps"
        yield Violation(counted[most].id, Rule.LIMIT, message, help=hint, span=counted[most].span)
    for statement in every:
        for name in objections.given_twice(statement.named) if isinstance(statement, Act) else ():
            message = f"the argument {name} is given twice"
            yield Violation(statement.id, Rule.STRUCTURE, message, name, span=statement.span)


def _ends(statement: Statement) -> bool:
    return isinstance(statement, Say) and statement.word in (Word.RESPOND, Word.TERMINATE, Word.REPLAN)


def _plans(tree: Tree, every: Sequence[Statement]) -> Iterator[Violation]:
    """Sub-plans that do not exist, call each other in a circle, end the run, or are too many."""
    sizes: dict[str, int] = {}
    plans = {plan.name: plan for plan in tree.plans}

    def size(name: str, above: tuple[str, ...]) -> int | None:
        if name in above:
            return None
        if name not in sizes:
            total = counted(plans[name].body, (*above, name))
            if total is None:
                return None
            sizes[name] = total
        return sizes[name]

    def counted(block: Block, above: tuple[str, ...]) -> int | None:
        """How many statements a block has with the sub-plans that it calls."""
        inside = list(statements(block))
        total = len(inside)
        for statement in inside:
            if isinstance(statement, Invoke) and statement.plan in plans:
                inner = size(statement.plan, above)
                if inner is None:
                    return None
                total += inner
        return total

    is_too_deep = _depth(tree.body, plans, 0) > MOST_DEPTH
    message = f"with its sub-plans written in place the plan nests more than {MOST_DEPTH} blocks deep"
    too_deep = Violation(None, Rule.STRUCTURE, message, help="do the work of inner blocks one after another")
    if is_too_deep and len(plans) > MOST_DEPTH:
        yield too_deep
        return
    for statement in every:
        if isinstance(statement, Invoke) and statement.plan not in plans:
            message = f"there is no sub-plan {statement.plan}"
            yield Violation(statement.id, Rule.STRUCTURE, message, span=statement.span)
    for plan in tree.plans:
        if size(plan.name, ()) is None:
            yield Violation(None, Rule.STRUCTURE, f"the sub-plan {plan.name} calls itself", span=plan.span)
            return
        for statement in statements(plan.body):
            recovery = recovery_of(statement)
            leaves = recovery is not None and isinstance(recovery.remedy, Leave)
            if leaves or _ends(statement):
                message = "a sub-plan cannot end the run"
                hint = "RETURN a value, and end the run in the main plan"
                yield Violation(statement.id, Rule.STRUCTURE, message, help=hint, span=statement.span)
    if is_too_deep:
        yield too_deep
        return
    total = counted(tree.body, ()) if plans else None
    if total is not None and (of_plans := total - sum(1 for _ in statements(tree.body))) > MOST_STEPS:
        most = f"at most {MOST_STEPS:,} are possible"
        message = f"written in place the sub-plans come to {of_plans:,} statements; {most}"
        yield Violation(None, Rule.STRUCTURE, message, help="call fewer sub-plans, or loop over a list")


def _depth(body: Block, plans: Mapping[str, SubPlan], around: int) -> int:
    """How deep the blocks nest, counted up to the limit."""
    deepest = around
    waiting = [(body, around)]
    seen: dict[str, int] = {}
    while waiting and deepest <= MOST_DEPTH:
        block, depth = waiting.pop()
        deepest = max(deepest, depth)
        for statement in block:
            if is_single(statement) and not isinstance(statement, Invoke):
                continue
            inner = list(inner_blocks(statement))
            if isinstance(statement, Invoke) and statement.plan in plans:
                if seen.get(statement.plan, -1) >= depth:
                    continue
                seen[statement.plan] = depth
                inner.append(plans[statement.plan].body)
            waiting += ((one, depth + 1) for one in inner)
    return deepest


def _unset(made: Interpreter, every: Sequence[Statement]) -> Iterator[Violation]:
    """Statements that read a variable which nothing sets."""
    if not made.unset:
        return
    spans = {statement.id: statement.span for statement in every}
    for (_, id_), name in made.unset.items():
        yield Violation(id_, Rule.STRUCTURE, f"${name} is never set", span=spans.get(id_))


def _explained(made: Interpreter, every: Sequence[Statement]) -> Sequence[StepLabels]:
    """The labels of the calls as `Plan.steps` lists them; of one in a sub-plan, wherever it is called."""
    acts = [one.id for one in every if isinstance(one, Act)]
    by_id = cache(partial(_by_id, made))
    return Explained(len(acts), lambda number: _labels_of(made, acts[number], by_id().get(acts[number], ())))


def _by_id(made: Interpreter) -> dict[str, list[Record]]:
    by_id: dict[str, list[Record]] = {}
    for record in made.records.values():
        if isinstance(record.statement, Act):
            by_id.setdefault(record.statement.id, []).append(record)
    return by_id


def _labels_of(made: Interpreter, id_: str, records: Sequence[Record]) -> StepLabels:
    reads: dict[str, Label] = {}
    because: dict[str, None] = {}
    pc = result = LITERAL
    for record in records:
        pc, result = pc.join(record.pc), result.join(record.result)
        for name, value in record.values:
            known = reads.get(name)
            reads[name] = value.label if known is None else value.label.join(known)
            for origin in value.origins:
                because[made.origins.maker(origin)] = None
    because.pop("", None)
    return StepLabels(id_, tuple(reads.items()), pc, result, tuple(because))
