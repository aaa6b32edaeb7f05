"""Dry runs: predicts what a plan would do, without calling anything.

In: a plan, tool facts, input variables and assumed results. Out: a `DryRun`. No tool, model, server or
journal is used. `Worlds` are the cases of a plan with blocks: what is changed with each condition true and
false; a condition is taken to be so, so that no value has to be thought up for which it holds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, TypeAlias

from callsheet.api.findings import Findings
from callsheet.api.proving import Proof
from callsheet.diagnostics import CallsheetError, Source, meant
from callsheet.diagnostics.wrong_type import wanted, wanted_list, wrong
from callsheet.frontends.spelling import is_python
from callsheet.ir import JSON, Literal
from callsheet.ir import Plan as Steps
from callsheet.ir.expression import (
    Compared,
    Comparison,
    Comprehension,
    Conditional,
    Expression,
    Lambda,
    Unary,
    UnaryOp,
    children,
    mapped,
    variables_in,
)
from callsheet.ir.tree import (
    Act,
    Assign,
    Block,
    Foreach,
    If,
    Invoke,
    Let,
    Repeat,
    Say,
    Statement,
    Tree,
    all_statements,
    operands,
    statements,
    variables_set,
)
from callsheet.ir.tree_edits import map_blocks, plan_of_tree
from callsheet.machine import ToolFacts, compile_plan
from callsheet.machine.forecasting import (
    BlockForecast,
    Forecast,
    Knowledge,
    StepForecast,
    Totals,
    When,
    foresee,
    totals_of,
)
from callsheet.machine.forecasting.partial_values import nobody_asked
from callsheet.machine.questions import approval_rules, needs_approval
from callsheet.passes.structured.consequences import in_brief, spelled
from callsheet.policy.calls import CODES, Duty
from callsheet.ports.models.operations import expected_use
from callsheet.ports.transforms import work_out
from callsheet.views.dry_run import PolicyVerdict, Remark, RemarkKind, shown

NeedsApproval: TypeAlias = "Callable[[str], bool] | Iterable[str]"
"""What needs a person's approval: names of tools and steps, or a predicate on a tool's canonical name."""
AsksFirst: TypeAlias = "Callable[[str, str], bool]"
"""Whether the calls of a tool by a step need an approval, by their canonical name and its id."""


@dataclass(frozen=True, slots=True)
class DryRun:
    """What a plan would do: `forecast` step by step, `totals` in sum.

    `price` is the price of a million prompt tokens, None if unknown. `findings` are the warnings and hints
    of the checks; `proof` is set if the plan was checked against a policy. `str()` gives the text that
    `callsheet dry-run` prints.
    """

    forecast: Forecast
    totals: Totals
    price: float | None = None
    findings: Findings = field(default_factory=Findings)
    proof: Proof | None = None
    cases: Callable[[], Worlds] | None = field(default=None, repr=False, compare=False)

    def worlds(self) -> Worlds:
        """What is changed with each condition true and false; empty for plans without blocks."""
        return Worlds() if self.cases is None else self.cases()

    def under(self, proof: Proof) -> DryRun:
        """This dry run with the proof, and the calls marked for which the policy requires approval."""
        asked = set(_verdict_of(proof).asked)
        steps = tuple(
            replace(step, needs_approval=True) if step.step.id in asked else step
            for step in self.forecast.steps
        )
        forecast = replace(self.forecast, steps=steps)
        return replace(self, forecast=forecast, totals=totals_of(forecast), proof=proof)

    @property
    def calls(self) -> tuple[StepForecast, ...]:
        """The steps that make calls, or may, in the order of the forecast."""
        return tuple(self.forecast.calls())

    def to_json(self) -> dict[str, Any]:
        """The dry run as JSON data, in the shape that `callsheet.views.dry_run_data.dry_run_json` tells."""
        from callsheet.views.dry_run_data import dry_run_json  # noqa: PLC0415 - one of two

        return dry_run_json(self.forecast, self.totals, self.price, self._verdict())

    def to_text(self, columns: int = 100) -> str:
        """The dry run as text, in lines of about `columns` characters."""
        from callsheet.views.dry_run import dry_run_text  # noqa: PLC0415 - one of two

        return dry_run_text(self.forecast, self.totals, self.price, columns, self._verdict())

    def _verdict(self) -> PolicyVerdict | None:
        return None if self.proof is None else _verdict_of(self.proof)

    def __str__(self) -> str:
        return self.to_text()


_DUTIES: Mapping[Duty, str] = {
    Duty.SSRF_GUARD: "only public addresses and audiences are reached",
    Duty.SANDBOX: "the code runs without a network",
    Duty.FILES: "the code sees no secret, and of the workspace only what it declares",
    Duty.STORE_LABEL: "the labels of stored data are kept for later runs",
    Duty.VERIFY_AGAIN: "what is not known yet is checked against the policy then",
}
"""The duties that the runtime takes care of, in words."""


def _verdict_of(proof: Proof) -> PolicyVerdict:
    """A proof's refusals, approvals and obligations by step, for display."""
    tree = proof.plan.tree
    places = proof.plan.steps if tree is None else all_statements(tree)
    steps: dict[str, list[Remark]] = {one.id: [] for one in places}
    plan: list[Remark] = []
    for doubt in proof.doubts:
        if doubt.is_error:
            steps.get(doubt.step or "", plan).append(Remark(RemarkKind.REFUSES, doubt.message, doubt.code))
    for violation in proof.verdict.violations:
        remark = Remark(
            RemarkKind.REFUSES, violation.message, CODES[violation.rule], " → ".join(violation.flow)
        )
        steps.get(violation.step or "", plan).append(remark)
    for kind, step, detail, *_ in proof.obligations:
        if kind is Duty.APPROVE:
            steps[step].append(Remark(RemarkKind.NEEDS_APPROVAL, detail))
        else:
            steps[step].append(
                Remark(RemarkKind.ENFORCES, _DUTIES[kind] + (f" ({detail})" if detail else ""))
            )
    by_step = {step: tuple(dict.fromkeys(remarks)) for step, remarks in steps.items() if remarks}
    return PolicyVerdict(proof.policy.name, not proof.ok, by_step, tuple(plan))


