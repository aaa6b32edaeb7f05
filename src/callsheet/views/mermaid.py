"""Renders a plan as the text of a Mermaid flowchart; whatever the plan contains, the diagram is valid."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise

from callsheet.ir import SAYING, Ending, OnFail, Order, Plan, Step
from callsheet.ir.flow import turns_of
from callsheet.ir.graphs import Precedence
from callsheet.views.columns import MOST_LABEL, cut, escape_label, escape_labels, fitted
from callsheet.views.describe import (
    describe_action,
    describe_condition,
    describe_failure,
    describe_guard,
    describe_output,
    short_call,
)

_SAFE_ID = re.compile(r"[A-Z][A-Za-z]{0,20}[0-9]{1,9}")
_SAFE_IDS = re.compile(rf"(?:{_SAFE_ID.pattern}\n)*+")
"""Safe ids, one a line; possessive, so that the regex engine keeps no backtracking state."""
_MOST_BEFORE_OUTPUT = MOST_LABEL - 30
_MOST_BEFORE_RETRY = MOST_LABEL - 12
_MOST_ID = 24
_BLOCK_SIZE = 128
"""The number of steps whose labels are escaped together."""


def mermaid(plan: Plan) -> str:
    """Returns the plan as a Mermaid `graph TD`, without a code fence.

    Sequence and jumps are arrows, conditions are labels of the arrows into a step, failures are dotted
    arrows, a group is a subgraph. The size is linear in that of the plan. The nodes of a plan with
    dependencies are in order of their levels.

    >>> from callsheet.ir import Literal, Respond
    >>> print(mermaid(Plan((Step("S1", Respond((Literal("hi"),))),))))
    graph TD
        S1(["S1: @RESPOND ('hi')"])
    """
    if plan.tree is not None:
        from callsheet.views.tree import tree_mermaid  # noqa: PLC0415 - only for version 2

        return tree_mermaid(plan)
    if not plan.steps:
        return 'graph TD\n    empty["Empty plan"]'
    if plan.order is Order.DAG:
        plan = replace(plan, steps=tuple([plan.steps[number] for number in _by_level(plan)]))
    ids = [step.id for step in plan.steps]
    nodes = _Nodes(ids, _node_names(ids))
    lines = ["graph TD", *nodes.lines(plan.steps)]
    lines += _dependencies(plan, nodes) if plan.order is Order.DAG else _Edges(plan, nodes).lines()
    return "\n".join(lines)


def node_names(plan: Plan) -> list[str]:
    """Returns the node name of each step in the chart of `mermaid`, in the order of the plan.

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
    """Returns the step numbers of a plan with dependencies, in drawing order."""
    return [number for level in Precedence.of(plan).levels() for number in level]


# ---------------------------------------------------------------- nodes


def _node_names(ids: list[str]) -> list[str]:
    """Returns a node name for each step: its id if that is safe and not taken, otherwise `step_NUMBER`."""
    lines = "\n".join(ids) + "\n"
    if _SAFE_IDS.fullmatch(lines) and lines.count("\n") == len(ids):
        names = ids.copy()
    else:
        harmless = _SAFE_ID.fullmatch
        names = [one if harmless(one) else f"step_{number}" for number, one in enumerate(ids, 1)]
    if len(set(names)) < len(names):
        used: set[str] = set()
        for number, one in enumerate(ids):
            if one in used:
                names[number] = f"step_{number + 1}"
            used.add(one)
    return names


