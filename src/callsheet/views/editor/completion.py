"""What could be written at a place: tools, arguments, variables, ids, words, types, functions of queries.

In: a `PlanDocument`, an offset, what is known. Out: proposals in the order in which they should be shown. An
editor narrows them by what is typed already.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, cast

from callsheet.diagnostics import Span
from callsheet.frontends.spelling import Syntax
from callsheet.ir import Cast, CompareOp
from callsheet.passes.signatures import OPERATIONS
from callsheet.ports.transforms import arithmetic, query
from callsheet.views.editor import tooltext
from callsheet.views.editor.context import Context, Where, context_at
from callsheet.views.editor.document import PlanDocument
from callsheet.views.editor.kinds import kind_of_result
from callsheet.views.editor.knowledge import NOTHING, Knowledge
from callsheet.views.editor.occurrences import Kind, Role, occurrences
from callsheet.views.editor.words import WORDS

_ID = re.compile(r"S([0-9]{1,9})")
_LABELLED = re.compile(r"[ \t]*[A-Za-z_][\w-]*[ \t]*:")


class Sort(StrEnum):
    """What a proposal is."""

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
    """A text that takes the place of `span`.

    `snippet` is the same with places to go on at, as editors know them (`$1`, `$0`); empty where there is
    none. `detail` stands beside the label, `about` is Markdown that is shown on demand.
    """

    label: str
    sort: Sort
    insert: str
    span: Span
    detail: str = ""
    about: str = ""
    snippet: str = ""


def proposals_at(document: PlanDocument, offset: int, known: Knowledge = NOTHING) -> tuple[Proposal, ...]:
    """What could be written at an offset of LTP text.

    >>> from callsheet.views.editor.document import open_document
    >>> document = open_document("S1: @LLM_EXTRACT ($page, target=1) > $who:json\\nS2: @RESPOND ($")
    >>> [(p.insert, p.detail) for p in proposals_at(document, len(document.text))]
    [('$who', 'JSON value')]
    """
    if document.syntax is not Syntax.LTP:
        return ()
    here = context_at(document.text, offset)
    mark = document.text[here.typed.start : here.typed.end][:1]
    found = _proposals(document, here, known)
    return tuple(p for p in found if mark not in ("@", "?") or p.label.startswith(mark))


def _proposals(document: PlanDocument, here: Context, known: Knowledge) -> Iterator[Proposal]:
    match here.where:
        case Where.START:
            yield from _beginnings(document, here, known)
        case Where.ACTION:
            yield from _actions(here, known)
        case Where.ARGUMENT:
            yield from _arguments(here, known)
            yield from _variables(document, here, known)
        case Where.VALUE:
            yield from _values(here, known)
            yield from _variables(document, here, known)
        case Where.CONDITION:
            yield from _variables(document, here, known)
            yield from _words(here, ("IS_EMPTY", "NOT_EMPTY"), "(")
            yield from _words(here, ("NOT",), " (")
            yield from (_plain(here, str(op), Sort.WORD) for op in CompareOp)
            yield from _words(here, ("AND", "OR", "IN", "THEN"))
        case Where.REFERENCE:
            yield from _variables(document, here, known)
        case Where.CAST:
            yield from (_plain(here, str(kind), Sort.TYPE) for kind in Cast)
        case Where.TARGET:
            yield from _targets(document, here)
        case Where.FAILURE:
            yield from _failures(here)
        case Where.BEHIND:
            yield from _words(here, ("ON_FAIL",))
        case Where.TEXT:
            yield from _functions(here)
        case Where.OUTPUT | Where.NOWHERE:
            return


def _plain(here: Context, text: str, sort: Sort, detail: str = "", about: str = "") -> Proposal:
    return Proposal(text, sort, text, here.typed, detail, about)


def _words(here: Context, words: Iterable[str], behind: str = "") -> Iterator[Proposal]:
    for word in words:
        yield Proposal(word, Sort.WORD, word + behind, here.typed, about=WORDS.get(word, ""))


# ---------------------------------------------------------------- steps and actions


def _beginnings(document: PlanDocument, here: Context, known: Knowledge) -> Iterator[Proposal]:
    head = document.text[here.start : here.typed.start]
    if not _LABELLED.match(head):
        number = 1 + max((int(m[1]) for s in document.steps if (m := _ID.fullmatch(s.id))), default=0)
        yield Proposal(f"S{number}:", Sort.STEP, f"S{number}: ", here.typed, "the next step")
        yield Proposal(
            "@PARALLEL", Sort.WORD, "@PARALLEL {\n", here.typed, "steps that run together",
            WORDS["@PARALLEL"], "@PARALLEL {\n  $0\n}",
        )  # fmt: skip
    yield Proposal(
        "?IF", Sort.WORD, "?IF (", here.typed, "a condition", WORDS["?IF"], "?IF (${1:condition}) THEN $0"
    )
    yield Proposal(
        "?FOREACH", Sort.WORD, "?FOREACH ($", here.typed, "once for each item", WORDS["?FOREACH"],
        "?FOREACH (\\$${1:item} IN \\$${2:list}) THEN $0",
    )  # fmt: skip
    yield from _actions(here, known)


def _actions(here: Context, known: Knowledge) -> Iterator[Proposal]:
    for name, spec in sorted(known.tools.items()):
        if spec.refusal is None:
            yield _tool(here, name, known)
    for name in sorted(OPERATIONS):
        if name not in known.tools:
            yield _tool(here, name, known)
    for word in ("@RESPOND", "TERMINATE", "RE-PLAN"):
        yield Proposal(word, Sort.WORD, f"{word} (", here.typed, "", WORDS[word], f"{word} ($1)$0")
    yield Proposal("GOTO", Sort.WORD, "GOTO ", here.typed, "", WORDS["GOTO"])


def _tool(here: Context, name: str, known: Knowledge) -> Proposal:
    spec = known.tools.get(name)
    needed = [p for p in tooltext.parameters_of(name, spec) if p.is_required]
    holes = (f"{_escaped(p.name)}={_hole(n, p.schema)}" for n, p in enumerate(needed, 1))
    filled = ", ".join(holes)
    snippet = f"@{_escaped(name)} ({filled})$0" if filled else f"@{_escaped(name)} ($0)"
    about = tooltext.markdown(name, spec)
    return Proposal(
        f"@{name}", Sort.TOOL, f"@{name} (", here.typed, tooltext.summary(name, spec), about, snippet
    )


def _hole(number: int, schema: object) -> str:
    """The place of a value, in quotes where it is a text."""
    kind = cast("dict[str, Any]", schema).get("type") if isinstance(schema, dict) else None
    return f'"${number}"' if kind == "string" else f"${number}"


def _escaped(text: str) -> str:
    return re.sub(r"([\\$}])", r"\\\1", text)


def _failures(here: Context) -> Iterator[Proposal]:
    yield Proposal("@RETRY", Sort.WORD, "@RETRY(3)", here.typed, "", WORDS["@RETRY"], "@RETRY(${1:3})$0")
    yield Proposal("GOTO", Sort.WORD, "GOTO ", here.typed, "", WORDS["GOTO"])
    yield Proposal(
        "TERMINATE", Sort.WORD, "TERMINATE (", here.typed, "", WORDS["TERMINATE"], 'TERMINATE ("$1")$0'
    )


def _targets(document: PlanDocument, here: Context) -> Iterator[Proposal]:
    for symbol in dict.fromkeys(
        o.entity.name
        for o in occurrences(document)
        if o.entity.kind is Kind.STEP and o.role is Role.WRITE
    ):  # fmt: skip
        step = document.partial.step(symbol)
        yield _plain(here, symbol, Sort.STEP, "" if step is None or step.title is None else step.title)


# ---------------------------------------------------------------- arguments and values


def _arguments(here: Context, known: Knowledge) -> Iterator[Proposal]:
    """The names of arguments that are not given yet; the positional ones before have taken the first."""
    parameters = tooltext.parameters_of(here.tool, known.tools.get(here.tool))
    positional = 0 if here.tool in OPERATIONS else here.place - len(here.given)
    left = [p for p in parameters[max(positional, 0) :] if p.name not in here.given]
    for parameter in sorted(left, key=lambda p: not p.is_required):
        need = "" if parameter.is_required else ", may be left out"
        yield Proposal(
            f"{parameter.name}=", Sort.ARGUMENT, f"{parameter.name}=", here.typed,
            f"{parameter.takes}{need}".removeprefix(", "), tooltext.plain(parameter.about),
        )  # fmt: skip


def _values(here: Context, known: Knowledge) -> Iterator[Proposal]:
    """The values that the schema of the argument lists."""
    found = [
        p for p in tooltext.parameters_of(here.tool, known.tools.get(here.tool)) if p.name == here.argument
    ]
    for parameter in found:
        options: object = parameter.schema.get("enum", ())
        for option in cast("list[object]", options) if isinstance(options, list) else ():
            if isinstance(option, str) and option.isprintable() and not {'"', "\\", "$"} & set(option):
                yield _plain(here, f'"{option}"', Sort.VALUE)
        if parameter.schema.get("type") == "boolean":
            yield from (_plain(here, word, Sort.VALUE) for word in ("true", "false"))


def _functions(here: Context) -> Iterator[Proposal]:
    """The functions of the query or expression that a text is."""
    if here.tool == "SELECT" and (here.argument == "query" or (not here.argument and here.place == 1)):
        names = query.function_names()
    elif here.tool == "CALC" and here.argument in ("", "expression"):
        names = arithmetic.function_names()
    else:
        return
    yield from (Proposal(f"{name}()", Sort.FUNCTION, f"{name}(", here.typed) for name in names)


# ---------------------------------------------------------------- variables


def _variables(document: PlanDocument, here: Context, known: Knowledge) -> Iterator[Proposal]:
    """The variables that are set before the step at the cursor, the newest first, and that of its loop."""
    seen: set[str] = set()
    opening = document.text[here.typed.start : here.typed.end]
    brace = opening.startswith("${")
    for name, detail in _in_scope(document, here, known):
        if name not in seen:
            seen.add(name)
            insert = f"${{{name}}}" if brace else f"${name}"
            yield Proposal(f"${name}", Sort.VARIABLE, insert, here.typed, detail)


def _in_scope(document: PlanDocument, here: Context, known: Knowledge) -> Iterator[tuple[str, str]]:
    if here.loop:
        yield here.loop, "each item"
    group = _group_at(document, here.start)
    before = [
        o
        for o in occurrences(document)
        if o.entity.kind is Kind.VARIABLE and o.role is Role.WRITE and o.entity.loop is None
    ]
    for occurrence in reversed(before):
        if occurrence.span.start >= here.start:
            continue
        step = document.steps[occurrence.step] if occurrence.step is not None else None
        if step is None:
            yield occurrence.entity.name, ""
        elif group is None or step.group != group:
            label = known.result_label(step.id)
            yield occurrence.entity.name, kind_of_result(step) + ("" if label is None else f" · {label}")
    for name in (*(name for name, _ in document.partial.variables), *document.inputs):
        yield name, "given from outside"


def _group_at(document: PlanDocument, start: int) -> int | None:
    """The group of the step that begins at an offset, as far as it can be read."""
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
