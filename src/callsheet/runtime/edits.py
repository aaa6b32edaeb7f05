"""The edits with which a run branches off, and the checks whether they are possible.

In: the parent run and the requested edits. Out: the edited plan, the event of the edit, and which edited
values are secret; or a JournalError (JRN084).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, cast

from callsheet.diagnostics import CallsheetError, Diagnostic, Severity, Source, did_you_mean, meant
from callsheet.frontends.dag import format_dag, parse_dag
from callsheet.frontends.ltp import parse
from callsheet.frontends.structured import read_structured
from callsheet.ir import JSON, DictExpr, ListExpr, Literal, Order, Plan, Step, Value
from callsheet.ir.expression import Display, Expression, Kind
from callsheet.ir.expression import Mapping as MappingExpression
from callsheet.ir.statement_ids import with_ids
from callsheet.ir.strict_json import NotJson, read_json
from callsheet.ir.tree import Act, Block, If, Statement, Tree, all_statements, inner_blocks, statements
from callsheet.ir.tree_edits import map_blocks, with_tree
from callsheet.machine import Edited, Machine
from callsheet.machine.keys import parse_key
from callsheet.machine.tree.variables import (
    names_under_way,
    results_under_way,
    secret_under_way,
    wrong_input,
)
from callsheet.sealing.known import Known
from callsheet.sealing.masking import Finder, mask_value
from callsheet.sealing.sealer import is_sealed
from callsheet.store import EventType, Journal, JournalError
from callsheet.store.branch import is_fed_to_machine, state_at
from callsheet.store.events import Event
from callsheet.store.folded import Folded
from callsheet.store.fork import hash_at
from callsheet.store.runs import RunInfo
from callsheet.store.start import Start
from callsheet.views.describe import wording_of


def with_argument(plan: Plan, step: str, name: str, value: JSON) -> Plan:
    """The plan with another argument of a call, a positional one by its index; it is data, no expression."""

    def changed(old: Statement) -> Statement:
        if not isinstance(old, Act):
            raise JournalError("JRN084", f"step {step} calls no tool", "edit the step: --replace")
        given = _constant(value)
        if name.isascii() and name.isdigit() and int(name) < len(old.positional):
            at = int(name)
            return replace(old, positional=(*old.positional[:at], given, *old.positional[at + 1 :]))
        if any(known == name for known, _ in old.named):
            return replace(old, named=tuple((n, given if n == name else v) for n, v in old.named))
        return replace(old, named=(*old.named, (name, given)))

    return _with_statement(plan, step, changed)


def with_line(plan: Plan, step: str, text: str) -> Plan:
    """The plan with another line in place of a statement; raises CallsheetError for what is no line."""

    def changed(old: Statement) -> Statement:
        new = _read_statement(old.id, text)
        is_written = getattr(old, "is_named", None)
        return replace(new, id=old.id) if is_written is None else _with_id(new, old.id, is_named=is_written)

    return _with_statement(plan, step, changed)


def _with_id(new: Statement, id_: str, *, is_named: bool) -> Statement:
    return replace(new, id=id_, is_named=is_named) if hasattr(new, "is_named") else replace(new, id=id_)


def _read_statement(id_: str, text: str) -> Statement:
    """A statement of one line, with its id or without."""
    written = text.strip()
    texts = [written] if written.startswith(f"{id_}:") else [f"{id_}: {written}", written]
    reads = [read_structured(f"# ltp: 2\n{each}\n", "--replace") for each in texts]
    read = next((each for each in reads if each.plan is not None), reads[-1])
    if read.plan is None or read.plan.tree is None:
        raise CallsheetError(read.diagnostics, read.source)
    body = read.plan.tree.body
    if len(body) != 1 or "\n" in written:
        raise _wrong("this must be one line of a plan", read.source)
    if not isinstance(body[0], If) and next(inner_blocks(body[0]), None) is not None:
        raise _wrong("a block is not a step", read.source)
    return body[0]


def _with_statement(plan: Plan, step: str, change: Callable[[Statement], Statement]) -> Plan:
    tree = plan.tree
    assert tree is not None
    ids = [one.id for one in all_statements(tree)]
    if step not in ids:
        hint = meant(step, ids, f"its steps are {', '.join(ids[:12])}")
        raise JournalError("JRN084", f"the plan of the run has no step {step[:80]}", hint)
    for one in tree.plans:
        if one.origin is not None and any(each.id == step for each in statements(one.body)):
            raise JournalError(
                "JRN084",
                f"step {step} is one of {one.name}, which the plan uses from {one.origin.reference}",
                hint="edit that plan, and run with it: callsheet rerun RUN --plan FILE",
            )
    plans = tuple(replace(one, body=_in_block(one.body, step, change)) for one in tree.plans)
    made: Tree = replace(tree, body=_in_block(tree.body, step, change), plans=plans)
    now = [one.id for one in all_statements(with_ids(made))]
    if len(set(now)) != len(now):
        raise JournalError("JRN084", f"the new line for {step} has an id that the plan has already")
    return with_tree(plan, with_ids(made))


def _in_block(block: Block, step: str, change: Callable[[Statement], Statement]) -> Block:
    def inside(inner: Block) -> Block:
        return _in_block(inner, step, change)

    return tuple(
        change(one)
        if one.id == step
        else map_blocks(one, inside)
        if next(inner_blocks(one), None) is not None
        else one
        for one in block
    )


def _constant(data: JSON) -> Expression:
    """A value as an expression: itself, whatever it contains."""
    if isinstance(data, dict):
        return MappingExpression(tuple((Literal(key), _constant(value)) for key, value in data.items()))
    if isinstance(data, list):
        return Display(Kind.LIST, tuple(_constant(value) for value in data))
    return Literal(data)


def _wrong(message: str, source: Source) -> CallsheetError:
    return CallsheetError([Diagnostic("JRN084", Severity.ERROR, message)], source)


class ParentHistory:
    """The events and plans of the parent of a fork."""

    def __init__(self, journal: Journal, parent: RunInfo, known: Known | None = None) -> None:
        self._journal = journal
        self._known = known or Known()
        self.parent = parent
        self._places = journal.places(parent.run_id)
        self.opener = journal.opener(parent.run_id)
        self.plan_of = journal.plan_of
        self.plan, self.text = journal.plan(parent.plan_hash)

    def events(self, upto: int | None = None) -> Iterator[Event]:
        """The parent's events, unsealed, since its course depends on its secrets too."""
        for event in self.opener.events(self._journal.events(self.parent.run_id)):
            if upto is not None and event.seq > upto:
                return
            yield event

    def closed(self) -> Iterator[Event]:
        """The parent's events as stored."""
        return self._journal.events(self.parent.run_id)

    def has_sealed(self) -> bool:
        """Whether anything in the parent is sealed."""
        return any(is_sealed(event.body) for event in self.closed())

    def known(self) -> Known:
        """All known secrets of the parent, after unsealing all of its events."""
        for _ in self.events():
            pass
        return self.opener.short + self._known + self.opener.declared

    def finds_in(self, value: JSON) -> bool:
        """Whether a value contains a known secret."""
        return mask_value(value, self.finder()) != value

    def finder(self, known: Known | None = None) -> Finder:
        """Finds the secrets of the parent, for whoever looks for them in many values; `known`, if given."""
        known = self.known() if known is None else known
        return self._journal.sealer(self.parent.run_id, self.text).finder.knowing(known)

    def first(self) -> Start:
        """What the parent was started with, with its tools at their current places."""
        return Start.from_json(next(self.events()).body or {}).at_places(self._places)

    def start(self, at: int, changes: Mapping[str, Any]) -> dict[str, Any]:
        """The body of the new run's start event: the parent's, plus the origin of the fork.

        The tools are those at the current places of the parent's.
        """
        first = next(self.events())
        parent = self.parent.run_id
        origin = {"run": parent, "event": at, "hash": hash_at(self._journal.parts, parent, at)}
        body = dict(first.body or {})
        if self._places:
            body["launch"] = self.first().launch
        return {**body, "fork": {**origin, **changes}}