class _Nodes:
    """The nodes of a plan, and the data about its steps that the arrows need.

    All of it is collected in one pass, in blocks of steps: a large plan does not fit into the CPU cache, so
    each further pass over it is expensive.
    """

    def __init__(self, ids: list[str], names: list[str]) -> None:
        self.ids = ids
        self.names = names
        self.groups: list[int | None] = []
        """The group of each step."""
        self.entries: dict[int, str] = {}
        """The label of the arrows into a step, by step: its condition."""
        self.controls: dict[int, bool] = {}
        """The steps that call nothing, and whether each is guarded (an arrow leads to the next if it is)."""
        self.leaving: list[int] = []
        """The steps with other outgoing arrows than the one to the next step."""

    def lines(self, steps: tuple[Step, ...]) -> list[str]:
        """Returns the lines of all nodes, with the subgraphs around groups."""
        lines: list[str] = []
        for first in range(0, len(steps), _BLOCK_SIZE):
            # joined per block: many small strings do not fit into the cache
            lines.append("\n".join(self._block_lines(first, steps[first : first + _BLOCK_SIZE])))
        return list(self._in_groups("\n".join(lines).split("\n"))) if self.grouped() else lines

    def _block_lines(self, first: int, steps: tuple[Step, ...]) -> list[str]:
        """Returns the lines of a block of steps: as plain calls, then replaced for steps that need more."""
        self.groups += [step.group for step in steps]
        names = self.names[first : first + len(steps)]
        labels = escape_labels("\n".join(_labels(steps))).split("\n")
        lines = [f'    {name}["{label}"]' for name, label in zip(names, labels, strict=True)]
        for at, step in enumerate(steps):
            if step.condition is not None or step.on_fail is not None or step.call is None:
                lines[at] = self._special_line(first + at, step, labels[at])
        return lines

    def _special_line(self, number: int, step: Step, label: str) -> str:
        """Returns the line of a step that is more than a plain call, and records the data for its arrows."""
        if step.condition is not None:
            self.entries[number] = _entry_label(step)
        if step.retry is not None:
            label += f"↻ {min(step.retries, 999_999)}"
        if step.call is not None:
            if step.after_failure.leaves:
                self.leaving.append(number)
            return f'    {self.names[number]}["{label}"]'
        self.leaving.append(number)
        self.controls[number] = step.is_guarded
        opening, closing = ("([", "])") if step.course.ends in SAYING else ("[", "]")
        return f'    {self.names[number]}{opening}"{label}"{closing}'

    def _in_groups(self, lines: list[str]) -> Iterator[str]:
        """Yields the lines of the nodes, with those that begin and end subgraphs."""
        blocks = 0
        open_group: int | None = None
        for line, group in zip(lines, self.groups, strict=True):
            if group != open_group:
                if open_group is not None:
                    yield "    end"
                if group is not None:
                    yield f'    subgraph parallel_{blocks}["parallel"]'
                    blocks += 1
                open_group = group
            yield line if group is None else f"    {line}"
        if open_group is not None:
            yield "    end"

    def grouped(self) -> bool:
        """Whether the plan has groups."""
        return self.groups.count(None) < len(self.groups)

    def continues(self, number: int) -> bool:
        """Whether an arrow leads to the next step; not from an unguarded step that answers, ends or jumps."""
        return self.controls.get(number, True)

    def skip_label(self, number: int) -> str:
        """Returns the label of the arrow from a step to the next: `else` if its guard may skip its action."""
        return "else" if number in self.controls else ""

    def entry_label(self, number: int) -> str:
        """Returns the label of the arrows into the step."""
        return self.entries.get(number, "")


def _labels(steps: tuple[Step, ...]) -> list[str]:
    """Returns the printable label of each step; it ends in a space if the number of retries has to follow."""
    labels = [_short_label(step) for step in steps]
    if _is_plain("".join(labels)):
        return labels
    return [
        label if _is_plain(label) else _cut_label(step) for label, step in zip(labels, steps, strict=True)
    ]


def _is_plain(label: str) -> bool:
    return label.isascii() and label.isprintable()


def _short_label(step: Step) -> str:
    """Returns the label of a step: a fast path if nothing has to be cut. It may not be printable ASCII."""
    call, step_id, output = step.call, step.id, step.output
    text = short_call(call) if call is not None else describe_action(step.action)
    if (
        text is None
        or len(step_id) > _MOST_ID
        or len(step_id) + len(text) > _MOST_BEFORE_OUTPUT - 2
        or step.title is not None
        or step.foreach is not None
    ):
        return _cut_label(step)
    if output is None:
        label = f"{step_id}: {text}"
    elif output.cast is None:
        label = f"{step_id}: {text} > ${output.var}"
    else:
        label = f"{step_id}: {text} > ${output.var}:{output.cast}"
    if len(label) > _MOST_BEFORE_RETRY:
        return _cut_label(step)
    return label if step.retry is None else f"{label} "


def _cut_label(step: Step) -> str:
    """Returns the label of any step, made printable and cut."""
    text = describe_action(step.action)
    if step.title is not None:
        text = f"{fitted(step.title[:200], 40)} · {text}"
    if step.foreach is not None:
        text = f"{describe_guard(step)} THEN {text}"
    text = cut(f"{fitted(step.id[:80], _MOST_ID)}: {text}", _MOST_BEFORE_OUTPUT)
    if step.output is not None:
        text += f" {describe_output(step)}"
    if step.retry is None:
        return fitted(text[: MOST_LABEL * 4], MOST_LABEL)
    return fitted(f"{cut(text, _MOST_BEFORE_RETRY)[: MOST_LABEL * 4]} ", MOST_LABEL)


# ---------------------------------------------------------------- edges


def _edge(start: str, end: str, label: str = "", *, dotted: bool = False) -> str:
    arrow = "-.->" if dotted else "-->"
    return f'    {start} {arrow}|"{escape_label(label)}"| {end}' if label else f"    {start} {arrow} {end}"


def _entry_label(step: Step) -> str:
    """Returns the condition of a step; empty for a FOREACH, which checks it for each item."""
    if step.condition is None or step.sets_always:
        return ""
    return f"IF {describe_condition(step.condition)}"


