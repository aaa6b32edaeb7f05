"""Reads the statements of one line: calls, LET and SET, REQUIRE, COMPUTE, and those of one word.

In: a reader behind the word, the id, where the line begins, and the comments so far, to which those inside
the statement are added. Out: the statement, or `Stop` after a diagnostic.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from callsheet import lazy
from callsheet.frontends.expressions.names import FUNCTIONS
from callsheet.frontends.structured.failure import is_kind, read_recovery
from callsheet.frontends.structured.lines import RESERVED_TOOLS
from callsheet.frontends.values.reader import NAME, Stop, shown
from callsheet.frontends.values.reader import replace as replace_text
from callsheet.frontends.values.strings import raw_lines
from callsheet.ir import canonical_tool_name
from callsheet.ir.expr import Literal
from callsheet.ir.expression import Expression, Field, Hole, Text, Variable
from callsheet.ir.tree import Act, Assign, Compute, Invoke, Let, Require, Say, Word

if TYPE_CHECKING:
    from callsheet.frontends.structured.blocks import BlockReader

_CALL = lazy.pattern(rf"(@)?({NAME})(?(1)|(?=[ \t]+[\"'$\[{{\d]))")
"""A call where a value stands: `@TOOL`, or a word with a value behind it, as in `search "tea"`."""
_HEAD = lazy.pattern(rf"\b(?i:let|set)[ \t]+\$?{NAME}")
_TOOL = lazy.pattern(r"@([A-Za-z0-9_]+)(?![-.\w])")
_RUN = lazy.pattern(r"@[^\s(){}\"'$>,]*")
_FENCE = lazy.pattern(r"(\"{3,}|'{3,})")
_LINE_END = lazy.pattern(r"[ \t\r]*\n")
_NO_CALLS: Final = FUNCTIONS | {"not", "lambda", "None", "True", "False", "null", "true", "false"}
"""Words that begin an expression, whatever stands behind them."""
_CHANGES: Final = frozenset("+-*/%|")
WORD_ONLY: Final = frozenset({Word.BREAK, Word.CONTINUE})
ONE_VALUE: Final = frozenset({Word.YIELD, Word.NOTE, Word.WAIT})


def read_act(reader: BlockReader, own: str, start: int, comments: list[str]) -> Act:
    """`@TOOL (arguments) > $x ON_FAIL …`; the tool's name is at the position."""
    found = _TOOL.match(reader.text, reader.pos)
    if found is None:
        run = _RUN.match(reader.text, reader.pos)
        end = reader.pos + 1 if run is None else run.end()
        written = reader.text[reader.pos : end]
        plain = canonical_tool_name(written)
        can_fix = written.isascii() and bool(plain.strip("_"))
        fix = replace_text(f"write @{plain}", reader.pos, end, f"@{plain}") if can_fix else None
        raise reader.error("LTP013", f"{shown(written)} is not a tool name", reader.pos, end, fix=fix)
    tool = found[1].upper()
    if tool in RESERVED_TOOLS:
        help_ = "write @RETRY behind ON_FAIL: @TOOL (…) ON_FAIL @RETRY(3)" if tool == "RETRY" else None
        raise reader.error("LTP012", f"@{tool} is not a tool", *found.span(), help=help_)
    if found[1] != tool:
        message = f"the name of a tool is written in capitals: @{tool}"
        reader.loose("LTP105", message, *found.span(), f"@{tool}")
    reader.pos = found.end()
    positional, named = reader.arguments(f"@{tool}")
    reader.head_comments(start, comments)
    into = reader.into()
    recovery = read_recovery(reader, comments)
    positional, named = with_query_parameters(tool, positional, named)
    return Act(own, tool, positional, named, into, recovery, is_named=bool(own), span=reader.since(start))


def with_query_parameters(
    tool: str, positional: tuple[Expression, ...], named: tuple[tuple[str, Expression], ...]
) -> tuple[tuple[Expression, ...], tuple[tuple[str, Expression], ...]]:
    """The arguments of a call, where `$n` in the query of @SELECT is its parameter `n=…` and no reference."""
    parameters = {name for name, _ in named} - {"data", QUERY} if tool == "SELECT" else None
    if not parameters:
        return positional, named
    if len(positional) > 1:
        positional = (positional[0], _without_references(positional[1], parameters), *positional[2:])
    bound = (
        (name, _without_references(value, parameters) if name == QUERY else value) for name, value in named
    )
    return positional, tuple(bound)


QUERY: Final = "query"


