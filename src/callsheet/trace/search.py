"""Searches all data that a run has handled: inputs, arguments, results, errors, answers.

In: the events of a journal and a matcher. Out: the matches, one by one, in the order of the events. The
journal is read once; nothing is stored.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from callsheet.frontends.values.printer import format_path
from callsheet.ir import JSON, Plan
from callsheet.ir.linear_patterns import PatternRejected, compile_pattern, escaped
from callsheet.machine import AgentTurn, Awaited, CallModel, CallTool, Compile, Machine, RunAgent
from callsheet.machine.commands import Ask
from callsheet.machine.questions import asked_to_json
from callsheet.store.errors import JournalError
from callsheet.store.events import Event, EventType
from callsheet.store.records import PlanOf
from callsheet.store.replay import begin_with, fold_on
from callsheet.trace.lineage.lineage import NONE, ValueSource
from callsheet.trace.lineage.record import attending, entry_of

if TYPE_CHECKING:
    from callsheet.ir.tree import Tree

Find = Callable[[str], "tuple[int, int] | None"]
"""Returns the start and end of the first match in a text, or None."""
_CONTEXT = 40
_BOOKS = frozenset(
    {"digest", "due", "msg_id", "spent", "unsettled", "final", "forbidden", "outcome", "verdict", "decision"}
)
"""Fields of event bodies that are bookkeeping and hold no data of the run."""


class Match(NamedTuple):
    """A match.

    `what` is the kind of data that it is in: `given`, `argument`, `result`, `error`, `answer` and the like.
    `path` is its path in that data; `variable` the one that takes the result, or was given or edited, None if
    there is none. `before` and `after` are the text around it.
    """

    seq: int
    step: str | None
    key: str | None
    what: str
    path: tuple[str | int, ...]
    before: str
    text: str
    after: str
    variable: str | None = None

    @property
    def place(self) -> str:
        """The place in the notation of plans."""
        path = format_path(self.path, '"')
        return path.removeprefix(".") if self.variable is None else f"${self.variable}{path}"


def search(plan: Plan, events: Iterable[Event], plan_of: PlanOf, find: Find) -> Iterator[Match]:
    """The matches in the data of a run.

    Arguments of calls are recomputed by folding the run. Raises JournalError if events cannot be read.
    """
    rows = iter(events)
    first = next(rows)
    if plan.tree is not None:
        yield from _in_blocks(plan, first, rows, plan_of, find)
        return
    folded = begin_with(plan, first)
    yield from _in_body(first, folded.machine, find)
    for row in rows:
        if row.type is EventType.INTENT and row.key is not None:
            yield from _in_call(row, folded.waiting.get(row.key), find)
        else:
            yield from _in_body(row, folded.machine, find)
        fold_on(folded, (row,), plan_of)


def _in_blocks(
    plan: Plan, first: Event, rows: Iterator[Event], plan_of: PlanOf, find: Find
) -> Iterator[Match]:
    """The matches in a run of a plan with blocks: also in what its statements have computed."""
    recorder = attending(plan, entry_of(first))
    yield from _in_body(first, recorder.machine, find)
    recorder.begin(entry_of(first))
    lineage = recorder.lineage
    seen = 0
    for row in (first, *rows):
        if row is not first:
            if row.type is EventType.INTENT and row.key is not None:
                yield from _in_call(row, lineage.commands.get(row.key), find)
            else:
                yield from _in_body(row, recorder.machine, find)
            recorder.add(entry_of(row), plan_of)
        for write in lineage.writes[seen:]:
            if write.visit == NONE or lineage.step(lineage.visits[write.visit]).call is not None:
                continue
            if write.made in (ValueSource.STEP, ValueSource.USE):
                place = lineage.label(lineage.visits[write.visit])
                for match in _in_value(row, "value", (), write.value, find):
                    yield match._replace(step=place, key=place, variable=write.name)
        seen = len(lineage.writes)


def _in_call(row: Event, command: Awaited | None, find: Find) -> Iterator[Match]:
    if command is not None:
        for path, value in _arguments(command):
            yield from _in_value(row, "argument", path, value, find)


def _arguments(command: Awaited) -> Iterator[tuple[tuple[str | int, ...], JSON]]:
    """The arguments of a call, each with its path."""
    match command:
        case CallTool(args=args):
            yield from (((name,), value) for name, value in args.items())
        case CallModel(inputs=inputs, args=args) | RunAgent(inputs=inputs, args=args):
            yield from (((number,), value) for number, value in enumerate(inputs))
            yield from (((name,), value) for name, value in args.items())
        case AgentTurn(inputs=inputs):
            yield from (((number,), value) for number, value in enumerate(inputs))
        case Compile(reason=reason):
            yield ("reason",), reason
        case Ask(asked=asked):
            yield (), cast("JSON", asked_to_json(asked))
        case _:
            pass


def _variable_of(row: Event, machine: Machine) -> tuple[str | None, tuple[int, ...]]:
    """The variable that takes the result of a call, and the index of a FOREACH's item in it."""
    program = machine.program
    number = program.number_of.get(row.step or "")
    if number is None or not machine.is_open(row.key or ""):
        return None, ()
    if program.plan.tree is not None:
        tree = program.plan.tree
        return program.cached("variables of results", lambda: _results_of(tree)).get(row.step or ""), ()
    code = program.steps[number]
    name = program.names[code.out_slot] if code.out_slot >= 0 else None
    return name, (row.index or 0,) if code.source is not None else ()


