"""Completion for JSON plans: fields, tools, arguments, indexes, references.

In: a document, an offset, knowledge. Out: proposals. The context is derived from the brackets and strings
before the cursor, so the text need not be valid JSON.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from callsheet.diagnostics import Span
from callsheet.frontends.dag.fields import FAILURE_FIELDS, PLAN_FIELDS, STEP_FIELDS, Field
from callsheet.frontends.values.reader import NAME
from callsheet.ir import canonical_tool_name
from callsheet.passes.signatures import OPERATIONS
from callsheet.views.editor import tooltext
from callsheet.views.editor.context import Context, Where
from callsheet.views.editor.document import PlanDocument
from callsheet.views.editor.knowledge import Knowledge
from callsheet.views.editor.proposing import Proposal, Sort, arguments, option_values

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
    place = _place(text[:offset])
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


def _place(before: str) -> Place:
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
            yield _key(place, name, replaced, parameter.detail, parameter.about)
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
            yield _key(place, each.name, replaced, each.holds, each.meaning)


def _key(place: Place, name: str, replaced: Span, detail: str, about: str) -> Proposal:
    insert = name if place.typed is not None else f'"{name}": '
    return Proposal(name, Sort.ARGUMENT, insert, replaced, detail, about)


# ---------------------------------------------------------------- values


def _values(place: Place, replaced: Span, known: Knowledge, indexes: Iterable[str]) -> Iterator[Proposal]:
    frame = place.frames[-1]
    if frame.mark == "[" and place.within("depends_on"):
        own = place.frames[-2].texts.get("index")
        for index in dict.fromkeys(indexes):
            if index != own:
                yield _value(place, index, replaced, Sort.STEP)
    elif frame.mark == "{" and frame.key == "tool":
        for name in sorted({*known.tools, *OPERATIONS}):
            spec = known.tools.get(name)
            if spec is None or spec.refusal is None:
                detail, about = tooltext.summary(name, spec), tooltext.markdown(name, spec)
                yield _value(place, name.lower(), replaced, Sort.TOOL, detail, about)
    elif frame.mark == "{" and place.within("args"):
        context = Context(Where.VALUE, replaced, _tool(place.frames[-2]), frame.key)
        for proposal in option_values(context, known):
            if proposal.label.startswith('"'):
                yield _value(place, proposal.label.strip('"'), replaced, Sort.VALUE)
            elif place.typed is None:
                yield proposal


def _value(
    place: Place, text: str, replaced: Span, sort: Sort, detail: str = "", about: str = ""
) -> Proposal:
    insert = text if place.typed is not None else f'"{text}"'
    return Proposal(text, sort, insert, replaced, detail, about)
