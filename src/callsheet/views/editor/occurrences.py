"""The occurrences of variables and step names, resolved to what they refer to: definition, renaming."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from callsheet.diagnostics import CallsheetError, Edit, Span
from callsheet.frontends.dag.fields import INDEX
from callsheet.frontends.ltp.words import BOLD_LABEL, LABELLED
from callsheet.frontends.spelling import Syntax
from callsheet.frontends.values.reader import LABEL, NAME
from callsheet.ir import Output, Place, Ref, Step
from callsheet.ir.expr import refs_of
from callsheet.ir.flow import flow_of
from callsheet.ir.tree import ERROR_VARIABLE
from callsheet.views.editor.document import PlanDocument


class Role(StrEnum):
    """The role of an occurrence."""

    WRITE = "write"
    """It defines the name: the output of a step, a loop variable, a step's own id."""
    READ = "read"
    """It uses the name: a reference, the target of a jump, a dependency."""


class Kind(StrEnum):
    """The kind of a named entity."""

    VARIABLE = "variable"
    STEP = "step"
    PLAN = "plan"
    """A sub-plan of a text with blocks."""


class Entity(NamedTuple):
    """A named entity. `loop` is the number of the step whose loop variable it is, None for others.

    In a text with blocks it is the number of the scope of a variable: a sub-plan, an item, a handler.
    """

    kind: Kind
    name: str
    loop: int | None = None


class Occurrence(NamedTuple):
    """An occurrence of a name: `span` is that of the name alone, without `$` and braces.

    `step` is the number of the step that contains it, None in an unreadable one.
    """

    entity: Entity
    role: Role
    span: Span
    step: int | None


_LOST_NAME = re.compile(rf"(?P<out>>[ \t]*)?\$\{{?(?P<name>{NAME})|\bGOTO[ \t]+(?P<target>[A-Za-z_][\w-]*)")
_LOST_LABEL = re.compile(r"[ \t]*([A-Za-z_][A-Za-z0-9_-]*)[ \t]*:(?![:/])")


def occurrences(document: PlanDocument) -> tuple[Occurrence, ...]:
    """Returns all occurrences, in text order.

    >>> from callsheet.views.editor.document import open_document
    >>> text = 'S1: @A > $x\\nS2: @RESPOND ("$x")'
    >>> found = [o for o in occurrences(open_document(text)) if o.entity.kind is Kind.VARIABLE]
    >>> [(o.entity.name, str(o.role), text[slice(*o.span)]) for o in found]
    [('x', 'write', 'x'), ('x', 'read', 'x')]
    """
    places: list[Occurrence] = []
    if document.tree is not None:
        from callsheet.views.editor.blocks import tree_occurrences  # noqa: PLC0415 - it needs these types

        places += tree_occurrences(document.text, document.tree)
    for number, step in enumerate(document.steps):
        places += _of_step(document, number, step)
    for span in document.lost:
        places += _of_lost(document.text, span)
    places.sort(key=lambda occurrence: occurrence.span)
    return tuple(places)


def occurrence_at(places: tuple[Occurrence, ...], offset: int) -> Occurrence | None:
    """Returns the occurrence at an offset, which may also be the end of the name or the `$` before it."""
    near = [o for o in places if o.span.start - 1 <= offset <= o.span.end]
    inside = [o for o in near if o.span.start <= offset < o.span.end]
    return next(iter(inside or near), None)


def same(places: tuple[Occurrence, ...], entity: Entity) -> tuple[Occurrence, ...]:
    """Returns the occurrences of one entity."""
    return tuple(occurrence for occurrence in places if occurrence.entity == entity)


def _of_step(document: PlanDocument, number: int, step: Step) -> Iterator[Occurrence]:
    text = document.text
    yield from _own_id(document, number, step)
    if step.foreach is not None and step.foreach.span is not None:
        loop = _find(text, step.foreach.var, _BEFORE_IN, step.foreach.span)
        if loop is not None:
            yield Occurrence(Entity(Kind.VARIABLE, step.foreach.var, number), Role.WRITE, loop, number)
    for place, nodes in step.reads():
        own = None if step.foreach is None or place is Place.SOURCE else step.foreach.var
        for ref in (ref for node in nodes for ref in refs_of(node)):
            yield from _read(text, ref, number if ref.name == own else None, number)
    if step.output is not None:
        yield from _written(text, step.output, number)
    for jump in step.jumps():
        if jump.span is not None:
            at = text.rfind(jump.target, *jump.span)
            if at >= 0:
                span = Span(at, at + len(jump.target))
                yield Occurrence(Entity(Kind.STEP, jump.target), Role.READ, span, number)
    for target, span in zip(step.depends_on or (), step.depends_spans, strict=False):
        inside = _within(text, target, span)
        if inside is not None:
            yield Occurrence(Entity(Kind.STEP, target), Role.READ, inside, number)