def dry_run_of(
    plan: Steps,
    facts: Mapping[str, ToolFacts],
    inputs: Mapping[str, JSON],
    assumed: Mapping[str, JSON],
    asks: AsksFirst = nobody_asked,
    price: float | None = None,
    findings: Findings | None = None,
    source: Source | None = None,
) -> DryRun:
    """The dry run of a plan that has passed the checks.

    With the `source` of a Python plan, its conditions are told in its own words.

    Raises CallsheetError: RUN040 for a result assumed of a step that does not exist or calls nothing, and
    whatever `compile_plan` raises.
    """
    check_assumed(plan, assumed)
    compile_plan(plan, facts)
    knowledge = Knowledge(
        facts=facts,
        assumed=assumed,
        compute=work_out,
        ask_model=expected_use,
        needs_approval=asks,
        has_secrets=False,
    )
    forecast = foresee(plan, inputs, knowledge)

    def cases() -> Worlds:

        return worlds_of(plan, lambda one: foresee(one, inputs, knowledge), facts, source)

    return DryRun(forecast, totals_of(forecast), price, findings or Findings(), cases=cases)


def either(rules: Iterable[str], more: NeedsApproval) -> AsksFirst:
    """Whether calls of a tool by a step need approval, by the run's own rules or by further ones."""
    by_rule, by_more = _predicate(rules), _predicate(more)
    return lambda tool, step: by_rule(tool, step) or by_more(tool, step)


def check_assumed(plan: Steps, assumed: Iterable[str]) -> None:
    """Raise CallsheetError (RUN040) if a result is assumed for a step that is missing or calls nothing."""
    calls = {step.id: step.call is not None for step in plan.steps}
    for step_id in assumed:
        if step_id not in calls:
            help_ = meant(step_id, calls, "`callsheet graph` shows the ids of a plan")
            message = f"there is no step {step_id[:60]} whose result could be assumed"
            raise CallsheetError.single("RUN040", message, help=help_)
        if not calls[step_id]:
            message = f"step {step_id} calls nothing, so it has no result to assume"
            raise CallsheetError.single(
                "RUN040", message, help="assume the result of a step that calls a tool"
            )


