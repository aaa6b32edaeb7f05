"""A cursor over a text that collects diagnostics and unwinds to the next point of recovery.

In: a text. Out: a position and diagnostics. The reader never raises
anything but `Stop`, and only after it has recorded the diagnostic that explains it.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable

from callsheet import lazy
from callsheet.diagnostics import CallsheetError, Diagnostic, Edit, Fix, Severity, Source, Span
from callsheet.ir import Plan
from callsheet.lazy import dataclass

MAX_DEPTH = 64
"""The largest nesting depth of brackets."""

MAX_INDEX_DIGITS = 15
"""A path part with more digits is a key, not an index."""

LABEL = r"[A-Za-z_][A-Za-z0-9_-]*"
"""The id of a step, as a pattern."""

NAME = r"[A-Za-z_][A-Za-z0-9_]*"
"""The name of a variable, as a pattern. Only ASCII, so that no two different names look the same."""

STEP_LINE = lazy.pattern(
    rf"^[ \t]*(?:[-*+•][ \t]+|\d+[.)][ \t]+)?\**{LABEL}\**[ \t]*:\**[ \t]*"
    r"(?:@|\?[ \t]*[A-Za-z]|(?:TERMINATE|GOTO|RE-?PLAN|RESPOND)\b)",
    re.MULTILINE,
)
"""The beginning of a line that begins a step, with its id."""

SURE_STEP_LINE = lazy.pattern(
    rf"^[ \t]*{LABEL}[ \t]*:[ \t]*(?:@[A-Z0-9_]+[ \t\r]*(?:\(|>|$|ON_FAIL\b)|\?(?:IF|FOREACH)\b|GOTO[ \t]"
    r"|(?:TERMINATE|RE-PLAN)[ \t]*\()",
    re.MULTILINE,
)
"""The same in the canonical spelling, which rarely occurs within a string: a string in plain quotes extends
over such a line only if its closing quote is certain."""

_WHITE = frozenset(" \t\r\n#")
_BLANKS = lazy.pattern(r"[ \t\r]*")
_SPACE = lazy.pattern(r"[ \t\r\n]*")
_COMMENT = lazy.pattern(r"#[^\n]*")


class Stop(Exception):
    """The current construct cannot be read; the reason is in the reader's diagnostics."""


class Reader:
    """A text, a position in it, and the diagnostics so far."""

    __slots__ = ("_next_step", "comments", "depth", "diagnostics", "errors", "pos", "text")

    def __init__(self, text: str, pos: int = 0) -> None:
        self.text = text
        self.pos = pos
        self.depth = 0
        """The number of open brackets; inside brackets a newline is white space."""
        self.diagnostics: list[Diagnostic] = []
        self.comments: list[str] = []
        """Comments inside brackets, which belong to the enclosing step."""
        self.errors = 0
        """The number of errors so far."""
        self._next_step = (-1, -1)

    # ------------------------------------------------------------ moving

    def skip(self) -> str:
        """Skip blanks, and inside brackets also newlines and comments; returns the character there."""
        text, pos = self.text, self.pos
        char = text[pos : pos + 1]
        if char == " ":  # by far the most frequent cases: one blank, or none
            char = text[pos + 1 : pos + 2]
            if char not in _WHITE:
                self.pos = pos + 1
                return char
        elif char not in _WHITE or (char == "\n" and not self.depth):
            return char
        if not self.depth:
            match = _BLANKS.match(text, pos)
        else:
            match = _SPACE.match(text, pos)
            while match is not None and text.startswith("#", match.end()):
                comment = _COMMENT.match(text, match.end())
                if comment is None:
                    break
                self.comments.append(comment_text(comment[0]))
                match = _SPACE.match(text, comment.end())
        if match is not None:
            self.pos = match.end()
        return text[self.pos : self.pos + 1]

    def line_end(self, pos: int) -> int:
        """The offset of the end of the line of `pos`, before its newline."""
        end = self.text.find("\n", pos)
        return len(self.text) if end == -1 else end

    def line_start(self, pos: int) -> int:
        """The offset at which the line of `pos` begins."""
        return self.text.rfind("\n", 0, pos) + 1

    def next_step_line(self, pos: int) -> int:
        """The offset of the next line after `pos` that begins a step; the end if there is none."""
        start, line_start = self._next_step
        if not start <= pos < line_start:
            match = SURE_STEP_LINE.search(self.text, self.line_end(pos))
            line_start = len(self.text) if match is None else match.start()
            self._next_step = (pos, line_start)
        return line_start

    def open(self) -> None:
        """Enter the bracket at the position; raises Stop beyond `MAX_DEPTH`."""
        self.deepen()
        self.pos += 1

    def deepen(self) -> None:
        """Increase the nesting depth, which the caller decreases; raises Stop beyond `MAX_DEPTH`."""
        if self.depth >= MAX_DEPTH:
            raise self.error(
                "LTP031",
                f"brackets are nested more than {MAX_DEPTH} deep",
                help="compute deep data in a step and pass it as a variable",
            )
        self.depth += 1

    # ------------------------------------------------------------ saying

    def error(
        self,
        code: str,
        message: str,
        start: int | None = None,
        end: int | None = None,
        *,
        help: str | None = None,  # noqa: A002 - the name in `Diagnostic`
        fix: Fix | None = None,
    ) -> Stop:
        """Record an error; returns the exception that the caller raises to unwind."""
        self.errors += 1
        self._note(Severity.ERROR, code, message, start, end, help, fix)
        return Stop()

    def warning(self, code: str, message: str, start: int, end: int, *, help: str | None = None) -> None:  # noqa: A002
        """Record a warning: the text is read, but perhaps not as intended."""
        self._note(Severity.WARNING, code, message, start, end, help, None)

    def loose(self, code: str, message: str, start: int, end: int, replacement: str | None) -> None:
        """Record a hint: the spelling of `start:end` is not canonical; `replacement` is."""
        fix = None
        if replacement is not None:
            title = f"write {replacement}" if replacement.strip() else "remove it"
            fix = replace(title, start, end, replacement)
        self._note(Severity.HINT, code, message, start, end, None, fix)

    def _visible_offset(self, pos: int) -> int:
        """The offset itself; at the end of a line, the end of the text before it, without white space."""
        text = self.text
        if pos >= len(text) or text[pos] == "\n":
            while pos and text[pos - 1] in " \t\r\n":
                pos -= 1
        return pos

    def _note(
        self,
        severity: Severity,
        code: str,
        message: str,
        start: int | None,
        end: int | None,
        help_: str | None,
        fix: Fix | None,
    ) -> None:
        start = self._visible_offset(self.pos) if start is None else start
        if end is None:
            end = min(start + 1, self.line_end(start)) if start < len(self.text) else start
        span = Span(start, max(start, end))
        self.diagnostics.append(Diagnostic(code, severity, message, span, help_, fix))


