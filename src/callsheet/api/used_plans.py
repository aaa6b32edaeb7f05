"""The plans that a plan uses, `USE name FROM …`: read from their files and the library.

They become part of the plan, so its hash covers their text. Printed, it says USE as before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from callsheet.api.texts import plan_of_file, read_text
from callsheet.diagnostics import CallsheetError, Diagnostic, Severity, Source
from callsheet.frontends.spelling import read_plan_text
from callsheet.frontends.structured.uses import unread_uses, with_plans
from callsheet.ir import Plan

if TYPE_CHECKING:
    from callsheet.ir.tree import Origin, SubPlan

MOST_NESTED = 20
"""How many plans use one another at most, one inside the other."""

_ABOVE = "a plan cannot use itself: write what repeats as ?FOREACH or ?REPEAT"


def with_used_plans(plan: Plan, path: Path, library: Callable[[str], Plan] | None = None) -> Plan:
    """The plan of a file with the plans that it uses; the same plan if it uses none.

    `library` gives the plan of a reference such as `triage@3`, by default from the user's library. Raises
    CallsheetError with all that cannot be read (PLN030), is used in a circle (PLN032) or cannot be a sub-plan
    (PLN031), each at its USE.
    """
    if not unread_uses(plan):
        return plan
    return _read(plan, path.resolve(), (), _from_library if library is None else library)


def unread(plan: Plan) -> tuple[Diagnostic, ...]:
    """PLN030 for each plan that is used but was not read, as in a text that is no file."""
    help_ = "only a plan in a file can use others: write it here as PLAN name (…) { … }"
    return tuple(_at(use, "PLN030", f"the plan {use.name} was not read", help_) for use in unread_uses(plan))


def _at(use: SubPlan, code: str, message: str, help_: str | None) -> Diagnostic:
    return Diagnostic(code, Severity.ERROR, message, use.span, help_)


def _from_library(reference: str) -> Plan:
    from callsheet.store.library import open_library  # noqa: PLC0415 - only for a plan that uses one of it

    return open_library().load(reference).require()


def _read(plan: Plan, path: Path, above: tuple[str, ...], library: Callable[[str], Plan]) -> Plan:
    found: dict[str, Plan] = {}
    wrong: list[Diagnostic] = []
    chain = (*above, str(path))
    for use in unread_uses(plan):
        assert use.origin is not None
        try:
            used, place = _plan_of(use.origin, path, library)
            if str(place) in chain or len(chain) > MOST_NESTED:
                wrong.append(
                    _at(use, "PLN032", f"the plan {use.name} uses itself, through {place.name}", _ABOVE)
                )
                continue
            found[use.name] = _read(used, place, chain, library)
        except CallsheetError as error:
            wrong.extend(_said(use, error))
        except OSError as error:
            reason = error.strerror or str(error)
            wrong.append(
                _at(
                    use,
                    "PLN030",
                    f"the plan {use.name} cannot be read: {reason}",
                    _place_of(use.origin, path),
                )
            )
    if not wrong:
        try:
            return with_plans(plan, found)
        except CallsheetError as error:
            uses = {use.name: use for use in unread_uses(plan)}
            wrong = [replace(d, span=next(iter(uses.values())).span) for d in error.diagnostics]
    raise CallsheetError(wrong)


def _place_of(origin: Origin, path: Path) -> str:
    return f"its place is {origin.reference}, beside {path.name}"


def _plan_of(origin: Origin, path: Path, library: Callable[[str], Plan]) -> tuple[Plan, Path]:
    """The used plan, and the place that stands for it in a chain of uses."""
    if origin.is_library:
        return library(origin.reference), Path("library") / origin.reference
    if "\0" in origin.reference:
        raise OSError("no file has such a name")
    place = (path.parent / origin.reference).resolve()
    with place.open("rb") as file:
        text = read_text(file, str(place), "give the place of a plan")
    source = Source(origin.reference, text)
    if place.suffix == ".json":
        return plan_of_file(source), place
    return read_plan_text(text, origin.reference).result.require(), place


def _said(use: SubPlan, error: CallsheetError) -> list[Diagnostic]:
    """What is wrong in a used plan, at its USE."""
    out: list[Diagnostic] = []
    for one in error.diagnostics:
        if not one.is_error:
            continue
        if one.code.startswith("PLN03"):
            out.append(replace(one, span=use.span))
            continue
        where = ""
        if error.source is not None and one.span is not None:
            at = error.source.position(one.span.start)
            where = f"{error.source.name}:{at.line}:{at.column}: "
        out.append(_at(use, "PLN030", f"the plan {use.name} cannot be read: {where}{one.message}", one.help))
    return out