def _without_references(query: Expression, parameters: set[str]) -> Expression:
    """The text of a query with its parameters as they are written; another text as it is."""
    if not isinstance(query, Text):
        return query
    parts: list[str] = []
    for part in query.parts:
        written = part if isinstance(part, str) else _as_written(part, parameters)
        if written is None:
            return query
        parts.append(written)
    return Literal("".join(parts), query.span)


def _as_written(hole: Hole, parameters: set[str]) -> str | None:
    """`$n.name` of a hole that is a parameter, perhaps with fields; None for another one."""
    fields = ""
    node = hole.expression
    while isinstance(node, Field) and not node.is_optional:
        fields, node = f".{node.name}{fields}", node.target
    is_parameter = isinstance(node, Variable) and node.name in parameters and hole.format is None
    return f"${node.name}{fields}" if isinstance(node, Variable) and is_parameter else None


def read_invoke(reader: BlockReader, own: str, start: int, comments: list[str]) -> Invoke:
    """`CALL plan (name=value) > $x ON_FAIL …`."""
    plan = reader.name("the plan that is called")
    at = reader.pos
    positional, named = reader.arguments(f"CALL {plan}")
    if positional:
        help_ = f"write CALL {plan} (name=value)"
        raise reader.error("LTP023", "the arguments of CALL have names", at, reader.pos, help=help_)
    reader.head_comments(start, comments)
    into = reader.into()
    recovery = read_recovery(reader, comments)
    return Invoke(own, plan, named, into, recovery, bool(own), span=reader.since(start))


def read_compute(reader: BlockReader, own: str, start: int, comments: list[str]) -> Compute:
    """`COMPUTE (reads=[$a]) > $b` and its source."""
    names: tuple[str, ...] = ()
    if reader.skip() == "(":
        names = _read_names(reader)
    reader.head_comments(start, comments)
    into: list[str] = []
    if reader.skip() == ">":
        reader.pos += 1
        into.append(reader.variable("for a result after >"))
        while reader.skip() == ",":
            reader.pos += 1
            into.append(reader.variable("for a result after the comma"))
    source = _read_source(reader)
    recovery = read_recovery(reader, comments)
    return Compute(own, source, names, tuple(into), recovery, bool(own), span=reader.since(start))


def _read_names(reader: BlockReader) -> tuple[str, ...]:
    """`(reads=[$a, $b])` at the position."""
    reader.open()
    names: list[str] = []
    if reader.skip() != ")":
        if not reader.takes_name("reads"):
            raise reader.error("LTP216", "COMPUTE says what it reads", help="write COMPUTE (reads=[$a, $b])")
        reader.expect("=", "after reads")
        reader.expect("[", "after reads=")
        while reader.skip() != "]":
            names.append(reader.variable("that the source reads"))
            if reader.skip() != ",":
                break
            reader.pos += 1
        reader.expect("]", "at the end of the variables that the source reads")
    reader.expect(")", "at the end of COMPUTE (reads=[…])")
    reader.depth -= 1
    return tuple(names)


def _read_source(reader: BlockReader) -> str:
    """The source of a COMPUTE: raw, between three or more quotes, and as many again."""
    reader.skip()
    start = reader.pos
    fence = _FENCE.match(reader.text, start)
    if fence is None:
        help_ = 'write the Python source between """ and """, on lines of its own'
        raise reader.error("LTP216", "the source of COMPUTE is missing", help=help_)
    quotes = fence[1]
    opening = fence.end()
    line = _LINE_END.match(reader.text, opening)
    at = _fence_end(reader, quotes, opening, is_block=line is not None)
    if at < 0:
        help_ = f"end it with {quotes} on a line of its own"
        message = "the source of COMPUTE is not closed"
        stop = reader.error("LTP020", message, start, reader.line_end(start), help=help_)
        reader.stop()  # what follows is the source, and nobody can tell where it ends
        raise stop
    reader.pos = at + len(quotes)
    if line is None:
        return reader.text[opening:at]
    last = reader.line_start(at)
    inside = reader.text[line.end() : max(line.end(), last - 1)].removesuffix("\r")
    return raw_lines(f"\n{inside}", reader.text[last:at])[1:]


def _fence_end(reader: BlockReader, quotes: str, opening: int, *, is_block: bool) -> int:
    """Where the closing quotes of a source begin, -1 if there are none."""
    at = opening
    while (at := reader.text.find(quotes, at)) >= 0:
        after = at + len(quotes)
        if is_block:
            is_own_line = not reader.text[reader.line_start(at) : at].strip(" \t")
            if is_own_line and not reader.text.startswith(quotes[0], after):
                return at
        else:
            return at if "\n" not in reader.text[opening:at] else -1
        at = after
        while reader.text.startswith(quotes[0], at):
            at += 1
    return -1