def replace(title: str, start: int, end: int, text: str) -> Fix:
    """A fix that replaces `start:end` with `text`."""
    return Fix(title, (Edit(Span(start, end), text),))


def comment_text(line: str) -> str:
    """The text of a comment without `#`, one blank after it, and white space at its end.

    >>> comment_text("#  indented ")
    ' indented'
    """
    return line[1:].removeprefix(" ").rstrip()


def shown(text: str, most: int = 40) -> str:
    """The first line of a text, shortened to `most` characters, for a message."""
    line = text.split("\n", 1)[0].strip()
    return line if len(line) <= most else line[: most - 1] + "…"


@dataclass(frozen=True, slots=True)
class ParseResult:
    """The result of parsing a text.

    `plan` is None if there is any error. `partial` has the steps that could be read nevertheless,
    for editors and messages; it is not meant to be run. `diagnostics` are in the order of the
    text; their spans refer to `source`. `lost` has the spans of steps that could not be read,
    each from its first character to the point of recovery.
    """

    plan: Plan | None
    partial: Plan
    diagnostics: tuple[Diagnostic, ...]
    source: Source
    lost: tuple[Span, ...] = ()

    @classmethod
    def of(
        cls,
        partial: Plan,
        diagnostics: Iterable[Diagnostic],
        source: Source,
        lost: Iterable[Span],
        *,
        strict: bool,
    ) -> ParseResult:
        """What a reader has found: there is a plan if nothing is an error. `strict`: loose spellings are."""
        found = sorted(map(_as_error, diagnostics) if strict else diagnostics, key=_start)
        plan = None if any(each.is_error for each in found) else partial
        return cls(plan, partial, tuple(found), source, tuple(lost))

    def require(self) -> Plan:
        """The plan. Raises CallsheetError with all diagnostics if there is none."""
        if self.plan is None:
            raise CallsheetError(self.diagnostics, self.source)
        return self.plan


def _start(diagnostic: Diagnostic) -> int:
    return -1 if diagnostic.span is None else diagnostic.span.start


def _as_error(diagnostic: Diagnostic) -> Diagnostic:
    is_loose = diagnostic.severity is Severity.HINT and diagnostic.code.startswith(("LTP1", "MIC1"))
    return dataclasses.replace(diagnostic, severity=Severity.ERROR) if is_loose else diagnostic


def no_step(text: str) -> Diagnostic:
    """The error of a text without a step."""
    help_ = "a step is written S1: @TOOL (arguments) > $result"
    span = Span(0, len(text))
    return Diagnostic("LTP001", Severity.ERROR, "no step was found in this text", span, help_)
