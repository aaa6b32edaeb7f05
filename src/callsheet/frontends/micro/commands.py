"""Parses one command of Micro-CLI: guards, verb, arguments, output, remark; tells commands from prose.

In: a scope at the beginning of a command. Out: a `Step` without an id, or `Stop` after a diagnostic; recovery
is left to `document`. Models write sentences around their plans; a line that may be a command never counts as
prose.
"""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet
from enum import Enum

from callsheet import lazy
from callsheet.diagnostics import Span, did_you_mean
from callsheet.frontends.ltp.words import CASTS_MEANT, PLAN_LIKE, RESERVED
from callsheet.frontends.micro.failure import at_end, read_goto, read_on_fail, read_values, skip_comma
from callsheet.frontends.micro.guards import GUARD, read_guards, read_inner_condition
from callsheet.frontends.micro.values import Scope, read_argument, refuse_sum
from callsheet.frontends.micro.verbs import CONTROLS, VERBS, WORD_PLACES, Misfit, Named, bind
from callsheet.frontends.values import Reader, Stop, read_arguments
from callsheet.frontends.values.parser import read_value
from callsheet.frontends.values.reader import NAME, comment_text, replace, shown
from callsheet.ir import (
    Action,
    Call,
    Cast,
    Literal,
    Output,
    Replan,
    Respond,
    Step,
    Terminate,
    Value,
)

ELSE = lazy.pattern(r"\??[ \t]*(?:else|elif|elseif|otherwise)\b", re.IGNORECASE)
_QUESTION = lazy.pattern(r"\?[ \t]*\w*")
_VERB = lazy.pattern(r"(@?)(re-plan\b|[A-Za-z0-9_]+)", re.IGNORECASE)
_NAMED = lazy.pattern(rf"({NAME})=(?!=)")
_ARROW = lazy.pattern(r"(?:-+|=+|~+)>|→|⇒|>>+")
_OUTPUT = lazy.pattern(rf"\$?({NAME})(?:[ \t]*:[ \t]*([^\W\d]\w*))?(?![\w.\[:-])")
_CASTS = {str(cast): cast for cast in Cast}
_MEANT = {
    "if": "?if",
    "when": "?if",
    "for": "foreach",
    "each": "foreach",
    "answer": "respond",
    "print": "respond",
}
_ALL_VERBS = (*VERBS, *CONTROLS, "?if", "foreach")


def control_of(word: str) -> str | None:
    """The control verb for a word in any spelling (`re-plan`); None for other words."""
    fold = word.lower().replace("re-plan", "replan").replace("re_plan", "replan")
    return fold if fold in CONTROLS else None


def read_command(scope: Scope, comments: list[str], group: int | None) -> Step:
    """Parse the command at the position."""
    reader = scope.reader
    start = reader.pos
    reader.depth = 0
    reader.comments = comments
    foreach, condition = read_guards(scope)
    is_new = foreach is not None and foreach.var not in scope.known
    if foreach is not None:
        scope.known.add(foreach.var)
        if condition is None:
            condition = read_inner_condition(scope)
    action = _read_action(scope)
    output = _read_output(reader)
    on_fail = read_on_fail(scope)
    if foreach is not None and is_new:
        scope.known.discard(foreach.var)
    last = (on_fail or output or action).span
    remark = _read_end(reader, group is not None)
    end = start if last is None else last.end
    return Step(
        "",
        action,
        foreach,
        condition,
        output,
        on_fail,
        group,
        comments=tuple(comments),
        remark=remark,
        span=Span(start, end),
    )


# ---------------------------------------------------------------- the action


def _read_action(scope: Scope) -> Action:
    reader = scope.reader
    reader.skip()
    start = reader.pos
    match = _VERB.match(reader.text, start)
    if match is None:
        raise _no_verb(reader)
    at, word = match.groups()
    lower = word.lower()
    reader.pos = match.end()
    control = control_of(word)
    if control is not None:
        return _read_control(scope, control, start)
    if not at and lower in VERBS:
        return _read_verb(scope, lower, start)
    tool = word.upper()
    if tool in RESERVED or not (at or ("_" in word and word[0].isalpha())):
        raise unknown_verb(reader, start, match.end())
    follows = reader.text[reader.pos : reader.pos + 1]
    if follows and (follows in "-./:!?'" or (follows.isalnum() and not follows.isascii())):
        raise unknown_verb(reader, start, match.end() + 1)
    positional, named = _read_arguments(scope)
    return Call(tool, tuple(positional), named, Span(start, reader.pos))


def _no_verb(reader: Reader) -> Stop:
    start = reader.pos
    question = _QUESTION.match(reader.text, start)
    if ELSE.match(reader.text, start):
        return no_else(reader, start)
    if question is not None:
        suggestions = did_you_mean(question[0], ("?if", "?foreach"))
        help_ = f"did you mean {suggestions[0]}?" if suggestions else "guards are ?if … : and foreach … :"
        return reader.error("MIC017", f"there is no guard {question[0]}", *question.span(), help=help_)
    rest = reader.text[start : reader.line_end(start)]
    message = f"expected a verb here, not {shown(rest)}" if rest.strip() else "a command is missing here"
    return reader.error("MIC011", message, help="a command begins with a verb: search, respond, …")


