"""Validates and converts the arguments of library callers: tools, variables, decisions, run ids.

In: Python values. Out: copies as JSON values, tools, or an error that names the argument.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, cast

from callsheet import lazy
from callsheet.diagnostics import CallsheetError, meant
from callsheet.diagnostics.wrong_type import wanted, wanted_list, wanted_names
from callsheet.ir import JSON
from callsheet.machine import Decision, TookPlace
from callsheet.ports.calls import ToolFailed
from callsheet.ports.python_tools import to_json
from callsheet.ports.tools import Tool
from callsheet.store import check_run_id, new_run_id
from callsheet.store.run_index import check_tags

if TYPE_CHECKING:
    from callsheet.runtime.answers import Answer
    from callsheet.runtime.doubt import Resolution

_NAME = lazy.pattern(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_PLACED_NAME = lazy.pattern(r"(?:[^/\s]+/)*[A-Za-z_][A-Za-z0-9_]*", re.ASCII)

InDoubt: TypeAlias = "Decision | Literal['retry', 'skip', 'fail'] | TookPlace"
"""A decision on calls that may or may not have taken place: call again (`retry`), take null as the result
(`skip`), treat them as failed (`fail`), or use the value that they returned (`TookPlace`)."""


def names_of(given: Iterable[str], argument: str) -> Iterable[str]:
    """A list of tool names; raises TypeError for a single string, which would be iterated by letter."""
    if isinstance(given, str):
        raise TypeError(f"{argument} must be a list of names: {argument}=[{given!r}]")
    names = wanted_list(argument, given, "names")
    return [wanted(argument, name, str, "a list of names") for name in names]


def values_of(
    inputs: Mapping[str, Any] | None, argument: str = "inputs", *, placed: bool = False
) -> dict[str, JSON]:
    """The variables of a run, copied as JSON; raises CallsheetError (RUN022) for an invalid name or value.

    `argument` is the name of the parameter for the message of a TypeError. Names may be `placed` in an item
    or sub-plan, as in `S2[4]/left`.
    """
    values: dict[str, JSON] = {}
    for name, value in wanted_names(argument, inputs).items():
        if (_PLACED_NAME if placed else _NAME).fullmatch(name) is None:
            raise _cannot_be_given(name, "it is not a name", "names are letters, digits and _, without $")
        try:
            values[name] = to_json(value)
        except ToolFailed as error:
            raise _cannot_be_given(f"${name}", str(error), "give JSON data") from error
    return values


def inputs_for(
    plan: object, inputs: Mapping[str, Any] | None, named: Mapping[str, Any]
) -> Mapping[str, Any] | None:
    """The inputs of a run, with those that were given by name, as to a function with `@plan`.

    Raises TypeError, as Python does, for names that the function does not have, and for any name where the
    plan is no function.
    """
    if not named:
        return inputs
    from callsheet.api.functions import PlanFunction  # noqa: PLC0415 - only for plans in modules

    first = next(iter(named))
    if not isinstance(plan, PlanFunction):
        raise TypeError(
            f"unexpected keyword argument {first!r}: only a function with @plan takes its inputs"
            f" by name; give {{{first!r}: …}} as inputs"
        )
    function = cast("PlanFunction[..., Any]", plan)
    unknown = next((name for name in named if name not in function.parameters), None)
    if unknown is not None:
        hint = meant(unknown, function.parameters, f"it takes {', '.join(function.parameters) or 'none'}")
        raise TypeError(f"{function.__name__} has no argument {unknown}: {hint}")
    both = sorted(named.keys() & wanted_names("inputs", inputs).keys())
    if both:
        raise TypeError(f"{both[0]} is given twice: by name and in inputs")
    return {**wanted_names("inputs", inputs), **named}


class RunInputs(NamedTuple):
    """The input variables of a run, and the names of the secret ones."""

    values: Mapping[str, JSON]
    secret: frozenset[str] = frozenset()
    tags: Mapping[str, str] = MappingProxyType({})


def with_secrets(
    inputs: Mapping[str, Any] | None, secrets: Mapping[str, Any] | None
) -> tuple[dict[str, JSON], frozenset[str]]:
    """All variables of a run, and the names of the secret ones.

    Raises CallsheetError: RUN022 for an invalid name or value, SEC005 for a name in both mappings.
    """
    values, secret = values_of(inputs), values_of(secrets, "secrets")
    both = sorted(values.keys() & secret.keys())
    if both:
        raise CallsheetError.single(
            "SEC005", f"{both[0]} is given twice", help="give each variable once: in inputs or in secrets"
        )
    return {**values, **secret}, frozenset(secret)


def tags_of(given: Mapping[str, Any] | None) -> Mapping[str, str]:
    """The tags of a run; raises CallsheetError (RUN022) for some that no run can have."""
    try:
        return check_tags(wanted_names("run_tags", given).items())
    except ValueError as error:
        raise CallsheetError.single("RUN022", f"the run cannot be tagged: {error}") from None


def assumed_results(given: Mapping[str, Any] | None) -> dict[str, JSON]:
    """Assumed results by step id, copied as JSON; raises CallsheetError (RUN040) for what has no JSON."""
    values: dict[str, JSON] = {}
    for step_id, value in wanted_names("assume", given).items():
        try:
            values[step_id] = to_json(value)
        except ToolFailed as error:
            message = f"the result of {step_id} cannot be assumed: {error}"
            raise CallsheetError.single("RUN040", message, help="give JSON data") from error
    return values


def _cannot_be_given(name: str, reason: str, hint: str) -> CallsheetError:
    return CallsheetError.single("RUN022", f"the variable {name} cannot be given: {reason}", help=hint)


def verdict_of(given: InDoubt) -> Resolution:
    """The decision in the runtime's type.

    Raises ToolFailed for a `TookPlace` value that has no JSON, ValueError for an unknown word.
    """
    if isinstance(given, TookPlace):
        return TookPlace(to_json(given.value))
    try:
        return Decision(given)
    except ValueError:
        words = ", ".join(map(repr, map(str, Decision)))
        raise ValueError(f"{given!r} is not a decision; use one of {words} or TookPlace(value)") from None


def id_of_run(given: str | None) -> str:
    """The given id or a new one; raises JournalError (JRN001) for an invalid id."""
    return new_run_id() if given is None else check_run_id(given)


ToolSource: TypeAlias = "Callable[..., Any] | Tool | str | os.PathLike[str]"
"""A function, decorated with `@tool` or plain (then its effect is `unsafe`), a `Tool`, or the
path of a Python file with decorated functions."""


def tool_sources(given: Iterable[ToolSource]) -> tuple[ToolSource, ...]:
    """The sources of tools, each once looked at; raises TypeError for what is no list of them."""
    if callable(given) or isinstance(given, str | os.PathLike):
        raise TypeError("tools takes a list: tools=[…]")
    return tuple(cast("Iterable[ToolSource]", wanted_list("tools", given, "functions, Tools and paths")))


def read_tools(sources: Iterable[ToolSource]) -> tuple[Tool, ...]:
    """The tools of all sources, in order.

    Raises CallsheetError: CFG105 for a function that cannot be a tool, CFG100 to CFG104 for a file;
    TypeError for a source of another type.
    """
    tools: list[Tool] = []
    for source in tool_sources(sources):
        if isinstance(source, Tool):
            tools.append(source)
        elif isinstance(source, str | os.PathLike):
            from callsheet.ports.python_tools import load_tools  # noqa: PLC0415 - brings asyncio, as below

            tools += load_tools(Path(cast("str | os.PathLike[str]", source)))
        elif callable(source):
            from callsheet.ports.python_tools import tool_of  # noqa: PLC0415 - as above

            tools.append(tool_of(source))
        else:
            raise TypeError(f"a tool is a function, a Tool or a path, not {type(source).__name__}")
    return tuple(tools)


def answer_of(given: object) -> Answer:
    """The answer given; only a real bool is a yes or a no, so that the truthy text "no" is refused."""
    from callsheet.runtime.answers import Answer  # noqa: PLC0415 - brings the runtime, which checks need not

    match given:
        case Answer():
            return given
        case bool():
            return Answer.approve() if given else Answer.deny()
        case _:
            kind = type(given).__name__
            raise CallsheetError.single(
                "RUN031",
                f"an answer is True, False or an Answer, not a {kind}",
                help="Answer.of(…) answers a question; Answer.approve() and Answer.deny() say yes and no",
            )
