"""The documented tools: the names of their positional arguments, and the aliases of a tool."""

from __future__ import annotations

from callsheet.ir import Call, Plan, Value, canonical_tool_name, executor_name
from callsheet.ir.operations import EXECUTOR_NAMES
from callsheet.machine import ToolFacts

PARAMETERS: dict[str, tuple[str, ...]] = {
    "WEB_SEARCH": ("query",),
    "FETCH_PAGE": ("url",),
    "EXEC_CODE": ("code", "language"),
    "SHELL_EXEC": ("code",),
    "READ_FILE": ("path",),
    "WRITE_FILE": ("path", "content"),
    "EDIT_FILE": ("path", "old", "new"),
    "SEARCH_FILES": ("pattern",),
    "QUERY_MEMORY": ("query",),
    "STORE_FACT": ("content", "importance"),
    "SET_WM": ("key", "value"),
    "GET_WM": ("key",),
    "INSTALL_PKG": ("language", "packages"),
    "HOST_EXEC": ("command",),
    "HOST_FILE_READ": ("path",),
    "HOST_FILE_LIST": ("path",),
}
REPLAN = "RE-PLAN"
_PACKAGE_NAMES = {
    "FETCH_PAGE": "fetch_webpage",
    "SEARCH_FILES": "search_workspace",
    "SET_WM": "set_working_memory",
    "GET_WM": "get_working_memory",
}
"""The names by which executors of the documented package know tools, where they are not ours."""
_BY_EXECUTOR_NAME = {
    executor.upper(): tool
    for tool, executor in {**EXECUTOR_NAMES, **_PACKAGE_NAMES}.items()
    if tool != "SHELL_EXEC"
} | dict.fromkeys(("RE_PLAN", "REPLAN"), REPLAN)


def documented_tool(name: str) -> str:
    """The documented name of a tool, given as in a plan or as an executor calls it.

    >>> documented_tool("@exec_code"), documented_tool("execute_code"), documented_tool("fetch_webpage")
    ('EXEC_CODE', 'EXEC_CODE', 'FETCH_PAGE')
    """
    tool = canonical_tool_name(name)
    return _BY_EXECUTOR_NAME.get(tool, tool)


def documented_executor_name(tool: str) -> str:
    """The name with which an executor is asked for a tool.

    >>> documented_executor_name("FETCH_PAGE"), documented_executor_name("FETCH_WEBPAGE")
    ('fetch_webpage', 'fetch_webpage')
    """
    return _PACKAGE_NAMES.get(documented_tool(tool)) or executor_name(tool)


def parameters_of(tool: str) -> tuple[str, ...]:
    """The names of a tool's positional arguments, in order."""
    return PARAMETERS.get(documented_tool(tool), ())


def documented_facts(plan: Plan) -> dict[str, ToolFacts]:
    """The facts about a plan's tools that an executor callback carries out.

    Their effects are unknown, so each of them may do anything.
    """
    called = {step.action.tool for step in plan.steps if isinstance(step.action, Call)}
    return {tool: ToolFacts(parameters=parameters_of(tool)) for tool in called}


def argument(call: Call, name: str) -> Value | None:
    """The value of an argument of a documented tool, given by name or position; None if missing."""
    given = dict(call.named)
    if name in given:
        return given[name]
    free = [parameter for parameter in parameters_of(call.tool) if parameter not in given]
    place = free.index(name) if name in free else len(call.positional)
    return call.positional[place] if place < len(call.positional) else None