def _own_id(document: PlanDocument, number: int, step: Step) -> Iterator[Occurrence]:
    if step.span is None:
        return
    span = None
    if step.id_span is not None:
        span = _within(document.text, step.id, step.id_span)
    elif document.syntax is Syntax.LTP:
        for pattern in (LABELLED, BOLD_LABEL):
            match = pattern.match(document.text, step.span.start)
            if match is not None and match[1] == step.id:
                span = Span(*match.span(1))
                break
    if span is not None:
        yield Occurrence(Entity(Kind.STEP, step.id), Role.WRITE, span, number)


def _read(text: str, ref: Ref, loop: int | None, number: int) -> Iterator[Occurrence]:
    if ref.span is None:
        return
    start = ref.span.start
    if text[start : start + 1] == "$":
        start += 2 if text[start + 1 : start + 2] == "{" else 1
    span = Span(start, start + len(ref.name))
    if text[slice(*span)] == ref.name:
        yield Occurrence(Entity(Kind.VARIABLE, ref.name, loop), Role.READ, span, number)


def _written(text: str, output: Output, number: int) -> Iterator[Occurrence]:
    if output.span is None:
        return
    span = _find(text, output.var, _NAME_END, output.span)
    if span is not None:
        yield Occurrence(Entity(Kind.VARIABLE, output.var), Role.WRITE, span, number)


_BEFORE_IN = re.compile(r"[ \t\r\n]+(?i:IN)\b")
_NAME_END = re.compile(r"(?![A-Za-z0-9_])")


def _find(text: str, name: str, behind: re.Pattern[str], span: Span) -> Span | None:
    """Returns the first place of a name with this behind it."""
    at = text.find(name, *span)
    while at >= 0:
        end = at + len(name)
        if behind.match(text, end, span.end) is not None:
            return Span(at, end)
        at = text.find(name, at + 1, span.end)
    return None


def _within(text: str, name: str, span: Span) -> Span | None:
    """Returns the span of a name inside the span of its value, without quotes."""
    at = text.find(name, *span)
    return None if at < 0 else Span(at, at + len(name))


def _of_lost(text: str, lost: Span) -> Iterator[Occurrence]:
    """Yields the names in an unreadable step, found lexically."""
    label = _LOST_LABEL.match(text, *lost)
    if label is not None:
        yield Occurrence(Entity(Kind.STEP, label[1]), Role.WRITE, Span(*label.span(1)), None)
    for match in _LOST_NAME.finditer(text, *lost):
        name = "target" if match["name"] is None else "name"
        kind = Kind.STEP if name == "target" else Kind.VARIABLE
        role = Role.WRITE if match["out"] is not None else Role.READ
        yield Occurrence(Entity(kind, match[name]), role, Span(*match.span(name)), None)


class Named(NamedTuple):
    """The occurrence at an offset, and all occurrences of the same entity."""

    here: Occurrence
    all: tuple[Occurrence, ...]

    @property
    def writes(self) -> tuple[Occurrence, ...]:
        """The occurrences that set it."""
        return tuple(o for o in self.all if o.role is Role.WRITE)

    @property
    def reads(self) -> tuple[Occurrence, ...]:
        """The occurrences that use it."""
        return tuple(o for o in self.all if o.role is Role.READ)


def named_at(document: PlanDocument, offset: int) -> Named | None:
    """Returns the variable or step id at an offset, or None if there is none."""
    places = () if document.syntax is Syntax.PYTHON else occurrences(document)
    occurrence = occurrence_at(places, offset)
    return None if occurrence is None else Named(occurrence, same(places, occurrence.entity))


def definitions_at(document: PlanDocument, offset: int) -> tuple[Span, ...]:
    """Returns the definitions of the name at an offset; for a read, those that can reach it.

    Definitions that cannot reach the read, such as overwritten ones, are left out; if none is left, all are
    returned.

    >>> from callsheet.views.editor.document import open_document
    >>> text = 'S1: @A > $x\\nS2: @B > $x\\nS3: @RESPOND ($x)'
    >>> definitions_at(open_document(text), text.rindex("x"))
    (Span(start=22, end=23),)
    """
    if document.syntax is Syntax.PYTHON:
        from callsheet.views.editor.python import definitions_in_python  # noqa: PLC0415 - only for Python plans

        return definitions_in_python(document, offset)
    named = named_at(document, offset)
    if named is None:
        return ()
    writes = named.writes
    occurrence = named.here
    if occurrence.entity.kind is Kind.STEP and not writes:
        counted = counted_step(document, occurrence.entity.name)
        return () if counted is None or counted.span is None else (counted.span,)
    if (
        occurrence.role is Role.READ
        and occurrence.entity.kind is Kind.VARIABLE
        and occurrence.step is not None
    ):
        reaching = _reaching(document, occurrence.entity.name, occurrence.step)
        writes = tuple(w for w in writes if w.step is None or w.step in reaching) or writes
    return tuple(write.span for write in writes)


def counted_step(document: PlanDocument, name: str) -> Step | None:
    """Returns the step with this id in Micro-CLI, whose ids are implicit; otherwise None."""
    return document.partial.step(name) if document.syntax is Syntax.MICRO else None


