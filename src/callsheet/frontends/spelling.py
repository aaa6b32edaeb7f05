"""Detects the syntax of a plan (LTP text, Micro-CLI, JSON or Python) and parses it.

In: a text, and its syntax if that is known. Out: the result of the front end of that syntax. An unknown
syntax is detected from the lines; if they are mixed, the syntax is taken in which the text is a plan.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from callsheet import lazy
from callsheet.diagnostics import Diagnostic, Severity, Span
from callsheet.frontends.ltp import format_plan, parse
from callsheet.frontends.ltp.words import CONTROL_SPELLINGS, is_structured
from callsheet.frontends.values import ParseResult
from callsheet.frontends.values.reader import LABEL
from callsheet.ir import Order, Plan
from callsheet.lazy import dataclass

if TYPE_CHECKING:
    from callsheet.frontends.dag.convert import Parameters

_MOST_LINES = 5_000
"""The number of lines from which the syntax is detected."""

_FRAME = lazy.pattern(r"^[ \t]*(?:#[ \t]*ltp:|PLAN_START\b|PLAN_END\b)", re.MULTILINE)
_WORDS = "|".join(CONTROL_SPELLINGS)
_LTP_LINE = lazy.pattern(
    rf"(?:{LABEL}[ \t]*:(?!:|//)[ \t]*(?=@|\?(?i:IF|FOREACH)\b|(?i:{_WORDS})\b)"
    rf"|@(?!(?i:PARALLEL)\b)\w+[ \t]*\(|\??(?i:IF|FOREACH)\b[^\n]*[ \t)](?i:THEN)\b|(?i:{_WORDS})[ \t]*\()"
)
_NO_MARK = lazy.pattern(r"@\w+[ \t\r]*(?:\{|>|$)")
"""Lines that both syntaxes have."""

OUTSIDE_CODES = frozenset({"LTP005", "LTP103", "MIC102", "DAG012"})
"""The codes for text outside the plan, which its canonical form would lose."""
_LEFT_OUT = frozenset({"LTP005", "LTP103"})
_NO_COMMAND, _WRONG_VERB, _PROSE = "MIC001", "MIC012", "MIC102"
_QUOTE = lazy.pattern(r"[\"']")
_FUNCTION = lazy.pattern(
    r"^(?:async[ \t]+)?def[ \t]+\w+[ \t]*\(|^(?:\w+[ \t]*=[ \t]*)?await[ \t]+[\w.]+\(", re.MULTILINE
)


_MAIN = lazy.pattern(r"^async[ \t]+def[ \t]+main\b", re.MULTILINE)
_MARKED = lazy.pattern(
    r"^[ \t]*@(?:\w+\.)?plan\b[^\n]*\n(?:[ \t]*(?:[@#][^\n]*)?\n){0,99}[ \t]*async[ \t]+def\b", re.MULTILINE
)


class Syntax(StrEnum):
    """A syntax of plans."""

    LTP = "ltp"
    MICRO = "micro"
    DAG = "dag"
    PYTHON = "python"


SYNTAX_NAMES = {
    Syntax.LTP: "LTP text",
    Syntax.MICRO: "Micro-CLI",
    Syntax.DAG: "a JSON plan",
    Syntax.PYTHON: "Python",
}
"""The names of the syntaxes in messages."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The result of parsing a text; `syntax` is None if it is in no syntax (`result` has no steps)."""

    result: ParseResult
    syntax: Syntax | None


class SpellingEvidence(NamedTuple):
    """How many lines only LTP text and only Micro-CLI have, and whether there are LTP's markers."""

    ltp: int
    micro: int
    framed: bool

    @property
    def syntax(self) -> Syntax | None:
        """The syntax that the lines indicate; None if that is not clear."""
        if bool(self.ltp or self.framed) == bool(self.micro):
            return None
        return Syntax.MICRO if self.micro else Syntax.LTP


def read_plan_text(
    text: str,
    name: str = "<plan>",
    syntax: Syntax | None = None,
    *,
    strict: bool = False,
    variables: Iterable[str] = (),
    function: str | None = None,
) -> Reading:
    """Parse a plan in the given or detected syntax.

    `strict` makes spellings that are not canonical errors; `variables` are set before the plan
    runs, so that a bare word of Micro-CLI can name them. `function` is the one of a Python file to take.

    >>> [read_plan_text(text).syntax.value for text in ('S1: @RESPOND ("x")', 'search "x" > hits')]
    ['ltp', 'micro']
    """
    names = tuple(variables)
    if syntax is None and is_json(text):
        syntax = Syntax.DAG
    if syntax is None and is_structured(text):
        syntax = Syntax.LTP
    if syntax is None and is_python(text):
        syntax = Syntax.PYTHON
    if syntax is None:
        look = look_of(text)
        if look.syntax is None:
            return _read_unclear(text, look, name, names, strict=strict)
        syntax = look.syntax
    found = read_as(syntax, text, name, strict=strict, variables=names, function=function)
    return Reading(found, syntax)


