"""The plan of the Python program in a model's answer: read, checked, and looked over.

Pure. In: an answer, the request it answers. Out: the plan with its findings, or what is wrong with it.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import cast

from callsheet.authoring.compiler.answer_doubts import answers_alike, answers_sometimes, left_out
from callsheet.authoring.compiler.answers import (
    nodes_of,
    program_in,
    with_imports,
    with_main,
    with_own_names,
    with_results_awaited,
)
from callsheet.authoring.compiler.asking import NAME, Reading
from callsheet.authoring.compiler.catalogue import by_fit
from callsheet.authoring.compiler.mends import mended
from callsheet.authoring.compiler.origins import Origins, described_result
from callsheet.authoring.compiler.program_prompt import EXAMPLES, EXAMPLES_OF_SMALL
from callsheet.authoring.compiler.prompt import finding_line
from callsheet.authoring.compiler.quantities import is_date
from callsheet.authoring.compiler.request import Check, Request
from callsheet.authoring.compiler.value_doubts import doubtful, unstated
from callsheet.diagnostics import Diagnostic, Severity, Source, Span
from callsheet.frontends.python import Signature, read_python
from callsheet.ir import CallKind, Plan, call_kind
from callsheet.ir.tree import Tree, acts
from callsheet.passes import check as check_plan
from callsheet.passes.finding import ToolSignature
from callsheet.ports.tools import ToolSpec
from callsheet.views.python_types import docstring, table
from callsheet.views.stubs import function_name

MOST_OF_SMALL = 600
"""The most tokens of a small model's answer: one that goes on for longer repeats itself."""


def asks(question: str) -> Diagnostic:
    """CMP012 for a question in place of a plan."""
    return Diagnostic(
        "CMP012",
        Severity.ERROR,
        f"the model asks before it writes a plan: {question}",
        help="say it in the goal, or give the answer: see `callsheet explain CMP012`",
    )


def read_program_answer(
    answer: str, request: Request, check: Check, *, reads: Collection[str] | None = None
) -> Reading:
    """The checked plan of the program in an answer; errors have their places in what the model wrote.

    A program without a docstring gets the goal as that of its file, and is otherwise taken as it is, unless
    it is of a small model and mended: see `_mended`. `reads` are then the tools declared to only read.
    """
    tools = [function_name(spec.name) for spec in request.tools]
    program = with_own_names(with_main(program_in(answer), request.given), tools)
    program = with_results_awaited(program, tools)
    program = with_imports(program, _names_of(request))
    hidden = tuple(_hidden_tools(program, request))
    if hidden:
        return Reading(None, hidden, Source(NAME, program))
    example = EXAMPLES if reads is None else EXAMPLES_OF_SMALL
    if reads is not None:
        text, hints = mended(program, request, reads)
        reading = _with_goal(text, request, check, example) if hints else None
        if reading is not None and reading.plan is not None:
            return reading._replace(diagnostics=(*reading.diagnostics, *hints))
    return _with_goal(program, request, check, example)


def _with_goal(program: str, request: Request, check: Check, example: str) -> Reading:
    """The checked plan of a program with the goal as its docstring, if it has none."""
    reading = _checked(program, request, check, example)
    if reading.plan is None or _has_docstring(program):
        return reading
    return _checked(f"{docstring(_header(request.goal), '')}\n\n{program.lstrip()}", request, check, example)


def _names_of(request: Request) -> frozenset[str]:
    """The names of the tools, in lower case."""
    return frozenset(name.lower() for spec in request.tools for name in (spec.executor, spec.name))


def fields_of(tools: Iterable[ToolSpec]) -> frozenset[str] | None:
    """The fields of all results and arguments; None if the results of any tool are not declared.

    >>> spec = ToolSpec("T", "t", "", {"properties": {"n": {}}}, result={"properties": {"a": {}}})
    >>> sorted(fields_of([spec]))
    ['a', 'n']
    """
    found: dict[str, None] = {}
    for spec in tools:
        if not _has_shape(spec.result):
            return None
        for schema in (spec.parameters, spec.result):
            found |= dict.fromkeys(_fields_in(schema))
    return frozenset(found)


def _has_shape(result: object) -> bool:
    """Whether a schema says which fields there are, if there are any."""
    if not isinstance(result, Mapping):
        return False
    schema = cast("Mapping[str, object]", result)
    match schema.get("type"):
        case "array":
            return _has_shape(schema.get("items"))
        case "string" | "integer" | "number" | "boolean" | "null":
            return True
        case _:
            return bool(schema.get("properties"))


def _fields_in(schema: object) -> Iterator[str]:
    """The names of the properties anywhere in a schema."""
    if isinstance(schema, Mapping):
        node = cast("Mapping[str, object]", schema)
        properties = node.get("properties")
        if isinstance(properties, Mapping):
            yield from cast("Mapping[str, object]", properties)
        for inner in node.values():
            yield from _fields_in(inner)
    elif isinstance(schema, list):
        for inner in cast("list[object]", schema):
            yield from _fields_in(inner)


