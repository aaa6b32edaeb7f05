"""A plan as a Mermaid flowchart, text only; whatever the plan holds, the diagram stays whole."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from callsheet.ir import Call, Goto, Order, Plan, Replan, Respond, Step, Terminate
from callsheet.ir.flow import is_guarded, turns_of
from callsheet.ir.precedence import Precedence
from callsheet.views.columns import cut, fitted
from callsheet.views.describe import (
    describe_action,
    describe_condition,
    describe_guard,
    describe_output,
    short_call,
)

_SAFE_ID = re.compile(r"[A-Z][A-Za-z]{0,20}[0-9]{1,9}")
_MOST_LABEL = 120
_MOST_ID = 24
_AT_ONCE = 128
"""The steps whose labels are escaped together."""
_ESCAPES = (("#", "#35;"), ('"', "'"), ("`", "#96;"), ("&", "#amp;"), ("\\", "#92;"))
"""What may not stand in a label, and what stands for it; the first is in what the others become."""
_IN_PAIRS = re.compile(r"<(?![ =])|%(?=%)")


def mermaid(plan: Plan) -> str:
    """The plan as `graph TD`, without a fence.

    Sequence and jumps are arrows, conditions the labels of the arrows into a step, failures
    dotted arrows; a group is a subgraph. Its size is linear in the plan's.
    The nodes of a plan of dependencies stand level by level, whatever the order of its steps.

    >>> from callsheet.ir import Literal, Respond
    >>> print(mermaid(Plan((Step("S1", Respond((Literal("hi"),))),))))
    graph TD
        S1(["S1: @RESPOND ('hi')"])
    """
    if not plan.steps:
        return 'graph TD\n    empty["Empty plan"]'
    if plan.order is Order.DAG:
        plan = replace(plan, steps=tuple([plan.steps[number] for number in _by_level(plan)]))
    ids = [step.id for step in plan.steps]
    nodes = _Nodes(ids, _node_names(ids))
    lines = ["graph TD", *nodes.lines(plan.steps)]
    lines.extend(_dependencies(plan, nodes) if plan.order is Order.DAG else _Edges(plan, nodes).lines())
    return "\n".join(lines)


def node_names(plan: Plan) -> list[str]:
    """The name of each step's node in the chart of `mermaid`, in the order of the plan.

    >>> from callsheet.ir import Literal, Respond
    >>> node_names(Plan((Step("first", Respond((Literal("hi"),))),)))
    ['step_1']
    """
    if plan.order is not Order.DAG:
        return _node_names([step.id for step in plan.steps])
    drawn = _by_level(plan)
    names = dict(zip(drawn, _node_names([plan.steps[number].id for number in drawn]), strict=True))
    return [names[number] for number in range(len(plan.steps))]


def _by_level(plan: Plan) -> list[int]:
    """The steps of a plan of dependencies in the order in which they are drawn."""
    return [number for level in Precedence.of(plan).levels() for number in level]


def escape_label(text: str) -> str:
    """The text as it may stand between the quotes of a label, cut to 120 characters.

    A double quote becomes a single one, which stays legible everywhere.

    >>> escape_label('say "a" & <b>')
    "say 'a' #amp; #lt;b>"
    """
    return _escape(fitted(text[: _MOST_LABEL * 4], _MOST_LABEL))


def _escape(labels: str) -> str:
    """Printable text, of one label or of many in lines, as it may stand between the quotes of one."""
    for special, escape in _ESCAPES:
        labels = labels.replace(special, escape)
    return _IN_PAIRS.sub(_escaped, labels) if "<" in labels or "%%" in labels else labels


def _escaped(match: re.Match[str]) -> str:
    return "#lt;" if match.group() == "<" else "#37;"


# ---------------------------------------------------------------- nodes


def _node_names(ids: list[str]) -> list[str]:
    """A node's name for each step: its id where that is harmless and unique, else `step_NUMBER`."""
    harmless = _SAFE_ID.fullmatch
    names = [one if harmless(one) else f"step_{number}" for number, one in enumerate(ids, 1)]
    if len(set(names)) < len(names):
        taken: set[str] = set()
        for number, one in enumerate(ids):
            if one in taken:
                names[number] = f"step_{number + 1}"
            taken.add(one)
    return names


