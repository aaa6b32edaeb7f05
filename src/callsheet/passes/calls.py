"""Checks each call against the signature of its tool or operation: existence, argument names and values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from callsheet.diagnostics import Severity, Span
from callsheet.ir import (
    SAYING,
    Call,
    CallKind,
    Cast,
    DictExpr,
    ListExpr,
    Literal,
    Order,
    Ref,
    Step,
    Value,
    word_of,
)
from callsheet.ir.expr import refs_of
from callsheet.passes.finding import (
    OPERATIONS,
    Finding,
    Operation,
    Subject,
    Suggest,
    Suggestion,
    ToolSignature,
)
from callsheet.passes.schema import Fit, Misfit, Wrong, is_judged, literal_json, may_take, misfits, wanted

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
    if cast is None and subject.tools is not None and step.call is not None:
        signature = subject.tools.get(step.call.tool)
        return LIST if signature is not None and signature.gives_list else None
    return LIST if cast is Cast.LIST else None


def impossible_casts(subject: Subject) -> Iterator[Finding]:
    """CHK031 for a cast that no answer of the operation can satisfy."""
    for number, step, call in subject.calls:
        output = step.output
        if output is None or output.cast is None:
            continue
        why = _misfit_types(call, output.cast)
        if why is not None:
            yield Finding(
                "CHK031",
                Severity.WARNING,
                f"the cast :{output.cast} cannot fit: @{call.tool} {why}",
                number,
                output.span,
                "remove the cast" + (", or use :bool" if call.tool == "LLM_EVALUATE" else ""),
                (output.var, str(output.cast)),
            )


def _misfit_types(call: Call, cast: Cast) -> str | None:
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


def calls(subject: Subject) -> Iterator[Finding]:
    """CHK040 to CHK046 for each call; tools and transforms are checked only if a catalogue is given."""
    lists = _lists(subject) if subject.tools is not None else frozenset[str]()
    for number, _, call in subject.calls:
        operation = OPERATIONS.get(call.tool)
        if operation is not None:
            yield from operation_findings(subject.suggest, number, call, operation)
        elif subject.tools is not None:
            signature = subject.tools.get(call.tool)
            if signature is not None:
                yield from tool_findings(subject.suggest, number, call, signature)
                yield from _whole_lists(number, call, signature, lists)
            elif call.kind is CallKind.TOOL:
                yield unknown_tool(subject.suggest, subject.tools, number, call)


def unknown_tool(suggest: Suggest, tools: Iterable[str], number: int, call: Call) -> Finding:
    """CHK040 for a call of a tool that is none of those known."""
    help_ = suggest(call.tool, tools, "@")
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


def tool_findings(suggest: Suggest, number: int, call: Call, signature: ToolSignature) -> Iterator[Finding]:
    """CHK041 to CHK045 for a call of a tool whose signature is known."""
    free, arguments = _arguments(call, signature)
    if len(call.positional) > len(free) and signature.is_open is not True:
        yield _too_many(number, call, signature)
    for name, value in call.named:
        if name not in signature.parameters and signature.is_open is not True:
            yield _unknown_argument(suggest, number, call, signature, name, value)
    missing = signature.required - {name for name, _ in arguments}
    for name in sorted(missing):
        yield _missing_argument(number, call, Severity.ERROR, name)
    found = [
        one for name, value in arguments for one in _argument(suggest, number, call, signature, name, value)
    ]
    yield from found
    if not missing and not found and is_judged(signature.schema):
        together = DictExpr(tuple(arguments))
        for misfit in misfits(together, signature.schema, signature.schema):
            yield _misfit_calls(suggest, number, call, "", misfit)


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
    suggest: Suggest, number: int, call: Call, signature: ToolSignature, name: str, value: Value
) -> Iterator[Finding]:
    wrong = list(misfits(value, signature.schema_of(name), signature.schema))
    for misfit in wrong:
        yield _misfit_calls(suggest, number, call, name, misfit)
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


def _misfit_calls(suggest: Suggest, number: int, call: Call, name: str, misfit: Misfit) -> Finding:
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
            near = suggest(place.rpartition(".")[2], misfit.known)
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
    suggest: Suggest, number: int, call: Call, signature: ToolSignature, name: str, value: Value
) -> Finding:
    known = signature.parameters
    near = suggest(name, known)
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


def operation_findings(suggest: Suggest, number: int, call: Call, operation: Operation) -> Iterator[Finding]:
    """CHK041, CHK042 and CHK046 for a call of a model or agent operation."""
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
            yield _told_argument(suggest, number, call, name, value, own)
    for name in operation.required:
        if name not in given:
            yield _missing_argument(number, call, Severity.ERROR, name)
    for name in operation.expected:
        if name not in given and len(call.positional) <= 1:
            yield _missing_argument(number, call, Severity.WARNING, name)


def _reads(call: Call) -> bool:
    return any(next(refs_of(value), None) is not None for _, value in call.named)


def _told_argument(
    suggest: Suggest, number: int, call: Call, name: str, value: Value, known: tuple[str, ...]
) -> Finding:
    """CHK041 for a named argument that the operation does not define; the model still receives it."""
    near = suggest(name, known)
    return Finding(
        "CHK041",
        Severity.WARNING if near else Severity.HINT,
        f"@{call.tool} has no argument {name}; it is passed to the model as it is",
        number,
        value.span or call.span,
        near or "it knows " + ", ".join(known),
        (call.tool, name),
    )


CODE_ARGUMENTS: Mapping[str, str] = {"EXEC_CODE": "code", "SHELL_EXEC": "code", "HOST_EXEC": "command"}
"""By tool: the argument that is executed as code or as a command line; it is the first positional one."""

_DECLARES_READS = ("EXEC_CODE", "SHELL_EXEC")
"""The tools that run a program and take the files that it may read."""


def data_in_code(subject: Subject) -> Iterator[Finding]:
    """CHK050 for each call whose code argument contains a variable (the first one is named)."""
    for number, step, call in subject.calls:
        if call.tool in CODE_ARGUMENTS:
            yield from code_findings(number, call, step.action.span)


def code_findings(number: int, call: Call, span: Span | None) -> Iterator[Finding]:
    """CHK050 for a call of a tool that runs code, given into that code a variable; `span` is the step's."""
    name = CODE_ARGUMENTS[call.tool]
    value = dict(call.named).get(name)
    if value is None and call.positional:
        value = call.positional[0]
    ref = None if value is None or isinstance(value, Literal) else next(refs_of(value), None)
    if ref is not None:
        yield Finding(
            "CHK050",
            Severity.WARNING,
            f"${ref.name} becomes part of the {name} that @{call.tool} runs",
            number,
            ref.span or span,
            "whoever controls that data controls the code: pass it in a file, or use @SELECT, @CALC, @FORMAT",
            (ref.name,),
        )


