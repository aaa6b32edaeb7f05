"""Completion for JSON plans, as JSON and as YAML: fields, tools, arguments, indexes, references."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from callsheet.diagnostics import Span
from callsheet.frontends.dag.fields import FAILURE_FIELDS, PLAN_FIELDS, STEP_FIELDS, Field
from callsheet.frontends.values.reader import NAME
from callsheet.ir import canonical_tool_name
from callsheet.passes.finding import OPERATIONS
from callsheet.views.editor import knowledge
from callsheet.views.editor.document import PlanDocument
from callsheet.views.editor.knowledge import Knowledge
from callsheet.views.editor.proposals import Context, Proposal, Sort, Where, arguments, option_values

_TOKEN = re.compile(r'"((?:[^"\\\n]|\\.)*)("|$)|[{}\[\]:,]', re.MULTILINE)
_REFERENCE = re.compile(rf"\$(?:\{{(?:{NAME})?)?\Z")
_INDEX = re.compile(r'"index"\s*:\s*"?([^",}\s][^",}\n]*)')
_RESULT = re.compile(rf'"result_variable"\s*:\s*"({NAME})"')
_VARIABLES = re.compile(r'"variables"\s*:\s*\{([^{}]*)\}')
_KEY = re.compile(rf'"({NAME})"\s*:')


@dataclass(slots=True)
class Frame:
    """An open bracket or YAML block; for an object its fields so far and the current one."""

    mark: str
    key: str = ""
    awaits_key: bool = True
    texts: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def is_key(self) -> bool:
        """Whether the name of a field is expected here."""
        return self.mark == "{" and self.awaits_key


@dataclass(frozen=True, slots=True)
class Place:
    """The context of the cursor: the open brackets, and the incomplete string at the cursor, if any."""

    frames: tuple[Frame, ...]
    typed: str | None

    def within(self, name: str, depth: int = 1) -> bool:
        """Whether the current bracket is the value of this field, `depth` brackets up."""
        return len(self.frames) > depth and self.frames[-1 - depth].key == name


class Named(NamedTuple):
    """The names in a plan: the indexes of its steps, its variables."""

    indexes: Iterable[str]
    variables: Iterable[str]


def dag_proposals(document: PlanDocument, offset: int, known: Knowledge) -> tuple[Proposal, ...]:
    """Returns the proposals at an offset of a JSON plan.

    >>> from callsheet.views.editor.document import open_document
    >>> from callsheet.views.editor.knowledge import NOTHING
    >>> document = open_document('{"steps": [{"index": "1"}, {"index": "2", "depends_on": ["')
    >>> [p.label for p in dag_proposals(document, len(document.text), NOTHING)]
    ['1']
    """
    text = document.text
    place = _json_place(text[:offset])
    indexes = tuple(map(str.strip, _INDEX.findall(text)))
    names = Named(indexes, (*_variable_names(text), *_RESULT.findall(text), *document.inputs))
    return tuple(proposals_for(place, offset, known, names))


def proposals_for(place: Place, offset: int, known: Knowledge, named: Named) -> Iterator[Proposal]:
    """Yields the proposals for a context that ends at an offset; they replace its `typed` text."""
    if not place.frames:
        return
    replaced = Span(offset - len(place.typed or ""), offset)
    reference = None if place.typed is None else _REFERENCE.search(place.typed)
    if place.frames[-1].is_key:
        yield from _keys(place, replaced, known)
    elif reference is not None:
        span = Span(offset - len(reference[0]), offset)
        for name in dict.fromkeys(named.variables):
            yield Proposal(f"${name}", Sort.VARIABLE, f"${{{name}}}", span)
    else:
        yield from _values(place, replaced, known, named.indexes)


def _variable_names(text: str) -> Iterator[str]:
    for match in _VARIABLES.finditer(text):
        yield from _KEY.findall(match[1])


def _json_place(before: str) -> Place:
    """Returns the context at the end of a truncated text."""
    frames: list[Frame] = []
    for token in _TOKEN.finditer(before):
        token_text = token[0]
        if token_text in ("{", "["):
            frames.append(Frame(token_text))
        elif token_text in ("}", "]"):
            del frames[-1:]
        elif not frames:
            continue
        elif token_text == ":":
            frames[-1].awaits_key = False
        elif token_text == ",":
            frames[-1].awaits_key, frames[-1].key = True, ""
        elif token_text.startswith('"'):
            if not token[2] and token.end() == len(before):
                return Place(tuple(frames), token[1])
            frame = frames[-1]
            if frame.is_key:
                frame.key = token[1]
                frame.texts.setdefault(token[1], "")
            else:
                frame.texts[frame.key] = token[1]
    return Place(tuple(frames), None)


# ---------------------------------------------------------------- the names of fields


def _keys(place: Place, replaced: Span, known: Knowledge) -> Iterator[Proposal]:
    frame, outer = place.frames[-1], place.frames[:-1]
    if place.within("args"):
        context = Context(Where.ARGUMENT, replaced, _tool(outer[-1]), given=tuple(frame.texts))
        for parameter in arguments(context, known):
            name = parameter.label.removesuffix("=")
            yield _json_key(place, name, replaced, parameter.detail, parameter.about)
        return
    if place.within("on_fail"):
        yield from _fields(place, FAILURE_FIELDS, replaced)
    elif place.within("steps", 2):
        yield from _fields(place, STEP_FIELDS, replaced)
    elif not outer:
        yield from _fields(place, PLAN_FIELDS, replaced)


def _tool(step: Frame) -> str:
    return canonical_tool_name(step.texts.get("tool") or step.texts.get("name", ""))


def _fields(place: Place, fields: Iterable[Field], replaced: Span) -> Iterator[Proposal]:
    for each in fields:
        if each.name not in place.frames[-1].texts or each.name == place.frames[-1].key:
            yield _json_key(place, each.name, replaced, each.holds, each.meaning)


def _json_key(place: Place, name: str, replaced: Span, detail: str, about: str) -> Proposal:
    insert = name if place.typed is not None else f'"{name}": '
    return Proposal(name, Sort.ARGUMENT, insert, replaced, detail, about)


# ---------------------------------------------------------------- values


def _values(place: Place, replaced: Span, known: Knowledge, indexes: Iterable[str]) -> Iterator[Proposal]:
    frame = place.frames[-1]
    if frame.mark == "[" and place.within("depends_on"):
        own = place.frames[-2].texts.get("index")
        for index in dict.fromkeys(indexes):
            if index != own:
                yield _json_value(place, index, replaced, Sort.STEP)
    elif frame.mark == "{" and frame.key == "tool":
        for name in sorted({*known.tools, *OPERATIONS}):
            spec = known.tools.get(name)
            if spec is None or spec.refusal is None:
                detail, about = knowledge.summary(name, spec), knowledge.markdown(name, spec)
                yield _json_value(place, name.lower(), replaced, Sort.TOOL, detail, about)
    elif frame.mark == "{" and place.within("args"):
        context = Context(Where.VALUE, replaced, _tool(place.frames[-2]), frame.key)
        for proposal in option_values(context, known):
            if proposal.label.startswith('"'):
                yield _json_value(place, proposal.label.strip('"'), replaced, Sort.VALUE)
            elif place.typed is None:
                yield proposal


def _json_value(
    place: Place, text: str, replaced: Span, sort: Sort, detail: str = "", about: str = ""
) -> Proposal:
    insert = text if place.typed is not None else f'"{text}"'
    return Proposal(text, sort, insert, replaced, detail, about)


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
    place = _yaml_place(text[:offset])
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


def _yaml_place(before: str) -> Place | None:
    """Returns the context at the end of a truncated text, or None if it is unknown."""
    *lines, last = before.split("\n")
    reading = _read(lines)
    column = len(last) - len(last.lstrip(" "))
    text_part = last[column:]
    if reading.block is not None and column > reading.block:
        return _yaml_value(reading, text_part)
    inner, rest = reading.dashes(column, text_part)
    entry = _ENTRY.match(rest)
    if entry is not None:
        reading.mapping(inner).key = entry[2]
        return _yaml_value(reading, entry[3])
    if not _WORD.match(rest):
        return None
    if inner > column and _field_of_list(reading) == "depends_on":
        return Place(_frames(reading), _typed(rest))
    if inner > column and _field_of_list(reading) != "steps":
        return None
    return _yaml_key(reading, inner, rest)


def _yaml_key(reading: _Reading, column: int, typed: str) -> Place | None:
    """Returns the context of a field name, in an open mapping or one that begins here."""
    frame = reading.mapping(column)
    outer = reading.opened[-2].frame if len(reading.opened) > 1 else None
    if not frame.texts and outer is not None and outer.mark == "{" and outer.texts.get(outer.key):
        return None  # the outer field already has a value
    frame.key = ""
    return Place(_frames(reading), _typed(typed))


def _yaml_value(reading: _Reading, text_part: str) -> Place | None:
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