class _Edges:
    """The arrows of a plan in text order."""

    def __init__(self, plan: Plan, nodes: _Nodes) -> None:
        self._steps = plan.steps
        self._nodes = nodes
        self._names = nodes.names
        self._turns = turns_of(plan, nodes.ids, nodes.groups, nodes.leaving)
        self._missing: dict[str, str] = {}

    def lines(self) -> list[str]:
        """Returns all arrows, with the nodes that are not steps of the plan."""
        lines = [*self._start_arrows(range(self._turns.group_end[0] + 1)), *self._sequence()]
        for number in self._nodes.leaving:
            lines += self._other_arrows(number, self._steps[number])
        for target, name in self._missing.items():
            lines.append(f'    {name}["{escape_label(fitted(target[:80], 24) + " does not exist")}"]')
        return lines

    def _start_arrows(self, block: range) -> Iterator[str]:
        labels = [self._nodes.entry_label(number) for number in block]
        if any(labels):
            yield '    start(("start"))'
            for number, label in zip(block, labels, strict=True):
                yield _edge("start", self._names[number], label)

    def _sequence(self) -> Iterable[str]:
        """Yields the arrows from each step or group to the next: plain ones, except for `_special_steps`."""
        names = self._names
        arrows = [f"    {name} --> {following}" for name, following in pairwise(names)]
        for number in self._special_steps():
            arrows[number] = "\n".join(self._arrows_to_next(number))
        return filter(None, arrows)

    def _special_steps(self) -> set[int]:
        """Returns the steps whose way to the next step may not be one plain arrow."""
        nodes = self._nodes
        turning = set(nodes.controls)
        turning.update([number - 1 for number in nodes.entries])
        if nodes.grouped():
            for number, end in enumerate(self._turns.group_end):
                if end > number:
                    turning |= {number - 1, number, end}
        return turning - {-1, len(nodes.names) - 1}

    def _arrows_to_next(self, number: int) -> Iterable[str]:
        """Returns the arrows from the step, or the group that ends with it, to the next one."""
        ends, following = self._turns.group_end, number + 1
        if ends[number] > number or following not in self._turns.successors.get(number, (following,)):
            return ()
        first = number
        while first and ends[first - 1] == number:
            first -= 1
        if first < number or ends[following] > following:
            return self._block_arrows(range(first, following), range(following, ends[following] + 1))
        return (self._arrow(number, following),) if self._nodes.continues(number) else ()

    def _block_arrows(self, block: range, following: range) -> Iterator[str]:
        """Yields the arrows from a block to the next; between groups through a point, to keep them few."""
        names, nodes = self._names, self._nodes
        leaving = [number for number in block if nodes.continues(number)]
        if len(leaving) > 1 and len(following) > 1:
            point = f"join_{following[0]}"
            yield f'    {point}((" "))'
            yield from (_edge(names[number], point, nodes.skip_label(number)) for number in leaving)
            yield from (_edge(point, names[number], nodes.entry_label(number)) for number in following)
            return
        for number in leaving:
            for entered in following:
                yield self._arrow(number, entered)

    def _arrow(self, number: int, entered: int) -> str:
        """Returns the arrow from a step to one that follows it."""
        other, label = self._nodes.skip_label(number), self._nodes.entry_label(entered)
        both = f"{other}, {label}" if other and label else other or label
        return _edge(self._names[number], self._names[entered], both)

    def _other_arrows(self, number: int, step: Step) -> Iterator[str]:
        name = self._names[number]
        course, after = step.course, step.after_failure
        if course.jump is not None:
            yield _edge(name, self._target(course.jump.target), "GOTO")
        if course.ends is Ending.NEW_PLAN:
            yield f'    {name}_replan(["new plan"])'
            yield _edge(name, f"{name}_replan", "RE-PLAN", dotted=True)
        failure = step.handling
        if after.jump is not None:
            yield _edge(name, self._target(after.jump.target), "ON_FAIL GOTO", dotted=True)
        elif failure is not None and after.ends is not None:
            yield f'    {name}_fail(["{escape_label(describe_failure(OnFail(then=failure)))}"])'
            yield _edge(name, f"{name}_fail", "ON_FAIL", dotted=True)

    def _target(self, target: str) -> str:
        number = self._turns.number_of.get(target)
        if number is not None:
            return self._names[number]
        return self._missing.setdefault(target, f"missing_{len(self._missing) + 1}")


def _dependencies(plan: Plan, nodes: _Nodes) -> Iterable[str]:
    """Yields the arrows of a plan with dependencies: from each dependency to its dependent."""
    number_of: dict[str, str] = {}
    for step, name in zip(plan.steps, nodes.names, strict=True):
        number_of.setdefault(step.id, name)
    for number, (step, name) in enumerate(zip(plan.steps, nodes.names, strict=True)):
        for other in step.depends_on or ():
            if other in number_of:
                yield _edge(number_of[other], name, nodes.entry_label(number))
