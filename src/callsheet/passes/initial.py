"""Checks paths into initial variables, whose values are part of the plan."""

from __future__ import annotations

from collections.abc import Iterator

from callsheet.diagnostics import Severity
from callsheet.ir import DictExpr, ListExpr, Literal, Order, Ref, Value
from callsheet.passes.finding import Finding, Subject, Suggestion


def missing_parts(subject: Subject) -> Iterator[Finding]:
    """CHK064 for a path that leads nowhere in an initial variable; dependency-ordered plans only.

    Variables that a step sets or that are inputs of the run are skipped: their value may differ by then.
    """
    if subject.plan.order is not Order.DAG:
        return
    fixed = {
        name: value
        for name, value in subject.plan.variables
        if name not in subject.inputs and name not in subject.flow.definitions
    }
    for use in subject.uses:
        value = fixed.get(use.ref.name)
        if value is None or not use.ref.path or _holds(value, use.ref):
            continue
        written = use.ref.dotted
        yield Finding(
            "CHK064",
            Severity.ERROR,
            f"${{{written}}} does not exist",
            use.step,
            use.ref.span,
            _known(subject, value, use.ref),
            (use.ref.name, written),
            use.place,
        )


def _holds(value: Value, ref: Ref) -> bool:
    """Whether the path may lead to a value; a string may contain JSON, so any path into it is accepted."""
    return _walk(value, ref)[1] == len(ref.path)


def _walk(value: Value, ref: Ref) -> tuple[Value, int]:
    """The last value that the path reaches, and how many of its parts were followed."""
    for depth, part in enumerate(ref.path):
        match value:
            case DictExpr(items=pairs):
                member = next((item for key, item in pairs if key == str(part)), None)
            case ListExpr(items=items) if isinstance(part, int) and -len(items) <= part < len(items):
                member = items[part]
            case Literal(value=str()):
                return value, len(ref.path)
            case _:
                member = None
        if member is None:
            return value, depth
        value = member
    return value, len(ref.path)


def _known(subject: Subject, value: Value, ref: Ref) -> str | Suggestion:
    """Help for the reader: a near key, or what there is where the path stops."""
    reached, depth = _walk(value, ref)
    where = ".".join([ref.name, *map(str, ref.path[:depth])])
    match reached:
        case DictExpr(items=pairs):
            near = subject.suggest(str(ref.path[depth]), (key for key, _ in pairs))
            if near is not None:
                return near
            keys = ", ".join(key[:40] for key, _ in pairs[:8])
            return f"{where} has {keys}" if keys else f"{where} is empty"
        case ListExpr(items=items):
            return f"{where} is a list of {len(items)}"
        case _:
            return f"{where} has no parts"
