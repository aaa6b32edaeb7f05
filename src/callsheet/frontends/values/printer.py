"""Formats values and conditions in their canonical spelling, which parses to an equal value.

In: a `Value`. Out: its text. A value without a spelling (an infinite number) is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import TypeAlias, assert_never

from callsheet import lazy
from callsheet.diagnostics import CallsheetError
from callsheet.frontends.unseen import UNSEEN, escape
from callsheet.frontends.values.reader import MAX_INDEX_DIGITS, NAME
from callsheet.ir import (
    And,
    Compare,
    Condition,
    DictExpr,
    IsEmpty,
    ListExpr,
    Literal,
    Not,
    NotEmpty,
    Or,
    Order,
    PathPart,
    Plan,
    Ref,
    Step,
    Template,
    Value,
)

_NAME = lazy.pattern(NAME)
_WORD = lazy.pattern(r"\w+")
_DIGITS = lazy.pattern(r"0|[1-9][0-9]*")
_PLAIN = lazy.pattern(rf"[^\"\\$\x00-\x1f{UNSEEN}]*")
_ESCAPED = lazy.pattern(rf"[\"\\\x00-\x1f{UNSEEN}]|\$(?=[A-Za-z_{{$])")
_ESCAPED_IN_BLOCK = lazy.pattern(rf"[\\\x00-\x08\x0b-\x1f{UNSEEN}]|\$(?=[A-Za-z_{{$])")
_RAW_LINE = lazy.pattern(rf"[^\"\x00-\x1f{UNSEEN}]*")
_RAW_BLOCK = lazy.pattern(rf"[^\x00-\x08\x0b-\x1f{UNSEEN}]*")
_NEEDS_BRACES = lazy.pattern(r"[\w\[]|\.\w")
_BIGGEST_INT = 10**3_999
_BIGGEST_INDEX = 10**MAX_INDEX_DIGITS


def format_value(value: Value, indent: str = "") -> str:
    """The canonical spelling of a value.

    `indent` is the indentation of the lines of a multi-line string. Raises CallsheetError (LTP070)
    for a value that cannot be written.

    >>> format_value(Template(("Hello ", Ref("who", ("name",)), "!")))
    '"Hello $who.name!"'
    """
    match value:
        case Literal(value=scalar):
            return format_text(scalar, indent) if isinstance(scalar, str) else _scalar(scalar)
        case Ref():
            return "$" + _ref(value, '"')
        case Template():
            return _template(value, indent)
        case ListExpr(items=items):
            return f"[{', '.join(format_value(v, indent) for v in items)}]"
        case DictExpr(items=pairs):
            inside = (f"{_quoted(key)}: {format_value(v, indent)}" for key, v in pairs)
            return f"{{{', '.join(inside)}}}"
    assert_never(value)


def format_condition(condition: Condition, indent: str = "") -> str:
    """The canonical spelling of a condition, without enclosing parentheses."""
    match condition:
        case Compare(op=op, left=left, right=right):
            return f"{format_value(left, indent)} {op} {format_value(right, indent)}"
        case IsEmpty(value=value):
            return f"IS_EMPTY({format_value(value, indent)})"
        case NotEmpty(value=value):
            return f"NOT_EMPTY({format_value(value, indent)})"
        case Not(condition=inner):
            return f"NOT ({format_condition(inner, indent)})"
        case And(conditions=inner):
            return _junction(" AND ", inner, indent)
        case Or(conditions=inner):
            return _junction(" OR ", inner, indent)
    assert_never(condition)


def _junction(word: str, conditions: tuple[Condition, ...], indent: str) -> str:
    if not conditions:
        raise refuse("an AND or an OR of no conditions")
    written = ((c, format_condition(c, indent)) for c in conditions)
    return word.join(f"({text})" if isinstance(c, And | Or) else text for c, text in written)


def refuse(what: str, help_: str | None = None) -> CallsheetError:
    """The error for a construct that LTP text cannot express."""
    return CallsheetError.single("LTP070", f"LTP text cannot express {what}", help=help_)


def placed(error: CallsheetError, step: Step) -> CallsheetError:
    """The error with the id of the step that it concerns, and the span of the step if it has none."""
    return CallsheetError(
        [d if d.step else replace(d, span=d.span or step.span, step=step.id) for d in error.diagnostics],
        error.source,
    )


def _scalar(value: bool | float | None) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        if abs(value) >= _BIGGEST_INT:
            raise refuse("a whole number of 4,000 digits or more", "give it as a text")
        return str(value)
    if value - value != 0.0:
        raise refuse(f"the number {value}", "give it as a text")
    return repr(value)


# ---------------------------------------------------------------- texts


def format_text(text: str, indent: str = "") -> str:
    """The canonical spelling of a string without references.

    Plain quotes if nothing needs an escape; a raw string if that avoids all escapes; a triple-quoted
    string for several lines.
    """
    if is_plain_text(text):
        return f'"{text}"'
    if not _is_block(text):
        return format_line(text)
    if _RAW_BLOCK.fullmatch(text) and '"""' not in text:
        is_plain = _ESCAPED_IN_BLOCK.search(text) is None
        return _block(text, indent) if is_plain else f"r{_block(text, indent)}"
    return _block(_escape_block([text]), indent)


