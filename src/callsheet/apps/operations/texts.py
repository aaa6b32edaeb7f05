"""Operations on the text of a plan, without tools: parse, format, convert, draw; and the pages of codes.

In: a text that was read. Out: a result with its form as data (`to_json`). Nothing is run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Literal, NotRequired, TypedDict, cast

from callsheet.apps.operations.reading import PlanText
from callsheet.apps.operations.schema import (
    Count,
    DiagnosticRow,
    Object,
    Ok,
    PlanHash,
    SyntaxWord,
    diagnostic_rows,
)
from callsheet.diagnostics import CODES, CallsheetError, Diagnostic, Severity, meant
from callsheet.diagnostics import explain as page_of
from callsheet.frontends.spelling import OUTSIDE_CODES, Syntax, convert_to, format_as
from callsheet.ir import Plan, Step, plan_hash, plan_to_json
from callsheet.lazy import dataclass

if TYPE_CHECKING:
    from callsheet.frontends.dag.convert import Parameters

# ---------------------------------------------------------------- parsing


class StepRow(TypedDict):
    """A step of a plan."""

    id: str
    title: str | None
    does: Annotated[str, "the action on one line"]
    when: Annotated[str | None, "the loop and the condition of the step"]
    sets: Annotated[str | None, "the variable that the result is stored in"]
    on_fail: Annotated[str | None, "how a failure is handled"]
    group: Annotated[Count | None, "the number of the parallel group"]
    depends_on: Annotated[list[str] | None, "the ids of steps that it depends on, in a graph"]


class ParseResult(TypedDict):
    """A text and the plan in it."""

    ok: Ok
    syntax: SyntaxWord
    title: NotRequired[str | None]
    goal: NotRequired[str | None]
    plan_hash: NotRequired[PlanHash]
    steps: NotRequired[list[StepRow]]
    plan: NotRequired[Annotated[Object, "the plan in canonical JSON"]]
    diagnostics: list[DiagnosticRow]


@dataclass(frozen=True, slots=True)
class Parsed:
    """A text and the plan in it, if there is one."""

    text: PlanText

    @property
    def ok(self) -> bool:
        """Whether the text is a plan."""
        return self.text.plan is not None

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """The diagnostics of the text: errors, and deviations in spelling."""
        return self.text.diagnostics

    def to_json(self) -> ParseResult:
        """The plan as data: title, steps, canonical JSON, diagnostics."""
        rows, plan = diagnostic_rows(self.diagnostics, self.text.source), self.text.plan
        if plan is None:
            return {"ok": False, "syntax": syntax_name(self.text), "diagnostics": rows}
        return {
            "ok": True,
            "syntax": syntax_name(self.text),
            "title": plan.title,
            "goal": plan.goal,
            "plan_hash": plan_hash(plan),
            "steps": [step_row(step) for step in plan.steps],
            "plan": dict(plan_to_json(plan)),
            "diagnostics": rows,
        }


def parse_text(text: PlanText) -> Parsed:
    """Parse a text as a plan.

    >>> from callsheet.apps.operations.reading import plan_text
    >>> parsed = parse_text(plan_text('search "tea" > hits'))
    >>> parsed.ok, parsed.to_json()["steps"][0]["does"]
    (True, '@WEB_SEARCH (query="tea")')
    """
    return Parsed(text)


def syntax_name(text: PlanText) -> str | None:
    """The syntax of a text: `ltp`, `micro`, `dag`, or `json` for the canonical form."""
    if text.is_json:
        return "json"
    return None if text.syntax is None else str(text.syntax)


def step_row(step: Step) -> StepRow:
    """A step as a row of a list: its id, what it does, when, and what it sets."""
    from callsheet.views.describe import describe_action, describe_failure, describe_guard  # noqa: PLC0415 - only for steps

    return {
        "id": step.id,
        "title": step.title,
        "does": describe_action(step.action),
        "when": describe_guard(step) or None,
        "sets": None if step.output is None else step.output.var,
        "on_fail": None if step.on_fail is None else describe_failure(step.on_fail),
        "group": step.group,
        "depends_on": None if step.depends_on is None else list(step.depends_on),
    }


# ---------------------------------------------------------------- formatting


class FormatResult(TypedDict):
    """A plan in its canonical form or in another syntax."""

    ok: Ok
    text: Annotated[str | None, "the plan in canonical form"]
    syntax: SyntaxWord
    changed: Annotated[bool, "whether the text differs from the input"]
    diagnostics: list[DiagnosticRow]


@dataclass(frozen=True, slots=True)
class Formatted:
    """A text and its formatted version; `formatted` is None if `diagnostics` say why not.

    `syntax` is the syntax of the formatted text.
    """

    text: PlanText
    formatted: str | None
    syntax: Syntax | None
    diagnostics: tuple[Diagnostic, ...]

    @property
    def ok(self) -> bool:
        """Whether there is a formatted text."""
        return self.formatted is not None

    @property
    def is_changed(self) -> bool:
        """Whether the formatted text differs from the original."""
        return self.formatted is not None and self.formatted != self.text.source.text

    def require(self) -> str:
        """The formatted text; raises CallsheetError with the errors if there is none."""
        if self.formatted is None:
            raise CallsheetError(self.diagnostics, self.text.source)
        return self.formatted

    def to_json(self, *, named: bool = False) -> FormatResult:
        """The formatted text and the diagnostics, as data; `named` as in `diagnostic_rows`."""
        return {
            "ok": self.ok,
            "text": self.formatted,
            "syntax": syntax_name(self.text) if self.syntax is None else str(self.syntax),
            "changed": self.is_changed,
            "diagnostics": diagnostic_rows(self.diagnostics, self.text.source, named=named),
        }


def format_text(text: PlanText, *, keeps_all: bool = False) -> Formatted:
    """A text in the canonical form of its syntax.

    Prose around the plan is left out with a diagnostic; with `keeps_all`, for formatting in place, such a
    text is not formatted at all. A Python plan stays as it is: formatters of Python do that. A plan in
    canonical JSON is refused (CFG010): that form is for programs.

    >>> from callsheet.apps.operations.reading import plan_text
    >>> print(format_text(plan_text("search  'tea' >hits")).formatted, end="")
    search "tea" > hits
    """
    if text.is_json:
        raise CallsheetError.single(
            "CFG010",
            f"{text.source.name} is a plan in canonical JSON, which fmt does not format",
            help="--to ltp prints it as LTP text, --to micro as Micro-CLI, --to dag as a JSON plan",
        )
    if text.plan is None or text.syntax is None:
        return Formatted(text, None, None, tuple(d for d in text.diagnostics if d.is_error))
    if text.syntax is Syntax.PYTHON:  # printed from its plan it would lose comments and layout
        return Formatted(text, text.source.text, text.syntax, ())
    outside = tuple(d for d in text.diagnostics if d.code in OUTSIDE_CODES)
    if keeps_all and outside:
        hint = "write it as comments (# …) or remove it: fmt would remove it"
        lost = tuple(replace(d, severity=Severity.ERROR, help=hint) for d in outside)
        return Formatted(text, None, None, lost)
    try:
        return Formatted(text, format_as(text.syntax, text.plan), text.syntax, outside)
    except CallsheetError as error:
        return Formatted(text, None, None, error.diagnostics)


def upgrade_text(text: PlanText) -> Formatted:
    """A plan of version 1 in version 2, with the same meaning; one of version 2 stays as it is.

    Comments stay, and others say what was added; text around the plan would be lost, and is an error. A
    JSON plan stays JSON, any other becomes LTP text. A plan that no blocks can say has LTP072.
    """
    if text.plan is None or text.plan.tree is not None:
        same = None if text.plan is None else text.source.text
        return Formatted(text, same, text.syntax, tuple(d for d in text.diagnostics if d.is_error))
    outside = [d for d in text.diagnostics if d.code in OUTSIDE_CODES]
    if outside:
        hint = "write it as comments (# …) or remove it: it has no place in a plan of version 2"
        lost = tuple(replace(d, severity=Severity.ERROR, help=hint) for d in outside)
        return Formatted(text, None, None, lost)
    from callsheet.frontends.upgrade import upgraded  # noqa: PLC0415 - for this command only

    target = Syntax.DAG if text.syntax is Syntax.DAG else Syntax.LTP
    try:
        return Formatted(text, format_as(target, upgraded(text.plan, text.source)), target, ())
    except CallsheetError as error:
        return Formatted(text, None, None, error.diagnostics)


def convert_text(
    text: PlanText, target: Syntax, parameters: Callable[[Plan], Parameters] | None = None
) -> Formatted:
    """A text in another syntax, with diagnostics about the conversion.

    A JSON plan names every argument: `parameters` gives the names for positional ones, and is called only if
    there are any.
    """
    if text.plan is None:
        return Formatted(text, None, None, tuple(d for d in text.diagnostics if d.is_error))
    needed = parameters is not None and target is Syntax.DAG and _has_nameless(text.plan)
    named = parameters(text.plan) if needed and parameters is not None else None
    try:
        formatted, notes = convert_to(target, text.plan, named)
    except CallsheetError as error:
        return Formatted(text, None, None, tuple(d for d in error.diagnostics if d.is_error))
    outside = (d for d in text.diagnostics if d.code in OUTSIDE_CODES)
    return Formatted(text, formatted, target, (*outside, *notes))


def _has_nameless(plan: Plan) -> bool:
    return any(step.call is not None and step.call.positional for step in plan.steps)


# ---------------------------------------------------------------- drawing


class DrawingFormat(StrEnum):
    """The format of a drawing."""

    TERMINAL = "terminal"
    MERMAID = "mermaid"
    GRAPH = "graph"
    """Steps and edges with coordinates, as data."""
    HTML = "html"
    """The graph as a page."""


DrawingWord = Literal["mermaid", "terminal", "graph", "html"]


class DrawingResult(TypedDict):
    """A drawing of a plan."""

    ok: Ok
    format: DrawingWord
    graph: Annotated[str, "the drawing"]
    plan: NotRequired[Annotated[Object, "steps and arrows with their positions, for the format graph"]]
    diagnostics: list[DiagnosticRow]


@dataclass(frozen=True, slots=True)
class Drawing:
    """A text and the drawing of its plan."""

    text: PlanText
    shape: DrawingFormat
    drawn: str
    graph: Object | None = None

    @property
    def fenced(self) -> str:
        """The drawing in a Markdown code fence, as the documented `visualize_plan` returns it."""
        language = "mermaid" if self.shape is DrawingFormat.MERMAID else "text"
        return f"```{language}\n{self.drawn.rstrip()}\n```"

    def to_json(self) -> DrawingResult:
        """The drawing as data."""
        rows = diagnostic_rows(self.text.diagnostics, self.text.source)
        shape = cast("DrawingWord", str(self.shape))
        data: DrawingResult = {"ok": True, "format": shape, "graph": self.drawn, "diagnostics": rows}
        if self.graph is not None:
            data["plan"] = self.graph
        return data


def draw(
    text: PlanText, shape: DrawingFormat = DrawingFormat.MERMAID, *, ansi: bool = False, columns: int = 120
) -> Drawing:
    """Draw the plan of a text; tools are not checked.

    `ansi` and `columns` apply to terminal drawings. Raises CallsheetError with all errors of an invalid text.

    >>> from callsheet.apps.operations.reading import plan_text
    >>> print(draw(plan_text("respond 1")).drawn.splitlines()[0])
    graph TD
    """
    plan = text.require()
    if shape is DrawingFormat.MERMAID:
        from callsheet.views.mermaid import mermaid  # noqa: PLC0415 - one of several

        return Drawing(text, shape, mermaid(plan))
    if shape is DrawingFormat.GRAPH:
        from callsheet.views.lanes import sketch  # noqa: PLC0415 - one of several

        return Drawing(text, shape, "", sketch(plan))
    if shape is DrawingFormat.HTML:
        from callsheet.runtime.reporting import sketch_page  # noqa: PLC0415 - brings the viewer
        from callsheet.views.lanes import sketch  # noqa: PLC0415 - as above

        return Drawing(text, shape, sketch_page(sketch(plan), plan.title or plan.goal or text.source.name))
    from callsheet.views.terminal import terminal_graph  # noqa: PLC0415 - one of several

    return Drawing(text, shape, terminal_graph(plan, ansi=ansi, columns=columns))


# ---------------------------------------------------------------- the pages of codes


class CodePage(TypedDict):
    """The page of a diagnostic code or of an LCTL rule."""

    code: str
    title: str
    page: Annotated[str, "Markdown"]


def explain_code(code: str) -> CodePage:
    """The page of a code, case-insensitive; raises CallsheetError (CFG015) if there is none.

    >>> explain_code("ltp012")["title"]
    'an unknown action'
    """
    page, entry = page_of(code), CODES.get(code.upper())
    if page is not None and entry is not None:
        return {"code": entry.name, "title": entry.title, "page": page}
    from callsheet.trace.lctl.findings import rule_page  # noqa: PLC0415 - for rules of LCTL alone
    from callsheet.trace.lctl.rules.table import RULES  # noqa: PLC0415 - as above

    rule = RULES.get(code.upper())
    if rule is not None:
        return {"code": rule.id, "title": rule.title, "page": rule_page(rule)}
    hint = meant(code, CODES, "codes look like LTP012, CHK001, CFG110")
    raise CallsheetError.single("CFG015", f"there is no diagnostic code {code[:40]!r}", help=hint)