def _hidden_tools(program: str, request: Request) -> Iterator[Diagnostic]:
    """PYT010 for each function with the name of a tool: a model that copies a stub invents its results."""
    names = _names_of(request)
    for one in nodes_of(program):
        is_function = isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        if is_function and one.name.lower() in names:
            yield Diagnostic(
                "PYT010",
                Severity.ERROR,
                f"{one.name} is a tool, and must not be defined again: its result would be invented",
                _line(program, one.lineno),
                f"write async def main(): … and await {one.name}(…) in it",
            )


def _unnoticed_failures(program: str) -> Iterator[Diagnostic]:
    """CMP009 for each `except` around an await that does nothing, or only prints."""
    for one in nodes_of(program):
        if not isinstance(one, ast.Try) or not any(isinstance(n, ast.Await) for n in ast.walk(one)):
            continue
        for handler in one.handlers:
            if all(isinstance(each, ast.Pass | ast.Continue) or _prints(each) for each in handler.body):
                yield Diagnostic(
                    "CMP009",
                    Severity.WARNING,
                    "a call that fails here is passed over, and the run ends as done",
                    _line(program, handler.lineno),
                    "let the failure end the plan, or tell of it in the answer",
                )


def _prints(node: ast.stmt) -> bool:
    match node:
        case ast.Expr(value=ast.Call(func=ast.Name(id="print"))):
            return True
        case _:
            return False


def _line(program: str, number: int) -> Span:
    lines = program.split("\n")
    start = sum(len(line) + 1 for line in lines[: number - 1])
    return Span(start, start + len(lines[number - 1]))


def _checked(program: str, request: Request, check: Check, example: str) -> Reading:
    result = read_python(program, NAME)
    if result.plan is None:  # with the tools known, an unknown name is said to be one
        told = read_python(program, NAME, tools=_signatures(request))
        return Reading(None, (told if told.plan is None else result).diagnostics, result.source)
    found = (*result.diagnostics, *_unset_inputs(result.plan, request), *check(result.plan))
    found = (*found, *_undescribed(result.plan, request, found), *_unnoticed_failures(program))
    if result.plan.tree is not None:
        found = (
            *found,
            *unstated(result.plan.tree, request.told, request.tools, example),
            *answers_sometimes(result.plan.tree, _reading(request)),
            *answers_alike(result.plan.tree, _reading(request)),
            *_without_calls(result.plan.tree, request),
            *_left_out(result.plan.tree, request),
        )
    wrong = any(one.is_error for one in found)
    return Reading(None if wrong else result.plan, found, result.source)


_DOUBTS = (
    *("CHK120", "CHK121", "CHK130", "CHK131", "CHK132", "CHK133", "CHK134", "CHK135"),
    *("CMP010", "CMP011", "CMP013"),
)
"""What is found in a valid plan and makes it doubtful that it does what was meant."""


def with_doubts(reading: Reading) -> Reading:
    """The reading with its findings about what the plan does as doubts.

    What the goal says and the plan has nowhere is no reason to ask again, but is told beside one; a case
    without an answer is none, since a condition of the goal may well have nothing to do there.
    """
    found = [one for one in reading.diagnostics if one.severity is not Severity.HINT]
    if not any(one.code in _DOUBTS for one in found):
        return reading
    told = unplaced(one for one in found if one.code in (*_DOUBTS, "CMP016"))
    return reading._replace(doubts=tuple(dict.fromkeys(map(finding_line, told))))


def lookups(plan: Plan, request: Request) -> dict[tuple[str, str], dict[str, str]]:
    """The arguments of a plan's tools that need an id and have a value that nobody stated.

    Each with the tools that find it, by the names that programs know, and the place in their result.
    """
    if plan.tree is None:
        return {}
    found = doubtful(plan.tree, request.told, request.tools, EXAMPLES_OF_SMALL)
    return {
        (function_name(one.act.tool), one.argument): {origin.tool: origin.place for origin in one.origins}
        for one in found
        if one.origins
    }


_MOST_TOLD = 300
"""The most values that an argument may have; llama.cpp takes few more."""
_EDGES = ".,:;!?()[]{}<>\"'`“”„‘’"


def told_ids(tools: Iterable[ToolSpec], request: Request) -> dict[tuple[str, str], tuple[str | int, ...]]:
    """The arguments that take an id or an address, by the names that programs know, with all that was told.

    These are the words and short phrases of the goal, of what stands beside it, and of the argument's own
    description: an id is one of them, or in a result. A name among them can be looked up; one that is made
    up cannot. A long goal limits nothing.
    """
    origins, own = Origins(request.tools), tuple(_phrases(" ".join(request.told)))
    found: dict[tuple[str, str], tuple[str | int, ...]] = {}
    for spec in tools:
        properties = table(spec.parameters.get("properties"))
        for argument in filter(lambda name: origins.takes_id(spec, name), spec.parameter_names):
            schema = table(properties.get(argument))
            about = _phrases(f"{schema.get('description', '')} {schema.get('default', '')}", most=1)
            words = dict.fromkeys(one for one in (*own, *about) if not is_date(one))
            numbers = tuple(int(one) for one in words if one.isdecimal() and one.isascii())
            is_number = schema.get("type") in ("integer", "number")
            known = numbers if is_number else (*words, *(numbers if "type" not in schema else ()))
            if "enum" not in schema and len(known) <= _MOST_TOLD:
                found[function_name(spec.name), argument] = known
    return found