def _read_unclear(
    text: str, look: SpellingEvidence, name: str, variables: Sequence[str], *, strict: bool
) -> Reading:
    """Read a text whose look does not tell, and once more strictly, in the spelling that was found."""
    reading = _read_either(text, look, name, variables)
    if not strict or reading.syntax is None:
        return reading
    strictly = read_as(reading.syntax, text, name, strict=True, variables=variables)
    return Reading(strictly, reading.syntax)


def read_as(
    syntax: Syntax,
    text: str,
    name: str,
    *,
    strict: bool = False,
    variables: Iterable[str] = (),
    function: str | None = None,
) -> ParseResult:
    """Parse a text in one syntax; a JSON plan that does not begin like JSON is parsed as YAML."""
    match syntax:
        case Syntax.LTP:
            if is_structured(text):
                from callsheet.frontends.structured import read_structured  # noqa: PLC0415 - as below

                return read_structured(text, name, strict=strict)
            return parse(text, name, strict=strict)
        case Syntax.MICRO:
            from callsheet.frontends.micro import parse_micro  # noqa: PLC0415 - as each plan has one syntax

            return parse_micro(text, name, strict=strict, variables=variables)
        case Syntax.DAG:
            from callsheet.frontends.dag import parse_dag  # noqa: PLC0415 - as above

            return parse_dag(text, name, is_yaml=text.lstrip()[:1] not in ("{", "[", '"', ""))
        case Syntax.PYTHON:
            from callsheet.frontends.python import read_python  # noqa: PLC0415 - as above

            return read_python(text, name, function=function)


def is_json(text: str) -> bool:
    """Whether a text begins like a JSON object, as no line of the other syntaxes does."""
    return text.lstrip()[:1] == "{"


def is_python_plan(text: str) -> bool:
    """Whether a Python file says that it is a plan: it has an `async def main` or a function with `@plan`."""
    return _MAIN.search(text) is not None or has_marked_plan(text)


def has_marked_plan(text: str) -> bool:
    """Whether a Python file has an async function with `@plan`."""
    return _MARKED.search(text) is not None


def is_python(text: str) -> bool:
    """Whether a text has a function of Python, or awaits a call, as no plan in another syntax does.

    >>> is_python("async def main():\\n    return 1"), is_python('search "async def" > x')
    (True, False)
    """
    return ("def" in text or "await" in text) and _FUNCTION.search(text) is not None


def doubts_about(reading: Reading, text: str, by_suffix: Syntax | None = None) -> tuple[Diagnostic, ...]:
    """Diagnostics for a text with errors whose syntax was not named: how it was read (CFG019, CFG020).

    `by_suffix` is the syntax that the suffix of its file means.
    """
    if reading.syntax is None:
        start = len(text) - len(text.lstrip())
        nothing = Diagnostic(
            "CFG019",
            Severity.ERROR,
            "this text is neither LTP text nor Micro-CLI" if text.strip() else "this text is empty",
            Span(start, max(start, (text + "\n").find("\n", start))),
            'a step is written S1: @TOOL (arguments) > $result, a command search "words" > name',
        )
        return (nothing,)
    if reading.syntax is Syntax.PYTHON or (by_suffix is None and look_of(text).framed):
        return ()
    other = Syntax.MICRO if reading.syntax is Syntax.LTP else Syntax.LTP
    read, meant = SYNTAX_NAMES[reading.syntax], SYNTAX_NAMES[other]
    if by_suffix is not None:
        if look_of(text).syntax is not other:
            return ()
        message = f"the file's suffix says {read}, its text looks like {meant}"
    else:
        message = f"this was read as {read}, which it looks like"
    help_ = f"--syntax {other} reads it as {meant}"
    return (Diagnostic("CFG020", Severity.HINT, message, None, help_),)


def format_as(syntax: Syntax, plan: Plan) -> str:
    """The canonical text of a plan in one syntax.

    Raises CallsheetError (LTP070, MIC070, DAG070) with the step for what the syntax cannot
    express.
    """
    match syntax:
        case Syntax.LTP:
            if plan.tree is not None:
                from callsheet.frontends.structured import format_structured  # noqa: PLC0415 - as below

                return format_structured(plan)
            return format_plan(plan)
        case Syntax.MICRO:
            from callsheet.frontends.micro import format_micro  # noqa: PLC0415 - as each plan has one syntax

            return format_micro(plan)
        case Syntax.DAG:
            if plan.tree is not None:
                from callsheet.frontends.structured.json_printer import format_structured_json  # noqa: PLC0415 - as above

                return format_structured_json(plan)
            from callsheet.frontends.dag import format_dag  # noqa: PLC0415 - as above

            return format_dag(plan)
        case Syntax.PYTHON:
            from callsheet.frontends.python.printing.printer import print_python  # noqa: PLC0415 - as above

            return print_python(plan)[0]


