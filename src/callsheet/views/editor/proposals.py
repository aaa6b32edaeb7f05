"""What may stand at the cursor in an incomplete text: the place that it is, and the proposals for it.

In: a document, an offset, what is known of the plan. Out: a context, and candidates with their edits;
shared by the completion of all syntaxes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import cast

from callsheet.diagnostics import Span
from callsheet.frontends.ltp.words import RECOVERY_LINE
from callsheet.frontends.values.reader import LABEL, NAME
from callsheet.ir import canonical_tool_name
from callsheet.passes.finding import OPERATIONS
from callsheet.ports.transforms import arithmetic, query
from callsheet.views.editor import knowledge
from callsheet.views.editor.document import PlanDocument
from callsheet.views.editor.knowledge import WORDS, Knowledge, kind_of_result
from callsheet.views.editor.occurrences import Kind, Role, occurrences
from callsheet.views.highlight.rules import Piece, Scope, scan

_MOST_LINES = 200
"""The maximum number of lines above the cursor in which the beginning of the step is searched."""
_PROBE = "\ue000"
"""A character that no rule matches: appended to the text, its scope is the scope at the cursor."""
_REFERENCE = re.compile(rf"\$\{{?(?:{NAME})?$")
_PATH = re.compile(rf"\$\{{?{NAME}[.\[][\w.\[\]]*$")
_TYPED = re.compile(r"[@?]?[A-Za-z_][\w-]*$|[@?]$")
_CAST = re.compile(rf">[ \t]*\$?{NAME}[ \t]*:[ \t]*([A-Za-z]*)$")
_GOTO = re.compile(r"\bGOTO[ \t]+([\w-]*)$", re.IGNORECASE)
_FAILURE = re.compile(r"\bON_FAIL[ \t]+(@?[\w-]*)$", re.IGNORECASE)
_OUTPUT = re.compile(rf">[ \t]*\$?(?:{NAME})?$")
_HEAD = re.compile(rf"\A[ \t]*(?:{LABEL}[ \t]*:[ \t]*)?([@?]?[\w-]*)$")
_ACTION = re.compile(r"\bTHEN[ \t]+([@?]?[\w-]*)$", re.IGNORECASE)


class Where(StrEnum):
    """What is expected at the cursor."""

    START = "start"
    """The beginning of a step, with or without its id."""
    ACTION = "action"
    """An action, after a guard."""
    ARGUMENT = "argument"
    """An argument of a call: a name or a value."""
    VALUE = "value"
    """A value: of the argument `argument`, or inside a list."""
    CONDITION = "condition"
    """Inside a guard."""
    REFERENCE = "reference"
    """The name of a variable, after its `$`."""
    OUTPUT = "output"
    CAST = "cast"
    TARGET = "target"
    """The id of a step, after GOTO."""
    FAILURE = "failure"
    """After ON_FAIL."""
    AFTER_ACTION = "behind"
    """After an action."""
    TEXT = "text"
    """Inside a string, but not in a reference."""
    NOWHERE = "nowhere"
    """In a comment or a path: nothing is proposed."""


_OUTSIDE = (
    (_CAST, Where.CAST),
    (_GOTO, Where.TARGET),
    (_FAILURE, Where.FAILURE),
    (_OUTPUT, Where.OUTPUT),
    (_ACTION, Where.ACTION),
    (_HEAD, Where.START),
)
"""The text before the cursor outside strings, guards and brackets, by context; the first match counts."""


@dataclass(frozen=True, slots=True)
class Context:
    """The context of a cursor.

    `typed` is the incomplete word, which a completion replaces. `tool` is the canonical name of the enclosing
    call, `argument` the name of its argument at the cursor, `place` the number of that argument from 0, and
    `given` the names before the cursor. `loop` is the loop variable of the step's FOREACH. `start` is the
    offset of the step.
    """

    where: Where
    typed: Span
    tool: str = ""
    argument: str = ""
    place: int = 0
    given: tuple[str, ...] = ()
    loop: str = ""
    start: int = 0


def context_at(text: str, offset: int) -> Context:
    """Returns the context at an offset.

    >>> found = context_at('S1: @ADD (a=1, ', 15)
    >>> str(found.where), found.tool, found.given
    ('argument', 'ADD', ('a',))
    """
    start = _step_start(text, offset)
    before = text[start:offset]
    pieces = [*scan(before + _PROBE)]
    scope = pieces[-1].scope if pieces and pieces[-1].span.end == len(before) + 1 else None
    if scope is Scope.COMMENT or _PATH.search(before):
        return Context(Where.NOWHERE, Span(offset, offset), start=start)
    frames, in_guard = _frames(before, pieces)
    where, at = _where(before, scope, frames, in_guard=in_guard)
    call = next((frame for frame in reversed(frames) if frame.tool), _Frame(""))
    return Context(
        where,
        Span(start + at, offset),
        call.tool,
        call.argument,
        call.place,
        tuple(call.given),
        _loop(before),
        start,
    )


@dataclass(slots=True)
class _Frame:
    """An open bracket: the tool whose arguments it encloses, and the arguments so far."""

    mark: str
    tool: str = ""
    given: list[str] = field(default_factory=list[str])
    argument: str = ""
    place: int = 0


def _frames(before: str, pieces: Sequence[Piece]) -> tuple[list[_Frame], bool]:
    """Returns the brackets that are open at the end, and whether a guard has no THEN yet."""
    frames: list[_Frame] = []
    in_guard, tool = False, ""
    for span, scope in pieces:
        piece_text = before[slice(*span)]
        match scope:
            case Scope.KEYWORD:
                in_guard = piece_text.upper().lstrip("?@ \t") in ("IF", "FOREACH")
            case Scope.ARGUMENT if frames:
                frames[-1].argument = piece_text
                frames[-1].given.append(piece_text)
            case Scope.BRACKET if piece_text in "([{":
                frames.append(_Frame(piece_text, tool))
            case Scope.BRACKET if piece_text in ")]}":
                del frames[-1:]
            case Scope.BRACKET if piece_text == "," and frames:
                frames[-1].argument = ""
                frames[-1].place += 1
            case _:
                pass
        tool = canonical_tool_name(piece_text) if scope in (Scope.TOOL, Scope.OPERATION) else ""
    return frames, in_guard


def _where(
    before: str, scope: Scope | None, frames: Sequence[_Frame], *, in_guard: bool
) -> tuple[Where, int]:
    """Returns what is expected at the end of `before`, and the offset of the incomplete word there."""
    reference = _REFERENCE.search(before)
    is_output = not frames and not in_guard and _OUTPUT.search(before) is not None
    if reference is not None and not is_output:
        return Where.REFERENCE, reference.start()
    typed = _TYPED.search(before)
    at = len(before) if typed is None else typed.start()
    if scope is Scope.STRING:
        return Where.TEXT, at
    if in_guard:
        return Where.CONDITION, at
    if frames:
        is_name = frames[-1].mark == "(" and not frames[-1].argument
        return (Where.ARGUMENT if is_name else Where.VALUE), at
    for pattern, where in _OUTSIDE:
        match = pattern.search(before)
        if match is not None:
            return where, match.start(1) if match.lastindex else match.start()
    return Where.AFTER_ACTION, at


def _step_start(text: str, offset: int) -> int:
    """Returns the start of the step at an offset.

    It is the line of the offset, or an earlier one if a bracket or string is open at that line.
    """
    line = text.rfind("\n", 0, offset) + 1
    start = _last_step_line(text, offset)
    before = text[start:line]
    pieces = [*scan(before + _PROBE)]
    last = pieces[-1] if pieces else None
    is_text = last is not None and last.scope is Scope.STRING and last.span.end > len(before)
    return start if is_text or _frames(before, pieces)[0] else line


def _last_step_line(text: str, offset: int) -> int:
    line = text.rfind("\n", 0, offset) + 1
    first = line
    for _ in range(_MOST_LINES):
        if RECOVERY_LINE.match(text, line):
            return line
        if line == 0:
            break
        line = text.rfind("\n", 0, line - 1) + 1
    return first


def _loop(before: str) -> str:
    match = re.search(rf"FOREACH[ \t]*\(?[ \t]*\$?({NAME})[ \t\r\n]+IN\b", before, re.IGNORECASE)
    return "" if match is None else match[1]


_OPENED = re.compile(r"""=[ \t]*(["'])((?:(?!\1)[^\\$\n])*)\Z""")
"""A named argument whose value is a string that has been opened, without references so far."""


class Sort(StrEnum):
    """The kind of a proposal."""

    TOOL = "tool"
    ARGUMENT = "argument"
    VARIABLE = "variable"
    STEP = "step"
    WORD = "word"
    VALUE = "value"
    TYPE = "type"
    FUNCTION = "function"


@dataclass(frozen=True, slots=True)
class Proposal:
    """A text that replaces `span`.

    `snippet` is the same text with the tab stops of LSP snippets (`$1`, `$0`), empty without one. `detail` is
    shown next to the label, `about` is Markdown that is shown on demand.
    """

    label: str
    sort: Sort
    insert: str
    span: Span
    detail: str = ""
    about: str = ""
    snippet: str = ""


def plain(context: Context, text: str, sort: Sort, detail: str = "", about: str = "") -> Proposal:
    """Returns a proposal whose label is inserted unchanged."""
    return Proposal(text, sort, text, context.typed, detail, about)


def words(context: Context, words: Iterable[str], behind: str = "") -> Iterator[Proposal]:
    """Yields keywords, each inserted with `behind` after it."""
    for word in words:
        yield Proposal(word, Sort.WORD, word + behind, context.typed, about=WORDS.get(word, ""))


# ---------------------------------------------------------------- arguments and values


def arguments(context: Context, known: Knowledge) -> Iterator[Proposal]:
    """Yields the names of missing arguments; positional values count as the first parameters."""
    parameters = knowledge.parameters_of(context.tool, known.tools.get(context.tool))
    positional = 0 if context.tool in OPERATIONS else context.place - len(context.given)
    unset = [p for p in parameters[max(positional, 0) :] if p.name not in context.given]
    for parameter in sorted(unset, key=lambda p: not p.is_required):
        need = "" if parameter.is_required else ", optional"
        yield Proposal(
            f"{parameter.name}=", Sort.ARGUMENT, f"{parameter.name}=", context.typed,
            f"{parameter.takes}{need}".removeprefix(", "), knowledge.plain(parameter.about),
        )  # fmt: skip


def option_values(context: Context, known: Knowledge) -> Iterator[Proposal]:
    """Yields the values that the argument's schema lists, and true and false for a boolean."""
    for schema in _schemas(context, known):
        yield from (plain(context, f'"{option}"', Sort.VALUE) for option in _options(schema))
        if schema.get("type") == "boolean":
            yield from (plain(context, word, Sort.VALUE) for word in ("true", "false"))


def option_texts(text: str, context: Context, known: Knowledge) -> Iterator[Proposal]:
    """Yields the values that the argument's schema lists for a string that has been opened.

    The string is closed unless the editor has done so.
    """
    opened = _OPENED.search(text, context.start, context.typed.end)
    if opened is None:
        return
    end = "" if text.startswith(opened[1], context.typed.end) else opened[1]
    for schema in _schemas(context, known):
        for option in _options(schema):
            yield Proposal(option, Sort.VALUE, option + end, Span(opened.start(2), context.typed.end))


def _schemas(context: Context, known: Knowledge) -> Iterator[Mapping[str, object]]:
    """Yields the schema of the argument at the cursor."""
    for parameter in knowledge.parameters_of(context.tool, known.tools.get(context.tool)):
        if parameter.name == context.argument:
            yield parameter.schema


def _options(schema: Mapping[str, object]) -> Iterator[str]:
    """Yields the listed texts that need no escape in a string."""
    options = schema.get("enum", ())
    for option in cast("list[object]", options) if isinstance(options, list) else ():
        if isinstance(option, str) and option.isprintable() and not {'"', "\\", "$"} & set(option):
            yield option


def functions(context: Context) -> Iterator[Proposal]:
    """Yields the functions for a string that is a query of SELECT or an expression of CALC."""
    if context.tool == "SELECT" and (
        context.argument == "query" or (not context.argument and context.place == 1)
    ):
        names = query.function_names()
    elif context.tool == "CALC" and context.argument in ("", "expression"):
        names = arithmetic.function_names()
    else:
        return
    yield from (Proposal(f"{name}()", Sort.FUNCTION, f"{name}(", context.typed) for name in names)


# ---------------------------------------------------------------- variables


def variables(document: PlanDocument, context: Context, known: Knowledge) -> Iterator[Proposal]:
    """Yields the loop variable, then the variables set before the step, last one first, then the inputs."""
    seen: set[str] = set()
    opening = document.text[context.typed.start : context.typed.end]
    brace = opening.startswith("${")
    for name, detail in _in_scope(document, context, known):
        if name not in seen:
            seen.add(name)
            insert = f"${{{name}}}" if brace else f"${name}"
            yield Proposal(f"${name}", Sort.VARIABLE, insert, context.typed, detail)


def _in_scope(document: PlanDocument, context: Context, known: Knowledge) -> Iterator[tuple[str, str]]:
    if context.loop:
        yield context.loop, "each item"
    group = _group_at(document, context.start)
    before = [
        o
        for o in occurrences(document)
        if o.entity.kind is Kind.VARIABLE and o.role is Role.WRITE
        if o.entity.loop is None or document.tree is not None
    ]
    for occurrence in reversed(before):
        if occurrence.span.start >= context.start:
            continue
        step = document.steps[occurrence.step] if occurrence.step is not None else None
        if step is None:
            yield occurrence.entity.name, ""
        elif group is None or step.group != group:
            label = known.result_label(step.id)
            yield occurrence.entity.name, kind_of_result(step) + ("" if label is None else f" · {label}")
    for name in (*(name for name, _ in document.partial.variables), *document.inputs):
        yield name, "input of the run"


def _group_at(document: PlanDocument, start: int) -> int | None:
    """Returns the group of the step that begins at an offset, readable or not; None outside groups."""
    before = None
    for step in document.steps:
        if step.span is not None and step.span.start == start:
            return step.group
        if step.span is not None and step.span.end < start:
            before = step
    if before is None or before.group is None or before.span is None:
        return None
    between = document.text[before.span.end : start]
    return None if re.search(r"^[ \t]*\}", between, re.MULTILINE) else before.group