def _phrases(text: str, most: int = 3) -> Iterator[str]:
    """The words of a text, and up to `most` that follow each other within a clause."""
    words = text.split()
    for start in range(len(words)):
        for end in range(start, min(start + most, len(words))):
            phrase = " ".join(words[start : end + 1]).strip(_EDGES)
            for one in (phrase, phrase.removesuffix("'s").removesuffix("’s")):
                if one and not set(one) & set("\"'\\`"):
                    yield one
            if words[end][-1] in _EDGES:
                break


def changes_something(plan: Plan, request: Request) -> bool:
    """Whether a plan calls a tool that may change something."""
    reads = _reading(request)
    called = () if plan.tree is None else acts(plan.tree)
    return any(one.kind is CallKind.TOOL and one.tool not in reads for one in called)


def _reading(request: Request) -> frozenset[str]:
    """The tools that change nothing."""
    return frozenset(spec.name for spec in request.tools if spec.effect.only_reads)


def _left_out(tree: Tree, request: Request) -> Iterator[Diagnostic]:
    """CMP016 for a plan that calls something, and is given nothing in which it may stand; CMP013 for any."""
    is_whole = not request.given and next(acts(tree), None) is not None
    found = left_out(tree, request.goal, request.tools)
    return (one for one in found if is_whole or one.code == "CMP013")


def _without_calls(tree: Tree, request: Request) -> Iterator[Diagnostic]:
    """CMP011 for a plan that calls nothing although there are tools: it says what the model believed."""
    if request.tools and next(acts(tree), None) is None:
        nearest = by_fit(request.goal, [s for s in request.tools if call_kind(s.name) is CallKind.TOOL])
        names = ", ".join(function_name(spec.name) for spec in nearest[:_NEAREST])
        yield Diagnostic(
            "CMP011",
            Severity.WARNING,
            "the plan calls nothing: it looks nothing up and changes nothing",
            help=f"nearest to the goal are {names}; if it needs another tool, name it in the goal",
        )


_NEAREST = 4
"""The tools that are named where a plan calls none."""


def _signatures(request: Request) -> Mapping[str, Signature]:
    """The tools and operations as the reader of programs knows them."""
    return {
        function_name(spec.name): Signature(tuple(spec.parameter_names), is_open=True)
        for spec in request.tools
    }


def _undescribed(plan: Plan, request: Request, known: Collection[Diagnostic]) -> Iterator[Diagnostic]:
    """CHK120 as a warning for each field that the descriptions of the tools do not show, where they show any.

    Nothing declares these results, so that it may be there.
    """
    described = {
        spec.name: ToolSignature.from_schema(spec.parameters, spec.effect, result=shown)
        for spec in request.tools
        if not _has_shape(spec.result) and (shown := described_result(spec))
    }
    told = {(one.code, one.span) for one in known}
    for one in check_plan(plan, tools=described) if described else ():
        if one.code == "CHK120" and one.severity is Severity.ERROR and (one.code, one.span) not in told:
            yield replace(one, severity=Severity.WARNING, message=f"{one.message}, as it is described")


def _unset_inputs(plan: Plan, request: Request) -> Iterator[Diagnostic]:
    """RUN035 for each argument of the function that nothing gives a value."""
    for one in plan.tree.inputs if plan.tree is not None else ():
        if one.is_required and one.name not in request.given:
            yield Diagnostic(
                "RUN035",
                Severity.ERROR,
                f"the plan needs the input {one.name}, which is not given",
                one.span,
                "write async def main() without it, with the goal's own value where it is used",
            )


def _has_docstring(program: str) -> bool:
    try:
        tree = ast.parse(program)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return True
    functions = [one for one in tree.body if isinstance(one, ast.AsyncFunctionDef)]
    return any(ast.get_docstring(one) for one in (tree, *functions))


def _header(goal: str) -> str:
    return "\n".join(line.strip() for line in goal.strip().splitlines())


def no_program(answer: str) -> Diagnostic:
    """CMP006 for an answer without a program."""
    begins = " ".join(answer.split())[:80]
    return Diagnostic(
        "CMP006",
        Severity.ERROR,
        f"the model's answer contains no Python program: it begins {begins!r}",
        help="make the goal more precise, or try another model",
    )


def unplaced(diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Diagnostics for a model that does not see the program that they are about."""
    return tuple(replace(one, step=None) for one in diagnostics)


def placed(diagnostics: Iterable[Diagnostic], source: Source) -> tuple[Diagnostic, ...]:
    """Diagnostics for the model that wrote a program: each says its line."""
    lines = source.text.split("\n")
    told: list[Diagnostic] = []
    for one in diagnostics:
        if one.span is None:
            told.append(one)
            continue
        number = source.text.count("\n", 0, one.span.start)
        told.append(
            replace(one, message=f"line {number + 1} `{lines[number].strip()}`: {one.message}", step=None)
        )
    return tuple(told)