def files_outside(subject: Subject) -> Iterator[Finding]:
    """CHK045 for each path that a program is declared to read and that leads out of the workspace."""
    for number, _, call in subject.calls:
        if call.tool in _DECLARES_READS:
            yield from file_findings(number, call)


def file_findings(number: int, call: Call) -> Iterator[Finding]:
    """CHK045 for each path that the program of a call is declared to read and that leads out."""
    reads = dict(call.named).get("reads") if call.tool in _DECLARES_READS else None
    for path in reads.items if isinstance(reads, ListExpr) else ():
        why = _outside(path.value) if isinstance(path, Literal) and isinstance(path.value, str) else None
        if why is not None and isinstance(path, Literal):
            yield Finding(
                "CHK045",
                Severity.ERROR,
                f"a program cannot read {path.value!r}: {why}",
                number,
                path.span or call.span,
                "name files, folders and globs of the workspace",
            )


def _outside(path: str) -> str | None:
    """Why a path is not one of the workspace; None for one that is."""
    from callsheet.policy import paths  # noqa: PLC0415 - only plans with file tools

    try:
        paths.workspace_path(path)
    except paths.PathRefused as error:
        return str(error)
    return None


def missing_answer(subject: Subject) -> Iterator[Finding]:
    """CHK015 for a text-ordered plan with neither RESPOND nor TERMINATE."""
    plan = subject.plan
    if plan.order is Order.TEXT and not any(
        plan.steps[number].course.ends in SAYING for number in subject.flow.turning
    ):
        yield Finding(
            "CHK015",
            Severity.WARNING,
            "the plan has neither @RESPOND nor TERMINATE: its answer is whatever was stored last",
            help='end it with a step such as @RESPOND ("Done:", $result)',
        )


def empty_outputs(subject: Subject) -> Iterator[Finding]:
    """CHK032 for an output variable of a step that has no result (GOTO, @RESPOND …)."""
    for number, step in enumerate(subject.plan.steps):
        if step.output is not None and step.call is None:
            yield Finding(
                "CHK032",
                Severity.WARNING,
                f"{word_of(step.action)} has no result, so ${step.output.var} is never set",
                number,
                step.output.span,
                f"delete `> ${step.output.var}`",
                (step.output.var,),
            )