def _is_block(text: str) -> bool:
    """Whether a text is written over several lines: it has three, or two that are not blank."""
    first, _, others = text.partition("\n")
    return "\n" in others or bool(first.strip() and others.strip())


def _block(inside: str, indent: str) -> str:
    """A triple-quoted string; `inside` has its escapes, if any."""
    lines = (f"{indent}{line}" if line else "" for line in inside.split("\n"))
    return '"""\n' + "\n".join(lines) + f'\n{indent}"""'


def _escape_block(parts: Sequence[str | Ref]) -> str:
    """The inside of a triple-quoted string with escapes."""
    return "".join(spelled_parts(parts, _ESCAPED_IN_BLOCK)).replace('"""', '""\\"')


def format_line(text: str) -> str:
    r"""The canonical spelling of a string without references, on one line.

    >>> print(format_line("costs $x"), format_line("two\nlines"))
    r"costs $x" "two\nlines"
    """
    if is_plain_text(text):
        return f'"{text}"'
    if _ESCAPED.search(text) and _RAW_LINE.fullmatch(text):
        return f'r"{text}"'
    return _quoted(text)


def is_plain_text(text: str) -> bool:
    """Whether a string is written as it is, between quotes."""
    return _PLAIN.fullmatch(text) is not None


def _quoted(text: str) -> str:
    return f'"{_escape(text)}"'


def _escape(text: str) -> str:
    """The text with an escape for each character that needs one."""
    return _ESCAPED.sub(_escape_character, text)


def _escape_character(match: re.Match[str]) -> str:
    char = match[0]
    if char == "$":
        return "\\$"
    return escape(match) if char >= "\x7f" else json.dumps(char)[1:-1]


def _template(value: Template, indent: str) -> str:
    for part in value.parts:
        if isinstance(part, Ref):
            _check_ref(part)
    if not _is_block("".join(part if isinstance(part, str) else "$" for part in value.parts)):
        return f'"{"".join(spelled_parts(value.parts))}"'
    return _block(_escape_block(value.parts), indent)


def spelled_parts(parts: Sequence[str | Ref], escaped: re.Pattern[str] = _ESCAPED) -> Iterator[str]:
    """The parts of a text with references as they are written between its quotes.

    Each reference has braces where it would be read differently without them. Names and indexes that LTP
    text cannot express are not refused.

    >>> "".join(spelled_parts([Ref("e", ("name",)), ".md, ", Ref("e", ("name", "md"))]))
    '${e.name}.md, $e.name.md'
    """
    for index, part in enumerate(parts):
        if isinstance(part, str):
            text = escaped.sub(_escape_character, part)
            is_last = index + 1 == len(parts)
            yield text[:-1] + "\\$" if part.endswith("$") and not is_last else text
            continue
        following = parts[index + 1] if index + 1 < len(parts) else ""
        yield spelled_reference(part, following if isinstance(following, str) else "")