@dataclass(slots=True)
class _Nodes:
    """The nodes of a plan, and what the arrows ask of its steps.

    All of it is noted in one pass, some steps at a time: a large plan lies in no cache, so that each look at
    it costs.
    """

    ids: list[str]
    names: list[str]
    groups: list[int | None] = field(default_factory=list[int | None])
    """The group of each step."""
    entries: dict[int, str] = field(default_factory=dict[int, str])
    """By step the condition on the way into it."""
    controls: dict[int, bool] = field(default_factory=dict[int, bool])
    """The steps that call nothing, and whether each is guarded: only then an arrow leads on from it."""
    leaving: list[int] = field(default_factory=list[int])
    """The steps from which more leads than the arrow to the next."""

    def lines(self, steps: tuple[Step, ...]) -> Iterator[str]:
        """The lines of all nodes, with the groups around them."""
        blocks = 0
        open_group: int | None = None
        indent = "    "
        groups = self.groups
        for number, step, label in self._labelled(steps):
            groups.append(step.group)
            if step.group != open_group:
                if open_group is not None:
                    yield "    end"
                if step.group is not None:
                    yield f'    subgraph parallel_{blocks}["parallel"]'
                    blocks += 1
                open_group = step.group
                indent = "    " if open_group is None else "        "
            if step.condition is not None:
                self.entries[number] = _entry_label(step)
            if isinstance(step.action, Call):
                if step.on_fail is not None and step.on_fail.then is not None:
                    self.leaving.append(number)
                yield f'{indent}{self.names[number]}["{label}"]'
                continue
            self.leaving.append(number)
            self.controls[number] = is_guarded(step)
            opening, closing = ("([", "])") if isinstance(step.action, Respond | Terminate) else ("[", "]")
            yield f'{indent}{self.names[number]}{opening}"{label}"{closing}'
        if open_group is not None:
            yield "    end"

    def _labelled(self, steps: tuple[Step, ...]) -> Iterator[tuple[int, Step, str]]:
        for first in range(0, len(steps), _AT_ONCE):
            some = steps[first : first + _AT_ONCE]
            labels = _escape("\n".join([_label(step) for step in some])).split("\n")
            yield from zip(range(first, first + _AT_ONCE), some, labels, strict=False)

    def leads_on(self, number: int) -> bool:
        """Whether an arrow leads on from the step; not from one that always answers, ends or jumps."""
        return self.controls.get(number, True)

    def onwards(self, number: int) -> str:
        """The label on the way past a control that its guard may leave out."""
        return "else" if number in self.controls else ""

    def into(self, number: int) -> str:
        """The label on the way into the step."""
        return self.entries.get(number, "")


def _label(step: Step) -> str:
    """What a step does, in one printable line."""
    if isinstance(step.action, Call):
        text = short_call(step.action)
        label = None if text is None else _short_label(step, text)
        if label is not None:
            return label
    text = describe_action(step.action)
    return _short_label(step, text) or _cut_label(step, text)


def _short_label(step: Step, text: str) -> str | None:
    """The label of a step whose action is this text, if it is plain and not to be cut; else None."""
    if step.title is not None or step.foreach is not None or len(step.id) > _MOST_ID:
        return None
    label = f"{step.id}: {text}"
    if len(label) > _MOST_LABEL - 30:
        return None
    output, retry = step.output, None if step.on_fail is None else step.on_fail.retry
    if output is not None:
        label += f" > ${output.var}" if output.cast is None else f" > ${output.var}:{output.cast}"
    if len(label) > _MOST_LABEL - 12 or not (label.isascii() and label.isprintable()):
        return None
    return label if retry is None else f"{label} ↻ {min(retry.count, 999_999)}"


def _cut_label(step: Step, text: str) -> str:
    """The label of any step whose action is this text."""
    if step.title is not None:
        text = f"{fitted(step.title[:200], 40)} · {text}"
    if step.foreach is not None:
        text = f"{describe_guard(step)} THEN {text}"
    text = cut(f"{fitted(step.id[:80], _MOST_ID)}: {text}", _MOST_LABEL - 30)
    if step.output is not None:
        text += f" {describe_output(step)}"
    if step.on_fail is None or step.on_fail.retry is None:
        return fitted(text[: _MOST_LABEL * 4], _MOST_LABEL)
    text = fitted(f"{cut(text, _MOST_LABEL - 12)[: _MOST_LABEL * 4]} ", _MOST_LABEL)
    return f"{text}↻ {min(step.on_fail.retry.count, 999_999)}"


# ---------------------------------------------------------------- edges


def _edge(start: str, end: str, label: str = "", *, dotted: bool = False) -> str:
    arrow = "-.->" if dotted else "-->"
    return f'    {start} {arrow}|"{escape_label(label)}"| {end}' if label else f"    {start} {arrow} {end}"