@dataclass(frozen=True, slots=True)
class Edits:
    """What is edited when a run is forked, and by whom.

    `variables` by name; `arguments` by step and name; `steps`, each a line of plan (in a graph a JSON
    object), by id.
    """

    variables: Mapping[str, JSON] = field(default_factory=dict[str, JSON])
    arguments: Mapping[tuple[str, str], JSON] = field(default_factory=dict["tuple[str, str]", JSON])
    steps: Mapping[str, str] = field(default_factory=dict[str, str])
    by: str = ""

    @property
    def changes_plan(self) -> bool:
        """Whether the new run has another plan."""
        return bool(self.arguments or self.steps)

    def to_json(self) -> list[dict[str, JSON]]:
        """The edits for the new run's start event; values of variables are in its `edit` event instead."""
        rows: list[dict[str, JSON]] = [{"set": name} for name in self.variables]
        rows += [{"args": f"{step}.{name}", "value": v} for (step, name), v in self.arguments.items()]
        return rows + [{"replace": step, "line": line} for step, line in self.steps.items()]


def edit_of(before: Folded, last: Event, edits: Edits) -> Edited | None:
    """The event of an edit of variables, None if none are edited; raises JournalError (JRN082, JRN084)."""
    if not edits.variables and not edits.changes_plan:
        return None
    machine = before.machine
    if machine.result is not None and (before.ended or not is_fed_to_machine(last.type)):
        raise JournalError(
            "JRN082",
            f"the run ended at event {last.seq}: no later step can be edited",
            hint="name an earlier event: `callsheet show RUN --events` lists them",
        )
    known = {*machine.program.names, *machine.variables()}
    if machine.tree is not None:
        known = set(names_under_way(machine))
    for name in edits.variables:
        if name not in known:
            words = wording_of(machine.program.plan)
            near = did_you_mean(name, known)
            shown = [words.variable(one) for one in near or _alike(name, known)]
            hint = f"did you mean {' or '.join(shown)}?" if near else f"it has {', '.join(shown)}"
            raise JournalError(
                "JRN084", f"the run has no variable {words.missing(name[:80])}", hint if shown else None
            )
    if not edits.variables:
        return None
    return Edited(dict(edits.variables), edits.by, holds=is_fed_to_machine(last.type))


