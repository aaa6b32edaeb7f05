"""Checks each call against the signature of its tool or operation: existence, argument names and values."""

from __future__ import annotations

from collections.abc import Iterator

from callsheet.diagnostics import Severity
from callsheet.ir import Call, CallKind, DictExpr, ListExpr, Ref, Value
from callsheet.ir.expr import refs_of
from callsheet.passes.finding import Finding, Subject, Suggestion
from callsheet.passes.schema import Fit, Misfit, Wrong, is_judged, literal_json, may_take, misfits, wanted
from callsheet.passes.signatures import OPERATIONS, Operation, ToolSignature
from callsheet.passes.types import LIST, shapes_of


def calls(subject: Subject) -> Iterator[Finding]:
    """CHK040 to CHK046 for each call; tools and transforms are checked only if a catalogue is given."""
    lists = _lists(subject) if subject.tools is not None else frozenset[str]()
    for number, step in enumerate(subject.plan.steps):
        if not isinstance(step.action, Call):
            continue
        call = step.action
        operation = OPERATIONS.get(call.tool)
        if operation is not None:
            yield from _operation(subject, number, call, operation)
        elif subject.tools is not None:
            signature = subject.tools.get(call.tool)
            if signature is not None:
                yield from _tool(subject, number, call, signature)
                yield from _whole_lists(number, call, signature, lists)
            elif call.kind is CallKind.TOOL:
                yield _unknown_tool(subject, number, call)


def _unknown_tool(subject: Subject, number: int, call: Call) -> Finding:
    help_ = subject.suggest(call.tool, subject.tools or (), "@")
    return Finding(
        "CHK040",
        Severity.ERROR,
        f"no tool is called @{call.tool}",
        number,
        call.span,
        help_ or "`callsheet tools` lists the available tools",
        (call.tool,),
    )


# ---------------------------------------------------------------- tools


def _tool(subject: Subject, number: int, call: Call, signature: ToolSignature) -> Iterator[Finding]:
    free, arguments = _arguments(call, signature)
    if len(call.positional) > len(free) and signature.is_open is not True:
        yield _too_many(number, call, signature)
    for name, value in call.named:
        if name not in signature.parameters and signature.is_open is not True:
            yield _unknown_argument(subject, number, call, signature, name, value)
    missing = signature.required - {name for name, _ in arguments}
    for name in sorted(missing):
        yield _missing_argument(number, call, Severity.ERROR, name)
    found = [
        one for name, value in arguments for one in _argument(subject, number, call, signature, name, value)
    ]
    yield from found
    if not missing and not found and is_judged(signature.schema):
        together = DictExpr(tuple(arguments))
        for misfit in misfits(together, signature.schema, signature.schema):
            yield _misfit(subject, number, call, "", misfit)


def _arguments(call: Call, signature: ToolSignature) -> tuple[list[str], list[tuple[str, Value]]]:
    """The parameters that positional values may fill, and all arguments as (name, value)."""
    given = {name for name, _ in call.named}
    free = [name for name in signature.parameters if name not in given]
    return free, [*zip(free, call.positional, strict=False), *call.named]


def _lists(subject: Subject) -> frozenset[str]:
    """The variables that hold a list whichever step or initial value sets them."""
    loops = {step.foreach.var for step in subject.plan.steps if step.foreach is not None}
    lists = (name for name, shape in shapes_of(subject).items() if shape == LIST)
    brought = (
        name
        for name, value in subject.plan.variables
        if isinstance(value, ListExpr)
        and name not in subject.inputs
        and name not in subject.flow.definitions
        and name not in loops
    )
    return frozenset((*lists, *brought))


def _whole_lists(
    number: int, call: Call, signature: ToolSignature, lists: frozenset[str]
) -> Iterator[Finding]:
    """CHK044 for a variable that holds a list, passed where the tool accepts none (a string, say)."""
    for name, value in _arguments(call, signature)[1]:
        if not isinstance(value, Ref) or value.path or value.name not in lists:
            continue
        schema = signature.schema_of(name)
        if may_take(schema, signature.schema, "array"):
            continue
        yield Finding(
            "CHK044",
            Severity.WARNING,
            f"${value.name} is a list, and the argument {name} of @{call.tool} should be {wanted(schema)}",
            number,
            value.span or call.span,
            f'put it into a text ("… ${value.name}"), use one of its items, or loop over it with ?FOREACH',
            (call.tool, name, value.name),
        )


