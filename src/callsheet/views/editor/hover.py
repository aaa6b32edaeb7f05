"""Hover texts for the variable, step, tool or keyword at an offset.

In: a `PlanDocument`, an offset, knowledge. Out: Markdown and the span that it describes, or None.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from callsheet.diagnostics import Span
from callsheet.frontends.spelling import Syntax
from callsheet.ir import Step, canonical_tool_name
from callsheet.ir.labels import Label
from callsheet.ir.tree import Tree
from callsheet.views.columns import cut
from callsheet.views.describe import describe_step, describe_value
from callsheet.views.editor import knowledge
from callsheet.views.editor.document import PlanDocument
from callsheet.views.editor.knowledge import NOTHING, WORDS, Knowledge, kind_of_result
from callsheet.views.editor.occurrences import Kind, Named, Occurrence, Role, counted_step, named_at
from callsheet.views.highlight.rules import Scope, scan

_MOST_STEPS = 12
_WIDEST = 100
_WORD = re.compile(r"@?[A-Za-z_]\w*")


class Hover(NamedTuple):
    """Markdown about a span of the text."""

    markdown: str
    span: Span


def hover_at(document: PlanDocument, offset: int, known: Knowledge = NOTHING) -> Hover | None:
    """Returns the hover text at an offset, or None if there is none.

    >>> from callsheet.views.editor.document import open_document
    >>> found = hover_at(open_document('S1: @READ_FILE ("a") > $x:int\\nS2: @RESPOND ($x)'), 24)
    >>> print(found.markdown.splitlines()[0])
    **`$x`**: whole number
    """
    if document.syntax is Syntax.PYTHON:
        from callsheet.views.editor.python import hover_in_python  # noqa: PLC0415 - only for Python plans

        return hover_in_python(document, offset, known)
    named = named_at(document, offset)
    if named is not None and document.tree is not None:
        return Hover(_in_tree(document, document.tree, named), named.here.span)
    if named is not None:
        about = _variable if named.here.entity.kind is Kind.VARIABLE else _step_id
        return Hover(about(document, named, known), named.here.span)
    return _tool(document, offset, known) or _word(document, offset)


def _in_tree(document: PlanDocument, tree: Tree, named: Named) -> str:
    from callsheet.views.editor import blocks  # noqa: PLC0415 - only for texts with blocks

    entity = named.here.entity
    match entity.kind:
        case Kind.VARIABLE:
            is_inner = entity.loop is not None
            return blocks.hover_of_variable(
                document.text, tree, entity.name, is_inner, named.writes, named.reads
            )
        case Kind.STEP:
            return blocks.hover_of_statement(document.text, tree, entity.name)
        case Kind.PLAN:
            return blocks.hover_of_plan(tree, entity.name)


# ---------------------------------------------------------------- variables


def _variable(document: PlanDocument, named: Named, known: Knowledge) -> str:
    occurrence_here = named.here
    name = occurrence_here.entity.name
    lines = [f"**`${name}`**: {_kind(document, named)}"]
    label = _label(document, occurrence_here, known)
    if label is not None:
        lines.append(f"label `{label}` under the policy `{known.policy}`: {_label_words(label)}")
    setters = _steps_of(document, named.writes)
    if occurrence_here.entity.loop is not None:
        loop = document.steps[occurrence_here.entity.loop]
        source = "" if loop.foreach is None else f" of `{describe_value(loop.foreach.source)}`"
        lines.append(f"loop variable: each item{source}, only in {loop.id}")
    elif setters:
        lines.append("set by\n" + "\n".join(_listed(setters)))
    elif name in document.inputs or name in dict(document.partial.variables):
        lines.append("input of the run")
    else:
        lines.append("no step sets it; it is null unless it is an input of the run")
    users = _steps_of(document, named.reads)
    if users:
        ids = ", ".join(knowledge.plain(step.id) for step in users[:_MOST_STEPS])
        lines.append(f"used by {ids}" + (" and more" if len(users) > _MOST_STEPS else ""))
    else:
        lines.append("not used")
    return "\n\n".join(lines)


def _kind(document: PlanDocument, named: Named) -> str:
    entity = named.here.entity
    if entity.loop is not None:
        return "an item"
    initial = dict(document.partial.variables).get(entity.name)
    kinds = [kind_of_result(step) for step in _steps_of(document, named.writes)]
    if initial is not None:
        kinds.insert(0, f"`{describe_value(initial)}`")
    return " or ".join(dict.fromkeys(kinds)) or "unknown"


def _label(document: PlanDocument, occurrence: Occurrence, known: Knowledge) -> Label | None:
    if occurrence.step is None:
        return None
    step = document.steps[occurrence.step].id
    if occurrence.role is Role.READ or occurrence.entity.loop is not None:
        return known.read_label(step, occurrence.entity.name)
    return known.result_label(step)


def _label_words(label: Label) -> str:
    origin = "untrusted" if label.untrusted else "trusted"
    if label.is_public:
        return f"{origin}, readable by everybody"
    return f"{origin}, readable by nobody" if label.is_secret else f"{origin}, private"


def _steps_of(document: PlanDocument, places: tuple[Occurrence, ...]) -> list[Step]:
    numbers = dict.fromkeys(o.step for o in places if o.step is not None)
    return [document.steps[number] for number in numbers]


def _listed(steps: list[Step]) -> Iterator[str]:
    for step in steps[:_MOST_STEPS]:
        yield f"```ltp\n{cut(describe_step(step), _WIDEST)}\n```"


# ---------------------------------------------------------------- steps


def _step_id(document: PlanDocument, named: Named, known: Knowledge) -> str:
    steps = _steps_of(document, named.writes)
    counted = counted_step(document, named.here.entity.name)
    if not steps and counted is not None:
        steps = [counted]
    if not steps:
        return f"no step has the id `{named.here.entity.name}`"
    step = steps[0]
    lines = [*_listed(steps)]
    if step.title:
        lines.insert(0, f"**{knowledge.plain(step.title)}**")
    schedule = known.schedule.get(step.id)
    if schedule is not None:
        lines.append(knowledge.plain(schedule.describe()))
    labels = known.labels.get(step.id)
    if labels is not None:
        reads = ", ".join(f"`${name}` {label}" for name, label in labels.reads)
        gives = f"returns {labels.result}" if step.call is not None else ""
        parts = [f"reads {reads}" if reads else "", gives]
        lines.append(" · ".join([f"under `{known.policy}`", *filter(None, parts)]))
    users = _steps_of(document, named.reads)
    if users:
        word = "dependency of" if step.depends_on is not None else "jumped to from"
        lines.append(f"{word} {', '.join(knowledge.plain(user.id) for user in users[:_MOST_STEPS])}")
    return "\n\n".join(lines)


# ---------------------------------------------------------------- tools and words


def _tool(document: PlanDocument, offset: int, known: Knowledge) -> Hover | None:
    """Returns the hover text of the tool whose name is at an offset, in any syntax."""
    word = _word_at(document, offset, (Scope.TOOL, Scope.OPERATION))
    if word is None:
        return None
    tool = canonical_tool_name(document.text[slice(*word)])
    number = document.number_at(offset)
    call = document.steps[number].call if number is not None else None
    if document.syntax is not Syntax.LTP and (call is None or call.tool != tool):
        return None
    return Hover(knowledge.markdown(tool, known.tools.get(tool)), word)


def _word(document: PlanDocument, offset: int) -> Hover | None:
    word = _word_at(document, offset, (Scope.KEYWORD, Scope.WORD, Scope.MARKER))
    written = "" if word is None else document.text[slice(*word)].upper()
    about = WORDS.get(written) or WORDS.get(f"@{written}")
    if document.tree is not None:
        from callsheet.views.editor.blocks import about_word  # noqa: PLC0415 - only for texts with blocks

        about = about_word(written.removeprefix("?").removeprefix("@")) or about
    return None if word is None or about is None else Hover(about, word)


def _word_at(document: PlanDocument, offset: int, scopes: tuple[Scope, ...]) -> Span | None:
    """Returns the word at an offset; in LTP text, only one with a scope in `scopes`."""
    if document.syntax is Syntax.LTP:
        pieces = (p for p in scan(document.text) if p.span.start <= offset <= p.span.end)
        return next((piece.span for piece in pieces if piece.scope in scopes), None)
    text = document.text
    start = text.rfind("\n", 0, offset) + 1
    end = text.find("\n", offset)
    words = _WORD.finditer(text, start, len(text) if end < 0 else end)
    return next((Span(*m.span()) for m in words if m.start() <= offset <= m.end()), None)
