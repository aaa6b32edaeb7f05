"""Finds the LCTL block in a text: the whole text, or the first closed code fence that holds a block.

In: a text, or an answer of a model. Out: the text up to the end of the block, with everything before it
replaced by blanks, so that offsets in it are offsets in the answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from callsheet.diagnostics import Span

_FENCE = re.compile(r"^( {0,3}|\t)(`{3,}|~{3,})([^\n]*)$", re.MULTILINE)
_KEY = re.compile(r"""^( *)["']?lctl(?:_ack)?["']?[ \t]*:""", re.MULTILINE)
_BEGINNING = re.compile(r"^( *)(?![ \n#%]|---)", re.MULTILINE)
_KEY_AT_MARGIN = re.compile(r"""^["']?lctl(?:_ack)?["']?[ \t]*:""", re.MULTILINE)
_KEY_IN_FLOW = re.compile(r"""["']?\blctl(?:_ack)?["']?\s*:""")
_BEFORE_DOCUMENT = re.compile(r"(?:\s|#[^\n]*|^%[^\n]*|---(?=\s))*+", re.MULTILINE)
"""The text allowed before a document: comments, directives, and the document marker."""
_MARK = "\ufeff"
_NOT_NEWLINE = re.compile(r"[^\n]")


class CutOff(Exception):
    """The fence that should contain the block is not closed."""

    def __init__(self, span: Span) -> None:
        super().__init__("a code fence that is not closed")
        self.span = span


class NoBlock(Exception):
    """The text is an answer with code fences, none of which contains a block."""


class _Fence(NamedTuple):
    opened: Span
    content: Span
    is_closed: bool


def block_of(text: str) -> str:
    """The text up to the end of the block, with everything before it blank.

    Raises `CutOff` if no closed fence contains a block and the last one is not closed, `NoBlock` if all
    are closed and none contains one.

    >>> block_of("Here:\\n```yaml\\nlctl: x\\n```\\n").split("\\n")
    ['     ', '       ', 'lctl: x', '']
    """
    fences = list(_fences(text))
    if not fences or _is_bare(text, fences):
        return text
    for fence in fences:
        start, end = fence.content
        if text.startswith(_MARK, start):  # a byte order mark is no part of the block, but counts in offsets
            start += 1
        if fence.is_closed and _holds_block(text[start:end]):
            before = _blank(text[:start])
            if start > fence.content.start:
                before = f"{before[:-2]} \n"
            return before + text[start:end]
    last = fences[-1]
    if not last.is_closed:
        raise CutOff(last.opened)
    raise NoBlock


def _fences(text: str) -> Iterator[_Fence]:
    """The fences of a text; the closing one is of the same kind, not shorter and not indented deeper."""
    opener: re.Match[str] | None = None
    for match in _FENCE.finditer(text):
        if opener is None:
            if "`" not in match[3] or match[2][0] == "~":
                opener = match
        elif (
            match[2][0] == opener[2][0]
            and len(match[2]) >= len(opener[2])
            and len(match[1]) <= len(opener[1])
            and not match[3].strip()
        ):
            start = min(opener.end() + 1, match.start())
            yield _Fence(Span(*opener.span()), Span(start, match.start()), True)
            opener = None
    if opener is not None:
        yield _Fence(Span(*opener.span()), Span(min(opener.end() + 1, len(text)), len(text)), False)


def _is_bare(text: str, fences: list[_Fence]) -> bool:
    """Whether the whole text is a document: its key is outside of all fences, or it is JSON."""
    if text.lstrip().startswith("{"):
        return True
    inside = [(fence.opened.start, fence.content.end) for fence in fences]
    return any(
        not any(start <= match.start() < end for start, end in inside)
        for match in _KEY_AT_MARGIN.finditer(text)
    )


def _holds_block(content: str) -> bool:
    """Whether the text has one of the two keys at the top level."""
    before = _BEFORE_DOCUMENT.match(content)
    if content.startswith("{", 0 if before is None else before.end()):
        return _KEY_IN_FLOW.search(content) is not None
    begins = _BEGINNING.search(content)
    margin = "" if begins is None else begins[1]
    return any(match[1] == margin for match in _KEY.finditer(content))


def _blank(text: str) -> str:
    return _NOT_NEWLINE.sub(" ", text)