def spelled_reference(ref: Ref, following: str) -> str:
    """A reference inside a text, before the text `following`."""
    written = ref.name + format_path(ref.path)
    if "[" in written or _NEEDS_BRACES.match(following) or not is_name(ref.name):
        return f"${{{written}}}"
    return f"${written}"


# ---------------------------------------------------------------- references


def is_name(name: str) -> bool:
    """Whether this is the name of a variable that can be written."""
    return _NAME.fullmatch(name) is not None


def format_name(name: str) -> str:
    """The name of an argument, quoted unless it is an identifier."""
    return name if is_name(name) else format_text(name)


def _ref(ref: Ref, quote: str) -> str:
    _check_ref(ref)
    return ref.name + format_path(ref.path, quote)


def _check_ref(ref: Ref) -> None:
    """Raise CallsheetError (LTP070) for a name or an index that LTP text cannot express."""
    if not is_name(ref.name):
        raise refuse(f"the variable name {ref.name!r}", "a name is made of ASCII letters, digits and _")
    for part in ref.path:
        if isinstance(part, int) and abs(part) >= _BIGGEST_INDEX:
            raise refuse(f"the index {part}")


def format_path(path: tuple[PathPart, ...], quote: str = "'") -> str:
    """The path of a reference as written after the name, inside braces: `.field.0['odd key']`."""
    return "".join(_path_part(part, quote) for part in path)


def _path_part(part: PathPart, quote: str) -> str:
    if isinstance(part, int):
        return f".{part}" if part >= 0 else f"[{part}]"
    if _WORD.fullmatch(part) and not _DIGITS.fullmatch(part):
        return f".{part}"
    inside = _escape(part)
    if quote == "'":
        inside = inside.replace("'", "\\'")
    return f"[{quote}{inside}{quote}]"


Refusal: TypeAlias = "Callable[[str, str | None], CallsheetError]"
"""Makes the error for a construct that the syntax cannot express; the second argument is the help."""

LINES = lazy.pattern(r"\r\n|\r|\n")
"""The line endings within a comment."""


def about_lines(plan: Plan, refuse: Refusal) -> Iterator[str]:
    """The comment lines with the id, title and goal.

    Raises the error of `refuse` for a dependency graph and for initial variables.
    """
    if plan.order is not Order.TEXT:
        raise refuse("a plan whose steps are ordered by their dependencies", "write it as a JSON DAG plan")
    if plan.variables:
        raise refuse("initial variables", "give them to the run, or set them in a first step")
    yield from about_texts(plan, refuse)


def about_texts(plan: Plan, refuse: Refusal) -> Iterator[str]:
    """The comment lines with the id, title and goal of a plan in any order."""
    for name, text in (("id", plan.id), ("title", plan.title), ("goal", plan.goal)):
        if text is None:
            continue
        if "\r" in text:
            raise refuse(f"a carriage return in the plan's {name}", None)
        yield from (f"# {name}: {line}" if line else f"# {name}:" for line in text.split("\n"))


def comment_lines(comments: Iterable[str], indent: str = "") -> Iterator[str]:
    """Comments, each line with `# ` before it."""
    for comment in comments:
        for line in LINES.split(comment):
            yield f"{indent}# {line}".rstrip()


def step_lines(steps: tuple[Step, ...], write: Callable[[Step, str], str], refuse: Refusal) -> Iterator[str]:
    """The lines of the steps, with their comments and groups; `write` gets a step and its indentation."""
    seen: set[int] = set()
    for group, adjacent in groupby(steps, key=lambda step: step.group):
        members = tuple(adjacent)
        if group is None:
            yield from _written(members, "", write)
            continue
        if group in seen:
            apart = f"a group whose steps are not adjacent (at {members[0].id})"
            raise placed(refuse(apart, "move them next to each other"), members[0])
        seen.add(group)
        yield "@PARALLEL {"
        yield from _written(members, "  ", write)
        yield "}"


def _written(steps: Iterable[Step], indent: str, write: Callable[[Step, str], str]) -> Iterator[str]:
    """The lines of steps with their comments; an error of `write` gets the place of its step."""
    for step in steps:
        yield from comment_lines(step.comments, indent)
        try:
            yield indent + write(step, indent)
        except CallsheetError as error:
            raise placed(error, step) from None
