"""The diagnostic: code, span, message, help and fixes; as text for people and as data for machines."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from functools import partial
from typing import Any, TypeVar, cast

from callsheet import lazy
from callsheet.lazy import NamedTuple, dataclass


class Span(NamedTuple):
    """A stretch of a source: offsets in code points, `start` included, `end` excluded."""

    start: int
    end: int

    def to(self, other: Span) -> Span:
        """The stretch from the start of this span to the end of `other`."""
        return Span(self.start, other.end)


span_of: Callable[[tuple[int, int]], Span] = partial(cast("Any", tuple).__new__, Span)
"""Makes a span of its two offsets in half the time that its constructor takes, for readers of long texts."""


class Position(NamedTuple):
    """A place as people count it: line and column, both from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Source:
    """A text with the name that diagnostics show for it (a path, `<stdin>`, `<plan>`)."""

    name: str
    text: str
    _starts: list[int] = field(default_factory=list[int], init=False, repr=False, compare=False)

    def _line_starts(self) -> list[int]:
        starts = self._starts
        if not starts:
            starts.append(0)
            find = self.text.find
            at = find("\n")
            while at != -1:
                starts.append(at + 1)
                at = find("\n", at + 1)
        return starts

    def position(self, offset: int) -> Position:
        """Line and column of an offset; an offset past the end is the end."""
        offset = min(max(offset, 0), len(self.text))
        starts = self._line_starts()
        line = bisect_right(starts, offset)
        return Position(line, offset - starts[line - 1] + 1)

    def offset(self, line: int, column: int) -> int:
        """The offset of a line and a column (both from 1); what is past the end of the text is its end."""
        starts = self._line_starts()
        start = starts[min(max(line, 1), len(starts)) - 1]
        return min(start + column - 1, len(self.text))

    def line(self, number: int) -> str:
        """The text of a line (from 1), without its end; empty if there is no such line."""
        start, end = self.line_span(number)
        return self.text[start:end]

    def line_span(self, number: int) -> Span:
        """Where a line (from 1) stands, without its end; an empty stretch if there is no such line."""
        starts = self._line_starts()
        if not 1 <= number <= len(starts):
            return Span(0, 0)
        start, end = starts[number - 1], len(self.text)
        if number < len(starts):
            end = starts[number] - 1
        if end > start and self.text[end - 1] == "\r":
            end -= 1
        return Span(start, end)


class Severity(StrEnum):
    """How much a finding matters: an error stops the plan, a warning and a hint do not."""

    ERROR = "error"
    WARNING = "warning"
    HINT = "hint"


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace the text of `span` by `text`."""

    span: Span
    text: str


@dataclass(frozen=True, slots=True)
class Fix:
    """A repair that a machine can make: what it does, in words, and the edits."""

    title: str
    edits: tuple[Edit, ...]


@dataclass(frozen=True, slots=True)
class WordFix:
    """A word inside a diagnostic's span, or right before it, and the words that were likely meant."""

    word: str
    meant: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """Something that is wrong, or could be better, and where.

    `code` names an entry of `diagnostics.codes`; `message` says what is wrong in one line;
    `help` says the way out; `step` is the id of the step concerned, where there is one. `fix` is the
    repair, where whoever found it knew the text; `swap` what it would change, where only the plan was known.
    """

    code: str
    severity: Severity
    message: str
    span: Span | None = None
    help: str | None = None
    fix: Fix | None = None
    step: str | None = None
    swap: WordFix | None = None

    @property
    def is_error(self) -> bool:
        """Whether this finding stops the plan."""
        return self.severity is Severity.ERROR


class CallsheetError(Exception):
    """A user's mistake or a refused wish, said in diagnostics.

    `diagnostics` holds at least one; `source` is the text that their spans point into, if any.
    Faces print them with `diagnostics.render_all` and never show a traceback for this class.
    """

    def __init__(self, diagnostics: Sequence[Diagnostic], source: Source | None = None) -> None:
        self.diagnostics = tuple(diagnostics)
        self.source = source
        super().__init__(_in_one_line(self.diagnostics))

    @classmethod
    def single(cls, code: str, message: str, *, help: str | None = None) -> CallsheetError:  # noqa: A002 - as the field is called
        """An error of one diagnostic without a place in a text."""
        return cls([Diagnostic(code, Severity.ERROR, message, help=help)])