def _argument(
    subject: Subject, number: int, call: Call, signature: ToolSignature, name: str, value: Value
) -> Iterator[Finding]:
    wrong = list(misfits(value, signature.schema_of(name), signature.schema))
    for misfit in wrong:
        yield _misfit(subject, number, call, name, misfit)
    if not wrong and signature.check_literal is not None:
        known, literal = literal_json(value)
        refused = signature.check_literal(name, literal) if known else None
        if refused is not None:
            yield Finding(
                "CHK045",
                Severity.ERROR,
                f"the argument {name} of @{call.tool} is not valid: {refused}",
                number,
                value.span or call.span,
                names=(call.tool, name),
            )


def _misfit(subject: Subject, number: int, call: Call, name: str, misfit: Misfit) -> Finding:
    """A misfit inside an argument, reported with the code used for the same fault of an argument itself.

    Without a `name` the value is that of all arguments together.
    """
    place, span = (name + misfit.path).removeprefix("."), misfit.value.span or call.span
    help_: Suggestion | str | None = None
    match misfit.wrong:
        case Wrong.VALUE:
            what = f"argument {place}" if place else "arguments"
            message, code = f"the {what} of @{call.tool} should be {misfit.wanted}", "CHK044"
        case Wrong.MISSING:
            message, code = f"@{call.tool} lacks its argument {place}", "CHK042"
            help_ = f'add "{place.rpartition(".")[2]}": … to it'
        case Wrong.UNKNOWN:
            message, code = f"@{call.tool} has no argument {place}", "CHK041"
            near = subject.suggest(place.rpartition(".")[2], misfit.known)
            help_ = near or ("it takes " + ", ".join(misfit.known) if misfit.known else "it takes none")
    severity = Severity.ERROR if misfit.fit is Fit.NO else Severity.WARNING
    return Finding(code, severity, message, number, span, help_, (call.tool, place))


def _too_many(number: int, call: Call, signature: ToolSignature) -> Finding:
    names = ", ".join(signature.parameters)
    return Finding(
        "CHK043",
        Severity.ERROR,
        f"@{call.tool} is given more values than it has arguments",
        number,
        call.positional[-1].span or call.span,
        f"it takes {names}" if names else "it takes none",
        (call.tool,),
    )


def _unknown_argument(
    subject: Subject, number: int, call: Call, signature: ToolSignature, name: str, value: Value
) -> Finding:
    known = signature.parameters
    near = subject.suggest(name, known)
    return Finding(
        "CHK041",
        Severity.ERROR if signature.is_open is False else Severity.WARNING,
        f"@{call.tool} has no argument {name}",
        number,
        value.span or call.span,
        near or ("it takes " + ", ".join(known) if known else "it takes none"),
        (call.tool, name),
    )


def _missing_argument(number: int, call: Call, severity: Severity, name: str) -> Finding:
    return Finding(
        "CHK042",
        severity,
        f"@{call.tool} lacks its argument {name}",
        number,
        call.span,
        f"add {name}=…",
        (call.tool, name),
    )


# ---------------------------------------------------------------- operations


def _operation(subject: Subject, number: int, call: Call, operation: Operation) -> Iterator[Finding]:
    given = {name for name, _ in call.named}
    own = operation.names
    if operation.needs_data and not call.positional and given <= {*own} - {"context"} and not _reads(call):
        yield Finding(
            "CHK046",
            Severity.WARNING,
            f"@{call.tool} has no input",
            number,
            call.span,
            f"put the data first: @{call.tool} ($data, …)",
            (call.tool,),
        )
    for name, value in call.named:
        if name not in own and name != "context":
            yield _told_argument(subject, number, call, name, value, own)
    for name in operation.required:
        if name not in given:
            yield _missing_argument(number, call, Severity.ERROR, name)
    for name in operation.expected:
        if name not in given and len(call.positional) <= 1:
            yield _missing_argument(number, call, Severity.WARNING, name)


def _reads(call: Call) -> bool:
    return any(next(refs_of(value), None) is not None for _, value in call.named)


def _told_argument(
    subject: Subject, number: int, call: Call, name: str, value: Value, known: tuple[str, ...]
) -> Finding:
    """CHK041 for a named argument that the operation does not define; the model still receives it."""
    near = subject.suggest(name, known)
    return Finding(
        "CHK041",
        Severity.WARNING if near else Severity.HINT,
        f"@{call.tool} has no argument {name}; it is passed to the model as it is",
        number,
        value.span or call.span,
        near or "it knows " + ", ".join(known),
        (call.tool, name),
    )