def text_of(plan: Plan) -> str:
    """The text of a plan without a source: a graph as JSON, any other as LTP."""
    return format_as(Syntax.DAG if plan.order is Order.DAG else Syntax.LTP, plan)


def convert_to(
    syntax: Syntax, plan: Plan, parameters: Parameters | None = None
) -> tuple[str, tuple[Diagnostic, ...]]:
    """The text of a plan in one syntax, converted to the order of that syntax if necessary.

    `parameters` are the parameters of tools by canonical name, since a JSON plan names every
    argument. Also returns remarks on the conversion. Raises CallsheetError as `format_as` does.
    """
    if syntax is Syntax.PYTHON:
        from callsheet.frontends.python.printing.printer import print_python  # noqa: PLC0415 - only to convert

        return print_python(plan)
    if plan.tree is not None:
        from callsheet.frontends.structured.printer import with_titles_as_comments  # noqa: PLC0415 - only to convert

        return format_as(syntax, with_titles_as_comments(plan) if syntax is Syntax.LTP else plan), ()
    from callsheet.frontends.dag import to_dag, to_text_order  # noqa: PLC0415 - only to convert
    from callsheet.frontends.dag.convert import NO_PARAMETERS  # noqa: PLC0415 - as above

    if syntax is Syntax.DAG:
        converted = to_dag(plan, NO_PARAMETERS if parameters is None else parameters)
    else:
        converted = to_text_order(plan)
    return format_as(syntax, converted.plan), converted.notes


def look_of(text: str) -> SpellingEvidence:
    """Count the lines of a text that only one syntax has.

    >>> look_of('S1: @FETCH_PAGE (url="x") > $page')
    SpellingEvidence(ltp=1, micro=0, framed=False)
    >>> look_of('fetch "x" > page\\nrespond page')
    SpellingEvidence(ltp=0, micro=2, framed=False)
    """
    from callsheet.frontends.micro.commands import DECORATION, Kind, Lines  # noqa: PLC0415 - only where no syntax is known

    ltp = micro = 0
    lines = Lines()
    for match in islice(re.finditer(r"[^\n]+", text), _MOST_LINES):
        start = match.start() + len(match[0]) - len(match[0].lstrip())
        if start >= match.end() or text[start] in "#}`~" or _FRAME.match(text, match.start()):
            continue
        decoration = DECORATION.match(text, start, match.end())
        bare = start if decoration is None else decoration.end()
        if _LTP_LINE.match(text, start) or _LTP_LINE.match(text, bare):
            ltp += 1
        elif _NO_MARK.match(text, bare, match.end()):
            continue
        elif lines.kind(text, bare, match.end(), frozenset(), labelled=False) is Kind.COMMAND:
            micro += 1
    return SpellingEvidence(ltp, micro, _FRAME.search(text) is not None)


def _read_either(text: str, look: SpellingEvidence, name: str, variables: Sequence[str]) -> Reading:
    """Parse a text whose syntax is unclear: in the one in which it is a plan, LTP text first."""
    ltp = parse(text, name)
    if ltp.plan is not None and not leaves_out_commands(ltp, variables):
        return Reading(ltp, Syntax.LTP)
    micro = read_as(Syntax.MICRO, text, name, variables=variables)
    if micro.plan is not None and look.micro >= look.ltp:
        return Reading(micro, Syntax.MICRO)
    if ltp.plan is not None:
        return Reading(ltp, Syntax.LTP)
    if look.ltp or look.micro or look.framed:
        as_micro = look.micro > look.ltp and not look.framed
        return Reading(micro, Syntax.MICRO) if as_micro else Reading(ltp, Syntax.LTP)
    if _is_misspelt(micro):
        return Reading(micro, Syntax.MICRO)
    return Reading(ltp, Syntax.LTP if ltp.partial.steps else None)


def _is_misspelt(micro: ParseResult) -> bool:
    """Whether a text is Micro-CLI with misspelt verbs: it has quotes and no prose."""
    codes = {d.code for d in micro.diagnostics}
    return _WRONG_VERB in codes and _PROSE not in codes and _QUOTE.search(micro.source.text) is not None


def leaves_out_commands(ltp: ParseResult, variables: Iterable[str]) -> bool:
    """Whether the text that LTP regards as prose around a plan holds Micro-CLI commands, right or wrong."""
    names = tuple(variables)
    prose = (d.span for d in ltp.diagnostics if d.code in _LEFT_OUT and d.span is not None)
    text = ltp.source.text
    return "PLAN_START" not in text and any(
        _holds_commands(read_as(Syntax.MICRO, text[span.start : span.end], "<plan>", variables=names))
        for span in prose
    )


def _holds_commands(micro: ParseResult) -> bool:
    return bool(micro.partial.steps) or any(d.is_error and d.code != _NO_COMMAND for d in micro.diagnostics)
