"""Completion at an offset: tools, arguments, variables, ids, keywords, types, query functions.

In: a `PlanDocument`, an offset, knowledge. Out: proposals in display order. An editor filters them by the
text that is already typed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, cast

from callsheet.frontends.spelling import Syntax, is_json
from callsheet.ir import Cast, CompareOp
from callsheet.passes.signatures import OPERATIONS
from callsheet.views.editor import tooltext
from callsheet.views.editor.completing_dag import dag_proposals
from callsheet.views.editor.completing_micro import micro_proposals
from callsheet.views.editor.completing_yaml import yaml_proposals
from callsheet.views.editor.context import Context, Where, context_at
from callsheet.views.editor.document import PlanDocument
from callsheet.views.editor.keywords import WORDS
from callsheet.views.editor.knowledge import NOTHING, Knowledge
from callsheet.views.editor.occurrences import Kind, Role, occurrences
from callsheet.views.editor.proposing import (
    Proposal,
    Sort,
    arguments,
    functions,
    option_texts,
    option_values,
    plain,
    variables,
    words,
)

_ID = re.compile(r"S([0-9]{1,9})")
_LABELLED = re.compile(r"[ \t]*[A-Za-z_][\w-]*[ \t]*:")


def proposals_at(document: PlanDocument, offset: int, known: Knowledge = NOTHING) -> tuple[Proposal, ...]:
    """Returns the proposals at an offset.

    >>> from callsheet.views.editor.document import open_document
    >>> document = open_document("S1: @LLM_EXTRACT ($page, target=1) > $who:json\\nS2: @RESPOND ($")
    >>> [(p.insert, p.detail) for p in proposals_at(document, len(document.text))]
    [('$who', 'JSON value')]
    """
    match document.syntax:
        case Syntax.MICRO:
            return micro_proposals(document, offset, known)
        case Syntax.DAG:
            proposals = dag_proposals if is_json(document.text) else yaml_proposals
            return proposals(document, offset, known)
        case Syntax.LTP:
            return _ltp_proposals(document, offset, known)


def _ltp_proposals(document: PlanDocument, offset: int, known: Knowledge) -> tuple[Proposal, ...]:
    context = context_at(document.text, offset)
    mark = document.text[context.typed.start : context.typed.end][:1]
    proposals = _proposals(document, context, known)
    return tuple(p for p in proposals if mark not in ("@", "?") or p.label.startswith(mark))


def _proposals(document: PlanDocument, context: Context, known: Knowledge) -> Iterator[Proposal]:
    match context.where:
        case Where.START:
            yield from _beginnings(document, context, known)
        case Where.ACTION:
            yield from _actions(context, known)
        case Where.ARGUMENT:
            yield from arguments(context, known)
            yield from variables(document, context, known)
        case Where.VALUE:
            yield from option_values(context, known)
            yield from variables(document, context, known)
        case Where.CONDITION:
            yield from variables(document, context, known)
            yield from words(context, ("IS_EMPTY", "NOT_EMPTY"), "(")
            yield from words(context, ("NOT",), " (")
            yield from (plain(context, str(op), Sort.WORD) for op in CompareOp)
            yield from words(context, ("AND", "OR", "IN", "THEN"))
        case Where.REFERENCE:
            yield from variables(document, context, known)
        case Where.CAST:
            yield from (plain(context, str(kind), Sort.TYPE) for kind in Cast)
        case Where.TARGET:
            yield from _targets(document, context)
        case Where.FAILURE:
            yield from _failures(context)
        case Where.AFTER_ACTION:
            yield from words(context, ("ON_FAIL",))
        case Where.TEXT:
            yield from functions(context)
            yield from option_texts(document.text, context, known)
        case Where.OUTPUT | Where.NOWHERE:
            return


# ---------------------------------------------------------------- steps and actions


def _beginnings(document: PlanDocument, context: Context, known: Knowledge) -> Iterator[Proposal]:
    head = document.text[context.start : context.typed.start]
    if not _LABELLED.match(head):
        number = 1 + max((int(m[1]) for s in document.steps if (m := _ID.fullmatch(s.id))), default=0)
        yield Proposal(f"S{number}:", Sort.STEP, f"S{number}: ", context.typed, "the next step")
        yield Proposal(
            "@PARALLEL", Sort.WORD, "@PARALLEL {\n", context.typed, "steps that run concurrently",
            WORDS["@PARALLEL"], "@PARALLEL {\n  $0\n}",
        )  # fmt: skip
    yield Proposal(
        "?IF", Sort.WORD, "?IF (", context.typed, "a condition", WORDS["?IF"], "?IF (${1:condition}) THEN $0"
    )
    yield Proposal(
        "?FOREACH", Sort.WORD, "?FOREACH ($", context.typed, "once for each item", WORDS["?FOREACH"],
        "?FOREACH (\\$${1:item} IN \\$${2:list}) THEN $0",
    )  # fmt: skip
    yield from _actions(context, known)


def _actions(context: Context, known: Knowledge) -> Iterator[Proposal]:
    for name, spec in sorted(known.tools.items()):
        if spec.refusal is None:
            yield _tool(context, name, known)
    for name in sorted(OPERATIONS):
        if name not in known.tools:
            yield _tool(context, name, known)
    for word in ("@RESPOND", "TERMINATE", "RE-PLAN"):
        yield Proposal(word, Sort.WORD, f"{word} (", context.typed, "", WORDS[word], f"{word} ($1)$0")
    yield Proposal("GOTO", Sort.WORD, "GOTO ", context.typed, "", WORDS["GOTO"])


def _tool(context: Context, name: str, known: Knowledge) -> Proposal:
    spec = known.tools.get(name)
    needed = [p for p in tooltext.parameters_of(name, spec) if p.is_required]
    stops = (f"{_escaped(p.name)}={_tab_stop(n, p.schema)}" for n, p in enumerate(needed, 1))
    filled = ", ".join(stops)
    snippet = f"@{_escaped(name)} ({filled})$0" if filled else f"@{_escaped(name)} ($0)"
    about = tooltext.markdown(name, spec)
    return Proposal(
        f"@{name}", Sort.TOOL, f"@{name} (", context.typed, tooltext.summary(name, spec), about, snippet
    )


def _tab_stop(number: int, schema: object) -> str:
    """Returns the tab stop of a value in a snippet, in quotes for a string."""
    kind = cast("dict[str, Any]", schema).get("type") if isinstance(schema, dict) else None
    return f'"${number}"' if kind == "string" else f"${number}"


def _escaped(text: str) -> str:
    return re.sub(r"([\\$}])", r"\\\1", text)


def _failures(context: Context) -> Iterator[Proposal]:
    yield Proposal("@RETRY", Sort.WORD, "@RETRY(3)", context.typed, "", WORDS["@RETRY"], "@RETRY(${1:3})$0")
    yield Proposal("GOTO", Sort.WORD, "GOTO ", context.typed, "", WORDS["GOTO"])
    yield Proposal(
        "TERMINATE", Sort.WORD, "TERMINATE (", context.typed, "", WORDS["TERMINATE"], 'TERMINATE ("$1")$0'
    )


def _targets(document: PlanDocument, context: Context) -> Iterator[Proposal]:
    for symbol in dict.fromkeys(
        o.entity.name
        for o in occurrences(document)
        if o.entity.kind is Kind.STEP and o.role is Role.WRITE
    ):  # fmt: skip
        step = document.partial.step(symbol)
        yield plain(context, symbol, Sort.STEP, "" if step is None or step.title is None else step.title)
