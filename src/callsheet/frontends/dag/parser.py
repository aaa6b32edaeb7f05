"""Parses a JSON plan; never raises, whatever the text.

In: a text, JSON or YAML, and a name for it. Out: a `ParseResult` with a `Plan` of dependencies. Only the
structure is checked here; whether the steps fit together is checked by the passes.
"""

from __future__ import annotations

import re

from callsheet.diagnostics import Source, Span
from callsheet.frontends.dag.fields import ID, PLAN_FIELDS
from callsheet.frontends.dag.json_tree import read_json
from callsheet.frontends.dag.objects import Fields
from callsheet.frontends.dag.report import Report, Unreadable
from callsheet.frontends.dag.steps import Steps, note_variable_name
from callsheet.frontends.dag.texts import Texts, is_variable_name
from callsheet.frontends.dag.yaml_tree import read_yaml
from callsheet.frontends.tree import Mapping, Node, Scalar, Sequence, kind_of
from callsheet.frontends.unseen import hidden_characters
from callsheet.frontends.values.result import ParseResult
from callsheet.ir import DictExpr, ListExpr, Literal, Order, Plan, Step, Value
from callsheet.ir.gc_pause import gc_paused

_PLAN = {field.name: field for field in PLAN_FIELDS}
_ID = re.compile(ID)
_LARGE = 20_000
"""From this many characters on the cyclic garbage collector is paused."""


def parse_dag(text: str, name: str = "<plan>", *, is_yaml: bool = False) -> ParseResult:
    """Read a plan of dependencies. `name` is what diagnostics call the text.

    >>> result = parse_dag(
    ...     '{"steps": [{"index": 1, "title": "Read", "tool": "read_file", "args": {}, "depends_on": []}]}'
    ... )
    >>> result.plan.steps[0].id, result.diagnostics
    ('1', ())
    """
    with gc_paused(len(text) >= _LARGE):
        return _parse(text, name, is_yaml)


def _parse(text: str, name: str, is_yaml: bool) -> ParseResult:
    report = Report()
    plan = Plan((), Order.DAG)
    lost: list[Span] = []
    try:
        root = read_yaml(text, report) if is_yaml else read_json(text, report)
    except Unreadable:
        pass
    else:
        plan, lost = _Document(text, report).read(root)
    diagnostics = [*report.diagnostics, *hidden_characters(text)]
    diagnostics.sort(key=lambda d: d.span.start if d.span else -1)
    return ParseResult(
        plan if not report.errors else None, plan, tuple(diagnostics), Source(name, text), tuple(lost)
    )


class _Document:
    """Parses the fields of the plan, and its steps in order."""

    def __init__(self, text: str, report: Report) -> None:
        self._report = report
        self._texts = Texts(text, report)

    def read(self, root: Node) -> tuple[Plan, list[Span]]:
        steps: list[Step] = []
        lost: list[Span] = []
        try:
            plan = self._read(root, steps, lost)
        except Unreadable:
            plan = Plan(tuple(steps), Order.DAG)
        return plan, lost

    def _read(self, root: Node, steps: list[Step], lost: list[Span]) -> Plan:
        if not isinstance(root, Mapping):
            message = f"a plan is an object, but this is {kind_of(root)}"
            raise self._report.error("DAG011", message, _opening(root), 'write {"steps": […]}')
        fields = Fields(root, _PLAN, self._report, "the plan")
        fields.check_names()
        fields.require("steps")
        id_ = self._id(fields)
        title, goal = fields.text("title"), fields.text("goal")
        variables = self._variables(fields)
        steps_node = fields.list("steps")
        if steps_node is not None:
            self._steps(steps_node, steps, lost)
        return Plan(
            tuple(steps),
            Order.DAG,
            variables,
            id_,
            None if title is None else str(title.value),
            None if goal is None else str(goal.value),
        )

    def _id(self, fields: Fields) -> str | None:
        plan_id = fields.text("id")
        if plan_id is None:
            return None
        text = str(plan_id.value)
        if _ID.fullmatch(text) is None:
            near = re.sub(r"[^a-z0-9._-]+", "-", text.lower()).strip("-._")[:64]
            help_ = (
                "an id has 1 to 64 of the characters a-z, 0-9, . _ and -, and begins with a letter or digit"
            )
            if near:
                help_ += f", such as {near}"
            self._report.error("DAG013", f"{text[:40]!r} is not a valid plan id", plan_id.span, help_)
        return text

    def _variables(self, fields: Fields) -> tuple[tuple[str, Value], ...]:
        variables = fields.object("variables")
        if variables is None:
            return ()
        for entry in variables.entries:
            if is_variable_name(entry.key) is None:
                note_variable_name(self._report, entry.key, entry.key_span)
        return tuple([(entry.key, _literal(entry.value)) for entry in variables.entries])

    def _steps(self, nodes: Sequence, steps: list[Step], lost: list[Span]) -> None:
        if not nodes.items:
            help_ = 'a step is {"index": "1", "title": "…", "tool": "…", "args": {…}, "depends_on": []}'
            self._report.warning("DAG019", "the plan has no steps", nodes.span, help_)
        reader = Steps(self._texts, self._report)
        for number, item in enumerate(nodes.items, 1):
            step = reader.read(item, number)
            if step is None:
                lost.append(item.span)
            else:
                steps.append(step)


def _opening(node: Node) -> Span:
    return node.span if isinstance(node, Scalar) else Span(node.span.start, node.span.start + 1)


def _literal(node: Node) -> Value:
    """The value of a node, literally: initial variables have no references."""
    match node:
        case Scalar(value=value, span=span):
            return Literal(value, span)
        case Sequence(items=items, span=span):
            return ListExpr(tuple([_literal(item) for item in items]), span)
        case Mapping(entries=entries, span=span):
            return DictExpr(tuple([(entry.key, _literal(entry.value)) for entry in entries]), span)
