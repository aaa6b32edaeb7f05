"""Parses a JSON plan; never raises, whatever the text.

In: a text, JSON or YAML, and a name for it. Out: a `ParseResult` with a `Plan` of dependencies. Only the
structure is checked here; whether the steps fit together is checked by the passes.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from callsheet.diagnostics import Source, Span
from callsheet.frontends.dag.fields import (
    CALL_FIELDS,
    FAILURE_FIELDS,
    ID,
    INDEX,
    MOST_RETRIES,
    MOST_SECONDS,
    PLAN_FIELDS,
    STEP_FIELDS,
    TOOL,
    TOOL_CALLS,
    Fields,
)
from callsheet.frontends.dag.json_tree import (
    Report,
    Unreadable,
    read_json,
)
from callsheet.frontends.dag.texts import Texts, is_variable_name, read_when
from callsheet.frontends.dag.yaml_tree import read_yaml
from callsheet.frontends.tree import (
    Mapping,
    Node,
    Scalar,
    Sequence,
    kind_of,
)
from callsheet.frontends.unseen import hidden_characters
from callsheet.frontends.values.reader import ParseResult, shown
from callsheet.ir import (
    Action,
    Call,
    DictExpr,
    ListExpr,
    Literal,
    OnFail,
    Order,
    Output,
    Plan,
    Respond,
    Retry,
    Step,
    Terminate,
    Value,
    canonical_tool_name,
)
from callsheet.ir.gc_pause import gc_paused
from callsheet.ir.operations import CONTROL_WORDS

_STEP = {field.name: field for field in (*STEP_FIELDS, TOOL_CALLS)}
_CALL = {field.name: field for field in CALL_FIELDS}
_FAILURE = {field.name: field for field in FAILURE_FIELDS}
_INDEX = re.compile(INDEX)
_TOOL = re.compile(TOOL)
_NO_JUMP = "a graph has no jumps: give the other way a step of its own, with a condition in when"


class Steps:
    """Converts the steps of one plan."""

    def __init__(self, texts: Texts, report: Report) -> None:
        self._texts = texts
        self._report = report

    def read(self, node: Node, number: int) -> Step | None:
        """The step of a node; None after an error. `number` (from 1) identifies it if it has no index."""
        if not isinstance(node, Mapping):
            message = f"step number {number} is {kind_of(node)}, but should be an object"
            self._report.error("DAG011", message, node.span, 'write {"index": "1", "title": "…", …}')
            return None
        fields = Fields(node, _STEP, self._report, f"step number {number}")
        index = self._index_of(fields)
        if index is not None:
            fields.what, fields.step = f"step {shown(index.text)}", index.text
        fields.check_names()
        stored = "tool_calls" in fields
        fields.require(
            *(f.name for f in STEP_FIELDS if f.is_required and not (stored and f.name in ("tool", "args")))
        )
        title = fields.text("title")
        action = self._stored_call(fields) if stored else self._call(fields, "tool")
        depends_on = self._dependencies(fields)
        output = self._output(fields)
        when = fields.text("when", or_null=True)
        condition = None if when is None else read_when(when, self._texts, self._report, fields.step)
        on_fail = self._on_fail(fields)
        if index is None or action is None:
            return None
        return Step(
            index.text,
            action,
            condition=condition,
            output=output,
            on_fail=on_fail,
            depends_on=tuple([waited.text for waited in depends_on]),
            title=None if title is None else str(title.value) or None,
            span=node.span,
            id_span=index.span,
            depends_spans=tuple([waited.span for waited in depends_on]),
        )

    # ------------------------------------------------------------ index and dependencies

    def _index_of(self, fields: Fields) -> _Index | None:
        entry = fields.entry("index")
        return None if entry is None else self._index(entry.value, f"index of {fields.what}", fields.step)

    def _index(self, node: Node, what: str, step: str | None) -> _Index | None:
        value = node.value if isinstance(node, Scalar) else None
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        if not isinstance(value, str):
            message = f"the {what} is {kind_of(node)}, but should be a text or a whole number"
            self._report.error("DAG011", message, node.span, step=step)
            return None
        if _INDEX.fullmatch(value) is None:
            help_ = "1 to 64 characters, no line ends, no blanks at its ends"
            self._report.error(
                "DAG014", f"the {what} is not valid: {value[:40]!r}", node.span, help_, step=step
            )
            return None
        return _Index(value, node.span)

    def _dependencies(self, fields: Fields) -> list[_Index]:
        nodes = fields.list("depends_on")
        if nodes is None:
            return []
        waited: dict[str, _Index] = {}
        for item in nodes.items:
            index = self._index(item, f"dependency of {fields.what}", fields.step)
            if index is not None:
                waited.setdefault(index.text, index)
        return list(waited.values())

    # ------------------------------------------------------------ the call

    def _stored_call(self, fields: Fields) -> Action | None:
        """The call in the form of `tool_calls`, a list with one call, which some planners store."""
        for name in ("tool", "args"):
            entry = fields.entry(name)
            if entry is not None:
                message = f"{fields.what} has both tool_calls and {name}"
                self._report.error(
                    "DAG016", message, entry.key_span, "remove one of the two", step=fields.step
                )
        calls = fields.list("tool_calls")
        if calls is None:
            return None
        if len(calls.items) != 1:
            count = len(calls.items) or "no"
            message = f"{fields.what} has {count} tool calls, but should have one"
            help_ = "give each call a step of its own" if calls.items else "put the call into the list"
            self._report.error("DAG016", message, calls.span, help_, step=fields.step)
            return None
        (item,) = calls.items
        if not isinstance(item, Mapping):
            message = f"the tool call of {fields.what} is {kind_of(item)}, but should be an object"
            self._report.error("DAG011", message, item.span, step=fields.step)
            return None
        call = Fields(item, _CALL, self._report, f"the tool call of {fields.what}")
        call.step = fields.step
        call.check_names()
        call.require("name", "args")
        return self._call(call, "name")

    def _call(self, fields: Fields, field: str) -> Action | None:
        tool, args = fields.text(field), fields.object("args")
        if tool is None or args is None:
            return None
        name = str(tool.value)
        if _TOOL.fullmatch(name) is None:
            help_ = "a name is made of ASCII letters, digits, _, and - . : / inside"
            self._report.error(
                "DAG015", f"{name[:40]!r} is not a valid name of a tool", tool.span, help_, step=fields.step
            )
            return None
        values = tuple([(entry.key, self._texts.value(entry.value)) for entry in args.entries])
        for entry in args.entries:
            if "${" in entry.key:
                message = f"{shown(entry.key)} is the name of an argument and is not replaced"
                help_ = "references are written in values"
                self._report.error("DAG020", message, entry.key_span, help_, step=fields.step)
        word = canonical_tool_name(name)
        if word in CONTROL_WORDS:
            return self._control(fields, word, tool, values)
        return Call(word, (), values, tool.span)

    def _control(
        self, fields: Fields, word: str, tool: Scalar, values: tuple[tuple[str, Value], ...]
    ) -> Action | None:
        """The action of `respond`; other control words are an error in a graph."""
        if word != "RESPOND":
            help_ = (
                _NO_JUMP if word == "GOTO" else 'a failure may end the plan: "on_fail": {"terminate": "why"}'
            )
            message = f"{tool.value} is not a tool, and is not allowed in a JSON plan"
            self._report.error("DAG015", message, tool.span, help_, step=fields.step)
            return None
        match values:
            case (("values", ListExpr(items=items)),):
                return Respond(items, tool.span)
            case _:
                help_ = 'write "args": {"values": ["Done:", "${result}"]}'
                message = "respond takes a list of values"
                self._report.error("DAG015", message, tool.span, help_, step=fields.step)
                return None

    # ------------------------------------------------------------ result and failure

    def _output(self, fields: Fields) -> Output | None:
        name = fields.text("result_variable", or_null=True)
        if name is None:
            return None
        if is_variable_name(str(name.value)) is None:
            note_variable_name(self._report, str(name.value), name.span, fields.step)
        return Output(str(name.value), None, name.span)

    def _on_fail(self, fields: Fields) -> OnFail | None:
        entry = fields.entry("on_fail")
        if entry is None or (isinstance(entry.value, Scalar) and entry.value.value is None):
            return None
        mapping = fields.object("on_fail")
        if mapping is None:
            return None
        failure = Fields(mapping, _FAILURE, self._report, f"on_fail of {fields.what}")
        failure.step = fields.step
        failure.check_names(("goto",))
        goto = failure.entry("goto")
        if goto is not None:
            self._report.error(
                "DAG018", "a failure cannot jump to a step", goto.key_span, _NO_JUMP, step=fields.step
            )
        retry = self._retry(failure)
        message = failure.text("terminate")
        then: Terminate | None = None
        if message is not None:
            value = self._texts.value(message)
            is_blank = isinstance(value, Literal) and value.value == ""
            then = Terminate(() if is_blank else (value,), message.span)
        if not {"retry", "terminate", "goto"} & {
            name for name in _FAILURE | {"goto": None} if name in failure
        }:
            help_ = 'write {"retry": 3} or {"terminate": "why"}'
            self._report.error("DAG018", "on_fail has no action", entry.value.span, help_, step=fields.step)
        return OnFail(retry, then, mapping.span)

    def _retry(self, failure: Fields) -> Retry | None:
        count = failure.number("retry")
        waits = [self._seconds(failure, name) for name in ("delay", "backoff")]
        if "retry" not in failure:
            for name in ("delay", "backoff"):
                entry = failure.entry(name)
                if entry is not None:
                    message = f"{name} has no effect without retry"
                    self._report.error(
                        "DAG018", message, entry.key_span, 'write "retry": 3', step=failure.step
                    )
            return None
        entry = failure.entry("retry")
        if count is None or entry is None:
            return None
        if not isinstance(count, int) or not 0 <= count <= MOST_RETRIES:
            message = f"{count} is not a valid number of retries"
            help_ = "a whole number of at least 0: the number of further attempts"
            self._report.error("DAG018", message, entry.value.span, help_, step=failure.step)
            return None
        return Retry(count, waits[0], waits[1], entry.value.span)

    def _seconds(self, failure: Fields, name: str) -> float | None:
        value, entry = failure.number(name), failure.entry(name)
        if value is None or entry is None or 0 <= value <= MOST_SECONDS:
            return value
        message = f"{value} is not a valid {name} of a retry"
        self._report.error("DAG018", message, entry.value.span, "a number of at least 0", step=failure.step)
        return None


class _Index(NamedTuple):
    """The index of a step as a string, with its span."""

    text: str
    span: Span


def note_variable_name(report: Report, name: str, span: Span, step: str | None = None) -> None:
    """Report an invalid name of a variable."""
    help_ = "a name is made of ASCII letters, digits, _ and -, and begins with a letter or _"
    report.error("DAG017", f"{name[:40]!r} is not a valid name of a variable", span, help_, step=step)


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
        self._source = text
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
        if _is_structured(root):
            from callsheet.frontends.structured.json_reader import read_structured_json  # noqa: PLC0415 - only for version 2

            plan, unread = read_structured_json(root, self._source, self._report)
            lost.extend(unread)
            return plan
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


def _is_structured(root: Mapping) -> bool:
    """Whether a plan says that it is version 2 of the language."""
    version = root.get("ltp")
    return version is not None and isinstance(version.value, Scalar) and version.value.value == 2


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
