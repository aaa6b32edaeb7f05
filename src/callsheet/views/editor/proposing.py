"""Completion shared by all plan syntaxes: arguments, values, variables, functions; the type of a proposal.

In: a document, the context of the cursor, knowledge. Out: proposals.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import cast

from callsheet.diagnostics import Span
from callsheet.passes.signatures import OPERATIONS
from callsheet.ports.transforms import arithmetic, query
from callsheet.views.editor import tooltext
from callsheet.views.editor.context import Context
from callsheet.views.editor.document import PlanDocument
from callsheet.views.editor.keywords import WORDS
from callsheet.views.editor.kinds import kind_of_result
from callsheet.views.editor.knowledge import Knowledge
from callsheet.views.editor.occurrences import Kind, Role, occurrences

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
    parameters = tooltext.parameters_of(context.tool, known.tools.get(context.tool))
    positional = 0 if context.tool in OPERATIONS else context.place - len(context.given)
    unset = [p for p in parameters[max(positional, 0) :] if p.name not in context.given]
    for parameter in sorted(unset, key=lambda p: not p.is_required):
        need = "" if parameter.is_required else ", optional"
        yield Proposal(
            f"{parameter.name}=", Sort.ARGUMENT, f"{parameter.name}=", context.typed,
            f"{parameter.takes}{need}".removeprefix(", "), tooltext.plain(parameter.about),
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
    for parameter in tooltext.parameters_of(context.tool, known.tools.get(context.tool)):
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
        if o.entity.kind is Kind.VARIABLE and o.role is Role.WRITE and o.entity.loop is None
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