def no_else(reader: Reader, start: int) -> Stop:
    """The error for an `else`, which the language does not have."""
    return reader.error(
        "MIC015",
        "the language has no else",
        start,
        reader.line_end(start),
        help="write a command with the opposite condition: ?if not (…) : command",
    )


def unknown_verb(reader: Reader, start: int, end: int) -> Stop:
    """The error for an unknown verb, with similar ones."""
    word = reader.text[start:end]
    if ELSE.match(reader.text, start):
        return no_else(reader, start)
    meant = _MEANT.get(word.lower())
    suggestions = (meant,) if meant else did_you_mean(word, _ALL_VERBS)
    return reader.error(
        "MIC012",
        f"{shown(word)} is not a verb",
        start,
        end,
        help=f"did you mean {suggestions[0]}?"
        if suggestions
        else f"verbs are {', '.join(_ALL_VERBS)}; a tool is called by a name with an underscore, or by @name",
        fix=replace(f"write {suggestions[0]}", start, end, suggestions[0]) if suggestions else None,
    )


def _read_control(scope: Scope, word: str, start: int) -> Action:
    reader = scope.reader
    if word == "goto":
        return read_goto(reader, start)
    values = read_values(scope)
    span = Span(start, reader.pos)
    if word == "respond":
        return Respond(values, span)
    return Terminate(values, span) if word == "terminate" else Replan(values, span)


def _read_verb(scope: Scope, word: str, start: int) -> Call:
    reader = scope.reader
    verb = VERBS[word]
    values, named = _read_arguments(scope, quietly=word in WORD_PLACES)
    end = reader.pos
    try:
        positional, bound = bind(verb, values, named)
    except Misfit as misfit:
        raise reader.error("MIC013", f"{word} has {misfit}", start, end, help=f"write {verb.usage}") from None
    return Call(verb.tool, positional, bound, Span(start, end))


def _read_arguments(scope: Scope, *, quietly: bool = False) -> tuple[list[Value], Named]:
    reader = scope.reader
    after = reader.pos
    if reader.skip() == "(":
        start = reader.pos
        positional, pairs = read_arguments(reader)
        reader.loose("MIC104", "arguments have no parentheses", start, reader.pos, None)
        return list(positional), pairs
    values: list[Value] = []
    named: dict[str, Value] = {}
    while not at_end(reader):
        start = reader.pos
        if _ARROW.match(reader.text, start):
            break
        name, value = _read_argument(scope, quietly=quietly)
        after = reader.pos
        if name is None and not named:
            values.append(value)
        elif name is None or name in named:
            what = "a value without a name follows a named one" if name is None else "a name is given twice"
            raise reader.error("MIC013", what, start, after)
        else:
            named[name] = value
        skip_comma(reader)
    reader.pos = after
    return values, tuple(named.items())


def _read_argument(scope: Scope, *, quietly: bool) -> tuple[str | None, Value]:
    reader = scope.reader
    match = _NAMED.match(reader.text, reader.pos)
    if match is not None:
        reader.pos = start = match.end()
        named = read_argument(scope, quietly=quietly)
        refuse_sum(scope, start, named)
        return match[1], named
    start = reader.pos
    value = read_argument(scope, quietly=quietly)
    refuse_sum(scope, start, value)
    text, pos = reader.text, reader.pos
    is_name = text[pos : pos + 1] == "=" and text[start] in "\"'rR" and text[pos - 1] in "\"'"
    if is_name and isinstance(value, Literal) and isinstance(value.value, str):
        reader.pos += 1
        return value.value, read_value(reader)
    return None, value


# ---------------------------------------------------------------- behind the action


def _read_output(reader: Reader) -> Output | None:
    after = reader.pos
    char = reader.skip()
    start = reader.pos
    arrow = _ARROW.match(reader.text, start)
    if arrow is not None:
        raise reader.error(
            "MIC050",
            f"the result is stored with >, not with {arrow[0]}",
            *arrow.span(),
            help="write > name",
            fix=replace("write >", *arrow.span(), ">"),
        )
    if char != ">":
        reader.pos = after
        return None
    reader.pos += 1
    reader.skip()
    match = _OUTPUT.match(reader.text, reader.pos)
    if match is None:
        raise reader.error(
            "MIC050",
            "expected the variable for the result after >",
            reader.pos,
            reader.line_end(reader.pos),
            help="write > name or > name:type; a result is stored in a whole variable",
        )
    reader.pos = match.end()
    return Output(match[1], _cast(reader, match), Span(start, reader.pos))


