"""Reads blocks of version 2, line by line.

In: a cursor at the beginning of a line. Out: statements without the ids that the text leaves out. A statement
that cannot be read is reported and left out; reading resumes at the next one, inside its blocks too.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final, TypeAlias

from callsheet import lazy
from callsheet.diagnostics import Diagnostic, Edit, Fix, Severity, Span, did_you_mean
from callsheet.diagnostics.diagnostic import span_of
from callsheet.frontends.expressions.cursor import NEVER_ABSENT, WRONG_OPERATORS
from callsheet.frontends.structured.cursor import Cursor
from callsheet.frontends.structured.failure import read_recovery
from callsheet.frontends.structured.guards import read_foreach, read_if, read_parallel, read_repeat, read_try
from callsheet.frontends.structured.lines import (
    CONTINUATIONS,
    ID,
    OTHER_WORDS,
    RESERVED_TOOLS,
    SIMPLE,
    VARIABLE,
    WORDS,
    gap_before,
    opens_block,
    statement_end,
)
from callsheet.frontends.structured.statements import (
    read_act,
    read_assign,
    read_compute,
    read_invoke,
    read_let,
    read_require,
    read_say,
    with_query_parameters,
)
from callsheet.frontends.values.reader import NAME, Stop, shown
from callsheet.frontends.values.reader import replace as replace_text
from callsheet.ir import canonical_tool_name
from callsheet.ir.expr import Literal
from callsheet.ir.expression import Expression
from callsheet.ir.tree import (
    Act,
    Again,
    Assign,
    Block,
    Handler,
    Into,
    Let,
    Recovery,
    Say,
    Statement,
    Try,
    Use,
    Word,
    recovery_of,
)

StatementReader: TypeAlias = "Callable[[BlockReader, str, int, list[str]], Statement]"
"""Reads a statement behind its word, given its id, where its line begins, and the comments so far."""

MAX_NESTING: Final = 50
"""How deep blocks nest at most."""
MAX_ERRORS: Final = 1_000

_ID = lazy.pattern(rf"(\**)({ID})(\**)[ \t]*:(\**)(?!//)(?=[ \t]*[@?A-Za-z])")
_USUAL_CALL = lazy.pattern(rf"(?:({ID}): )?@(?!(?:{'|'.join(sorted(RESERVED_TOOLS))})\b)([A-Z0-9_]+) ?\(")
_USUAL_TAIL = lazy.pattern(
    rf"(?: > \$({NAME}))?(?: ON_FAIL @RETRY\(([0-9]{{1,9}})\))?(?=\n(?!\s*(?i:ON_FAIL|FINALLY))|\Z)"
)
_BLANKS = lazy.pattern(r"[ \t\r\n]*")
_STORES = lazy.pattern(r">\s*\$?[A-Za-z_]\w*\s*$")
_CALLS = lazy.pattern(r"=\s*@?([A-Za-z_]\w*)\s*\(")
_GIVEN = lazy.pattern(rf"\$({NAME})([.\[][^\s=]*)?[ \t]*[:+-]?=(?!=)[ \t]*(?:@({NAME}))?")
_BRACE_BELOW = lazy.pattern(r"[ \t\r]*\n\s*\{(?=[ \t\r]*(?:$|\n|#))")
_WITH_ID: Final = frozenset({Word.RESPOND, Word.TERMINATE, Word.REPLAN})


class BlockReader(Cursor):
    """Reads blocks; `lost` has the spans of statements that could not be read."""

    __slots__ = ("_names", "head", "is_stopped", "lost", "nesting")

    def __init__(self, text: str, pos: int = 0) -> None:
        super().__init__(text, pos)
        self.lost: list[Span] = []
        self.nesting = 0
        self.head = pos
        """Where the line of the current statement begins, or its part behind the last `}`."""
        self.is_stopped = False
        """Whether reading ended before the end of the text, so that open blocks are no errors."""
        self._names: set[str] | None = None

    def block(self, opening: Span | None, comments: list[str], first: list[str] | None = None) -> Block:
        """The statements up to the `}` of a block, which is consumed, or up to the end of the text.

        `opening` is the place of the `{`, None for the main body. Comments after the last statement become
        some of it; those of an empty block go to `comments`. `first` has comments of the first statement.
        """
        self.nesting += 1
        if self.nesting > MAX_NESTING:
            span = opening or span_of((self.pos, self.pos))
            help_ = "put the inner part into a plan of its own: PLAN name (…) { … }"
            self.error("LTP214", f"blocks nest more than {MAX_NESTING} deep", *span, help=help_)
            self.stop()
        body: list[Statement] = []
        waiting = [] if first is None else first
        while (char := self.skip()) != "}" or opening is None:
            if not char:
                if opening is not None and not self.is_stopped:
                    help_ = "write } on a line of its own after the last statement of the block"
                    self.error("LTP202", "this block is not closed", *opening, help=help_)
                break
            elif char == "\n":
                self.pos += 1
            elif char == "#":
                waiting.append(self.remark() or "")
            elif self.errors >= MAX_ERRORS:
                message = f"the rest is not checked after {MAX_ERRORS:,} errors"
                self.error("LTP006", message, self.pos, len(self.text))
                self.stop()
            else:
                statement = self.one(waiting, is_main=opening is None)
                if statement is not None:
                    body.append(statement)
                    waiting.clear()
        if opening is not None and self.text.startswith("}", self.pos):
            self.pos += 1
        self.head = self.pos
        self.nesting -= 1
        if opening is None:
            self.comments = waiting
        elif waiting and body:
            body[-1] = replace(body[-1], comments=(*body[-1].comments, *waiting))
        else:
            comments.extend(waiting)
        return tuple(body)

    def stop(self) -> None:
        """Read no further."""
        self.pos = len(self.text)
        self.is_stopped = True

    def one(self, comments: list[str], *, is_main: bool) -> Statement | None:
        """The statement at the position with its line; None after an error or a declaration."""
        start, nesting = self.pos, self.nesting
        self.head = start
        usual = _USUAL_CALL.match(self.text, start)
        try:
            if usual is not None:
                self.found_call()
                return self.usual_call(usual, comments)
            if self.text[start] == "}":
                self.pos += 1
                raise self.error("LTP203", "this } closes no block", start, start + 1)
            if self.declares(comments, is_main=is_main):
                return None
            statement = self.statement(comments)
        except Stop:
            self.depth, self.nesting = 0, nesting
            self.recover(start)
            self.comments.clear()
            comments.clear()
            return None
        return replace(statement, comments=tuple(comments)) if comments else statement

    def found_call(self) -> None:
        """Note that the text has a statement."""

    def usual_call(self, head: re.Match[str], comments: list[str]) -> Statement:
        """A call whose head is usual: a fast path with the same result as `statement`."""
        start = head.start()
        own, tool = head[1] or "", head[2]
        self.pos = head.end() - 1
        positional, named = self.arguments(f"@{tool}")
        if tool == "SELECT":
            positional, named = with_query_parameters(tool, positional, named)
        tail = _USUAL_TAIL.match(self.text, self.pos)
        if tail is None or self.text.find("#", start, self.pos) >= 0:
            self.head_comments(start, comments)
            into = self.into()
            recovery = read_recovery(self, comments)
            span = self.since(start)
            made = Act(own, tool, positional, named, into, recovery, is_named=bool(own), span=span)
            made = self.ended(made, comments)
            return replace(made, comments=tuple(comments)) if comments else made
        self.pos = tail.end()
        into = None if tail[1] is None else Into(tail[1], None, span_of((tail.start(1) - 3, tail.end(1))))
        recovery = None if tail[2] is None else Recovery(Again(int(tail[2])))
        self.comments.clear()
        return Act(
            own, tool, positional, named, into, recovery, None, bool(own), tuple(comments),
            span=span_of((start, self.pos)),
        )  # fmt: skip

    def declares(self, comments: list[str], *, is_main: bool) -> bool:
        """Read a declaration at the position, if its text has any; whether there was one."""
        del comments, is_main
        return False

    def recover(self, start: int) -> None:
        """Go on behind a statement that cannot be read; what is in its blocks is read for its errors."""
        while True:
            head = self.head
            if self.is_stopped:
                break
            self.pos = end = statement_end(self.text, head)
            if not opens_block(self.text, head, end):
                break
            brace = self.text.rfind("{", head, end)
            self.block(span_of((brace, brace + 1)), [])
        self.lost.append(span_of((start, max(start, self.pos))))

    def open_block(self, after: str) -> tuple[Span, str | None]:
        """Consume `{` at the end of its line; gives its place and the comment behind it."""
        char = self.skip()
        if char in {"", "\n"} and (below := _BRACE_BELOW.match(self.text, self.pos)) is not None:
            gap = Span(gap_before(self.text, self.pos).start, below.end() - 1)
            self.loose("LTP121", "{ stands at the end of the line of its block", gap.start, gap.end, " ")
            self.pos = below.end() - 1
            char = "{"
        start = self.pos
        if char != "{":
            found = shown(self.text[start : self.line_end(start)], 20)
            what = f"before {found}" if found else "at the end of the line"
            help_ = f"a block is written {after} {{, then its statements on lines of their own, then }}"
            raise self.error("LTP204", f"{{ is missing {what}", help=help_)
        self.pos += 1
        remark = self.remark()
        if self.skip() not in {"", "\n"}:
            fix = Fix("begin a new line", (Edit(span_of((start + 1, self.pos)), "\n"),))
            message = "a block begins on the line after its {"
            help_ = "each statement of a block, and its }, stands on a line of its own"
            raise self.error("LTP204", message, start, start + 1, help=help_, fix=fix)
        return span_of((start, start + 1)), remark

    def inner(self, after: str, comments: list[str]) -> Block:
        """`{ … }` at the position."""
        opening, remark = self.open_block(after)
        return self.block(opening, comments, [] if remark is None else [remark])

    def goes_on(self, *words: str) -> str:
        """The word, or sign, behind a block, consumed if it is one of `words`; "" if it is none of them.

        It may begin the next line, with a hint.
        """
        self.skip()
        start = self.pos
        if self.text[start : start + 1] in {"", "\n"}:
            blanks = _BLANKS.match(self.text, start)
            self.pos = start if blanks is None else blanks.end()
        word = ">" if self.text.startswith(">", self.pos) else self.word()
        if word.upper() not in words:
            self.pos = start
            return ""
        if self.pos > start:
            gap = gap_before(self.text, self.pos)
            message = f"{word} stands on the line of what it goes on with"
            fix = Fix("join the lines", (Edit(gap, " "),))
            self.diagnostics.append(
                Diagnostic(
                    "LTP121", Severity.HINT, message, span_of((self.pos, self.pos + len(word))), None, fix
                )
            )
        self.head = self.pos
        if word.upper() in {"ELIF", "ELSEIF"}:
            self.pos += len(word)
        elif word != ">":
            self.takes(word.upper())
        return word.upper()

    def statement(self, comments: list[str]) -> Statement:
        """The statement at the position, with the rest of its line."""
        start = self.head = self.pos
        own = self.id()
        char = self.skip()
        word = self.word()
        upper = self.usual(word)
        made: Statement
        if char == "@" and upper not in {"@RESPOND", "@PARALLEL"}:
            made = read_act(self, own, start, comments)
        else:
            read = self.reader_of(upper)
            if read is None:
                raise self.stray(start, word)
            begin = self.pos
            self.pos += len(word)
            if own and upper.lstrip("@?") in _NAMELESS:
                self.loose("LTP123", f"{upper} is written without an id", start, begin, "")
                own = ""
            made = read(self, own, start, comments)
        return self.ended(made, comments)

    def ended(self, made: Statement, comments: list[str]) -> Statement:
        """The statement with the comment at the end of its line, which it must reach."""
        word = self.word().upper()
        if word in {"ON_FAIL", "FINALLY"}:
            if recovery_of(made) is not None:
                raise self.error("LTP215", f"{word} cannot stand here", self.pos, self.pos + len(word))
            made = self.tried(made, comments)
        remark = self.remark()
        char = self.skip()
        if char == "}" and remark is None:
            fix = Fix("begin a new line", (Edit(gap_before(self.text, self.pos), "\n"),))
            self.error("LTP204", "a } begins a line of its own", self.pos, self.pos + 1, fix=fix)
        elif char not in {"", "\n"}:
            raise self.too_much(char)
        if remark is None:
            return made
        if made.remark is None:
            return replace(made, remark=remark)
        comments.append(remark)
        return made

    def tried(self, made: Statement, comments: list[str]) -> Statement:
        """The TRY that an ON_FAIL behind a statement without a recovery of its own is short for."""
        start = self.pos
        recovery = read_recovery(self, comments)
        if recovery is not None and isinstance(recovery.remedy, Use):
            instead = _instead(made, recovery.remedy.value)
            if instead is None:
                help_ = "USE gives another value to a statement that has one; write ON_FAIL { … }"
                raise self.error(
                    "LTP215", "there is no value that USE could replace", start, self.pos, help=help_
                )
            recovery = replace(recovery, remedy=None, handlers=(Handler((), (instead,)),))
        span = made.span and Span(made.span.start, self.pos)
        return Try("", (made,), recovery or Recovery(), span=span)

    def too_much(self, char: str) -> Stop:
        """The error for text behind a statement."""
        start, end = self.pos, self.line_end(self.pos)
        if char == ";":
            fix = replace_text("remove ;", start, start + 1, "")
            return self.error(
                "LTP019", "a statement ends at the end of its line, without ;", start, start + 1, fix=fix
            )
        if char == ")":
            fix = replace_text("remove )", start, start + 1, "")
            return self.error("LTP021", "this ) does not close a bracket", start, start + 1, fix=fix)
        if char == "?":
            is_choice = ":" in self.text[start:end]
            help_ = "c ? a : b is written a if c else b" if is_choice else NEVER_ABSENT
            return self.error(
                "LTP019", "? stands behind a field or an index: $row.title?", start, start + 1, help=help_
            )
        if char == ">":
            help_ = "LET $x = value names a value; a call, CALL, COMPUTE and ?FOREACH store with > $x"
            return self.error("LTP019", "no result is stored here", start, start + 1, help=help_)
        wrong = next((one for one in WRONG_OPERATORS if self.text.startswith(one, start)), None)
        if wrong is not None:
            right = WRONG_OPERATORS[wrong].strip()
            fix = replace_text(f"write {right}", start, start + len(wrong), right)
            return self.error("LTP201", f"{wrong} is written {right}", start, start + len(wrong), fix=fix)
        word = self.word()
        meant = did_you_mean(word.upper(), ("ON_FAIL",)) if word else ()
        if meant:
            stop = start + len(word)
            fix = replace_text("write ON_FAIL", start, stop, "ON_FAIL")
            return self.error("LTP060", f"{word} is not a word of the language", start, stop, fix=fix)
        written = shown(self.text[start:end])
        help_ = "each statement stands on a line of its own"
        return self.error("LTP019", f"the statement ends before {written}", start, end, help=help_)

    def id(self) -> str:
        """The id before the statement, consumed; "" if there is none."""
        found = _ID.match(self.text, self.pos)
        if found is None:
            return ""
        if found[1] or found[3] or found[4]:
            self.loose("LTP104", "an id has no asterisks", *found.span(), f"{found[2]}:")
        self.pos = found.end()
        return found[2]

    def usual(self, word: str) -> str:
        """A word that begins a statement in its usual spelling; another one is reported as loose."""
        upper = word.upper()
        upper = {"REPLAN": "RE-PLAN", "RE_PLAN": "RE-PLAN"}.get(upper, upper)
        after = self.text[self.pos + len(word) : self.pos + len(word) + 1]
        bare = upper.lstrip("@?")
        if bare in {"IF", "FOREACH", "REPEAT"}:
            upper = f"?{bare}"
        elif bare in {"RESPOND", "PARALLEL"}:
            upper = f"@{bare}"
        elif upper.startswith("@") and (bare in {"TERMINATE", "RE-PLAN"} and after in {"", " ", "("}):
            upper = bare
        known = upper in _READERS or upper == "GOTO"
        if known and upper != word and not (word.islower() and after in {":", "="}):
            code = "LTP105" if upper == word.upper() else "LTP106"
            self.loose(code, f"{word} is written {upper}", self.pos, self.pos + len(word), upper)
        return upper

    def stray(self, start: int, word: str) -> Stop:
        """The error for a line that is no statement."""
        at = self.pos
        end = self.line_end(at)
        upper = word.upper()
        if upper == "GOTO":
            help_ = "a jump forward is ?IF … { … } ELSE { … }, one back ?REPEAT (max=…) { … } UNTIL (…)"
            return self.error("LTP213", "version 2 has no GOTO", at, end, help=help_)
        if upper in CONTINUATIONS:
            help_ = (
                f"{upper} follows the }} of its block, or the statement that it is about, on the same line"
            )
            return self.error(
                "LTP205", f"{upper} has nothing that it goes on with", at, at + len(word), help=help_
            )
        line = self.text[start:end].rstrip()
        after = self.text[at + len(word) : end].lstrip()
        if upper in OTHER_WORDS:
            message = f"{word} is not a statement"
            help_ = f"write {OTHER_WORDS[upper]}"
            raise self.error("LTP012", message, at, at + len(word), help=help_)
        if word and word == word.lstrip("@?") and after.startswith("("):
            tool = canonical_tool_name(word)
            is_call = _STORES.search(line) is not None
            meant = () if is_call else did_you_mean(upper, tuple(sorted(WORDS)), 1)
            help_ = (
                f"did you mean {meant[0]}?" if meant else f"did you mean @{tool} (…)? A call begins with @"
            )
            return self.error("LTP012", f"{word} is not a statement", at, at + len(word), help=help_)
        if word and after.startswith("=") and not after.startswith("=="):
            call = _CALLS.match(after)
            if call is not None:
                help_ = (
                    f"the result of a call is stored with >: @{canonical_tool_name(call[1])} (…) > ${word}"
                )
                return self.error("LTP002", "a call is no value", at, end, help=help_)
            fix = replace_text("write LET $", at, at, "LET $")
            help_ = f"write LET ${word} = …"
            return self.error("LTP002", "a variable is made with LET", at, end, help=help_, fix=fix)
        given = _GIVEN.match(self.text, at, end)
        if given is not None:
            return self._without_word(given, end)
        meant = did_you_mean(upper, tuple(sorted(WORDS)), 1) if word else ()
        help_ = (
            f"did you mean {meant[0]}?"
            if meant
            else "write S1: @TOOL (arguments) > $result, or # before a comment"
        )
        return self.error(
            "LTP002", f"this line is not a statement: {shown(line)}", start, start + len(line), help=help_
        )

    def _without_word(self, given: re.Match[str], end: int) -> Stop:
        """The error for `$x = …` without LET."""
        name, path, call = given.groups()
        if path:
            help_ = f'a value is never changed in part: SET ${name} = {{"field": …}} gives it as a whole'
            return self.error(
                "LTP002", f"${name}{path} cannot be set", given.start(), given.end(2), help=help_
            )
        if call:
            help_ = f"the result of a call is stored with >: @{canonical_tool_name(call)} (…) > ${name}"
            return self.error("LTP002", "a call is no value", given.start(), end, help=help_)
        fix = replace_text("write LET", given.start(), given.start(), "LET ")
        help_ = f"write LET ${name} = …, or SET ${name} = … if there is a ${name} from outside a loop"
        return self.error("LTP002", "a variable is made with LET", given.start(), end, help=help_, fix=fix)

    def reader_of(self, word: str) -> StatementReader | None:
        """Who reads the statement that a word begins, behind the word."""
        return _READERS.get(word)

    def condition(self, of: str) -> Expression:
        """The condition of a block, which is read even if its condition cannot be."""
        start = self.pos
        try:
            return self.one_value(of)
        except Stop:
            self.depth = 0
            end = statement_end(self.text, self.head)
            if not opens_block(self.text, self.head, end):
                raise
            self.pos = self.text.rfind("{", self.head, end)
            return Literal(None, span_of((start, self.pos)))

    def free_name(self, name: str) -> str:
        """A variable's name that the text does not have: this one, or this one with a number."""
        if self._names is None:
            self._names = {found[1] for found in VARIABLE.finditer(self.text)}
        free, number = name, 1
        while free in self._names:
            number += 1
            free = f"{name}{number}"
        return free


def _instead(statement: Statement, value: Expression) -> Statement | None:
    """The statement with another value; None for one that has no value."""
    match statement:
        case Let() | Assign():
            return replace(statement, value=value)
        case Say(word=Word.YIELD | Word.RETURN | Word.RESPOND):
            return replace(statement, values=(value,))
        case _:
            return None


_NAMELESS: Final = frozenset(
    {"LET", "SET", "REQUIRE", *(word for word, kind in SIMPLE.items() if kind not in _WITH_ID)}
)
"""The statements that have no id in the text."""

_READERS: Final[dict[str, StatementReader]] = {
    "CALL": read_invoke,
    "COMPUTE": read_compute,
    "LET": read_let,
    "SET": read_assign,
    "REQUIRE": read_require,
    "?IF": read_if,
    "?FOREACH": read_foreach,
    "?REPEAT": read_repeat,
    "TRY": read_try,
    "@PARALLEL": read_parallel,
    **{word.value: partial(read_say, word) for word in Word},
}
