"""Reads what a statement says about its failure: ON_FAIL with its remedies and blocks, and FINALLY.

In: a reader behind the statement. Out: a `Recovery`, or `Stop` after a diagnostic.
"""

from __future__ import annotations

from dataclasses import replace as replace_fields
from typing import TYPE_CHECKING, NamedTuple, cast

from callsheet import lazy
from callsheet.diagnostics import did_you_mean
from callsheet.frontends.structured.lines import REMEDIES, RESERVED_KINDS
from callsheet.frontends.values.reader import NAME, Stop, replace, shown
from callsheet.ir.expr import Literal
from callsheet.ir.expression import Expression
from callsheet.ir.inverse import NotAnInverse, inverse_pair
from callsheet.ir.tree import (
    ERROR_VARIABLE,
    Again,
    Block,
    GoOn,
    Handler,
    Leave,
    Recovery,
    Remedy,
    Skip,
    Try,
    Use,
)

if TYPE_CHECKING:
    from callsheet.frontends.structured.blocks import BlockReader

_KIND = lazy.pattern(NAME)


def is_kind(word: str) -> bool:
    """Whether a failure may be of this kind."""
    return _KIND.fullmatch(word) is not None and word.upper() not in RESERVED_KINDS


def read_recovery(reader: BlockReader, comments: list[str], *, may_undo: bool = False) -> Recovery | None:
    """What is said about the failure of the statement before the position; None if nothing is.

    Only behind the block of a TRY, with `may_undo`, may it begin with UNDO.
    """
    undo: tuple[tuple[str, str], ...] | None = None
    again: Again | None = None
    remedy: Remedy | None = None
    handlers: list[Handler] = []
    while True:
        word = reader.goes_on("ON_FAIL", "FINALLY")
        if not word:
            break
        if word == "FINALLY":
            return Recovery(again, remedy, tuple(handlers), reader.inner("FINALLY", comments), undo)
        reader.skip()
        start = reader.pos
        if reader.word().upper() == "UNDO":
            is_first = undo is again is remedy is None and not handlers
            if not may_undo or not is_first:
                help_ = "write TRY { … } ON_FAIL UNDO, and behind it what else is done about the failure"
                raise reader.error(
                    "LTP060", "UNDO stands first, behind the block of a TRY", start, start + 4, help=help_
                )
            reader.pos += len("UNDO")
            undo = _read_inverses(reader)
            continue
        if reader.word().upper().lstrip("@") == "RETRY":
            if again is not None:
                raise reader.error("LTP060", "@RETRY is given once")
            again = read_retry(reader)
            if reader.at_line_end() or reader.word().upper() in {"ON_FAIL", "FINALLY"}:
                continue
        made = read_remedy(reader, comments)
        if not isinstance(made, Handler):
            reader.head_comments(start, comments)
        if remedy is not None or (handlers and not isinstance(made, Handler)):
            help_ = "a statement has one of CONTINUE, USE, SKIP and TERMINATE, or blocks"
            raise reader.error(
                "LTP060", "what a failure leads to is said once", start, reader.pos, help=help_
            )
        if isinstance(made, Handler):
            handlers.append(made)
        else:
            remedy = made
    if undo is again is remedy is None and not handlers:
        return None
    return Recovery(again, remedy, tuple(handlers), undo=undo)


def tried(one: Try) -> Try:
    """A TRY whose recovery has been read: what is said beside UNDO is about the failure behind the undo."""
    recovery = one.recovery
    rest = replace_fields(recovery, undo=None)
    if recovery.undo is None or rest == Recovery():
        return one
    inner = Try("", one.body, Recovery(undo=recovery.undo), span=one.span, within=one.within)
    return replace_fields(one, body=(inner,), recovery=rest, within=None)


class Apart(NamedTuple):
    """What `tried` was given: the block of a TRY, the inverses of its UNDO if it has one, the rest."""

    body: Block
    undo: tuple[tuple[str, str], ...] | None
    rest: Recovery
    within: Expression | None


def apart(one: Try) -> Apart:
    """What `tried` was given."""
    if one.recovery.undo is not None:
        return Apart(one.body, one.recovery.undo, Recovery(), one.within)
    match one.body:
        case (Try(is_named=False, comments=(), remark=None) as inner,) if (
            inner.recovery.undo is not None and one.within is None and one.recovery != Recovery()
        ):
            return Apart(inner.body, inner.recovery.undo, one.recovery, inner.within)
        case _:
            return Apart(one.body, None, one.recovery, one.within)


def _read_inverses(reader: BlockReader) -> tuple[tuple[str, str], ...]:
    """`(tool="inverse(argument=result.part)", …)` behind UNDO; none if it says nothing."""
    at = reader.pos
    if reader.skip() != "(":
        return ()
    values, named = reader.arguments("UNDO")
    help_ = 'write ON_FAIL UNDO (create_event="delete_event(event_id=result.id)")'
    pairs: dict[str, str] = {}
    for name, value in named:
        try:
            tool, text = inverse_pair(name, value.value if isinstance(value, Literal) else None)
        except NotAnInverse as error:
            raise reader.error("LTP061", str(error), at, reader.pos, help=help_) from None
        pairs[tool] = text
    if values or len(pairs) != len(named) or not pairs:
        raise reader.error("LTP061", "UNDO names each tool once", at, reader.pos, help=help_)
    return tuple(pairs.items())


