"""Reads a JSON plan of version 2 from the tree of its text.

In: the object of the plan, the text and a report. Out: a plan whose statements have ids; what is wrong is in
the report, and the statements that could not be read are missing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from callsheet import lazy
from callsheet.diagnostics import Edit, Fix, Span
from callsheet.frontends.dag.fields import Field, Fields
from callsheet.frontends.dag.json_tree import Report
from callsheet.frontends.structured.cursor import Cursor
from callsheet.frontends.structured.document import repeated_ids
from callsheet.frontends.structured.failure import is_kind, tried
from callsheet.frontends.structured.json_form import (
    BRANCH,
    FAILURE,
    HANDLER,
    INPUT,
    PLAN,
    SHAPES,
    SUB_PLAN,
    TOGETHER,
    Values,
)
from callsheet.frontends.structured.lines import ID, ID_RULE, RESERVED_TOOLS, SIMPLE
from callsheet.frontends.structured.statements import with_query_parameters
from callsheet.frontends.tree import Mapping, Node, Scalar, Sequence, kind_of, plain
from callsheet.frontends.values.reader import NAME, Stop, shown
from callsheet.ir import Plan, canonical_tool_name
from callsheet.ir.expression import Display, Expression, Kind
from callsheet.ir.inverse import NotAnInverse, inverse_pair
from callsheet.ir.statement_ids import with_ids
from callsheet.ir.tree import (
    ERROR_VARIABLE,
    Act,
    Again,
    Assign,
    Block,
    Branch,
    Compute,
    Ends,
    Foreach,
    GoOn,
    Handler,
    If,
    Input,
    Into,
    Invoke,
    Leave,
    Let,
    Origin,
    Parallel,
    Recovery,
    Remedy,
    Repeat,
    Require,
    Say,
    Skip,
    Statement,
    SubPlan,
    Tree,
    Try,
    Use,
    Word,
    all_statements,
    variables_set,
)
from callsheet.ir.tree_edits import plan_of_tree, with_own_failures
from callsheet.ir.types import Basic, Record, Type

_NAME = lazy.pattern(NAME)
_ID = lazy.pattern(ID)
_WORDS: Final = {word.replace("-", "").lower(): kind for word, kind in SIMPLE.items()}
_MANY: Final = frozenset({Word.RESPOND, Word.TERMINATE, Word.REPLAN, Word.RETURN})
_PART: Final = '{"tool": "read_file", "args": {"path": "a.txt"}, "result": "text"}'


def _table(fields: tuple[Field, ...]) -> dict[str, Field]:
    return {field.name: field for field in fields}


_TABLES: Final = {name: _table(fields) for name, fields in SHAPES.items()}


def read_structured_json(root: Mapping, text: str, report: Report) -> tuple[Plan, list[Span]]:
    """The plan of a JSON object, and the spans of statements that could not be read."""
    return _Reader(text, report).plan(root)


class _Reader:
    def __init__(self, text: str, report: Report) -> None:
        self.report = report
        self.values = Values(text, report)
        self.text = text
        self.lost: list[Span] = []

    def fields(self, node: Mapping, table: dict[str, Field], what: str) -> Fields:
        """The fields of an object, whose names are checked."""
        found = Fields(node, table, self.report, what)
        found.check_names(also=("depends_on",), is_strict=True)
        found.require(*(name for name, field in table.items() if field.is_required))
        waits = found.entry("depends_on")
        if waits is not None:
            keys = [entry.key for entry in node.entries]
            at = keys.index("depends_on")
            cut = Span(waits.key_span.start, waits.value.span.end)
            if at:
                cut = Span(node.entries[at - 1].value.span.end, cut.end)
            elif len(keys) > 1:
                cut = Span(cut.start, node.entries[1].key_span.start)
            message = "version 2 runs in the order of the list, and has no depends_on"
            help_ = "what is independent is found from what is read; order the list, or use parallel"
            fix = Fix("remove depends_on", (Edit(cut, ""),))
            self.report.error("DAG023", message, waits.key_span, help_, fix=fix)
        return found

    def plan(self, root: Mapping) -> tuple[Plan, list[Span]]:
        fields = self.fields(root, _table(PLAN), "the plan")
        types = fields.object("types")
        records = {} if types is None else {
            entry.key: self.record(entry.value, entry.key) for entry in types.entries
        }  # fmt: skip
        plans = [self.sub_plan(node) for node in self.items(fields, "plans", "a plan")]
        tree = Tree(
            self.block(fields, "steps"),
            self.inputs(fields),
            tuple((self.name(name, root.span), record) for name, record in records.items()),
            tuple(plans),
            self.type(fields, "result"),
        )
        for name, span in (
            *_twice([(p.name, p.span) for p in plans]),
            *_twice([(i.name, i.span) for i in tree.inputs]),
        ):
            self.report.error("DAG024", f"{name} is declared twice", span or root.span)
        for one in repeated_ids(tree):
            self.report.error("DAG024", f"the id {one.id} is used twice", one.span or root.span)
        self.values.warn_of_dollars(_names_in(tree))
        id_, title, goal = (self.words(fields, name) for name in ("id", "title", "goal"))
        comments = self.comments(fields)
        return plan_of_tree(
            with_ids(with_own_failures(tree)), id=id_, title=title, goal=goal, comments=comments
        ), self.lost

    # ------------------------------------------------------------ declarations

    def items(self, fields: Fields, name: str, what: str) -> list[Mapping]:
        """The objects of a list."""
        nodes = fields.list(name)
        out: list[Mapping] = []
        for node in () if nodes is None else nodes.items:
            if isinstance(node, Mapping):
                out.append(node)
            else:
                self.report.error("DAG011", f"{what} is an object, but this is {kind_of(node)}", node.span)
        return out

    def inputs(self, fields: Fields) -> tuple[Input, ...]:
        return tuple(self.input(node) for node in self.items(fields, "inputs", "an input"))

    def input(self, node: Mapping) -> Input:
        fields = self.fields(node, _table(INPUT), "the input")
        default = fields.entry("default")
        return Input(
            self.named(fields, "name"),
            self.type(fields, "type") or Basic.JSON,
            None if default is None else plain(default.value),
            default is None,
            self.flag(fields, "secret"),
            self.words(fields, "help"),
            self.comments(fields),
            node.span,
        )

    def record(self, node: Node, name: str) -> Record:
        if not isinstance(node, Mapping):
            self.report.error(
                "DAG011", f"the type {shown(name)} is {kind_of(node)}, but should be an object", node.span
            )
            return Record(())
        return Record(
            tuple(
                (self.name(entry.key, entry.key_span), self.one_type(entry.value)) for entry in node.entries
            )
        )

    def sub_plan(self, node: Mapping) -> SubPlan:
        fields = self.fields(node, _table(SUB_PLAN), "the plan")
        origins = [name for name in ("from", "library") if name in fields]
        origin = None
        if origins:
            reference = self.words(fields, origins[0])
            origin = Origin(reference or "", origins[0] == "library")
            if len(origins) > 1 or any(name in fields for name in ("do", "inputs", "result")):
                message = "a plan that is read from elsewhere has only its name and its place"
                self.report.error("DAG024", message, node.span)
        elif "do" not in fields:
            self.report.error("DAG010", "the plan has no do", node.span, '"do" holds its statements')
        return SubPlan(
            self.named(fields, "plan"),
            self.inputs(fields),
            self.block(fields, "do"),
            self.type(fields, "result"),
            origin,
            self.comments(fields),
            node.span,
        )

    # ------------------------------------------------------------ fields

    def words(self, fields: Fields, name: str) -> str | None:
        found = fields.text(name)
        return None if found is None else str(found.value)

    def comments(self, fields: Fields) -> tuple[str, ...]:
        text = self.words(fields, "comment")
        return () if text is None else tuple(text.split("\n"))

    def flag(self, fields: Fields, name: str) -> bool:
        entry = fields.entry(name)
        if entry is None:
            return False
        if not isinstance(entry.value, Scalar) or not isinstance(entry.value.value, bool):
            self.report.error(
                "DAG011", f"{name} is {kind_of(entry.value)}, but should be true", entry.value.span
            )
            return False
        return entry.value.value

    def name(self, name: str, span: Span) -> str:
        if _NAME.fullmatch(name) is None:
            help_ = "a name is made of ASCII letters, digits and _"
            self.report.error("DAG017", f"{shown(name)!r} is not a valid name", span, help_)
        return name

    def named(self, fields: Fields, name: str) -> str:
        """The name that a field has; "" if there is none, which is reported."""
        found = fields.text(name)
        return "" if found is None else self.name(str(found.value), found.span)

    def names(self, fields: Fields, name: str) -> tuple[str, ...]:
        nodes = fields.list(name)
        out: list[str] = []
        for node in () if nodes is None else nodes.items:
            text = node.value if isinstance(node, Scalar) else None
            if isinstance(text, str):
                out.append(self.name(text, node.span))
            else:
                self.report.error("DAG011", f"a name is a text, but this is {kind_of(node)}", node.span)
        return tuple(out)

    def type(self, fields: Fields, name: str) -> Type | None:
        found = fields.text(name)
        return None if found is None else self.one_type(found)

    def one_type(self, node: Node) -> Type:
        text = node.value if isinstance(node, Scalar) else None
        if not isinstance(text, str):
            self.report.error("DAG022", f"a type is a text, but this is {kind_of(node)}", node.span)
            return Basic.JSON
        cursor = Cursor(text)
        try:
            found = cursor.type()
            if cursor.skip():
                raise cursor.error("LTP208", f"{shown(text)} is not a type")
        except Stop:
            wrong = cursor.diagnostics[0]
            self.report.error("DAG022", wrong.message, node.span, wrong.help)
            return Basic.JSON
        return found

    def value(self, fields: Fields, name: str) -> Expression | None:
        entry = fields.entry(name)
        return None if entry is None else self.values.value(entry.value)

    def condition(self, fields: Fields, name: str) -> Expression | None:
        entry = fields.entry(name)
        return None if entry is None else self.values.condition(entry.value)

    def some(self, fields: Fields, name: str) -> tuple[Expression, ...]:
        """The values of a field: those of a list, or the one that it is."""
        value = self.value(fields, name)
        if isinstance(value, Display) and value.kind is Kind.LIST:
            entry = fields.entry(name)
            if entry is not None and isinstance(entry.value, Sequence):
                return value.items
        return () if value is None else (value,)

    def into(self, fields: Fields) -> Into | None:
        found = fields.text("result")
        if found is None:
            return None
        return Into(self.name(str(found.value), found.span), self.type(fields, "type"), found.span)

    def args(self, fields: Fields) -> tuple[tuple[str, Expression], ...]:
        found = fields.object("args")
        if found is None:
            return ()
        return tuple((entry.key, self.values.value(entry.value)) for entry in found.entries)

    # ------------------------------------------------------------ statements

    def block(self, fields: Fields, name: str) -> Block:
        nodes = fields.list(name)
        return () if nodes is None else self.statements(nodes)

    def statements(self, nodes: Sequence) -> Block:
        made: list[Statement] = []
        for node in nodes.items:
            errors = self.report.errors
            statement = self.statement(node)
            if statement is None or (self.report.errors > errors and not isinstance(node, Mapping)):
                self.lost.append(node.span)
            else:
                made.append(statement)
        return tuple(made)

    def statement(self, node: Node) -> Statement | None:
        if not isinstance(node, Mapping):
            message = f"a statement is an object, but this is {kind_of(node)}"
            self.report.error("DAG011", message, node.span, f"write {_PART}")
            return None
        kind = next((name for name in SHAPES if node.get(name) is not None), None)
        if kind is None:
            message = "this object is no statement: it has none of the fields that say which"
            start = node.span.start
            self.report.error("DAG016", message, Span(start, start + 1), f"they are {', '.join(SHAPES)}")
            return None
        fields = self.fields(node, _TABLES[kind], f"the statement {kind}")
        own = self.own_id(fields) if "id" in _TABLES[kind] else ""
        read: Callable[[Fields, str, Span], Statement | None] = {
            "tool": self.act, "foreach": self.loop, "repeat": self.repeat, "if": self.branches,
            "try": self.attempt, "parallel": self.parallel, "call": self.invoke, "compute": self.compute,
            "let": self.let, "set": self.let, "require": self.require,
        }.get(kind, self.said)  # fmt: skip
        return read(fields, own, node.span)

    def own_id(self, fields: Fields) -> str:
        found = fields.text("id")
        if found is None:
            return ""
        fields.step = str(found.value)
        if _ID.fullmatch(fields.step) is None:
            self.report.error("DAG014", f"{shown(fields.step)!r} is not a valid id", found.span, ID_RULE)
        return fields.step

    def act(self, fields: Fields, own: str, span: Span) -> Statement | None:
        tool = fields.text("tool")
        plain_name = "" if tool is None else canonical_tool_name(str(tool.value))
        if tool is not None and (not plain_name.strip("_") or plain_name in RESERVED_TOOLS):
            self.report.error("DAG015", f"{shown(str(tool.value))!r} is not a tool name", tool.span)
        nodes = fields.list("positional")
        given = () if nodes is None else tuple(self.values.value(node) for node in nodes.items)
        given, named = with_query_parameters(plain_name, given, self.args(fields))
        return Act(
            own, plain_name, given, named, self.into(fields), self.recovery(fields),
            self.words(fields, "title"), bool(own), self.comments(fields), span=span,
        )  # fmt: skip

    def invoke(self, fields: Fields, own: str, span: Span) -> Statement:
        plan = self.named(fields, "call")
        args, into, recovery = self.args(fields), self.into(fields), self.recovery(fields)
        return Invoke(own, plan, args, into, recovery, bool(own), self.comments(fields), span=span)

    def compute(self, fields: Fields, own: str, span: Span) -> Statement:
        source, recovery = self.words(fields, "compute") or "", self.recovery(fields)
        reads, sets = self.names(fields, "reads"), self.names(fields, "sets")
        return Compute(own, source, reads, sets, recovery, bool(own), self.comments(fields), span=span)

    def let(self, fields: Fields, own: str, span: Span) -> Statement | None:
        value, comments = self.value(fields, "value"), self.comments(fields)
        if value is None:
            return None
        if "set" in fields:
            return Assign(own, self.named(fields, "set"), value, comments, span=span)
        return Let(own, self.named(fields, "let"), value, self.type(fields, "type"), comments, span=span)

    def require(self, fields: Fields, own: str, span: Span) -> Statement | None:
        condition = self.condition(fields, "require")
        if condition is None:
            return None
        return Require(own, condition, self.value(fields, "message"), self.comments(fields), span=span)

    def said(self, fields: Fields, own: str, span: Span) -> Statement | None:
        kind = next(name for name in _WORDS if name in fields)
        word = _WORDS[kind]
        values: tuple[Expression, ...] = ()
        if word in {Word.BREAK, Word.CONTINUE}:
            if not self.flag(fields, kind):
                return None
        elif word in _MANY:
            values = self.some(fields, kind)
        else:
            value = self.value(fields, kind)
            values = () if value is None else (value,)
        if word is Word.RETURN and len(values) > 1:
            self.report.error("DAG011", "return takes one value; a list as a value is [[…]]", span)
        failure = fields.text("kind") if word is Word.FAIL else None
        if failure is not None and not is_kind(str(failure.value)):
            self.report.error(
                "DAG018", f"{shown(str(failure.value))!r} is not a kind of failure", failure.span
            )
        own_kind = None if failure is None else str(failure.value)
        return Say(own, word, values, own_kind, bool(own), self.comments(fields), span=span)

    # ------------------------------------------------------------ blocks

    def branches(self, fields: Fields, own: str, span: Span) -> Statement | None:
        made = [self.branch(fields, span)]
        for node in self.items(fields, "elif", "a branch"):
            made.append(self.branch(self.fields(node, _table(BRANCH), "the branch"), node.span))
        otherwise = self.block(fields, "else") if "else" in fields else None
        found = tuple(branch for branch in made if branch is not None)
        if len(found) < len(made):
            return None
        return If(own, found, otherwise, bool(own), self.comments(fields), span=span)

    def branch(self, fields: Fields, span: Span) -> Branch | None:
        condition, body = self.condition(fields, "if"), self.block(fields, "then")
        return None if condition is None else Branch(condition, body, span)

    def loop(self, fields: Fields, own: str, span: Span) -> Statement | None:
        source, limit = self.value(fields, "in"), self.value(fields, "limit")
        order = self.words(fields, "order")
        together = order in TOGETHER
        if not together and order not in {None, "in order"}:
            known = f'order is "in order", or {" or ".join(map(repr, TOGETHER))}'.replace("'", '"')
            self.report.error("DAG011", known, span, step=fields.step)
        most = fields.number("max")
        said = (order or "").split(", ")
        ends = next((one for one in Ends if one.value.lower() in said), Ends.ALL)
        as_done = "as done" in said
        if most is not None and (not together or type(most) is not int or most < 1):
            self.report.error("DAG011", 'max is a whole number, beside "order": "together"', span)
            most = None
        body, item = self.block(fields, "do"), fields.entry("yield")
        if item is not None:
            body = (*body, Say("", Word.YIELD, (self.values.value(item.value),), span=item.value.span))
        var, into, recovery = self.named(fields, "foreach"), self.into(fields), self.recovery(fields)
        if source is None:
            return None
        return Foreach(
            own, var, source, body, limit, order == "in order", together,
            None if most is None else int(most), into, recovery, bool(own), self.comments(fields), span=span,
            ends=ends, as_done=as_done,
        )  # fmt: skip

    def repeat(self, fields: Fields, own: str, span: Span) -> Statement | None:
        entry = fields.entry("repeat")
        bound = None if entry is None else self.values.value(entry.value)
        if entry is not None and isinstance(entry.value, Scalar) and entry.value.value == "run":
            bound = None
        until, while_ = self.condition(fields, "until"), self.condition(fields, "while")
        if (until is None) == (while_ is None):
            self.report.error("DAG010", "repeat has one of until and while", Span(span.start, span.start + 1))
        body, every, recovery = self.block(fields, "do"), self.value(fields, "every"), self.recovery(fields)
        return Repeat(
            own, bound, body, every, until, while_, recovery, bool(own), self.comments(fields), span=span
        )

    def attempt(self, fields: Fields, own: str, span: Span) -> Statement | None:
        body, recovery = self.block(fields, "try"), self.recovery(fields, may_undo=True)
        within = self.value(fields, "within")
        if recovery is None and within is None:
            self.report.error(
                "DAG010", "try has neither on_fail nor finally", Span(span.start, span.start + 1)
            )
            return None
        said = self.comments(fields)
        made = Try(own, body, recovery or Recovery(), bool(own), said, span=span, within=within)
        return tried(made)

    def parallel(self, fields: Fields, own: str, span: Span) -> Statement:
        members, recovery = self.block(fields, "parallel"), self.recovery(fields)
        order = self.words(fields, "order")
        if order not in {None, "stop"}:
            self.report.error("DAG011", 'order is "stop"', span, step=fields.step)
        stops = order == "stop"
        return Parallel(own, members, recovery, bool(own), self.comments(fields), span=span, stops=stops)

    # ------------------------------------------------------------ failure

    def recovery(self, fields: Fields, *, may_undo: bool = False) -> Recovery | None:
        found = fields.object("on_fail")
        final = self.block(fields, "finally") if "finally" in fields else None
        if found is None:
            return None if final is None else Recovery(final=final)
        inner = self.fields(found, _table(FAILURE), "on_fail")
        undo = self.undo(inner, may_undo=may_undo)
        again = self.again(inner, found.span)
        remedies: list[Remedy] = []
        if self.flag(inner, "continue"):
            remedies.append(GoOn())
        if self.flag(inner, "skip"):
            remedies.append(Skip())
        used = self.value(inner, "use")
        if used is not None:
            remedies.append(Use(used))
        if "terminate" in inner:
            remedies.append(Leave(self.some(inner, "terminate")))
        handlers = tuple(self.handler(node) for node in self.items(inner, "handlers", "a handler"))
        if len(remedies) + bool(handlers) > 1 or (undo is again is None and not remedies and not handlers):
            help_ = "it has retry, or one of continue, use, skip, terminate and handlers, or both"
            self.report.error("DAG018", "on_fail says what happens once", found.span, help_, step=fields.step)
        return Recovery(again, remedies[0] if remedies else None, handlers, final, undo)

    def undo(self, fields: Fields, *, may_undo: bool) -> tuple[tuple[str, str], ...] | None:
        found = fields.object("undo")
        if found is None:
            return None
        if not may_undo:
            help_ = "undo stands in the on_fail of a try"
            self.report.error("DAG018", "only a try can be undone", found.span, help_)
        pairs: dict[str, str] = {}
        for entry in found.entries:
            text = entry.value.value if isinstance(entry.value, Scalar) else None
            try:
                pairs.update([inverse_pair(entry.key, text)])
            except NotAnInverse as error:
                self.report.error("DAG018", str(error), entry.value.span)
        return tuple(pairs.items()) if may_undo else None

    def again(self, fields: Fields, span: Span) -> Again | None:
        count, delay, backoff = (fields.number(name) for name in ("retry", "delay", "backoff"))
        if count is None and delay is None and backoff is None:
            return None
        numbers = [number for number in (count, delay, backoff) if number is not None]
        if type(count) is not int or min(numbers) < 0 or max(numbers) > 10**9:
            help_ = "retry is a whole number, delay and backoff are numbers beside it"
            self.report.error("DAG018", "these are not the numbers of a retry", span, help_)
            return None
        return Again(count, _float(delay), _float(backoff))

    def handler(self, node: Mapping) -> Handler:
        fields = self.fields(node, _table(HANDLER), "the handler")
        kinds = self.names(fields, "kinds")
        for kind in kinds:
            if not is_kind(kind):
                self.report.error("DAG018", f"{shown(kind)!r} is not a kind of failure", node.span)
        binds = self.named(fields, "as") if "as" in fields else ERROR_VARIABLE
        return Handler(kinds, self.block(fields, "do"), binds, node.span)


def _float(number: float | None) -> float | None:
    return None if number is None else float(number)


def _names_in(tree: Tree) -> set[str]:
    """The names of the inputs and variables of a plan, in any of its scopes."""
    names = {one.name for inputs in (tree.inputs, *(plan.inputs for plan in tree.plans)) for one in inputs}
    for statement in all_statements(tree):
        names.update(variables_set(statement))
        if isinstance(statement, Foreach):
            names.add(statement.var)
    return names


def _twice(named: list[tuple[str, Span | None]]) -> list[tuple[str, Span | None]]:
    seen: set[str] = set()
    out: list[tuple[str, Span | None]] = []
    for name, span in named:
        if name in seen:
            out.append((name, span))
        seen.add(name)
    return out