def _alike(name: str, known: Collection[str]) -> list[str]:
    """The variables of this name in items and sub-plans under way at the event, else all."""
    inner = [one for one in known if one.rpartition("/")[2] == name.rpartition("/")[2]]
    return sorted(inner or known)[:8]


def check_inputs(before: Folded, edits: Edits, at: int) -> None:
    """Check the values of the inputs of a plan with blocks, which have types. Raises JournalError (JRN084).

    At the first event only inputs can be edited: nothing else is there to be replaced.
    """
    tree = before.machine.program.tree
    if tree is None:
        return
    inputs = {one.name for _, one in tree.inputs}
    for name, value in edits.variables.items():
        if at == 1 and name not in inputs:
            raise JournalError(
                "JRN084",
                f"${name[:80]} is no input of the plan, so it has no value at event 1 that could be replaced",
                f"fork after the event that sets it; the inputs are {', '.join(sorted(inputs)) or 'none'}",
            )
        wrong = wrong_input(tree, name, value)
        if wrong:
            raise JournalError("JRN084", f"${name} cannot be that: {wrong}", "give a value of its type")


def secret_in(before: Folded, start: Start, edits: Edits) -> frozenset[str]:
    """The edited variables that replace secret values."""
    monitor = before.machine.monitor
    labels = {} if monitor is None else monitor.variables()
    secret = {name for name, (label, _) in labels.items() if label.is_secret}
    if monitor is not None and before.machine.tree is not None:
        secret |= secret_under_way(before.machine)
    return frozenset(name for name in edits.variables if name in start.secret or name in secret)


def sealed_before(history: ParentHistory, at: int, edits: Edits) -> frozenset[str]:
    """The edited variables that contained sealed data, either at the edit or at the parent's end."""
    if not edits.variables or not history.has_sealed():
        return frozenset()
    names = set[str]()
    for seq in {at, history.parent.events}:
        opened, closed = (
            state_at(history.plan, rows, seq, history.plan_of)[0].machine.all_variables()
            for rows in (history.events(), history.closed())
        )
        names |= {name for name in edits.variables if opened.get(name) != closed.get(name)}
    return frozenset(names)


def check_plain(history: ParentHistory, edits: Edits) -> None:
    """Refuse an edit of the plan that contains a secret, since plans are stored unsealed (SEC009)."""
    texts: list[JSON] = [{name: value} for (_, name), value in edits.arguments.items()]
    texts += edits.steps.values()
    steps = chain((step for step, _ in edits.arguments), edits.steps)
    for step, value in zip(steps, texts, strict=True):
        if history.finds_in(value):
            raise JournalError(
                "SEC009",
                f"step {step} of the new plan would contain a secret, and plans are stored unencrypted",
                hint="let the step read a variable, and set that: --set NAME=VALUE",
            )


def changed_steps(edits: Edits) -> set[str]:
    """The steps that are edited, wholly or in an argument."""
    return {*edits.steps, *(step for step, _ in edits.arguments)}


def check_not_begun(history: ParentHistory, edits: Edits, at: int) -> None:
    """Refuse to edit a step whose calls had left; raises JournalError (JRN082)."""
    changed = changed_steps(edits)
    for event in history.events(at):
        if event.type is EventType.PLAN:
            raise JournalError(
                "JRN082",
                f"at event {event.seq} the run followed a new plan of RE-PLAN, which cannot be edited",
                hint=f"fork before it, or edit only variables: --at {event.seq - 1}",
            )
        step = "" if event.key is None else parse_key(event.key).step.removesuffix(":clock")
        if step in changed:
            raise JournalError(
                "JRN082",
                f"step {step} had started at event {event.seq}, so it cannot be edited any more",
                hint=f"fork before it: --at {max(1, event.seq - 1)}",
            )


