"""Renames a variable or a step at all its occurrences; refused if that would change the meaning.

In: a `PlanDocument`, an offset, the new name. Out: edits, or CallsheetError with the reason.
"""

from __future__ import annotations

import re

from callsheet.diagnostics import CallsheetError, Edit, Span
from callsheet.frontends.dag.fields import INDEX
from callsheet.frontends.spelling import Syntax
from callsheet.frontends.values.reader import LABEL, NAME
from callsheet.views.editor.document import PlanDocument
from callsheet.views.editor.lookup import Named, named_at
from callsheet.views.editor.occurrences import Entity, Kind, Occurrence, occurrences

_NAME = re.compile(NAME)
_LABEL = re.compile(LABEL)
_INDEX = re.compile(INDEX)
_ESCAPED = frozenset('"\\')


def renamable_at(document: PlanDocument, offset: int) -> Span | None:
    """Returns the span of the name at an offset, or None if it cannot be renamed."""
    named = named_at(document, offset)
    if named is None or (named.here.entity.kind is Kind.STEP and not named.writes):
        return None
    return named.here.span


def rename(document: PlanDocument, offset: int, new: str) -> tuple[Edit, ...]:
    """Returns the edits that rename the variable or step at an offset.

    Raises CallsheetError: LSP002 if there is no name that can be renamed, LSP003 if the new name is invalid,
    LSP004 if it is already in use.

    >>> from callsheet.views.editor.document import open_document
    >>> [edit.text for edit in rename(open_document("S1: @A > $x\\nS2: @RESPOND ($x)"), 10, "$y")]
    ['y', 'y']
    """
    named = named_at(document, offset)
    if named is None or (named.here.entity.kind is Kind.STEP and not named.writes):
        raise CallsheetError.single(
            "LSP002",
            "there is no variable and no step at this position",
            help="put the cursor on a variable or on a step's id",
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