def _in_one_line(diagnostics: Sequence[Diagnostic]) -> str:
    """All diagnostics with their codes; one whose message the one before it ends with is told once."""
    parts: list[str] = []
    before = ""
    for one in diagnostics:
        if before.endswith(f": {one.message}"):
            parts[-1] = f"{parts[-1].removesuffix(one.message)}{one.code}: {one.message}"
        else:
            parts.append(f"{one.code}: {one.message}")
        before = one.message
    return "; ".join(parts)


_MAX_CANDIDATES = 2_000


def did_you_mean(word: str, known: Iterable[str], most: int = 3) -> tuple[str, ...]:
    """Up to `most` of the known words that look like `word`, the nearest first.

    Case does not count. At most the first 2,000 known words are looked at, so that a hostile
    list cannot make an error message slow.
    """
    from difflib import get_close_matches  # noqa: PLC0415 - only where something is wrong

    by_fold: dict[str, str] = {}
    for candidate in known:
        by_fold.setdefault(candidate.casefold(), candidate)
        if len(by_fold) >= _MAX_CANDIDATES:
            break
    suggestions = get_close_matches(word[:64].casefold(), list(by_fold), n=most, cutoff=0.6)
    return tuple(by_fold[fold] for fold in suggestions)


_Otherwise = TypeVar("_Otherwise", str, None)


def meant(word: str, known: Iterable[str], otherwise: _Otherwise, written: str = "{}") -> str | _Otherwise:
    """The question which of the known words was meant, each `written` so; `otherwise` if none is like it.

    >>> meant("totl", ["total"], None, "${}"), meant("x", ["total"], "known is total")
    ('did you mean $total?', 'known is total')
    """
    near = [written.format(each) for each in did_you_mean(word, known)]
    return f"did you mean {' or '.join(near)}?" if near else otherwise


_BEFORE = 200
"""So many characters before a span the name of the argument is looked for whose value it is."""


def fixes_of(diagnostic: Diagnostic, text: str) -> tuple[Fix, ...]:
    """The repairs of a finding in the text that its span points into; none where the place is not clear.

    >>> from callsheet.diagnostics import Severity, WordFix
    >>> wrong = Diagnostic("CHK012", Severity.ERROR, "no", Span(4, 12), swap=WordFix("S33", ("S3",)))
    >>> [fix.title for fix in fixes_of(wrong, "S1: GOTO S33")], fixes_of(wrong, "S1: GOTO  x")
    (['write S3'], ())
    """
    own = () if diagnostic.fix is None else (diagnostic.fix,)
    if diagnostic.swap is None or diagnostic.span is None:
        return own
    place = _place(text, diagnostic.swap.word, diagnostic.span)
    if place is None:
        return own
    return (*own, *(Fix(f"write {word}", (Edit(place, word),)) for word in diagnostic.swap.meant))


def _place(text: str, word: str, span: Span) -> Span | None:
    """Where the word stands, in any case: once in the span, or else last of all right before it."""
    pattern = re.compile(rf"(?<!\w){re.escape(word)}(?!\w)", re.IGNORECASE)
    inside = [*pattern.finditer(text, *span)]
    if len(inside) == 1:
        return Span(*inside[0].span())
    if inside:
        return Span(*inside[0].span()) if inside[0].start() - span.start <= 1 else None
    before = re.compile(rf"(?<!\w)({re.escape(word)})[\"']?\s*[=:]\s*", re.IGNORECASE)
    start = max(span.start - _BEFORE, 0)
    near = [match for match in before.finditer(text, start, span.start) if match.end() == span.start]
    return Span(*near[-1].span(1)) if near else None


_MAX_SHOWN = 160
_PLAIN = lazy.pattern(r"[ -~\n]*")


