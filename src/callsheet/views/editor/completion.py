"""Completion at an offset: tools, arguments, variables, ids, keywords, types, query functions.

In: a `PlanDocument`, an offset, knowledge. Out: proposals in display order. An editor filters them by the
text that is already typed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, cast

from callsheet.diagnostics import Span
from callsheet.frontends.micro.verbs import CONTROLS, VERBS
from callsheet.frontends.spelling import Syntax, is_json
from callsheet.frontends.values.reader import NAME
from callsheet.ir import Cast, CompareOp, canonical_tool_name
from callsheet.passes.finding import OPERATIONS
from callsheet.views.editor import knowledge
from callsheet.views.editor.document import PlanDocument
from callsheet.views.editor.json_completion import dag_proposals, yaml_proposals
from callsheet.views.editor.knowledge import NOTHING, WORDS, Knowledge
from callsheet.views.editor.occurrences import Kind, Role, occurrences
from callsheet.views.editor.proposals import (
    Context,
    Proposal,
    Sort,
    Where,
    arguments,
    context_at,
    functions,
    option_texts,
    option_values,
    plain,
    variables,
    words,
)

_TEXT = re.compile(r'"(?:[^"\\]|\\.)*("|$)')
_LABEL = re.compile(r"\A[ \t]*(?:[-*•]|\d+[.)]|[Ss]\d+[ \t]*:)?[ \t]*")
_LOOP = re.compile(rf"\A\??[ \t]*foreach\b[ \t]*\(?[ \t]*(?:\$?({NAME}))?(?:[ \t]+in\b)?", re.IGNORECASE)
_GUARD = re.compile(r"\A\?[ \t]*if\b", re.IGNORECASE)
_GUARD_END = re.compile(r"[ \t]:[ \t]|:[ \t]|\bthen[ \t]", re.IGNORECASE)
_HEAD = re.compile(r"\A[@?]?[\w-]*\Z")
_TARGET = re.compile(r"\bgoto[ \t]+([\w-]*)\Z", re.IGNORECASE)
_FAILURE = re.compile(r"\bon_fail[ \t]+(@?\w*)\Z", re.IGNORECASE)
_CAST = re.compile(rf">[ \t]*\$?{NAME}[ \t]*:[ \t]*([A-Za-z]*)\Z")
_OUTPUT = re.compile(rf">[ \t]*\$?(?:{NAME})?\Z")
_REFERENCE = re.compile(rf"\$\{{?(?:{NAME})?\Z")
_PATH = re.compile(rf"\$?\{{?{NAME}[.\[][\w.\[\]]*\Z")
_GIVEN = re.compile(rf"(?<!\S)({NAME})=")
_WORD = re.compile(r"[A-Za-z_]\w*\Z")


def micro_proposals(document: PlanDocument, offset: int, known: Knowledge) -> tuple[Proposal, ...]:
    """Returns the proposals at an offset of Micro-CLI.

    >>> from callsheet.views.editor.document import open_document
    >>> from callsheet.frontends.spelling import Syntax
    >>> from callsheet.views.editor.knowledge import NOTHING
    >>> document = open_document('read "a" > a\\nsummarize $', syntax=Syntax.MICRO)
    >>> [p.insert for p in micro_proposals(document, len(document.text), NOTHING)]
    ['$a']
    """
    start = document.text.rfind("\n", 0, offset) + 1
    line = document.text[start:offset]
    head = _LABEL.match(line)
    begin = 0 if head is None else head.end()
    if line[begin:].startswith("#"):
        return ()
    hidden = _TEXT.sub(lambda match: "x" * len(match[0]), line)
    texts = [*_TEXT.finditer(line)]
    in_text = bool(texts) and texts[-1].end() == len(line) and not texts[-1][1]
    proposals = _Line(document, known, start, offset, line, hidden, begin).proposals(in_text=in_text)
    return tuple(proposals)


class _Line:
    """One line up to the cursor; in `hidden` strings are masked, `begin` is the start of the command."""

    def __init__(
        self,
        document: PlanDocument,
        known: Knowledge,
        start: int,
        offset: int,
        line: str,
        hidden: str,
        begin: int,
    ) -> None:
        self._document, self._known = document, known
        self._start, self._offset, self._line = start, offset, line
        self._loop = ""
        self._rest = self._behind_guards(hidden[begin:])

    def _behind_guards(self, rest: str) -> str:
        """Returns the command after its guards, or the text from an unfinished guard on."""
        while True:
            loop = _LOOP.match(rest)
            if loop is None and _GUARD.match(rest) is None:
                return rest
            if loop is not None:
                self._loop = loop[1] or ""
            end = _GUARD_END.search(rest, 0 if loop is None else loop.end())
            if end is None:
                return rest
            rest = rest[end.end() :].lstrip()

    def _context(
        self, where: Where, typed: int, tool: str = "", argument: str = "", place: int = 0
    ) -> Context:
        given = tuple(_GIVEN.findall(self._rest))
        span = Span(self._start + typed, self._offset)
        return Context(where, span, tool, argument, place, given, self._loop, self._start)

    def proposals(self, *, in_text: bool) -> Iterator[Proposal]:
        """Yields the proposals at the end of the line."""
        rest, line = self._rest, self._line
        reference = _REFERENCE.search(line)
        is_output = not in_text and _OUTPUT.search(rest) is not None
        if reference is not None and not is_output:
            yield from variables(
                self._document, self._context(Where.REFERENCE, reference.start()), self._known
            )
            return
        tool, place = self._call()
        if in_text:
            word = _WORD.search(line)
            at = len(line) if word is None else word.start()
            yield from functions(self._context(Where.TEXT, at, tool, self._argument(), place))
            return
        if _LOOP.match(rest) or _GUARD.match(rest):
            yield from self._guarded()
            return
        for pattern, propose in ((_CAST, self._casts), (_TARGET, self._targets), (_FAILURE, self._failures)):
            match = pattern.search(rest)
            if match is not None:
                yield from propose(len(line) - len(match[1]))
                return
        if is_output or _PATH.search(rest):
            return
        if _HEAD.match(rest):
            yield from self._beginnings(len(line) - len(rest))
            return
        yield from self._arguments(tool, place)

    def _call(self) -> tuple[str, int]:
        """Returns the tool of the command, and the number of positional values before the cursor."""
        verb, *values = self._rest.split() or [""]
        word = verb.lower()
        tool = VERBS[word].tool if word in VERBS else canonical_tool_name(verb.removeprefix("@"))
        is_open = bool(values) and not self._rest[-1:].isspace()
        named = sum(_GIVEN.match(value) is not None for value in values)
        return tool, max(0, len(values) - named - int(is_open))

    def _argument(self) -> str:
        names = re.findall(rf"(?<!\S)({NAME})=x*\Z", self._rest)
        return names[-1] if names else ""

    def _guarded(self) -> Iterator[Proposal]:
        word = _WORD.search(self._line)
        context = self._context(Where.CONDITION, len(self._line) if word is None else word.start())
        yield from variables(self._document, context, self._known)
        if _GUARD.match(self._rest):
            yield from words(context, ("empty", "notempty", "not", "and", "or"))
            yield from (plain(context, str(op), Sort.WORD) for op in CompareOp)
        else:
            yield from words(context, ("in",), " ")

    def _casts(self, at: int) -> Iterator[Proposal]:
        yield from (plain(self._context(Where.CAST, at), str(kind), Sort.TYPE) for kind in Cast)

    def _targets(self, at: int) -> Iterator[Proposal]:
        for step in self._document.steps:
            yield plain(self._context(Where.TARGET, at), step.id, Sort.STEP, step.title or "")

    def _failures(self, at: int) -> Iterator[Proposal]:
        context = self._context(Where.FAILURE, at)
        yield Proposal("retry", Sort.WORD, "retry 3", context.typed, "", WORDS["@RETRY"], "retry ${1:3}$0")
        yield Proposal("goto", Sort.WORD, "goto ", context.typed, "", WORDS["GOTO"])
        yield Proposal(
            "terminate", Sort.WORD, "terminate ", context.typed, "", WORDS["TERMINATE"], 'terminate "$1"$0'
        )

    def _beginnings(self, at: int) -> Iterator[Proposal]:
        context = self._context(Where.START, at)
        if not self._line[at:].startswith("@"):
            for word, verb in VERBS.items():
                spec = self._known.tools.get(verb.tool)
                about = knowledge.markdown(verb.tool, spec)
                yield Proposal(word, Sort.TOOL, f"{word} ", context.typed, verb.usage, about)
            yield from words(context, CONTROLS, " ")
            yield Proposal("?if", Sort.WORD, "?if ", context.typed, "a condition", WORDS["?IF"])
            yield Proposal("foreach", Sort.WORD, "foreach ", context.typed, "once for each item")
        usual = {verb.tool for verb in VERBS.values()}
        for name, spec in sorted(self._known.tools.items()):
            if spec.refusal is None and name not in usual:
                lower = name.lower()
                called = lower if "_" in lower and "@" not in self._line[at:] else f"@{lower}"
                about = knowledge.markdown(name, spec)
                detail = knowledge.summary(name, spec)
                yield Proposal(called, Sort.TOOL, f"{called} ", context.typed, detail, about)

    def _arguments(self, tool: str, place: int) -> Iterator[Proposal]:
        word = _WORD.search(self._rest)
        at = len(self._line) - (0 if word is None else len(word[0]))
        named = re.search(rf"(?<!\S)({NAME})=\w*\Z", self._rest)
        if named is not None:
            yield from option_values(self._context(Where.VALUE, at, tool, named[1]), self._known)
        elif tool in self._known.tools or tool in OPERATIONS:
            yield from arguments(self._context(Where.ARGUMENT, at, tool, place=place), self._known)
        yield from variables(self._document, self._context(Where.ARGUMENT, at), self._known)


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
        case Syntax.PYTHON:
            from callsheet.views.editor.python import proposals_in_python  # noqa: PLC0415 - only for Python plans

            return proposals_in_python(document, offset, known)
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
    if document.tree is not None:
        yield from _of_blocks(context, known)
        return
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


def _of_blocks(context: Context, known: Knowledge) -> Iterator[Proposal]:
    """The statements of a text with blocks."""
    from callsheet.views.editor import blocks  # noqa: PLC0415 - only for texts with blocks

    for word, known_word in blocks.WORDS.items():
        about = f"`{known_word.form}`: {known_word.about}."
        yield Proposal(word, Sort.WORD, word, context.typed, known_word.about, about, known_word.snippet)
    yield from _tools(context, known)


def _actions(context: Context, known: Knowledge) -> Iterator[Proposal]:
    yield from _tools(context, known)
    for word in ("@RESPOND", "TERMINATE", "RE-PLAN"):
        yield Proposal(word, Sort.WORD, f"{word} (", context.typed, "", WORDS[word], f"{word} ($1)$0")
    yield Proposal("GOTO", Sort.WORD, "GOTO ", context.typed, "", WORDS["GOTO"])


def _tools(context: Context, known: Knowledge) -> Iterator[Proposal]:
    for name, spec in sorted(known.tools.items()):
        if spec.refusal is None:
            yield _tool(context, name, known)
    for name in sorted(OPERATIONS):
        if name not in known.tools:
            yield _tool(context, name, known)


def _tool(context: Context, name: str, known: Knowledge) -> Proposal:
    spec = known.tools.get(name)
    needed = [p for p in knowledge.parameters_of(name, spec) if p.is_required]
    stops = (f"{_escaped(p.name)}={_tab_stop(n, p.schema)}" for n, p in enumerate(needed, 1))
    filled = ", ".join(stops)
    snippet = f"@{_escaped(name)} ({filled})$0" if filled else f"@{_escaped(name)} ($0)"
    about = knowledge.markdown(name, spec)
    return Proposal(
        f"@{name}", Sort.TOOL, f"@{name} (", context.typed, knowledge.summary(name, spec), about, snippet
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
