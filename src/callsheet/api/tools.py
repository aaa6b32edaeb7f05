"""Turns what users give as tools (functions, files of functions, `Tool` objects) into a list of tools.

In: the argument of `Runtime(tools=…)` or `plan.check(tools=…)`. Out: tools, or CallsheetError.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeAlias, cast

from callsheet.diagnostics.wrong_type import wanted_list
from callsheet.ports.tools import Tool

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
