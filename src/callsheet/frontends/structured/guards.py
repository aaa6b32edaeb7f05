"""Reads the statements that have blocks, from ?IF to @PARALLEL, and their short forms with THEN.

In: a reader behind the word, the id, where the line begins, and the comments so far. Out: the statement with
its blocks, or `Stop` after a diagnostic.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from callsheet import lazy
from callsheet.diagnostics import Edit, Fix
from callsheet.diagnostics.diagnostic import span_of
from callsheet.frontends.structured.failure import read_recovery, tried
from callsheet.frontends.structured.lines import SIMPLE, gap_before
from callsheet.frontends.structured.statements import read_act
from callsheet.frontends.values.reader import replace as replace_text
from callsheet.ir.expr import Literal
from callsheet.ir.expression import Expression, Variable
from callsheet.ir.tree import (
    Act,
    Branch,
    Ends,
    Foreach,
    If,
    Into,
    Invoke,
    Parallel,
    Recovery,
    Repeat,
    Say,
    Statement,
    Try,
    Word,
)

if TYPE_CHECKING:
    from callsheet.frontends.structured.blocks import BlockReader

_COUNT = lazy.pattern(r"\d{1,9}\b(?!\.)")
_REPEAT: Final = "write ?REPEAT (max=30) { … } UNTIL (condition), or ?REPEAT (max=30) WHILE (condition) { … }"


def read_if(reader: BlockReader, own: str, start: int, comments: list[str]) -> If:
    """`?IF (condition) { … } ELSE IF (condition) { … } ELSE { … }`, or `?IF (condition) THEN statement`."""
    condition = reader.condition("?IF")
    reader.head_comments(start, comments)
    at = reader.pos
    if reader.takes("THEN"):
        branch = Branch(condition, (_read_short(reader, comments),), reader.since(start))
        return If(own, (branch,), None, bool(own), span=reader.since(start))
    opening, remark = reader.open_block("?IF (condition)")
    made = [Branch(condition, reader.block(opening, comments), span_of((start, at)))]
    otherwise = None
    while word := reader.goes_on("ELSE", "ELIF", "ELSEIF"):
        begin = reader.pos
        if word != "ELSE":
            reader.loose("LTP106", f"{word} is written ELSE IF", begin - len(word), begin, "ELSE IF")
        if word != "ELSE" or reader.word().upper().lstrip("?") == "IF":
            reader.pos += len(reader.word()) if word == "ELSE" else 0
            inner = reader.condition("ELSE IF")
            reader.head_comments(begin, comments)
            at = reader.pos
            made.append(Branch(inner, reader.inner("ELSE IF (condition)", comments), span_of((begin, at))))
            continue
        otherwise = reader.inner("ELSE", comments)
        break
    return If(own, tuple(made), otherwise, bool(own), remark=remark, span=reader.since(start))


def _read_short(reader: BlockReader, comments: list[str], *, of_loop: bool = False) -> Statement:
    """The one statement after THEN."""
    char = reader.skip()
    start = reader.pos
    own = reader.id()
    word = reader.usual(reader.word())
    if char == "{":
        fix = Fix(
            "remove THEN", (Edit(span_of((gap_before(reader.text, reader.pos).start - 4, reader.pos)), ""),)
        )
        raise reader.error("LTP204", "a block has no THEN before it", help="write ?IF (condition) {", fix=fix)
    if reader.text.startswith("@", reader.pos) and word not in {"@RESPOND", "@PARALLEL"}:
        return read_act(reader, own, start, comments)
    read = reader.reader_of(word)
    allowed = {"CALL"} if of_loop else {"CALL", "LET", "SET", "REQUIRE", *SIMPLE, "@RESPOND"}
    if read is None or word not in allowed:
        what = "a call or CALL" if of_loop else "a call or a simple statement"
        help_ = "write a block: { at the end of the line, the statements below, then }"
        raise reader.error("LTP014", f"THEN is followed by {what} on the same line", help=help_)
    reader.pos += len(reader.word())
    return read(reader, own, start, comments)


def read_foreach(reader: BlockReader, own: str, start: int, comments: list[str]) -> Foreach:
    """`?FOREACH ($x IN list) { … } > $list`, or with THEN and a call."""
    in_brackets = reader.skip() == "("
    opening = reader.pos
    if in_brackets:
        reader.open()
    elif reader.at_line_end():
        raise reader.error("LTP016", "the list is missing", help="write ?FOREACH ($x IN $list) {")
    var = "" if reader.skip() == "(" else reader.variable("for the item")
    if reader.skip() in {"(", ","}:
        help_ = "an item has one name: ?FOREACH ($pair IN $table.items()) {, then $pair[0] and $pair[1]"
        raise reader.error("LTP016", "?FOREACH names one variable", help=help_)
    if not reader.takes("IN"):
        raise reader.error("LTP016", "IN is missing", help="write ?FOREACH ($x IN $list) {")
    if reader.skip() == ")":
        raise reader.error("LTP016", "the list is missing", help="write ?FOREACH ($x IN $list) {")
    source = reader.expression(in_brackets=in_brackets)
    if in_brackets:
        reader.expect(")", "after the list of ?FOREACH")
        reader.depth -= 1
    else:
        written = f"({reader.text[opening : reader.pos]})"
        reader.loose("LTP112", "the list is written in parentheses", opening, reader.pos, written)
    limit, in_order, together, ends, as_done, most = _loop_options(reader)
    reader.head_comments(start, comments)
    if reader.takes("THEN"):
        return _short_loop(
            reader,
            Foreach(
                own,
                var,
                source,
                (),
                limit,
                in_order,
                together,
                most,
                is_named=bool(own),
                ends=ends,
                as_done=as_done,
            ),
            start,
            comments,
        )
    brace, remark = reader.open_block("?FOREACH ($x IN $list)")
    body = reader.block(brace, comments)
    into = reader.into() if reader.goes_on(">") else None
    recovery = read_recovery(reader, comments)
    return Foreach(
        own, var, source, body, limit, in_order, together, most, into, recovery, bool(own),
        remark=remark, span=reader.since(start), ends=ends, as_done=as_done,
    )  # fmt: skip


def _loop_options(reader: BlockReader) -> tuple[Expression | None, bool, bool, Ends, bool, int | None]:
    limit, in_order, together, ends, as_done, most = None, False, False, Ends.ALL, False, None
    while True:
        if reader.takes("LIMIT"):
            reader.skip()
            limit = reader.expression()
        elif reader.takes("IN"):
            if not reader.takes("ORDER"):
                raise reader.error("LTP016", "ORDER is missing after IN", help="write IN ORDER")
            in_order = True
        elif reader.takes("TOGETHER"):
            together = True
            ends = next((one for one in (Ends.FAILED, Ends.FIRST) if reader.takes(one.value)), Ends.ALL)
            as_done = reader.takes("AS")
            if as_done and not reader.takes("DONE"):
                raise reader.error("LTP016", "DONE is missing after AS", help="write TOGETHER AS DONE")
            if as_done and ends is Ends.FIRST:
                raise reader.error("LTP016", "TOGETHER FIRST gives one result", help="leave AS DONE out")
            if reader.takes("MAX"):
                reader.skip()
                count = _COUNT.match(reader.text, reader.pos)
                if count is None or not int(count[0]):
                    raise reader.error(
                        "LTP016", "MAX is followed by a whole number", help="write TOGETHER MAX 5"
                    )
                reader.pos, most = count.end(), int(count[0])
        else:
            break
    if in_order and together:
        raise reader.error("LTP016", "items run IN ORDER or TOGETHER, not both")
    return limit, in_order, together, ends, as_done, most


def _short_loop(reader: BlockReader, loop: Foreach, start: int, comments: list[str]) -> Foreach:
    """`?FOREACH (…) THEN @TOOL (…) > $list`: the results of the calls are the list."""
    made = _read_short(reader, comments, of_loop=True)
    into = made.into if isinstance(made, Act | Invoke) else None
    if not isinstance(made, Act | Invoke) or into is None:
        return replace(loop, body=(made,), span=reader.since(start))
    name = reader.free_name(f"{loop.var}_result")
    item = replace(made, into=Into(name, None, into.span))
    body = (item, Say("", Word.YIELD, (Variable(name, into.span),), span=into.span))
    return replace(loop, body=body, into=into, span=reader.since(start))


def read_repeat(reader: BlockReader, own: str, start: int, comments: list[str]) -> Repeat:
    """`?REPEAT (max=n) { … } UNTIL (condition)`, or with WHILE before the block."""
    reader.skip()
    at = reader.pos
    values, named = reader.arguments("?REPEAT")
    options = dict(named)
    if values or not options.keys() <= {"max", "every"} or "max" not in options:
        message = "?REPEAT has a bound: (max=…), and perhaps every=…"
        raise reader.error("LTP212", message, at, max(at, reader.pos), help=_REPEAT)
    most = None if options["max"] == Literal("run") else options["max"]
    condition = reader.one_value("WHILE") if reader.takes("WHILE") else None
    reader.head_comments(start, comments)
    opening, remark = reader.open_block("?REPEAT (max=…)")
    body = reader.block(opening, comments)
    begin = reader.pos
    until = reader.one_value("UNTIL") if reader.goes_on("UNTIL") else None
    if (condition is None) == (until is None):
        message = "?REPEAT has one of UNTIL (…) behind its } and WHILE (…) before its {"
        raise reader.error("LTP212", message, max(begin - 1, 0), begin, help=_REPEAT)
    reader.head_comments(begin, comments)
    recovery = read_recovery(reader, comments)
    return Repeat(
        own, most, body, options.get("every"), until, condition, recovery, bool(own),
        remark=remark, span=reader.since(start),
    )  # fmt: skip


def read_try(reader: BlockReader, own: str, start: int, comments: list[str]) -> Try:
    """`TRY [WITHIN (e)] { … } ON_FAIL { … } FINALLY { … }`."""
    within = reader.one_value("WITHIN") if reader.takes("WITHIN") else None
    opening, remark = reader.open_block("TRY")
    body = reader.block(opening, comments)
    at = reader.pos
    recovery = read_recovery(reader, comments, may_undo=True)
    if recovery is None and within is None:
        word = reader.word()
        if word.upper() in {"CATCH", "EXCEPT", "RESCUE"}:
            at = reader.pos
            fix = replace_text("write ON_FAIL", at, at + len(word), "ON_FAIL")
            raise reader.error("LTP205", f"{word} is written ON_FAIL", at, at + len(word), fix=fix)
        help_ = "write } ON_FAIL { … }, or } FINALLY { … }"
        raise reader.error("LTP205", "TRY has neither ON_FAIL nor FINALLY", at - 1, at, help=help_)
    made = Try(own, body, recovery or Recovery(), bool(own), remark=remark, span=reader.since(start))
    return tried(replace(made, within=within))


def read_parallel(reader: BlockReader, own: str, start: int, comments: list[str]) -> Parallel:
    """`@PARALLEL [STOP] { … }`."""
    stops = reader.takes("STOP")
    opening, remark = reader.open_block("@PARALLEL")
    members = reader.block(opening, comments)
    recovery = read_recovery(reader, comments)
    span = reader.since(start)
    return Parallel(own, members, recovery, bool(own), remark=remark, span=span, stops=stops)