def read_let(reader: BlockReader, own: str, start: int, comments: list[str]) -> Let:
    """`LET $x: type = value`."""
    name = reader.variable("after LET")
    kind = None
    if reader.skip() == ":":
        reader.pos += 1
        kind = reader.type()
    value = _assigned(reader, "LET", name, start, comments)
    return Let(own, name, value, kind, span=reader.since(start))


def read_assign(reader: BlockReader, own: str, start: int, comments: list[str]) -> Assign:
    """`SET $x = value`."""
    name = reader.variable("after SET")
    return Assign(own, name, _assigned(reader, "SET", name, start, comments), span=reader.since(start))


def _assigned(reader: BlockReader, word: str, name: str, start: int, comments: list[str]) -> Expression:
    if reader.skip() in _CHANGES and reader.text.startswith("=", reader.pos + 1):
        sign = reader.text[reader.pos]
        raise reader.error("LTP211", f"{sign}= is written {word} ${name} = ${name} {sign} …")
    if reader.skip() == ",":
        help_ = f"give each its own line: {word} ${name} = $pair[0]"
        raise reader.error("LTP211", f"{word} names one variable", help=help_)
    if reader.skip() != "=":
        raise reader.error("LTP211", f"= is missing: {word} $x = value")
    reader.pos += 1
    if reader.at_line_end():
        raise reader.error("LTP211", f"{word} needs a value: {word} $x = value")
    call = _CALL.match(reader.text, reader.pos)
    if call is not None and (call[1] or call[2] not in _NO_CALLS):
        raise _call_for_value(reader, word, name, start, call)
    value = reader.expression()
    reader.head_comments(start, comments)
    return value


def _call_for_value(reader: BlockReader, word: str, name: str, start: int, call: re.Match[str]) -> Stop:
    """The error for LET or SET of what a call gives; the fix stores its result."""
    at, fix = reader.pos, None
    tool = canonical_tool_name(call[2])
    help_ = f"the result of a call is stored with >: @{tool} (…) > ${name}"
    if word == "SET":
        help_ += f"; inside a loop, > $new and then SET ${name} = $new for a ${name} from outside"
    elif call[1]:
        reader.pos = call.end()
        reader.arguments(f"@{tool}")
        begin = _HEAD.search(reader.text, start, at)
        written = f"{reader.text[at : reader.pos]} > ${name}"
        if begin is not None:
            fix = replace_text("store the result", begin.start(), reader.pos, written)
    return reader.error(
        "LTP211", f"{word} takes an expression, which makes no call", at, call.end(), help=help_, fix=fix
    )


def read_require(reader: BlockReader, own: str, start: int, comments: list[str]) -> Require:
    """`REQUIRE (condition) "message"`."""
    several = 'the message stands behind the condition: REQUIRE (condition) "message"'
    condition = reader.one_value("REQUIRE", several)
    message = None if reader.at_line_end() or reader.word() else reader.expression()
    reader.head_comments(start, comments)
    return Require(own, condition, message, span=reader.since(start))


def read_say(word: Word, reader: BlockReader, own: str, start: int, comments: list[str]) -> Say:
    """A statement of one word with its values."""
    values: tuple[Expression, ...] = ()
    kind = None
    if word is Word.FAIL:
        values, kind = _failure(reader)
    elif word is Word.RETURN:
        values = () if reader.at_line_end() else (reader.one_value("RETURN"),)
    elif word in ONE_VALUE:
        values = (reader.one_value(word.value),)
    elif word not in WORD_ONLY:
        values = reader.values(word.value)
    reader.head_comments(start, comments)
    return Say(own, word, values, kind, bool(own), span=reader.since(start))


def _failure(reader: BlockReader) -> tuple[tuple[Expression, ...], str | None]:
    """`("text", kind="own")` behind FAIL."""
    if reader.skip() != "(":
        return (reader.one_value("FAIL"),), None
    at = reader.pos
    values, named = reader.arguments("FAIL")
    if len(values) != 1:
        help_ = 'write FAIL ("what is wrong"), or FAIL ("what is wrong", kind="own")'
        raise reader.error("LTP211", "FAIL takes one text", at, reader.pos, help=help_)
    kind = None
    for name, value in named:
        own = value.value if isinstance(value, Literal) else None
        if name != "kind" or not isinstance(own, str) or not is_kind(own):
            help_ = 'kind="own" is a word in quotes: ASCII letters, digits, _'
            raise reader.error("LTP211", "FAIL takes a text and a kind", at, reader.pos, help=help_)
        kind = own
    return values, kind