def references_at(
    document: PlanDocument, offset: int, *, with_definitions: bool = True
) -> tuple[Occurrence, ...]:
    """Returns all occurrences of the name at an offset; without definitions, only its uses."""
    named = named_at(document, offset)
    if named is None:
        return ()
    return named.all if with_definitions else named.reads


def _reaching(document: PlanDocument, name: str, reader: int) -> frozenset[int]:
    """Returns the steps whose definitions of a variable reach a step (reaching definitions)."""
    flow = flow_of(document.partial)
    committed: dict[int, list[int]] = {}
    stops: set[int] = set()
    for definition in flow.definitions.get(name, ()):
        committed.setdefault(definition.committed, []).append(definition.step)
        if definition.sure:
            stops.add(definition.committed)
    first = reader
    while first > 0 and flow.group_end[first - 1] == flow.group_end[reader]:
        first -= 1
    steps: set[int] = set()
    seen: set[int] = set()
    stack = [*flow.predecessors[first]]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        steps.update(committed.get(node, ()))
        if node not in stops:
            stack.extend(flow.predecessors[node])
    return frozenset(steps)


_NAME = re.compile(NAME)
_LABEL = re.compile(LABEL)
_INDEX = re.compile(INDEX)
_ESCAPED = frozenset('"\\')


def renamable_at(document: PlanDocument, offset: int) -> Span | None:
    """Returns the span of the name at an offset, or None if it cannot be renamed."""
    named = named_at(document, offset)
    return None if named is None or _is_unsaid(named) else named.here.span


def _is_unsaid(named: Named) -> bool:
    """Whether nothing in the text gives the name: a step without an id, and the failure of a handler."""
    entity = named.here.entity
    return not named.writes and (entity.kind is Kind.STEP or entity.name == ERROR_VARIABLE)


def rename(document: PlanDocument, offset: int, new: str) -> tuple[Edit, ...]:
    """Returns the edits that rename the variable or step at an offset.

    Raises CallsheetError: LSP002 if there is no name that can be renamed, LSP003 if the new name is invalid,
    LSP004 if it is already in use.

    >>> from callsheet.views.editor.document import open_document
    >>> [edit.text for edit in rename(open_document("S1: @A > $x\\nS2: @RESPOND ($x)"), 10, "$y")]
    ['y', 'y']
    """
    named = named_at(document, offset)
    if named is None or _is_unsaid(named):
        raise CallsheetError.single(
            "LSP002",
            "there is no variable and no step at this position",
            help="put the cursor on a variable or on a step's id; a failure is named by ON_FAIL AS $name",
        )
    entity = named.here.entity
    name = new.strip().removeprefix("$") if entity.kind is Kind.VARIABLE else new.strip()
    _check_name(document, entity, name)
    if name != entity.name:
        _check_clash(document, named, name)
    return tuple(Edit(o.span, name) for o in named.all)


def _check_name(document: PlanDocument, entity: Entity, name: str) -> None:
    if entity.kind is Kind.VARIABLE:
        fits, what = (
            _NAME.fullmatch(name) is not None,
            "a variable's name is made of ASCII letters, digits and _",
        )
    elif document.syntax is Syntax.DAG:
        fits = _INDEX.fullmatch(name) is not None and not _ESCAPED & set(name)
        what = "an index is 1 to 64 characters, without quotes and backslashes"
    else:
        fits, what = _LABEL.fullmatch(name) is not None, "an id is made of ASCII letters, digits, _ and -"
    if not fits:
        raise CallsheetError.single("LSP003", f"{name[:40]!r} cannot be a name here", help=what)


def _check_clash(document: PlanDocument, named: Named, name: str) -> None:
    entity = named.here.entity
    places = occurrences(document)
    if document.tree is not None and any(
        o.entity.kind is entity.kind and o.entity.name == name for o in places
    ):
        mark = "$" if entity.kind is Kind.VARIABLE else ""
        raise _clash(f"{mark}{name} is a name of the text already")
    if entity.kind is Kind.STEP:
        others = [o for o in places if o.entity.kind is Kind.STEP and o.entity != entity]
        if any(o.entity.name.upper() == name.upper() for o in others):
            raise _clash(f"another step has the id {name}")
        return
    if entity.loop is None and name in (*document.inputs, *dict(document.partial.variables)):
        raise _clash(f"${name} is an input of the run")
    taken = [o for o in places if o.entity.kind is Kind.VARIABLE and o.entity.name == name]
    steps = {o.step for o in named.all}
    for other in taken:
        if _would_meet(entity, steps, other):
            where = "" if other.step is None else f" in {document.steps[other.step].id}"
            raise _clash(f"${name} is another variable{where}")
    if document.syntax is Syntax.MICRO and re.search(rf"(?<![\w$]){name}(?!\w)", document.text):
        raise _clash(f"the word {name} occurs in the text and would become that variable")


def _would_meet(entity: Entity, steps: set[int | None], other: Occurrence) -> bool:
    """Whether the renamed variable would be in the scope of another one."""
    if other.entity.loop is None:
        return True
    return entity.loop is None and other.step in steps


def _clash(message: str) -> CallsheetError:
    return CallsheetError.single("LSP004", message, help="choose a name that is not in use")
