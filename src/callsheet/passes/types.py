"""Finds casts that cannot succeed, and paths into values that have no such parts."""

from __future__ import annotations

from collections.abc import Iterator

from callsheet.diagnostics import Severity
from callsheet.ir import Call, Cast, ListExpr, Literal, Ref, Step
from callsheet.passes.finding import Finding, Subject

_SCALAR_CASTS = frozenset({Cast.INT, Cast.FLOAT, Cast.BOOL})
LIST = "a list"
_TRUE_WORDS = frozenset({"true", "yes", "1"})


def impossible_paths(subject: Subject) -> Iterator[Finding]:
    """CHK030 for a path into a number or boolean, or by name into a list."""
    walked = [use for use in subject.uses if use.ref.path]
    shape_of = shapes_of(subject) if walked else {}
    for use in walked:
        ref = use.ref
        shape = shape_of.get(ref.name)
        if shape is None or (shape == LIST and _is_index(ref)):
            continue
        yield Finding(
            "CHK030",
            Severity.WARNING,
            f"${ref.name} is {shape}, so there is nothing at .{ref.path[0]}: it is null",
            use.step,
            ref.span,
            "go through a list with ?FOREACH, or by index ($list.0)"
            if shape == LIST
            else "apply the path to the value before it is cast",
            (ref.name,),
        )


def _is_index(ref: Ref) -> bool:
    part = ref.path[0]
    return isinstance(part, int) or part.lstrip("-").isdigit()


def shapes_of(subject: Subject) -> dict[str, str]:
    """By variable, its shape: `LIST`, or the description of a scalar. Only where all setters agree."""
    given = subject.given
    loops = {step.foreach.var for step in subject.plan.steps if step.foreach is not None}
    shapes: dict[str, str] = {}
    for name, definitions in subject.flow.definitions.items():
        if name in given or name in loops:
            continue
        shapes_set = {_shape(subject, subject.plan.steps[d.step]) for d in definitions}
        shape = shapes_set.pop()
        if shape is not None and not shapes_set:
            shapes[name] = shape
    return shapes


def _shape(subject: Subject, step: Step) -> str | None:
    if step.foreach is not None:
        return LIST
    cast = step.output.cast if step.output is not None else None
    if cast in _SCALAR_CASTS:
        return f"a single value (:{cast})"
    if cast is None and subject.tools is not None and isinstance(step.action, Call):
        signature = subject.tools.get(step.action.tool)
        return LIST if signature is not None and signature.gives_list else None
    return LIST if cast is Cast.LIST else None


def impossible_casts(subject: Subject) -> Iterator[Finding]:
    """CHK031 for a cast that no answer of the operation can satisfy."""
    for number, step in enumerate(subject.plan.steps):
        output = step.output
        if output is None or output.cast is None or not isinstance(step.action, Call):
            continue
        why = _misfit(step.action, output.cast)
        if why is not None:
            yield Finding(
                "CHK031",
                Severity.WARNING,
                f"the cast :{output.cast} cannot fit: @{step.action.tool} {why}",
                number,
                output.span,
                "remove the cast" + (", or use :bool" if step.action.tool == "LLM_EVALUATE" else ""),
                (output.var, str(output.cast)),
            )


def _misfit(call: Call, cast: Cast) -> str | None:
    if call.tool == "LLM_EVALUATE":
        return "answers TRUE or FALSE" if cast in (Cast.INT, Cast.FLOAT, Cast.JSON) else None
    if call.tool != "LLM_CLASSIFY":
        return None
    words = _categories(call)
    if words is None or cast is Cast.LIST:
        return None
    if cast is Cast.BOOL:
        fits = any(word.strip().lower() in _TRUE_WORDS for word in words)
        return None if fits else "answers one of its categories, and each of them reads as false"
    numbers = any(any(c.isdigit() for c in word) for word in words)
    names = any(word.strip() in ("true", "false", "null") or word.strip()[:1] in '"[{' for word in words)
    if numbers or (cast is Cast.JSON and names):
        return None
    return "answers one of its categories, and none of them " + (
        "is JSON" if cast is Cast.JSON else "is a number"
    )


def _categories(call: Call) -> list[str] | None:
    """The categories of a call, if all of them are literal strings."""
    given = dict(call.named).get("categories")
    if not isinstance(given, ListExpr) or not given.items:
        return None
    words = [item.value for item in given.items if isinstance(item, Literal)]
    texts = [word for word in words if isinstance(word, str)]
    return texts if len(texts) == len(given.items) else None