def read_remedy(reader: BlockReader, comments: list[str]) -> Remedy | Handler:
    """What follows ON_FAIL, apart from @RETRY."""
    start = reader.pos
    if reader.skip() == "{":
        return Handler((), reader.inner("ON_FAIL", comments), span=reader.since(start))
    word = reader.word()
    bare = word.upper().lstrip("@")
    if bare in REMEDIES:
        if word != bare:
            code = "LTP105" if word.upper() == bare else "LTP106"
            reader.loose(code, f"{word} is written {bare}", reader.pos, reader.pos + len(word), bare)
        reader.pos += len(word)
        match bare:
            case "CONTINUE":
                return GoOn()
            case "SKIP":
                return Skip()
            case "USE":
                return Use(reader.one_value("USE"))
            case _:
                return Leave(reader.values("TERMINATE"))
    return read_handler(reader, start, comments)


def read_handler(reader: BlockReader, start: int, comments: list[str]) -> Handler:
    """`KIND, KIND AS $name { … }`."""
    kinds: list[str] = []
    opening = reader.pos
    in_brackets = reader.skip() == "["
    reader.pos += in_brackets
    while reader.word().upper() != "AS":
        reader.skip()
        found = _KIND.match(reader.text, reader.pos)
        if found is not None and found[0].upper() == "GOTO":
            raise no_remedy(reader, found[0], found.end())
        if found is None or found[0].upper() in RESERVED_KINDS:
            raise no_remedy(reader)
        kinds.append(found[0])
        reader.pos = found.end()
        if reader.skip() != ",":
            break
        reader.pos += 1
    if in_brackets:
        reader.expect("]", "behind the kinds of failure")
        reader.loose(
            "LTP112", "kinds of failure are written without brackets", opening, reader.pos, ", ".join(kinds)
        )
    binds = reader.variable("for the failure after AS") if reader.takes("AS") else ERROR_VARIABLE
    if kinds and reader.skip() != "{" and len(kinds) == 1:
        raise no_remedy(reader, kinds[0], reader.pos)
    body = reader.inner("ON_FAIL KIND", comments)
    return Handler(tuple(kinds), body, binds, reader.since(start))


def no_remedy(reader: BlockReader, word: str | None = None, end: int | None = None) -> Stop:
    """The error for what cannot follow ON_FAIL."""
    help_ = "write @RETRY(3), CONTINUE, USE (value), SKIP, TERMINATE (…), UNDO, or a block: ON_FAIL {"
    if word is None or end is None:
        return reader.error("LTP060", "expected what to do after ON_FAIL", help=help_)
    start = reader.text.rfind(word, 0, end)
    stop = start + len(word)
    if word.upper() == "GOTO":
        return reader.error(
            "LTP213", "version 2 has no GOTO", start, stop, help="write a block: ON_FAIL { … }"
        )
    meant = did_you_mean(word.upper(), ("RETRY", "CONTINUE", "USE", "SKIP", "TERMINATE", "UNDO"), 1)
    if not meant:
        return reader.error(
            "LTP060", f"{shown(word)} after ON_FAIL is not followed by {{", start, stop, help=help_
        )
    right = {"RETRY": "@RETRY"}.get(meant[0], meant[0])
    fix = replace(f"write {right}", start, stop, right)
    return reader.error(
        "LTP060",
        f"{shown(word)} cannot follow ON_FAIL",
        start,
        stop,
        help=f"did you mean {right}?",
        fix=fix,
    )


def read_retry(reader: BlockReader) -> Again:
    """`@RETRY(count, delay=…, backoff=…)` at the position."""
    start = reader.pos
    word = reader.word()
    if word != "@RETRY":
        reader.loose("LTP106", f"{word} is written @RETRY", start, start + len(word), "@RETRY")
    reader.pos += len(word)
    at = reader.pos
    values, named = reader.arguments("@RETRY")
    help_ = "write @RETRY(3), or @RETRY(3, delay=2, backoff=2)"
    numbers: dict[str, float] = {}
    pairs = [*(("count", value) for value in values), *named]
    for name, value in pairs:
        number = value.value if isinstance(value, Literal) else None
        is_whole = type(number) is int
        if (
            name not in {"count", "delay", "backoff"}
            or name in numbers
            or not (is_whole or type(number) is float)
        ):
            raise reader.error("LTP061", "these are not the numbers of a retry", at, reader.pos, help=help_)
        numbers[name] = cast("float", number)
    count = numbers.get("count")
    if type(count) is not int or not 0 <= count < 10**9 or min(numbers.values()) < 0:
        raise reader.error(
            "LTP061", "a retry has a whole number of attempts", at, max(at, reader.pos), help=help_
        )
    delay, backoff = numbers.get("delay"), numbers.get("backoff")
    return Again(count, None if delay is None else float(delay), None if backoff is None else float(backoff))