def _entry_label(step: Step) -> str:
    """The condition on the way into a step; that of a FOREACH is asked for each item, inside."""
    if step.condition is None or step.foreach is not None:
        return ""
    return f"IF {describe_condition(step.condition)}"


class _Edges:
    """The arrows of a plan of text order."""

    def __init__(self, plan: Plan, nodes: _Nodes) -> None:
        self._steps = plan.steps
        self._nodes = nodes
        self._names = nodes.names
        self._ways = turns_of(plan, nodes.ids, nodes.groups, nodes.leaving)
        self._missing: dict[str, str] = {}

    def lines(self) -> Iterator[str]:
        """All arrows, with the nodes that only arrows lead to."""
        yield from self._beginning(range(self._ways.group_end[0] + 1))
        yield from self._onwards()
        for number in self._nodes.leaving:
            yield from self._leaving(number, self._steps[number])
        for target, name in self._missing.items():
            yield f'    {name}["{escape_label(fitted(target[:80], 24) + " does not exist")}"]'

    def _beginning(self, block: range) -> Iterator[str]:
        labels = [self._nodes.into(number) for number in block]
        if any(labels):
            yield '    start(("start"))'
            for number, label in zip(block, labels, strict=True):
                yield _edge("start", self._names[number], label)

    def _onwards(self) -> Iterator[str]:
        """From each step or group to the next, in text order."""
        ends, leads = self._ways.group_end, self._ways.successors
        names, controls, entries = self._names, self._nodes.controls, self._nodes.entries
        first, following = 0, ends[0] + 1
        while following < len(ends):
            end = ends[following]
            if following - 1 not in leads or following in leads[following - 1]:
                if first + 1 < following or following < end:
                    yield from self._between(range(first, following), range(following, end + 1))
                elif first in controls or following in entries:
                    if self._nodes.leads_on(first):
                        yield self._arrow(first, following)
                else:
                    yield f"    {names[first]} --> {names[following]}"
            first, following = following, end + 1

    def _between(self, block: range, following: range) -> Iterator[str]:
        """From a block to the next; between two groups through a point, so that arrows stay few."""
        names, nodes = self._names, self._nodes
        leaving = [number for number in block if nodes.leads_on(number)]
        if len(leaving) > 1 and len(following) > 1:
            point = f"join_{following[0]}"
            yield f'    {point}((" "))'
            yield from (_edge(names[number], point, nodes.onwards(number)) for number in leaving)
            yield from (_edge(point, names[number], nodes.into(number)) for number in following)
            return
        for number in leaving:
            for entered in following:
                yield self._arrow(number, entered)

    def _arrow(self, number: int, entered: int) -> str:
        """From a step that may go on to one that comes next."""
        other, label = self._nodes.onwards(number), self._nodes.into(entered)
        both = f"{other}, {label}" if other and label else other or label
        return _edge(self._names[number], self._names[entered], both)

    def _leaving(self, number: int, step: Step) -> Iterator[str]:
        name = self._names[number]
        match step.action:
            case Goto(target=target):
                yield _edge(name, self._target(target), "GOTO")
            case Replan():
                yield f'    {name}_replan(["new plan"])'
                yield _edge(name, f"{name}_replan", "RE-PLAN", dotted=True)
            case Call() | Respond() | Terminate():
                pass
        failure = step.on_fail.then if step.on_fail is not None else None
        if isinstance(failure, Goto):
            yield _edge(name, self._target(failure.target), "ON_FAIL GOTO", dotted=True)
        elif failure is not None:
            yield f'    {name}_fail(["{escape_label(describe_action(failure))}"])'
            yield _edge(name, f"{name}_fail", "ON_FAIL", dotted=True)

    def _target(self, target: str) -> str:
        number = self._ways.number_of.get(target)
        if number is not None:
            return self._names[number]
        return self._missing.setdefault(target, f"missing_{len(self._missing) + 1}")


def _dependencies(plan: Plan, nodes: _Nodes) -> Iterable[str]:
    """The arrows of a plan of dependencies: into each step from those it waits for."""
    number_of: dict[str, str] = {}
    for step, name in zip(plan.steps, nodes.names, strict=True):
        number_of.setdefault(step.id, name)
    for number, (step, name) in enumerate(zip(plan.steps, nodes.names, strict=True)):
        for other in step.depends_on or ():
            if other in number_of:
                yield _edge(number_of[other], name, nodes.into(number))
