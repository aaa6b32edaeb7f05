"""Declares the transforms as tools, and validates their literal arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from callsheet.ir import JSON, Effect, executor_name
from callsheet.machine import ToolFacts
from callsheet.machine.values import to_text
from callsheet.ports.builtin.declare import in_thread
from callsheet.ports.calls import CallContext, ToolFailed
from callsheet.ports.tools import Handler, Tool, ToolSpec
from callsheet.ports.transforms.work import Fault, TooMuchWork

if TYPE_CHECKING:
    from callsheet.machine.forecasting import Computed
    from callsheet.passes.finding import LiteralCheck

ORIGIN = "transform"
"""The origin of a transform, in its declaration."""
_DATA = {"description": "any value; the text of a JSON list or object is parsed"}
_QUERY = {"type": "string", "description": "JMESPath"}
_EXPRESSION = {"type": ["string", "number", "boolean"], "description": "arithmetic, such as 2 * (3.5 + 1)"}
_TEXT = {"description": "the text, with its references"}
_CHECKED = {"SELECT": "query", "CALC": "expression"}


def transform_tools() -> list[Tool]:
    """`@SELECT`, `@CALC` and `@FORMAT`.

    >>> [tool.spec.name for tool in transform_tools()]
    ['SELECT', 'CALC', 'FORMAT']
    """
    return [
        _declare(
            "SELECT",
            "Filter, sort, pick, group, sum, match or reshape data with a JMESPath query.",
            {"data": _DATA, "query": _QUERY},
            _select,
        ),
        _declare("CALC", "Evaluate an arithmetic expression exactly.", {"expression": _EXPRESSION}, _calc),
        _declare("FORMAT", "Return a text with its references filled in.", {"text": _TEXT}, _format),
    ]


def transform_facts() -> dict[str, ToolFacts]:
    """The facts that a run needs about the transforms, by name."""
    specs = (tool.spec for tool in transform_tools())
    return {spec.name: ToolFacts(spec.effect, spec.parameter_names) for spec in specs}


def _declare(name: str, description: str, properties: dict[str, Any], handler: Handler) -> Tool:
    parameters = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    spec = ToolSpec(
        name=name,
        executor=executor_name(name),
        description=description,
        parameters=parameters,
        effect=Effect.PURE,
        origin=ORIGIN,
    )
    return Tool(spec, handler)


# ---------------------------------------------------------------- handlers


async def _select(arguments: dict[str, Any], _context: CallContext) -> JSON:
    data, query, bound = _query_arguments(arguments)
    from callsheet.ports.transforms.query import search  # noqa: PLC0415 - brings JMESPath
    from callsheet.ports.transforms.work import AT_ONCE, Work  # noqa: PLC0415 - as above

    try:
        try:
            return search(data, query, Work(AT_ONCE), bound)
        except TooMuchWork:
            return await in_thread(search, data, query, Work(), bound)
    except Fault as fault:
        raise fault.failure(query) from None


async def _calc(arguments: dict[str, Any], _context: CallContext) -> JSON:
    from callsheet.ports.transforms.arithmetic import worked_out  # noqa: PLC0415 - not for a declaration

    (expression,) = _required_arguments(arguments, "expression")
    try:
        if isinstance(expression, str) and len(expression) > _LONG:
            return await in_thread(worked_out, expression)
        return worked_out(expression)
    except Fault as fault:
        raise fault.failure(expression if isinstance(expression, str) else "") from None


_LONG = 2_000


async def _format(arguments: dict[str, Any], _context: CallContext) -> JSON:
    (text,) = _required_arguments(arguments, "text")
    return to_text(text)


def _query_arguments(arguments: dict[str, Any]) -> tuple[Any, str, dict[str, Any]]:
    """The data and the query of a SELECT, and the parameters of the query: all other arguments."""
    bound = {name: value for name, value in arguments.items() if name not in ("data", "query")}
    data, query = _required_arguments(
        {name: value for name, value in arguments.items() if name not in bound}, "data", "query"
    )
    if not isinstance(query, str):
        raise ToolFailed("the query must be text")
    if bound and "$" not in query:
        over = next(iter(bound))
        raise ToolFailed(
            f"{over} is not one of its arguments; put several values into one list: [$a, $b], or read it as"
            f" ${over} in the query"
        )
    return data, query, bound


def _required_arguments(arguments: dict[str, Any], *names: str) -> tuple[Any, ...]:
    """The arguments of these names; raises ToolFailed if one is missing or there are others."""
    for name in names:
        if name not in arguments:
            raise ToolFailed(f"the argument {name} is missing")
    if len(arguments) > len(names):
        over = next(name for name in arguments if name not in names)
        raise ToolFailed(f"{over} is not one of its arguments; put several values into one list: [$a, $b]")
    return tuple(arguments[name] for name in names)


# ---------------------------------------------------------------- before the run


def work_out(tool: str, arguments: dict[str, Any]) -> Computed | None:
    """The result of a transform for a forecast; None if it would be expensive.

    >>> work_out("CALC", {"expression": "6 * 7"})
    Computed(succeeds=True, value=42)
    """
    from callsheet.machine.forecasting import Computed  # noqa: PLC0415 - only for a forecast
    from callsheet.ports.answers import as_json, failure_text  # noqa: PLC0415 - brings asyncio

    try:
        value = as_json(_worked_out(tool, arguments))
        if isinstance(value, dict) and value.get("success") is False:
            raise ToolFailed(failure_text(value))
    except TooMuchWork:
        return None
    except Fault as fault:
        literal = arguments.get(_CHECKED.get(tool, ""))
        return Computed(False, str(fault.failure(literal if isinstance(literal, str) else "")))
    except ToolFailed as failure:
        return Computed(False, str(failure))
    return None if _is_long(value) else Computed(True, value)


def _worked_out(tool: str, arguments: dict[str, Any]) -> JSON:
    if tool == "FORMAT":
        return to_text(*_required_arguments(arguments, "text"))
    if tool == "CALC":
        from callsheet.ports.transforms.arithmetic import worked_out  # noqa: PLC0415 - as above

        (expression,) = _required_arguments(arguments, "expression")
        if isinstance(expression, str) and len(expression) > _LONG:
            raise TooMuchWork("the expression is long")
        return worked_out(expression)
    from callsheet.ports.transforms.query import search  # noqa: PLC0415 - brings JMESPath
    from callsheet.ports.transforms.work import Work  # noqa: PLC0415 - as above

    data, query, bound = _query_arguments(arguments)
    return search(data, query, Work(_FORESEEN), bound)


_FORESEEN = 200_000
"""The limit on work of a query before the run."""
_LONG_TEXT = 1_000_000


def _is_long(value: JSON) -> bool:
    return isinstance(value, str) and len(value) > _LONG_TEXT


def fault_of_literal(tool: str, literal: JSON) -> Fault | None:
    """What is wrong with the literal query or expression of a transform, None if nothing is."""
    try:
        if tool == "SELECT" and isinstance(literal, str):
            from callsheet.ports.transforms.query import compiled  # noqa: PLC0415 - brings JMESPath

            compiled(literal)
        elif tool == "CALC":
            from callsheet.ports.transforms.arithmetic import worked_out  # noqa: PLC0415 - as above

            worked_out(literal)
    except Fault as fault:
        return fault
    return None


def literal_check(tool: str) -> LiteralCheck | None:
    """The check of a transform's literal arguments, None if it has none."""
    checked = _CHECKED.get(tool)
    if checked is None:
        return None

    def check(name: str, literal: JSON) -> str | None:
        fault = fault_of_literal(tool, literal) if name == checked else None
        return None if fault is None else fault.message

    return check