def check_same_past(before: Folded, now: Folded, edits: Edits) -> None:
    """Refuse a plan edit that would have changed the run's past; raises JournalError (JRN082)."""
    changed = changed_steps(edits)

    def left(folded: Folded) -> dict[str, object]:
        others = ((key, c) for key, c in folded.waiting.items() if parse_key(key).step not in changed)
        return {key: command for key, command in others if key in folded.launched}

    is_same = _past(before.machine) == _past(now.machine) and left(before) == left(now)
    if not is_same:
        raise JournalError(
            "JRN082",
            f"with {', '.join(sorted(changed))} edited, the run would have taken another path before that "
            "event",
            hint="fork at an earlier event: `callsheet show RUN --events` lists them",
        )


def _past(machine: Machine) -> object:
    """What a run has made so far: its variables, and the results of items of loops under way."""
    if machine.tree is None:
        return machine.variables()
    return machine.all_variables(), results_under_way(machine)


def with_arguments(plan: Plan, given: Mapping[tuple[str, str], JSON]) -> Plan:
    """The plan with these arguments, by step and name; a text is a literal, in which `$` has no meaning.

    A positional argument is named by its index, from 0. Raises JournalError (JRN084) for an unknown step, or
    one that calls no tool; an unknown name adds an argument.
    """
    for (step, name), value in given.items():
        if plan.tree is not None:
            plan = with_argument(plan, step, name, value)
            continue
        plan = _with_step(plan, step, lambda old, n=name, v=value: _with_argument(old, n, v))
    return plan


def with_steps(plan: Plan, given: Mapping[str, str]) -> Plan:
    """The plan with these steps, each given as a line of plan, or in a graph as a JSON object.

    Raises JournalError (JRN084) for an unknown step, CallsheetError for a text that is not a step.
    """
    for step, text in given.items():
        if plan.tree is not None:
            plan = with_line(plan, step, text)
            continue
        read = _read_object if plan.order is Order.DAG else _read_line
        plan = _with_step(plan, step, lambda old, t=text, p=plan, r=read: r(p, old, t))
    return plan


def _with_step(plan: Plan, name: str, change: Callable[[Step], Step]) -> Plan:
    at = next((n for n, step in enumerate(plan.steps) if step.id == name), None)
    if at is None:
        names = [step.id for step in plan.steps]
        listed = ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
        hint = meant(name, names, f"its steps are {listed}")
        raise JournalError("JRN084", f"the plan of the run has no step {name[:80]}", hint)
    return replace(plan, steps=(*plan.steps[:at], change(plan.steps[at]), *plan.steps[at + 1 :]))


def _with_argument(step: Step, name: str, value: JSON) -> Step:
    action = step.call
    if action is None:
        raise JournalError("JRN084", f"step {step.id} calls no tool", "edit the step: --replace")
    new_value = _value_of(value)
    if name.isascii() and name.isdigit() and int(name) < len(action.positional):
        at = int(name)
        given = (*action.positional[:at], new_value, *action.positional[at + 1 :])
        return replace(step, action=replace(action, positional=given))
    names = [known for known, _ in action.named]
    if name in names:
        named = tuple((known, new_value if known == name else old) for known, old in action.named)
    else:
        named = (*action.named, (name, new_value))
    return replace(step, action=replace(action, named=named))


def _value_of(data: JSON) -> Value:
    if isinstance(data, dict):
        return DictExpr(tuple((key, _value_of(value)) for key, value in data.items()))
    if isinstance(data, list):
        return ListExpr(tuple(_value_of(value) for value in data))
    return Literal(data)


def _read_line(_plan: Plan, old: Step, text: str) -> Step:
    """Parse a step from a line of plan."""
    has_id = text.lstrip().startswith(f"{old.id}:")
    read = parse(text if has_id else f"{old.id}: {text}", "--replace")
    steps = read.require().steps
    if len(steps) != 1:
        raise _wrong(f"this must be one line of a plan, but has {len(steps)}", read.source)
    (step,) = steps
    if step.group is not None:
        raise _wrong("a block is not a step", read.source)
    return replace(step, id=old.id, group=old.group, depends_on=old.depends_on)


def _read_object(plan: Plan, old: Step, text: str) -> Step:
    """Parse a step of a plan of dependencies from a JSON object."""
    source = Source("--replace", text)
    try:
        given: Any = read_json(text)
    except NotJson as error:
        raise _wrong(f"a step of this plan is a JSON object, but this is not one: {error}", source) from error
    if not isinstance(given, dict):
        raise _wrong("a step of this plan is a JSON object", source)
    tree = json.loads(format_dag(plan))
    steps = cast("list[dict[str, Any]]", tree["steps"])
    at = next(n for n, step in enumerate(plan.steps) if step.id == old.id)
    steps[at] = {**cast("dict[str, Any]", given), "index": steps[at]["index"]}
    return parse_dag(json.dumps(tree), "--replace").require().steps[at]