def _width(text: str) -> int:
    """Columns that a terminal needs for `text` (wide characters need two, marks none)."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text
    )


def _printable(text: str) -> str:
    """The text without control characters, so that a hostile line cannot drive a terminal."""
    if text.isprintable():
        return text
    unknown = "\N{REPLACEMENT CHARACTER}"
    return "".join(c if c.isprintable() or c == " " else " " if c == "\t" else unknown for c in text)


def _excerpt(source: Source, diagnostic: Diagnostic) -> list[str]:
    span = diagnostic.span
    if span is None:
        return []
    line, column = source.position(span.start)
    start, end = source.line_span(line)  # not the line itself: one of megabytes may have thousands of errors
    length = max(1, min(span.end - span.start, end - start - column + 1))
    offset = 0
    if end - start > _MAX_SHOWN:
        offset = max(0, min(column - 1 - _MAX_SHOWN // 3, end - start - _MAX_SHOWN))
        end = start + offset + _MAX_SHOWN
    text = source.text[start + offset : end]
    before = _printable(text[: column - 1 - offset])
    marked = _printable(text[column - 1 - offset : column - 1 - offset + length])
    gutter = str(line)
    return [
        f"  {gutter} | {_printable(text)}",
        f"  {' ' * len(gutter)} | {' ' * _width(before)}{'^' * max(1, _width(marked))}",
    ]


def render(diagnostic: Diagnostic, source: Source | None = None) -> str:
    """One diagnostic as plain text: place, message, source line with caret, help.

    >>> from callsheet.diagnostics import Diagnostic, Severity, Source, Span
    >>> text = Source("p.ltp", "S1: @READ_FILE (path=)")
    >>> print(render(Diagnostic("LTP002", Severity.ERROR, "a value is missing", Span(21, 22)), text))
    p.ltp:1:22: error LTP002: a value is missing
      1 | S1: @READ_FILE (path=)
        |                      ^
    """
    place = ""
    lines: list[str] = []
    if source is not None and diagnostic.span is not None:
        line, column = source.position(diagnostic.span.start)
        place = f"{source.name}:{line}:{column}: "
        lines = _excerpt(source, diagnostic)
    elif diagnostic.step is not None:
        place = f"[{diagnostic.step}] "
    head = f"{place}{diagnostic.severity} {diagnostic.code}: {diagnostic.message}"
    if diagnostic.help:
        help_text = diagnostic.help.replace("\n", "\n    ")
        lines.append(f"  help: {help_text}")
    text = "\n".join([head, *lines])
    return text if text.isascii() and _PLAIN.fullmatch(text) else "\n".join(map(_printable, text.split("\n")))


def render_all(diagnostics: Iterable[Diagnostic], source: Source | None = None) -> str:
    """All diagnostics, in the order of their places, as plain text."""
    ordered = sorted(diagnostics, key=lambda d: d.span.start if d.span else -1)
    return "\n".join(render(d, source) for d in ordered)


def to_json(diagnostics: Sequence[Diagnostic], source: Source | None = None) -> list[dict[str, object]]:
    """The diagnostics as JSON objects, with lines and columns from 1 where there is a source."""
    rows: list[dict[str, object]] = []
    for d in diagnostics:
        row: dict[str, object] = {"code": d.code, "severity": str(d.severity), "message": d.message}
        if d.help:
            row["help"] = d.help
        if d.step:
            row["step"] = d.step
        if d.span is not None and source is not None:
            start, end = source.position(d.span.start), source.position(d.span.end)
            row["source"] = source.name
            row["line"], row["column"] = start
            row["end_line"], row["end_column"] = end
        if d.fix is not None:
            row["fix"] = fix_to_json(d.fix)
        rows.append(row)
    return rows


def fix_to_json(fix: Fix) -> dict[str, object]:
    """A fix as a JSON object, with the offsets of its edits in characters."""
    edits = [{"start": e.span.start, "end": e.span.end, "text": e.text} for e in fix.edits]
    return {"title": fix.title, "edits": edits}


def from_json(rows: Iterable[Mapping[str, Any]], source: Source | None = None) -> tuple[Diagnostic, ...]:
    """The diagnostics of `to_json`; those with a place in `source`, by its name, point into it.

    >>> from callsheet.diagnostics import Severity, Source, Span
    >>> text = Source("p.ltp", "S1: @A ()\\nS2: @B ()")
    >>> wrong = Diagnostic("CHK040", Severity.ERROR, "no tool is called @B", Span(14, 18), step="S2")
    >>> from_json(to_json([wrong], text), text) == (wrong,)
    True
    """
    return tuple(_from_row(row, source) for row in rows)


def _from_row(row: Mapping[str, Any], source: Source | None) -> Diagnostic:
    span, fix = None, row.get("fix")
    if source is not None and row.get("source") == source.name:
        start, end = ((row[f"{of}line"], row[f"{of}column"]) for of in ("", "end_"))
        span = Span(source.offset(*start), source.offset(*end))
    return Diagnostic(
        row["code"],
        Severity(row["severity"]),
        row["message"],
        span,
        row.get("help"),
        None if fix is None else Fix(fix["title"], tuple(map(_edit, fix["edits"]))),
        row.get("step"),
    )


def _edit(row: Mapping[str, Any]) -> Edit:
    return Edit(Span(row["start"], row["end"]), row["text"])
