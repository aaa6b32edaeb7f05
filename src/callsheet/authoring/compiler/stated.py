"""Values of a plan that nobody stated: an id, an address or an amount that the model must have made up.

Pure. In: a plan with blocks, and everything the model was told. Out: warnings. Only parts with a digit or an
`@` are looked at: such values are the same in every language, whatever words are around them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from callsheet import lazy
from callsheet.diagnostics import Diagnostic, Severity
from callsheet.ir import Literal
from callsheet.ir.expression import Display, Expression, Mapping, Text
from callsheet.ir.operations import CallKind
from callsheet.ir.tree import Tree, acts
from callsheet.ports.models.prompts import one_line

_PART = lazy.pattern(r"[^\s,;()\[\]{}<>\"']+")
_SMALL = 10
"""Whole numbers below it count things, choose and switch; goals say them in words."""


def unstated(tree: Tree, told: Iterable[str]) -> Iterator[Diagnostic]:
    """CMP010 for each literal value of a call that stands in none of the texts.

    >>> from callsheet.frontends.python import read_python
    >>> plan = read_python('async def main(): await pay(to="DE89-37", amount=250)').plan
    >>> [one.message for one in unstated(plan.tree, ["Pay 250 to DE89 37"])]
    []
    >>> [one.message for one in unstated(plan.tree, ["Pay the rent to DE89 37"])]
    ['amount=250: nothing that the model was told has 250']
    """
    known = _plain(" ".join(told))
    for act in acts(tree):
        if act.kind is not CallKind.TOOL:
            continue
        for name, value in (*(("", value) for value in act.positional), *act.named):
            for part in _parts(value):
                if _plain(part) and _plain(part) not in known:
                    shown = one_line(part)[:60]
                    where = f"{name}={shown}" if name else f"{act.tool.lower()}({shown})"
                    yield Diagnostic(
                        "CMP010",
                        Severity.WARNING,
                        f"{where}: nothing that the model was told has {shown}",
                        act.span,
                        "check it, or say it in the goal; what is not known has to be looked up by a tool",
                        step=act.id,
                    )


def _parts(node: Expression) -> Iterator[str]:
    """The parts of literal values that cannot be guessed."""
    match node:
        case Literal(value=bool() | None):
            return
        case Literal(value=int() | float() as number):
            if abs(number) >= _SMALL or number != int(number):
                yield str(int(number) if number == int(number) else number)
        case Literal(value=str() as text):
            yield from _of_text(text)
        case Text(parts=parts):
            for part in parts:
                if isinstance(part, str):
                    yield from _of_text(part)
        case Display(items=items):
            for item in items:
                yield from _parts(item)
        case Mapping(items=pairs):
            for _, value in pairs:
                yield from _parts(value)
        case _:
            return


def _of_text(text: str) -> Iterator[str]:
    for match in _PART.finditer(text):
        part = match[0].strip(".:!?")
        if any(c.isdigit() or c == "@" for c in part) and not (part.isdigit() and int(part) < _SMALL):
            yield part


def _plain(text: str) -> str:
    """Letters and digits alone, in lower case."""
    return "".join(c for c in text.casefold() if c.isalnum())