def _cast(reader: Reader, match: re.Match[str]) -> Cast | None:
    written = match[2]
    if written is None:
        return None
    cast = _CASTS.get(written.lower())
    if cast is not None:
        return cast
    suggestions = CASTS_MEANT.get(written.lower()) or next(iter(did_you_mean(written, _CASTS)), None)
    raise reader.error(
        "MIC051",
        f"there is no type {shown(written)}",
        *match.span(2),
        help=f"did you mean {suggestions}?" if suggestions else f"types are {', '.join(_CASTS)}",
        fix=replace(f"write {suggestions}", *match.span(2), suggestions) if suggestions else None,
    )


def _read_end(reader: Reader, in_group: bool) -> str | None:
    """The remark at the end of the command; anything else there is an error."""
    char = reader.skip()
    start = reader.pos
    end = reader.line_end(start)
    if char == "#":
        reader.pos = end
        return comment_text(reader.text[start:end])
    if char in {"", "\n", "`"} or (char == "}" and in_group):
        return None
    written = shown(reader.text[start:end])
    raise reader.error(
        "MIC019",
        f"the command ends before {written}",
        start,
        end,
        help="write a command on one line; > name after the arguments, ON_FAIL after it",
    )


DECORATION = lazy.pattern(
    r"(?:(?:[-*+•]|\d{1,9}[.)])[ \t]+)*"
    r"(?:\**(?:S(?P<number>\d{1,9})|(?:step[ \t]+)?\d{1,9})\**[ \t]*:\**(?!:|//)[ \t]*)?(?:`(?!`))?",
    re.IGNORECASE,
)
"""Bullets, numbers, a label or a backtick before a command."""

FENCE = lazy.pattern(r"(?:```+|~~~+)(?:[\w+.-]*[ \t\r]*(?=\n|\Z))?")
HEAD = lazy.pattern(r"(id|title|goal):(?: |$)(.*)", re.DOTALL)

_WORD = lazy.pattern(r"(@(?=\w))?((?(1)[A-Za-z0-9_]+|[A-Za-z_][A-Za-z0-9_]*(?:-plan\b)?))", re.IGNORECASE)
_VALUE_LIKE = lazy.pattern(r"[\"$>=({\[]|(?:^|\s)[-+]?\d+(?:\.\d+)?(?=\s|$)|\bON_FAIL\b", re.IGNORECASE)
_GUARDED = lazy.pattern(r"[ \t]:[ \t]")
_SENTENCE_END = (".", ":", "!", "?", "…")
_LEAST_WORDS = 3
_SURE_VALUE = lazy.pattern(r"[ \t]+(?:[\"'$\[{]|r[\"'])|[ \t]*>[ \t]*\$?[A-Za-z_]|[ \t]*\(")
_MOST_LOOKUPS = 200


class Kind(Enum):
    """The kind of a line."""

    COMMAND = "command"
    MAYBE = "maybe"
    """Possibly a command, although it does not begin with a verb."""
    PROSE = "prose"


class Lines:
    """Classifies the lines of one text."""

    def __init__(self) -> None:
        self._lookups = 0

    def kind(self, text: str, pos: int, end: int, known: AbstractSet[str], *, labelled: bool) -> Kind:
        """The kind of the line from `pos` to `end`; `known` are the variables set so far."""
        if labelled or text.startswith("?", pos) or ELSE.match(text, pos):
            return Kind.COMMAND
        if GUARD.match(text, pos) and text.find(":", pos, end - 1) != -1:
            return Kind.COMMAND
        word = _WORD.match(text, pos)
        if word is None:
            return Kind.MAYBE if PLAN_LIKE.search(text, pos, end) else Kind.PROSE
        at, name = word.groups()
        lower = name.lower()
        is_tool = bool(at) or ("_" in name and name[0].isalpha())
        is_verb = is_tool or lower in VERBS or lower == "foreach" or control_of(name) is not None
        line = text[pos:end]
        if is_verb and text[word.end() : word.end() + 1] != ":" and not _is_sentence(line, known):
            return Kind.COMMAND
        if is_verb and _SURE_VALUE.match(text, word.end(), end):
            return Kind.COMMAND
        if name[0].islower() and (_VALUE_LIKE.search(line) or _GUARDED.search(line)):
            return Kind.MAYBE
        if PLAN_LIKE.search(line) or (len(line.split(None, 3)) < 3 and self._is_near(name)):
            return Kind.MAYBE
        return Kind.PROSE

    def _is_near(self, word: str) -> bool:
        """Whether a lower-case word may be a misspelt verb; always true after `_MOST_LOOKUPS` searches."""
        if not word.islower():
            return False
        self._lookups += 1
        return self._lookups > _MOST_LOOKUPS or bool(did_you_mean(word, (*VERBS, *CONTROLS), 1))


def _is_sentence(line: str, known: AbstractSet[str]) -> bool:
    """Whether a line that begins with a verb is a sentence: it has a capital first or a full stop last."""
    content = line.partition(" #")[0]
    if _VALUE_LIKE.search(content):
        return False
    words = content.split()
    if len(words) < _LEAST_WORDS or any(word.strip(".,:;!?") in known for word in words[1:]):
        return False
    return words[0][0].isupper() or words[-1].endswith(_SENTENCE_END)
