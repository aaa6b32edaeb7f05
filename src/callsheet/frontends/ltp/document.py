"""Parses the line structure of LTP text: head, markers, steps, groups and surrounding prose.

In: a text. Out: steps, comments and diagnostics. Text that is not parsed is reported by a diagnostic.
"""

from __future__ import annotations

import re
from dataclasses import field, replace

from callsheet import lazy
from callsheet.diagnostics import Diagnostic, Edit, Fix, Severity, Span, did_you_mean
from callsheet.frontends.ltp.steps import USUAL_HEAD, read_step
from callsheet.frontends.ltp.words import (
    BLOCK_WORD,
    BOLD_LABEL,
    BULLET,
    CONTROL,
    CONTROL_SPELLINGS,
    FENCE,
    LABELLED,
    MARKER,
    PARALLEL,
    PLAN_LIKE,
    STEP_START,
    recover,
)
from callsheet.frontends.values.reader import STEP_LINE, Reader, Stop, comment_text, shown
from callsheet.frontends.values.reader import replace as replace_text
from callsheet.ir import Step
from callsheet.lazy import dataclass

_ELSE = lazy.pattern(r"ELSE\b|ELIF\b|ELSEIF\b", re.IGNORECASE)
_WORD = lazy.pattern(r"@?([A-Za-z_][A-Za-z0-9_-]*)([ \t]*\()?")
_GROUP = lazy.pattern(r"@?PARALLEL\b", re.IGNORECASE)
_ELSEWHERE = lazy.pattern(r"(?:>|ON_FAIL\b|THEN\b)", re.IGNORECASE)


def report_stray(reader: Reader, span: Span, line: str) -> None:
    """Reports a line that is not a step (LTP002), or an ELSE, which the language lacks (LTP015)."""
    if _ELSE.match(line):
        hint = "write a step with the opposite condition: ?IF (NOT (…)) THEN …"
        reader.error("LTP015", "the language has no ELSE", *span, help=hint)
        return
    reader.error("LTP002", f"this line is not a step: {shown(line)}", *span, help=_meant(line))


def _meant(line: str) -> str:
    word = _WORD.match(line)
    if _ELSEWHERE.match(line):
        return "a step is written on one line: join this to the line above"
    if _GROUP.match(line):
        return "write @PARALLEL { before the steps that run concurrently, and } on a line after them"
    if word is not None and (control := CONTROL_SPELLINGS.get(word[1].upper())) is not None:
        return f"write {'GOTO S5' if control == 'GOTO' else f'{CONTROL[control]} (values)'}"
    if word is not None and word[2] is not None:
        return f"did you mean @{word[1].upper()} (…)? A call begins with @"
    suggestions = did_you_mean(
        line.split("(", maxsplit=1)[0].split(" ", maxsplit=1)[0],
        ("TERMINATE", "RESPOND", "GOTO", "RE-PLAN"),
    )
    return (
        f"did you mean {suggestions[0]}?"
        if suggestions
        else "write S1: @TOOL (arguments) > $result, or # before a comment"
    )