def _predicate(given: NeedsApproval) -> AsksFirst:
    if callable(given):
        return lambda tool, step: given(tool)
    expected = "a list of names, or a function that says it of a name"
    if isinstance(given, str):
        raise wrong("needs_approval", given, expected)
    names = approval_rules(
        wanted("needs_approval", name, str, expected)
        for name in wanted_list("needs_approval", given, "names")
    )
    return lambda tool, step: needs_approval(names, tool, step)


MOST_CONDITIONS = 6
"""The most conditions that are varied together: each one more doubles the cases."""
_OPPOSITE = {
    Comparison.NE: Comparison.EQ,
    Comparison.GE: Comparison.LT,
    Comparison.LE: Comparison.GT,
    Comparison.NOT_IN: Comparison.IN,
    Comparison.IS_NOT: Comparison.IS,
}


@dataclass(frozen=True, slots=True)
class Case:
    """What is changed if these conditions hold or not: only those that matter here are named."""

    holds: tuple[tuple[str, bool], ...]
    changes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Worlds:
    """What a plan changes in any case, and what in each of its cases.

    Each group of cases is about conditions that decide together about the same changes; one case of each
    group comes true in a run. `undecided` are the conditions on which a change seems to depend, but none
    does: the same is changed whether or not they hold. `left_open` are those that were not varied, because
    there are too many.
    """

    always: tuple[str, ...] = ()
    groups: tuple[tuple[Case, ...], ...] = ()
    undecided: tuple[str, ...] = ()
    left_open: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether there is anything to compare."""
        return bool(self.groups or self.undecided or self.left_open)

    def lines(self) -> Iterator[str]:
        """The cases in lines: the conditions of each, and under them what is changed."""
        if self.always or not self.groups:
            yield "in any case:"
            yield from (f"  {change}" for change in self.always or ("nothing is changed",))
        for case in (case for group in self.groups for case in group):
            yield f"if {' and '.join(_stated(text, holds) for text, holds in case.holds)}:"
            yield from (f"  {change}" for change in case.changes or ("nothing of this",))
        for text in self.undecided:
            yield f"whether or not {text}: the same is changed"
        if self.left_open:
            yield (
                f"only the first {MOST_CONDITIONS} conditions are varied; changes that depend on the other "
                f"{len(self.left_open)} are shown as perhaps"
            )

    def to_json(self) -> dict[str, Any]:
        """The cases as JSON data."""
        groups = [
            [{"if": dict(case.holds), "changes": list(case.changes)} for case in group]
            for group in self.groups
        ]
        return {
            "always": list(self.always),
            "groups": groups,
            "undecided": list(self.undecided),
            "left_open": list(self.left_open),
        }


def _stated(text: str, holds: bool) -> str:
    is_joined = any(f" {word} " in text for word in ("and", "or", "if"))
    text = f"({text})" if is_joined else text
    return text if holds else f"not {text}"


_Key: TypeAlias = "tuple[Expression, int]"
"""A condition: without negation, with a number that tells apart those whose variables change between."""


def worlds_of(
    plan: Steps,
    predicted: Callable[[Steps], Forecast],
    facts: Mapping[str, ToolFacts],
    source: Source | None = None,
) -> Worlds:
    """The cases of a plan that has passed the checks; none for one without blocks.

    `predicted` makes a dry run of a plan. With the `source` of a Python plan, conditions are in its words.
    """
    if plan.tree is None:
        return Worlds()
    found = _Conditions(plan.tree)
    keys = list(found.texts)
    varied, open_ = keys[:MOST_CONDITIONS], keys[MOST_CONDITIONS:]
    said = {key: _said(found.texts[key], source) for key in keys}

    def changes(holds: tuple[bool, ...]) -> tuple[str, ...]:
        assert plan.tree is not None
        tree = found.assuming(plan.tree, dict(zip(varied, holds, strict=True)))
        made = plan_of_tree(tree, id=plan.id, title=plan.title, goal=plan.goal)
        return tuple(_changes(predicted(made)))

    outcome = {holds: changes(holds) for holds in product((True, False), repeat=len(varied))}
    always, parts = _parts(outcome, len(varied))
    texts = [said[key] for key in varied]
    groups = tuple(tuple(_cases(part, texts)) for part in parts)
    deciding = {text for group in groups for case in group for text, _ in case.holds}
    undecided = (
        said[key] for key in varied if said[key] not in deciding and found.leads_to_change(key, facts)
    )
    return Worlds(always, groups, tuple(dict.fromkeys(undecided)), tuple(said[key] for key in open_))


_Outcome: TypeAlias = "Mapping[tuple[bool, ...], tuple[str, ...]]"


def _parts(outcome: _Outcome, number: int) -> tuple[tuple[str, ...], list[_Outcome]]:
    """What is changed whatever holds; and the rest, for conditions that decide about it together."""
    counts = {holds: Counter(made) for holds, made in outcome.items()}

    def depends(change: str, on: int) -> bool:
        def other(holds: tuple[bool, ...]) -> tuple[bool, ...]:
            return (*holds[:on], not holds[on], *holds[on + 1 :])

        return any(count[change] != counts[other(holds)][change] for holds, count in counts.items())

    changes = dict.fromkeys(change for made in outcome.values() for change in made)
    joined: list[tuple[set[int], set[str]]] = []
    for change in changes:
        on, about = {n for n in range(number) if depends(change, n)}, {change}
        for before in [one for one in joined if one[0] & on]:
            joined.remove(before)
            on, about = on | before[0], about | before[1]
        if on:
            joined.append((on, about))
    decided = {change for _, about in joined for change in about}
    first = next(iter(outcome.values()))
    parts: list[_Outcome] = [
        {holds: tuple(one for one in made if one in about) for holds, made in outcome.items()}
        for _, about in joined
    ]
    return tuple(one for one in first if one not in decided), parts


def _cases(
    outcome: _Outcome,
    texts: list[str],
    so_far: tuple[bool, ...] = (),
    holds: tuple[tuple[str, bool], ...] = (),
) -> Iterator[Case]:
    """The cases that begin with these conditions, divided only where it makes a difference."""
    number = len(so_far)
    here = {made for full, made in outcome.items() if full[:number] == so_far}
    if len(here) == 1:
        yield Case(holds, here.pop())
        return
    true, false = (
        [made for full, made in outcome.items() if full[: number + 1] == (*so_far, one)]
        for one in (True, False)
    )
    if true == false:
        yield from _cases(outcome, texts, (*so_far, True), holds)
        return
    for one in (True, False):
        yield from _cases(outcome, texts, (*so_far, one), (*holds, (texts[number], one)))


def _said(node: Expression, source: Source | None) -> str:
    if source is not None and node.span is not None and is_python(source.text):
        return in_brief(source.text[node.span.start : node.span.end])
    return in_brief(spelled(node))


def _positive(node: Expression) -> tuple[Expression, bool]:
    """A condition without negation, and whether it has to hold: `a != b` is that `a == b` does not."""
    match node:
        case Unary(op=UnaryOp.NOT, operand=operand):
            inner, holds = _positive(operand)
            return inner, not holds
        case Compared(rest=((op, other),)) if op in _OPPOSITE:
            return replace(node, rest=((_OPPOSITE[op], other),), span=None), False
        case _:
            return node, True


class _Conditions:
    """The conditions of a tree: those of its branches and of expressions that choose between two values."""

    def __init__(self, tree: Tree) -> None:
        self._times: dict[str, int] = {}
        for one in all_statements(tree):
            for name in variables_set(one):
                self._times[name] = self._times.get(name, 0) + 1
        self.texts: dict[_Key, Expression] = {}
        """The conditions in the order of the text."""
        self._at: dict[int, tuple[_Key, bool]] = {}
        self._branches: dict[_Key, list[Block]] = {}
        for one in (
            *statements(tree.body),
            *(inner for plan in tree.plans for inner in statements(plan.body)),
        ):
            for node in operands(one) if _is_rewritten(one) else ():
                self._note_choices(node)
            if isinstance(one, If):
                for branch in one.branches:
                    key = self._note(branch.condition)
                    self._branches.setdefault(key, []).append(branch.body)
                    self._branches[key].append(one.otherwise or ())

    def _note(self, node: Expression) -> _Key:
        positive, holds = _positive(node)
        changes = any(self._times.get(name, 0) > 1 for name in variables_in(node))
        key = positive, len(self._at) if changes else 0
        self._at[id(node)] = key, holds
        self.texts.setdefault(key, positive)
        return key

    def _note_choices(self, node: Expression) -> None:
        if isinstance(node, Comprehension | Lambda):  # chooses for each item
            return
        if isinstance(node, Conditional):
            self._note(node.condition)
        for inner in children(node):
            self._note_choices(inner)

    def leads_to_change(self, key: _Key, facts: Mapping[str, ToolFacts]) -> bool:
        """Whether a call that may change something stands in a branch of this condition."""
        inner = (one for block in self._branches.get(key, ()) for one in statements(block))
        called = (facts.get(one.tool) for one in inner if isinstance(one, Act))
        return any(known is not None and not known.effect.only_reads for known in called)

    def assuming(self, tree: Tree, holds: Mapping[_Key, bool]) -> Tree:
        """The tree with these conditions replaced by whether they hold."""

        def known(node: Expression) -> bool | None:
            noted = self._at.get(id(node))
            if noted is None or noted[0] not in holds:
                return None
            return holds[noted[0]] is noted[1]

        def chosen(node: Expression) -> Expression:
            if isinstance(node, Comprehension | Lambda):
                return node
            if isinstance(node, Conditional) and (truth := known(node.condition)) is not None:
                return chosen(node.then if truth else node.otherwise)
            return mapped(node, chosen)

        def block(before: Block) -> Block:
            return tuple(map(statement, before))

        def statement(before: Statement) -> Statement:
            return map_blocks(_with_operands(before, chosen, known), block)

        plans = tuple(replace(plan, body=block(plan.body)) for plan in tree.plans)
        return replace(tree, plans=plans, body=block(tree.body))


def _is_rewritten(one: Statement) -> bool:
    return isinstance(one, Act | Invoke | Let | Assign | Say)


def _with_operands(
    one: Statement, chosen: Callable[[Expression], Expression], known: Callable[[Expression], bool | None]
) -> Statement:
    match one:
        case Act(positional=positional, named=named):
            values = tuple((name, chosen(value)) for name, value in named)
            return replace(one, positional=tuple(map(chosen, positional)), named=values)
        case Invoke(named=named):
            return replace(one, named=tuple((name, chosen(value)) for name, value in named))
        case Let(value=value) | Assign(value=value):
            return replace(one, value=chosen(value))
        case Say(values=said):
            return replace(one, values=tuple(map(chosen, said)))
        case If(branches=branches):
            truths = [known(branch.condition) for branch in branches]
            made = tuple(
                branch if truth is None else replace(branch, condition=Literal(truth))
                for branch, truth in zip(branches, truths, strict=True)
            )
            return replace(one, branches=made)
        case _:
            return one


def _changes(forecast: Forecast) -> Iterator[str]:
    """What a dry run would change, a text for each call, in order."""
    for step in forecast.steps:
        if not step.is_call or step.effect is None or step.effect.only_reads:
            continue
        around = "".join(_around(step, forecast.blocks))
        for visit in step.visits:
            given = (
                *map(shown, visit.inputs),
                *(f"{name}={shown(value)}" for name, value in visit.arguments),
            )
            assert step.tool is not None
            yield f"{around}{step.tool.lower()}({', '.join(given)})"


def _around(step: StepForecast, blocks: Mapping[str, BlockForecast]) -> Iterator[str]:
    """On what a call depends in a case: loops, failures, and conditions that are left open."""
    if step.when is When.ON_FAILURE:
        yield "after a failure: "
    is_open = step.when is When.MAYBE
    for key in step.within:
        block = blocks[key]
        if isinstance(block.statement, Foreach) and block.count is None:
            yield f"for each item of {shown(block.items)}: "
            is_open = False
        elif isinstance(block.statement, Repeat):
            yield "again and again: "
            is_open = False
        elif isinstance(block.statement, If) and block.when is When.MAYBE:
            is_open = is_open or not all(
                isinstance(branch.condition, Literal) for branch in block.statement.branches
            )
    if is_open:
        yield "perhaps: "
