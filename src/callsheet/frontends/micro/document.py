"""Parses a text of Micro-CLI: its commands and groups, and the lines around them.

In: a text. Out: steps, comments and diagnostics. Commands are numbered S1, S2, … in their order; fences,
prose, comments, bullets and list numbers are not counted. Each line that is left out has a diagnostic.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from callsheet import lazy
from callsheet.diagnostics import Diagnostic, Severity, Source, Span
from callsheet.frontends.ltp.words import MARKER, PARALLEL, header_of
from callsheet.frontends.micro.commands import (
    DECORATION,
    FENCE,
    HEAD,
    Kind,
    Lines,
    read_command,
    unknown_verb,
)
from callsheet.frontends.micro.values import Scope
from callsheet.frontends.unseen import hidden_characters
from callsheet.frontends.values import ParseResult, Reader, Stop
from callsheet.frontends.values.reader import NAME, comment_text, shown
from callsheet.ir import Plan, Step
from callsheet.ir.gc_pause import gc_paused

MAX_ERRORS = 1_000

_MEANT_OUTPUT = lazy.pattern(rf">[ \t]*\$?({NAME})")
_VARIABLE = lazy.pattern(rf"\$?{NAME}")
_FIRST_WORD = lazy.pattern(r"[?@]?[\w-]*")
_TICKS = lazy.pattern(r"`+")
_HEAD_OF_BODY = lazy.pattern(r"[ \t]*\??(?P<word>if|elif|for|foreach|while)\b", re.IGNORECASE)
"""How a condition or a loop begins, whose commands are on other lines if its line ends in `:` or `{`."""


@dataclass(slots=True)
class Statement:
    """A line that is or may be a command: its step, or None after an error, and its diagnostics."""

    span: Span
    block: int
    step: Step | None
    label: int | None
    diagnostics: list[Diagnostic]


@dataclass(slots=True)
class Document:
    """The parsing of one text: its results so far, and the state of the parser."""

    text: str
    known: set[str] = field(default_factory=set[str])
    reader: Reader = field(init=False)
    scope: Scope = field(init=False)
    steps: list[Step] = field(default_factory=list[Step], init=False)
    diagnostics: list[Diagnostic] = field(default_factory=list[Diagnostic], init=False)
    comments: list[str] = field(default_factory=list[str], init=False)
    """Comments for the next step; at the end, those after the last step."""
    meta: dict[str, str] = field(default_factory=dict[str, str], init=False)
    lost: list[Span] = field(default_factory=list[Span], init=False)
    _lines: Lines = field(default_factory=Lines, init=False)
    _statements: list[Statement] = field(default_factory=list[Statement], init=False)
    _prose: list[tuple[Span, int]] = field(default_factory=list[tuple[Span, int]], init=False)
    _block: int = field(default=0, init=False)
    """The number of the current fenced block, 0 outside of one."""
    _blocks: int = field(default=0, init=False)
    _group: int | None = field(default=None, init=False)
    _groups: int = field(default=0, init=False)
    _group_start: int = field(default=0, init=False)
    _group_first: int = field(default=0, init=False)
    _nested: int = field(default=0, init=False)
    _bodies: int = field(default=0, init=False)
    """How many bodies in braces were reported and are not closed yet."""
    _in_head: bool = field(default=True, init=False)
    _same_line: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.reader = Reader(self.text, 1 if self.text.startswith("\ufeff") else 0)
        self.scope = Scope(self.reader, self.known)

    def read(self) -> None:
        """Parse the text to its end."""
        reader, size = self.reader, len(self.text)
        while True:
            char = reader.skip()
            if char == "\n":
                self._in_head = self._in_head and self._same_line
                self._same_line = False
                reader.pos += 1
            elif reader.pos >= size:
                break
            elif reader.errors >= MAX_ERRORS:
                reader.error(
                    "MIC006", f"the rest is not checked after {MAX_ERRORS:,} errors", reader.pos, size
                )
                break
            else:
                self._read_line(char)
                self._same_line = True
        self._finish()

    def _read_line(self, char: str) -> None:
        reader, text, pos = self.reader, self.text, self.reader.pos
        if char == "#":
            self._read_comment()
        elif char == "}":
            self._close_group()
        elif char in "`~" and (fence := FENCE.match(text, pos)):
            self._toggle_fence(fence)
        elif char == "`" and self._same_line and (ticks := _TICKS.match(text, pos)):
            reader.pos = ticks.end()
        elif char in "@Pp" and (group := PARALLEL.match(text, pos)):
            self._open_group(group)
        elif char in "Pp*`" and (marker := MARKER.match(text, pos)):
            self._pass_over(marker)
        else:
            self._read_statement()

    def _pass_over(self, marker: re.Match[str]) -> None:
        self.reader.loose("MIC104", "the markers belong to LTP text", *marker.span("word"), "")
        self.reader.pos = marker.end()

    # ------------------------------------------------------------ lines that are no commands

    def _read_comment(self) -> None:
        reader = self.reader
        start, reader.pos = reader.pos, reader.line_end(reader.pos)
        line = self.text[start + 1 : reader.pos].removesuffix("\r").removeprefix(" ")
        head = HEAD.match(line) if self._in_head else None
        if head is None:
            self._in_head = False
            self.comments.append(comment_text(self.text[start : reader.pos]))
            return
        name, content = head.groups()
        self.meta[name] = f"{self.meta[name]}\n{content}" if name in self.meta else content

    def _toggle_fence(self, fence: re.Match[str]) -> None:
        self.reader.loose("MIC101", "commands have no code fence", *fence.span(), "")
        self.reader.pos = fence.end()
        self._in_head = self._in_head and not self._block
        if self._block:
            self._block = 0
        else:
            self._blocks += 1
            self._block = self._blocks

    def _add_prose(self, span: Span) -> None:
        """Record a line that is no command; adjacent ones cause one diagnostic."""
        if self._prose:
            before, block = self._prose[-1]
            if block == self._block and not self.text[before.end : span.start].strip():
                self._prose[-1] = (before.to(span), block)
                return
        self._prose.append((span, self._block))

    # ------------------------------------------------------------ groups

    def _open_group(self, match: re.Match[str]) -> None:
        reader = self.reader
        reader.pos = match.end()
        self._in_head = False
        if self._group is not None:
            reader.error(
                "MIC007",
                "a @PARALLEL group cannot be inside another",
                *match.span(),
                help="close the outer group first; its commands run concurrently anyway",
            )
            self._nested += 1
            return
        self._group, self._groups = self._groups, self._groups + 1
        self._group_start, self._group_first = match.start(), len(self._statements)

    def _close_group(self) -> None:
        reader = self.reader
        pos = reader.pos
        reader.pos += 1
        if self._group is None and self._bodies:
            self._bodies -= 1
        elif self._group is None:
            help_ = "remove it, or write @PARALLEL { before"
            reader.error("MIC009", "this } does not close a group", pos, pos + 1, help=help_)
        elif self._nested:
            self._nested -= 1
        else:
            if self._group_first == len(self._statements):
                reader.error(
                    "MIC010", "this group has no commands", self._group_start, pos + 1, help="remove it"
                )
            self._group = None

    # ------------------------------------------------------------ commands

    def _read_statement(self) -> None:
        reader, text = self.reader, self.text
        pos = reader.pos
        end = reader.line_end(pos)
        decoration = DECORATION.match(text, pos) if not self._same_line or self._group is not None else None
        start, number = pos, None
        if decoration is not None:
            start, number = decoration.end(), decoration["number"]
            marker = MARKER.match(text, start)
            if marker is not None:
                self._pass_over(marker)
                return
        kind = self._lines.kind(text, start, end, self.known, labelled=number is not None)
        if kind is Kind.PROSE and not self._same_line:
            reader.pos = end
            self._add_prose(Span(pos, pos + len(text[pos:end].rstrip())))
            return
        before = len(reader.diagnostics)
        if start > pos and number is None:
            reader.loose("MIC101", "a command has no bullet before it", pos, start, "")
        elif start > pos:
            reader.loose("MIC101", "commands are numbered, not labelled", pos, start, "")
        reader.pos = start
        step = self._read_command(kind, pos)
        diagnostics = reader.diagnostics[before:]
        del reader.diagnostics[before:]
        label = None if number is None else int(number)
        self._statements.append(
            Statement(Span(pos, max(reader.pos, start)), self._block, step, label, diagnostics)
        )
        self._in_head = False

    def _read_command(self, kind: Kind, pos: int) -> Step | None:
        """Parse the command at the position; after an error skip to the end of the line and return None."""
        reader, text = self.reader, self.text
        start, comments = reader.pos, self.comments
        try:
            if kind is not Kind.COMMAND:
                raise self._no_command(start)
            step = read_command(self.scope, comments, self._group)
        except Stop:
            reader.depth = 0
            self._explain_body(start)
            wrong = reader.diagnostics[-1].span
            at = reader.pos if wrong is None else min(reader.pos, wrong.start)
            reader.pos = reader.line_end(max(at, start))
            meant = _MEANT_OUTPUT.search(text, start, reader.pos)
            if meant is not None:
                self.known.add(meant[1])
            self.lost.append(Span(pos, reader.pos))
            return None
        finally:
            if comments:
                self.comments = []
        if step.output is not None:
            self.known.add(step.output.var)
        return step

    def _explain_body(self, start: int) -> None:
        """Where the line begins a body below it, say that instead of the last error."""
        head = _HEAD_OF_BODY.match(self.text, start)
        line = "" if head is None else self.text[start : self.reader.line_end(start)].rstrip()
        if head is None or not line.endswith((":", "{")):
            return
        word, rest = head["word"].lower(), line[head.end() - start : -1].strip()
        if word == "while":
            before, opening = "repeat the command in the text", f"repeat (max=30) while ({rest}) {{"
        elif word.startswith("for"):
            before, opening = f"write {shown(f'foreach {rest}')} : before each", f"foreach {rest} {{"
        else:
            test = f"{rest} notempty" if _VARIABLE.fullmatch(rest) else rest
            before = f"write {shown(f'?if {test}')} : before each"
            opening = f"if {rest.removesuffix('notempty').rstrip()} {{"
        self.reader.diagnostics[-1] = Diagnostic(
            "MIC021",
            Severity.ERROR,
            "the commands below are not the body of this line",
            Span(start, start + len(line)),
            f"{before}; or begin the text with # ltp: 2, and write {shown(opening)} and }} around them",
        )
        self._bodies += line.endswith("{")

    def _no_command(self, start: int) -> Stop:
        word = _FIRST_WORD.match(self.text, start)
        if word is not None and word[0].strip("?@"):
            return unknown_verb(self.reader, start, word.end())
        end = self.reader.line_end(start)
        return self._not_a_command(Span(start, start + len(self.text[start:end].rstrip())))

    def _not_a_command(self, span: Span) -> Stop:
        written = shown(self.text[span.start : span.end])
        help_ = "a command begins with a verb: search, respond, …; a comment begins with #"
        stop = self.reader.error("MIC002", f"this line is not a command: {written}", *span, help=help_)
        self._explain_body(span.start)
        return stop

    # ------------------------------------------------------------ the end

    def _finish(self) -> None:
        reader = self.reader
        if self._group is not None:
            start = self._group_start
            help_ = "write } on a line of its own after the last command of the group"
            reader.error(
                "MIC008", "this group is not closed: } is missing", start, reader.line_end(start), help=help_
            )
        block = next((s.block for s in self._statements if s.block and s.step is not None), 0)
        plan = [s for s in self._statements if s.block == block]
        for statement in self._statements if block else ():
            if statement.block != block:
                self._leave_out(statement)
        first, last = (plan[0].span.start, plan[-1].span.end) if plan else (0, 0)
        for span, where in self._prose:
            if where == block and first < span.start < last:
                self._not_a_command(span)
            else:
                reader.loose("MIC102", "this is not part of the plan and is ignored", *span, "")
        self.diagnostics = reader.diagnostics
        self._number(plan)
        if not plan and not any(d.is_error for d in self.diagnostics):
            reader.error(
                "MIC001",
                "no command was found in this text",
                0,
                len(self.text),
                help='a command is written search "words" > name',
            )

    def _leave_out(self, statement: Statement) -> None:
        """Report a line outside the fence of the plan: as an error if it is a command, else as a hint."""
        if statement.step is None:
            self.lost = [span for span in self.lost if span != statement.span]
            self.reader.loose("MIC102", "this is not part of the plan and is ignored", *statement.span, "")
            return
        self.reader.error(
            "MIC003",
            "this command is outside the code fence of the plan",
            *statement.span,
            help="write all commands of the plan in one fence, or without any",
        )

    def _number(self, plan: list[Statement]) -> None:
        for number, statement in enumerate(plan, 1):
            step_id = f"S{number}"
            self.diagnostics.extend(replace(d, step=step_id) for d in statement.diagnostics)
            if statement.label not in {None, number}:
                message = f"this command is {step_id}, not S{statement.label}"
                help_ = "commands are numbered in order from S1; write them without labels"
                self.diagnostics.append(
                    Diagnostic("MIC020", Severity.ERROR, message, statement.span, help_, None, step_id)
                )
            if statement.step is not None:
                self.steps.append(replace(statement.step, id=step_id))


_LARGE = 20_000
"""From this many characters on the cyclic garbage collector is paused."""


def parse_micro(
    text: str, name: str = "<plan>", *, strict: bool = False, variables: Iterable[str] = ()
) -> ParseResult:
    """Parse Micro-CLI. `name` is the name of the text in diagnostics; `variables` are set before it runs.

    `strict` makes spellings that are not canonical errors.

    >>> plan = parse_micro('search "tea" > hits\\nrespond hits').require()
    >>> [step.id for step in plan.steps], plan.steps[1].action.values
    (['S1', 'S2'], (Ref(name='hits', path=()),))
    """
    if header_of(text) is not None:
        from callsheet.frontends.micro.blocks import parse_blocks  # noqa: PLC0415 - only for version 2

        return parse_blocks(text, name, strict=strict)
    with gc_paused(len(text) >= _LARGE):
        return _parse(text, name, strict, variables)


def _parse(text: str, name: str, strict: bool, variables: Iterable[str]) -> ParseResult:
    document = Document(text, set(variables))
    document.read()
    document.diagnostics.extend(hidden_characters(text))
    meta = document.meta
    partial = Plan(
        tuple(document.steps),
        id=meta.get("id"),
        title=meta.get("title"),
        goal=meta.get("goal"),
        comments=tuple(document.comments),
    )
    return ParseResult.of(partial, document.diagnostics, Source(name, text), document.lost, strict=strict)