class Surroundings:
    """The lines that may be prose and are not reported yet; adjacent ones are merged to one span."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self.spans: list[Span] = []

    def add(self, span: Span) -> None:
        """Adds a line that may not be part of the plan."""
        if self.spans and not self._reader.text[self.spans[-1].end : span.start].strip():
            self.spans[-1] = self.spans[-1].to(span)
        else:
            self.spans.append(span)

    def taken(self) -> list[Span]:
        """Returns and clears the kept spans."""
        spans, self.spans = self.spans, []
        return spans

    def note(self, span: Span) -> None:
        """Reports a span as skipped prose (LTP103)."""
        self._reader.loose("LTP103", "this is not part of the plan and is ignored", *span, "")

    def warn(self, span: Span) -> None:
        """Warns of a step outside the markers (LTP005)."""
        self._reader.warning(
            "LTP005",
            "this looks like a step, but is outside PLAN_START and PLAN_END: it is ignored",
            *span,
            help="put it between the markers if it belongs to the plan",
        )


def missing_markers(plan: Span, line: int, *, lacks_start: bool, lacks_end: bool) -> Diagnostic | None:
    """The hint (LTP101) that one or both markers are missing; None if neither is.

    `plan` is the span from the first step to the end of the plan, `line` the offset of its first line.
    """
    edits: list[Edit] = []
    missing: list[str] = []
    if lacks_start:
        missing.append("PLAN_START")
        edits.append(Edit(Span(line, line), "PLAN_START\n"))
    if lacks_end:
        missing.append("PLAN_END")
        end = max(plan.end, line)
        edits.append(Edit(Span(end, end), "\nPLAN_END"))
    if not missing:
        return None
    words = " and ".join(missing)
    message = f"{words} {'is' if len(missing) == 1 else 'are'} missing"
    fix = Fix(f"insert {words}", tuple(edits))
    return Diagnostic("LTP101", Severity.HINT, message, Span(plan.start, plan.start), None, fix)


VERSION = 1
MAX_ERRORS = 1_000

_META = lazy.pattern(r"(ltp|id|title|goal):(?: |$)(.*)", re.DOTALL)


@dataclass(slots=True)
class Document:
    """The parser state and the parts of the text parsed so far."""

    text: str
    reader: Reader = field(init=False)
    steps: list[Step] = field(default_factory=list[Step], init=False)
    comments: list[str] = field(default_factory=list[str], init=False)
    """Comments not yet attached to a step; at the end, those after the last step."""
    meta: dict[str, str] = field(default_factory=dict[str, str], init=False)
    group: int | None = field(default=None, init=False)
    groups: int = field(default=0, init=False)
    started: int | None = field(default=None, init=False)
    """The offset of PLAN_START."""
    ended: int | None = field(default=None, init=False)
    """The offset of PLAN_END."""
    first: int | None = field(default=None, init=False)
    """The offset of the first step or group, valid or not."""
    last: int = field(default=0, init=False)
    """The end of the last step or group, valid or not."""
    in_head: bool = field(default=True, init=False)
    same_line: bool = field(default=False, init=False)
    """Whether the current line already has a step, marker or brace."""
    lost: list[Span] = field(default_factory=list[Span], init=False)
    """The spans of steps that could not be parsed."""
    around: Surroundings = field(init=False)
    _group_start: int = field(default=0, init=False)
    _nested: int = field(default=0, init=False)
    _group_steps: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.reader = Reader(self.text, 1 if self.text.startswith("\ufeff") else 0)
        self.around = Surroundings(self.reader)

    # ------------------------------------------------------------ the whole

    def read(self) -> None:
        """Parses the text to its end, or up to `MAX_ERRORS` errors."""
        reader, text = self.reader, self.text
        size = len(text)
        while True:
            char = reader.skip()
            if char == "\n":
                reader.pos += 1
                self.same_line = False
                continue
            if reader.pos >= size:
                break
            if reader.errors >= MAX_ERRORS:
                reader.error(
                    "LTP006", f"the rest is not checked after {MAX_ERRORS:,} errors", reader.pos, size
                )
                return
            if self.ended is not None:
                self._read_after_end()
            elif char == "#":
                self._read_comment()
            else:
                self._read_statement(char)
        self._finish()

    def _read_statement(self, char: str) -> None:
        reader, text, pos = self.reader, self.text, self.reader.pos
        head = USUAL_HEAD.match(text, pos)
        if head is not None:
            self._read_step(head)
            return
        marker = MARKER.match(text, pos) if char in "Pp*`" else None
        if marker is not None:
            self._read_marker(marker)
        elif char == "}":
            self._close_group()
        elif char in "@Pp" and (group := PARALLEL.match(text, pos)):
            self._open_group(group)
        elif char == "@" and (block := BLOCK_WORD.match(text, pos)):
            self._open_unknown_block(block)
        elif STEP_START.match(text, pos):
            self._read_step()
        elif char in "`~" and (fence := FENCE.match(text, pos)):
            reader.loose("LTP104", "a plan has no code fence", pos, fence.end(), "")
            reader.pos = fence.end()
        elif (bullet := BULLET.match(text, pos)) and not self.same_line:
            reader.loose("LTP104", "a step has no bullet", pos, bullet.end(), "")
            reader.pos = bullet.end()
        elif BOLD_LABEL.match(text, pos):
            self._read_step()
        elif block := BLOCK_WORD.match(text, pos):
            self._open_unknown_block(block)
        else:
            self._read_other()

    # ------------------------------------------------------------ lines that are no steps

    def _read_comment(self) -> None:
        reader = self.reader
        start = reader.pos
        end = reader.line_end(start)
        reader.pos = end
        line = self.text[start + 1 : end].removesuffix("\r").removeprefix(" ")
        if self.in_head and self._read_meta(line, start, end):
            return
        self.comments.append(comment_text(self.text[start:end]))

    def _read_meta(self, line: str, start: int, end: int) -> bool:
        """Stores the metadata in a comment of the head; returns whether it had any."""
        match = _META.match(line)
        if match is None:
            return False
        name, content = match.groups()
        if name == "ltp":
            if content.strip() != str(VERSION):
                self.reader.error(
                    "LTP003",
                    f"version {shown(content)!r} of the language is unknown",
                    start,
                    end,
                    help="the versions are 1 and 2: # ltp: 2",
                )
            return True
        self.meta[name] = f"{self.meta[name]}\n{content}" if name in self.meta else content
        return True

    def _read_marker(self, marker: re.Match[str]) -> None:
        reader = self.reader
        start, end = marker.span("word")
        word = marker["word"].upper()
        if marker["word"] != word:
            reader.loose("LTP105", f"{marker['word']} is written {word}", start, end, word)
        if marker["open"] or marker["close"]:
            reader.loose(
                "LTP104", f"{word} must be alone on its line", marker.start(), marker.end("close"), word
            )
        elif self.same_line:
            self._note_same_line(start)
        self.in_head = False
        reader.pos = marker.end()
        self.same_line = True
        if word == "PLAN_END":
            self._check_group_closed()
            self.ended = start
            if self.text.startswith("#", reader.pos):
                self._read_comment()
        elif self.started is None:
            self._start(start)
        else:
            reader.error(
                "LTP004", "the plan has a second PLAN_START", start, end, help="a text contains one plan"
            )

    def _start(self, pos: int) -> None:
        """Begins the plan at PLAN_START: text before is prose, even if it looks like steps."""
        self.started = pos
        before = self.steps
        if self.first is not None:
            reader = self.reader
            reader.diagnostics[:] = [
                d for d in reader.diagnostics if d.code in {"LTP003", "LTP105", "LTP104"}
            ]
            reader.errors = sum(d.is_error for d in reader.diagnostics)
            for step in before:
                self.around.warn(step.span or Span(0, pos))
            self.around.note(Span(self.first, pos))
            before.clear()
            self.lost.clear()
            self.first, self.group, self.groups, self._nested = None, None, 0, 0
        for span in self.around.taken():
            self.around.note(span)

    def _read_after_end(self) -> None:
        """Skips a line after PLAN_END as prose, or reports it if it looks like part of a plan."""
        reader, text = self.reader, self.text
        pos = reader.pos
        end = reader.line_end(pos)
        marker = MARKER.match(text, pos)
        if text.startswith("#", pos) and not self.around.spans:
            self._read_comment()
            return
        reader.pos = end
        if marker is not None and marker["word"].upper() == "PLAN_START":
            reader.pos = len(text)
            reader.error(
                "LTP004", "a second plan begins here", pos, reader.pos, help="a text contains one plan"
            )
        elif STEP_LINE.match(text, reader.line_start(pos)) or (
            self.same_line and STEP_START.match(text, pos)
        ):
            self.around.warn(Span(pos, end))
        elif fence := FENCE.fullmatch(text[pos:end].rstrip()):
            reader.loose("LTP104", "a plan has no code fence", pos, pos + fence.end(), "")
        else:
            self.around.add(Span(pos, end))

    def _read_other(self) -> None:
        """Handles a line that does not begin like a step: an error inside the plan, maybe prose outside."""
        reader = self.reader
        pos = reader.pos
        end = reader.line_end(pos)
        line = self.text[pos:end].rstrip()
        looks_meant = PLAN_LIKE.search(line) is not None
        if self.started is None and not looks_meant and not self.same_line:
            self.around.add(Span(pos, pos + len(line)))
        elif LABELLED.match(line) and (looks_meant or self.started is not None):
            self._read_step()
            return
        else:
            self._not_a_step(Span(pos, pos + len(line)), line)
        reader.pos = end

    def _not_a_step(self, span: Span, line: str) -> None:
        self.first = span.start if self.first is None else self.first
        self.last = max(self.last, span.end)
        report_stray(self.reader, span, line)

    # ------------------------------------------------------------ groups

    def _open_group(self, match: re.Match[str]) -> None:
        start, end = match.start(), match.end(2)
        written = self.text[start:end]
        if written != "@PARALLEL":
            self.reader.loose("LTP106", f"{written} is written @PARALLEL", start, end, "@PARALLEL")
        self._enter_group(start, match.end())

    def _open_unknown_block(self, block: re.Match[str]) -> None:
        suggestions = did_you_mean(block[1], ("PARALLEL",))
        end = block.end(1)
        start = block.start()
        self.reader.error(
            "LTP012",
            f"{shown(block[0])} does not open a group",
            start,
            end,
            help="did you mean @PARALLEL {?" if suggestions else "the only group is @PARALLEL { … }",
            fix=replace_text("write @PARALLEL", start, end, "@PARALLEL") if suggestions else None,
        )
        self._enter_group(start, block.end())

    def _enter_group(self, start: int, after: int) -> None:
        reader = self.reader
        reader.pos = after
        self._begin(start)
        if self.group is not None:
            reader.error(
                "LTP007",
                "a @PARALLEL group cannot be inside another",
                start,
                after,
                help="close the outer group first; its steps run concurrently anyway",
            )
            self._nested += 1
            return
        self.group, self.groups = self.groups, self.groups + 1
        self._group_start, self._group_steps = start, len(self.reader.diagnostics) + len(self.steps)
        self.same_line = True

    def _close_group(self) -> None:
        reader = self.reader
        pos = reader.pos
        reader.pos += 1
        self.last = reader.pos
        self.same_line = True
        if self.group is None:
            reader.error(
                "LTP009",
                "this } does not close a group",
                pos,
                pos + 1,
                help="remove it, or write @PARALLEL { before",
            )
        elif self._nested:
            self._nested -= 1
        else:
            if self._group_steps == len(reader.diagnostics) + len(self.steps):
                reader.error(
                    "LTP010", "this group has no steps", self._group_start, pos + 1, help="remove it"
                )
            self.group = None

    def _check_group_closed(self) -> None:
        if self.group is not None:
            start = self._group_start
            self.reader.error(
                "LTP008",
                "this group is not closed: } is missing",
                start,
                self.reader.line_end(start),
                help="write } on a line of its own after the last step of the group",
            )
            self.group, self._nested = None, 0

    # ------------------------------------------------------------ steps

    def _begin(self, pos: int) -> None:
        self.in_head = False
        if self.first is None:
            self.first = pos
        if self.same_line:
            self._note_same_line(pos)

    def _note_same_line(self, pos: int) -> None:
        start = pos
        while self.text[start - 1] in " \t":
            start -= 1
        self.reader.loose("LTP116", "each step needs a line of its own", pos, pos, None)
        hint = self.reader.diagnostics[-1]
        fix = Fix("begin a new line", (Edit(Span(start, pos), "\n"),))
        self.reader.diagnostics[-1] = replace(hint, fix=fix)

    def _read_step(self, head: re.Match[str] | None = None) -> None:
        reader = self.reader
        start = reader.pos
        known_errors = len(reader.diagnostics)
        if self.same_line or self.first is None or self.in_head:
            self._begin(start)
        self.same_line = True
        try:
            step = read_step(reader, self.comments, self.group, head)
        except Stop:
            recover(reader, start, known_errors)
            self.lost.append(Span(start, reader.pos))
            self.same_line = False
        else:
            self.steps.append(step)
        if self.comments:
            self.comments = []
        self.last = max(self.last, reader.pos)

    # ------------------------------------------------------------ the end

    def _finish(self) -> None:
        if self.ended is None:
            self._check_group_closed()
        if self.first is None:
            for span in self.around.spans if self.reader.errors else ():
                self.around.note(span)
            return
        for span in self.around.spans:
            between = self.started is None and self.first < span.start < self.last
            if between and (self.ended is None or span.start < self.ended):
                self._not_a_step(span, self.text[span.start : span.end])
            else:
                self.around.note(span)
        missing = missing_markers(
            Span(self.first, self.last),
            self.reader.line_start(self.first),
            lacks_start=self.started is None,
            lacks_end=self.ended is None,
        )
        if missing is not None:
            self.reader.diagnostics.append(missing)
