"""What an editor shows of the text of a plan: findings, colours, hints, proposals, explanations, names.

In: a text that is being edited, an offset in it, and what plans are checked against. Out: an analysis, which
the language server and the web viewer share, and its parts as data. Nothing is run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, NotRequired, TypedDict

from callsheet.api.checking import NO_PROVIDERS, Providers, check_plan, check_readable, idle_inputs
from callsheet.api.proving import Assumptions, Proof, prove
from callsheet.api.requirements import absent_tools, facts_of, wrong_tools
from callsheet.apps.equipment import guarantees_of
from callsheet.apps.operations.checking import Checked, CheckRow
from callsheet.apps.operations.reading import PlanText
from callsheet.apps.operations.schema import (
    Count,
    DiagnosticRow,
    EditRow,
    FixRow,
    SyntaxWord,
    diagnostic_rows,
    fix_row,
)
from callsheet.apps.operations.texts import syntax_name
from callsheet.apps.setup import Setup
from callsheet.apps.toolbox import DeclaredTools
from callsheet.diagnostics import CallsheetError, Diagnostic, Span
from callsheet.frontends.spelling import Syntax
from callsheet.ir import Plan, canonical_tool_name
from callsheet.machine.ahead.waits import StepSchedule, schedule_of
from callsheet.machine.questions import needs_approval
from callsheet.passes.verify import StepLabels
from callsheet.policy.model import Policy
from callsheet.ports.tools import Registry, ToolSpec
from callsheet.views.editor.annotations import Token, hints_in, tokens
from callsheet.views.editor.completion import proposals_at
from callsheet.views.editor.document import PlanDocument
from callsheet.views.editor.edits import repairs_of
from callsheet.views.editor.hover import hover_at
from callsheet.views.editor.knowledge import Knowledge
from callsheet.views.editor.occurrences import definitions_at, references_at, renamable_at, rename
from callsheet.views.editor.python import open_python, own_tools


@dataclass(frozen=True, slots=True)
class Tools:
    """A registry, and a phrase for the servers that were not queried, if any."""

    registry: Registry
    not_queried: str | None = None

    def not_queried_for(self, plan: Plan, setup: Setup) -> str | None:
        """The phrase for servers that were not queried, if a tool of the plan is not in the registry."""
        return self.not_queried if absent_tools(plan, self.registry, setup.agents) else None


def tools_of(declared: DeclaredTools) -> Tools:
    """The tools that are known without a server. Raises CallsheetError for a file that cannot be loaded."""
    from callsheet.ports.mcp.discovery import discover  # noqa: PLC0415 - brings the servers' client

    if declared.catalogue is not None:
        return Tools(declared.known(), declared.catalogue.not_asked)
    files = [*(declared.setup.mcp_configs or discover(declared.setup.project))]
    return Tools(declared.local, f"a server of {files[0]}" if files else None)


@dataclass(frozen=True, slots=True)
class AnalysisContext:
    """What plans are checked against: tools, a policy, the names of the `inputs` of runs."""

    setup: Setup
    tools: Tools
    policy: Policy | None = None
    inputs: tuple[str, ...] = ()
    providers: Providers = NO_PROVIDERS


@dataclass(frozen=True, slots=True)
class Analysis:
    """The result of analysing a document."""

    diagnostics: tuple[Diagnostic, ...]
    knowledge: Knowledge = field(default_factory=Knowledge)


def analyse(document: PlanDocument, context: AnalysisContext) -> Analysis:
    """Check a plan like `callsheet check` and, under a policy, `callsheet verify`."""
    registry = context.tools.registry
    specs = {name: tool.spec for name, tool in zip(registry.names(), registry, strict=True)}
    plan = document.plan
    if plan is None:
        unparsed_text = "\n".join(document.text[slice(*span)] for span in document.lost)
        not_asked = context.tools.not_queried_for(document.partial, context.setup)
        more = check_readable(document.partial, unparsed_text, registry, not_asked=not_asked)
        return Analysis((*document.diagnostics, *more), Knowledge(specs))
    if document.syntax is Syntax.PYTHON:
        return _python(document, context, specs)
    found = (*document.diagnostics, *_checked(plan, context))
    proof = _proved(plan, context)
    schedule = {} if plan.tree is not None else _schedule(plan, context)
    if proof is None:
        return Analysis(found, Knowledge(specs, {}, schedule))
    labels = {known.step: known for known in proof.steps}
    return Analysis((*found, *proof.diagnostics), Knowledge(specs, labels, schedule, proof.policy.name))


def _python(document: PlanDocument, context: AnalysisContext, specs: Mapping[str, ToolSpec]) -> Analysis:
    """The findings of each plan of a Python file; the tools that the file itself declares are known to it."""
    own = own_tools(document.text)
    found = list(document.diagnostics)
    labels: dict[str, StepLabels] = {}
    for plan in document.plans:
        found += [one for one in _checked(plan, context) if not _is_about(one, own)]
        proof = _proved(plan, context)
        if proof is not None:
            found += [one for one in proof.diagnostics if not _is_about(one, own)]
            labels |= {known.step: known for known in proof.steps}
    policy = "" if context.policy is None else context.policy.name
    return Analysis(tuple(dict.fromkeys(found)), Knowledge(specs, labels, {}, policy))


def _is_about(diagnostic: Diagnostic, tools: Collection[str]) -> bool:
    """Whether a finding is that one of these tools is not known, in the words of LTP or of Python."""
    words = {*diagnostic.message.split()}
    return diagnostic.code in _UNKNOWN and any(
        not words.isdisjoint((f"@{one}", one.lower())) for one in tools
    )


_UNKNOWN = frozenset({"CHK040", "POL101"})


def _checked(plan: Plan, context: AnalysisContext) -> tuple[Diagnostic, ...]:
    """What is found in a plan, or that it cannot be checked."""
    registry, setup, inputs = context.tools.registry, context.setup, context.inputs
    not_asked = context.tools.not_queried_for(plan, setup)
    try:
        found = check_plan(plan, registry, inputs, not_asked=not_asked, providers=context.providers)
        more = wrong_tools(plan, registry, setup.agents, not_asked=not_asked)
        return (*found, *idle_inputs(plan, inputs), *more)
    except CallsheetError as error:
        return error.diagnostics


def _proved(plan: Plan, context: AnalysisContext) -> Proof | None:
    if context.policy is None:
        return None
    registry = context.tools.registry
    proof = prove(plan, context.policy, registry, Assumptions(inputs=context.inputs))
    return proof.under(guarantees_of(context.setup, registry))


def _schedule(plan: Plan, context: AnalysisContext) -> dict[str, StepSchedule]:
    """What each step waits for; empty for an invalid graph, which the checks report."""
    approvals = tuple(map(canonical_tool_name, context.setup.settings.approve))
    try:
        facts = facts_of(plan, context.tools.registry)
        schedule = schedule_of(plan, facts, lambda tool, step: needs_approval(approvals, tool, step))
        return {s.step: s for s in schedule}
    except CallsheetError:
        return {}


# ---------------------------------------------------------------- as data


class FindingRow(DiagnosticRow):
    """An error, a warning or a hint, with all fixes that an editor offers."""

    fixes: list[FixRow]


class HintRow(TypedDict):
    """A short text that is shown behind a place of the plan."""

    at: Count
    text: str
    tip: Annotated[str, "what it means"]


class MarksResult(CheckRow):
    """The verdict on a plan, and what an editor shows in and beside its text. Offsets count characters."""

    syntax: SyntaxWord
    diagnostics: list[FindingRow]
    kinds: Annotated[list[str], "the kinds of tokens, each with its modifiers"]
    tokens: Annotated[list[Any], "three numbers each: from the last start to this one, length, kind"]
    hints: list[HintRow]


@dataclass(frozen=True, slots=True)
class Marks:
    """A text with all that an editor shows of it."""

    text: PlanText
    document: PlanDocument
    analysis: Analysis

    def to_json(self) -> MarksResult:
        """The findings, tokens and hints as data."""
        found, known = self.analysis.diagnostics, self.analysis.knowledge
        kinds, numbers = _token_numbers(tokens(self.document, known))
        rows: list[FindingRow] = []
        for row, one in zip(diagnostic_rows(found, self.text.source), found, strict=True):
            rows.append({**row, "fixes": [fix_row(fix) for fix in repairs_of(self.document, one, known)]})
        return {
            **Checked(self.text, found).row(),
            "syntax": syntax_name(self.text),
            "diagnostics": rows,
            "kinds": kinds,
            "tokens": numbers,
            "hints": [
                {"at": one.offset, "text": one.text, "tip": one.tip} for one in hints_in(self.document, known)
            ],
        }


def _token_numbers(found: Iterable[Token]) -> tuple[list[str], list[int]]:
    kinds: dict[str, int] = {}
    numbers: list[int] = []
    before = 0
    for (start, end), kind, modifiers in found:
        numbers += (start - before, end - start, kinds.setdefault(" ".join((kind, *modifiers)), len(kinds)))
        before = start
    return [*kinds], numbers


def document_of(text: PlanText, inputs: tuple[str, ...] = ()) -> PlanDocument:
    """The document of a text that was read; one in no syntax is LTP text.

    >>> from callsheet.apps.operations.reading import plan_text
    >>> str(document_of(plan_text("read 'a.txt' > a")).syntax)
    'micro'
    """
    partial = text.partial or text.plan or Plan(())
    syntax = text.syntax or (Syntax.DAG if text.is_json else Syntax.LTP)
    tree = partial.tree if syntax is Syntax.LTP else None
    steps = Plan(()) if partial.tree is not None else partial
    plans = (text.plan,) if syntax is Syntax.PYTHON and text.plan is not None else ()
    return PlanDocument(
        text.source, syntax, text.plan, steps, text.diagnostics, text.lost, inputs, tree, plans
    )


def marks_of(text: PlanText, context: AnalysisContext) -> Marks:
    """All that an editor shows of a text."""
    document = document_of(text, context.inputs)
    return Marks(text, document, analyse(document, context))


class ProposalRow(TypedDict):
    """A text that may be put in place of a span."""

    label: str
    sort: Annotated[str, "tool, argument, variable, step, word, value, type or function"]
    insert: str
    snippet: NotRequired[Annotated[str, "the same with the tab stops of LSP snippets"]]
    start: Count
    end: Count
    detail: NotRequired[Annotated[str, "what is shown beside the label"]]
    about: NotRequired[Annotated[str, "Markdown"]]


class CompletionResult(TypedDict):
    """What may stand at a place of a text, in the order in which it is shown."""

    proposals: list[ProposalRow]


def complete(text: PlanText, at: int, context: AnalysisContext) -> CompletionResult:
    """What may stand at an offset; the plan is not checked."""
    registry = context.tools.registry
    specs = {name: tool.spec for name, tool in zip(registry.names(), registry, strict=True)}
    found = proposals_at(document_of(text, context.inputs), min(at, len(text.source.text)), Knowledge(specs))
    rows: list[ProposalRow] = []
    for one in found:
        row: ProposalRow = {
            "label": one.label,
            "sort": str(one.sort),
            "insert": one.insert,
            "start": one.span.start,
            "end": one.span.end,
        }
        if one.snippet:
            row["snippet"] = one.snippet
        if one.detail:
            row["detail"] = one.detail
        if one.about:
            row["about"] = one.about
        rows.append(row)
    return {"proposals": rows}


class HoverResult(TypedDict):
    """What is known of the word at a place of a text, if anything is."""

    about: NotRequired[Annotated[str, "Markdown"]]
    start: NotRequired[Count]
    end: NotRequired[Count]


def explain_at(text: PlanText, at: int, context: AnalysisContext) -> HoverResult:
    """What is known of the word at an offset."""
    document = document_of(text, context.inputs)
    found = hover_at(document, min(at, len(document.text)), analyse(document, context).knowledge)
    if found is None:
        return {}
    return {"about": found.markdown, "start": found.span.start, "end": found.span.end}


class SpanRow(TypedDict):
    """A part of the text."""

    start: Count
    end: Count


class NameResult(TypedDict):
    """What the name at a place of a text refers to: where it is defined, and all its places."""

    definitions: list[SpanRow]
    places: list[SpanRow]
    name: NotRequired[Annotated[SpanRow, "the name itself, if it can be renamed"]]


def name_at(text: PlanText, at: int) -> NameResult:
    """The definitions and occurrences of the name at an offset; the plan is not checked."""
    document = _opened(text)
    at = min(at, len(document.text))
    found: NameResult = {
        "definitions": [_span(span) for span in definitions_at(document, at)],
        "places": [_span(one.span) for one in references_at(document, at)],
    }
    own = renamable_at(document, at)
    return found if own is None else {**found, "name": _span(own)}


class RenameResult(TypedDict):
    """The edits that rename what stands at a place of a text."""

    edits: list[EditRow]
    why: NotRequired[Annotated[str, "why there are none"]]


def renamed(text: PlanText, at: int, name: str) -> RenameResult:
    """The edits for another name, or why it cannot be: it is no name, or it is taken."""
    document = _opened(text)
    try:
        edits = rename(document, min(at, len(document.text)), name)
    except CallsheetError as error:
        wrong = error.diagnostics[0]
        return {"edits": [], "why": f"{wrong.message}{f': {wrong.help}' if wrong.help else ''}"}
    return {"edits": [{"start": e.span.start, "end": e.span.end, "text": e.text} for e in edits]}


def _opened(text: PlanText) -> PlanDocument:
    """The document as an editor has it, with all plans of a Python file."""
    if text.syntax is Syntax.PYTHON:
        return open_python(text.source.text, text.source.name)
    return document_of(text)


def _span(span: Span) -> SpanRow:
    return {"start": span.start, "end": span.end}