def _results_of(tree: Tree) -> dict[str, str]:
    """The variables that take the results of the calls of a plan with blocks, by step."""
    from callsheet.ir.tree import acts  # noqa: PLC0415 - only for version 2

    return {act.id: act.into.name for act in acts(tree) if act.into is not None}


def _named(matches: Iterator[Match]) -> Iterator[Match]:
    """Matches in an object whose keys are variables."""
    for match in matches:
        yield match._replace(variable=str(match.path[0]), path=match.path[1:])


def _in_body(row: Event, machine: Machine, find: Find) -> Iterator[Match]:
    body: Mapping[str, Any] = row.body or {}
    what = row.type.word
    if not what:
        return
    match row.type:
        case EventType.START:
            yield from _named(_in_value(row, what, (), body.get("inputs", {}), find))
        case EventType.EDIT:
            yield from _named(_in_value(row, what, (), body.get("values", {}), find))
        case EventType.OK:
            variable, item = _variable_of(row, machine)
            for match in _in_value(row, what, item, body.get("value"), find):
                yield match._replace(variable=variable)
        case EventType.END:
            answer = body.get("response")
            if isinstance(answer, dict):  # a reference to the event that holds the answer
                answer = machine.result and machine.result.response
            yield from _in_value(row, "response", (), answer, find)
            if body.get("error") != answer:
                yield from _in_value(row, "error", (), body.get("error"), find)
        case _:
            for name, value in body.items():
                if name not in _BOOKS:
                    path = () if name in ("error", "value") else (name,)
                    yield from _in_value(row, what, path, value, find)


def _in_value(row: Event, what: str, path: tuple[str | int, ...], value: JSON, find: Find) -> Iterator[Match]:
    """The matches in a value, in its order; iterative, as values can be deep."""
    stack: list[tuple[tuple[str | int, ...], JSON]] = [(path, value)]
    while stack:
        place, node = stack.pop()
        if isinstance(node, dict):
            stack += [((*place, key), inner) for key, inner in reversed(node.items())]
        elif isinstance(node, list):
            stack += [((*place, at), node[at]) for at in range(len(node) - 1, -1, -1)]
        elif node is not None:
            text = node if isinstance(node, str) else json.dumps(node)
            span = find(text)
            if span is not None:
                start, end = span
                before, after = text[max(0, start - _CONTEXT) : start], text[end : end + _CONTEXT]
                yield Match(row.seq, row.step, row.key, what, place, before, text[start:end], after)


_MEMORY = 64 << 20
_LEAST = 2
"""The length of `//`, an empty pattern."""


def finder(text: str, *, ignore_case: bool = False) -> Find:
    """A function that finds a text, or a pattern if the text is in slashes.

    Raises ValueError for an empty text, JournalError (JRN085) for a pattern that RE2 rejects.

    >>> finder("b")("abc"), finder("/[0-9]+/")("on 12 May"), finder("B", ignore_case=True)("abc")
    ((1, 2), (3, 5), (1, 2))
    """
    if len(text) > _LEAST and text.startswith("/") and text.endswith("/"):
        return _pattern(text[1:-1], ignore_case=ignore_case)
    if not text:
        raise ValueError("the text to look for is empty")
    if ignore_case:
        return _pattern(escaped(text), ignore_case=True)

    def find(within: str) -> tuple[int, int] | None:
        at = within.find(text)
        return None if at < 0 else (at, at + len(text))

    return find


def _pattern(pattern: str, *, ignore_case: bool) -> Find:
    try:
        compiled = compile_pattern(pattern, memory=_MEMORY, any_case=ignore_case)
    except PatternRejected as error:
        raise JournalError(
            "JRN085",
            f"/{pattern[:80]}/ cannot be read as a pattern: {error}",
            "patterns use RE2: no look-around, no back-references; without slashes it is plain text",
        ) from None

    def find(within: str) -> tuple[int, int] | None:
        clean = within if within.isascii() else within.encode(errors="replace").decode()
        match = compiled.search(clean)
        return None if match is None else match.span()

    return find
