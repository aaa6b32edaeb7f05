"""Completion for YAML plans: fields, tools, arguments, indexes, references.

In: a document, an offset, knowledge. Out: proposals. The context is derived from the indentation before the
cursor, so the text need not be valid YAML. In braces on one line only references are proposed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from callsheet.frontends.values.reader import NAME
from callsheet.views.editor.completing_dag import Frame, Named, Place, proposals_for
from callsheet.views.editor.document import PlanDocument
from callsheet.views.editor.knowledge import Knowledge
from callsheet.views.editor.proposing import Proposal

_ENTRY = re.compile(rf"""(["']?)({NAME})\1[ ]*:(?:[ ]+|$)(.*)""")
_DASH = re.compile(r"-(?:[ ]+|$)")
_WORD = re.compile(r"""["']?[\w.-]*\Z""")
_BLOCK = re.compile(r"[|>][+-]?[0-9]?[ ]*(#.*)?$")


class _Open(NamedTuple):
    """An open mapping or list, and its column."""

    column: int
    frame: Frame


@dataclass(slots=True)
class _Reading:
    """The open blocks after the lines so far, and all fields: name of the outer field, name, value."""

    opened: list[_Open] = field(default_factory=list[_Open])
    entries: list[tuple[str, str, str]] = field(default_factory=list[tuple[str, str, str]])
    block: int | None = None
    """The column of a field with a block scalar that is still open."""

    def line(self, line: str) -> None:
        """Process a whole line."""
        column = len(line) - len(line.lstrip(" "))
        text_part = line[column:]
        if not text_part or text_part.startswith("#"):
            return
        if self.block is not None and column > self.block:
            return
        self.block = None
        inner, text_part = self.dashes(column, text_part)
        match = _ENTRY.match(text_part)
        if match is None:
            return
        frame = self.mapping(inner)
        value = match[3].strip()
        outer = self.opened[-2].frame.key if len(self.opened) > 1 else ""
        frame.key = match[2]
        frame.texts[match[2]] = _plain(value)
        self.entries.append((outer, match[2], _plain(value)))
        if _BLOCK.match(value):
            self.block = inner

    def dashes(self, column: int, text_part: str) -> tuple[int, str]:
        """Open a list for each dash at the beginning; return the column and the text after them."""
        while dash := _DASH.match(text_part):
            self._close(column + 1)
            if not self._is_list_at(column):
                self.opened.append(_Open(column, Frame("[")))
            column, text_part = column + dash.end(), text_part[dash.end() :]
        return column, text_part

    def mapping(self, column: int) -> Frame:
        """Return the mapping whose names are at this column, opening it if needed."""
        self._close(column + 1)
        if self._is_list_at(column):
            self.opened.pop()
        if not self.opened or self.opened[-1].column != column:
            self.opened.append(_Open(column, Frame("{")))
        return self.opened[-1].frame

    def _is_list_at(self, column: int) -> bool:
        return bool(self.opened) and self.opened[-1].column == column and self.opened[-1].frame.mark == "["

    def _close(self, column: int) -> None:
        while self.opened and self.opened[-1].column >= column:
            self.opened.pop()


def yaml_proposals(document: PlanDocument, offset: int, known: Knowledge) -> tuple[Proposal, ...]:
    r"""Returns the proposals at an offset of a YAML plan.

    >>> from callsheet.views.editor.document import open_document
    >>> from callsheet.views.editor.knowledge import NOTHING
    >>> document = open_document("steps:\n  - index: one\n  - index: two\n    depends_on: [")
    >>> [p.label for p in yaml_proposals(document, len(document.text), NOTHING)]
    ['one']
    """
    text = document.text
    if not text.strip():
        return ()
    place = _place(text[:offset])
    if place is None:
        return ()
    reading = _read(text.split("\n"))
    indexes = [value for _, name, value in reading.entries if name == "index"]
    given = [name for outer, name, _ in reading.entries if outer == "variables"]
    results = [value for _, name, value in reading.entries if name == "result_variable"]
    named = Named(indexes, [name for name in (*given, *results, *document.inputs) if name])
    proposals = proposals_for(place, offset, known, named)
    if not place.frames[-1].is_key:
        return tuple(proposals)
    return tuple(replace(each, insert=f"{each.label}: ") for each in proposals)


def _read(lines: list[str]) -> _Reading:
    reading = _Reading()
    for line in lines:
        reading.line(line)
    return reading


def _place(before: str) -> Place | None:
    """Returns the context at the end of a truncated text, or None if it is unknown."""
    *lines, last = before.split("\n")
    reading = _read(lines)
    column = len(last) - len(last.lstrip(" "))
    text_part = last[column:]
    if reading.block is not None and column > reading.block:
        return _value(reading, text_part)
    inner, rest = reading.dashes(column, text_part)
    entry = _ENTRY.match(rest)
    if entry is not None:
        reading.mapping(inner).key = entry[2]
        return _value(reading, entry[3])
    if not _WORD.match(rest):
        return None
    if inner > column and _field_of_list(reading) == "depends_on":
        return Place(_frames(reading), _typed(rest))
    if inner > column and _field_of_list(reading) != "steps":
        return None
    return _key(reading, inner, rest)


def _key(reading: _Reading, column: int, typed: str) -> Place | None:
    """Returns the context of a field name, in an open mapping or one that begins here."""
    frame = reading.mapping(column)
    outer = reading.opened[-2].frame if len(reading.opened) > 1 else None
    if not frame.texts and outer is not None and outer.mark == "{" and outer.texts.get(outer.key):
        return None  # the outer field already has a value
    frame.key = ""
    return Place(_frames(reading), _typed(typed))


def _value(reading: _Reading, text_part: str) -> Place | None:
    """Returns the context of the value of the last field."""
    frames = _frames(reading)
    frames[-1].awaits_key = False
    if text_part.startswith("["):
        item = re.split(r"[\[,][ ]*", text_part)[-1]
        return None if "]" in text_part else Place((*frames, Frame("[")), _typed(item))
    if text_part.startswith("{") and not text_part.rpartition("$")[2].startswith("{"):
        return None
    return Place(frames, _typed(text_part))


def _typed(text_part: str) -> str | None:
    """Returns the text typed so far without its opening quote, or None if there is none."""
    return text_part[1:] if text_part[:1] in ("'", '"') and text_part else text_part or None


def _plain(value: str) -> str:
    return value.partition(" #")[0].strip().strip("\"'")


def _frames(reading: _Reading) -> tuple[Frame, ...]:
    return tuple(each.frame for each in reading.opened)


def _field_of_list(reading: _Reading) -> str:
    return reading.opened[-2].frame.key if len(reading.opened) > 1 else ""
